"""Every anomaly that a verdict may name, declared once: two judges implement this list, and docs/reference/verdicts.md shows it.

The verifier (`minikafka_chaos`) and the Spark analysis (`minikafka_analytics`) judge a run apart from each other, from the
same raw evidence. What each kind means, what is counted, and what it does to the verdict is said here and in the rules of
docs/reference/verdicts.md, so that both give the same verdict, the same kinds and the same counts.

Pure declarations: nothing but the standard library is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """ERROR: a guarantee was broken, the verdict is Failed. NOTE: worth showing, allowed by the client's settings."""

    ERROR = "error"
    NOTE = "note"


class AnomalyKind(Enum):
    """The anomalies. Names are Jepsen's (`jepsen.tests.kafka`) where Jepsen has one."""

    LOST_WRITE = "lost-write"
    UNSEEN = "unseen"
    LOST_BELOW_START = "lost-below-start"
    VANISHED_READ = "vanished-read"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    ABORTED_READ = "aborted-read"
    PHANTOM = "phantom"
    INT_POLL_SKIP = "int-poll-skip"
    POLL_SKIP = "poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    ACK_OFFSET = "ack-offset"
    STALE_OFFSET = "stale-offset"
    END_OFFSET_WENT_BACK = "end-offset-went-back"
    UNPROCESSED = "unprocessed"
    REPROCESSED = "reprocessed"
    REWOUND = "rewound"
    DUPLICATE_DEAD_LETTER = "duplicate-dead-letter"
    SHORT_REPLICA = "short-replica"
    UNEXPLAINED_START = "unexplained-start"
    DIVERGENT_REPLICAS = "divergent-replicas"
    CORRUPT_BATCH = "corrupt-batch"
    BROKEN_LOG = "broken-log"
    BROKEN_SEQUENCE = "broken-sequence"

    @property
    def declaration(self) -> Declaration:
        return DECLARATIONS[self]

    @property
    def statement(self) -> str:
        """The rule that was broken, in a sentence."""
        return DECLARATIONS[self].statement


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an anomaly is. All texts are Markdown, and use the words that docs/reference/verdicts.md defines."""

    statement: str
    """What must hold."""
    definition: str
    """When it does not, over the raw evidence."""
    unit: str
    """What is counted: one for each of these."""
    source: str
    severity: str = "error"
    """`error`, or when it is a note only."""
    inconclusive: str = ""
    """When the evidence cannot tell, and the verdict is Inconclusive instead; empty: never."""


DECLARATIONS: dict[AnomalyKind, Declaration] = {
    AnomalyKind.LOST_WRITE: Declaration(
        "An acknowledged record must be read by a reader that passed its offset",
        "*missing* (see Fate), its offset is known and at most the highest offset of the final read; or, where "
        "the final read does not judge the send: its value is in no read of the partition, and a sitting with a known "
        "start has start <= offset <= its highest offset",
        "value",
        "Jepsen `lost-write`; Kafka's `produce_consume_validate`",
        inconclusive="the final read does not judge the send, and no sitting passed its offset (`undecided`)",
    ),
    AnomalyKind.UNSEEN: Declaration(
        "An acknowledged record must be read by a reader that reached the end of the partition",
        "*missing*, and its offset is unknown or above the highest offset of the final read",
        "value",
        "Jepsen `unseen`",
        inconclusive="the final read does not judge the send; or its offset is unknown and that read starts above 0 "
        "(`undecided`)",
    ),
    AnomalyKind.LOST_BELOW_START: Declaration(
        "The log start must not pass an acknowledged record unless retention, DeleteRecords or the topic's deletion moved it",
        "*missing*, offset below the start of the final read, and replicas.jsonl has `replica` lines of the partition",
        "value",
        "KIP-107 (DeleteRecords), `retention.ms`, `retention.bytes`",
        inconclusive="no `replica` line of the partition: nothing tells who moved the log start (`undecided`)",
    ),
    AnomalyKind.VANISHED_READ: Declaration(
        "A record that was read once must be read by every later reader of its offset",
        "read (offset, value) of another sitting, on a line before the final read's assign line, offset at or above the "
        "final read's start, and not in it",
        "(topic, partition, offset, value)",
        "ConsistentRead of Vanlightly's TLA+ models of Kafka's replication",
        inconclusive="no final read, or a compacted topic: not judged",
    ),
    AnomalyKind.DUPLICATE: Declaration(
        "A value must be at one offset only (promised by idempotent producers alone)",
        "the value is at two or more places (topic, partition, offset), over the final read of each partition that "
        "has one, and over all reads of each that has none",
        "value",
        "Jepsen `duplicate`; KIP-98",
        severity="error with `idempotence` or a claim NoDuplicates; else note",
    ),
    AnomalyKind.INCONSISTENT_OFFSETS: Declaration(
        "An offset must hold one value, whoever tells of it",
        "two or more different values at one place, over all reads and all acknowledgements with an offset",
        "(topic, partition, offset)",
        "Jepsen `inconsistent-offsets`",
    ),
    AnomalyKind.ABORTED_READ: Declaration(
        "A record whose send definitely failed must never be read",
        "outcome `fail`, and the value is in a read",
        "value",
        "Jepsen `G1a`; Adya",
    ),
    AnomalyKind.PHANTOM: Declaration(
        "A record that is read must have been sent, and to that partition",
        "a place in the reads with a value that no send has, or whose send was to another partition; offset at or above what was "
        "there before (see Phantoms)",
        "(topic, partition, offset)",
        "Jepsen `unexpected`; Lamport's validity",
    ),
    AnomalyKind.INT_POLL_SKIP: Declaration(
        "One poll must not jump over an offset that holds a record",
        "as poll-skip, and this read and the one before it have the same `batch`, which is not null",
        "read",
        "Jepsen `int-poll-skip`",
    ),
    AnomalyKind.POLL_SKIP: Declaration(
        "A reader must not jump over an offset that holds a record from one poll to the next",
        "in a sitting, a *known* offset that is not deleted lies between the read before and this one",
        "read",
        "Jepsen `poll-skip`",
    ),
    AnomalyKind.INT_NONMONOTONIC_POLL: Declaration(
        "Offsets must grow within a poll",
        "as nonmonotonic-poll, and this read and the one before it have the same `batch`, which is not null",
        "read",
        "Jepsen `int-nonmonotonic-poll`",
    ),
    AnomalyKind.NONMONOTONIC_POLL: Declaration(
        "Offsets must grow from poll to poll, unless the reader was placed anew",
        "in a sitting, the offset is not above that of the read before; of the first read: below the sitting's start",
        "read",
        "Jepsen `nonmonotonic-poll`",
    ),
    AnomalyKind.NONMONOTONIC_SEND: Declaration(
        "One producer's acknowledged offsets in a partition must grow in the order of its sends",
        "its offset is not above the highest offset of the acknowledged sends that the same process invoked before in the "
        "partition",
        "value",
        "Jepsen `nonmonotonic-send`; librdkafka #1092",
        severity="note when the send with that highest offset completed later than this one, without `idempotence` and "
        "without a claim NoReordering; else error",
    ),
    AnomalyKind.ACK_OFFSET: Declaration(
        "A record must be where its acknowledgement said it is",
        "acknowledged at a place, and its value was read, but never at that place (another partition counts)",
        "value",
        "Redpanda's log player",
    ),
    AnomalyKind.STALE_OFFSET: Declaration(
        "A record must not get an offset that was already taken when its send began",
        "the smallest offset that the value has in its partition (acknowledged or read) is at most the highest offset that "
        "was *known* on a line before its invocation",
        "(topic, partition, that highest known offset)",
        "Redpanda's log player; real-time order (Herlihy and Wing)",
    ),
    AnomalyKind.END_OFFSET_WENT_BACK: Declaration(
        "The end offset that one client is told must never go back",
        "an `end_offset` line below the one before it of the same process and partition",
        "line",
        "MonotonicHighWatermark of Vanlightly's TLA+ models; Spark's Kafka source fails on it",
    ),
    AnomalyKind.UNPROCESSED: Declaration(
        "A record that a group of consumers has gone past must have been processed by one of its members, or be a dead letter",
        "in the final read, at or above the group's start in the partition and below its reach, and no `process` line of a "
        "member and no `dead_letter` line of the group has the value",
        "(group, topic, partition, offset, value)",
        "Kafka documentation, Message Delivery Semantics (at-least-once; a commit before the work is at-most-once)",
        inconclusive="no final read: not judged",
    ),
    AnomalyKind.REPROCESSED: Declaration(
        "A record is processed once by a group (promised by nobody but transactions)",
        "two or more `process` lines of members of one group for one place and value",
        "(group, topic, partition, offset, value)",
        "Kafka documentation, Message Delivery Semantics: at-least-once; KIP-447",
        severity="note",
    ),
    AnomalyKind.REWOUND: Declaration(
        "A group must go on where it has committed that it was, or after it",
        "an `assign` line of a member, with an offset below that of the last `commit` line of type `ok` before it of the same "
        "group and partition",
        "line",
        "Kafka documentation: auto.offset.reset, offsets.retention.minutes; KIP-320 (the log was truncated below the position)",
    ),
    AnomalyKind.DUPLICATE_DEAD_LETTER: Declaration(
        "A record must be one dead letter of a group at most",
        "two or more `dead_letter` lines of one group for one place and value",
        "(group, topic, partition, offset, value)",
        "`minikafka.reliability`; KIP-298 (dead-letter queues of Kafka Connect, which promise at-least-once)",
    ),
    AnomalyKind.SHORT_REPLICA: Declaration(
        "Every in-sync replica must hold the log up to the end that the final reader reached",
        "`in_sync`, and its `end` is below the end of the final read",
        "(topic, partition, broker)",
        "Kafka's definition of the ISR; KIP-966",
        inconclusive="no final read, or fewer `replica` lines than the topic's replication factor",
    ),
    AnomalyKind.UNEXPLAINED_START: Declaration(
        "A replica's log must start at 0 unless retention, DeleteRecords or the topic's deletion moved it",
        "the replica's `start` is above the partition's *deleted-to* offset",
        "(topic, partition, broker)",
        "KIP-107, KIP-405",
    ),
    AnomalyKind.DIVERGENT_REPLICAS: Declaration(
        "Replicas must hold the same batches below their common end",
        "between the higher start and the lower end of two replicas, one has a batch (base offset, last offset, epoch, CRC) "
        "that the other has not",
        "(topic, partition, pair of brokers)",
        "KIP-101, KIP-279; LogMatching of Raft",
        inconclusive="compacted topics, and a replica of which `batch` lines are missing: not judged",
    ),
    AnomalyKind.CORRUPT_BATCH: Declaration(
        "Every batch of a replica's log must have a right CRC-32C",
        "`crc_right` is false",
        "batch line",
        "Kafka's record batch v2",
    ),
    AnomalyKind.BROKEN_LOG: Declaration(
        "Offsets of a replica's log must grow without overlap or hole, and leader epochs must never decrease",
        "a batch whose base offset is not the last offset + 1 of the batch before (compacted topics: is below that), or "
        "whose epoch is below that batch's; a batch whose last offset is below its base offset; a first batch above the "
        "replica's `start` (not for compacted topics); a `damage` that is not null",
        "batch line, and one for each replica with damage",
        "KIP-101; Kafka's log recovery",
        inconclusive="a replica of which `batch` lines are missing: only its `damage` is judged",
    ),
    AnomalyKind.BROKEN_SEQUENCE: Declaration(
        "In a replica's log the sequence numbers of one producer id and epoch must follow each other",
        "a batch with a producer id (>= 0) and a base sequence (>= 0), whose base sequence is not one above the last "
        "sequence of the batch before of the same broker, partition, producer id and producer epoch (2147483647 is followed "
        "by 0)",
        "batch line",
        "KIP-98, KIP-360",
        inconclusive="compacted topics, and a replica of which `batch` lines are missing: not judged",
    ),
}

LOSS = frozenset((AnomalyKind.LOST_WRITE, AnomalyKind.UNSEEN, AnomalyKind.LOST_BELOW_START))
"""The kinds that mean: an acknowledged record is gone."""

ORDER = frozenset(
    (
        AnomalyKind.NONMONOTONIC_SEND,
        AnomalyKind.NONMONOTONIC_POLL,
        AnomalyKind.INT_NONMONOTONIC_POLL,
        AnomalyKind.POLL_SKIP,
        AnomalyKind.INT_POLL_SKIP,
    )
)
GROUPS = frozenset(
    (AnomalyKind.UNPROCESSED, AnomalyKind.REPROCESSED, AnomalyKind.REWOUND, AnomalyKind.DUPLICATE_DEAD_LETTER)
)
"""The kinds that tell of groups of consumers."""

DIVERGENCE = frozenset(
    (
        AnomalyKind.SHORT_REPLICA,
        AnomalyKind.UNEXPLAINED_START,
        AnomalyKind.DIVERGENT_REPLICAS,
        AnomalyKind.CORRUPT_BATCH,
        AnomalyKind.BROKEN_LOG,
        AnomalyKind.BROKEN_SEQUENCE,
    )
)
"""The kinds that replicas' own logs show."""
