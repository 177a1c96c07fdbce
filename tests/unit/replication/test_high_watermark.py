"""When the high watermark moves, and when it must not."""

from dataclasses import replace

from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode

from .cluster import Replica, states
from .leading import accept, fetch_at, lead, members, produce, proposed, term


def test_it_is_the_smallest_end_offset_of_the_isr() -> None:
    """R4, R5: HW = max(HW, min(LEO of every ISR member)); a fetch offset is the follower's LEO."""
    leader = lead(records=3)
    fetch_at(leader, 2, 3)
    assert leader.hw == 0
    fetch_at(leader, 3, 1)
    assert leader.hw == 1
    fetch_at(leader, 3, 3)
    assert leader.hw == 3


def test_it_never_goes_back_on_a_leader() -> None:
    """R3, R4: a follower that comes back with less does not take back what was committed."""
    leader = lead((1, 2), (1, 2), records=2)
    fetch_at(leader, 2, 2)
    assert leader.hw == 2
    fetch_at(leader, 2, 1)
    assert leader.hw == 2


def test_it_does_not_count_on_what_a_follower_had_once() -> None:
    """R5: a follower that comes back with less has less, whatever it had; its next fetch says so."""
    leader = lead((1, 2, 3), (1, 2, 3), records=5)
    fetch_at(leader, 2, 5)
    fetch_at(leader, 3, 2)
    assert leader.hw == 2
    fetch_at(leader, 2, 3)
    fetch_at(leader, 3, 5)
    assert leader.hw == 3, "3 and 4 are on this broker and on 3 only"


def test_a_leader_alone_commits_by_itself() -> None:
    """R4: with an ISR of one, every append moves the HW."""
    assert lead((1,), (1,), records=2).hw == 2
    assert lead((1,), (1, 2, 3), records=2).hw == 2


def test_a_member_that_has_not_fetched_in_this_term_holds_it() -> None:
    """R5: the end offset of a member is unknown until it fetches, and unknown is not "as far as I am"."""
    leader = lead((1, 2), (1, 2), records=1)
    assert term(leader).remotes[2].leo == -1
    assert leader.hw == 0


def test_below_the_minimum_isr_it_stands_still() -> None:
    """KAFKA-15583, KIP-966: else acks=all would mean one copy, and an eligible leader replica would miss committed records.

    Simulator bug hw-under-min-isr.
    """
    leader = lead((1,), (1, 2, 3), min_isr=2, records=2)
    assert leader.hw == 0
    proposal = proposed(fetch_at(leader, 2, 2))
    assert leader.hw == 0, "a member that is only proposed does not count for the minimum"
    accept(leader, proposal)
    assert leader.hw == 2


def test_the_minimum_isr_is_never_more_than_the_replicas() -> None:
    """KIP-966: min(min.insync.replicas, replication factor)."""
    assert lead((1,), (1,), min_isr=2, records=1).hw == 1
    assert term(lead(min_isr=5)).effective_min_isr() == 3


def test_a_member_that_is_about_to_join_already_holds_it() -> None:
    """KIP-497: the maximal ISR counts, for the controller may have written the change already.

    Simulator bug committed-isr-for-hw.
    """
    leader = lead((1, 2), (1, 2, 3), records=2)
    fetch_at(leader, 2, 1)
    assert leader.hw == 1
    proposal = proposed(fetch_at(leader, 3, 1))
    assert members(proposal) == (1, 2, 3)
    fetch_at(leader, 2, 2, now=60.0)
    assert leader.hw == 1, "3 may be in the ISR by now, however long ago it last caught up"
    accept(leader, proposal)
    fetch_at(leader, 3, 2)
    assert leader.hw == 2


def test_a_member_that_is_about_to_leave_still_holds_it() -> None:
    """KIP-497: until the controller has written the shrink, the leaver could be elected."""
    leader = lead((1, 2), (1, 2), records=1)
    proposal = term(leader).maybe_shrink(11.0)
    assert proposal is not None and members(proposal) == (1,)
    produce(leader, 1, now=11.0)
    term(leader).maybe_advance_high_watermark(11.0)
    assert leader.hw == 0
    accept(leader, proposal, now=11.0)
    assert leader.hw == 2, "an ISR change may move the HW (R9)"


