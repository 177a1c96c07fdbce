"""What a follower does with an answer, and where it truncates."""

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record, build_batch
from minikafka.replication.follower import FetchOutcome, FollowerState, Truncation
from minikafka.replication.partition import TruncationMode

from .cluster import NOW_MS, Exchange, Replica, batch, catch_up, fetch, states

NOTHING = memoryview(b"")


def following(replica: Replica) -> FollowerState:
    follower = replica.partition.follower
    assert follower is not None
    return follower


def pair(records: int = 0, *, mode: TruncationMode = TruncationMode.LEADER_EPOCH) -> tuple[Replica, Replica]:
    """Leader 1 with ``records`` records in epoch 0, and its follower 2, which has none yet."""
    leader, follower = Replica(1, mode), Replica(2, mode)
    states([leader, follower], PartitionState((1, 2), (1, 2), 1))
    for number in range(records):
        leader.produce(f"m{number}")
    return leader, follower


def led(replica: Replica, *terms: tuple[int, int], hw: int = 0) -> Replica:
    """``replica`` led in these (epoch, records) terms, and follows broker 9 now."""
    for epoch, records in terms:
        states([replica], PartitionState((1, 9, 2), (1, 9), replica.broker_id, epoch, epoch))
        for number in range(records):
            replica.produce(f"e{epoch}-{number}")
    replica.partition.set_high_watermark(hw)
    states([replica], PartitionState((1, 9, 2), (9,), 9, 100, 100))
    return replica


class TestTruncationTable:
    """Kafka's getOffsetTruncationState, row by row: the leader said that epoch E ends at ``end`` in its log."""

    def follower(self) -> FollowerState:
        """Epochs (2, 0), (4, 3), (6, 5); LEO 8; HW 1."""
        return following(led(Replica(1), (2, 3), (4, 2), (6, 3), hw=1))

    @pytest.mark.parametrize(
        ("epoch", "end", "expected"),
        [
            pytest.param(4, -1, Truncation(1, True), id="end undefined: the high watermark"),
            pytest.param(-1, 5, Truncation(5, True), id="epoch undefined: the leader's end"),
            pytest.param(-1, 50, Truncation(8, True), id="epoch undefined: but not beyond the own end"),
            pytest.param(5, 4, Truncation(5, False), id="epoch unknown here: the end of the one below, and ask again"),
            pytest.param(3, 2, Truncation(3, False), id="epoch unknown here, an older one: the same"),
            pytest.param(4, 4, Truncation(4, True), id="same epoch, leader has less of it: the leader's end"),
            pytest.param(4, 7, Truncation(5, True), id="same epoch, own has less of it: the own end"),
            pytest.param(6, 50, Truncation(8, True), id="same epoch, the last: never beyond the own end"),
            pytest.param(7, 4, Truncation(4, True), id="an epoch above all of its own: the leader's end"),
            pytest.param(7, 50, Truncation(8, True), id="an epoch above all of its own: but not beyond the own end"),
            pytest.param(1, 0, Truncation(0, True), id="an epoch before its first: where that begins"),
        ],
    )
    def test_row(self, epoch: int, end: int, expected: Truncation) -> None:
        """R13, KIP-101, KIP-279."""
        assert self.follower().truncation_point(epoch, end) == expected

    def test_no_epoch_at_all(self) -> None:
        """R13: no local epoch at or below E: the leader's end, but not beyond the own."""
        follower = following(led(Replica(1)))
        assert follower.truncation_point(4, 3) == Truncation(0, True)


