"""A store in memory: one object shared by all the brokers of one process, in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from minikafka.metadata.database import IN_MEMORY, Database
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import Changes, Lease, Room, Snapshot, no_limit


class MemoryStore:
    """See :class:`~minikafka.metadata.store.ClusterStore`. The plain methods do the work, without waiting."""

    def __init__(self) -> None:
        self._database = Database(IN_MEMORY)
        self._changed: asyncio.Event | None = None

    # -- plain ------------------------------------------------------------------------------------------------------

    @property
    def held(self) -> Lease | None:
        return self._database.lease()

    def open_now(self, cluster_id: str | None) -> str:
        return self._database.open(cluster_id)

    def record(self, key: str) -> Any:
        """Its value, None when there is none."""
        return self._database.snapshot().records.get(key)

    def commit_now(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        revision = self._database.commit(controller_epoch, records)
        if self._changed is not None:
            self._changed.set()
        return revision

    def acquire_now(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        return self._database.acquire(holder, host, port, expected_epoch)

    # -- ClusterStore ------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> str:
        return self.open_now(cluster_id)

    async def close(self) -> None:
        """Others may still use it."""

    async def snapshot(self) -> Snapshot:
        return self._database.snapshot()

    async def changes(self, since: int) -> Changes:
        return self._database.changes(since)

    async def wait(self, since: int, timeout: float) -> None:
        if self._database.snapshot().revision > since:
            return
        if self._changed is None or self._changed.is_set():
            self._changed = asyncio.Event()
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        return self.commit_now(controller_epoch, records)

    async def lease(self) -> Lease | None:
        return self.held

    async def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        return self.acquire_now(holder, host, port, expected_epoch)

    async def renew(self, lease: Lease) -> Lease:
        return self._database.renew(lease)

    async def allocate(self, counter: str, count: int) -> int:
        return self._database.allocate(counter, count)

    def room(self, image: ClusterImage) -> Room:
        del image
        return no_limit
