"""What the coordinator's rules depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class BrokerGroupKeys(Protocol):
    """The keys of a broker's configuration that concern groups."""

    @property
    def group_initial_rebalance_delay_ms(self) -> int: ...
    @property
    def group_min_session_timeout_ms(self) -> int: ...
    @property
    def group_max_session_timeout_ms(self) -> int: ...
    @property
    def group_max_size(self) -> int: ...
    @property
    def offset_metadata_max_bytes(self) -> int: ...
    @property
    def offsets_retention_minutes(self) -> int: ...
    @property
    def offsets_retention_check_interval_ms(self) -> int: ...
    @property
    def offsets_commit_timeout_ms(self) -> int: ...
    @property
    def offsets_topic_segment_bytes(self) -> int: ...
    @property
    def message_max_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's keys by their own names; defaults are Kafka's."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    message_max_bytes: int = 1_048_588

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @classmethod
    def of(cls, broker: BrokerGroupKeys) -> GroupConfig:
        """The part of a broker's configuration that concerns groups."""
        return cls(
            broker.group_initial_rebalance_delay_ms,
            broker.group_min_session_timeout_ms,
            broker.group_max_session_timeout_ms,
            broker.group_max_size,
            broker.offset_metadata_max_bytes,
            broker.offsets_retention_minutes,
            broker.offsets_retention_check_interval_ms,
            broker.offsets_commit_timeout_ms,
            broker.message_max_bytes,
        )


def offsets_topic_overrides(broker: BrokerGroupKeys) -> dict[str, str]:
    """Topic-level configuration with which ``__consumer_offsets`` is created, as in Kafka."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(broker.offsets_topic_segment_bytes),
    }
