"""Validation of the records in a producer's batch, as Kafka's `LogValidator` does it for magic 2.

What a broker can compute from the records is never taken from the client: a wrong MaxTimestamp would have records deleted before
their time, producers forgotten, and searches by time answered wrongly. And what is no sequence of records is refused before it is
acknowledged, for no consumer would get past it.

Stricter than Kafka in one point (docs/reference/limits.md): offset deltas have to be 0, 1, 2, ... Kafka stores others as
they are in a batch that is not compressed, and answers UNKNOWN_SERVER_ERROR for a compressed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice
from typing import NoReturn

from minikafka.log.config import LogConfig
from minikafka.log.errors import (
    InvalidRecord,
    InvalidTimestamp,
    LogError,
    RecordTooLarge,
    UnsupportedCodec,
    remembered,
)
from minikafka.protocol.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    CorruptCompression,
    DecompressedTooLarge,
    UnsupportedCompression,
    check_lz4_for_java,
    decompress,
)
from minikafka.protocol.record_walk import NOTHING, OFFSETS, record_heads, walk_records
from minikafka.protocol.records import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    read_header,
)

RecordsAhead = int | LogError
"""What is known of a batch before it is appended: the largest timestamp, or what the batch is refused with."""

DECOMPRESSED_RATIO_MAX = 8
"""A batch may hold so many times `max.message.bytes` when decompressed, where that is more than 64 MiB."""
DECOMPRESSED_BYTES_LIMIT = 1 << 28
"""And never more than this: who may alter a topic does not decide about the broker's memory."""
ERRORS_SHOWN = 3
"""Kafka's message shows as many; the answer lists more."""
RECORDS_NAMED = 100
"""The records that a topic does not take are looked for, and named, among the first so many. That is done in Python: a megabyte
of compressed records with wrong timestamps may hold a million, a request has many batches, and every other client would wait."""
APPEND_TIME_SAID = "a producer must not set the timestamp type to LogAppendTime"


def walk_ahead(view: memoryview, config: LogConfig, now_ms: int, bytes_max: int | None = None) -> RecordsAhead | None:
    """Find what `largest_timestamp` answers for a compressed batch, before the batch is appended and in any thread.

    Returns None where there is no whole compressed batch. What follows the batch does not count: the append ignores it, or
    refuses it. Raises DecompressedTooLarge where the batch holds more than `bytes_max`.
    """
    if len(view) < HEADER_BYTES:
        return None
    header = read_header(view)
    if not header.attributes & COMPRESSION_MASK or not HEADER_BYTES <= header.size <= len(view):
        return None
    try:
        return _largest_timestamp(
            view[: header.size], header, config, now_ms, bytes_max or decompressed_bytes_max(config)
        )
    except DecompressedTooLarge as error:
        if bytes_max:
            raise
        return _too_large(error)
    except LogError as error:
        return remembered(error)


def largest_timestamp(
    view: memoryview, header: tuple[int, ...], config: LogConfig, now_ms: int, ahead: RecordsAhead | None = None
) -> int:
    """Validate the records of a batch whose header and CRC have been checked; returns the largest timestamp in milliseconds.

    `ahead` is what `walk_ahead` has found in this batch.

    Raises InvalidRecord, InvalidTimestamp, RecordTooLarge, UnsupportedCodec.
    """
    if ahead is not None:
        if isinstance(ahead, LogError):
            raise copy(ahead)
        return ahead
    try:
        return _largest_timestamp(view, header, config, now_ms, decompressed_bytes_max(config))
    except DecompressedTooLarge as error:
        raise _too_large(error) from error


def _largest_timestamp(
    view: memoryview, header: tuple[int, ...], config: LogConfig, now_ms: int, bytes_max: int
) -> int:
    attributes, base, count = header[5], header[7], header[12]
    codec = attributes & COMPRESSION_MASK
    body, start = (_decompressed(view, codec, bytes_max), 0) if codec else (view, HEADER_BYTES)
    problem, index, largest, smallest, keyless = walk_records(body, start, count, base)
    if attributes & LOG_APPEND_TIME_FLAG:
        largest = smallest = header[8]  # it stands for the timestamp of every record
    if problem != NOTHING:
        _refuse_bytes(problem, index, count)
    if (
        keyless >= 0
        or largest - now_ms > config.message_timestamp_after_max_ms
        or now_ms - smallest > config.message_timestamp_before_max_ms
        or attributes & LOG_APPEND_TIME_FLAG
    ):
        wrong = _wrong(attributes, largest, smallest, keyless, config, now_ms)
        if wrong is not None:
            first = islice(record_heads(body, start, count, base), RECORDS_NAMED)
            raise _refused(_record_errors(first, header, config, now_ms), *wrong)
    return largest


