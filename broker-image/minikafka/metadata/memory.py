"""A store in memory: one object shared by all the brokers of a simulation or a test."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from minikafka.metadata.image import ClusterImage, TopicState
from minikafka.metadata.store import Changes, Desk, FencedControllerError, Lease, Snapshot, StoreError


class MemoryStore:
    """See :class:`~minikafka.metadata.store.ClusterStore`. The plain methods do the work, without waiting."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.revision = 0
        self.records: dict[str, tuple[int, Any]] = {}
        self.held: Lease | None = None
        self.counters: dict[str, int] = {}
        self._changed: asyncio.Event | None = None

    # -- plain ------------------------------------------------------------------------------------------------------

    def commit_now(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        if self.held is None or self.held.epoch != controller_epoch:
            raise FencedControllerError(f"controller epoch {controller_epoch} is over")
        self.revision += 1
        for key, value in records.items():
            self.records[key] = (self.revision, value)
        if self._changed is not None:
            self._changed.set()
        return self.revision

    def changes_now(self, since: int) -> Changes:
        return Changes(self.revision, {k: v for k, (r, v) in self.records.items() if r > since})

    def acquire_now(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        epoch = self.held.epoch if self.held else 0
        if epoch != expected_epoch:
            return None
        self.held = Lease(holder, epoch + 1, 0, host, port)
        return self.held

    def renew_now(self, lease: Lease) -> Lease:
        if self.held is None or self.held.epoch != lease.epoch:
            raise FencedControllerError(f"controller epoch {lease.epoch} is over")
        self.held = Lease(lease.holder, lease.epoch, self.held.renewed + 1, lease.host, lease.port)
        return self.held

    def allocate_now(self, counter: str, count: int) -> int:
        first = self.counters.get(counter, 0)
        self.counters[counter] = first + count
        return first

    # -- ClusterStore ------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> str:
        if self.cluster_id is None:
            self.cluster_id = cluster_id or uuid4().hex[:22]
        elif cluster_id not in (None, self.cluster_id):
            raise StoreError(f"the store belongs to cluster {self.cluster_id!r}, not to {cluster_id!r}")
        return self.cluster_id

    async def close(self) -> None:
        return None

    async def snapshot(self) -> Snapshot:
        return Snapshot(self.revision, {k: v for k, (_, v) in self.records.items() if v is not None})

    async def changes(self, since: int) -> Changes:
        return self.changes_now(since)

    async def wait(self, since: int, timeout: float) -> None:
        if self.revision > since:
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
        return self.renew_now(lease)

    async def allocate(self, counter: str, count: int) -> int:
        return self.allocate_now(counter, count)

    def check_room(self, image: ClusterImage, topic: TopicState) -> None:
        """There is room for everything."""

    async def attend(self, desk: Desk) -> None:
        del desk
