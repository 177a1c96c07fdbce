"""Why a follower removes records from its log: each reason that its events give, declared once."""

from __future__ import annotations

from typing import NamedTuple


class TruncationReason(NamedTuple):
    """The words of `reason` in `log_truncated` and `log_restarted`, with names of values in braces, and what they mean."""

    words: str
    meaning: str
    acknowledged: str
    """When acknowledged records may be among those that are removed."""


DIVERGED = TruncationReason(
    "log diverges from leader {leader} after epoch {epoch}",
    "the leader's answer to a fetch says where the two logs diverge (KIP-595); usual after a change of leader",
    "by acks=1, whenever the new leader lacked them; by acks=all after an unclean election, or when the leader had lost its disk",
)
HIGH_WATERMARK = TruncationReason(
    "high watermark on becoming a follower",
    "nobody was asked: `minikafka.truncation.mode=high_watermark`, or the log has no leader epoch to compare",
    "in that mode, whenever the follower had not yet heard that they are committed: the loss that KIP-101 tells of",
)
LEADER_ENDS_BEFORE = TruncationReason(
    "leader {leader} ends before this log",
    "the leader refused a fetch beyond its log's end (OFFSET_OUT_OF_RANGE)",
    "by acks=all only when the leader was elected uncleanly, or had lost its disk",
)
LEADER_STARTS_LATER = TruncationReason(
    "leader's log starts later",
    "the leader has deleted what the follower lacks, so the follower's log begins anew (`log_restarted`)",
    "never by this: retention or DeleteRecords has deleted them at the leader",
)

REASONS = (DIVERGED, HIGH_WATERMARK, LEADER_ENDS_BEFORE, LEADER_STARTS_LATER)