class TestTruncation:
    def test_epochs_that_it_led_alone_go(self) -> None:
        """R13, KIP-279: the leader has epochs 0 and 3, the follower led alone in 1 and 2 and asks about 2. The answer names
        the last epoch that the leader knows below it.
        """
        leader, follower = Replica(1), Replica(2)
        common = PartitionState((1, 2), (1, 2), 1)
        states([leader, follower], common)
        leader.produce("m0")
        catch_up(follower, leader)
        for epoch in (1, 2):
            states([follower], PartitionState((1, 2), (2,), 2, epoch, epoch))
            follower.produce(f"wrong-{epoch}")
        states([leader, follower], PartitionState((1, 2), (1,), 1, 3, 3))
        leader.produce("m1")
        outcomes = [fetch(follower, leader) for _ in range(4)]
        assert outcomes[0] is FetchOutcome.TRUNCATED
        assert follower.values() == leader.values() == ["m0", "m1"]
        assert follower.partition.log.epochs.entries == [(0, 0), (3, 1)]

    def test_a_leader_with_a_gap_in_epochs_is_asked_twice(self) -> None:
        """R13, KIP-279: the leader knows 0 and 2, the follower 0 and 1: cut to the own end of 0, then ask with epoch 0.
        Simulator bug one-shot-truncation.
        """
        leader, follower = Replica(1), Replica(2)
        states([leader, follower], PartitionState((1, 2), (1, 2), 1))
        for number in range(2):
            leader.produce(f"m{number}")
        fetch(follower, leader)
        leader.produce("m2")  # of epoch 0, on the leader only
        states([follower], PartitionState((1, 2), (2,), 2, 1, 1))
        follower.produce("wrong")
        states([leader, follower], PartitionState((1, 2), (1,), 1, 2, 2))
        leader.produce("m3")
        assert fetch(follower, leader) is FetchOutcome.TRUNCATED
        assert (follower.leo, following(follower).last_fetched_epoch()) == (2, 0)
        catch_up(follower, leader)
        assert follower.values() == ["m0", "m1", "m2", "m3"]

    def test_neither_high_watermark_nor_records_of_a_diverging_answer_are_taken(self) -> None:
        """KAFKA-14704: the HW of such an answer may be above the truncated end, over records that are not the leader's.

        Simulator bug hw-on-divergence.
        """
        follower = led(Replica(1), (0, 3), hw=0)
        state = following(follower)
        asked = state.position()
        outcome = state.answered(asked, ErrorCode.NONE, (0, 1), 3, 0, batch("not for us"))
        assert outcome is FetchOutcome.TRUNCATED
        assert (follower.leo, follower.hw) == (1, 0)
        assert state.truncations == [(3, 1, 2, "log diverges from leader 9 after epoch 0")]

    def test_what_the_leader_cannot_compare_goes_with_the_cut(self) -> None:
        """The leader has deleted all before 5; records 3 and 4 are of a term of this replica's own.

        Kept until the next answer tells the leader's start, they would be there when that fetch brings it into the ISR.
        """
        leader, follower = pair(3)
        catch_up(follower, leader)
        states([follower], PartitionState((1, 2), (2,), 2, 3, 3))
        for number in range(4):
            follower.produce(f"alone-{number}")
        states([leader, follower], PartitionState((1, 2), (1,), 1, 4, 4))
        leader.produce("m3")
        leader.produce("m4")
        leader.partition.set_high_watermark(5)
        leader.partition.log.increment_log_start_offset(5)
        assert fetch(follower, leader) is FetchOutcome.TRUNCATED
        log = follower.partition.log
        assert (log.log_start_offset, follower.hw, follower.leo, follower.values()) == (5, 5, 5, [])
        leader.produce("m5")
        catch_up(follower, leader)
        assert follower.values() == leader.values() == ["m5"]

    def test_nothing_is_known_of_producers_when_all_that_is_here_was_deleted_at_the_leader(self) -> None:
        """A batch that was never committed counted as known, was acknowledged when it came again, and was nowhere: the leader has
        deleted what it had there instead, and no longer knows where its own epoch began (found by simulation)."""
        leader, follower = pair(3)
        catch_up(follower, leader)
        states([follower], PartitionState((1, 2), (2,), 2, 1, 1))
        assert follower.partition.leader is not None
        follower.partition.leader.append(batch("lost", producer=(7, 0, 0)), NOW_MS, 0.0)
        states([leader, follower], PartitionState((1, 2), (1,), 1, 2, 2))
        leader.produce("m3")
        leader.partition.set_high_watermark(4)
        leader.partition.log.increment_log_start_offset(4)
        catch_up(follower, leader)
        leader.produce("m4")
        catch_up(follower, leader)
        assert (len(follower.partition.log.producers), follower.values()) == (0, ["m4"])
        states([follower], PartitionState((1, 2), (2,), 2, 3, 3))
        assert follower.partition.leader is not None
        again = follower.partition.leader.append(batch("lost", producer=(7, 0, 0)), NOW_MS, 0.0)
        assert (again.first_offset, follower.values()) == (5, ["m4", "lost"])

    def test_nor_when_what_is_left_of_a_cut_was_deleted_there(self) -> None:
        """The leader said where the logs part as well as it knows: at its own start."""
        leader, follower = pair(1)
        catch_up(follower, leader)
        states([leader], PartitionState((1, 2), (1,), 1, 1, 1))
        leader.produce("m1")  # of a producer, say
        states([follower], PartitionState((1, 2), (2,), 2, 2, 2))
        assert follower.partition.leader is not None
        for sequence in (0, 1):
            follower.partition.leader.append(batch("alone", producer=(7, 0, sequence)), NOW_MS, 0.0)
        states([leader, follower], PartitionState((1, 2), (1,), 1, 3, 3))
        leader.produce("m2")
        leader.partition.set_high_watermark(3)
        leader.partition.log.increment_log_start_offset(2)
        catch_up(follower, leader)
        assert (len(follower.partition.log.producers), follower.values()) == (0, ["m2"])

    def test_a_follower_that_has_followed_knows_producers_of_what_is_deleted(self) -> None:
        """Else a batch that is sent again after retention would be there twice."""
        leader, follower = pair(1)
        assert leader.partition.leader is not None
        leader.partition.leader.append(batch("p", producer=(7, 0, 0)), NOW_MS, 0.0)
        catch_up(follower, leader)
        leader.partition.log.increment_log_start_offset(2)
        catch_up(follower, leader)
        leader.produce("m2")
        catch_up(follower, leader)
        assert (len(follower.partition.log.producers), follower.values()) == (1, ["m2"])

    def test_the_high_watermark_falls_with_the_log(self) -> None:
        """R3: HW <= LEO always, also when a truncation goes below it (unclean election)."""
        follower = led(Replica(1), (0, 3), hw=3)
        following(follower).answered(following(follower).position(), ErrorCode.NONE, (0, 1), 3, 0, NOTHING)
        assert (follower.leo, follower.hw) == (1, 1)

    def test_an_epoch_without_a_record_goes_too(self) -> None:
        """KIP-279: a leader that wrote nothing has an epoch entry at its end; nothing to cut, but to forget."""
        follower = led(Replica(1), (0, 1), (1, 0))
        assert follower.partition.log.epochs.latest == 1
        state = following(follower)
        state.answered(state.position(), ErrorCode.NONE, (0, 1), 1, 0, NOTHING)
        assert follower.partition.log.epochs.entries == [(0, 0)]
        assert state.truncations == []

    def test_becoming_a_follower_truncates_nothing_by_itself(self) -> None:
        """R13, KIP-101: it does not truncate by its HW; the leader's answer says where. Simulator bug truncate-to-hw."""
        follower = led(Replica(1), (0, 3), hw=1)
        assert follower.leo == 3
        assert following(follower).position() == (100, 3, 0, 0)

    def test_a_replica_that_becomes_leader_never_truncates(self) -> None:
        """R13: what it has is the log from now on."""
        replica = led(Replica(1), (0, 3), hw=1)
        states([replica], PartitionState((1, 9, 2), (1,), 1, 101, 101))
        assert replica.leo == 3

    def test_the_old_way_truncates_to_the_high_watermark(self) -> None:
        """KIP-101: what Kafka did before it, kept for stories A and B; without epochs in the fetch nothing is detected."""
        replica = led(Replica(1, TruncationMode.HIGH_WATERMARK), (0, 3), hw=1)
        assert replica.leo == 1
        assert following(replica).position().last_fetched_epoch == -1
        assert [t[:3] for t in following(replica).truncations] == [(3, 1, 2)]

    def test_a_log_without_epochs_can_only_go_by_the_high_watermark(self) -> None:
        """KIP-101: a log from before epochs has nothing to ask the leader about."""
        replica = led(Replica(1), (0, 3), hw=1)
        replica.partition.log.epochs.clear()
        states([replica], PartitionState((1, 9, 2), (9,), 9, 101, 101))
        assert replica.leo == 1


