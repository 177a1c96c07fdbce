"""What a line of `replicas.jsonl` must be (docs/reference/verdicts.md, Evidence): who guesses at half a line can be fooled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka_chaos.record.history import HistoryError, is_int, is_text, is_time, parse_line, raw_lines

SMALL, LARGE = 2**31, 2**63
KINDS = ("topic", "replica", "batch", "start")
NUMBERS: Mapping[str, Mapping[str, int]] = {
    "topic": {"partitions": SMALL, "replication_factor": SMALL},
    "replica": {"partition": SMALL, "broker": SMALL, "start": LARGE, "end": LARGE, "batches": LARGE},
    "batch": {
        "partition": SMALL,
        "broker": SMALL,
        "index": LARGE,
        "base_offset": LARGE,
        "last_offset": LARGE,
        "leader_epoch": SMALL,
        "producer_id": LARGE,
        "producer_epoch": SMALL,
        "base_sequence": LARGE,
        "crc": LARGE,
    },
    "start": {"broker": SMALL},
}
"""The whole numbers that a line of a kind needs, and the size that they stay below."""
SIGNED = frozenset(("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"))
"""What a damaged batch, or one without a producer, may have below 0."""
MOVES = frozenset(("retention", "delete_records"))
"""Reasons of a `start` line that explain a log start: they need a partition and an offset."""
SHOWN = {"position": LARGE, "size": LARGE}

CONTRADICTIONS = (
    (
        "SELECT first(topic) FROM (SELECT topic FROM told WHERE kind = 'topic' GROUP BY topic HAVING count(*) > 1)",
        "two lines of",
    ),
    (
        """
        SELECT first(topic || '-' || partition || ' of broker ' || broker) FROM (
          SELECT topic, partition, broker FROM told WHERE kind = 'replica' GROUP BY ALL HAVING count(*) > 1)
        """,
        "two lines of kind replica for",
    ),
    (
        """
        SELECT first(b.topic || '-' || b.partition || ' of broker ' || b.broker)
        FROM (SELECT * FROM told WHERE kind = 'batch') b ANTI JOIN (SELECT * FROM told WHERE kind = 'replica') r
        USING (topic, partition, broker)
        """,
        "a batch, and no line of kind replica, for",
    ),
    (
        """
        WITH held AS (
          SELECT topic, partition, broker, count(*) AS found, count(DISTINCT index) AS different, max(index) AS last,
                 arg_max(last_offset, index) + 1 AS ends
          FROM told WHERE kind = 'batch' GROUP BY ALL
        )
        SELECT first(topic || '-' || partition || ' of broker ' || broker)
        FROM (SELECT * FROM told WHERE kind = 'replica') r LEFT JOIN held USING (topic, partition, broker)
        WHERE different < found OR last >= batches
           OR (coalesce(found, 0) = batches AND coalesce(ends, start) <> "end")
        """,
        "the batches are not those that the line of kind replica tells of, for",
    ),
)
"""What the lines of one run cannot tell together: queries on the table `told`, whose one row names a place, or is null; and its
words."""


def check_replicas(path: Path) -> None:
    """Raise HistoryError for the first line that is no line of `replicas.jsonl`, but for a last one that was cut off."""
    for number, raw in raw_lines(path):
        try:
            line = parse_line(raw)
        except ValueError as error:
            if not raw.endswith(b"\n"):
                return
            raise HistoryError(f"{path}:{number}: not a JSON line ({error})") from error
        if (wrong := _wrong(line)) is not None:
            raise HistoryError(f"{path}:{number}: {wrong}")


def _wrong(line: Any) -> str | None:
    """Return what keeps it from being a line of `replicas.jsonl`."""
    if not isinstance(line, dict):
        return "a line is a JSON object"
    kind: Any = line.get("kind")
    if kind not in KINDS:
        return f"kind is {kind!r}, allowed: {', '.join(KINDS)}"
    if line.get("topic") is None or not all(
        is_text(line.get(name)) for name in ("topic", "damage", "reason", "segment")
    ):
        return "topic must be a string; damage, reason and segment strings or null"
    for name, limit in NUMBERS[kind].items():
        if not is_int(line.get(name), limit) or (line[name] < 0 and name not in SIGNED):
            return f"{name} of a {kind} must be a whole number"
    for name, limit in SHOWN.items():
        if line.get(name) is not None and not is_int(line[name], limit):
            return f"{name} must be a whole number or null"
    if kind == "batch" and not isinstance(line.get("crc_right"), bool):
        return "crc_right must be true or false"
    if kind == "replica" and not (
        isinstance(line.get("in_sync"), bool) and isinstance(line.get("leader", False), bool)
    ):
        return "in_sync and leader must be true or false"
    if kind == "topic" and not isinstance(line.get("config") or {}, dict):
        return "config must be an object"
    values = line.get("values")
    if values is not None and not (isinstance(values, list) and all(is_text(value) for value in values)):
        return "values must be a list of strings"
    return _wrong_start(line) if kind == "start" else None


def _wrong_start(line: Mapping[str, Any]) -> str | None:
    if not is_time(line.get("time")):
        return "time of a start must be a number (unix seconds)"
    moved = line.get("reason") in MOVES
    for name, limit in (("partition", SMALL), ("to", LARGE), ("from", LARGE)):
        value = line.get(name)
        if value is None and not (moved and name != "from"):
            continue
        if not is_int(value, limit) or value < 0:
            return f"{name} of a start must be a whole number"
    return None
