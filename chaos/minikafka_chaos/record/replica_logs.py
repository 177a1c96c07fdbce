"""Reads a replica's log as its files have it: segments, the unflushed tails over them, and where the log starts.

It works on the data directories of any broker with Kafka's record batch v2 on disk. What the logs of a partition's
replicas must have in common is judged elsewhere, from what `replica_evidence` writes down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from minikafka.log.checkpoints import LOG_START_OFFSETS, parse_checkpoint
from minikafka.log.errors import MalformedCheckpoint
from minikafka.protocol.records import MalformedRecords, RecordBatch, UnsupportedCompression, iterate_batches
from minikafka.protocol.types import TopicPartition

LOG_SUFFIX = ".log"
VALUES_OF_BATCHES_MAX = 100
"""Of so many batches at the beginning of a log a few values are kept: a story's whole log, and little of a load's."""
VALUES_MAX = 5
VALUE_CHARACTERS = 80


class ReplicaLogError(Exception):
    """A replica's files cannot be read. Trouble of the tool or the machine, never an anomaly."""


class NoReplicaDirectory(ReplicaLogError):
    """A broker's files are there, and this replica's directory is not among them."""


class Batch(NamedTuple):
    """A batch as its header tells, and where it is."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    crc_right: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    control: bool
    segment: str
    """Name of the segment's `.log` file."""
    position: int
    size: int
    """Bytes."""
    values: tuple[str, ...] = ()
    """The first few values, shortened, for people."""

    def as_json(self) -> dict[str, Any]:
        return self._asdict() if self.values else {k: v for k, v in self._asdict().items() if k != "values"}


@dataclass(slots=True)
class ReplicaLog:
    """One replica of one partition as its files have it, at rest."""

    broker: int
    topic_partition: TopicPartition
    folder: Path
    tails: Path | None
    """The replica's folder in the unflushed directory."""
    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    """The log start: from its checkpoint, or the first segment's name where that is higher."""
    damage: str | None = None
    """Why reading stopped before the end of the files; a torn last batch is no damage, recovery cuts it."""

    @property
    def end_offset(self) -> int:
        """The offset after the last whole batch; of an empty log its start."""
        return self.batches[-1].last_offset + 1 if self.batches else self.start_offset


def read_replica_log(
    broker: int, topic_partition: TopicPartition, data_dir: Path, unflushed_dir: Path | None = None
) -> ReplicaLog:
    """Read one replica from a broker's log directory (and its unflushed directory when it has one).

    The broker should be down, or at least idle: files that change meanwhile may look torn.

    Batches that lie below the log start as a whole are left out: their files only wait for deletion.

    Raises NoReplicaDirectory when the replica's directory is missing, ReplicaLogError when a file cannot be read.
    """
    folder = data_dir / str(topic_partition)
    tails = unflushed_dir / str(topic_partition) if unflushed_dir is not None else None
    log = ReplicaLog(broker, topic_partition, folder, tails)
    try:
        if not folder.is_dir():
            if not data_dir.is_dir():
                raise ReplicaLogError(f"broker {broker} has no directory {data_dir}")
            raise NoReplicaDirectory(f"broker {broker} has no directory of {topic_partition} in {data_dir}")
        segments = sorted(_segment_names(folder) | (_segment_names(tails) if tails else set()))
        for base in segments:
            _read_segment(log, base, _segment_bytes(folder / base, tails))
            if log.damage is not None:
                break
        first = int(segments[0].removesuffix(LOG_SUFFIX)) if segments else 0
        log.start_offset = max(first, _checkpointed_start(data_dir, topic_partition))
    except (OSError, MalformedCheckpoint) as error:
        raise ReplicaLogError(f"broker {broker}, {topic_partition}: {error}") from error
    log.batches = [batch for batch in log.batches if batch.last_offset >= log.start_offset]
    return log


def _checkpointed_start(data_dir: Path, topic_partition: TopicPartition) -> int:
    path = data_dir / LOG_START_OFFSETS
    if not path.exists():
        return 0
    wanted = [topic_partition.topic, str(topic_partition.partition)]
    rows = parse_checkpoint(path.read_bytes(), 3, str(path))
    return next((int(row[2]) for row in rows if row[:2] == wanted), 0)


def _segment_names(folder: Path) -> set[str]:
    """The `.log` names of the segments that have a file here; a tail file is `<base>.log.<start position>`."""
    if not folder.is_dir():
        return set()
    names = (path.name for path in folder.iterdir())
    return {name[: name.index(LOG_SUFFIX) + len(LOG_SUFFIX)] for name in names if _is_segment(name)}


def _is_segment(name: str) -> bool:
    base, suffix, rest = name.partition(LOG_SUFFIX)
    return suffix == LOG_SUFFIX and base.isdigit() and (rest == "" or rest.removeprefix(".").isdigit())


def _segment_bytes(data_file: Path, tails: Path | None) -> bytearray:
    """The flushed part with the unflushed tails laid over it, each at the position its name says."""
    content = bytearray(data_file.read_bytes()) if data_file.exists() else bytearray()
    if tails is not None and tails.is_dir():
        parts = sorted((int(path.name.rpartition(".")[2]), path) for path in tails.glob(f"{data_file.name}.*"))
        for position, path in parts:
            if position > len(content):
                break  # a hole: what lies beyond it was never reachable
            content[position:] = path.read_bytes()
    return content


def _read_segment(log: ReplicaLog, name: str, content: bytearray) -> None:
    try:
        for batch in iterate_batches(content):
            values = _first_values(batch) if len(log.batches) < VALUES_OF_BATCHES_MAX else ()
            log.batches.append(_batch(name, batch, values))
    except MalformedRecords as error:
        # Zeros after the last batch are the preallocated rest of a file, not damage.
        position = sum(batch.size for batch in log.batches if batch.segment == name)
        if any(content[position:]):
            log.damage = f"{name}: {error}"


def _batch(name: str, batch: RecordBatch, values: tuple[str, ...]) -> Batch:
    header = batch.header
    return Batch(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.crc,
        batch.crc_matches(),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.control,
        name,
        batch.position,
        len(batch.data),
        values,
    )


def _first_values(batch: RecordBatch) -> tuple[str, ...]:
    """The first few values of a batch; none of one that cannot be read."""
    try:
        found = [record.value or b"" for record in islice(batch.records(), VALUES_MAX)]
    except (MalformedRecords, UnsupportedCompression, ValueError):
        return ()
    return tuple(value.split(b"|", 1)[0].decode(errors="backslashreplace")[:VALUE_CHARACTERS] for value in found)
