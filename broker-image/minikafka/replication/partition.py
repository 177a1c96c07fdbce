"""One replica of one partition on one broker: its role, its log, its high watermark.

Transitions (``apply_state`` is the only way in)::

    from \\ to   leader                     follower                     offline
    any          epoch entry at LEO,        truncate by mode, then       keep log and HW,
                 remote LEOs unknown        fetch from the leader        answer NOT_LEADER
    same epoch   take ISR and partition     keep fetching                -
                 epoch, keep progress

Sources: KIP-101, KIP-279, KIP-320, KIP-497, KIP-595, KIP-841, KIP-903, KIP-966 and Kafka's ``Partition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from minikafka.log.errors import FencedLeaderEpoch, LogError
from minikafka.log.log import Log
from minikafka.metadata.image import NO_LEADER, PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FollowerState
from minikafka.replication.leader import LeaderState


class Role(IntEnum):
    """The value of the metric ``minikafka_replica_role``."""

    NONE = 0
    FOLLOWER = 1
    LEADER = 2


class TruncationMode(IntEnum):
    """How a follower makes its log agree with the leader's."""

    LEADER_EPOCH = 0
    HIGH_WATERMARK = 1
    """Before KIP-101: truncate to the own high watermark. Loses acknowledged records; kept for stories A and B."""


@dataclass(slots=True)
class ReplicationConfig:
    """What the rules of one partition depend on; times in seconds."""

    min_insync_replicas: int = 1
    replica_lag_time_max: float = 30.0
    truncation_mode: TruncationMode = TruncationMode.LEADER_EPOCH


class Peers(Protocol):
    """What a leader must know of other brokers (KIP-841, KIP-903)."""

    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Not fenced, not shutting down, and of this incarnation (-1: incarnation unknown, not checked)."""
        ...

    def alive_epoch(self, broker_id: int) -> int:
        """The broker epoch in this broker's metadata, -1 when unknown."""
        ...


class Partition:
    """A hosted replica. Not thread-safe: everything runs on one thread of control."""

    __slots__ = (
        "__weakref__",
        "broker_id",
        "config",
        "follower",
        "high_watermark",
        "leader",
        "log",
        "peers",
        "resigned_epoch",
        "role",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        broker_id: int,
        log: Log,
        config: ReplicationConfig,
        peers: Peers,
        high_watermark: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.log = log
        self.config = config
        self.peers = peers
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.role = Role.NONE
        self.state: PartitionState | None = None
        self.leader: LeaderState | None = None
        self.follower: FollowerState | None = None
        self.resigned_epoch = -1
        """The last term that this replica led and gave up."""

    # -- state from the controller --------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        return -1 if self.state is None else self.state.leader_epoch

    @property
    def partition_epoch(self) -> int:
        return -1 if self.state is None else self.state.partition_epoch

    @property
    def leader_id(self) -> int:
        return NO_LEADER if self.state is None else self.state.leader

    def apply_state(self, state: PartitionState, now: float) -> bool:
        """Take in the controller's word; True when role or leader epoch changed.

        A smaller partition epoch is old news and ignored. An equal one is accepted, for the answer to an AlterPartition may
        have come first (KIP-497).

        Raises LogError when the log cannot begin the term; FencedLeaderEpoch when the log holds records of a later one, so that
        the controller's word is older than the log (:meth:`check_not_behind_log`). The replica then leads and follows nothing,
        also not in the term before; the same state may be applied again.
        """
        old = self.state
        if old is not None and state.partition_epoch < old.partition_epoch:
            return False
        self.state = state
        try:
            return self._take_role(old, state, now)
        except LogError:
            self.resign()
            self.state = old
            raise

    def _take_role(self, old: PartitionState | None, state: PartitionState, now: float) -> bool:
        if state.leader == self.broker_id:
            self.check_not_behind_log(state)
            return self._become_leader(old, state, now)
        if state.leader == NO_LEADER or self.broker_id not in state.replicas:
            changed = self.role is not Role.NONE
            self.resign()
            return changed
        self.check_not_behind_log(state)
        return self._become_follower(old, state, now)

    def check_not_behind_log(self, state: PartitionState) -> None:
        """No broker writes in a term before the controller has written that it begins. So a log that knows a later term than the
        controller has seen metadata that the controller has lost (its store was put back to an earlier state). What was
        acknowledged since may be in this log only: it is neither cut for the leader of an older term, nor led in one.

        In KRaft such metadata would have to be truncated below its high watermark, at which a broker ends (KIP-595); a log that
        was told of an older term would drop the later ones (``LeaderEpochFileCache.assign``). Raises FencedLeaderEpoch.
        """
        latest = self.log.epochs.latest
        if state.leader_epoch < latest:
            raise FencedLeaderEpoch(
                f"{self.topic_partition}: its log has leader epoch {latest}, the cluster's metadata only {state.leader_epoch}"
            )

    def resign(self) -> None:
        """Lead and follow no more, until the next :meth:`apply_state`.

        A term that was given up is over: whoever led it again would not know of the ISR change it had in flight, nor what
        its followers have. Its end is the controller's to write.
        """
        if self.leader is not None:
            self.resigned_epoch = self.leader.epoch
        self.role, self.leader, self.follower = Role.NONE, None, None

    def forget_state(self) -> None:
        """What the controller said was for a registration that is over: resign, and take any state from now on."""
        self.resign()
        self.state = None

    def _become_leader(self, old: PartitionState | None, state: PartitionState, now: float) -> bool:
        if self.leader is not None and old is not None and old.leader_epoch == state.leader_epoch:
            self.leader.take_state(state, now)
            return False
        if state.leader_epoch <= self.resigned_epoch:
            return False
        previous = self.leader
        self.role, self.follower = Role.LEADER, None
        self.leader = LeaderState(self, state, previous, now)
        return True

    def _become_follower(self, old: PartitionState | None, state: PartitionState, now: float) -> bool:
        same = old is not None and old.leader_epoch == state.leader_epoch and old.leader == state.leader
        if self.follower is not None and same:
            return False
        self.role, self.leader = Role.FOLLOWER, None
        self.follower = FollowerState(self, state, now)
        return True

    # -- questions any replica answers ----------------------------------------------------------------------------

    def check_leader(self, current_leader_epoch: int) -> ErrorCode:
        """Fencing (R12, KIP-320) and R2: NONE when this replica leads and the caller's epoch (-1: not given) is its own."""
        own = self.leader_epoch
        if current_leader_epoch >= 0 and current_leader_epoch != own:
            if current_leader_epoch < own:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch known here that is not above ``epoch``; (-1, -1) when undefined (R13)."""
        return self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)

    def high_watermark_moved(self) -> None:
        """Told by a leader whenever its high watermark has moved, in the middle of whatever moved it."""

    def set_high_watermark(self, offset: int) -> None:
        """Clamp to what the log holds: log start <= HW <= LEO (R3)."""
        log = self.log
        self.high_watermark = min(max(offset, log.log_start_offset), log.log_end_offset)

    def truncate_to(self, offset: int) -> int:
        """Cut the log; the HW never stays above the LEO. Returns the number of records removed."""
        try:
            return self.log.truncate_to(offset)
        finally:
            self.set_high_watermark(self.high_watermark)

    def begin_anew_at(self, offset: int) -> None:
        """Drop all records and go on at ``offset``; the HW never stays above the LEO."""
        try:
            self.log.truncate_fully_and_start_at(offset)
        finally:
            self.set_high_watermark(self.high_watermark)