class TestAnswers:
    def test_records_then_high_watermark_then_log_start(self) -> None:
        """R6: append, HW = min(LEO, leader's HW), log start = max(own, leader's)."""
        leader, follower = pair(3)
        fetch(follower, leader)
        fetch(follower, leader)
        assert (follower.leo, follower.hw) == (3, 3)
        state = following(follower)
        assert state.answered(state.position(), ErrorCode.NONE, None, 3, 2, NOTHING) is FetchOutcome.EMPTY
        assert follower.partition.log.log_start_offset == 2
        state.answered(state.position(), ErrorCode.NONE, None, 3, 0, NOTHING)
        assert follower.partition.log.log_start_offset == 2

    def test_a_lower_high_watermark_is_taken(self) -> None:
        """R6: a new leader's may lag; the follower's own is not a promise to anybody."""
        leader, follower = pair(2)
        catch_up(follower, leader)
        state = following(follower)
        state.answered(state.position(), ErrorCode.NONE, None, 1, 0, NOTHING)
        assert follower.hw == 1

    def test_an_answer_of_an_earlier_term_is_stale(self) -> None:
        """KIP-320 (Kip320.tla rule 2): the epoch moved between request and answer. Simulator bug stale-fetch-answer."""
        leader, follower = pair(1)
        exchange = Exchange(follower, leader).ask()
        states([follower], PartitionState((1, 2), (1, 2), 1, 1, 1))
        assert exchange.deliver() is FetchOutcome.STALE
        assert follower.leo == 0

    def test_an_answer_to_another_position_is_stale(self) -> None:
        """KIP-320 (Kip320.tla rule 2): the same answer twice, or a truncation in between.

        Simulator bug stale-fetch-answer.
        """
        leader, follower = pair(1)
        exchange = Exchange(follower, leader).ask()
        assert exchange.deliver() is FetchOutcome.APPENDED
        assert exchange.deliver() is FetchOutcome.STALE
        assert follower.values() == ["m0"]
        state = following(follower)
        assert state.leader_offsets(state.position()._replace(offset=0), 0, 0) is FetchOutcome.STALE
        assert follower.leo == 1

    def test_an_answer_to_a_log_that_was_cut_and_has_grown_again_is_stale(self) -> None:
        """Two fetches at one position, both answered with where the logs part; what was appended in between stays."""
        leader, follower = pair(2)
        catch_up(follower, leader)
        state = following(follower)
        before = state.position()
        late = before._replace(last_fetched_epoch=before.last_fetched_epoch - 1)
        assert late.offset == follower.leo == 2
        assert state.answered(late, ErrorCode.NONE, (0, 1), 2, 0, NOTHING) is FetchOutcome.STALE
        assert follower.leo == 2
        assert state.answered(before, ErrorCode.NONE, None, 2, 0, NOTHING) is FetchOutcome.EMPTY

    def test_the_last_epoch_is_remembered_over_an_empty_answer(self) -> None:
        """KAFKA-15510: forgetting it would turn divergence detection off. Simulator bug forget-epoch-on-empty."""
        leader, follower = pair(1)
        catch_up(follower, leader)
        assert fetch(follower, leader) is FetchOutcome.EMPTY
        assert following(follower).position().last_fetched_epoch == 0

    def test_batches_of_a_later_epoch_than_the_fetchs_are_left_out(self) -> None:
        """KAFKA-18723: the leader was re-elected between request and answer; this term cannot vouch for those records.

        Simulator bug append-later-epoch.
        """
        leader, follower = pair(1)
        exchange = Exchange(follower, leader).ask()
        states([leader], PartitionState((1, 2), (1, 2), 1, 1, 1))
        leader.produce("later")
        assert exchange.answer is not None
        records = leader.partition.log.read(0, 1 << 20, 2).read()
        exchange.answer = (*exchange.answer[:4], records)
        assert exchange.deliver() is FetchOutcome.APPENDED
        assert follower.values() == ["m0"]

    def test_fenced_waits_for_metadata(self) -> None:
        """KIP-320: FENCED_LEADER_EPOCH at the epoch it has: asking again would be for nothing."""
        _, follower = pair()
        state = following(follower)
        outcome = state.answered(state.position(), ErrorCode.FENCED_LEADER_EPOCH, None, -1, -1, NOTHING)
        assert (outcome, state.failed) == (FetchOutcome.FAILED, True)
        states([follower], PartitionState((1, 2), (1, 2), 1, 1, 1))
        assert not following(follower).failed

    @pytest.mark.parametrize(
        "error",
        [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
         ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR],
    )  # fmt: skip
    def test_other_errors_back_off(self, error: ErrorCode) -> None:
        """KIP-320: one of the two will hear news soon."""
        _, follower = pair()
        state = following(follower)
        assert state.answered(state.position(), error, None, -1, -1, NOTHING) is FetchOutcome.BACK_OFF
        assert not state.failed


