"""The leader's part: append, serve followers, advance the high watermark, keep the in-sync replicas.

Every rule is a small method of its own, named in ``docs/internals/rules.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from minikafka.log.log import AppendInfo
from minikafka.log.record_validation import RecordsAhead
from minikafka.metadata.image import RECOVERED, PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.isr import (
    REFUSED_NOT_APPLIED,
    STALE_LEADER,
    AfterAnswer,
    AlterPartitionAnswer,
    IsrProposal,
    IsrState,
)

if TYPE_CHECKING:
    from minikafka.replication.partition import Partition

UNKNOWN = -1
"""A remote log end offset nobody has told this leader yet."""


class RemoteReplica:
    """What the leader knows of one follower. Only the leader keeps it (R5)."""

    __slots__ = ("broker_epoch", "last_caught_up", "last_fetch_leader_leo", "last_fetch_time", "leo")

    def __init__(self, last_caught_up: float) -> None:
        self.leo = UNKNOWN
        self.last_caught_up = last_caught_up
        self.last_fetch_time = last_caught_up
        self.last_fetch_leader_leo = 0
        self.broker_epoch = -1

    def note_fetch(self, fetch_offset: int, leader_leo: int, broker_epoch: int, now: float) -> None:
        """Advance LEO and caught-up time, with both cases of R8.

        A fetch at the leader's LEO is caught up now; a fetch at what was the leader's LEO at the previous fetch was caught
        up then. The second case keeps a follower in sync that is always one fetch behind a busy leader.
        """
        if fetch_offset >= leader_leo:
            self.last_caught_up = max(self.last_caught_up, now)
        elif fetch_offset >= self.last_fetch_leader_leo:
            self.last_caught_up = max(self.last_caught_up, self.last_fetch_time)
        self.leo = fetch_offset
        self.last_fetch_leader_leo = max(self.last_fetch_leader_leo, leader_leo)
        self.last_fetch_time = now
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_leo: int, now: float, lag_time_max: float) -> bool:
        """Kafka's ``Replica.isCaughtUp`` (R8); times in seconds."""
        return self.leo == leader_leo or now - self.last_caught_up <= lag_time_max


class FollowerFetch(NamedTuple):
    """What came of a follower's fetch, before any data is read."""

    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    proposal: IsrProposal | None = None


