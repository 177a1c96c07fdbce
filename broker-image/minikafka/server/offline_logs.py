"""Carries out for a broker what :mod:`minikafka.replication.offline_logs` decides about a disk that refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from minikafka.log.errors import LogDirFailure
from minikafka.log.log import Log
from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition
from minikafka.replication.offline_logs import OfflineLogs
from minikafka.replication.replicas import ReplicaManager
from minikafka.server.context import BrokerContext
from minikafka.server.housekeeping import Housekeeping

T = TypeVar("T")

COMPONENT = "log directory"
RECOVERY, DISK_WORK = COMPONENT + " recovery", COMPONENT + " work"


class Owner(Protocol):
    """The broker whose logs they are."""

    @property
    def is_fenced(self) -> bool:
        """By the controller's word, which everybody else has as well."""

    @property
    def is_ending(self) -> bool:
        """It stops, or has failed."""

    def fail(self, reason: str) -> None:
        """End the process."""

    def resign(self, topic_partition: TopicPartition) -> None:
        """Have this replica lead and follow nothing, and others lead what this broker leads until :meth:`settle`."""

    def settle(self, topics: set[str]) -> None:
        """Have the replicas of these topics follow the image again."""


class LogDirShell:
    """What the policy asks of a broker, on its event loop and its disk threads.

    Args:
        context: see there.
        owner: see there.
        replicas: the hosted replicas.
        housekeeping: has the threads that may wait for the disk.
        logs: all of the broker's; asked for when they are open.
    """

    def __init__(
        self,
        context: BrokerContext,
        owner: Owner,
        replicas: ReplicaManager,
        housekeeping: Housekeeping,
        logs: Callable[[], LogManager],
    ) -> None:
        self.context = context
        self._owner = owner
        self._replicas = replicas
        self._housekeeping = housekeeping
        self._logs = logs
        self._clock = context.clock
        self._tasks: set[asyncio.Task[bool]] = set()

    def policy(self) -> OfflineLogs:
        """That of this broker."""

        def later(seconds: float, event: Callable[[], None]) -> None:
            def supervised() -> None:
                self.context.supervisor.call(COMPONENT + " policy", event)

            self._clock.later(seconds, supervised)

        return OfflineLogs(self, self._replicas, self._clock._replace(later=later), self._logs)

    @property
    def is_fenced(self) -> bool:
        return self._owner.is_fenced

    @property
    def is_ending(self) -> bool:
        return self._owner.is_ending

    def end(self, reason: str) -> None:
        self._owner.fail(reason)

    def resign(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        topic, index = topic_partition
        self.context.stats.log_dir_failures += 1
        self.context.events.emit("log_offline", topic=topic, partition=index, error=str(failure))
        self._owner.resign(topic_partition)

    def tell(self, count: int, line: str) -> None:
        self.context.stats.offline_logs = count
        if line:
            self.context.health.report(COMPONENT, line)
        else:
            self.context.health.clear(COMPONENT)

    def unexpected(self, error: Exception) -> None:
        self.context.supervisor.report(RECOVERY, error)

    def open_anew(self, topic_partition: TopicPartition, done: Callable[[Log | Exception], None]) -> None:
        async def work() -> Log:
            return await self._housekeeping.on_disk_thread(
                self._logs().prepare_reopen(topic_partition, self._clock.unix_ms())
            )

        def opened(found: Log | Exception) -> None:
            done(found)
            if not isinstance(found, Exception):
                self.context.observer.log_reopened(topic_partition)

        self._once(work(), opened)

    def write_checkpoints(self, done: Callable[[Exception | None], None]) -> None:
        self._once(self._housekeeping.write_checkpoints(), done)

    def settle(self, back: list[TopicPartition]) -> None:
        self.context.supervisor.clear(RECOVERY)
        for topic, index in back:
            self.context.events.emit("log_online", topic=topic, partition=index)
        self._owner.settle({topic for topic, _ in back})

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

        task = self.context.supervisor.once(DISK_WORK, run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