class TestOutOfRange:
    """KAFKA-7414: both ways, and no more is dropped than must be."""

    def test_the_leader_ends_before_this_log(self) -> None:
        """KAFKA-7414: cut to its end (unclean election)."""
        follower = led(Replica(1), (0, 3), hw=3)
        state = following(follower)
        assert state.answered(state.position(), ErrorCode.OFFSET_OUT_OF_RANGE, None, -1, -1, NOTHING) is (
            FetchOutcome.OUT_OF_RANGE
        )
        assert state.leader_offsets(state.position(), earliest=0, latest=1) is FetchOutcome.TRUNCATED
        assert (follower.leo, follower.hw) == (1, 1)

    def test_the_leader_starts_after_this_log(self) -> None:
        """KAFKA-7414: nothing of it is of use; begin at the leader's start."""
        follower = led(Replica(1), (0, 3), hw=2)
        state = following(follower)
        assert state.leader_offsets(state.position(), earliest=10, latest=20) is FetchOutcome.TRUNCATED
        log = follower.partition.log
        assert (log.log_start_offset, follower.leo, follower.hw) == (10, 10, 10)
        assert state.truncations == [(3, 10, 3, "leader's log starts later")]

    def test_within_the_leaders_range_everything_is_kept(self) -> None:
        """KAFKA-2143, KAFKA-7414: an error that is over by now; only what the leader has deleted goes.

        Simulator bug out-of-range-drops-all.
        """
        follower = led(Replica(1), (0, 3), hw=3)
        state = following(follower)
        assert state.leader_offsets(state.position(), earliest=0, latest=5) is FetchOutcome.EMPTY
        assert (follower.partition.log.log_start_offset, follower.leo) == (0, 3)
        assert state.leader_offsets(state.position(), earliest=2, latest=5) is FetchOutcome.EMPTY
        assert (follower.partition.log.log_start_offset, follower.leo) == (2, 3)

    def test_the_leader_ends_before_this_log_starts(self) -> None:
        """KAFKA-7414: after an unclean election the leader may have a shorter log that was never cut at its start."""
        follower = led(Replica(1), (0, 3), hw=3)
        follower.partition.log.increment_log_start_offset(2)
        state = following(follower)
        assert state.leader_offsets(state.position(), earliest=0, latest=1) is FetchOutcome.TRUNCATED
        log = follower.partition.log
        assert (log.log_start_offset, follower.leo, follower.hw) == (0, 0, 0)  # not 1: it lacks the leader's record 0

    @pytest.mark.parametrize("at_first", [True, False])
    def test_the_leader_starts_inside_a_batch_at_which_this_log_ends(self, at_first: bool) -> None:
        """DeleteRecords may move it there, in mid-term, too. Such a follower could not go on (found by simulation)."""
        follower = led(Replica(1), (0, 3), hw=1)
        state = following(follower)
        if not at_first:
            assert state.answered(state.position(), ErrorCode.NONE, None, 1, 0, NOTHING) is FetchOutcome.EMPTY
        rows = [Record(offset, NOW_MS, None, b"x") for offset in (1, 2, 3)]
        records = build_batch(rows, leader_epoch=4)  # the leader's start is 3, in the middle of it
        answer = (ErrorCode.NONE, None, 4, 3, memoryview(records))
        assert state.answered(state.position(), *answer) is FetchOutcome.APPENDED
        log = follower.partition.log
        assert (log.log_start_offset, follower.leo, follower.hw) == (3, 4, 4)


