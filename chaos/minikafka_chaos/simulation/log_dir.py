"""A simulated broker's disk that refuses: carries out what ``minikafka.replication.offline_logs`` decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minikafka.log.errors import LogDirFailure, LogError
from minikafka.log.log import Log
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class SimLogDir:
    """That of one incarnation. A disk thread's work is one event, or two when the log is opened anew."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self.policy = broker.world.rules.offline_logs(self, broker.leading.replicas, broker.leading.clock)

    def log_failed(self, partition: HostedPartition, error: LogError) -> None:
        """A log refused an append, a read or a flush."""
        self.broker.tolerate(error)
        self.broker.world.note(f"b{self.broker.id} {partition.topic_partition} refused: {error}")
        if isinstance(error, LogDirFailure):
            self.policy.failed(partition.topic_partition, error)

    # -- what the policy asks for -------------------------------------------------------------------------------------------

    @property
    def is_fenced(self) -> bool:
        return self.broker.membership.lifecycle.is_fenced(self.broker.image)

    @property
    def is_ending(self) -> bool:
        return self.broker.stopping

    def end(self, reason: str) -> None:
        """Exit code 3."""
        broker, world = self.broker, self.broker.world
        world.note(f"b{broker.id} ends: {reason}")
        broker.crash(False, False)
        world.gave_up(broker)

    def resign(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        broker, (topic, index) = self.broker, topic_partition
        broker.world.note(f"b{broker.id} {topic_partition} is offline")
        broker.world.event(broker, "log_offline", topic, index, error=str(failure))
        broker.hosting.resign(topic_partition)
        broker.membership.fence()

    def tell(self, count: int, line: str) -> None:
        """Nobody asks a simulated broker for its health."""

    def unexpected(self, error: Exception) -> None:
        raise error

    def open_anew(self, topic_partition: TopicPartition, done: Callable[[Log | Exception], None]) -> None:
        broker = self.broker
        assert broker.logs is not None
        try:
            work = broker.logs.prepare_reopen(topic_partition, broker.now_ms)
        except LogError as error:
            done(error)
            return

        def opened() -> None:
            found: Log | LogError
            try:
                found = work()
            except LogError as error:
                found = error
            done(found)
            if not isinstance(found, LogError):
                broker.world.watcher.reopened(broker, topic_partition)

        broker.later(broker.world.flush_time(), opened)

    def write_checkpoints(self, done: Callable[[Exception | None], None]) -> None:
        try:
            self.broker.flushing.empty_unflushed_volume()
            self.broker.write_checkpoints()
        except (LogError, OSError) as error:
            done(error)
        else:
            done(None)

    def settle(self, back: list[TopicPartition]) -> None:
        broker = self.broker
        for topic, index in back:
            broker.world.note(f"b{broker.id} {topic}-{index} is online again")
            broker.world.event(broker, "log_online", topic, index)
        broker.hosting.settle({topic for topic, _ in back})
