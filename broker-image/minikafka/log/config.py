"""Settings of one log, resolved from broker and topic configuration by the caller."""

from __future__ import annotations

from dataclasses import dataclass

FOREVER = 2**63 - 1
"""Kafka's `Long.MAX_VALUE`: the setting never takes effect."""


@dataclass(slots=True)
class LogConfig:
    """Kafka's topic-level keys with dots and hyphens as underscores; defaults are Kafka's own (`LogConfig.java`)."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1048588
    """Largest batch accepted from a producer, header included."""
    retention_ms: int = 7 * 24 * 3600 * 1000
    """-1 keeps records for ever."""
    retention_bytes: int = -1
    """-1 is without limit."""
    message_timestamp_type: str = "CreateTime"
    """`CreateTime` or `LogAppendTime`."""
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = 3600 * 1000
    flush_interval_messages: int = FOREVER
    flush_interval_ms: int = FOREVER
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    cleanup_policy: str = "delete"
    """`delete`, `compact`, or both with a comma."""

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy
