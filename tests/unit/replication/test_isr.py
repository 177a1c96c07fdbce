"""Who is in sync: caught-up times, leaving, joining, and every answer to an AlterPartition."""

from dataclasses import replace

import pytest
from minikafka.metadata.image import RECOVERED, RECOVERING, PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.isr import REFUSED_NOT_APPLIED, STALE_LEADER, AfterAnswer, AlterPartitionAnswer
from minikafka.replication.leader import RemoteReplica

from .cluster import Replica, states
from .leading import accept, fetch_at, lead, members, produce, proposed, term

LAG = 10.0


class TestCaughtUp:
    def test_at_the_end_of_the_leader_now(self) -> None:
        """R8, first case: fetch offset >= leader LEO: caught up now."""
        remote = RemoteReplica(0.0)
        remote.note_fetch(fetch_offset=5, leader_leo=5, broker_epoch=1, now=7.0)
        assert remote.last_caught_up == 7.0

    def test_at_what_was_the_end_at_the_previous_fetch(self) -> None:
        """R8, second case: it was caught up then, though the leader has more by now."""
        remote = RemoteReplica(0.0)
        remote.note_fetch(fetch_offset=3, leader_leo=5, broker_epoch=1, now=7.0)
        assert remote.last_caught_up == 0.0
        remote.note_fetch(fetch_offset=5, leader_leo=8, broker_epoch=1, now=8.0)
        assert remote.last_caught_up == 7.0
        remote.note_fetch(fetch_offset=7, leader_leo=9, broker_epoch=1, now=9.0)
        assert remote.last_caught_up == 7.0, "neither case"

    def test_a_follower_always_one_fetch_behind_stays(self) -> None:
        """R8: a busy leader is never caught up with, yet nothing is wrong with the follower."""
        leader = lead((1, 2), (1, 2), lag=LAG)
        behind = 0
        for second in range(60):
            fetch_at(leader, 2, behind, now=float(second))
            behind = leader.leo
            produce(leader, 1, now=float(second))
            assert term(leader).maybe_shrink(float(second)) is None

    def test_a_time_never_goes_back(self) -> None:
        """R8: lastCaughtUpTimeMs is a maximum."""
        remote = RemoteReplica(9.0)
        remote.note_fetch(5, 5, 1, now=7.0)
        assert remote.last_caught_up == 9.0


class TestShrink:
    def test_a_stuck_follower_leaves(self) -> None:
        """R8: no fetch for longer than replica.lag.time.max.ms."""
        leader = lead((1, 2, 3), lag=LAG, records=1)
        fetch_at(leader, 2, 1, now=5.0)
        assert term(leader).maybe_shrink(LAG) is None
        assert members(term(leader).maybe_shrink(LAG + 1)) == (1, 2)

    def test_a_slow_follower_leaves(self) -> None:
        """R8: it fetches all the time and never catches up."""
        leader = lead((1, 2), (1, 2), lag=LAG)
        for second in range(12):
            produce(leader, 3, now=float(second))
            fetch_at(leader, 2, second, now=float(second))
        assert members(term(leader).maybe_shrink(12.0)) == (1,)

    def test_whoever_has_everything_stays_however_long_it_is_silent(self) -> None:
        """R8, Kafka's isCaughtUp: at the leader's LEO there is no lag."""
        leader = lead((1, 2), (1, 2), lag=LAG, records=1)
        fetch_at(leader, 2, 1, now=0.0)
        assert term(leader).maybe_shrink(1000.0) is None

    def test_a_new_leader_gives_everybody_time(self) -> None:
        """Fluss #3698: a leader that starts with caught-up time 0 would drop its whole ISR before the first fetch.

        Simulator bug hasty-shrink.
        """
        leader = Replica(1, lag=LAG)
        states([leader], PartitionState((1, 2, 3), (1, 2, 3), 1), now=500.0)
        leader.produce("m0", 500.0)
        assert term(leader).maybe_shrink(500.1) is None
        assert members(term(leader).maybe_shrink(500.1 + LAG)) == (1,)

    def test_the_leader_itself_never_leaves(self) -> None:
        """Fluss #3927: an ISR without its leader. Simulator bug shrink-without-leader."""
        leader = lead((2, 1, 3), (2, 1, 3), lag=LAG, records=1)
        assert members(term(leader).maybe_shrink(LAG + 1)) == (1,)

    def test_one_change_at_a_time(self) -> None:
        """KIP-497: nothing is proposed while a change is in flight."""
        leader = lead((1, 2), lag=LAG, records=1)
        proposal = proposed(fetch_at(leader, 3, 1))
        assert term(leader).maybe_shrink(LAG + 1) is None
        assert fetch_at(leader, 3, 1).proposal is None
        accept(leader, proposal)
        assert members(term(leader).maybe_shrink(LAG + 1)) == (1, 3)

    def test_a_member_that_is_no_replica_leaves(self) -> None:
        """R8: nobody fetches for a broker that is not assigned."""
        leader = lead((1, 2, 9), (1, 2), lag=LAG)
        assert members(term(leader).maybe_shrink(1.0)) == (1, 2)


class TestExpand:
    def test_at_the_high_watermark(self) -> None:
        """R9: LEO >= the leader's HW is enough, its LEO is not needed."""
        leader = lead((1, 2), records=3)
        fetch_at(leader, 2, 2)
        assert fetch_at(leader, 3, 1).proposal is None
        proposal = proposed(fetch_at(leader, 3, 2))
        assert members(proposal) == (1, 2, 3)
        assert (proposal.leader_epoch, proposal.partition_epoch, proposal.recovery_state) == (0, 0, RECOVERED)

    def test_not_before_the_start_of_the_leaders_epoch(self) -> None:
        """KAFKA-7128: below it there may be records that an older leader showed and the new HW does not cover yet.

        Simulator bug join-at-hw.
        """
        leader = Replica(1)
        states([leader], PartitionState((1, 2, 3), (1,), 1))
        leader.produce("m0")
        leader.produce("m1")
        leader.restart(high_watermark=0)
        states([leader], PartitionState((1, 2, 3), (1, 2), 1, leader_epoch=1, partition_epoch=1))
        assert leader.hw == 0
        assert fetch_at(leader, 3, 1).proposal is None
        assert fetch_at(leader, 3, 2).proposal is not None

    def test_not_a_fenced_or_stopping_broker(self) -> None:
        """KIP-841: it would be elected and could not lead. Simulator bug accept-fenced."""
        leader = lead((1, 2))
        leader.peers.fenced.add(3)
        assert fetch_at(leader, 3, 0).proposal is None
        leader.peers.fenced.clear()
        assert fetch_at(leader, 3, 0).proposal is not None

    def test_not_by_the_fetch_of_an_earlier_incarnation(self) -> None:
        """KIP-903: the rebooted broker may have lost what the old one had. Simulator bug accept-rebooted."""
        leader = lead((1, 2), records=1)
        leader.peers.epochs[3] = 8
        late = fetch_at(leader, 3, 1, broker_epoch=7)
        assert late.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert term(leader).remotes[3].leo == -1, "and nothing is learnt from it"
        assert fetch_at(leader, 3, 1, broker_epoch=9).proposal is None, "nor one that this broker has not heard of yet"
        proposal = proposed(fetch_at(leader, 3, 1, broker_epoch=8))
        assert dict(proposal.isr)[3] == 8

    def test_below_the_minimum_only_when_caught_up(self) -> None:
        """KAFKA-19996: the HW stands still there, so passing it says little; the replica would join and be thrown out."""
        leader = lead((1,), (1, 2, 3), min_isr=2, lag=LAG, records=5)
        assert fetch_at(leader, 2, 3, now=20.0).proposal is None
        assert fetch_at(leader, 2, 5, now=21.0).proposal is not None

    def test_who_joins_is_not_thrown_out_at_once(self) -> None:
        """KAFKA-19996, its relative above the minimum: joined at the HW, it may never have been at the leader's busy end."""
        leader = lead((1, 2), (1, 2, 3), lag=LAG, records=4)
        fetch_at(leader, 2, 4, now=100.0)
        produce(leader, 2, now=100.0)
        proposal = proposed(fetch_at(leader, 3, 4, now=100.0))
        accept(leader, proposal, now=100.0)
        fetch_at(leader, 2, 6, now=101.0)
        assert term(leader).maybe_shrink(101.0) is None

    def test_not_with_records_that_may_be_another_leaders(self) -> None:
        """All that it has lies before the leader's start, and is dropped with the answer: until then it would show what was never
        committed, if it led (simulated schedule 73000330)."""
        leader = lead((1, 2), records=3)
        fetch_at(leader, 2, 3)
        leader.partition.log.increment_log_start_offset(3)
        assert fetch_at(leader, 3, 3, last_epoch=0, log_start=1).proposal is None
        assert term(leader).remotes[3].leo == -1, "and it counts for nothing"
        assert members(fetch_at(leader, 3, 3, log_start=3).proposal) == (1, 2, 3)
        assert fetch_at(leader, 2, 3, now=7.0, last_epoch=0, log_start=1).error is ErrorCode.NONE
        assert term(leader).remotes[2].last_caught_up == 7.0, "of a member it says nothing that was not known"

    def test_a_member_is_not_proposed_again(self) -> None:
        """R9: a fetch of a member changes nothing about the ISR."""
        leader = lead()
        assert fetch_at(leader, 2, 0).proposal is None
        assert term(leader).maybe_expand(2, term(leader).remotes[2], 0.0) is None


