"""The cluster store as a broker sees it: the simulation's, whose answers come to callbacks, as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.controller.term import Commit
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import Changes, Lease, Room, Snapshot, StoreError, no_limit

from minikafka_simulator.stores.store import CLUSTER_ID, LeaseBid

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker

T = TypeVar("T")


class ProcessStore:
    """Of one incarnation. See :class:`~minikafka.metadata.store.ClusterStore`."""

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker
        self._stores = broker.world.store
        self._opened = asyncio.Event()
        self._news = asyncio.Event()

    def opened(self) -> None:
        """The simulation's store is open."""
        self._opened.set()

    def ring(self) -> None:
        """There may be something new."""
        self._news.set()

    async def _ask(self, begin: Callable[[Callable[[Any], None], Callable[[StoreError], None]], None]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(value: Any) -> None:
            if not answer.done():
                answer.set_result(value)

        def failed(error: StoreError) -> None:
            if not answer.done():
                answer.set_exception(error)

        if not self._broker.up:
            raise StoreError("this process is no more")
        begin(done, failed)
        return await answer

    # -- ClusterStore ------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> str:
        del cluster_id
        await self._opened.wait()
        return CLUSTER_ID

    async def close(self) -> None:
        """Others use it."""

    async def snapshot(self) -> Snapshot:
        found: Snapshot = await self._ask(lambda done, failed: self._stores.read_snapshot(self._broker, done, failed))
        return found

    async def changes(self, since: int) -> Changes:
        changes = self._stores.changes_for(self._broker, since)
        if (late := self._broker.world.applies_late.get(self._broker.id)) is not None:
            await asyncio.sleep(late)
        return changes

    async def wait(self, since: int, timeout: float) -> None:
        del since
        try:
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        commit = self._broker.committing
        assert commit is not None and (commit.controller_epoch, commit.records) == (controller_epoch, records)
        image = self._broker.deciding
        assert image is not None
        await self._ask(lambda done, failed: self._commit(commit, image, lambda: done(0), failed))
        return 0

    def _commit(
        self, commit: Commit, image: ClusterImage, done: Callable[[], None], failed: Callable[[StoreError], None]
    ) -> None:
        broker = self._broker

        def written() -> None:
            broker.world.watcher.committed(list(commit.events), image)

        self._stores.commit(broker, commit, written, done, failed)

    async def lease(self) -> Lease | None:
        found: Lease | None = await self._ask(lambda done, failed: self._stores.read_lease(self._broker, done, failed))
        return found

    async def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        bid = LeaseBid(holder, host, port, expected_epoch)
        found: Lease | None = await self._ask(
            lambda done, failed: self._stores.take_lease(self._broker, bid, done, failed)
        )
        return found

    async def renew(self, lease: Lease) -> Lease:
        found: Lease = await self._ask(lambda done, failed: self._stores.renew_lease(self._broker, lease, done, failed))
        return found

    async def allocate(self, counter: str, count: int) -> int:
        raise StoreError(f"no simulated client asks for {count} of {counter}")

    def room(self, image: ClusterImage) -> Room:
        del image
        return no_limit