def test_a_caught_up_outsider_counts() -> None:
    """KIP-497: the leader waits for a replica that keeps up, or it could never reach the HW to join."""
    leader = lead((1, 2), (1, 2, 3), records=1)
    leader.peers.fenced.add(3)  # it may not join for now
    fetch_at(leader, 3, 1, now=1.0)
    leader.peers.fenced.clear()
    produce(leader, 1, now=1.0)
    fetch_at(leader, 2, 2, now=1.0)
    assert leader.hw == 1, "3 was at the end a moment ago"
    term(leader).maybe_advance_high_watermark(12.0)
    assert leader.hw == 2, "but nobody waits for it for longer than replica.lag.time.max.ms"


def test_an_outsider_that_may_not_join_does_not_count() -> None:
    """KIP-841: a fenced replica never joins, so waiting for it would be for nothing."""
    leader = lead((1, 2), (1, 2, 3), records=1)
    leader.peers.fenced.add(3)
    fetch_at(leader, 3, 1, now=0.0)
    produce(leader, 1)
    fetch_at(leader, 2, 2)
    assert leader.hw == 2


def test_a_follower_takes_the_leaders_but_not_beyond_its_own_end() -> None:
    """R3, R6: HW = min(LEO, leader HW)."""
    leader, follower = Replica(1), Replica(2)
    states([leader, follower], PartitionState((1, 2), (1, 2), 1))
    follower.partition.set_high_watermark(7)
    assert follower.hw == 0
    leader.produce("m0")
    state = follower.partition.follower
    assert state is not None
    state.take_high_watermark(1)
    assert follower.hw == 0


def test_a_new_leader_does_not_show_an_end_that_goes_backwards() -> None:
    """OFFSET_NOT_AVAILABLE: until the HW has reached the start of this term, the old leader may have shown more.

    Simulator bug lagging-end-offset.
    """
    replica = Replica(1)
    states([replica], PartitionState((1, 2), (1,), 1))
    replica.produce("m0")
    replica.restart(high_watermark=0)
    states([replica], PartitionState((1, 2), (1, 2), 1, leader_epoch=1, partition_epoch=1))
    assert (replica.hw, term(replica).start_offset) == (0, 1)
    assert term(replica).end_offset_for_clients() is None
    fetch_at(replica, 2, 1)
    assert term(replica).end_offset_for_clients() == 1


def test_the_checkpoint_is_kept_within_the_log() -> None:
    """R3, R11: a checkpoint from before a power loss may be past the end."""
    replica = lead((1,), (1,), records=3)
    replica.power_loss()
    assert (replica.leo, replica.hw) == (0, 0)


def test_acks_all_is_answered_when_the_high_watermark_is_there() -> None:
    """R16: not before; and with NOT_ENOUGH_REPLICAS_AFTER_APPEND when the ISR shrank below the minimum meanwhile."""
    leader = lead((1, 2), (1, 2, 3), min_isr=2, records=1)
    assert term(leader).check_enough_replicas(-1) is ErrorCode.NONE
    assert term(leader).acknowledgement(1) is None
    fetch_at(leader, 2, 1)
    assert term(leader).acknowledgement(1) is ErrorCode.NONE
    states([leader], replace(PartitionState((1, 2, 3), (1,), 1), partition_epoch=1))
    assert term(leader).acknowledgement(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert term(leader).acknowledgement(2) is None


def test_acks_all_is_refused_before_the_append_below_the_minimum() -> None:
    """R16: NOT_ENOUGH_REPLICAS by the committed ISR; acks 0 and 1 are not asked."""
    leader = lead((1,), (1, 2, 3), min_isr=2)
    assert term(leader).check_enough_replicas(-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert term(leader).check_enough_replicas(0) is ErrorCode.NONE
    assert term(leader).check_enough_replicas(1) is ErrorCode.NONE
    proposed(fetch_at(leader, 2, 0))
    assert term(leader).check_enough_replicas(-1) is ErrorCode.NOT_ENOUGH_REPLICAS, "a pending member does not count"


def test_the_leader_tells_how_far_each_follower_is_behind() -> None:
    """Against its own end, and never below zero; of a follower that has not fetched in this term it knows nothing."""
    leader = lead(records=5)
    assert term(leader).follower_lags() == ()
    fetch_at(leader, 2, 5)
    fetch_at(leader, 3, 1)
    assert term(leader).follower_lags() == ((2, 0), (3, 4))
    produce(leader, 2)
    assert term(leader).follower_lags() == ((2, 2), (3, 6)), "it grows also while a follower says nothing"
