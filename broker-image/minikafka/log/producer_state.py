"""What a partition remembers of each idempotent producer, so that a retried batch is written once (R18, KIP-98).

The state is replicated by replaying the log: followers feed it from what they fetch, so a new leader still recognises
duplicates. Snapshots (`<offset>.snapshot`, Kafka's `ProducerSnapshot` schema, version 1) shorten the replay after a
restart. Kafka's hold the last batch of each producer only, so that a broker that comes back refuses a duplicate of any of the
four before it as out of order, though the record is in the log. These hold an entry for each batch that is remembered, oldest
first; Kafka reads them, and keeps the last (`ProducerStateManager.loadFromSnapshot`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minikafka.log.checkpoints import parse_whole_number
from minikafka.log.config import FOREVER
from minikafka.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from minikafka.log.filesystem import FileSystem
from minikafka.log.segment import segment_path
from minikafka.log.segments import SegmentList
from minikafka.protocol.checksum import crc32c
from minikafka.protocol.records import (
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    BatchHeader,
    MalformedRecords,
    Record,
    add_sequence,
    parse_records,
)

BATCHES_RETAINED = 5
"""`max.in.flight.requests.per.connection` of an idempotent producer is at most 5: older duplicates cannot come."""
PRODUCERS_MAX = 10_000
"""Of one partition; above it the tenth that has been silent for longest is forgotten, as if expired.

