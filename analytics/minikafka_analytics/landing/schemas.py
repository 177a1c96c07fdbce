"""The typed tables a run is landed as, and the shape of the JSON lines they come from: declared here and nowhere else.

Parquet layout: `<out>/parquet/<table>/run=<run id>/file=<name>/*.parquet`, one table each for samples, events, history, journal
and replicas, so that one run, or all of them, can be read by anything that reads Parquet; with each file's manifest beside its
rows (`manifest.py`). Every table has

- `run`        id of the run, the name of its folder (a partition column);
- `file`       the file it was read from, as named in the run's folder (a partition column);
- `seq`        order of the line in its file (journal and history) or among those of its table;
- `time`       unix seconds as written in the file, `at` the same as a UTC timestamp.

A line that is not what is declared here is in the table `quarantine`, and in no other: `run`, `file`, `line` (from 1), `reason`
(one of `Reason`) and its `text`, of a long one the first 500 characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCHEMA_VERSION = "minikafka.report/v1"

METRICS_OF_A_REPLICA = {
    # metric -> column of the wide replica table
    "minikafka_log_end_offset": "leo",
    "minikafka_high_watermark": "hw",
    "minikafka_log_flushed_offset": "flushed",
    "minikafka_log_start_offset": "log_start",
    "minikafka_leader_epoch": "leader_epoch",
    "minikafka_replica_role": "role",
    "minikafka_isr_size": "isr_size",
    "minikafka_partition_replicas": "replicas",
}
FOLLOWER_LAG = "minikafka_follower_lag"  # of its leader, with the label `follower`
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Kafka's own topics (`Topic.INTERNAL_TOPICS`): landed as they are, and left out of the analysis, which is of the workload."""

METRICS_OF_A_BROKER = {
    # metric without labels -> column of the table of scrapes
    "process_start_time_seconds": "started",
    "process_cpu_seconds_total": "cpu",
    "minikafka_log_flush_duration_seconds_sum": "flush_seconds",
    "minikafka_log_flush_duration_seconds_count": "flushes",
}
METRICS_OF_REQUESTS = {
    # metric with the label `api` -> what the columns of the table of scrapes end in
    "minikafka_request_duration_seconds_sum": "seconds",
    "minikafka_request_duration_seconds_count": "requests",
}
APIS = {"Produce": "produce", "Fetch": "fetch", "FetchFollower": "fetch_follower"}
"""The requests whose latency is looked at, and what their columns begin with."""

METRICS_READ = (*METRICS_OF_A_REPLICA, FOLLOWER_LAG, *METRICS_OF_A_BROKER, *METRICS_OF_REQUESTS)
"""Samples of other metrics are not landed: they are in the run's folder, and no question is about them."""

UP = "up"  # as in Prometheus: 1 for a scrape that was answered, 0 for one that was not

QUARANTINE = "quarantine"
QUARANTINED = "line BIGINT, reason STRING, text STRING"


class Reason(StrEnum):
    """Why a line is in quarantine. The first that fits is told."""

    NOT_TEXT = "not text"  # bytes that are no UTF-8, half a surrogate pair
    TRUNCATED = "truncated"  # an object that ends before it is closed: its writer died, or the file is still written
    FOREIGN = "foreign"  # no JSON object, or more than one: another program's words
    WRONG_TYPE = "wrong type"  # a field holds a value of another type than is declared
    OUT_OF_BOUNDS = "out of bounds"  # a field is missing, or holds what it cannot: `Landed.must`


INTS = "integers"  # marks a column written either as one number or as a list of them


@dataclass(frozen=True, slots=True)
class Landed:
    """One table: the schema its JSON lines are read with, and the SQL type of each column it is landed with."""

    name: str
    line: str  # DDL for from_json; a field of any other type than text becomes null when the text does not fit it
    columns: dict[str, str]  # name -> SQL type, without run, file, seq, time and at
    typed: bool = False  # the line's own types are the columns', so that a line of other types is bad
    timed: bool = True  # a line without a time is bad
    must: str = "true"  # what else must hold of a `line`
    judged: bool = False  # a verdict follows from it: no line may be anything but one whole JSON object
    texts: tuple[str, ...] = ()  # fields that are strings or null: `from_json` makes text of whatever stands there