class TestAnswers:
    """The table of KIP-497: what the leader does with the controller's answer."""

    def test_success_is_committed_and_may_move_the_high_watermark(self) -> None:
        """KIP-497: success at a later or the same partition epoch."""
        leader = lead((1, 2), (1, 2), records=2, recovery_state=RECOVERING)
        proposal = term(leader).maybe_shrink(11.0)
        assert proposal is not None
        answer = AlterPartitionAnswer(ErrorCode.NONE, 0, 1, (1,))
        assert term(leader).answered(proposal, answer, 11.0) is AfterAnswer.DONE
        assert (term(leader).isr.committed, term(leader).isr.pending, term(leader).partition_epoch) == ((1,), None, 1)
        assert term(leader).recovery_state == RECOVERED
        assert leader.hw == 2

    def test_success_without_a_change_is_a_success(self) -> None:
        """KIP-497: the no-op answer carries the partition epoch that the leader has."""
        leader, proposal = lead((1, 2)), None
        proposal = proposed(fetch_at(leader, 3, 0))
        answer = AlterPartitionAnswer(ErrorCode.NONE, 0, 0, (1, 2))
        assert term(leader).answered(proposal, answer, 0.0) is AfterAnswer.DONE
        assert (term(leader).isr.committed, term(leader).isr.pending) == ((1, 2), None)

    @pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 8), (6, 8), (5, 6)])
    def test_success_of_another_term_or_an_older_state_is_ignored(
        self, leader_epoch: int, partition_epoch: int
    ) -> None:
        """KIP-497: the change stays pending until metadata says what is true."""
        leader = Replica(1)
        states([leader], PartitionState((1, 2, 3), (1, 2), 1, leader_epoch=5, partition_epoch=7))
        proposal = proposed(fetch_at(leader, 3, 0))
        answer = AlterPartitionAnswer(ErrorCode.NONE, leader_epoch, partition_epoch, (1, 2, 3))
        assert term(leader).answered(proposal, answer, 0.0) is AfterAnswer.DONE
        assert term(leader).isr.pending is proposal
        assert term(leader).isr.maximal == {1, 2, 3}

    @pytest.mark.parametrize("error", sorted(REFUSED_NOT_APPLIED))
    def test_known_not_to_be_applied_falls_back(self, error: ErrorCode) -> None:
        """KIP-497, KIP-903: OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA: the committed ISR is in force again."""
        leader = lead((1, 2), records=2)
        fetch_at(leader, 2, 1)
        proposal = proposed(fetch_at(leader, 3, 1))
        fetch_at(leader, 2, 2, now=20.0)
        assert leader.hw == 1
        assert term(leader).answered(proposal, AlterPartitionAnswer(error), 20.0) is AfterAnswer.DONE
        assert (term(leader).isr.maximal, term(leader).isr.pending) == (frozenset({1, 2}), None)
        assert leader.hw == 2, "and the HW no longer waits for the one that did not join"

    @pytest.mark.parametrize("error", sorted(STALE_LEADER))
    def test_an_old_view_stays_pending(self, error: ErrorCode) -> None:
        """KIP-497: the maximal ISR stays in force until metadata overrides it."""
        leader = lead((1, 2))
        proposal = proposed(fetch_at(leader, 3, 0))
        assert term(leader).answered(proposal, AlterPartitionAnswer(error), 0.0) is AfterAnswer.DONE
        assert (term(leader).isr.pending, term(leader).isr.maximal) == (proposal, frozenset({1, 2, 3}))
        states([leader], PartitionState((1, 2, 3), (1, 2), 1, partition_epoch=1))
        assert (term(leader).isr.pending, term(leader).isr.maximal) == (None, frozenset({1, 2}))

    @pytest.mark.parametrize(
        "error",
        [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH,
         ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NETWORK_EXCEPTION,
         # of a controller that was paused, and knows less than the leader: no metadata would come
         ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    )  # fmt: skip
    def test_an_unknown_outcome_is_asked_again(self, error: ErrorCode) -> None:
        """KAFKA-12684: falling back here loses records, for the change may have been applied.

        Simulator bug fall-back-on-unknown.
        """
        leader = lead((1, 2))
        proposal = proposed(fetch_at(leader, 3, 0))
        assert term(leader).answered(proposal, AlterPartitionAnswer(error), 0.0) is AfterAnswer.RETRY
        assert (term(leader).isr.pending, term(leader).isr.maximal) == (proposal, frozenset({1, 2, 3}))

    def test_a_refusal_does_not_end_an_attempt_without_an_answer(self) -> None:
        """Found by simulation (seed 7006273): refused while the replica was fenced, an earlier attempt was carried out once it
        was not any more, and the leader did not wait for it. It asks for what is committed, for the next partition epoch."""
        leader = lead((1, 2), records=2)
        fetch_at(leader, 2, 1)
        proposal = proposed(fetch_at(leader, 3, 1))
        fetch_at(leader, 2, 2, now=20.0)
        unknown, refused = (
            AlterPartitionAnswer(e) for e in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INELIGIBLE_REPLICA)
        )
        assert term(leader).answered(proposal, unknown, 20.0) is AfterAnswer.RETRY
        assert term(leader).answered(proposal, refused, 20.0) is AfterAnswer.REPLACED
        same = term(leader).isr.pending
        assert same is not None and same.isr == ((1, -1), (2, -1)) and same.partition_epoch == 0
        assert (term(leader).isr.maximal, leader.hw) == (frozenset({1, 2, 3}), 1)
        assert term(leader).answered(same, refused, 20.0) is AfterAnswer.RETRY, "not at once, again and again"
        assert term(leader).isr.pending is same
        assert term(leader).answered(same, AlterPartitionAnswer(ErrorCode.NONE, 0, 1, (1, 2)), 20.0) is AfterAnswer.DONE
        assert (term(leader).isr.maximal, term(leader).partition_epoch, leader.hw) == (frozenset({1, 2}), 1, 2)

    def test_the_next_proposal_is_not_held_for_what_the_last_one_was(self) -> None:
        leader = lead((1, 2))
        first = proposed(fetch_at(leader, 3, 0))
        assert term(leader).answered(first, AlterPartitionAnswer(ErrorCode.NOT_CONTROLLER), 0.0) is AfterAnswer.RETRY
        done = AlterPartitionAnswer(ErrorCode.NONE, 0, 1, (1, 2))
        assert term(leader).answered(first, done, 0.0) is AfterAnswer.DONE
        second = proposed(fetch_at(leader, 3, 0))
        assert (
            term(leader).answered(second, AlterPartitionAnswer(ErrorCode.INELIGIBLE_REPLICA), 0.0) is AfterAnswer.DONE
        )

    def test_a_replica_that_would_leave_counts_already(self) -> None:
        leader = lead((1, 2))
        shrink = term(leader).maybe_shrink(100.0)
        assert shrink is not None and [member for member, _ in shrink.isr] == [1]
        unknown, refused = (
            AlterPartitionAnswer(e) for e in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INELIGIBLE_REPLICA)
        )
        assert term(leader).answered(shrink, unknown, 100.0) is AfterAnswer.RETRY
        assert term(leader).answered(shrink, refused, 100.0) is AfterAnswer.DONE
        assert term(leader).isr.maximal == frozenset({1, 2})

    def test_an_answer_to_a_forgotten_proposal_is_ignored(self) -> None:
        """KIP-497: metadata was quicker, and the answer is not about what is pending now."""
        leader = lead((1, 2))
        proposal = proposed(fetch_at(leader, 3, 0))
        states([leader], PartitionState((1, 2, 3), (1, 2, 3), 1, partition_epoch=1))
        answer = AlterPartitionAnswer(ErrorCode.NONE, 0, 1, (1,))
        assert term(leader).answered(proposal, answer, 0.0) is AfterAnswer.DONE
        assert term(leader).isr.committed == (1, 2, 3)