Nobody has to ask for a producer id before it is used, so without a bound a client makes up as many as it sends batches, half a
KB each for a day. 10,000 take 5 MB of memory and 600 KB of each snapshot. A producer is not forgotten before 9,000 others have
written to its partition since; it has to send a batch again within that time for a duplicate to be possible.
"""
REBUILD_READ_BYTES = 1 << 16
SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
"""producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of open
transaction"""
_END_MARKER = struct.Struct(">hi")
SEQUENCE_MAX = 2**31 - 1


class CorruptSnapshot(ValueError):
    """A producer snapshot that does not parse or whose CRC is wrong. It is deleted; an older one and the log replace
    it."""


class BatchMetadata(NamedTuple):
    """One of a producer's last batches in this partition."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """One producer id. `transaction_first_offset` is -1 when no transaction is open."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_first_offset")

    def __init__(self) -> None:
        self.epoch = NO_PRODUCER_EPOCH
        self.batches: list[BatchMetadata] = []
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStateManager:
    """All producers of one partition, and their snapshots in the log's directory."""

    __slots__ = ("_directory", "_expiration_ms", "_fs", "_producers")

    def __init__(self, fs: FileSystem, directory: str, expiration_ms: int) -> None:
        self._fs = fs
        self._directory = directory
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        return iter(self._producers.items())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Before a leader appends (R18): None when the batch is next in order, the earlier batch when this is its duplicate.

        A producer that is not known (its records were deleted, or it expired) may begin at any sequence number.
        Raises InvalidProducerEpoch, OutOfOrderSequence.
        """
        state = self._producers.get(producer_id)
        known_epoch = NO_PRODUCER_EPOCH if state is None else state.epoch
        if epoch < known_epoch:
            raise InvalidProducerEpoch(f"producer {producer_id}: epoch {epoch} is older than {known_epoch}")
        if state is None:
            return None
        if epoch == known_epoch:
            batches = state.batches
            if not batches:
                expected = 0  # a transaction marker was this epoch's first batch
            else:
                last = batches[-1].last_sequence
                expected = last + 1 if last != SEQUENCE_MAX else 0
            if first_sequence == expected:
                return None
            for batch in batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
            if epoch == NO_PRODUCER_EPOCH:
                return None  # no epoch, no order: only a repetition is known
            raise OutOfOrderSequence(
                f"producer {producer_id} epoch {epoch}: sequence {first_sequence} where {expected} should come"
            )
        if first_sequence != 0 and known_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"producer {producer_id}: new epoch {epoch} begins with sequence {first_sequence}, not 0"
            )
        return None

    def update(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """After an append by a leader or a follower: remember the batch. Never refuses: what is in the log counts."""
        state = self._producers.get(producer_id)
        if state is None:
            state = self._added(producer_id)
        batches = state.batches
        if epoch != state.epoch:
            state.epoch = epoch
            batches.clear()
        elif len(batches) == BATCHES_RETAINED:
            del batches[0]
        batches.append(BatchMetadata(first_sequence, last_sequence, first_offset, last_offset, timestamp))
        state.last_timestamp = timestamp
        if transactional and state.transaction_first_offset < 0:
            state.transaction_first_offset = first_offset

    def _added(self, producer_id: int) -> ProducerState:
        self._forget_eldest(PRODUCERS_MAX - 1)
        state = self._producers[producer_id] = ProducerState()
        return state

    def _forget_eldest(self, most: int) -> None:
        """Where there are more than so many, keep nine tenths of them, by where in the log their last batches are.

        The clock and the times of records have no say, so that replicas, which read the same log, forget the same.
        """
        if len(self._producers) <= most:
            return
        silent = [
            (state.batches[-1].last_offset if state.batches else -1, producer_id)
            for producer_id, state in self._producers.items()
            if state.transaction_first_offset < 0
        ]
        silent.sort()
        for _, producer_id in silent[: len(self._producers) - most * 9 // 10]:
            del self._producers[producer_id]

    def apply(self, header: BatchHeader, batch: bytes | memoryview | None) -> None:
        """Update from a producer's batch in the log. `batch` (its bytes) is needed for control batches only."""
        if header.control:
            assert batch is not None
            self._end_transaction(header, batch)
            return
        last = add_sequence(header.base_sequence, header.last_offset_delta)
        self.update(
            header.producer_id, header.producer_epoch, header.base_sequence, last,
            header.base_offset, header.last_offset, header.max_timestamp, header.transactional,
        )  # fmt: skip

    def apply_batches(self, records: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Update from several batches in the log, `records` being their bytes."""
        start = 0
        for header in headers:
            if header[9] >= 0:
                self.apply(header, records[start : start + header.size] if header.control else None)
            start += header[1] + LOG_OVERHEAD_BYTES

    def _end_transaction(self, header: BatchHeader, batch: bytes | memoryview) -> None:
        state = self._producers.get(header.producer_id) or self._added(header.producer_id)
        if state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        for marker in _markers(header, batch):
            if marker.value is not None and len(marker.value) >= _END_MARKER.size:
                state.coordinator_epoch = _END_MARKER.unpack_from(marker.value)[1]
        state.transaction_first_offset = -1
        state.last_timestamp = header.max_timestamp

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins: the last stable offset is not above it."""
        return min(
            (s.transaction_first_offset for s in self._producers.values() if s.transaction_first_offset >= 0),
            default=None,
        )

    def remove_expired(self, now_ms: int) -> int:
        """Forget producers silent for longer than `producer.id.expiration.ms` without an open transaction; how many."""
        old = [pid for pid, state in self._producers.items() if self._expired(state, now_ms)]
        for producer_id in old:
            del self._producers[producer_id]
        return len(old)

    def _expired(self, state: ProducerState, now_ms: int) -> bool:
        return state.transaction_first_offset < 0 and now_ms - state.last_timestamp >= self._expiration_ms

    def clear(self) -> None:
        self._producers.clear()

    # -- snapshots

    def take_snapshot(self, offset: int, *, durable: bool) -> str:
        """Write the state as it is at `offset` to a file, whose path is returned. Raises OSError."""
        path = self._path(offset)
        self._fs.write_atomic(path, encode_snapshot(self._producers), durable=durable)
        return path

    def rebuild(self, segments: SegmentList, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Load the newest usable snapshot at or below the log end offset, and replay the batches after it. Raises OSError.

        Also those between the snapshot and a log start that has moved: a producer that is known by an earlier batch than its
        last could not go on. (Kafka passes over them.) `now_ms` expires old producers; 0 expires none.
        """
        self.clear()
        oldest = segments[0].base_offset
        start = max(oldest, log_start_offset)
        for offset in reversed(self._snapshots()):
            path = self._path(offset)
            if oldest <= offset <= log_end_offset:
                try:
                    loaded = decode_snapshot(self._fs.read_bytes(path), path)
                except CorruptSnapshot:
                    pass
                else:
                    self._producers = {pid: s for pid, s in loaded.items() if not self._expired(s, now_ms)}
                    self._forget_eldest(PRODUCERS_MAX)
                    start = offset
                    break
            self._fs.remove(path)
        self._replay(segments, start)
        if now_ms:
            self.remove_expired(now_ms)

    def _replay(self, segments: SegmentList, start: int) -> None:
        """Take in the batches from `start` on: headers only, but for transaction markers."""
        for segment in segments.since(start):
            for found in segment.walk(segment.locate(start), REBUILD_READ_BYTES):
                if found.header.producer_id >= 0 and found.header.last_offset >= start:  # the log may start inside it
                    self.apply(found.header, segment.read_batch(found) if found.header.control else None)

    def check_snapshots(self) -> tuple[list[str], list[str]]:
        """Paths of the snapshots that are whole, and what was wrong with the others, which are removed. Raises OSError.

        They are written without fsync when a segment is completed: a power loss may have damaged any.
        """
        whole, problems = [], []
        for offset in self._snapshots():
            path = self._path(offset)
            try:
                decode_snapshot(self._fs.read_bytes(path), path)
            except CorruptSnapshot as error:
                problems.append(str(error))
                self._fs.remove(path)
            else:
                whole.append(path)
        return whole, problems

    def remove_snapshots(self, *, above: int = FOREVER, below: int = 0) -> None:
        """Delete the snapshots of offsets above one and below another. Raises OSError."""
        for offset in self._snapshots():
            if offset > above or offset < below:
                self._fs.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return segment_path(self._directory, offset, "snapshot")

    def _snapshots(self) -> list[int]:
        """Offsets of those on disk, ascending."""
        names = self._fs.listdir(self._directory)
        return sorted(
            offset
            for stem, _, kind in (name.partition(".") for name in names)
            if kind == "snapshot" and (offset := parse_whole_number(stem)) is not None
        )


def _markers(header: BatchHeader, batch: bytes | memoryview) -> list[Record]:
    """The records of a control batch: one, and none after compaction. Nor where they cannot be read: the batch is in the log, and
    the log must be opened. No broker compresses them."""
    if header.codec:
        return []
    try:
        return list(parse_records(batch))
    except MalformedRecords:
        return []


def encode_snapshot(producers: dict[int, ProducerState]) -> bytes:
    """Kafka's format: version, CRC-32C of what follows, entries."""
    entries = bytearray()
    for producer_id, state in producers.items():
        for batch in state.batches[:-1]:
            entries += _SNAPSHOT_ENTRY.pack(
                producer_id, state.epoch, batch.last_sequence, batch.last_offset, batch.last_offset - batch.first_offset,
                batch.timestamp, state.coordinator_epoch, state.transaction_first_offset,
            )  # fmt: skip
        last_offset, delta = -1, 0
        if state.batches:
            last_offset = state.batches[-1].last_offset
            delta = last_offset - state.batches[-1].first_offset
        entries += _SNAPSHOT_ENTRY.pack(
            producer_id, state.epoch, state.last_sequence, last_offset, delta,
            state.last_timestamp, state.coordinator_epoch, state.transaction_first_offset,
        )  # fmt: skip
    body = _SNAPSHOT_COUNT.pack(len(entries) // _SNAPSHOT_ENTRY.size) + bytes(entries)
    return _SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, path: str) -> dict[int, ProducerState]:
    """The inverse of `encode_snapshot`. Raises CorruptSnapshot naming the file."""
    body = data[_SNAPSHOT_HEAD.size :]
    if len(body) < _SNAPSHOT_COUNT.size:
        raise CorruptSnapshot(f"{path}: too short")
    version, crc = _SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"{path}: version {version}, only {SNAPSHOT_VERSION} is known")
    if crc != crc32c(body):
        raise CorruptSnapshot(f"{path}: the CRC does not match")
    (count,) = _SNAPSHOT_COUNT.unpack_from(body)
    if len(body) != _SNAPSHOT_COUNT.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{path}: {count} entries do not fill {len(body)} bytes")
    producers: dict[int, ProducerState] = {}
    for fields in _SNAPSHOT_ENTRY.iter_unpack(body[_SNAPSHOT_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset = fields
        state = producers.setdefault(producer_id, ProducerState())
        if state.epoch != epoch or len(state.batches) == BATCHES_RETAINED:
            state.batches.clear()  # no file of ours has that; the last counts, as for Kafka
        state.epoch = epoch
        state.last_timestamp = timestamp
        state.coordinator_epoch = coordinator_epoch
        state.transaction_first_offset = first_offset
        if last_offset >= 0:
            first_sequence = add_sequence(last_sequence, -delta)
            state.batches.append(
                BatchMetadata(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
    return producers