def _wrong(
    attributes: int, largest: int, smallest: int, keyless: int, config: LogConfig, now_ms: int
) -> tuple[type[LogError], str] | None:
    """Why this topic does not take all records of a batch: `LogValidator.validateKey` and `validateTimestamp`, for the batch."""
    if attributes & LOG_APPEND_TIME_FLAG and (config.log_append_time or largest == NO_TIMESTAMP):
        return InvalidTimestamp, APPEND_TIME_SAID
    if not config.log_append_time:
        if largest - now_ms > config.message_timestamp_after_max_ms:
            return InvalidTimestamp, _too_far(largest, now_ms)
        if smallest != NO_TIMESTAMP and now_ms - smallest > config.message_timestamp_before_max_ms:
            return InvalidTimestamp, _too_far(smallest, now_ms)
    if keyless >= 0 and config.compact:
        return InvalidRecord, _without_key(keyless)
    return None


def decompressed_bytes_max(config: LogConfig) -> int:
    """How many bytes a batch may hold when it is decompressed."""
    of_topic = min(config.max_message_bytes * DECOMPRESSED_RATIO_MAX, DECOMPRESSED_BYTES_LIMIT)
    return max(DECOMPRESSED_BYTES_MAX, of_topic)


def _too_large(error: DecompressedTooLarge) -> RecordTooLarge:
    return RecordTooLarge(f"the batch is too large: {error}")


def _decompressed(view: memoryview, codec: int, bytes_max: int) -> bytes | bytearray | memoryview:
    """Raise DecompressedTooLarge, UnsupportedCodec, InvalidRecord where the batch cannot be decompressed."""
    try:
        if codec == Codec.LZ4:
            check_lz4_for_java(view[HEADER_BYTES:], bytes_max)
        return decompress(codec, view[HEADER_BYTES:], bytes_max)
    except DecompressedTooLarge:
        raise
    except UnsupportedCompression as error:
        raise UnsupportedCodec(str(error)) from error
    except CorruptCompression as error:
        raise InvalidRecord(f"the records cannot be decompressed: {error}") from error


def _refuse_bytes(problem: int, index: int, count: int) -> NoReturn:
    if problem == OFFSETS:
        raise _error(InvalidRecord, [(index, f"the offset delta of record {index} is not {index}")])
    if index == count:
        raise InvalidRecord(f"something follows the last of {count} records")
    raise InvalidRecord(f"record {index} of {count} is no whole record")


def _refused(errors: Iterable[tuple[type[LogError], int, str]], kind: type[LogError], why: str) -> LogError:
    """The error for records that this topic does not take, which names them where they are among the first."""
    wrong = list(errors)
    if not wrong:
        return kind(why)
    kind = InvalidTimestamp if any(of_record is InvalidTimestamp for of_record, _, _ in wrong) else InvalidRecord
    return _error(kind, [(index, message) for _, index, message in wrong])


def _error(kind: type[LogError], errors: list[tuple[int, str]]) -> LogError:
    error = kind("; ".join(message for _, message in errors[:ERRORS_SHOWN]))
    error.record_errors = errors
    return error


def _record_errors(
    heads: Iterable[tuple[int, bool]], header: tuple[int, ...], config: LogConfig, now_ms: int
) -> Iterator[tuple[type[LogError], int, str]]:
    """(error, index within the batch, message), one for each record: `LogValidator.validateKey` and `validateTimestamp`."""
    client_says_append_time = header[5] & LOG_APPEND_TIME_FLAG
    for index, (timestamp, has_key) in enumerate(heads):
        if client_says_append_time:
            timestamp = header[8]
        if config.compact and not has_key:
            yield InvalidRecord, index, _without_key(index)
        elif config.log_append_time or timestamp == NO_TIMESTAMP:
            if client_says_append_time:
                yield InvalidTimestamp, index, APPEND_TIME_SAID
        elif not (
            -config.message_timestamp_after_max_ms <= now_ms - timestamp <= config.message_timestamp_before_max_ms
        ):
            yield InvalidTimestamp, index, _too_far(timestamp, now_ms)


def _without_key(index: int) -> str:
    return f"record {index} has no key, and the topic is compacted"


def _too_far(timestamp: int, now_ms: int) -> str:
    return f"timestamp {timestamp} is too far from the broker's {now_ms}"
