"""Writes `replicas.jsonl`: the replicas' logs at rest, the topics' settings, and who moved the log starts.

The format is in docs/reference/verdicts.md. All grounds write it, when their brokers are down.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.load.clients import PartitionView
from minikafka_chaos.record.replica_logs import NoReplicaDirectory, ReplicaLog, ReplicaLogError
from minikafka_chaos.verdict.evidence import REPLICAS_FILE

NO_DIRECTORY = "the replica's directory is missing"

REASONS = {"retention": "retention", "DeleteRecords": "delete_records"}
"""Reasons of the event `log_start_advanced`, and the evidence's word for them. A follower's names its leader."""


@dataclass(frozen=True, slots=True)
class TopicEvidence:
    """A topic as metadata had it when the final read was over. `placement` has every partition."""

    name: str
    replication_factor: int
    placement: Mapping[TopicPartition, PartitionView]
    config: Mapping[str, str] = field(default_factory=dict)


def write_replicas(
    folder: Path,
    topics: Iterable[TopicEvidence],
    replica_log: Callable[[int, TopicPartition], ReplicaLog],
    events: Path | None = None,
    collect_events: Callable[[Path], None] = lambda _folder: None,
) -> list[str]:
    """Write `folder/replicas.jsonl`; returns what could not be read, a line each: trouble of the tool, no anomaly.

    `events` is the folder of the brokers' event logs; `collect_events` brings them there anew, when all logs are read: log starts
    move meanwhile where brokers run.
    """
    problems: list[str] = []
    topics = list(topics)
    with (folder / REPLICAS_FILE).open("w", encoding="utf-8") as file:

        def write(kind: str, **fields: Any) -> None:
            file.write(json.dumps({"kind": kind, **fields}, separators=(",", ":")) + "\n")

        for topic in topics:
            counts = {"partitions": len(topic.placement), "replication_factor": topic.replication_factor}
            write("topic", topic=topic.name, **counts, config=dict(topic.config))
            for topic_partition, view in sorted(topic.placement.items()):
                for broker in view.replicas:
                    try:
                        _write_replica(write, topic_partition, view, broker, replica_log)
                    except ReplicaLogError as error:
                        problems.append(str(error))
        if events is not None:
            collect_events(events)
        names = {topic.name for topic in topics}
        for fields in _starts(events) if events is not None and events.is_dir() else ():
            if fields["topic"] in names:
                write("start", **fields)
    return problems


def _write_replica(
    write: Callable[..., None],
    topic_partition: TopicPartition,
    view: PartitionView,
    broker: int,
    replica_log: Callable[[int, TopicPartition], ReplicaLog],
) -> None:
    where = {"topic": topic_partition.topic, "partition": topic_partition.partition, "broker": broker}
    role = {"leader": broker == view.leader, "in_sync": broker in view.isr}
    try:
        log = replica_log(broker, topic_partition)
    except NoReplicaDirectory:
        write("replica", **where, **role, start=0, end=0, batches=0, damage=NO_DIRECTORY)
        return
    bounds = {"start": log.start_offset, "end": log.end_offset}
    write("replica", **where, **role, **bounds, batches=len(log.batches), damage=log.damage)
    for index, batch in enumerate(log.batches):
        write("batch", **where, index=index, **batch.as_json())


def _starts(events: Path) -> Iterator[dict[str, Any]]:
    """Moves of log starts and deletions of topics, from brokers' event logs; lines that were cut off are left out."""
    for path in sorted(events.glob("*.jsonl")):
        with path.open("rb") as lines:
            for raw in lines:
                if b"log_start_advanced" not in raw and b"topic_deleted" not in raw:
                    continue
                try:
                    event = json.loads(raw)
                except (ValueError, RecursionError):
                    continue
                where = {"time": event["time"], "broker": event["broker"], "topic": event.get("topic")}
                fields = event.get("fields") or {}
                if event["event"] == "topic_deleted":
                    yield {**where, "partition": None, "from": None, "to": None, "reason": "topic_deleted"}
                elif event["event"] == "log_start_advanced":
                    reason = str(fields.get("reason"))
                    mover = "leader" if reason.startswith("leader ") else reason
                    moved = {"from": fields.get("from_offset"), "to": fields.get("to_offset")}
                    yield {
                        **where,
                        "partition": event.get("partition"),
                        **moved,
                        "reason": REASONS.get(reason, mover),
                    }
