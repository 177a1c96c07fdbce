"""Writes a run of a few lines, whose analysis has Spark do all that the analysis of any other run does."""

from __future__ import annotations

import json
from pathlib import Path

from minikafka_analytics.spark.settings import GENERATED_BYTES


def write_tiny_run(folder: Path) -> Path:
    """A run of a few lines that touches every table: two sends, one of them a duplicate, a kill, an election, scrapes, a log.

    Its history is long enough, by one value, to be landed by generated code, as that of a demo is.
    """
    about = {"process": 0, "topic": "t", "partition": 0, "error": None}
    history: list[dict[str, object]] = [
        {"op": "send", "type": "invoke", "offset": None, "value": "a"},
        {"op": "send", "type": "ok", "offset": 0, "value": "a"},
        {"op": "send", "type": "invoke", "offset": None, "value": "b"},
        {"op": "send", "type": "ok", "offset": 1, "value": "b"},
        {"op": "send", "type": "invoke", "offset": None, "value": "c" * GENERATED_BYTES},
        {"op": "assign", "type": "ok", "offset": 0, "value": None},
        {"op": "poll", "type": "ok", "offset": 0, "value": "a", "batch": 0},
        {"op": "poll", "type": "ok", "offset": 1, "value": "b", "batch": 0},
        {"op": "poll", "type": "ok", "offset": 2, "value": "b", "batch": 0},
        {"op": "read", "type": "ok", "offset": 3, "value": None},
    ]
    action = {"kind": "action", "step": "s", "fault": "Kill", "target": "broker-1", "role": "leader of t-0"}
    journal: list[dict[str, object]] = [
        {**action, "phase": "begin"},
        {**action, "phase": "end", "ok": True},
        {**action, "fault": "Start", "phase": "begin"},
        {**action, "fault": "Start", "phase": "end", "ok": True},
        {"kind": "claims", "claims": [], "problems": []},
    ]
    events: list[dict[str, object]] = [
        {
            "event": name,
            "broker": 1,
            "topic": "t",
            "partition": 0,
            "fields": {"leader_epoch": epoch, "isr": isr, **more},
        }
        for name, epoch, isr, more in (
            ("leader_elected", 0, [1, 2], {"leader": 1, "clean": True, "reason": "created"}),
            ("became_leader", 1, [2], {"start_offset": 0, "high_watermark": 2}),
            ("isr_expanded", 1, [2, 1], {"added": [1]}),
            ("log_truncated", 1, None, {"from_offset": 3, "to_offset": 2, "records": 1, "reason": "leader_epoch"}),
            ("log_recovered", 1, None, {"recovery_point": 2, "log_end_offset": 2, "clean": False}),
            ("broker_fenced", 1, None, {"target": 1}),
        )
    ]
    where = {"topic": "t", "partition": "0"}
    names = (
        "log_end_offset",
        "high_watermark",
        "log_flushed_offset",
        "replica_role",
        "leader_epoch",
        "partition_replicas",
    )
    scrape: list[object] = [[f"minikafka_{name}", where, 2.0] for name in names]
    scrape.append(["minikafka_follower_lag", {**where, "follower": "2"}, 1.0])
    samples: list[dict[str, object]] = [{"broker": broker, "samples": scrape} for broker in (1, 2, 1, 2)]
    logs: list[dict[str, object]] = [
        {
            "kind": "topic",
            "topic": "t",
            "partitions": 1,
            "replication_factor": 2,
            "config": {"cleanup.policy": "delete"},
        }
    ]
    for broker in (1, 2):
        log = {"topic": "t", "partition": 0, "broker": broker}
        bounds = {"start": 0, "end": 3, "batches": 1, "damage": None, "in_sync": True, "leader": broker == 1}
        batch = {"index": 0, "base_offset": 0, "last_offset": 2, "leader_epoch": 0, "crc": broker, "crc_right": True}
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "control": False}
        logs += [{"kind": "replica", **log, **bounds}, {"kind": "batch", **log, **batch, **producer}]
    _lines(folder / "history.jsonl", [{**about, **line} for line in history])
    _lines(folder / "journal.jsonl", journal)
    _lines(folder / "events" / "broker-1.jsonl", events)
    _lines(folder / "metrics" / "samples.jsonl", samples)
    _lines(folder / "replicas.jsonl", logs)
    return folder


def _lines(path: Path, lines: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    began = 1_767_225_600.0
    path.write_text(
        "".join(json.dumps({"time": began + n, **line}) + "\n" for n, line in enumerate(lines)), encoding="utf-8"
    )
