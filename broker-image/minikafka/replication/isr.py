"""The in-sync replicas as their leader sees them, with a change in flight (KIP-497; Kafka's ``PartitionState`` classes)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition


class IsrProposal(NamedTuple):
    """What a leader asks the controller for: the AlterPartition request of one partition.

    ``isr`` pairs each member with the broker epoch under which the leader knows it, -1 for unknown (KIP-903).
    """

    topic_partition: TopicPartition
    topic_id: bytes
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovery_state: int


class AlterPartitionAnswer(NamedTuple):
    """The controller's answer to one :class:`IsrProposal`."""

    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    recovery_state: int = 0


class AfterAnswer(Enum):
    """What the shell does after an answer was taken in."""

    DONE = "done"
    RETRY = "retry"
    """The outcome is unknown: send the same proposal again. Falling back here is the classic way to lose records."""
    REPLACED = "replaced"
    """Another proposal is pending now: send that."""


class IsrState:
    """Committed ISR and at most one change in flight (R10).

    ``maximal`` is what counts for the high watermark: everything that *may* be in the ISR as the controller sees it.
    """

    __slots__ = ("committed", "maximal", "pending", "unanswered")

    def __init__(self, committed: tuple[int, ...]) -> None:
        self.committed = committed
        self.maximal = frozenset(committed)
        self.pending: IsrProposal | None = None
        self.unanswered = False
        """An attempt of what is pending, or of what it has replaced, has no answer: it may reach a controller later."""

    def propose(self, proposal: IsrProposal) -> None:
        """A change is now in flight."""
        assert self.pending is None
        self.pending, self.unanswered = proposal, False
        self.maximal = frozenset(self.committed) | {member for member, _ in proposal.isr}

    def replace(self, proposal: IsrProposal) -> None:
        """Another change is in flight instead; what the one before may yet do counts on."""
        assert self.pending is not None
        self.pending = proposal

    def commit(self, isr: tuple[int, ...]) -> None:
        """The controller has written this ISR."""
        self.committed = isr
        self.maximal = frozenset(isr)
        self.pending, self.unanswered = None, False

    def fall_back(self) -> None:
        """The controller is known to have refused: the committed ISR is in force again."""
        self.commit(self.committed)


REFUSED_NOT_APPLIED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller says that the leader's epochs were right and that nothing was applied."""

STALE_LEADER = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The leader's view is out of date; the change stays pending until metadata says what is true.

A topic that the controller does not know is not among them: it was deleted, and metadata will say so; or the controller is one
that was paused, and knows less than the leader. Then no metadata would come, so the leader asks again. Kafka waits here.
"""
