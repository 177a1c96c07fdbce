"""What invariants are judged by: the replicas' logs, mirrored, the controller's decisions, and the first violation."""

from __future__ import annotations

from uuid import UUID

from minikafka.metadata.image import PartitionState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.partition import Partition

from minikafka_simulator.checks.mirror import View
from minikafka_simulator.machine.scheduler import Scheduler


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


class Account:
    """Of one cluster."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.views: dict[tuple[int, TopicPartition], View] = {}
        self.violation: Violation | None = None
        """The first."""
        self.states: dict[TopicPartition, PartitionState] = {}
        self.topic_ids: dict[str, UUID] = {}
        """The topics that there are, by the controllers' decisions."""
        self.ids: dict[str, bytes] = {}
        """The same as the brokers' replicas have them."""
        self.leaders: dict[tuple[TopicPartition, int], int] = {}
        """Who led a leader epoch."""
        self.marks: dict[tuple[int, TopicPartition], int] = {}
        """High watermarks that a restart must find at least."""
        self.term_began: dict[tuple[int, TopicPartition, int], float] = {}
        """When a broker began to lead a leader epoch, in virtual seconds."""

    def fail(self, invariant: str, detail: str) -> None:
        """Report a violation: the run ends here, also where the brokers' own code survives it."""
        if self.violation is None:
            self._scheduler.note_last(f"VIOLATION {invariant}: {detail}")
            self.violation = Violation(invariant, detail)
        raise self.violation

    def exists(self, tp: TopicPartition, partition: Partition) -> bool:
        """Whether a replica is one of a topic that there is, not of one that was deleted before."""
        return self.ids.get(tp.topic) == partition.topic_id

    def leads(self, broker_id: int, tp: TopicPartition) -> bool:
        """Whether the controller holds a broker for the leader of a partition."""
        state = self.states.get(tp)
        return state is not None and state.leader == broker_id
