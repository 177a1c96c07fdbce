"""The cluster store on a simulated Kubernetes: production's store, reflectors and topic reconciler, each in its broker's process.

They are coroutines (:mod:`virtual_loop`) that speak with a simulated API server (:mod:`api_server`). On the way there requests
and answers are lost, servers are busy or compact their history, and watches end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

from minikafka.controller.controller import Controller
from minikafka.kubernetes import lease as leases
from minikafka.kubernetes import topics
from minikafka.kubernetes.api import CONFIG_MAP, LEASE, TOPIC, KubernetesApi
from minikafka.kubernetes.connection import Answer, ApiUnreachable, HttpClient
from minikafka.kubernetes.credentials import Access
from minikafka.kubernetes.document import PLAIN
from minikafka.metadata.store import Changes, Lease, Snapshot, StoreError, StoreWentBackError
from minikafka.protocol.errors import KafkaError

from minikafka_chaos.simulation.api_server import ApiServer, Change, Refusal
from minikafka_chaos.simulation.people import People
from minikafka_chaos.simulation.store import CLUSTER_ID, Failed, SimStore
from minikafka_chaos.simulation.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.cluster import SimCluster
    from minikafka_chaos.simulation.role import SimRole

T = TypeVar("T")

CLUSTER = "sim"
PATIENCE_HEARTBEATS = 3
TROUBLE = 0.01
"""The share of requests that the server answers with 429 or 500, done or not."""
COMPACTED = 0.05
"""The share of watches whose resourceVersion the server no longer knows."""
WATCH_SECONDS = (0.5, 4.0)
"""When servers end a watch."""
LOOK_SECONDS = 0.3
"""How soon a watcher notices that its connection is gone."""


class KubernetesStores(SimStore):
    """One API server; each incarnation of a broker has a store of its own.

    Args:
        seed: of all choices made here.
    """

    def __init__(self, world: SimCluster, seed: int) -> None:
        super().__init__(world)
        self.random = Random(f"kubernetes {seed}")
        self.server = ApiServer(self._changed)
        self.people = People(world, self.server, CLUSTER, Random(f"people {seed}"))
        self._clients: dict[int, _Client] = {}
        self._writer: _Client | None = None
        """Whose request the server carries out."""
        self._revision = 0

    def carry_out(self, client: _Client, method: str, target: str, body: bytes) -> dict[str, Any]:
        """At the server, now. Raises Refusal."""
        self._writer = client
        try:
            return self.server.request(method, target, body)
        finally:
            self._writer = None

    def _changed(self, change: Change) -> None:
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
        self.people.stop()

    def connect(self, broker: SimBroker) -> None:
        client = self._clients[broker.id] = _Client(self, broker)
        client.run(client.live())

    def disconnect(self, broker: SimBroker) -> None:
        client = self._clients.pop(broker.id, None)
        if client is not None:
            client.loop.end()

    def close(self) -> None:
        for broker in list(self.world.brokers.values()):
            self.disconnect(broker)

    def changes_for(self, broker: SimBroker) -> Changes:
        reading = self._clients[broker.id].store.changes(broker.image.revision)
        try:
            reading.send(None)
        except StopIteration as found:
            changes: Changes = found.value
            return changes
        except StoreWentBackError as error:
            raise AssertionError(f"nobody put an earlier state back: {error}") from error
        raise AssertionError("what was seen is told at once")

    def _ask(self, broker: SimBroker, work: Coroutine[Any, Any, T], done: Callable[[T], None], failed: Failed) -> None:
        client = self._clients[broker.id]

        def over(task: asyncio.Task[T]) -> None:
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

        client.run(work).add_done_callback(over)

    def read_lease(self, broker: SimBroker, done: Callable[[Lease | None], None], failed: Failed) -> None:
        self._ask(broker, self._clients[broker.id].store.lease(), done, failed)

    def take_lease(
        self, broker: SimBroker, expected_epoch: int, done: Callable[[Lease | None], None], failed: Failed
    ) -> None:
        taking = self._clients[broker.id].store.acquire(broker.id, "sim", broker.id, expected_epoch)
        self._ask(broker, taking, done, failed)

    def renew_lease(self, broker: SimBroker, lease: Lease, done: Callable[[Lease], None], failed: Failed) -> None:
        self._ask(broker, self._clients[broker.id].store.renew(lease), done, failed)

    def read_snapshot(self, broker: SimBroker, done: Callable[[Snapshot], None], failed: Failed) -> None:
        self._ask(broker, self._clients[broker.id].store.snapshot(), done, failed)

    def commit(
        self,
        broker: SimBroker,
        controller_epoch: int,
        records: Mapping[str, Any],
        written: Callable[[], None],
        done: Callable[[], None],
        failed: Failed,
    ) -> None:
        client = self._clients[broker.id]

        def over() -> None:
            client.committing = None

        def refused(error: StoreError) -> None:
            over()
            failed(error)

        def accepted(_: int) -> None:
            over()
            done()

        client.committing = written
        self._ask(broker, client.store.commit(controller_epoch, records), accepted, refused)

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

    def attend(self, role: SimRole) -> None:
        client = self._clients[role.broker.id]
        client.attending = client.run(client.store.attend(_Desk(role)))
        client.attending.add_done_callback(_ends_the_run)

    def leave(self, role: SimRole) -> None:
        client = self._clients.get(role.broker.id)
        if client is not None and client.attending is not None:
            client.attending.cancel()
            client.attending = None


class _Client:
    """The store of one incarnation of a broker."""

    def __init__(self, stores: KubernetesStores, broker: SimBroker) -> None:
        world = stores.world
        self.stores = stores
        self.broker = broker
        self.incarnation = broker.incarnation
        self.committing: Callable[[], None] | None = None
        self.attending: asyncio.Task[None] | None = None
        self.changed: dict[asyncio.Event, None] = {}
        """Of watches that are open."""
        self.loop = VirtualLoop(lambda: world.now, self.later)  # type: ignore[abstract]
        api = KubernetesApi(
            cast(Access, None),
            CLUSTER,
            http=_Http(self),
            jitter=stores.random.random,
            utc_now=lambda: datetime.fromtimestamp(world.now_ms / 1000, UTC),
        )
        self.store = world.rules.kubernetes_store(api, CLUSTER, patience=PATIENCE_HEARTBEATS * world.heartbeat)

    def later(self, delay: float, event: Callable[[], None]) -> None:
        """An event of this incarnation; nothing when it is dead already."""
        broker, incarnation = self.broker, self.incarnation
        if broker.up and broker.incarnation == incarnation:
            self.stores.world.scheduler.at(delay, lambda: broker.run(incarnation, event))

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.loop.create_task(work)

    def wake(self) -> None:
        """Something has changed at the server: watches tell it after a while."""
        for changed in self.changed:
            late = self.stores.slow.get(self.broker.id, 0.0)
            self.later(late + self.stores.random.uniform(0.0005, 0.02), changed.set)

    async def live(self) -> None:
        """Open the store, begin, and tell the broker whenever there is something new."""
        await self.store.open(CLUSTER_ID)
        self.later(0.0, self.broker.begin)
        seen = -1
        while True:
            await self.store.wait(seen, 1.0)
            if self.store.records.revision != seen:
                seen = self.store.records.revision
                self.later(0.0, self.broker.sync)


class _Http(HttpClient):
    """The way to the API server."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._stores = client.stores

    def close(self) -> None:
        """A process that stops says nothing to the server."""

    async def request(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes, timeout: float
    ) -> Answer:
        del headers
        client, stores = self._client, self._stores
        if client.loop.ended:
            raise ApiUnreachable("this process is no more", sent=False)
        answer: asyncio.Future[Answer | ApiUnreachable] = client.loop.create_future()

        def arrive() -> None:
            outcome = self._outcome(method, target, body)
            client.later(0.0, lambda: None if answer.done() else answer.set_result(outcome))

        stores.world.scheduler.at(stores.world.store_time(), arrive)
        try:
            async with asyncio.timeout(timeout):
                outcome = await answer
        except TimeoutError as error:
            raise ApiUnreachable("Kubernetes API: no answer in time", sent=True) from error
        if isinstance(outcome, ApiUnreachable):
            raise outcome
        return outcome

    def _outcome(self, method: str, target: str, body: bytes) -> Answer | ApiUnreachable:
        client, stores = self._client, self._stores
        try:
            stores.check(client.broker.id)
        except StoreError as error:
            return ApiUnreachable(str(error), sent=stores.random.random() < 0.5)
        trouble = stores.random.random() if stores.random.random() < TROUBLE else 1.0
        if trouble < 0.5:
            busy = Refusal(429, "TooManyRequests", "try again") if trouble < 0.25 else _TIMED_OUT
            return _answer(busy.status, busy.body)
        try:
            found = stores.carry_out(client, method, target, body)
        except Refusal as refusal:
            return _answer(refusal.status, refusal.body)
        if trouble < 1.0:
            return _answer(_TIMED_OUT.status, _TIMED_OUT.body)
        if stores.world.outcome_is_lost():
            return ApiUnreachable("Kubernetes API: the answer was lost", sent=True)
        return _answer(200, found)

    @asynccontextmanager
    async def stream(
        self, target: str, timeout: float, inactivity: float
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        del timeout, inactivity
        client, stores = self._client, self._stores
        await asyncio.sleep(stores.world.store_time())
        self._check()
        if stores.random.random() < COMPACTED:
            gone = Refusal(410, "Expired", "too old resource version")
            yield gone.status, {}, _whole(json.dumps(gone.body).encode())
            return
        changed = asyncio.Event()
        client.changed[changed] = None
        try:
            yield 200, {}, self._events(target, changed)
        finally:
            client.changed.pop(changed, None)

    def _check(self) -> None:
        try:
            self._stores.check(self._client.broker.id)
        except StoreError as error:
            raise ApiUnreachable(str(error), sent=True) from error

    async def _events(self, target: str, changed: asyncio.Event) -> AsyncIterator[bytes]:
        """Until the server ends the watch, or the connection is lost."""
        stores, url = self._stores, urlsplit(target)
        query = parse_qs(url.query)
        version, selector = int(query["resourceVersion"][0]), query.get("fieldSelector", [None])[0]
        plural = url.path.rpartition("/")[2]
        end = stores.world.now + stores.random.uniform(*WATCH_SECONDS)
        while stores.world.now < end:
            changed.clear()
            for change in stores.server.after(version, plural, selector):
                version = change.version
                yield json.dumps({"type": change.type, "object": change.object}).encode() + b"\n"
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await changed.wait()
            except TimeoutError:
                pass
            self._check()


class _Desk:
    """The controller, as the store sees it."""

    def __init__(self, role: SimRole) -> None:
        self._role = role

    @property
    def controller_epoch(self) -> int:
        return self._role.term.epoch

    @property
    def may_delete_topics(self) -> bool:
        return True

    async def submit(self, decide: Callable[[Controller], T]) -> T:
        decided: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def reply(answer: T | KafkaError) -> None:
            if decided.done():
                return
            if isinstance(answer, KafkaError):
                decided.set_exception(answer)
            else:
                decided.set_result(answer)

        self._role.submit(decide, reply)
        return await decided

    def complain(self, key: str, line: str) -> None:
        """Nobody reads it."""

    def report(self, component: str, error: Exception) -> None:
        del component
        raise error

    def clear(self, component: str) -> None:
        """Nothing was reported."""


_TIMED_OUT = Refusal(500, "InternalError", "etcdserver: request timed out")


def _answer(status: int, body: dict[str, Any]) -> Answer:
    return Answer(status, {}, json.dumps(body).encode())


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _ends_the_run(task: asyncio.Task[None]) -> None:
    """A mistake of the store's own work; production ends the term."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
