"""Values of requests by choice: what makes sense to a broker, what nearly does, and what does not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final
from uuid import UUID

from minikafka.protocol.compression import Codec
from minikafka.protocol.records import Record, build_batch, build_control_batch

from tests.fuzz.choices import Choices
from tests.unit.server.api_requests import is_list, structs

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1
LONG: Final = "x" * 300
TOPICS: Final = ("t", "u", "fresh", "", ".", "a/b", "__consumer_offsets", "__cluster_metadata", LONG, "\N{SNOWMAN}")
GROUPS: Final = ("g", "h", "", LONG)
SETTINGS: Final = ("retention.ms", "min.insync.replicas", "cleanup.policy", "max.message.bytes", "nothing", "")
TEXTS: Final = ("", "g", "1", "2", "-1", "consumer", "range", "user", "client-id", "*", "User:u", "PLAIN", LONG)
TYPE_NUMBERS: Final = (0, 1, 2, 3, 4, 8, 16, 32, 5, 7, -1, 127)
BROKERS: Final = (1, 2, 99, -1, -2, INT32)
OFFSETS: Final = (0, 1, 5, -1, -2, -3, -4, -5, 10**12, INT64, -INT64)
NUMBERS: Final = (0, 1, 2, 3, -1, -2, 1000, 100_000)
LARGE: Final = {"int8": 127, "int16": INT16, "int32": INT32, "int64": INT64, "uint16": 65535}
MILLISECONDS: Final = (0, 1, 20, -1)
"""Of all that a broker waits for because it is asked to."""
DURATIONS: Final = {
    "session_timeout": (6000, 10, -1),
    "transaction_timeout": (1000, INT32, -1),
    "retention_time": (-1, 1, INT64 // 10**6),
}
BY_NAME: Final[Mapping[str, Sequence[Any]]] = {
    **dict.fromkeys(("name", "topic", "topic_name", "topic_names", "resource_name"), TOPICS),
    **dict.fromkeys(("group_id", "groups", "groups_names", "coordinator_keys"), GROUPS),
    **dict.fromkeys(("partition_index", "partition", "index", "partitions", "partition_indexes"), (0, 1, 2, -1, INT32)),
    **dict.fromkeys(("broker_id", "broker_ids", "replica_id", "replicas", "new_isr"), BROKERS),
    **dict.fromkeys(("num_partitions", "count"), (1, 2, -1, 0, 3, INT32)),
    "replication_factor": (1, 2, -1, 0, 3, INT16),
    "topic_id": (None, UUID(int=5)),
    "acks": (-1, 1, 0, 2),
    "iterations": (4096, 16384, 0, -1, INT32),
    "mechanism": (1, 2, 0, 127),
}
BATCH: Final = bytes(build_batch([Record(0, 1_000_000, b"k", b"v")]))


def request_of(entity_type: Any, choices: Choices) -> dict[str, Any]:
    """Choose a value for each field of a request or a struct in it."""
    return {field.name: _value(field, choices) for field in fields(entity_type)}


def _value(field: Any, choices: Choices) -> Any:
    inner = next(structs(field.type), None)
    if not is_list(field.type):
        if inner is None:
            return _plain(field, choices)
        return None if "None" in str(field.type) and choices.number() % 4 == 0 else request_of(inner, choices)
    how = choices.number()
    if how == 255 and "None" in str(field.type):
        return None
    count = how % 4 if how < 250 else 20
    return [_plain(field, choices) if inner is None else request_of(inner, choices) for _ in range(count)]


def _plain(field: Any, choices: Choices) -> Any:
    kind = field.metadata["kafka_type"]
    optional = "None" in str(field.type)
    if kind in LARGE:
        pool = BY_NAME.get(field.name) or _numbers(field.name, kind)
        fitting = [value for value in pool if isinstance(value, int) and -LARGE[kind] <= value <= LARGE[kind]]
        return choices.one_of([*fitting, LARGE[kind]] if kind != "uint16" else [0, 1, LARGE[kind]])
    if kind.startswith("timedelta"):
        return choices.one_of(DURATIONS.get(field.name, MILLISECONDS))
    if kind == "string":
        pool = BY_NAME.get(field.name, TEXTS if field.name != "key" else SETTINGS + GROUPS)
        if field.name == "name" and choices.number() % 4 == 0:
            pool = SETTINGS
        texts = [value for value in pool if isinstance(value, str)] or list(TEXTS)
        return choices.one_of([*texts, None] if optional else texts)
    if kind == "bytes":
        return choices.take(choices.number() % 40)
    if kind == "records":
        return _records(choices)
    if kind == "uuid":
        return choices.one_of((UUID(int=0), UUID(int=5), UUID(int=2**128 - 1)))
    if kind == "bool":
        return bool(choices.number() & 1)
    if kind == "float64":
        return choices.one_of((1e9, math.nan, math.inf, -1.0, 1e300))  # a small quota would keep all waiting
    if kind == "error_code":
        return choices.one_of((0, 3, -1))
    if kind == "datetime_i64":
        return choices.one_of((0, 1_000_000, -1))
    raise TypeError(f"what is a {kind}?")


def _numbers(name: str, kind: str) -> Sequence[int]:
    if kind == "int64":
        return OFFSETS
    return TYPE_NUMBERS if kind == "int8" else NUMBERS


def _records(choices: Choices) -> bytes | None:
    """A batch in order, by each codec, of a producer; several; one that is damaged; none."""
    how = choices.number()
    if how < 8:
        return (None, b"", BATCH[:60], BATCH * 2, BATCH + b"x", bytes(61), BATCH[:-1], BATCH)[how]
    records = [Record(n, 1_000_000, b"k" if how & 1 else None, choices.take(how % 50)) for n in range(1 + how % 3)]
    if how < 16:
        return bytes(
            build_control_batch(commit=True, producer_id=5, producer_epoch=0, timestamp_ms=1, coordinator_epoch=1)
        )
    producer = {"producer_id": how % 5, "producer_epoch": 0, "base_sequence": choices.number() % 4} if how & 64 else {}
    batch = build_batch(records, codec=choices.one_of(list(Codec)), transactional=how > 250, **producer)
    if how & 128:
        batch[choices.number() % len(batch)] ^= choices.number()
    return bytes(batch)