class LeaderState:
    """A term of leadership of one partition."""

    __slots__ = ("epoch", "isr", "partition", "partition_epoch", "recovery_state", "remotes", "start_offset")

    def __init__(self, partition: Partition, state: PartitionState, previous: LeaderState | None, now: float) -> None:
        self.partition = partition
        self.epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.recovery_state = state.recovery_state
        self.isr = IsrState(state.isr)
        self.start_offset = partition.log.log_end_offset
        self.note_epoch_start()
        self.remotes: dict[int, RemoteReplica] = {}
        for replica in state.replicas:
            if replica != partition.broker_id:
                self.remotes[replica] = self.initial_remote(replica, state, previous, now)
        self.maybe_advance_high_watermark(now)

    def note_epoch_start(self) -> None:
        """Give the term its epoch entry before any append (R12, KIP-279, KAFKA-6361): fast successive elections need it."""
        self.partition.log.assign_epoch(self.epoch, self.start_offset)

    def initial_remote(
        self, replica: int, state: PartitionState, previous: LeaderState | None, now: float
    ) -> RemoteReplica:
        """ISR members start as caught up, so that a new leader does not shrink the ISR before their first fetch."""
        in_sync = replica in state.isr
        remote = RemoteReplica(now if in_sync else float("-inf"))
        known = previous.remotes.get(replica) if self.follows_at_once(previous) else None
        if known is not None:  # nobody led in between: its followers' positions are still facts
            remote.leo = known.leo
            remote.broker_epoch = known.broker_epoch
        return remote

    def follows_at_once(self, previous: LeaderState | None) -> TypeGuard[LeaderState]:
        """Whether the same broker led the term just before.

        A broker that missed a term in between (paused, or the changes reached it as one) must not trust what its followers had
        before it: they may have truncated for another leader since. Kafka keeps the positions whenever the broker believed
        itself the leader; the simulator showed how that advances the high watermark over records nobody else has.
        """
        return previous is not None and previous.epoch + 1 == self.epoch

    def follower_lags(self) -> tuple[tuple[int, int], ...]:
        """(broker id, records behind this leader's log end) of every follower whose position is known."""
        end = self.partition.log.log_end_offset
        return tuple((broker, max(end - r.leo, 0)) for broker, r in self.remotes.items() if r.leo != UNKNOWN)

    # -- state from the controller within the term ----------------------------------------------------------------

    def take_state(self, state: PartitionState, now: float) -> None:
        """A newer partition epoch of the same term: ISR, assignment or recovery state changed.

        An older one than this leader has from the answer to its own AlterPartition is old news: metadata read before that
        change and delivered after it would take the ISR back (KIP-497).
        """
        if state.partition_epoch < self.partition_epoch:
            return
        if state.partition_epoch > self.partition_epoch:
            self.partition_epoch = state.partition_epoch
            self.recovery_state = state.recovery_state
            self.isr.commit(state.isr)
        for replica in state.replicas:
            if replica != self.partition.broker_id and replica not in self.remotes:
                self.remotes[replica] = RemoteReplica(now if replica in state.isr else float("-inf"))
        for gone in [r for r in self.remotes if r not in state.replicas]:
            del self.remotes[gone]
        self.maybe_advance_high_watermark(now)

    # -- append ----------------------------------------------------------------------------------------------------

    def effective_min_isr(self) -> int:
        """``min(min.insync.replicas, replication factor)``."""
        return min(self.partition.config.min_insync_replicas, len(self.remotes) + 1)

    def check_enough_replicas(self, acks: int) -> ErrorCode:
        """R16: acks=all is refused *before* the append while the committed ISR is below the minimum."""
        if acks == -1 and len(self.isr.committed) < self.effective_min_isr():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def append(self, records: memoryview, now_ms: int, now: float, ahead: RecordsAhead | None = None) -> AppendInfo:
        """Append a client's batch and advance the high watermark (R4). Raises the log's typed errors."""
        info = self.partition.log.append_as_leader(records, self.epoch, now_ms, ahead=ahead)
        if not self.remotes or len(self.isr.maximal) == 1:
            self.maybe_advance_high_watermark(now)
        return info

    def acknowledgement(self, required_offset: int) -> ErrorCode | None:
        """For acks=all (R16): the answer once the high watermark has reached ``required_offset``, None while it has not."""
        if self.partition.high_watermark < required_offset:
            return None
        if len(self.isr.maximal) < self.effective_min_isr():
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def appended_safely(self, required_offset: int) -> bool:
        """For acks=1: whether the leader's own log has the record as its flush settings want it (R17)."""
        return self.own_position() >= required_offset

    # -- high watermark --------------------------------------------------------------------------------------------

    def may_advance(self) -> bool:
        """The high watermark stands still below the minimum ISR (KIP-966, KAFKA-15583), and once the log has failed: of what is
        in memory then nobody knows how much is on the disk, and Kafka takes such a partition offline."""
        return self.partition.log.failure is None and len(self.isr.committed) >= self.effective_min_isr()

    def counts_for_high_watermark(self, replica: int, remote: RemoteReplica, now: float) -> bool:
        """Members of the maximal ISR, and caught-up replicas that are about to join it (else they never reach the HW; R9)."""
        if replica in self.isr.maximal:
            return True
        return (
            now - remote.last_caught_up <= self.partition.config.replica_lag_time_max
            and self.partition.peers.eligible(replica, remote.broker_epoch)
        )

    def own_position(self) -> int:
        """What this leader itself counts for: its log end, or less while flush.messages wants a flush first (R17)."""
        return self.partition.log.vouched_offset

    def maybe_advance_high_watermark(self, now: float) -> bool:
        """``HW = max(HW, min(LEO of all that count))`` (R4); True when it moved."""
        partition = self.partition
        if not self.may_advance():
            return False
        new = self.own_position()
        for replica, remote in self.remotes.items():
            if remote.leo < new and self.counts_for_high_watermark(replica, remote, now):
                new = remote.leo
        if new <= partition.high_watermark:
            return False
        partition.high_watermark = new
        partition.high_watermark_moved()
        return True

    def end_offset_for_clients(self) -> int | None:
        """What ListOffsets(latest) tells a client (R3): the high watermark; None (OFFSET_NOT_AVAILABLE) while it is not known.

        A new leader's own high watermark lags behind what the old leader showed. Until it has reached the start of this
        term, telling it would make the end go backwards before the client's eyes.
        """
        if self.start_offset > self.partition.high_watermark:
            return None
        return self.partition.high_watermark

    # -- followers -------------------------------------------------------------------------------------------------

    def validate_follower(self, replica: int, broker_epoch: int, current_leader_epoch: int) -> ErrorCode:
        """An assigned replica, of the incarnation this broker knows or a later one (KIP-903)."""
        if replica not in self.remotes:
            if current_leader_epoch >= 0:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if broker_epoch != -1 and self.partition.peers.alive_epoch(replica) > broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[ErrorCode, tuple[int, int] | None]:
        """Find where the log of a follower that fetches diverges from this one, if it does (R13, KIP-595)."""
        if last_fetched_epoch < 0:
            return ErrorCode.NONE, None
        epoch, end = self.partition.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or fetch_offset < self.partition.log.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE, None
        if epoch < last_fetched_epoch or end < fetch_offset:
            return ErrorCode.NONE, (epoch, end)
        return ErrorCode.NONE, None

    def follower_fetch(
        self,
        replica: int,
        broker_epoch: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        now: float,
        log_start: int = -1,
    ) -> FollowerFetch:
        """Take in a follower's position (R5) and propose its return to the ISR when it is due (R9).

        A diverging follower changes nothing here: what it claims to have is not this log's. Nor does one that is to join with
        records of its own before the start of this log: nobody can say whether they are the same, and it drops them with this
        answer (found by simulation; in Kafka it may join, and lead, before).
        """
        error = self.validate_follower(replica, broker_epoch, leader_epoch)
        if error:
            return FollowerFetch(error)
        error, diverging = self.divergence(fetch_offset, last_fetched_epoch)
        if error or diverging:
            return FollowerFetch(error, diverging)
        log = self.partition.log
        if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
            return FollowerFetch(ErrorCode.OFFSET_OUT_OF_RANGE)
        if 0 <= log_start < fetch_offset <= log.log_start_offset and replica not in self.isr.maximal:
            return _ACCEPTED
        remote = self.remotes[replica]
        moved = remote.leo != fetch_offset
        remote.note_fetch(fetch_offset, log.log_end_offset, broker_epoch, now)
        if moved:
            self.maybe_advance_high_watermark(now)
        if replica in self.isr.maximal:
            return _ACCEPTED
        return FollowerFetch(proposal=self.maybe_expand(replica, remote, now))

    # -- in-sync replicas ------------------------------------------------------------------------------------------

    def may_join(self, replica: int, remote: RemoteReplica, now: float) -> bool:
        """R9 and its later conditions: at the HW, past the start of this term, of a live incarnation.

        Below the minimum ISR the HW stands still, so reaching it proves little; the replica must then be caught up as well
        (KAFKA-19996), else it joins and is shrunk again for ever.
        """
        if remote.leo < self.partition.high_watermark or remote.leo < self.start_offset:
            return False
        if not self.partition.peers.eligible(replica, remote.broker_epoch):
            return False
        return self.may_advance() or remote.is_caught_up(
            self.partition.log.log_end_offset, now, self.partition.config.replica_lag_time_max
        )

    def maybe_expand(self, replica: int, remote: RemoteReplica, now: float) -> IsrProposal | None:
        """Propose the ISR with ``replica`` in it, when nothing is in flight and the replica may join.

        A replica that joins at the high watermark may never have been at the leader's busy end. It counts as caught up from
        here on, else the next check would throw it out again at once (a relative of KAFKA-19996; found by simulation).
        """
        if self.isr.pending is not None or replica in self.isr.committed or not self.may_join(replica, remote, now):
            return None
        remote.last_caught_up = max(remote.last_caught_up, now)
        return self.propose((*self.isr.committed, replica))

    def maybe_shrink(self, now: float) -> IsrProposal | None:
        """Propose the ISR without the members whose lag is over ``replica.lag.time.max.ms`` (R8)."""
        if self.isr.pending is not None:
            return None
        leo = self.partition.log.log_end_offset
        lag = self.partition.config.replica_lag_time_max
        keep = tuple(
            member
            for member in self.isr.committed
            if member == self.partition.broker_id
            or (member in self.remotes and self.remotes[member].is_caught_up(leo, now, lag))
        )
        if len(keep) == len(self.isr.committed):
            return None
        return self.propose(keep)

    def propose(self, isr: tuple[int, ...]) -> IsrProposal:
        """Put a change in flight."""
        members = tuple(
            (m, self.remotes[m].broker_epoch if m in self.remotes else self.partition.peers.alive_epoch(m)) for m in isr
        )
        proposal = self._proposal(members)
        self.isr.propose(proposal)
        return proposal

    def _proposal(self, members: tuple[tuple[int, int], ...]) -> IsrProposal:
        return IsrProposal(
            self.partition.topic_partition,
            self.partition.topic_id,
            self.epoch,
            self.partition_epoch,
            members,
            RECOVERED,
        )

    def answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer, now: float) -> AfterAnswer:
        """Take in the controller's answer to ``proposal`` (R10, the table of KIP-497)."""
        if self.isr.pending is not proposal:
            return AfterAnswer.DONE
        if answer.error is ErrorCode.NONE:
            if answer.leader_epoch == self.epoch and answer.partition_epoch >= self.partition_epoch:
                self.partition_epoch = answer.partition_epoch
                self.recovery_state = RECOVERED
                self.isr.commit(answer.isr)
                self.maybe_advance_high_watermark(now)
            return AfterAnswer.DONE
        return self.refused(answer.error, now)

    def refused(self, error: ErrorCode, now: float) -> AfterAnswer:
        """Fall back only when the controller says that nothing was applied; stay pending when our view is old.

        A refusal says nothing of earlier attempts without an answer: one that a network has held back may be carried out when
        what spoke against it is over. So where a replica would join, the leader asks for the ISR that is committed instead, which
        takes the next partition epoch, and with it ends all that was asked for under this one (found by simulation; Kafka falls
        back).
        """
        if error in REFUSED_NOT_APPLIED:
            if not self.isr.unanswered or self.isr.maximal == set(self.isr.committed):
                self.isr.fall_back()
                self.maybe_advance_high_watermark(now)
                return AfterAnswer.DONE
            same = self._proposal(tuple((member, -1) for member in self.isr.committed))
            if self.isr.pending != same:
                self.isr.replace(same)
                return AfterAnswer.REPLACED
        elif error in STALE_LEADER:
            return AfterAnswer.DONE
        self.isr.unanswered = True
        return AfterAnswer.RETRY


_ACCEPTED = FollowerFetch()
