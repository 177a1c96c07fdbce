"""What clients may see (invariants A1 to A19, B16): their histories against what the checker knows to be committed."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from minikafka.protocol.types import TopicPartition

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.commit_checks import CommitChecks
from minikafka_simulator.checks.log_checks import LogChecks
from minikafka_simulator.checks.mirror import GONE, Identity
from minikafka_simulator.checks.scheduled_cluster import ReadingClient, ScheduledCluster

PROGRESS_SECONDS = 5.0
"""Longer than a session, an ISR shrink, a death of the controller meanwhile and the client's timeouts, one after the other."""


SENDS_KEPT = 10
"""Twice as many as a producer may have in flight for a partition."""


class Send(Protocol):
    """A batch of a producer."""

    @property
    def producer_id(self) -> int: ...
    @property
    def tp(self) -> TopicPartition: ...
    @property
    def acks(self) -> int: ...
    @property
    def values(self) -> list[str]: ...
    @property
    def order(self) -> int:
        """Its place among all that the producer sends to this partition."""


class Ack(NamedTuple):
    """A positive answer to a producer."""

    offset: int
    value: str


class ClientChecks:
    """Follows the clients of one world."""

    def __init__(self, world: ScheduledCluster, account: Account, commits: CommitChecks, logs: LogChecks) -> None:
        self._world = world
        self._account = account
        self._commits = commits
        self._logs = logs
        self.acked = 0
        """Records acknowledged with acks=all."""
        self.acks: dict[TopicPartition, list[Ack]] = {}
        self.sent_values: dict[str, int] = {}
        self.seen: dict[tuple[TopicPartition, int], str] = {}
        self.where: dict[tuple[TopicPartition, str], int] = {}
        self.ends: dict[TopicPartition, list[tuple[float, int]]] = {}
        self.sent_again: set[str] = set()
        self.passed_over: dict[TopicPartition, list[tuple[int, int]]] = {}
        """What readers did not get to see, because it had been deleted by request: from, to."""
        self._last_acks: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = {}
        """By producer id and partition: the order and the offset of the last batches that were acknowledged."""
        self.ack_times: dict[TopicPartition, float] = {}

    def excuse(self, tp: TopicPartition, end: int) -> None:
        """An unclean election struck everything from ``end`` on."""
        self.acks[tp] = [ack for ack in self.acks.get(tp, []) if ack.offset < end]
        self.seen = {key: value for key, value in self.seen.items() if key[0] != tp or key[1] < end}
        self.ends[tp] = []

    def forget(self, topic: str) -> None:
        """It was deleted: what clients know of it says nothing of the next one of its name."""
        for table in (self.acks, self.ends, self.passed_over, self.ack_times):
            for tp in [tp for tp in table if tp.topic == topic]:
                del table[tp]
        self.seen = {key: value for key, value in self.seen.items() if key[0].topic != topic}
        self.where = {key: offset for key, offset in self.where.items() if key[0].topic != topic}

    def sent(self, producer: Send) -> None:
        for value in producer.values:
            self.sent_values[value] = producer.acks

    def begins_anew(self, producer: Send, error: str, by_leader: bool = True) -> None:
        """A broker refused a sequence number: right only where an acknowledged batch was lost with good reason.

        A zombie refuses it rightly, too (``by_leader`` is false): its successor has taken batches that it does not have.
        """
        excused = producer.tp in self._commits.excused or self._forgotten(producer)
        if by_leader and producer.acks == -1 and not excused:
            self._account.fail(
                "B16 producer state", f"{producer.tp}: {producer.values} refused with {error}, nothing was lost"
            )
        self.sent_again.update(producer.values)

    def _forgotten(self, producer: Send) -> bool:
        """Whether the last batch of a producer was deleted by request: a replica that follows since never had it, and need not
        know what comes next."""
        acked = self._last_acks.get((producer.producer_id, producer.tp))
        return acked is not None and max(acked)[1] < self._commits.deleted.get(producer.tp, 0)

    def answered(self, producer: Send, crc: int, offset: int) -> None:
        """A positive answer, of any copy of a batch: some leader has written it there (A19), whoever has lost it since."""
        if not self._logs.was_written(producer.tp, offset, crc):
            self._account.fail(
                "A19 acknowledged-unwritten",
                f"{producer.tp}: a batch of producer {producer.producer_id} is acknowledged at {offset}, where no leader ever "
                f"wrote it; acks={producer.acks}",
            )

    def refused_if_wrong(self, tp: TopicPartition, error: int, offset: int) -> None:
        """The answer to a batch whose records are not what its header says: anything but an acknowledgement (A20)."""
        if not error:
            self._account.fail("A20 unreadable", f"{tp}: a batch that no consumer can read is acknowledged at {offset}")

    def acknowledged(self, producer: Send, crc: int, offset: int) -> None:
        """A positive answer to a producer that sends all the time."""
        if producer.acks == -1:
            self.promised(producer, crc, offset)
            self._in_order(producer, offset)
            self._progresses(producer.tp)
            self.ack_times[producer.tp] = self._world.now

    def promised(self, producer: Send, crc: int, offset: int) -> None:
        """A positive answer is a promise (A15): with acks=all the record is committed, at that offset."""
        tp = producer.tp
        self.acked += len(producer.values)
        truth = self._commits.truth.get(tp, [])
        last = offset + len(producer.values)
        if last > len(truth) and not self._commits.excuses(tp, self._logs.first_epoch(tp, offset, crc)):
            self._account.fail(
                "A15 ack-offset", f"{tp}: {producer.values} acknowledged at {offset}, the true HW is {len(truth)}"
            )
        if tp not in self._commits.excused or self._stands(tp, crc, offset):
            self.acks.setdefault(tp, []).extend(Ack(offset + i, v) for i, v in enumerate(producer.values))

    def _stands(self, tp: TopicPartition, crc: int, offset: int) -> bool:
        """Whether a batch is among what is committed. A leader from before an unclean election may acknowledge others."""
        truth = self._commits.truth.get(tp, [])
        return offset < len(truth) and (truth[offset] == GONE or truth[offset][1] == crc)

    def _in_order(self, producer: Send, offset: int) -> None:
        """What a producer sends later comes later in the log (A9), in whatever order the answers come."""
        known = self._last_acks.setdefault((producer.producer_id, producer.tp), [])
        for order, at in known:
            if (order < producer.order) != (at < offset) and producer.tp not in self._commits.excused:
                self._account.fail(
                    "A9 nonmonotonic-send",
                    f"{producer.tp}: {producer.values}, number {producer.order}, acknowledged at {offset}, number {order} "
                    f"at {at}",
                )
        known.append((producer.order, offset))
        del known[:-SENDS_KEPT]

    def _progresses(self, tp: TopicPartition) -> None:
        """While a minority is down and nothing else is wrong, acknowledgements go on (A16). An ambush is something else."""
        if not self._world.only_minorities_are_down():
            return
        silent = self._world.now - self.ack_times.get(tp, self._world.now)
        if silent > PROGRESS_SECONDS:
            self._account.fail(
                "A16 progress", f"{tp}: nothing was acknowledged for {silent:.1f} s with one broker down at most"
            )

    def given(self, tp: TopicPartition, position: int, last_offset: int) -> None:
        """A reader at a position is given a batch that ends at an offset (A8)."""
        if last_offset < position:
            self._account.fail(
                "A8 nonmonotonic-poll", f"{tp}: a reader at {position} is given a batch that ends at {last_offset}"
            )

    def consumed(self, tp: TopicPartition, position: int, offset: int, value: str, identity: Identity) -> None:
        """A reader that wanted ``position`` saw a value at an offset: that one (A7), and it is committed (A18)."""
        if offset > position:
            self._account.fail("A7 poll-skip", f"{tp}: a reader at {position} is given {offset} next")
        truth = self._commits.truth.get(tp, [])
        wrong = offset >= len(truth) or truth[offset] not in (identity, GONE)
        if wrong and not self._commits.excuses(tp, identity[0]):
            committed = truth[offset] if offset < len(truth) else f"nothing, the true HW is {len(truth)}"
            self._account.fail(
                "A18 uncommitted read", f"{tp} {offset}: a reader is given {identity}, committed is {committed}"
            )
        if value not in self.sent_values:
            self._account.fail("A5 aborted read", f"{tp} {offset}: {value!r} was never sent")
        before = self.seen.setdefault((tp, offset), value)
        if before != value and tp not in self._commits.excused:
            self._account.fail(
                "A4 inconsistent-offsets",
                f"{tp} {offset}: {before!r} was read before, now {value!r}",
            )
        other = self.where.setdefault((tp, value), offset)
        if min(other, offset) < self._commits.deleted.get(
            tp, 0
        ):  # with its records, replicas may have forgotten the producer
            self.where[tp, value] = other = max(other, offset)
        elif other != offset and tp not in self._commits.excused and value not in self.sent_again:
            self._account.fail(
                "A3 duplicate", f"{tp}: {value!r} at offsets {other} and {offset} though its producer is idempotent"
            )

    def out_of_range(self, tp: TopicPartition, position: int, start: int) -> int:
        """A reader's position is not in the log: where it goes on. Before the log's start records were deleted by request."""
        deleted, truth = self._commits.deleted.get(tp, 0), len(self._commits.truth.get(tp, ()))
        if position < start <= deleted:
            self.passed_over.setdefault(tp, []).append((position, start))
            return start
        if tp not in self._commits.excused:
            self._account.fail(
                "A1 lost-write",
                f"{tp}: a reader at {position} is out of a range that begins at {start}; {truth} records are committed, "
                f"{deleted} were deleted by request",
            )
        return max(start, min(position, truth))

    def parted(self, tp: TopicPartition, position: int, epoch: int, end: int) -> tuple[int, int]:
        """A leader says that what a reader has read is no longer there from ``end`` on (KIP-320): where it goes on."""
        if tp not in self._commits.excused:
            self._account.fail("A8 nonmonotonic-poll", f"{tp}: a reader at {position} is sent back to {end}")
        return min(position, max(end, 0)), epoch

    def end_offset(self, tp: TopicPartition, asked: float, end: int, epoch: int) -> None:
        """An answer to ListOffsets(latest); one asked for after another was answered must not be smaller (A14)."""
        del epoch
        known = self.ends.setdefault(tp, [])
        smaller = [e for when, e in known if when < asked and e > end]
        if smaller and tp not in self._commits.excused:
            self._account.fail("A14 end offset monotone", f"{tp}: the end was {max(smaller)}, now it is {end}")
        known.append((self._world.now, end))
        if len(known) > 20:
            del known[:10]

    def seen_by(self, tp: TopicPartition, reader: ReadingClient) -> None:
        """A reader that began at the start has come to the end and met every acknowledged record (A2, A11)."""
        end = len(self._commits.truth.get(tp, ()))
        if reader.position < end:
            self._account.fail(
                "A11 realtime lag", f"{tp}: after healing a reader is still at {reader.position} of {end}"
            )
        if tp in self._commits.excused:
            return
        for ack in self.acks.get(tp, []):
            was_deleted = any(start <= ack.offset < to for start, to in self.passed_over.get(tp, ()))
            if not was_deleted and self.seen.get((tp, ack.offset)) != ack.value:
                self._account.fail(
                    "A2 unseen", f"{tp}: {ack.value!r} was acknowledged at {ack.offset} and never read there"
                )
