"""Writes dictionaries as Kafka's bytes, field by field, without making an object of each row: for answers of many rows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

Append = Callable[[bytes], None]
"""Takes the next bytes."""

Write = Callable[[Append, Any], None]

_INTS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "error_code": ">h"}
_INT32, _INT16 = struct.Struct(">i").pack, struct.Struct(">h").pack
_NO_UUID = bytes(16)


class FieldWriter(NamedTuple):
    """Of one field of a struct."""

    name: str
    write: Write
    default: bytes
    """For when it is not given."""
    tag: int | None = None
    is_absent: Callable[[Any], bool] | None = None
    """Of a tagged field: whether a value is not written, for everybody takes it as the default."""


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    if value < 128:
        return _SMALL[value]
    parts = bytearray()
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_SMALL = [bytes([value]) for value in range(128)]


def struct_writer(
    all_fields: Sequence[FieldWriter], flexible: bool, names: Set[str], check: Callable[[Set[str]], None]
) -> Write:
    """Write a dictionary with these fields.

    Args:
        all_fields: in the order of the schema.
        flexible: whether tagged fields come after them.
        names: of the fields.
        check: is given what else is in a dictionary.
    """
    plain = [(field.name, field.write, field.default) for field in all_fields if field.tag is None]
    tagged = sorted((field for field in all_fields if field.tag is not None), key=lambda field: field.tag or 0)

    def write(append: Append, values: Mapping[str, Any]) -> None:
        if not values.keys() <= names:
            check(values.keys() - names)
        for name, write_field, default in plain:
            if name in values:
                write_field(append, values[name])
            else:
                append(default)
        if tagged:
            _write_tagged(append, tagged, values)
        elif flexible:
            append(b"\0")

    return write


def _write_tagged(append: Append, tagged: Sequence[FieldWriter], values: Mapping[str, Any]) -> None:
    found: list[bytes] = []
    count = 0
    for field in tagged:
        if field.name not in values or (field.is_absent is not None and field.is_absent(values[field.name])):
            continue
        count += 1
        parts: list[bytes] = []
        field.write(parts.append, values[field.name])
        found += (unsigned_varint(field.tag or 0), unsigned_varint(sum(map(len, parts))), *parts)
    append(unsigned_varint(count) + b"".join(found))


def array_writer(write: Write, flexible: bool) -> Write:
    """Write all of some values; None: null."""

    def write_all(append: Append, values: Any) -> None:
        if values is None:
            append(b"\0" if flexible else b"\xff\xff\xff\xff")
            return
        if not isinstance(values, Sequence):
            values = list(values)
        append(unsigned_varint(len(values) + 1) if flexible else _INT32(len(values)))
        for value in values:
            write(append, value)

    return write_all


def primitive_writer(kafka_type: str, flexible: bool, optional: bool) -> Write | None:
    """Write one value of what answers have many of; None: it is none of those types.

    Times are milliseconds.
    """
    if kafka_type in _INTS and not optional:
        return _packed(struct.Struct(_INTS[kafka_type]).pack)
    if kafka_type == "string":
        return _string(flexible, optional)
    if kafka_type == "bool":
        return lambda append, value: append(b"\1" if value else b"\0")
    if kafka_type == "timedelta_i32" and not optional:
        return lambda append, value: append(_INT32(round(value)))
    if kafka_type == "uuid":
        return lambda append, value: append(_NO_UUID if value is None else value.bytes)
    return None


def _packed(pack: Callable[[int], bytes]) -> Write:
    return lambda append, value: append(pack(value))


def _string(flexible: bool, optional: bool) -> Write:
    null = b"\0" if flexible else b"\xff\xff"

    def write(append: Append, value: str | None) -> None:
        if value is None:
            if not optional:
                raise TypeError("null where a string is needed")
            append(null)
            return
        encoded = value.encode()
        append(unsigned_varint(len(encoded) + 1) if flexible else _INT16(len(encoded)))
        append(encoded)

    return write