SAMPLES = Landed(
    "samples",
    "time DOUBLE, broker STRING, error STRING, samples ARRAY<ARRAY<STRING>>",
    {
        "broker": "INT",
        "metric": "STRING",
        "labels": "MAP<STRING, STRING>",
        "topic": "STRING",
        "partition": "INT",
        "value": "DOUBLE",
    },
    must="line.broker IS NOT NULL AND (line.samples IS NOT NULL OR line.error IS NOT NULL)",
)
EVENTS = Landed(
    "events",
    "time DOUBLE, broker STRING, event STRING, topic STRING, partition STRING, fields STRING",
    {"broker": "INT", "event": "STRING", "topic": "STRING", "partition": "INT", "fields": "STRING"},
    must="line.broker IS NOT NULL AND line.event IS NOT NULL",
)
EVENT_FIELDS = {
    # field of an event -> SQL type of the column it is landed as; what is not named here stays in `fields`
    "leader": "INT",
    "leader_epoch": "INT",
    "controller_epoch": "INT",
    "isr": INTS,
    "added": INTS,
    "removed": INTS,
    "clean": "BOOLEAN",
    "reason": "STRING",
    "start_offset": "BIGINT",
    "high_watermark": "BIGINT",
    "log_end_offset": "BIGINT",
    "recovery_point": "BIGINT",
    "from_offset": "BIGINT",
    "to_offset": "BIGINT",
    "records": "BIGINT",
    "truncated_bytes": "BIGINT",
    "bytes": "BIGINT",
    "target": "INT",
    "error": "STRING",
}
HISTORY = Landed(
    "history",
    "time DOUBLE, process BIGINT, op STRING, type STRING, topic STRING, partition INT, offset BIGINT, value STRING, "
    "error STRING, leader_epoch INT, batch BIGINT, settings STRING, seq BIGINT",
    {
        "process": "BIGINT",
        "op": "STRING",
        "type": "STRING",
        "topic": "STRING",
        "partition": "INT",
        "offset": "BIGINT",
        "value": "STRING",
        "error": "STRING",
        "leader_epoch": "INT",
        "batch": "BIGINT",  # number of the poll a record came with
        "settings": "STRING",  # of `workload` lines: what the outcomes are to be judged by, as JSON
        "numbered": "BOOLEAN",  # whether `seq` is the line's own, in place of its place in the file
    },
    typed=True,
    must="line.process IS NOT NULL AND line.op IN ('send', 'poll', 'assign', 'read', 'start_offset', 'end_offset', 'workload', "
    "'join', 'process', 'dead_letter', 'commit') "
    "AND line.type IN ('invoke', 'ok', 'fail', 'info') "
    "AND (line.op <> 'send' OR (line.value IS NOT NULL AND line.topic IS NOT NULL)) "
    "AND coalesce(line.partition, 0) >= 0 AND coalesce(line.batch, 0) >= 0 AND coalesce(line.seq, 0) >= 0 "
    "AND (line.type <> 'ok' OR coalesce(line.offset, 0) >= 0) "
    "AND (line.type <> 'ok' OR line.op IN ('send', 'workload') OR (line.op = 'join' AND line.value IS NOT NULL) "
    "OR (line.op <> 'join' AND line.topic IS NOT NULL AND line.partition IS NOT NULL "
    "AND line.offset IS NOT NULL AND (line.op NOT IN ('poll', 'process', 'dead_letter') OR line.value IS NOT NULL))) "
    "AND (line.settings IS NULL OR (line.settings LIKE '{%' "
    "AND (get_json_object(line.settings, '$.idempotence') IS NULL "
    "OR from_json(line.settings, 'idempotence BOOLEAN').idempotence IS NOT NULL)))",
    judged=True,
    texts=("topic", "value", "error"),
)
REPLICAS = Landed(
    "replicas",
    "time DOUBLE, kind STRING, topic STRING, partition INT, broker INT, partitions INT, replication_factor INT, "
    "config STRING, leader BOOLEAN, in_sync BOOLEAN, start BIGINT, `end` BIGINT, batches BIGINT, damage STRING, "
    "index BIGINT, base_offset BIGINT, last_offset BIGINT, leader_epoch INT, producer_id BIGINT, producer_epoch INT, "
    "base_sequence BIGINT, crc BIGINT, crc_right BOOLEAN, control BOOLEAN, segment STRING, position BIGINT, size BIGINT, "
    "`from` BIGINT, `to` BIGINT, reason STRING",
    {
        "kind": "STRING",  # topic, replica, batch, start
        "topic": "STRING",
        "partition": "INT",
        "broker": "INT",
        "partitions": "INT",
        "replication_factor": "INT",
        "config": "STRING",  # of `topic` lines: the settings that are not the default, as JSON
        "leader": "BOOLEAN",
        "in_sync": "BOOLEAN",
        "start": "BIGINT",
        "end": "BIGINT",
        "batches": "BIGINT",
        "damage": "STRING",
        "index": "BIGINT",
        "base_offset": "BIGINT",
        "last_offset": "BIGINT",
        "leader_epoch": "INT",
        "producer_id": "BIGINT",
        "producer_epoch": "INT",
        "base_sequence": "BIGINT",
        "crc": "BIGINT",
        "crc_right": "BOOLEAN",
        "control": "BOOLEAN",
        "segment": "STRING",
        "position": "BIGINT",
        "size": "BIGINT",
        "from": "BIGINT",
        "to": "BIGINT",
        "reason": "STRING",
    },
    typed=True,
    timed=False,
    must="line.topic IS NOT NULL AND CASE line.kind "
    "WHEN 'topic' THEN line.partitions >= 0 AND line.replication_factor >= 0 "
    "AND (line.config IS NULL OR line.config LIKE '{%') "
    "WHEN 'replica' THEN line.partition >= 0 AND line.broker >= 0 AND line.start >= 0 AND line.`end` >= 0 "
    "AND line.batches >= 0 AND line.in_sync IS NOT NULL "
    "WHEN 'batch' THEN line.partition >= 0 AND line.broker >= 0 AND line.index >= 0 AND line.crc >= 0 "
    "AND line.base_offset IS NOT NULL AND line.last_offset IS NOT NULL AND line.leader_epoch IS NOT NULL "
    "AND line.producer_id IS NOT NULL AND line.producer_epoch IS NOT NULL AND line.base_sequence IS NOT NULL "
    "AND line.crc_right IS NOT NULL "
    "WHEN 'start' THEN line.time IS NOT NULL AND line.broker >= 0 AND coalesce(line.partition, 0) >= 0 "
    "AND coalesce(line.`to`, 0) >= 0 AND coalesce(line.`from`, 0) >= 0 "
    "AND (coalesce(line.reason NOT IN ('retention', 'delete_records'), true) "
    "OR (line.partition IS NOT NULL AND line.`to` IS NOT NULL)) END",
    judged=True,
    texts=("topic", "damage", "segment", "reason"),
)
JOURNAL = Landed(
    "journal",
    "time DOUBLE, kind STRING, step STRING, phase STRING, fault STRING, target STRING, role STRING, ok STRING, "
    "detail STRING, seconds STRING, verdict STRING, summary STRING",
    {
        "kind": "STRING",
        "step": "STRING",
        "phase": "STRING",
        "fault": "STRING",
        "target": "STRING",
        "role": "STRING",
        "ok": "BOOLEAN",
        "detail": "STRING",
        "seconds": "DOUBLE",  # of `check` lines: how long was waited
        "verdict": "STRING",
        "summary": "STRING",
        "body": "STRING",  # the whole line: scenario, settings, counts and anomalies are read from it
    },
    judged=True,
)
TABLES = (SAMPLES, EVENTS, HISTORY, JOURNAL, REPLICAS)
