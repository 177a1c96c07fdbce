"""``metrics.md``, ``events.md`` and the table of anomalies in ``verdicts.md`` (docs/reference), made from the declarations."""

from minikafka.telemetry.anomalies import DECLARATIONS, DIVERGENCE, GROUPS, LOSS, ORDER, AnomalyKind
from minikafka.telemetry.events import EVENTS, FIELDS
from minikafka.telemetry.metric import Metric
from minikafka.telemetry.metrics import (
    BROKER_METRICS,
    BUILD_INFO,
    COMMIT_DURATION,
    COMPONENT_FAILED,
    CONNECTIONS_LIMITED,
    COUNT_METRICS,
    ELECTIONS,
    EVENTS_DROPPED,
    EVENTS_TOTAL,
    FLUSH_DURATION,
    FOLLOWER_LAG,
    GROUP_MEMBERS,
    GROUP_OFFSET,
    LISTENER_CONNECTIONS,
    LOG_DIR_FREE,
    LOG_DIR_SIZE,
    PARTITION_METRICS,
    REQUEST_BYTES,
    REQUEST_DURATION,
    REQUEST_ERRORS,
    REQUEST_PHASES,
    THROTTLE_SECONDS,
    THROTTLED_REQUESTS,
    TOPIC_METRICS,
)
from minikafka.telemetry.stats import DURATION_BOUNDS
from minikafka.telemetry.truncations import REASONS

_TYPES = {
    "int": "integer",
    "float": "number",
    "str": "string",
    "bool": "true/false",
    "ints": "list of integers",
    "strs": "list of strings",
}


def metrics_page() -> str:
    """``docs/reference/metrics.md``."""
    bounds = ", ".join(f"{bound:g}" for bound in DURATION_BOUNDS)
    sections: tuple[tuple[str, str, tuple[Metric, ...]], ...] = (
        ("Per partition, on each replica", "", PARTITION_METRICS),
        ("Per partition and follower, on its leader", "", (FOLLOWER_LAG,)),
        (
            "Per topic",
            "Of each topic with a replica here; from 0 when its first replica comes. Prometheus tells what came meanwhile.\n",
            TOPIC_METRICS,
        ),
        ("Consumer groups, at their coordinator", "", (GROUP_OFFSET, GROUP_MEMBERS)),
        ("Partitions of a broker", "", COUNT_METRICS),
        (
            "Broker",
            "",
            (
                *BROKER_METRICS,
                LISTENER_CONNECTIONS,
                LOG_DIR_FREE,
                LOG_DIR_SIZE,
                ELECTIONS,
                EVENTS_TOTAL,
                EVENTS_DROPPED,
                COMPONENT_FAILED,
                BUILD_INFO,
            ),
        ),
        (
            "Requests and flushes",
            f"Buckets of the histograms, in seconds: {bounds}.\n",
            (REQUEST_DURATION, REQUEST_PHASES, REQUEST_BYTES, REQUEST_ERRORS, FLUSH_DURATION, COMMIT_DURATION),
        ),
        ("Quotas and limits", "", (THROTTLED_REQUESTS, THROTTLE_SECONDS, CONNECTIONS_LIMITED)),
    )
    lines = [
        "# Metrics",
        "",
        "For anyone who watches brokers: every metric, its type, its labels and what it counts.",
        "",
        "Made from the declarations in `minikafka/telemetry/metrics.py` by `make docs`; do not edit.",
        "",
        "Each broker answers `http://HOST:METRICS_PORT/metrics` (`minikafka.metrics.port`; by HTTPS and for a token",
        "where [it has them](../guide/security.md#metrics)) in Prometheus' format,",
        "`/healthz` (200 while all of its parts work, else 503 with a line for each that does not) and `/readyz`",
        "(200 while it serves clients). Beside the metrics below there are the usual `process_*`. Counters begin at",
        "0 with the process. Everything that must not be missed between two scrapes is a counter; the exact order of",
        "things is in the [events](events.md).",
        "",
    ]
    for title, remark, metrics in sections:
        lines += [f"## {title}", ""]
        if remark:
            lines += [remark]
        lines += ["| metric | type | labels | meaning |", "|---|---|---|---|"]
        for metric in metrics:
            labels = ", ".join(metric.labels) or "none"
            lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
        lines.append("")
    return "\n".join(lines)


