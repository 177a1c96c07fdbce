"""What can be wrong with a history or with replicas' logs: every anomaly is declared once, here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from minikafka.protocol.types import TopicPartition


class Severity(Enum):
    """ERROR: a guarantee was broken, the verdict is Failed. NOTE: worth showing, allowed by the client's settings."""

    ERROR = "error"
    NOTE = "note"


class Kind(Enum):
    """The anomalies. Names are Jepsen's (`jepsen.tests.kafka`) where Jepsen has one."""

    LOST_WRITE = "lost-write"
    UNSEEN = "unseen"
    VANISHED_READ = "vanished-read"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    ABORTED_READ = "aborted-read"
    INT_POLL_SKIP = "int-poll-skip"
    POLL_SKIP = "poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    ACK_OFFSET = "ack-offset"
    STALE_OFFSET = "stale-offset"
    END_OFFSET_WENT_BACK = "end-offset-went-back"
    DIVERGENT_REPLICAS = "divergent-replicas"
    CORRUPT_BATCH = "corrupt-batch"
    BROKEN_LOG = "broken-log"

    @property
    def statement(self) -> str:
        """The rule that was broken, in a sentence."""
        return STATEMENTS[self]


STATEMENTS: dict[Kind, str] = {
    Kind.LOST_WRITE: "An acknowledged record must be read by a reader that passed its offset",
    Kind.UNSEEN: "An acknowledged record must be read by a reader that reached the end of the partition",
    Kind.VANISHED_READ: "A record that was read once must be read by every later reader of its offset",
    Kind.DUPLICATE: "A value must be at one offset only (promised by idempotent producers alone)",
    Kind.INCONSISTENT_OFFSETS: "An offset must hold one value, whoever tells of it",
    Kind.ABORTED_READ: "A record whose send definitely failed must never be read",
    Kind.INT_POLL_SKIP: "One poll must not jump over an offset that holds a record",
    Kind.POLL_SKIP: "A reader must not jump over an offset that holds a record from one poll to the next",
    Kind.INT_NONMONOTONIC_POLL: "Offsets must grow within a poll",
    Kind.NONMONOTONIC_POLL: "Offsets must grow from poll to poll, unless the reader was placed anew",
    Kind.NONMONOTONIC_SEND: "One producer's acknowledged offsets in a partition must grow in the order of its sends",
    Kind.ACK_OFFSET: "A record must be where its acknowledgement said it is",
    Kind.STALE_OFFSET: "A record must not get an offset that was already taken when its send began",
    Kind.END_OFFSET_WENT_BACK: "The end offset that clients are told must never go back",
    Kind.DIVERGENT_REPLICAS: "Replicas must hold the same batches below their common end",
    Kind.CORRUPT_BATCH: "Every batch below the end of a replica's log must have a right CRC-32C",
    Kind.BROKEN_LOG: "Offsets of a replica's log must grow without overlap, and leader epochs must never decrease",
}

LOSS = frozenset((Kind.LOST_WRITE, Kind.UNSEEN))
"""The kinds that mean: an acknowledged record is gone."""

ORDER = frozenset(
    (
        Kind.NONMONOTONIC_SEND,
        Kind.NONMONOTONIC_POLL,
        Kind.INT_NONMONOTONIC_POLL,
        Kind.POLL_SKIP,
        Kind.INT_POLL_SKIP,
    )
)
DIVERGENCE = frozenset((Kind.DIVERGENT_REPLICAS, Kind.CORRUPT_BATCH, Kind.BROKEN_LOG))


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken rule, with what shows it.

    `evidence` is JSON: times in unix seconds, offsets, values, broker ids.
    """

    kind: Kind
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
