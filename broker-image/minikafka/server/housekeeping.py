"""What a broker does by the clock or for its disk: flushes, checkpoints, retention, ISR checks.

Nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from minikafka.log.config import FOREVER
from minikafka.log.errors import LogError
from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition
from minikafka.replication.flushes import Flushes
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.replicas import ReplicaManager
from minikafka.replication.reporter import ReplicaReporter
from minikafka.replication.retention import retain
from minikafka.server.context import BrokerContext

T = TypeVar("T")

FLUSH_CHECK_SECONDS = 0.1
FLUSH_CHECK_IDLE_SECONDS = 1.0
PURGE_CHECK_SECONDS = 5.0
PAUSE_SECONDS_MIN = 0.01
"""Settings may ask for an interval of nothing."""


class Housekeeping:
    """The periodic tasks of one broker.

    Args:
        context: see there.
        replicas: whose logs are looked after.
        reporter: told of logs that refuse, and of records that were deleted.
        high_watermarks: those that are to be written down.
        flushed: told of each flush that is over.
    """

    logs: LogManager

    def __init__(
        self,
        context: BrokerContext,
        replicas: ReplicaManager,
        reporter: ReplicaReporter,
        high_watermarks: Callable[[], dict[TopicPartition, int]],
        flushed: Callable[[HostedPartition], None],
    ) -> None:
        self.context = context
        self._replicas = replicas
        self._reporter = reporter
        self._flushes = Flushes(replicas, flushed, reporter.log_failed)
        self._high_watermarks = high_watermarks
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="disk")
        self._tasks: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Task[bool]] = set()
        """Flushes that are under way."""
        self._stopped = False

    def start(self, logs: LogManager) -> None:
        """The logs are open."""
        self.logs = logs
        config = self.context.config
        lag = config.replica_lag_time_max_ms / 1000
        high_watermarks = config.replica_high_watermark_checkpoint_interval_ms / 1000
        recovery_points = config.log_flush_offset_checkpoint_interval_ms / 1000
        repeat = self.context.supervisor.repeat
        self._tasks = [
            repeat("ISR check", self._replicas.isr_tick, max(lag / 2, PAUSE_SECONDS_MIN)),
            repeat("flush", self._look_for_flushes),
            repeat("high watermark checkpoint", self._checkpoint_hw, max(high_watermarks, PAUSE_SECONDS_MIN)),
            repeat("recovery point checkpoint", self._checkpoint_recovery, max(recovery_points, PAUSE_SECONDS_MIN)),
            repeat("retention", self._retain, max(config.log_retention_check_interval_ms / 1000, PAUSE_SECONDS_MIN)),
            repeat("purge of deleted logs", self._purge, PURGE_CHECK_SECONDS),
        ]

    async def stop(self) -> None:
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        self._pool.shutdown(wait=True)

    # -- flush ------------------------------------------------------------------------------------------------------------

    async def _look_for_flushes(self) -> None:
        """Look often where a topic asks for flushes by count or age; else now and then, for sealed segments."""
        asked = any(
            min(p.log.config.flush_interval_messages, p.log.config.flush_interval_ms) < FOREVER
            for p in self._replicas.all()
        )
        await asyncio.sleep(FLUSH_CHECK_SECONDS if asked else FLUSH_CHECK_IDLE_SECONDS)
        self._flush_due()

    def _flush_due(self) -> None:
        now = self.context.clock.now()
        for partition in self._replicas.all():
            if partition.log.failure is None and partition.log.needs_flush(now):
                self.flush_soon(partition)

    def flush_soon(self, partition: HostedPartition) -> None:
        """Begin a flush unless one is under way, which goes on for as long as flush.messages wants more of them (R17)."""
        if self._stopped or not self._flushes.claim(partition):
            return
        task = self.context.supervisor.once(f"flush of {partition.topic_partition}", self._flush, partition)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _flush(self, partition: HostedPartition) -> None:
        """Make what is appended durable; the fsync runs on a thread."""
        loop = asyncio.get_running_loop()
        try:
            while not self._stopped and (job := self._flushes.next(partition)) is not None:
                await loop.run_in_executor(self._pool, job.run, self.context.clock.now)
                seconds = self._flushes.done(partition, job)
                if seconds is not None:
                    self.context.stats.observe_flush(seconds)
        finally:
            self._flushes.give_up(partition)

    async def empty_unflushed_volume(self) -> None:
        """Flush all that lies on it. Raises LogDirFailure when that was refused."""
        partitions = [p for p in self._replicas.all() if p.log.failure is None and p.log.unflushed_bytes]
        for partition in partitions:
            self.flush_soon(partition)
        if self._running:
            await asyncio.wait(set(self._running))
        for partition in partitions:
            partition.log.check_online()

    # -- checkpoints (R11) --------------------------------------------------------------------------------------------------

    async def _checkpoint_hw(self) -> None:
        with self.context.observer.checkpoint():
            await self._write(self.logs.prepare_high_watermarks(self._high_watermarks()))

    async def _checkpoint_recovery(self) -> None:
        logs = self.logs
        await self._write([*logs.prepare_recovery_points(), *logs.prepare_log_start_offsets()])

    async def write_checkpoints(self) -> None:
        """All of them, now. Raises LogDirFailure or OSError: the disk takes no writes."""
        await self.empty_unflushed_volume()  # it may be what was full
        await self._checkpoint_hw()
        await self._checkpoint_recovery()

    async def on_disk_thread(self, work: Callable[[], T]) -> T:
        """Run what may wait for the disk, and its result."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def _write(self, writes: Sequence[Callable[[], None]]) -> None:
        """Run what was prepared for the disk on a thread, one after the other."""
        loop = asyncio.get_running_loop()
        for write in writes:
            await loop.run_in_executor(self._pool, write)

    def _retain(self) -> None:
        now_ms = self.context.clock.unix_ms()
        problem: Exception | None = None
        for partition in self._replicas.all():
            try:
                self._retain_one(partition, now_ms)
            except Exception as error:  # the ones after it have old segments, too
                problem = error
        if problem is not None:
            raise problem

    def _retain_one(self, partition: HostedPartition, now_ms: int) -> None:
        before = partition.log.log_start_offset
        with self.context.observer.retention(partition):
            try:
                retain(partition, now_ms)
            except LogError as error:
                self._reporter.log_failed(partition, error)
            self._reporter.log_start_moved(partition, before, "retention")

    async def _purge(self) -> None:
        await self._write(self.logs.prepare_purge(self.context.clock.unix_ms()))
