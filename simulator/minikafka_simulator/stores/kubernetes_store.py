"""The cluster store on a simulated Kubernetes: production's store, reflectors and topic reconciler, each in its broker's process.

They are coroutines in virtual time that speak (:mod:`kubernetes_client`) with a simulated API server (:mod:`api_server`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from minikafka.kubernetes import lease as leases
from minikafka.kubernetes import topics
from minikafka.kubernetes.api import CONFIG_MAP, LEASE, TOPIC
from minikafka.kubernetes.document import PLAIN
from minikafka.kubernetes.topic_reconciler import ActiveController
from minikafka.metadata.store import Changes, StoreError, StoreWentBackError
from minikafka.server.controller_role import Reconcile

from minikafka_simulator.stores.api_server import SimApiServer, SimWatchEvent
from minikafka_simulator.stores.brokers import StoreBroker, StoreCluster
from minikafka_simulator.stores.kubectl_user import KubectlUser
from minikafka_simulator.stores.kubernetes_client import CLUSTER, StoreClient
from minikafka_simulator.stores.store import Failed, SimStore

if TYPE_CHECKING:
    from minikafka.controller.term import Commit


class KubernetesStores(SimStore):
    """One API server; each incarnation of a broker has a store of its own.

    Args:
        seed: of all choices made here.
        heartbeat: seconds between two heartbeats of a broker.
    """

    def __init__(self, world: StoreCluster, seed: int, heartbeat: float) -> None:
        super().__init__(world)
        self.heartbeat = heartbeat
        self.random = Random(f"kubernetes {seed}")
        self.server = SimApiServer(self._changed)
        self.kubectl_user = KubectlUser(world, self.server, CLUSTER, Random(f"people {seed}"))
        self._clients: dict[int, StoreClient] = {}
        self._writer: StoreClient | None = None
        """Whose request the server carries out."""
        self._revision = 0

    def carry_out(self, client: StoreClient, method: str, target: str, body: bytes) -> dict[str, Any]:
        """At the server, now. Raises Refusal."""
        self._writer = client
        try:
            return self.server.request(method, target, body)
        finally:
            self._writer = None

    def _changed(self, change: SimWatchEvent) -> None:
        if change.plural == LEASE.plural:
            self.held = leases.from_object(change.object)
        elif change.plural == CONFIG_MAP.plural:
            revision = json.loads(change.object["data"][PLAIN])["revision"]
            writer = self._writer
            if revision > self._revision and writer is not None and writer.committing is not None:
                written, writer.committing = writer.committing, None
                written()
            self._revision = revision
        for client in self._clients.values():
            client.wake()

    # -- what brokers ask -----------------------------------------------------------------------------------------------

    def heal(self) -> None:
        super().heal()
        self.kubectl_user.stop()

    def could_not_open(self, why: str) -> None:
        self.kubectl_user.broker_ended(why)

    def connect(self, broker: StoreBroker) -> None:
        client = self._clients[broker.id] = StoreClient(self, broker)
        client.run(client.live())

    def disconnect(self, broker: StoreBroker) -> None:
        client = self._clients.pop(broker.id, None)
        if client is not None:
            client.loop.end()

    def close(self) -> None:
        for broker in list(self.world.brokers.values()):
            self.disconnect(broker)

    def changes_for(self, broker: StoreBroker, since: int) -> Changes:
        reading = self._clients[broker.id].store.changes(since)
        try:
            reading.send(None)
        except StopIteration as found:
            changes: Changes = found.value
            return changes
        except StoreWentBackError as error:
            raise AssertionError(f"nobody put an earlier state back: {error}") from error
        raise AssertionError("what was seen is told at once")

    def _ask(
        self, broker: StoreBroker, work: Callable[[Any], Any], done: Callable[[Any], None], failed: Failed
    ) -> None:
        client = self._clients[broker.id]

        def over(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                client.later(0.0, partial(done, task.result()))
            elif isinstance(error, StoreError):
                self.noted(broker, error)
                client.later(0.0, partial(failed, error))
            else:
                raise error

        client.run(work(client.store)).add_done_callback(over)

    async def _write(self, broker: StoreBroker, store: Any, commit: Commit, written: Callable[[], None]) -> None:
        client = self._clients[broker.id]
        client.committing = written
        try:
            await store.commit(commit.controller_epoch, commit.records)
        except StoreError:
            client.committing = None
            raise
        client.committing = None  # not when the process dies: what is under way to the server may be written after that

    def out_of_line(self) -> str | None:
        found = self.server.find(CONFIG_MAP.plural, f"{CLUSTER}-metadata")
        wanted = {} if found is None else json.loads(found["data"][PLAIN])["topics"]
        shown = {}
        for value in self.server.all(TOPIC.plural):
            state = topics.state_of(value)
            if state is None and (value.get("status") or {}).get("conditions"):
                continue  # it was refused, and says why
            shown[topics.topic_name(value)] = None if state is None else state[0]
        if shown == wanted:
            return None
        return f"the objects of topics show the revisions {shown}, the topics are at {wanted}"

    def reconcile_of(self, broker: StoreBroker) -> Reconcile:
        async def reconcile(controller: ActiveController) -> None:
            await self._clients[broker.id].reconcile(controller)

        return reconcile