class TestMetadataWithinATerm:
    def test_a_later_partition_epoch_overrides_what_is_pending(self) -> None:
        """KIP-497: the controller's word, whatever was asked for."""
        leader = lead((1, 2))
        proposed(fetch_at(leader, 3, 0))
        states([leader], PartitionState((1, 2, 3), (1,), 1, partition_epoch=1))
        assert (term(leader).isr.committed, term(leader).isr.pending) == ((1,), None)

    def test_the_same_partition_epoch_leaves_it_pending(self) -> None:
        """KIP-497: metadata that repeats what was known says nothing about the change in flight."""
        leader = lead((1, 2))
        proposal = proposed(fetch_at(leader, 3, 0))
        states([leader], PartitionState((1, 2, 3), (1, 2), 1))
        assert (term(leader).isr.pending, term(leader).isr.maximal) == (proposal, frozenset({1, 2, 3}))

    def test_metadata_older_than_an_answer_does_not_take_the_isr_back(self) -> None:
        """KIP-497: the answer to an AlterPartition may come before the metadata, and older metadata after the answer.

        A topic's record holds all its partitions, so a change of another one shows this one as it was.
        """
        leader = lead((1, 2), records=2)
        fetch_at(leader, 2, 1)
        accept(leader, proposed(fetch_at(leader, 3, 1)))
        assert term(leader).isr.committed == (1, 2, 3)
        states([leader], PartitionState((1, 2, 3), (1, 2), 1))
        assert (term(leader).isr.committed, term(leader).partition_epoch) == ((1, 2, 3), 1)
        fetch_at(leader, 2, 2, now=60.0)
        assert leader.hw == 1, "the controller may elect 3, which has one record"
        states([leader], PartitionState((1, 2, 3), (1, 2, 3), 1, partition_epoch=1))
        assert term(leader).isr.committed == (1, 2, 3)

    def test_replicas_come_and_go(self) -> None:
        """KIP-455: an arriving replica starts unknown, one that left is forgotten and holds nothing back."""
        leader = lead((1, 2), (1, 2), records=1)
        states([leader], PartitionState((1, 3, 2), (1, 2), 1, partition_epoch=1, adding=(3,), removing=(2,)))
        assert sorted(term(leader).remotes) == [2, 3]
        proposal = proposed(fetch_at(leader, 3, 1, now=1.0))
        assert members(proposal) == (1, 2, 3)
        states([leader], PartitionState((1, 3), (1, 3), 1, partition_epoch=2), now=2.0)
        assert sorted(term(leader).remotes) == [3]
        assert leader.hw == 1

    def test_a_new_member_gets_time_too(self) -> None:
        """Fluss #3698: a replica that metadata puts in the ISR was in sync a moment ago."""
        leader = lead((1,), (1,))
        states([leader], PartitionState((1, 2), (1, 2), 1, partition_epoch=1), now=100.0)
        leader.produce("m0", 100.0)
        assert term(leader).maybe_shrink(101.0) is None

    def test_the_same_leader_again_keeps_what_it_knows(self) -> None:
        """R5: a new term of the same leader; positions of its followers are still facts, and only members get time."""
        leader = lead((1, 2), (1, 2, 3), lag=LAG, records=2)
        fetch_at(leader, 2, 2, now=0.0)
        fetch_at(leader, 3, 1, now=0.0)
        before = PartitionState((1, 2, 3), (1, 2), 1)
        states([leader], replace(before, leader_epoch=1, partition_epoch=1), now=50.0)
        assert {r: s.leo for r, s in term(leader).remotes.items()} == {2: 2, 3: 1}
        assert term(leader).remotes[2].last_caught_up == 50.0
        assert term(leader).remotes[3].last_caught_up == float("-inf")

    def test_a_leader_that_missed_a_term_forgets(self) -> None:
        """R5, R12: another may have led in between, and its followers may have truncated for that one. Simulator bug
        trust-old-positions.
        """
        leader = lead((1, 2), (1, 2), records=2)
        fetch_at(leader, 2, 2)
        states([leader], PartitionState((1, 2), (1, 2), 1, leader_epoch=2, partition_epoch=2))
        assert term(leader).remotes[2].leo == -1
