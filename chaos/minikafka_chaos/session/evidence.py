"""The verdict on a session: what brokers told as acknowledged, against what their leaders and logs have now.

The clients are the user's own, so nobody wrote down what they sent. The brokers did, where hooks are on: each acknowledgement is
an event, written before its answer leaves. A record is known by its offset and the checksum of its batch. Of that a history is
made as clients would have written it, and the verifier judges it by the terms `by_brokers`: what is lost, and the replicas'
logs. What was sent, read and processed nobody knows, so that is not judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minikafka.protocol.records import BatchHeader
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.load import FINAL_PROCESS
from minikafka_chaos.record.history import FILE_NAME, OK, HistoryWriter

EVENT = "produce_acknowledged"


class Acknowledgement(NamedTuple):
    """A batch, as its leader acknowledged it. `time` in unix seconds."""

    time: float
    where: TopicPartition
    offset: int
    records: int
    crc: int

    @property
    def values(self) -> Iterator[tuple[int, str]]:
        """(offset, name) of each of its records."""
        return named(self.where, self.offset, self.records, self.crc)


class CommittedLog(NamedTuple):
    """What a partition's leader has: log start, high watermark, and the batches between."""

    where: TopicPartition
    start: int
    end: int
    batches: Sequence[BatchHeader]


def named(where: TopicPartition, base: int, records: int, crc: int) -> Iterator[tuple[int, str]]:
    """(offset, name) of the records of a batch."""
    return ((base + n, f"{where}@{base + n}.{crc:08x}") for n in range(records))


def acknowledgements(events: Path, topics: Iterable[str]) -> list[Acknowledgement]:
    """Return what the brokers' event logs in a folder tell of these topics, by time. Lines that are cut off are left out.

    Raises ToolTrouble for one that is damaged.
    """
    wanted = set(topics)
    found = []
    for path in sorted(events.glob("*.jsonl")):
        with path.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                try:
                    if (event := _event(raw)) and event["topic"] in wanted:
                        found.append(_acknowledgement(event))
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    raise ToolTrouble(f"{path.name}: line {number} is damaged: no {EVENT}: {error!r}") from error
    return sorted(found)


def _event(raw: bytes) -> Mapping[str, Any] | None:
    if EVENT.encode() not in raw:
        return None
    try:
        event: Mapping[str, Any] = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return event if event.get("event") == EVENT else None


def _acknowledgement(event: Mapping[str, Any]) -> Acknowledgement:
    fields = event["fields"]
    numbers = (event["partition"], fields["offset"], fields["records"], fields["crc"])
    if not all(type(each) is int for each in numbers):
        raise TypeError("what should be numbers is not")
    partition, offset, records, crc = numbers
    return Acknowledgement(float(event["time"]), TopicPartition(event["topic"], partition), offset, records, crc)


def write_history(
    folder: Path, acknowledged: Sequence[Acknowledgement], logs: Sequence[CommittedLog], now: Callable[[], float]
) -> Path:
    """Write `history.jsonl`, as clients would have that sent what was acknowledged, and then read all logs.

    Nobody wrote down when a record was sent, nor by whom. So all are sent before the first is acknowledged, in the order of
    their offsets: one that was in flight when its leader died comes to be committed after others behind it were acknowledged,
    as does one that waited for other partitions of its request, and neither is out of order. What is in a log and nobody
    acknowledged was sent, and its outcome is unknown.
    """
    clock = [acknowledged[0].time if acknowledged else now()]
    path = folder / FILE_NAME
    with HistoryWriter(path, lambda: clock[0]) as history:
        sent = {(each.where, *record) for each in acknowledged for record in each.values}
        sent |= {(log.where, offset, value) for log in logs for offset, value, _ in _records(log)}
        for where, _, value in sorted(sent):
            history.invoke_send(0, *where, value)
        completed: set[str] = set()
        for each in acknowledged:
            clock[0] = each.time
            for offset, value in each.values:
                if value not in completed:  # an idempotent producer's batch is acknowledged again when it is sent again
                    completed.add(value)
                    history.complete_send(0, OK, *each.where, offset, value)
        clock[0] = max(now(), clock[0])
        for log in logs:
            _read(history, log)
    return path


def _records(log: CommittedLog) -> list[tuple[int, str, int]]:
    """(offset, name, leader epoch) of the records of a log."""
    return [
        (offset, value, batch.partition_leader_epoch)
        for batch in log.batches
        for offset, value in named(log.where, batch.base_offset, batch.last_offset_delta + 1, batch.crc)
        if offset >= log.start
    ]


def _read(history: HistoryWriter, log: CommittedLog) -> None:
    """A final reader of one partition."""
    topic, partition = log.where
    history.log_bounds(FINAL_PROCESS, topic, partition, log.start, log.end)
    history.assign(FINAL_PROCESS, topic, partition, log.start)
    for batch, (offset, value, epoch) in enumerate(_records(log)):
        history.poll(FINAL_PROCESS, batch, topic, partition, offset, value, epoch)
    history.read_done(FINAL_PROCESS, topic, partition, log.end)
