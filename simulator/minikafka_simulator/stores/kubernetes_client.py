"""One broker's process before the simulated API server: production's Kubernetes store, and the way its requests take.

On the way requests and answers are lost; the server is busy, has compacted its history, or ends a watch.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

from minikafka.controller.controller import Controller
from minikafka.kubernetes.api import KubernetesApi
from minikafka.kubernetes.connection import ApiUnreachable, HttpClient, HttpResponse
from minikafka.kubernetes.credentials import Access
from minikafka.kubernetes.store import KubernetesStore
from minikafka.kubernetes.topic_reconciler import ActiveController, TopicReconciler
from minikafka.metadata.store import StoreError
from minikafka.protocol.errors import KafkaError
from minikafka.server.main import HEARTBEATS_OF_PATIENCE

from minikafka_simulator.machine.virtual_loop import VirtualLoop
from minikafka_simulator.stores.api_server import SimApiError, SimApiServer
from minikafka_simulator.stores.brokers import StoreBroker, StoreCluster
from minikafka_simulator.stores.store import CLUSTER_ID

T = TypeVar("T")

CLUSTER = "sim"
FAILURE_SHARE = 0.01
"""The share of requests that the server answers with 429 or 500, done or not."""
COMPACTED = 0.05
"""The share of watches whose resourceVersion the server no longer knows."""
WATCH_SECONDS = (0.5, 4.0)
"""When servers end a watch."""
LOOK_SECONDS = 0.3
"""How soon a watcher notices that its connection is gone."""


class ApiSide(Protocol):
    """What all clients of one API server share."""

    world: StoreCluster
    random: Random
    """Of all choices made here."""
    heartbeat: float
    """Seconds between two heartbeats of a broker."""
    server: SimApiServer
    slow: dict[int, float]
    """Seconds until a broker hears of a change, where that is late."""

    def check(self, broker_id: int) -> None:
        """Raise StoreError while the server cannot be reached."""

    def carry_out(self, client: StoreClient, method: str, target: str, body: bytes) -> dict[str, Any]:
        """Have the server do something now. Raises SimApiError."""


class StoreClient:
    """The store of one incarnation of a broker."""

    def __init__(self, stores: ApiSide, broker: StoreBroker) -> None:
        world = stores.world
        self.stores = stores
        self.broker = broker
        self.incarnation = broker.incarnation
        self.committing: Callable[[], None] | None = None
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
        self.store = KubernetesStore(api, CLUSTER, patience=HEARTBEATS_OF_PATIENCE * stores.heartbeat)

    def later(self, delay: float, event: Callable[[], None], given_up: Callable[[], bool] = lambda: False, /) -> None:
        """An event of this incarnation; nothing when it is dead already."""
        broker, incarnation = self.broker, self.incarnation
        if broker.up and broker.incarnation == incarnation:
            self.stores.world.scheduler.at(delay, lambda: None if given_up() else broker.run(incarnation, event))

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.loop.create_task(work)

    def wake(self) -> None:
        """Something has changed at the server: watches tell it after a while."""
        for changed in self.changed:
            late = self.stores.slow.get(self.broker.id, 0.0)
            self.later(late + self.stores.random.uniform(0.0005, 0.02), changed.set)

    async def live(self) -> None:
        """Open the store, begin, and tell the broker whenever there is something new."""
        try:
            await self.store.open(CLUSTER_ID)
        except StoreError as error:
            why = str(error)
            self.later(0.0, lambda: self.broker.cannot_open_store(why))
            return
        self.later(0.0, self.broker.begin)
        seen = -1
        while True:
            await self.store.wait(seen, 1.0)
            if self.store.records.revision != seen:
                seen = self.store.records.revision
                self.later(0.0, self.broker.sync)

    async def reconcile(self, controller: ActiveController) -> None:
        """Tend the topics' objects until that is cancelled. It runs in the store's loop, and the controller in the broker's."""
        over = asyncio.get_running_loop().create_future()
        work = self.run(TopicReconciler(self.store, _InStoresLoop(self.broker, controller)).run())
        work.add_done_callback(lambda _: self.later(0.0, lambda: None if over.done() else over.set_result(None)))
        try:
            await over
        finally:
            work.cancel()
        work.result()


class _InStoresLoop:
    """The controller, for who asks from the loop of its broker's store."""

    def __init__(self, broker: StoreBroker, controller: ActiveController) -> None:
        self._broker = broker
        self._controller = controller
        self.warn_rarely, self.report, self.clear = controller.warn_rarely, controller.report, controller.clear

    @property
    def controller_epoch(self) -> int:
        return self._controller.controller_epoch

    @property
    def may_delete_topics(self) -> bool:
        return self._controller.may_delete_topics

    async def submit(self, decide: Callable[[Controller], T]) -> T:
        decided: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def ask() -> None:
            try:
                answer = await self._controller.submit(decide)
            except KafkaError as refused:
                if not decided.done():
                    decided.set_exception(refused)
            else:
                if not decided.done():
                    decided.set_result(answer)

        self._broker.do(ask())
        return await decided


class _Http(HttpClient):
    """The way to the API server."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._stores = client.stores

    def close(self) -> None:
        """A process that stops says nothing to the server."""

    async def request(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes, timeout: float
    ) -> HttpResponse:
        del headers
        client, stores = self._client, self._stores
        if client.loop.ended:
            raise ApiUnreachable("this process is no more", sent=False)
        answer: asyncio.Future[HttpResponse | ApiUnreachable] = client.loop.create_future()

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

    def _outcome(self, method: str, target: str, body: bytes) -> HttpResponse | ApiUnreachable:
        client, stores = self._client, self._stores
        try:
            stores.check(client.broker.id)
        except StoreError as error:
            return ApiUnreachable(str(error), sent=stores.random.random() < 0.5)
        draw = stores.random.random() if stores.random.random() < FAILURE_SHARE else 1.0
        if draw < 0.5:
            busy = SimApiError(429, "TooManyRequests", "try again") if draw < 0.25 else _TIMED_OUT
            return _answer(busy.status, busy.body)
        try:
            found = stores.carry_out(client, method, target, body)
        except SimApiError as refusal:
            return _answer(refusal.status, refusal.body)
        if draw < 1.0:
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
            gone = SimApiError(410, "Expired", "too old resource version")
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


_TIMED_OUT = SimApiError(500, "InternalError", "etcdserver: request timed out")


def _answer(status: int, body: dict[str, Any]) -> HttpResponse:
    return HttpResponse(status, {}, json.dumps(body).encode())


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body
