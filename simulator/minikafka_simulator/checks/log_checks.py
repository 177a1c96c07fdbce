"""What is checked of one replica's log: see ``invariants``, B8, B13, B15, B20 to B23, B25, B35 and B36."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.log.log import Log
from minikafka.protocol.records import RecordBatch, add_sequence
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.commit_checks import CommitChecks
from minikafka_simulator.checks.mirror import GONE, Identity, View, epochs_differ, indexes_differ, producers_differ
from minikafka_simulator.checks.scheduled_cluster import ScheduledCluster

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


class LogChecks:
    """Of one world."""

    def __init__(self, world: ScheduledCluster, account: Account, commits: CommitChecks) -> None:
        self._world = world
        self._account = account
        self._commits = commits
        self.written: dict[TopicPartition, dict[tuple[int, int], Identity]] = {}
        """The one record that was ever seen at an offset with a leader epoch."""
        self._batches: dict[TopicPartition, set[tuple[int, int]]] = {}
        """Base offset and CRC of every batch that was ever seen."""

    def opened(self, broker: SimBroker, tp: TopicPartition, log: Log) -> None:
        """What is on the disk is read again."""
        view = self._account.views[broker.id, tp] = View()
        expected = log.segments[0].base_offset
        view.skip_to(expected)
        for whole in log.read_batches(log.log_start_offset, log.log_end_offset):
            if whole.header.base_offset > expected and whole.header.base_offset <= log.log_start_offset:
                expected = whole.header.base_offset
                view.skip_to(expected)
            if not whole.crc_matches() or whole.header.base_offset != expected:
                self._account.fail(
                    "B15 recovery",
                    f"broker {broker.id} {tp}: batch at {whole.header.base_offset} is damaged or out of place, "
                    f"want {expected}",
                )
            expected = whole.header.next_offset
            self.take(broker, tp, view, whole)
        if log.log_start_offset == log.log_end_offset:
            view.skip_to(log.log_end_offset)
            expected = log.log_end_offset
        if expected != log.log_end_offset:
            self._account.fail(
                "B15 recovery",
                f"broker {broker.id} {tp}: whole batches end at {expected}, LEO {log.log_end_offset}",
            )
        self.starts_right(broker, tp, log.log_start_offset)
        view.begin_at(log.log_start_offset)
        self.remembers_right(broker, tp, log, view)
        self.finds_right(broker, tp, log)

    def take(self, broker: SimBroker, tp: TopicPartition, view: View, whole: RecordBatch) -> None:
        """One leader epoch writes an offset once: whoever else has it has the same record there (B8)."""
        header = whole.header
        epoch, crc, base = header.partition_leader_epoch, header.crc, header.base_offset
        written = self.written.setdefault(tp, {})
        self._batches.setdefault(tp, set()).add((base, crc))
        found: list[Identity] = []
        for index in range(header.last_offset_delta + 1):
            identity = (epoch, crc, index)
            known = written.setdefault((base + index, epoch), identity)
            if known != identity:
                self._account.fail(
                    "B8 LogMatching",
                    f"broker {broker.id} {tp}: {identity} at {base + index}, where {known} was written in that leader epoch",
                )
            found.append(known)
        if header.producer_id >= 0 and not header.control:
            self._follows(broker, tp, view, whole)
        view.take(whole, found)

    def _follows(self, broker: SimBroker, tp: TopicPartition, view: View, whole: RecordBatch) -> None:
        """A producer's batches are in a log as it has numbered them: none twice, none missing (B36).

        Of a producer all of whose records were deleted, a broker may have forgotten where it was.
        """
        header = whole.header
        recent = view.recent_batches.get(header.producer_id)
        before = recent[-1] if recent else None
        if before is None or before.last_offset >= header.base_offset:
            return
        if before.last_offset < max(view.start, self._commits.deleted.get(tp, 0)):
            return
        if header.producer_epoch == before.epoch:
            wanted = add_sequence(before.last_sequence, 1)
        else:
            wanted = 0 if header.producer_epoch > before.epoch else -1
        if header.base_sequence != wanted:
            self._account.fail(
                "B36 SequenceUnbroken",
                f"broker {broker.id} {tp}: at {header.base_offset} producer {header.producer_id} has epoch "
                f"{header.producer_epoch} and sequence {header.base_sequence}, after {before}",
            )

    def starts_right(self, broker: SimBroker, tp: TopicPartition, start: int) -> None:
        """A log begins where records were deleted by request, or before (B20)."""
        if start > self._commits.deleted.get(tp, 0):
            self._account.fail(
                "B20 DeletedByRequest",
                f"broker {broker.id} {tp}: the log begins at {start}, records were deleted up to "
                f"{self._commits.deleted.get(tp, 0)}",
            )

    def remembers_right(self, broker: SimBroker, tp: TopicPartition, log: Log, view: View) -> None:
        """Epoch cache and producer state are those of the batches (B21, B22)."""
        led = {epoch for (of, epoch), leader in self._account.leaders.items() if of == tp and leader == broker.id}
        if (difference := epochs_differ(log, view, led, broker.disk_may_refuse)) is not None:
            self._account.fail("B21 EpochCache", f"broker {broker.id} {tp}: {difference}")
        if (difference := producers_differ(log, view)) is not None:
            self._account.fail("B22 ProducerState", f"broker {broker.id} {tp}: {difference}")

    def finds_right(self, broker: SimBroker, tp: TopicPartition, log: Log) -> None:
        """The indexes point to the batches (B23)."""
        if (difference := indexes_differ(log)) is not None:
            self._account.fail("B23 Indexes", f"broker {broker.id} {tp}: {difference}")

    def epochs_grow(self, broker: SimBroker, tp: TopicPartition, view: View, first: int) -> None:
        """Epochs of batches never fall along the log (B13)."""
        before = view.identities[first - 1][0] if first else -1
        for offset in range(first, len(view.identities)):
            epoch = view.identities[offset][0]
            if view.identities[offset] == GONE:
                continue
            if epoch < before:
                self._account.fail(
                    "B13 epochs", f"broker {broker.id} {tp}: epoch {epoch} at {offset} follows epoch {before}"
                )
            before = epoch

    def notes_growth(self, broker: SimBroker, tp: TopicPartition, log: Log, view: View, first: int) -> None:
        """What was appended is in the epoch cache and in the producer state (B21, B22); the rest is looked at when it is cut."""
        for offset in range(first, len(view.identities)):
            if (noted := log.epochs.epoch_for_offset(offset)) != view.identities[offset][0]:
                self._account.fail(
                    "B21 EpochCache",
                    f"broker {broker.id} {tp}: epoch {noted} is noted for {offset}, the record has {view.identities[offset][0]}",
                )
        if (difference := producers_differ(log, view)) is not None:
            self._account.fail("B22 ProducerState", f"broker {broker.id} {tp}: {difference}")

    def kept_too_short(self, broker: SimBroker, tp: TopicPartition, log: Log, start: int) -> str | None:
        """Why retention should not have taken the last batch before ``start``: it is neither too old, nor is there enough
        without it. None when it was right, or that batch was not seen here."""
        view, config = self._account.views[broker.id, tp], log.config
        last = next((batch for batch in reversed(view.producer_batches) if batch.last_offset < start), None)
        if last is None or last.last_offset != start - 1:
            return None
        age = max(broker.now_ms, self._world.now_ms) - last.timestamp
        if 0 <= config.retention_ms < age or 0 <= config.retention_bytes <= log.size_bytes:
            return None
        return (
            f"retention takes what is before {start}, though the last of it is {age} ms old and only {log.size_bytes} bytes are "
            f"left; retention.ms {config.retention_ms}, retention.bytes {config.retention_bytes}"
        )

    def stray_log(self, broker: SimBroker) -> str | None:
        """A log that is not of one of a broker's own replicas, of a topic that there is (B25)."""
        assert broker.logs is not None
        for tp in broker.logs.logs:
            state, topic_id = self._account.states.get(tp), broker.logs.topic_ids.get(tp)
            if state is None or broker.id not in state.replicas or topic_id != self._account.topic_ids[tp.topic]:
                return f"broker {broker.id} has a log of {tp} (topic id {topic_id}), which is not its own"
        return None

    def was_written(self, tp: TopicPartition, offset: int, crc: int) -> bool:
        """Whether any leader has ever written a batch of this CRC at an offset."""
        return (offset, crc) in self._batches.get(tp, ())

    def first_epoch(self, tp: TopicPartition, offset: int, crc: int) -> int:
        """The first leader epoch in which a batch of this CRC was written at an offset; -1 when it never was."""
        written = self.written.get(tp, {})
        return min((epoch for (at, epoch), found in written.items() if (at, found[1]) == (offset, crc)), default=-1)

    def forget(self, topic: str) -> None:
        """It was deleted: one of the same name that comes later is another."""
        for tp in [tp for tp in self.written if tp.topic == topic]:
            del self.written[tp], self._batches[tp]

    def value_at(self, broker_id: int, tp: TopicPartition, offset: int) -> str | None:
        log = self._world.brokers[broker_id].partitions[tp].log
        if not log.log_start_offset <= offset < log.log_end_offset:
            return None
        for whole in log.read_batches(offset, log.log_end_offset):
            for record in whole.records():
                if record.offset == offset:
                    return (record.value or b"").decode()
            return None
        return None
