"""Do the replicas' own logs agree? Reads segment files as they are on disk, and compares them batch by batch.

Followers copy batches byte by byte, so two replicas that agree have the same (base offset, last offset, leader epoch,
CRC) at every place below their common end; this is the log matching property of KIP-101. It works on the data
directories of any broker with Kafka's record batch v2 on disk. A topic with cleanup.policy=compact is beyond it: there
each replica compacts by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from minikafka.protocol.records import MalformedRecords, RecordBatch, UnsupportedCompression, iterate_batches
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.anomalies import Anomaly, Kind, Severity

LOG_SUFFIX = ".log"
EVIDENCE_VALUES_MAX = 5
"""Values of a batch that are quoted as evidence."""
EVIDENCE_VALUE_CHARACTERS = 80


class ReplicaLogError(Exception):
    """A replica's files cannot be read. Trouble of the tool or the machine, never an anomaly."""


class Batch(NamedTuple):
    """What two replicas must have in common at one place of the log, and a taste of what is inside."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    crc_right: bool
    segment: str
    """Name of the segment's `.log` file."""
    position: int
    size: int
    """Bytes."""

    @property
    def identity(self) -> tuple[int, int, int, int]:
        return self.base_offset, self.last_offset, self.leader_epoch, self.crc

    @property
    def where(self) -> str:
        return f"{self.segment}:{self.position}"


@dataclass(slots=True)
class ReplicaLog:
    """One replica of one partition as its files have it, at rest."""

    broker: int
    topic_partition: TopicPartition
    folder: Path
    tails: Path | None
    """The replica's folder in the unflushed directory."""
    batches: list[Batch] = field(default_factory=list)
    damage: str | None = None
    """Why reading stopped before the end of the files; a torn last batch is no damage, recovery cuts it."""

    @property
    def start_offset(self) -> int:
        return self.batches[0].base_offset if self.batches else 0

    @property
    def end_offset(self) -> int:
        """The offset after the last whole batch."""
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def values(self, batch: Batch) -> list[str]:
        """The first few values in one of the batches, shortened; what cannot be read is left out."""
        values: list[str] = []
        try:
            content = _segment_bytes(self.folder / batch.segment, self.tails)
            for found in iterate_batches(content[batch.position : batch.position + batch.size]):
                for record in found.records():
                    text = (record.value or b"").split(b"|", 1)[0].decode(errors="backslashreplace")
                    values.append(text[:EVIDENCE_VALUE_CHARACTERS])
                    if len(values) == EVIDENCE_VALUES_MAX:
                        return values
        except (MalformedRecords, UnsupportedCompression, ValueError, OSError):
            pass
        return values

    def evidence(self, batch: Batch | None) -> dict[str, Any] | None:
        """What a batch is, as JSON."""
        if batch is None:
            return None
        return {
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "leader_epoch": batch.leader_epoch,
            "crc": batch.crc,
            "where": batch.where,
            "values": self.values(batch),
        }


def read_replica_log(
    broker: int, topic_partition: TopicPartition, data_dir: Path, unflushed_dir: Path | None = None
) -> ReplicaLog:
    """Read one replica from a broker's log directory (and its unflushed directory when it has one).

    The broker should be down, or at least idle: files that change meanwhile may look torn.

    Raises ReplicaLogError when the replica's directory is missing or a file cannot be read.
    """
    folder = data_dir / str(topic_partition)
    tails = unflushed_dir / str(topic_partition) if unflushed_dir is not None else None
    log = ReplicaLog(broker, topic_partition, folder, tails)
    try:
        if not folder.is_dir():
            raise ReplicaLogError(f"broker {broker} has no directory of {topic_partition} in {data_dir}")
        for base in sorted(_segment_names(folder) | (_segment_names(tails) if tails else set())):
            _read_segment(log, base, _segment_bytes(folder / base, tails))
            if log.damage is not None:
                break
    except OSError as error:
        raise ReplicaLogError(f"broker {broker}, {topic_partition}: {error}") from error
    return log


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
            log.batches.append(_batch(name, batch))
    except MalformedRecords as error:
        # Zeros after the last batch are the preallocated rest of a file, not damage.
        position = sum(batch.size for batch in log.batches if batch.segment == name)
        if any(content[position:]):
            log.damage = f"{name}: {error}"


def _batch(name: str, batch: RecordBatch) -> Batch:
    header = batch.header
    return Batch(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.crc,
        batch.crc_matches(),
        name,
        batch.position,
        len(batch.data),
    )


