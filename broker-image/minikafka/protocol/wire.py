"""Primitives of the Kafka wire protocol: frames, headers, varints (KIP-482 'flexible' versions).

Bytes in, values out; nothing here does I/O. A reader is a function ``(buffer, position) -> (value, next position)``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ROWS_MAX = 25_000
"""Elements of all arrays of one request, of broker ids a quarter: 10,000 partitions of a topic with their replicas fit in."""

MANY_ROWS = 200
"""What has more, a request or its answer, has the event loop by turns: each costs some 10 microseconds."""

_HEADER = struct.Struct(">hhih").unpack_from


class MalformedRequest(Exception):
    """The bytes are not a request of the API and version that its header names. The connection is closed, as in Kafka."""


class TooManyRows(MalformedRequest):
    """A request has more rows than are read."""


TAGS_MAX = 64
"""Tagged fields of one structure (KIP-482), of which Kafka's have four at most."""


def counted(rows: int, more: int, most: int = ROWS_MAX) -> int:
    """Return how many rows a request has with some more. Raises TooManyRows. None are fewer than none."""
    rows += max(more, 0)
    if rows > most:
        raise TooManyRows(f"more than {most:,} rows in a request")
    return rows


class RequestHeader(NamedTuple):
    """The part of the request header that does not depend on the header's own version, and where it ends."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int


def read_header(frame: memoryview) -> RequestHeader:
    """Read a request header v1 (v2's tagged fields follow at ``end``, see :func:`skip_tags`)."""
    try:
        api_key, api_version, correlation_id, length = _HEADER(frame, 0)
        end = 10
        client_id = None
        if length >= 0:
            end += length
            if end > len(frame):
                raise MalformedRequest("client_id is longer than the request")
            client_id = str(frame[10:end], "utf-8", "replace")
    except struct.error as error:
        raise MalformedRequest(f"a request of {len(frame)} bytes has no header") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def read_uvarint(buffer: memoryview | bytes, position: int) -> tuple[int, int]:
    """Unsigned base-128 varint, at most 5 bytes for lengths."""
    value = buffer[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 35:
            raise MalformedRequest("a varint is longer than five bytes")


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes((n,)) for n in range(0x80)]


def read_tag_count(buffer: memoryview | bytes, position: int) -> tuple[int, int]:
    """How many tagged fields a section has, and where they begin. Raises MalformedRequest for too many."""
    count, position = read_uvarint(buffer, position)
    if count > TAGS_MAX:
        raise MalformedRequest(f"{count} tagged fields in one place; {TAGS_MAX} are allowed")
    return count, position


def skip_tags(buffer: memoryview | bytes, position: int) -> int:
    """Skip a tagged-fields section."""
    if buffer[position] == 0:  # as nearly all are
        return position + 1
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    return position


def compact_string(value: str | None) -> bytes:
    """Encode a compact nullable string."""
    if value is None:
        return b"\0"
    raw = value.encode()
    return uvarint(len(raw) + 1) + raw


def legacy_string(value: str | None) -> bytes:
    """Encode an int16-length nullable string."""
    if value is None:
        return b"\xff\xff"
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def request_frame(
    api_key: int, api_version: int, correlation_id: int, client_id: str, body: bytes, flexible: bool
) -> bytes:
    """A whole request, length prefix and header included."""
    raw = client_id.encode()
    head = struct.pack(">hhih", api_key, api_version, correlation_id, len(raw)) + raw + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


def response_frame(correlation_id: int, body: bytes, flexible_header: bool) -> bytes:
    """A whole response, length prefix and header v0 or v1 included."""
    if flexible_header:
        return struct.pack(">iiB", 5 + len(body), correlation_id, 0) + body
    return struct.pack(">ii", 4 + len(body), correlation_id) + body
