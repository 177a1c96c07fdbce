"""The counts of arrays in a message, held against the bytes that are there before *kio* reads them.

kio's compiled reader makes room for as many elements as an array says that it has: four bytes would have it ask for 34 GB, and
where the system refuses them the process is aborted. No element takes less than a byte, so no sound message has more of them
than bytes.

Nor does it refuse null where an array must be, which Kafka closes the connection for, and which no handler expects.

A request may have ROWS_MAX elements in all: each of them takes time, and much of one request is done without a pause.

Tagged fields that nobody knows are left out, which *kio* does not read past: newer clients may send them in any version
(KIP-482).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

from minikafka.protocol.wire import MalformedRequest, counted, read_tag_count, read_uvarint, uvarint


class RowCount:
    """How many elements of arrays there were, and may be, and where tagged fields are that nobody knows."""

    __slots__ = ("count", "most", "unknown")

    def __init__(self, most: int) -> None:
        self.count, self.most = 0, most
        self.unknown: list[tuple[int, int, bytes]] = []
        """From where to where there are some, and what is there without them."""

    def add(self, more: int) -> None:
        """Count some. Raises MalformedRequest for too many."""
        self.count = counted(self.count, more, self.most)


Skip = Callable[[bytes, int, RowCount], int]
"""From the position of a value to the one after it. Raises MalformedRequest for a count that cannot be true, or is too large,
IndexError or struct.error where the bytes end."""

SIZES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "timedelta_i32": 4, "int64": 8, "timedelta_i64": 8, "float64": 8,
    "uuid": 16, "error_code": 2, "datetime_i64": 8,
}  # fmt: skip
OF_ANY_SIZE = ("string", "bytes", "records")
BROKER_IDS = ("broker_ids", "replicas", "new_isr")
"""Arrays of which four elements count as one: nothing is answered for each."""
_i8 = struct.Struct(">b").unpack_from
_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from


def checked(entity_type: Any, body: bytes, most: int) -> bytes:
    """Return a message as *kio* can read it. What ends early kio tells.

    Raises:
        MalformedRequest: an array has more elements than the message has bytes, or is null where it may not be; or there are
            more than ``most`` in all.
    """
    rows = RowCount(most)
    try:
        _skip_struct(entity_type)(body, 0, rows)
    except (IndexError, struct.error):
        return body
    if not rows.unknown:
        return body
    parts, position = [], 0
    for start, end, known in rows.unknown:
        parts += [body[position:start], known]
        position = end
    return b"".join((*parts, body[position:]))


@cache
def _skip_struct(entity_type: Any) -> Skip:
    flexible = bool(entity_type.__flexible__)
    tagged: dict[int, Skip] = {}
    skips: list[Skip] = []
    for field in fields(entity_type):
        skip = _skip_field(field, flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = skip
        else:
            skips.append(skip)

    def skip_all(body: bytes, position: int, rows: RowCount) -> int:
        for skip in skips:
            position = skip(body, position, rows)
        return _skip_tags(body, position, tagged, rows) if flexible else position

    return skip_all


def _skip_tags(body: bytes, position: int, tagged: dict[int, Skip], rows: RowCount) -> int:
    start, known, unknown = position, [], len(rows.unknown)
    count, position = read_tag_count(body, position)
    rows.add(count)
    for _ in range(count):
        first = position
        tag, position = read_uvarint(body, position)
        size, position = read_uvarint(body, position)
        if tag in tagged:
            if tagged[tag](body, position, rows) != position + size:
                raise MalformedRequest(f"tagged field {tag} does not end where its size says")
            known.append(body[first : position + size])
        position += size
    if len(rows.unknown) > unknown:  # its size would be another
        raise MalformedRequest("an unknown tagged field within another")
    if len(known) < count:
        rows.unknown.append((start, position, uvarint(len(known)) + b"".join(known)))
    return position


def _skip_field(field: Any, flexible: bool) -> Skip:
    parts = (field.type, *get_args(field.type))
    listed = next((part for part in parts if get_origin(part) is tuple), None)
    inner: Any = next((part for part in (*parts, *get_args(listed)) if is_dataclass(part)), None)
    if inner is not None:
        element = _skip_struct(inner)
        if listed is None:
            return element if "tag" in field.metadata or inner is field.type else _nullable(element)
    else:
        element = _skip_primitive(field.metadata["kafka_type"], flexible)
    if listed is None:
        return element
    return _array(element, flexible, nullable=NoneType in parts, share=4 if field.name in BROKER_IDS else 1)


def _skip_primitive(kind: str, flexible: bool) -> Skip:
    if kind in SIZES:
        size = SIZES[kind]
        return lambda _body, position, _rows: position + size
    if kind not in OF_ANY_SIZE:
        raise TypeError(f"how many bytes has a {kind}?")
    if flexible:
        return _skip_compact
    return _skip_string if kind == "string" else _skip_bytes


def _skip_compact(body: bytes, position: int, _rows: RowCount) -> int:
    length, position = read_uvarint(body, position)
    return position + max(length - 1, 0)


def _skip_string(body: bytes, position: int, _rows: RowCount) -> int:
    length: int = _i16(body, position)[0]
    return position + 2 + max(length, 0)


def _skip_bytes(body: bytes, position: int, _rows: RowCount) -> int:
    length: int = _i32(body, position)[0]
    return position + 4 + max(length, 0)


def _nullable(skip: Skip) -> Skip:
    return lambda body, position, rows: position + 1 if _i8(body, position)[0] < 0 else skip(body, position + 1, rows)


def _array(element: Skip, flexible: bool, *, nullable: bool, share: int) -> Skip:
    def skip(body: bytes, position: int, rows: RowCount) -> int:
        if flexible:
            count, position = read_uvarint(body, position)
            count -= 1
        else:
            count, position = _i32(body, position)[0], position + 4
        if count > len(body) - position:
            raise MalformedRequest(f"an array of {count} elements in {len(body) - position} bytes")
        if count < 0 and not nullable:
            raise MalformedRequest("null where an array must be")
        rows.add(-(-count // share))
        for _ in range(count):
            position = element(body, position, rows)
        return position

    return skip