def check_logs(logs: Iterable[ReplicaLog]) -> list[Anomaly]:
    """Every anomaly of one partition's replicas: each log by itself, then each pair."""
    replicas = sorted(logs, key=lambda log: log.broker)
    found = [anomaly for log in replicas for anomaly in check_log(log)]
    for left, right in combinations(replicas, 2):
        divergence = first_divergence(left, right)
        if divergence is not None:
            found.append(divergence)
    return found


def check_log(log: ReplicaLog) -> Iterator[Anomaly]:
    """CRCs, and rule B13: offsets grow without overlap, leader epochs never decrease along a log."""
    if log.damage is not None:
        message = f"broker {log.broker}: the log cannot be read past offset {log.end_offset}: {log.damage}"
        yield _anomaly(Kind.BROKEN_LOG, log.topic_partition, log.end_offset, message, {"broker": log.broker})
    previous: Batch | None = None
    for batch in log.batches:
        if not batch.crc_right:
            message = f"broker {log.broker}: wrong CRC of the batch at offset {batch.base_offset} ({batch.where})"
            yield _anomaly(Kind.CORRUPT_BATCH, log.topic_partition, batch.base_offset, message, _of(log, batch))
        if previous is not None and batch.base_offset <= previous.last_offset:
            message = (
                f"broker {log.broker}: the batch at offset {batch.base_offset} follows one that ends at "
                f"{previous.last_offset}"
            )
            yield _anomaly(Kind.BROKEN_LOG, log.topic_partition, batch.base_offset, message, _of(log, batch))
        if previous is not None and batch.leader_epoch < previous.leader_epoch:
            message = (
                f"broker {log.broker}: leader epoch falls from {previous.leader_epoch} to {batch.leader_epoch} at "
                f"offset {batch.base_offset}"
            )
            yield _anomaly(Kind.BROKEN_LOG, log.topic_partition, batch.base_offset, message, _of(log, batch))
        previous = batch


def first_divergence(left: ReplicaLog, right: ReplicaLog) -> Anomaly | None:
    """B8 LogMatching: the first place below the common end where two replicas differ, or None when they agree."""
    start = max(left.start_offset, right.start_offset)
    end = min(left.end_offset, right.end_offset)
    ours, theirs = _between(left.batches, start, end), _between(right.batches, start, end)
    for index in range(max(len(ours), len(theirs))):
        one = ours[index] if index < len(ours) else None
        other = theirs[index] if index < len(theirs) else None
        if one is not None and other is not None and one.identity == other.identity:
            continue
        offset = min(batch.base_offset for batch in (one, other) if batch is not None)
        told = "; ".join(f"broker {log.broker} has {_told(log, batch)}" for log, batch in ((left, one), (right, other)))
        differing = sum(1 for a, b in zip(ours[index:], theirs[index:], strict=False) if a.identity != b.identity)
        return _anomaly(
            Kind.DIVERGENT_REPLICAS,
            left.topic_partition,
            offset,
            f"replicas differ at offset {offset}, below their common end {end}: {told}",
            {
                "brokers": [left.broker, right.broker],
                "batches": [left.evidence(one), right.evidence(other)],
                "end_offsets": [left.end_offset, right.end_offset],
                "differing_batches": max(differing, 1),
            },
        )
    return None


def _between(batches: Sequence[Batch], start: int, end: int) -> list[Batch]:
    return [batch for batch in batches if batch.last_offset >= start and batch.base_offset < end]


def _of(log: ReplicaLog, batch: Batch) -> dict[str, Any]:
    return {"broker": log.broker, "batch": log.evidence(batch)}


def _told(log: ReplicaLog, batch: Batch | None) -> str:
    if batch is None:
        return "nothing there"
    one = batch.base_offset == batch.last_offset
    span = str(batch.base_offset) if one else f"{batch.base_offset}-{batch.last_offset}"
    values = ", ".join(map(repr, log.values(batch)))
    return f"offset {span} of epoch {batch.leader_epoch}, CRC {batch.crc:08x}" + (f" ({values})" if values else "")


def _anomaly(kind: Kind, where: TopicPartition, offset: int, message: str, evidence: dict[str, Any]) -> Anomaly:
    return Anomaly(kind, Severity.ERROR, where.topic, where.partition, offset, None, f"{where}: {message}", evidence)
