"""One broken rule with what shows it. The kinds are declared in `minikafka.telemetry.anomalies`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.anomalies import (
    DECLARATIONS,
    DIVERGENCE,
    GROUPS,
    LOSS,
    ORDER,
    AnomalyKind,
    Severity,
)

__all__ = ["DECLARATIONS", "DIVERGENCE", "GROUPS", "LOSS", "ORDER", "Anomaly", "AnomalyKind", "Severity"]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken rule, with what shows it.

    `evidence` is JSON: times in unix seconds, offsets, values, broker ids.
    """

    kind: AnomalyKind
    severity: Severity
    topic: str
    partition: int
    offset: int | None
    value: str | None
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "severity": self.severity.value,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "value": self.value,
            "message": self.message,
            "evidence": self.evidence,
        }
