"""Readers: one that follows the log while it is being broken, and one that reads everything back at the end.

Both assign partitions themselves and seek: no group, no committed offset, nothing that could hide a record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition
from minikafka.client.security import ClientSecurity
from minikafka.client.watermarks import watermark_offsets
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import ReadBack
from minikafka_chaos.load.librdkafka import reader_config
from minikafka_chaos.load.load import COMMIT_WAIT_S, FINAL_PROCESS, SAMPLE_INTERVAL_S, TAIL_PROCESS, unique_part
from minikafka_chaos.record.history import HistoryWriter

POLL_S = 0.1
SHORT_WAIT_MS = 20
"""Of a reader that somebody waits for, and that reads to the end of what there is."""
POLL_RECORDS = 1000
COMMIT_POLL_S = 0.05
WATERMARK_TIMEOUT_S = 1.0
ENDS_TIMEOUT_S = 30.0


class Interruption(NamedTuple):
    """What a consumer got instead of a record: an error, or the end of a partition."""

    topic_partition: TopicPartition
    code: int
    offset: int


class ReadRecord(NamedTuple):
    """One record as a consumer gets it. `timestamp` in milliseconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    leader_epoch: int | None


def read_records(
    bootstrap: str, security: ClientSecurity, partitions: Sequence[TopicPartition], deadline_s: float
) -> list[ReadRecord]:
    """Everything that these partitions hold for a consumer now, by partition and offset; no history is written.

    Raises ToolTrouble when an end is not reached in time.
    """
    deadline = time.monotonic() + deadline_s
    consumer = Consumer({**reader_config(bootstrap, security), "fetch.wait.max.ms": SHORT_WAIT_MS})
    found: list[ReadRecord] = []
    try:
        bounds = {tp: _bounds(consumer, tp, deadline - time.monotonic()) for tp in partitions}
        pending = {tp: end for tp, (start, end) in bounds.items() if end > start}
        # From a known offset: librdkafka takes half a second to ask where the beginning is.
        consumer.assign([ClientPartition(*tp, bounds[tp][0]) for tp in pending])
        while pending:
            if time.monotonic() > deadline:
                raise ToolTrouble(
                    f"the end of {', '.join(map(str, sorted(pending)))} was not reached in {deadline_s:g} s"
                )
            for message in consumer.consume(POLL_RECORDS, SHORT_WAIT_MS / 1000):
                error = message.error()
                if error is None:
                    found.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    pending.pop(TopicPartition(message.topic() or "", message.partition() or 0), None)
    finally:
        consumer.close()
    return sorted(found, key=lambda record: record[:2])


def _bounds(consumer: Consumer, where: TopicPartition, timeout_s: float) -> tuple[int, int]:
    """Log start and end as the leader tells them."""
    try:
        return watermark_offsets(consumer, *where, timeout_s)
    except KafkaException as error:
        raise ToolTrouble(f"nobody tells how many records {where} has: {error.args[0].name()}") from error


def _record(message: Message) -> ReadRecord:
    value, key = message.value(), message.key()
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return ReadRecord(
        message.partition() or 0,
        message.offset() or 0,
        key.encode() if isinstance(key, str) else key,
        value.encode() if isinstance(value, str) else value,
        tuple((name, value) for name, value in headers),
        message.timestamp()[1],
        message.leader_epoch(),
    )


