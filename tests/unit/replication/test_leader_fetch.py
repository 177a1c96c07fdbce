"""A follower's fetch at the leader: who may ask, where the logs part, what is out of range."""

import pytest
from minikafka.metadata.image import NO_LEADER, PartitionState
from minikafka.protocol.errors import ErrorCode

from .cluster import Replica, states
from .leading import fetch_at, lead, produce, term


def with_epochs() -> Replica:
    """Records 0-1 of epoch 2, 2-4 of epoch 4, and the present term 6 from offset 5 on with one record."""
    replica = Replica(1)
    for epoch, records in ((2, 2), (4, 3), (6, 1)):
        states([replica], PartitionState((1, 2, 3), (1,), 1, leader_epoch=epoch, partition_epoch=epoch))
        produce(replica, records)
    return replica


class TestFencing:
    @pytest.mark.parametrize(
        ("epoch", "error"),
        [
            (4, ErrorCode.FENCED_LEADER_EPOCH),
            (5, ErrorCode.NONE),
            (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (-1, ErrorCode.NONE),
        ],
    )
    def test_by_the_epoch_of_the_caller(self, epoch: int, error: ErrorCode) -> None:
        """R12, KIP-320: older is fenced, newer is unknown here, none given is not checked.

        Simulator bug no-epoch-fencing.
        """
        assert lead(epoch=5).partition.check_leader(epoch) is error

    def test_who_does_not_lead_says_so(self) -> None:
        """R2: followers do not serve; the epoch is looked at first (KIP-320)."""
        follower = Replica(2)
        states([follower], PartitionState((1, 2), (1, 2), 1, leader_epoch=5))
        assert follower.partition.check_leader(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert follower.partition.check_leader(5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert follower.partition.check_leader(4) is ErrorCode.FENCED_LEADER_EPOCH
        assert Replica(3).partition.check_leader(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_replica_that_is_not_assigned(self) -> None:
        """KIP-320: one of the two does not know the latest assignment; UNKNOWN_LEADER_EPOCH makes the caller wait."""
        leader = term(lead((1, 2), (1, 2), epoch=5))
        assert leader.follower_fetch(9, 1, 5, 0, -1, 0.0).error is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert leader.follower_fetch(9, 1, -1, 0, -1, 0.0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_an_earlier_incarnation(self) -> None:
        """KIP-903: a fetch that was under way when its sender was restarted; -1 (an old protocol) is not checked.

        Simulator bug accept-rebooted.
        """
        replica = lead()
        replica.peers.epochs[2] = 5
        assert fetch_at(replica, 2, 0, broker_epoch=4).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetch_at(replica, 2, 0, broker_epoch=5).error is ErrorCode.NONE
        assert fetch_at(replica, 2, 0, broker_epoch=-1).error is ErrorCode.NONE


class TestDivergence:
    @pytest.mark.parametrize(
        ("offset", "last_epoch", "answer"),
        [
            (6, 6, None),  # in step
            (5, 4, None),  # at the end of an older epoch
            (3, 4, None),  # in the middle of it
            (6, 4, (4, 5)),  # has more of epoch 4 than the leader
            (3, 3, (2, 2)),  # has an epoch that the leader never saw: the largest below it, and where that ends
            (2, 2, None),
            (4, 2, (2, 2)),
            (1, 1, (1, 0)),  # an epoch before the first: it ends where that begins
            (6, -1, None),  # no epoch: no detection
        ],
    )
    def test_where_the_logs_part(self, offset: int, last_epoch: int, answer: tuple[int, int] | None) -> None:
        """R13, KIP-595: the end of the caller's last epoch in the leader's log, when the caller is beyond it."""
        leader = with_epochs()
        fetch = fetch_at(leader, 2, offset, last_epoch=last_epoch)
        assert (fetch.error, fetch.diverging) == (ErrorCode.NONE, answer)

    def test_a_diverging_fetch_teaches_nothing(self) -> None:
        """KIP-595, KAFKA-14704: what a diverging follower claims to have is not this log; no LEO, no HW, no ISR from it."""
        leader = with_epochs()
        fetch = fetch_at(leader, 2, 6, last_epoch=4, now=9.0)
        assert fetch.diverging is not None and fetch.proposal is None
        assert (term(leader).remotes[2].leo, term(leader).remotes[2].last_fetch_time) == (-1, float("-inf"))

    def test_an_epoch_later_than_all_is_out_of_range(self) -> None:
        """KIP-595: undefined here; the caller asks for the leader's range."""
        assert fetch_at(with_epochs(), 2, 6, last_epoch=7).error is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_below_the_log_start_is_out_of_range_whatever_the_epoch(self) -> None:
        """KIP-595: regardless of divergence."""
        leader = with_epochs()
        leader.partition.log.increment_log_start_offset(3)
        assert fetch_at(leader, 2, 2, last_epoch=2).error is ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch_at(leader, 2, 2).error is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_beyond_the_end_is_out_of_range(self) -> None:
        """KAFKA-7414: without an epoch nothing better can be said."""
        assert fetch_at(with_epochs(), 2, 7).error is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_every_term_has_its_epoch_entry_before_any_append(self) -> None:
        """KAFKA-6361, KIP-279: without it, fast successive elections leave epochs that nobody can find the end of.

        Simulator bug no-epoch-at-become-leader.
        """
        replica = lead(epoch=3)
        assert replica.partition.log.epochs.entries == [(3, 0)]
        produce(replica, 1)
        states([replica], PartitionState((1, 2, 3), (1, 2, 3), 1, leader_epoch=4, partition_epoch=1))
        assert replica.partition.log.epochs.entries == [(3, 0), (4, 1)]


class TestRoles:
    """R12: ``apply_state`` is the only way from one role to another."""

    def test_an_older_partition_epoch_is_old_news(self) -> None:
        """R12, KIP-497: and an equal one is accepted."""
        replica = Replica(1)
        newer = PartitionState((1, 2), (1, 2), 1, leader_epoch=2, partition_epoch=5)
        assert replica.partition.apply_state(newer, 0.0)
        assert not replica.partition.apply_state(PartitionState((1, 2), (2,), 2, 1, 4), 0.0)
        assert (replica.partition.leader_id, replica.partition.leader_epoch) == (1, 2)
        assert not replica.partition.apply_state(newer, 0.0)
        assert replica.partition.partition_epoch == 5

    def test_without_a_leader_nothing_is_served_and_nothing_lost(self) -> None:
        """KAFKA-1647: an offline partition keeps its log and its high watermark. Simulator bug drop-leaderless-hw."""
        replica = lead((1,), (1,), records=2)
        offline = PartitionState((1,), (), NO_LEADER, leader_epoch=1, partition_epoch=1)
        assert replica.partition.apply_state(offline, 0.0)
        assert not replica.partition.apply_state(offline, 0.0)
        assert replica.partition.check_leader(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (replica.partition.leader, replica.partition.follower) == (None, None)
        assert (replica.leo, replica.hw) == (2, 2)

    def test_a_replica_that_is_no_longer_assigned_does_nothing(self) -> None:
        """KIP-455: it left with a reassignment."""
        replica = Replica(2)
        states([replica], PartitionState((1, 2), (1, 2), 1))
        assert replica.partition.apply_state(PartitionState((1, 3), (1, 3), 1, 1, 1), 0.0)
        assert replica.partition.follower is None

    def test_a_new_epoch_of_the_same_leader_starts_a_new_term_of_following(self) -> None:
        """R12: the fetcher starts anew whenever the leader epoch changed, for answers of the old term must not count."""
        replica = Replica(2)
        state = PartitionState((1, 2), (1, 2), 1)
        states([replica], state)
        before = replica.partition.follower
        states([replica], PartitionState((1, 2), (1,), 1, 0, 1))
        assert replica.partition.follower is before, "an ISR change alone does not"
        states([replica], PartitionState((1, 2), (1,), 1, 1, 2))
        assert replica.partition.follower is not before

    def test_before_the_first_state_nothing_is_known(self) -> None:
        """R12: no epoch is below all epochs."""
        partition = Replica(1).partition
        assert (partition.leader_epoch, partition.partition_epoch, partition.leader_id) == (-1, -1, NO_LEADER)