def test_followers_keep_the_state_of_producers() -> None:
    """R18, redpanda #3039: it is rebuilt by replaying the log, so a new leader still finds duplicates.

    Simulator bug dedupe-on-leader-only.
    """
    leader, follower = pair()
    state = leader.partition.leader
    assert state is not None
    state.append(batch("m0", producer=(7, 0, 0)), NOW_MS, 0.0)
    catch_up(follower, leader)
    states([leader, follower], PartitionState((1, 2), (2,), 2, 1, 1))
    promoted = follower.partition.leader
    assert promoted is not None
    again = promoted.append(batch("m0", producer=(7, 0, 0)), NOW_MS, 0.0)
    assert (again.duplicate, again.first_offset, follower.leo) == (True, 0, 1)


class TestNothingIsLeft:
    """Audit t4: a log of which nothing is the leader's begins at the leader's start, so that it has no hole before it."""

    def test_an_empty_replica_that_starts_beyond_the_leader_s_end(self) -> None:
        one, two = Replica(1), Replica(2)
        two.partition.log.truncate_fully_and_start_at(60)
        two.partition.set_high_watermark(60)
        states([one, two], PartitionState((1, 2), (1,), 1))
        for number in range(5):
            one.produce(f"m{number}")
        catch_up(two, one)
        assert one.partition.leader is not None and one.partition.leader.isr.pending is not None
        assert (two.partition.log.log_start_offset, two.values()) == (0, one.values())

    @pytest.mark.parametrize(("deleted", "kept"), [(6, 0), (5, 5)])
    def test_a_divergence_at_the_own_start_or_below(self, deleted: int, kept: int) -> None:
        """Records 5 to 7 of epoch 3 are nobody else's; those before ``deleted`` were deleted here, and not at the leader.

        What begins anew has all that the leader has; what is cut never ends below what it deleted.
        """
        leader, follower = pair(5)
        catch_up(follower, leader)
        states([follower], PartitionState((1, 2), (2,), 2, 3, 3))
        for number in range(3):
            follower.produce(f"alone-{number}")
        follower.partition.log.increment_log_start_offset(deleted)
        states([leader, follower], PartitionState((1, 2), (1,), 1, 4, 4))
        leader.produce("m5")
        catch_up(follower, leader)
        assert leader.values() == [f"m{number}" for number in range(6)]
        assert follower.values() == leader.values()[kept:]
