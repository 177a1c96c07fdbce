"""The follower's part: where to fetch, what to do with the answer, where to truncate."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.telemetry.truncations import DIVERGED, HIGH_WATERMARK, LEADER_ENDS_BEFORE, LEADER_STARTS_LATER

if TYPE_CHECKING:
    from minikafka.replication.partition import Partition


class FetchPosition(NamedTuple):
    """What a follower asks for: the fields of a Fetch request's partition."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchOutcome(Enum):
    """What the fetcher does after an answer for one partition."""

    APPENDED = "appended"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    """The log was truncated; fetch again at once."""
    BACK_OFF = "back off"
    STALE = "stale"
    """The answer belongs to an earlier term or position, and was thrown away."""
    FAILED = "failed"
    """This replica's epoch is fenced: wait for new metadata."""
    OUT_OF_RANGE = "out of range"
    """Ask the leader for its earliest and latest offset, then :meth:`FollowerState.leader_offsets`."""


class Truncation(NamedTuple):
    """Where to truncate, and whether the logs then agree for certain (KIP-279: else ask again)."""

    offset: int
    done: bool


class FollowerState:
    """A term of following one leader."""

    __slots__ = ("_vouched", "epoch", "failed", "leader_id", "partition", "truncations")

    def __init__(self, partition: Partition, state: PartitionState, now: float) -> None:
        del now
        self.partition = partition
        self.epoch = state.leader_epoch
        self.leader_id = state.leader
        self.failed = False
        self._vouched = False
        """In this term the leader had the record before this log's end, of the epoch that it was told; or nothing is here."""
        self.truncations: list[tuple[int, int, int, str]] = []
        self.start()

    def start(self) -> None:
        """Before KIP-101 a follower truncated to its own high watermark here; with epochs it only does so without any."""
        partition = self.partition
        if self.truncates_to_high_watermark():
            self.cut(partition.high_watermark, HIGH_WATERMARK.words)

    def truncates_to_high_watermark(self) -> bool:
        """The mode of the stories, or a log that has no epoch at all to ask about."""
        mode_high_watermark = bool(self.partition.config.truncation_mode)
        return mode_high_watermark or self.partition.log.epochs.latest < 0

    def cut(self, offset: int, reason: str, leader_start: int | None = None) -> bool:
        """Truncate and remember it for the event log; True when records went away.

        Below this log's start there is nothing to cut: the log begins anew at the leader's start (``leader_start``). Begun at
        the cut, it would lack what the leader has before it and nobody deleted, and be let into the ISR all the same. At its very
        start it is cut: what is before was committed and deleted here, and whoever may lead must not end below it (found by
        simulation: retention had deleted more here than at the leader).
        """
        partition = self.partition
        log, before = partition.log, partition.log.log_end_offset
        if offset >= before:
            log.truncate_to(before)  # an epoch may have been assigned with no record in it
            return False
        if leader_start is not None and leader_start < offset < log.log_start_offset:
            self.begin_at(leader_start, reason)
            return True
        removed = partition.truncate_to(offset)
        self.truncations.append((before, log.log_end_offset, removed, reason))
        return True

    def begin_at(self, offset: int, reason: str) -> None:
        """Drop everything, and go on at ``offset``, where the leader's log begins."""
        log = self.partition.log
        before, removed = log.log_end_offset, log.log_end_offset - log.log_start_offset
        self.partition.begin_anew_at(offset)
        self.truncations.append((before, offset, removed, reason))

    def position(self) -> FetchPosition:
        """Where this replica stands. Without an epoch of the last record the leader cannot detect divergence."""
        log = self.partition.log
        return FetchPosition(self.epoch, log.log_end_offset, self.last_fetched_epoch(), log.log_start_offset)

    def may_ask(self) -> bool:
        """Whether the next fetch may leave. Its offset acknowledges all below it, so it waits for the flush that flush.messages
        wants (R17); Kafka's fetcher thread stands still meanwhile, inside the append."""
        return not self.partition.log.owes_flush

    def last_fetched_epoch(self) -> int:
        """The latest epoch in the log, kept over empty answers too (KAFKA-15510); -1 turns detection off."""
        if self.partition.config.truncation_mode:
            return -1
        return self.partition.log.epochs.latest

    # -- answers ---------------------------------------------------------------------------------------------------

    def answered(
        self,
        asked: FetchPosition,
        error: ErrorCode,
        diverging: tuple[int, int] | None,
        high_watermark: int,
        log_start_offset: int,
        records: memoryview,
    ) -> FetchOutcome:
        """Take in the leader's answer to a fetch at ``asked`` (R6)."""
        if not self.is_current(asked):
            return FetchOutcome.STALE
        if error is not ErrorCode.NONE:
            return self.refused(error)
        if diverging is not None:
            return self.diverged(diverging, log_start_offset)
        log = self.partition.log
        if log_start_offset < log.log_end_offset:
            self._vouched = True
        elif not self._vouched:
            self._drop_what_may_be_anothers()
        if not len(records):
            self._take_offsets(high_watermark, log_start_offset)
            return FetchOutcome.EMPTY
        if log_start_offset >= log.log_end_offset:
            # All that is here was deleted at the leader, whose start may lie inside a batch: that one can only be appended
            # to a log that holds nothing any more. (Kafka, too, moves such a log, if its own start is there already.)
            self._take_offsets(high_watermark, log.log_end_offset)
        self.append(records)
        self._take_offsets(high_watermark, log_start_offset)
        return FetchOutcome.APPENDED

    def _drop_what_may_be_anothers(self) -> None:
        """All that is here lies before the leader's start, so nobody can say whether the leader had the same.

        With the records goes what they say of producers. Else a batch that was never committed counts as known when its producer
        sends it again to this replica, which leads by then: it would be acknowledged, and is nowhere (found by simulation; Kafka
        keeps that state).
        """
        log = self.partition.log
        self._vouched = True
        if log.log_start_offset < log.log_end_offset or len(log.producers):
            self.partition.begin_anew_at(log.log_end_offset)

    def _take_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        self.take_high_watermark(high_watermark)
        if log_start_offset > self.partition.log.log_start_offset:
            self.partition.log.increment_log_start_offset(log_start_offset)

    def is_current(self, asked: FetchPosition) -> bool:
        """Only answers to this term's fetch at this very position count (KIP-320; a truncation may have come between).

        Two fetches may be under way. The offset alone does not tell that the log is the one that was asked for: it may have been
        cut and have grown again since. The epoch of its last record does.
        """
        log = self.partition.log
        return (
            asked.leader_epoch == self.epoch
            and asked.offset == log.log_end_offset
            and asked.last_fetched_epoch == self.last_fetched_epoch()
        )

    def append(self, records: memoryview) -> None:
        """Append; batches of an epoch above the fetch's are left out (KAFKA-18723)."""
        self.partition.log.append_as_follower(records, self.epoch)

    def take_high_watermark(self, high_watermark: int) -> None:
        """``HW = min(LEO, leader's HW)``: one fetch behind the leader (R6)."""
        self.partition.set_high_watermark(high_watermark)

    def refused(self, error: ErrorCode) -> FetchOutcome:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.failed = True
            return FetchOutcome.FAILED
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return FetchOutcome.OUT_OF_RANGE
        return FetchOutcome.BACK_OFF

    def diverged(self, diverging: tuple[int, int], log_start_offset: int) -> FetchOutcome:
        """Truncate where the logs diverge (R13); high watermark and records of such an answer are not touched (KAFKA-14704).

        The leader cannot tell where the logs diverge before its own start. So what is left here before that may be another's, and
        goes at once: with the next answer, as in Kafka, it is too late for a replica that this very fetch brings into the ISR
        (found by simulation).
        """
        truncation = self.truncation_point(*diverging)
        reason = DIVERGED.words.format(leader=self.leader_id, epoch=diverging[0])
        self.cut(truncation.offset, reason, log_start_offset)
        if log_start_offset >= self.partition.log.log_end_offset:
            self._drop_what_may_be_anothers()
        start = min(log_start_offset, self.partition.log.log_end_offset)
        self._take_offsets(max(start, self.partition.high_watermark), start)  # what is deleted was committed
        return FetchOutcome.TRUNCATED

    def truncation_point(self, leader_epoch: int, leader_end: int) -> Truncation:
        """Decide where to truncate (R13): the leader said that ``leader_epoch`` ends at ``leader_end`` in its log.

        Kafka's ``getOffsetTruncationState``.
        """
        partition = self.partition
        leo = partition.log.log_end_offset
        if leader_end < 0:
            return Truncation(partition.high_watermark, True)
        if leader_epoch < 0:
            return Truncation(min(leader_end, leo), True)
        own_epoch, own_end = partition.end_offset_for_epoch(leader_epoch)
        if own_epoch < 0:
            return Truncation(min(leader_end, leo), True)
        if own_epoch != leader_epoch:
            return Truncation(min(own_end, leo), False)
        return Truncation(min(own_end, leader_end, leo), True)

    def leader_offsets(self, asked: FetchPosition, earliest: int, latest: int) -> FetchOutcome:
        """After OUT_OF_RANGE (KAFKA-7414): follow the leader's range, dropping no more than must be."""
        if not self.is_current(asked):
            return FetchOutcome.STALE
        log = self.partition.log
        if latest < log.log_end_offset:
            self.cut(latest, LEADER_ENDS_BEFORE.words.format(leader=self.leader_id), earliest)
            return FetchOutcome.TRUNCATED
        if earliest > log.log_end_offset:
            self.begin_at(earliest, LEADER_STARTS_LATER.words)
            return FetchOutcome.TRUNCATED
        if earliest > log.log_start_offset:
            log.increment_log_start_offset(earliest)
        return FetchOutcome.EMPTY
