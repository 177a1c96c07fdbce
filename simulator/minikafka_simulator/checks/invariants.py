"""The invariants by name: what must hold, and which public statement of Kafka's rules, or of a checker for it, says so.

A is what clients see, B what brokers hold, G what members of groups see, L liveness after everything was
healed, E the simulation itself. A name stands in ``Checker.fail`` calls exactly as it stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Invariant(NamedTuple):
    """What must hold after every event, and who said so first."""

    statement: str
    source: str


INVARIANTS: Mapping[str, Invariant] = {
    "A1 lost-write": Invariant(
        "a record acknowledged with acks=all is in the log in the end, unless deleted by request; a reader gets "
        "OFFSET_OUT_OF_RANGE only below the deleted records",
        "Jepsen's Kafka workload",
    ),
    "A2 unseen": Invariant(
        "a reader from the start has read every record acknowledged with acks=all, but for those that it was sent over "
        "because they were deleted by request",
        "Jepsen, Kafka's produce_consume_validate",
    ),
    "A3 duplicate": Invariant("a value of an idempotent producer is read at one offset only", "Jepsen, KIP-98"),
    "A4 inconsistent-offsets": Invariant(
        "an offset holds one value, whoever reads it, whenever (ConsistentRead)", "Jepsen; Vanlightly's KIP-966 specification"
    ),
    "A5 aborted read": Invariant("nothing is read that nobody sent", "Jepsen"),
    "A7 poll-skip": Invariant("a reader at an offset of the log is given the record there next", "Jepsen"),
    "A8 nonmonotonic-poll": Invariant(
        "a reader that tells the leader epoch of what it has read is never sent back, and given no batch before its position",
        "Jepsen, KIP-320",
    ),
    "A9 nonmonotonic-send": Invariant("a producer's sends are acknowledged at growing offsets", "Jepsen"),
    "A11 realtime lag": Invariant("after healing a reader comes to the end of what is committed", "Jepsen"),
    "A14 end offset monotone": Invariant(
        "ListOffsets(latest) never goes back, once answered", "Kafka's OFFSET_NOT_AVAILABLE rule"
    ),
    "A15 ack-offset": Invariant("what is acknowledged with acks=all is committed, at that offset", "Redpanda's log player"),
    "A16 progress": Invariant(
        "with one broker down at most, and nothing else wrong, no partition goes five seconds without acknowledgement",
        "Redpanda's chaos tests",
    ),
    "A18 uncommitted read": Invariant(
        "a reader is given only what is committed: the very record of that offset", "Kafka's high watermark, Jepsen"
    ),
    "A19 acknowledged-unwritten": Invariant(
        "what is acknowledged, with acks=1 too, some leader has written at that offset", "Redpanda's log player"
    ),
    "A20 unreadable": Invariant(
        "a batch whose records are not what its header says is refused: no consumer would get past it", "Kafka's LogValidator"
    ),
    "B1 LeaderInIsr": Invariant("a leader is in its ISR, at the controller and in its own view", "Kafka's TLA+ models"),
    "B2 WeakIsr": Invariant(
        "what any leader newly commits is on every member of its own view of the ISR", "Kafka's TLA+ models"
    ),
    "B3 StrongIsr": Invariant(
        "what any replica takes for committed, zombies included, is what was committed at that offset first",
        "Kafka's TLA+ models",
    ),
    "B4 ValidHighWatermark": Invariant(
        "what is newly committed is on every running member of the controller's ISR", "Kafka's TLA+ models"
    ),
    "B5 LeaderCompleteness": Invariant(
        "a new leader of the controller's choice has everything committed", "Vanlightly's KIP-966 specification"
    ),
    "B6 LeaderCandidateCompleteness": Invariant(
        "each running member of ISR and ELR has the committed records, up to the true high watermark",
        "Vanlightly's KIP-966 specification",
    ),
    "B7 ReplicationQuorumSuperset": Invariant(
        "a leader of the controller's epoch counts on all of the controller's ISR", "Vanlightly's KIP-966 specification"
    ),
    "B8 LogMatching": Invariant(
        "with one leader epoch one record was ever written at an offset, in all logs; in the end all replicas hold the same",
        "Vanlightly's KIP-966 specification, Raft",
    ),
    "B9 ValidControllerState": Invariant("no fenced broker is in an ISR", "KIP-841"),
    "B10 ValidControllerIsrAndElr": Invariant(
        "ISR and ELR have no common member, and none that is no replica; an ISR of the minimal size leaves no ELR", "KIP-966"
    ),
    "B11 NoCommittedRecordLostGlobally": Invariant(
        "after each power loss and truncation some replica has everything committed", "Vanlightly's KIP-966 specification"
    ),
    "B12 ValidFetcherState": Invariant(
        "a follower takes answers only from who led its leader epoch, given in that epoch", "KIP-320"
    ),
    "B13 epochs": Invariant(
        "one leader for each leader epoch, which its log knows from the start (KIP-279); leader and partition epochs never "
        "fall, nor do batches' epochs along a log",
        "Kafka's TLA+ models, KIP-101, KIP-497",
    ),
    "B14 offsets": Invariant(
        "log start <= high watermark <= log end; neither a leader's high watermark nor its log end falls in its term",
        "Kafka's UnifiedLog, Raft",
    ),
    "B15 recovery": Invariant("after a start the log is whole batches in sequence, CRCs right", "Kafka's LogLoader"),
    "B16 producer state": Invariant(
        "no sequence number is refused unless acknowledged records were lost for good reason", "KIP-98, KIP-360"
    ),
    "B17 restored high watermark": Invariant(
        "a replica starts with the high watermark it checkpointed, as far as its log reaches", "KAFKA-1647"
    ),
    "B18 NoHastyShrink": Invariant(
        "a leader drops no member within replica.lag.time.max.ms of its first moment", "apache/fluss #3698"
    ),
    "B19 FlushedBeforeCommitted": Invariant(
        "of what a leader newly commits each member of its own ISR has fewer than flush.messages records unflushed",
        "Kafka's UnifiedLog.append",
    ),
    "B20 DeletedByRequest": Invariant(
        "a log begins where records were deleted by request, or before", "Kafka's DeleteRecords (KIP-107)"
    ),
    "B21 EpochCache": Invariant(
        "the epoch cache of a log names the epochs that its batches have, and where they begin", "KIP-101, KIP-279"
    ),
    "B22 ProducerState": Invariant(
        "what a replica remembers of each idempotent producer are its last batches in the log", "KIP-98, KIP-360"
    ),
    "B23 Indexes": Invariant(
        "an index entry points to the batch it speaks of; a time index to the first that is so new", "Kafka's LogSegment"
    ),
    "B24 Purgatory": Invariant(
        "a produce that waits is answered as soon as the high watermark has passed it or its leader leads no more, any request "
        "when its time is up",
        "Kafka's purgatories",
    ),
    "B25 OwnLogsOnly": Invariant(
        "in the end a broker has the logs of its replicas, and none of a topic that was deleted or made anew, or of what is "
        "others' now",
        "KIP-516, Kafka's stray logs",
    ),
    "B26 ToldWhenWritten": Invariant("a controller tells of nothing that is not in the store", "KIP-500"),
    "B27 UnfencedWhenReady": Invariant(
        "a broker is unfenced only when the replicas of that very incarnation have once matched the image", "KIP-631"
    ),
    "B28 OneController": Invariant(
        "a term ends within two renewals of its lease after another broker took it, counted while its "
        "process runs and the store answers",
        "KIP-631",
    ),
    "B29 IsrGoesFirst": Invariant(
        "nobody from outside the ISR is elected while a member of it lives, and throws that one out", "KIP-966"
    ),
    "B30 FlushedIsKept": Invariant(
        "after a power loss log and epoch checkpoint reach as far as the log had said to be flushed, its recovery point no "
        "further",
        "R11, R17, KAFKA-15046",
    ),
    "B31 LaggardsLeave": Invariant(
        "a leader asks for an ISR without a follower that has for longer than replica.lag.time.max.ms lacked records which the "
        "leader had that long ago",
        "R8, KIP-16",
    ),
    "B32 WhoKeepsUpJoins": Invariant(
        "a follower that gets all that its leader has with every fetch is soon asked into the ISR", "KIP-497"
    ),
    "B33 CleanOnce": Invariant(
        "a clean shutdown counts for one start: its marker is not back after a power loss", "KAFKA-10471"
    ),
    "B34 UncleanAtLast": Invariant(
        "nobody is elected from outside ISR and ELR while either has a member that has lost nothing, and no other election is "
        "called unclean",
        "KIP-966",
    ),
    "B35 RetainedLongEnough": Invariant(
        "retention takes only what is older than retention.ms, or what is more than retention.bytes", "Kafka's UnifiedLog"
    ),
    "B36 SequenceUnbroken": Invariant(
        "the batches of an idempotent producer are in a log in the order of their sequence numbers, none twice, none missing",
        "KIP-98",
    ),
    "B37 SilenceIsFenced": Invariant(
        "a broker that stands still is fenced when its session is over, though its connections are open", "KIP-631"
    ),
    "B38 ReassignedInSync": Invariant(
        "a replica that has been one leaves the assignment only when all that stay are in the ISR", "KIP-455"
    ),
    "B39 LeaseAsExpected": Invariant(
        "the lease is taken from the term that its taker has seen, or not at all (SQLite store)", "R15"
    ),
    "G1 CommittedOffsets": Invariant(
        "a member whose commits are accepted began at the last offset that was written before it asked, or at one whose "
        "commit nobody had been answered",
        "Kafka's OffsetFetch",
    ),
    "G2 OneOwner": Invariant(
        "in a generation of a group a partition has one owner, whoever coordinates", "Kafka's rebalance protocol"
    ),
    "G3 FencedGeneration": Invariant(
        "once a generation has given out its shares, no commit of an older one is accepted", "Kafka's ILLEGAL_GENERATION"
    ),
    "G4 MemoryIsLog": Invariant(
        "in the end a coordinator has in memory what its log says: offsets, members and their shares",
        "Kafka's GroupMetadataManager",
    ),
    "L1 leader": Invariant("after healing every partition has a leader", "Vanlightly's KIP-966 specification"),
    "L2 full ISR": Invariant("after healing every replica is in the ISR", "Vanlightly's KIP-966 specification"),
    "L3 progress": Invariant("after healing every send is answered", "Vanlightly's KIP-966 specification"),
    "L4 bounded": Invariant("a schedule has no more events than a healthy cluster could make, and comes to its end", "MiniKafka"),
    "L5 groups": Invariant(
        "after healing the members of a group share all there is, in one generation, and what they commit is acknowledged",
        "MiniKafka",
    ),
    "L6 TopicObjects": Invariant(
        "after healing each topic has a MiniKafkaTopic that shows its last change, and one that is gone has none", "MiniKafka"
    ),
    "E1 no exception": Invariant("no event raises, not even an error of the log, while the disk takes everything", "MiniKafka"),
}  # fmt: skip
