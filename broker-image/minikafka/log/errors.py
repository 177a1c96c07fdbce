"""Typed errors of the log, each with the error code that goes to the client."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition


class LogError(Exception):
    """Base of all errors of the log."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    record_errors: Sequence[tuple[int, str]] = ()
    """The records of the batch that it is about: index within the batch, and why (KIP-467)."""

    tells_log_start = False
    """Whether a producer that is refused with it is told the log start offset, as Kafka does where it has looked at the log."""


class CorruptBatch(LogError):
    """The bytes are not a whole record batch, its CRC-32C does not match, or its records cannot be read."""

    code = ErrorCode.CORRUPT_MESSAGE


class RecordTooLarge(LogError):
    """The batch is larger than `max.message.bytes`, or holds far more than that when decompressed."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLarge(LogError):
    """What is to be appended does not fit into one segment."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class UnsupportedCodec(LogError):
    """The package for a batch's codec is missing, or the version of the request has no such codec."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecord(LogError):
    """The batch contradicts itself, holds what is no record, or what a client must not send."""

    code = ErrorCode.INVALID_RECORD
    tells_log_start = True


class NotOneBatch(InvalidRecord):
    """A produce request has none or several batches for a partition, or one of an old format."""

    tells_log_start = False


class InvalidTimestamp(LogError):
    """The timestamp is further from the broker's clock than the topic allows (KIP-937)."""

    code = ErrorCode.INVALID_TIMESTAMP
    tells_log_start = True


class UnsupportedMagic(LogError):
    """A message set of the formats before Kafka 0.11 (magic 0 or 1)."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class OutOfOrderSequence(LogError):
    """The sequence number of an idempotent producer leaves a gap."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    tells_log_start = True


class InvalidProducerEpoch(LogError):
    """A newer incarnation of this producer has written already."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH
    tells_log_start = True


class FencedLeaderEpoch(LogError):
    """An append with an older leader epoch than the log already holds."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class OffsetOutOfRange(LogError):
    """The offset is below the log start offset or beyond the log end offset."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class UnexpectedAppendOffset(LogError):
    """What a follower fetched does not continue its log."""

    def __init__(self, message: str, first_offset: int, log_end_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.log_end_offset = log_end_offset


class FsyncFailed(OSError):
    """The data of a log could not be made durable. The kernel may have dropped the pages: a second try proves nothing."""


class CopyRefused(OSError):
    """The data file did not take what is on the unflushed volume. Nothing is lost: it is still there."""


class LogDirFailure(LogError):
    """The disk refused an operation. `permanent` when nothing that is not yet flushed can be trusted any more.

    `topic_partition` is None where the operation was not that of one log. `disk_full`: for a lack of room. Not `is_of_disk`: it
    was refused for a lack of descriptors, which says nothing of the disk.
    """

    code = ErrorCode.KAFKA_STORAGE_ERROR
    is_of_disk = True

    def __init__(
        self,
        message: str,
        *,
        permanent: bool,
        topic_partition: TopicPartition | None = None,
        disk_full: bool = False,
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.disk_full = disk_full
        self.topic_partition = topic_partition


class DataDirRefused(LogError):
    """The data directory is not this broker's, holds what is not ours, or is in use. The message is one line."""


class InconsistentTopicId(LogError):
    """The log on disk belongs to an earlier topic of the same name."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class MalformedCheckpoint(LogError):
    """A checkpoint file that does not parse. The message names file and line."""


def remembered(error: LogError) -> LogError:
    """Return an error as it may be kept: without the frames that raised it, which may hold a batch of 256 MiB decompressed.

    Raise a copy of it: with the frames that it passes then it would be a circle, which only a garbage collection ends.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
