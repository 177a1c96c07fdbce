"""Carries out for a broker what :mod:`minikafka.replication.offline_logs` decides about a disk that refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.log.errors import LogDirFailure
from minikafka.log.log import Log
from minikafka.protocol.types import TopicPartition
from minikafka.replication.offline_logs import OfflineLogs

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

T = TypeVar("T")

COMPONENT = "log directory"
RECOVERY, DISK_WORK = COMPONENT + " recovery", COMPONENT + " work"


class LogDirShell:
    """What the policy asks of a broker, on its event loop and its disk threads."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._clock = broker.clock
        self._tasks: set[asyncio.Task[bool]] = set()

    def policy(self) -> OfflineLogs:
        """That of this broker."""

        def later(seconds: float, event: Callable[[], None]) -> None:
            def supervised() -> None:
                self.broker.supervisor.call(COMPONENT + " policy", event)

            self._clock.later(seconds, supervised)

        return self.broker.parts.offline_logs(self, self.broker.replicas, self._clock._replace(later=later))

    @property
    def is_fenced(self) -> bool:
        return self.broker.is_fenced

    @property
    def is_ending(self) -> bool:
        return self.broker.failed.is_set() or self.broker.stopping

    def end(self, reason: str) -> None:
        self.broker.fail(reason)

    def resign(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        broker, (topic, index) = self.broker, topic_partition
        broker.stats.log_dir_failures += 1
        broker.events.emit("log_offline", topic=topic, partition=index, error=str(failure))
        broker.host.resign(topic_partition)
        broker.membership.fence()

    def tell(self, count: int, line: str) -> None:
        self.broker.stats.offline_logs = count
        if line:
            self.broker.health.report(COMPONENT, line)
        else:
            self.broker.health.clear(COMPONENT)

    def unexpected(self, error: Exception) -> None:
        self.broker.supervisor.report(RECOVERY, error)

    def open_anew(self, topic_partition: TopicPartition, done: Callable[[Log | Exception], None]) -> None:
        broker = self.broker

        async def work() -> Log:
            return await broker.housekeeping.on_disk_thread(
                broker.logs.prepare_reopen(topic_partition, self._clock.unix_ms())
            )

        self._once(work(), done)

    def write_checkpoints(self, done: Callable[[Exception | None], None]) -> None:
        self._once(self.broker.housekeeping.write_checkpoints(), done)

    def settle(self, back: list[TopicPartition]) -> None:
        self.broker.supervisor.clear(RECOVERY)
        for topic, index in back:
            self.broker.events.emit("log_online", topic=topic, partition=index)
        self.broker.host.settle({topic for topic, _ in back})

    def stop(self) -> None:
        """Nothing more is carried out."""
        for task in self._tasks:
            task.cancel()

    def _once(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        """Do the work, and say how it ended."""

        async def run() -> None:
            found: T | Exception
            try:
                found = await work
            except Exception as error:
                found = error
            done(found)

        task = self.broker.supervisor.once(DISK_WORK, run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