class _Reader:
    """What both readers share: a consumer, and the history of what it got."""

    def __init__(self, bootstrap: str, security: ClientSecurity, process: int, history: HistoryWriter) -> None:
        self.process = process
        self.history = history
        self.consumer = Consumer(reader_config(bootstrap, security))
        self._batch = 0

    def bounds(self, topic_partition: TopicPartition, timeout_s: float = WATERMARK_TIMEOUT_S) -> tuple[int, int] | None:
        """(log start, end offset) as the leader tells them now, or None when nobody answers in time."""
        try:
            start, end = watermark_offsets(self.consumer, *topic_partition, timeout_s)
        except KafkaException:
            return None
        self.history.log_bounds(self.process, topic_partition.topic, topic_partition.partition, start, end)
        return start, end

    def place(self, positions: dict[TopicPartition, int]) -> None:
        """Read from these offsets on, and nothing else."""
        for topic_partition, offset in positions.items():
            self.history.assign(self.process, topic_partition.topic, topic_partition.partition, offset)
        self.consumer.assign([ClientPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    def poll(self, timeout_s: float) -> list[Interruption]:
        """One poll: records go into the history; what is returned is what came instead of records."""
        self._batch += 1
        interruptions = []
        for message in self.consumer.consume(POLL_RECORDS, timeout_s):
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            error = message.error()
            if error is None:
                value = unique_part(message.value())
                self.history.poll(self.process, self._batch, topic, partition, offset, value, message.leader_epoch())
                continue
            interruptions.append(Interruption(TopicPartition(topic, partition), error.code(), offset))
            if error.code() != KafkaError._PARTITION_EOF:
                self.history.poll_failed(self.process, message.topic(), message.partition(), error.name())
        return interruptions

    def close(self) -> None:
        self.consumer.close()


LOST_PLACE = frozenset(
    (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, getattr(KafkaError, "_LOG_TRUNCATION", -131))
)
"""The partition has no position any more: the log was cut below where the reader stood (KIP-320)."""


class TailReader(threading.Thread):
    """Follows all partitions from the beginning, while faults happen, and samples their end offsets."""

    def __init__(
        self, bootstrap: str, security: ClientSecurity, partitions: Sequence[TopicPartition], history: HistoryWriter
    ) -> None:
        super().__init__(name="tail-reader", daemon=True)
        self._partitions = list(partitions)
        self._reader = _Reader(bootstrap, security, TAIL_PROCESS, history)
        self._stop_asked = threading.Event()
        self.failure: BaseException | None = None

    def note_ends(self) -> None:
        """Before the first send: what the partitions hold by now is not the load's.

        Raises ToolTrouble when a leader does not tell: what was there before would be taken for records that nobody sent.
        """
        deadline = time.monotonic() + ENDS_TIMEOUT_S
        untold = list(self._partitions)
        while untold := [each for each in untold if self._reader.bounds(each) is None]:
            if time.monotonic() > deadline:
                raise ToolTrouble(f"nobody tells how many records {', '.join(map(str, untold))} has")

    def run(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self.failure = error
        finally:
            self._reader.close()

    def _follow(self) -> None:
        reader = self._reader
        positions = dict.fromkeys(self._partitions, 0)
        reader.place(positions)
        sampled_at = time.monotonic()
        while not self._stop_asked.is_set():
            lost = {came.topic_partition for came in reader.poll(POLL_S) if came.code in LOST_PLACE}
            if lost:
                self._place_again(lost)
            if time.monotonic() - sampled_at >= SAMPLE_INTERVAL_S:
                for topic_partition in self._partitions:
                    reader.bounds(topic_partition)
                sampled_at = time.monotonic()

    def _place_again(self, lost: set[TopicPartition]) -> None:
        """Go on at the end of what is there now; whatever was lost, the final reader will tell."""
        current = self._reader.consumer.position([ClientPartition(tp.topic, tp.partition) for tp in self._partitions])
        positions = {TopicPartition(p.topic, p.partition): max(p.offset, 0) for p in current}
        for topic_partition in lost:
            bounds = self._reader.bounds(topic_partition)
            positions[topic_partition] = bounds[1] if bounds is not None else 0
        self._reader.place(positions)

    def stop(self, timeout_s: float = 10.0) -> None:
        self._stop_asked.set()
        if self.ident is not None:
            self.join(timeout_s)


def read_back(
    bootstrap: str,
    security: ClientSecurity,
    partitions: Sequence[TopicPartition],
    history: HistoryWriter,
    deadline_s: float,
    process: int = FINAL_PROCESS,
    progress: Callable[[int, int], None] | None = None,
) -> ReadBack:
    """Read every partition from its first offset to the end it had when asked, in `deadline_s` seconds at most.

    `progress(records read, records there)` is called now and then.
    """
    reader = _Reader(bootstrap, security, process, history)
    try:
        return _read_back(reader, list(partitions), time.monotonic() + deadline_s, progress)
    finally:
        reader.close()


def _read_back(
    reader: _Reader,
    partitions: list[TopicPartition],
    deadline: float,
    progress: Callable[[int, int], None] | None,
) -> ReadBack:
    bounds: dict[TopicPartition, tuple[int, int]] = {}
    acknowledged_to = reader.history.acknowledged_to
    waited_by = min(time.monotonic() + COMMIT_WAIT_S, deadline)
    unsettled = list(partitions)
    while unsettled and time.monotonic() < deadline:
        for topic_partition in list(unsettled):
            found = reader.bounds(topic_partition)
            if found is None:
                continue
            bounds[topic_partition] = found
            if found[1] > acknowledged_to.get(topic_partition, -1) or time.monotonic() > waited_by:
                unsettled.remove(topic_partition)
        if unsettled:
            time.sleep(COMMIT_POLL_S)
    result = ReadBack()
    reader.place({tp: start for tp, (start, _) in bounds.items()})
    pending = {tp: end for tp, (start, end) in bounds.items() if end > start}
    for topic_partition, (start, end) in bounds.items():
        if end <= start:
            reader.history.read_done(reader.process, *topic_partition, end)
    there = sum(end - start for start, end in bounds.values())
    while pending and time.monotonic() < deadline:
        for came in reader.poll(POLL_S):
            at_end = came.code == KafkaError._PARTITION_EOF and came.topic_partition in pending
            if at_end and came.offset >= pending[came.topic_partition]:
                del pending[came.topic_partition]
                reader.history.read_done(reader.process, *came.topic_partition, came.offset)
        if progress is not None:
            left = _left(reader.consumer, pending)
            progress(there - left, there)
    for topic_partition in partitions:
        if topic_partition in pending or topic_partition not in bounds:
            reader.history.read_done(reader.process, *topic_partition, -1, "deadline")
    result.records = there - _left(reader.consumer, pending)
    result.missing = tuple(tp for tp in partitions if tp in pending or tp not in bounds)
    result.complete = not result.missing
    return result


def _left(consumer: Consumer, pending: dict[TopicPartition, int]) -> int:
    """Offsets between where the reader stands and the ends it has not reached."""
    if not pending:
        return 0
    positions = consumer.position([ClientPartition(tp.topic, tp.partition) for tp in pending])
    stands = {TopicPartition(p.topic, p.partition): max(p.offset, 0) for p in positions}
    return sum(max(0, end - stands[tp]) for tp, end in pending.items())