def events_page() -> str:
    """``docs/reference/events.md``."""
    lines = [
        "# Events",
        "",
        "For anyone who asks what a broker did and why: every event that it writes, with its fields.",
        "",
        "Made from the declarations in `minikafka/telemetry/events.py` by `make docs`; do not edit.",
        "",
        "Each broker appends its events to `minikafka.events.path`, one JSON object a line; with",
        "`minikafka.events.stdout=true` the same lines go to standard output too ([logs.md](../guide/logs.md)):",
        "",
        "```json",
        '{"time": 1760000000.123456, "broker": 1, "event": "log_truncated", "topic": "bank", "partition": 0,',
        ' "fields": {"from_offset": 42, "to_offset": 40, "records": 2, "leader_epoch": 7,',
        '            "reason": "log diverges from leader 2 after epoch 6"}}',
        "```",
        "",
        "`time` is unix time in seconds. `topic` and `partition` are null where an event has none. `fields` holds",
        "every field of the event; null where it is unknown. A broker killed while writing leaves whole lines.",
        "",
        "| event | of a partition | meaning | fields |",
        "|---|---|---|---|",
    ]
    for name, event in EVENTS.items():
        fields = ", ".join(f"`{field}`" for field in event.fields)
        lines.append(f"| `{name}` | {'yes' if event.partition else 'no'} | {event.doc} | {fields} |")
    lines += ["", "## Fields", "", "| field | type | meaning |", "|---|---|---|"]
    for name, field in sorted(FIELDS.items()):
        lines.append(f"| `{name}` | {_TYPES[field.type]} | {field.doc} |")
    lines += [
        "",
        "## Why a log was truncated",
        "",
        "`reason` of `log_truncated` and `log_restarted`, with a value in place of what stands in braces. The table",
        "*Truncations* of [a report](../guide/report.md) tells for each how many acknowledged records were among them.",
        "The leader finds where the logs diverge (`replication/leader.py`, `divergence`), the follower truncates",
        "(`replication/follower.py`). `truncated_bytes` of `log_recovered` is another thing: bytes at the end of a file",
        "that recovery found torn, before any leader was asked.",
        "",
        "| reason | what happened | acknowledged records may be among them |",
        "|---|---|---|",
        *(f"| {reason.words} | {reason.meaning} | {reason.acknowledged} |" for reason in REASONS),
        "",
    ]
    return "\n".join(lines)


def anomaly_tables() -> str:
    """The anomalies of ``docs/reference/verdicts.md``, by what shows them."""
    rest = [kind for kind in AnomalyKind if kind not in LOSS | ORDER | GROUPS | DIVERGENCE]
    groups = (
        ("Loss", [kind for kind in AnomalyKind if kind in LOSS]),
        ("What readers and producers were told", rest),
        ("Order", [kind for kind in AnomalyKind if kind in ORDER]),
        ("Groups of consumers", [kind for kind in AnomalyKind if kind in GROUPS]),
        ("Replicas' logs", [kind for kind in AnomalyKind if kind in DIVERGENCE]),
    )
    lines: list[str] = []
    for title, kinds in groups:
        lines += ["", f"### {title}", ""]
        for kind in kinds:
            found = DECLARATIONS[kind]
            lines += [
                f"**`{kind.value}`** {found.statement}.",
                "",
                f"- Found when: {found.definition}.",
                f"- Counted: one for each {found.unit}.",
                f"- Severity: {found.severity}."
                + (f" Inconclusive instead: {found.inconclusive}." if found.inconclusive else ""),
                f"- Source: {found.source}.",
                "",
            ]
    return "\n".join(lines).strip()
