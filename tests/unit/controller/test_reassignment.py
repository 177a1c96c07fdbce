"""Moving a partition (KIP-455): start, finish, cancel, replace; more copies and fewer."""

from dataclasses import replace

import pytest
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import NO_LEADER, PartitionState
from minikafka.protocol.errors import ErrorCode

from .desk import Desk

STATE = PartitionState((1, 2, 3), (1, 2, 3), 1)


def desk(state: PartitionState = STATE, brokers: int = 6) -> Desk:
    return Desk(state, brokers=brokers)


class TestStart:
    def test_target_first_then_what_leaves(self) -> None:
        """KIP-455: the partition lives in both places meanwhile; nobody loses a seat."""
        at = desk()
        assert at.partitions.reassign("t", 0, (4, 2, 5)) is ErrorCode.NONE
        state = at.state()
        assert (state.replicas, state.adding, state.removing) == ((4, 2, 5, 1, 3), (4, 5), (1, 3))
        assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (1, (1, 2, 3), 0, 1)

    def test_the_same_place_is_no_move(self) -> None:
        """KIP-455: nothing is written."""
        at = desk()
        assert at.partitions.reassign("t", 0, (1, 2, 3)) is ErrorCode.NONE
        assert not at.controller.workspace.has_changes

    def test_another_order_is_done_at_once(self) -> None:
        """KIP-455: another preferred leader; the leader stays until the next preferred election."""
        at = desk()
        at.partitions.reassign("t", 0, (3, 1, 2))
        assert (at.state().replicas, at.state().leader, at.state().leader_epoch) == ((3, 1, 2), 1, 0)

    @pytest.mark.parametrize("target", [(), (1, 1), (1, 99)])
    def test_a_bad_target(self, target: tuple[int, ...]) -> None:
        """R1, KIP-455: nobody, a broker twice, an unknown one."""
        at = desk()
        assert at.partitions.reassign("t", 0, target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert at.state() == STATE

    @pytest.mark.parametrize("target", [(1, 2), (1, 2, 3, 4)])
    def test_of_another_size_where_that_is_forbidden(self, target: tuple[int, ...]) -> None:
        """KIP-860: INVALID_REPLICATION_FACTOR."""
        at = desk()
        assert at.partitions.reassign("t", 0, target, False) is ErrorCode.INVALID_REPLICATION_FACTOR
        assert at.state() == STATE
        assert at.partitions.reassign("t", 0, (4, 5, 6), False) is ErrorCode.NONE

    def test_the_size_of_a_move_under_way_is_that_of_its_target(self) -> None:
        """KIP-860: what will leave does not count; nor is a cancellation a change of the size."""
        at = desk()
        at.partitions.reassign("t", 0, (4, 5))
        assert at.partitions.reassign("t", 0, (4, 5, 6), False) is ErrorCode.INVALID_REPLICATION_FACTOR
        assert at.partitions.reassign("t", 0, (5, 6), False) is ErrorCode.NONE
        assert at.partitions.reassign("t", 0, None, False) is ErrorCode.NONE

    @pytest.mark.parametrize(("topic", "index"), [("u", 0), ("t", 1)])
    def test_of_what_is_not_there(self, topic: str, index: int) -> None:
        """KIP-455: UNKNOWN_TOPIC_OR_PARTITION."""
        assert desk().partitions.reassign(topic, index, (1,)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestLastKnownLeader:
    """A partition without a leader, whose last one is among those that are about to come; broker 2 has all, too."""

    OFFLINE = PartitionState((1, 2, 3), (), NO_LEADER, 5, 11, elr=(2, 1), last_known_elr=(1,), adding=(1,))

    def test_who_leaves_the_replicas_is_not_known_any_more(self) -> None:
        """It deletes its log. Moved back later, it was elected for what it had been, with nothing (found by simulation)."""
        at = desk(self.OFFLINE)
        at.controller.workspace.image.brokers.update(
            {number: replace(at.controller.workspace.image.brokers[number], fenced=True) for number in (2, 3, 4)}
        )
        assert at.partitions.reassign("t", 0, (4, 2)) is ErrorCode.NONE
        assert (at.state().leader, at.state().elr, at.state().last_known_elr) == (NO_LEADER, (2,), (2,))
        assert at.partitions.reassign("t", 0, (1, 2)) is ErrorCode.NONE
        assert (at.state().leader, at.state().last_known_elr) == (NO_LEADER, (2,))


class TestFinish:
    def test_when_the_whole_target_is_in_sync(self) -> None:
        """KIP-455: the leaving ones go, a new leader is elected, and the old one learns NEW_LEADER_ELECTED."""
        at = desk()
        at.partitions.reassign("t", 0, (4, 2, 5))
        assert at.set_isr(1, 2, 3, 4).error is ErrorCode.NONE
        assert at.state().adding == (4, 5)
        before = at.state()
        assert at.set_isr(1, 2, 3, 4, 5).error is ErrorCode.NEW_LEADER_ELECTED
        state = at.state()
        assert (state.replicas, state.isr, state.adding, state.removing) == ((4, 2, 5), (2, 4, 5), (), ())
        assert (state.leader, state.leader_epoch) == (4, before.leader_epoch + 1)
        assert state.partition_epoch == before.partition_epoch + 1, "one change, one epoch"

    def test_the_term_ends_though_the_leader_stays(self) -> None:
        """KIP-455: a replica left; the leader epoch grows so that it cannot go on under the old one."""
        at = desk()
        at.partitions.reassign("t", 0, (1, 2, 4))
        assert at.set_isr(1, 2, 3, 4).error is ErrorCode.NEW_LEADER_ELECTED
        assert (at.state().leader, at.state().leader_epoch) == (1, 1)

    def test_more_copies_leave_the_term_alone(self) -> None:
        """KIP-455: a larger replication factor removes nobody."""
        at = desk()
        at.partitions.reassign("t", 0, (1, 2, 3, 4, 5))
        assert at.set_isr(1, 2, 3, 4).error is ErrorCode.NONE
        answer = at.set_isr(1, 2, 3, 4, 5)
        assert (answer.error, answer.leader_epoch) == (ErrorCode.NONE, 0)
        assert (at.state().replicas, at.state().adding) == ((1, 2, 3, 4, 5), ())

    def test_fewer_copies_at_once_when_they_are_in_sync(self) -> None:
        """KIP-455: nothing to wait for."""
        at = desk()
        at.partitions.reassign("t", 0, (2,))
        assert (at.state().replicas, at.state().isr, at.state().leader) == ((2,), (2,), 2)

    def test_fewer_copies_wait_for_all_of_them(self) -> None:
        """KIP-455: every replica of the target in the ISR, not only the arriving ones; else one copy could be left of two."""
        at = desk(PartitionState((1, 2, 3), (1, 2), 1))
        at.partitions.reassign("t", 0, (2, 3))
        assert (at.state().replicas, at.state().removing) == ((2, 3, 1), (1,))
        assert at.set_isr(1, 2, 3).error is ErrorCode.NEW_LEADER_ELECTED
        assert (at.state().replicas, at.state().isr, at.state().leader) == ((2, 3), (2, 3), 2)

    def test_a_swap_waits_for_who_was_out_of_sync(self) -> None:
        """KIP-455: 4 has arrived, but 3 is not there: two of three copies only."""
        at = desk(PartitionState((1, 2, 3), (1, 2), 1))
        at.partitions.reassign("t", 0, (2, 3, 4))
        at.set_isr(1, 2, 4)
        assert at.state().adding == (4,)

    def test_the_death_of_a_leaving_replica_does_not_matter(self) -> None:
        """KIP-455: it goes anyway."""
        at = desk()
        at.partitions.reassign("t", 0, (1, 2, 4))
        at.die(3)
        at.set_isr(1, 2, 4)
        assert at.state().replicas == (1, 2, 4)

    def test_with_the_classic_rules(self) -> None:
        """KIP-455: the same without eligible leader replicas."""
        at = Desk(STATE, brokers=4, config=ControllerConfig(trust_isr=True))
        at.partitions.reassign("t", 0, (4,))
        at.set_isr(1, 2, 3, 4)
        assert (at.state().replicas, at.state().isr, at.state().leader) == ((4,), (4,), 4)


class TestCancel:
    def test_goes_back_to_where_it_was(self) -> None:
        """KIP-455: the arriving ones go, in sync or not; that ends the term."""
        at = desk()
        at.partitions.reassign("t", 0, (4, 5, 1))
        at.set_isr(1, 2, 3, 4)
        assert at.partitions.reassign("t", 0, None) is ErrorCode.NONE
        state = at.state()
        assert (sorted(state.replicas), state.isr, state.adding, state.removing) == ([1, 2, 3], (1, 2, 3), (), ())
        assert (state.leader, state.leader_epoch) == (1, 1)

    def test_when_an_arriving_one_leads(self) -> None:
        """KIP-455: it cannot stay leader."""
        at = desk(PartitionState((4, 1), (1, 4), 4, adding=(4,)))
        at.partitions.reassign("t", 0, None)
        assert (at.state().replicas, at.state().isr, at.state().leader, at.state().leader_epoch) == ((1,), (1,), 1, 1)

    def test_nothing_to_cancel(self) -> None:
        """KIP-455: NO_REASSIGNMENT_IN_PROGRESS."""
        assert desk().partitions.reassign("t", 0, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    def test_when_only_the_arriving_ones_are_in_sync(self) -> None:
        """KIP-455: going back would lose what only they have."""
        at = desk(PartitionState((4, 1), (4,), 4, adding=(4,), removing=(1,)))
        before = at.state()
        assert at.partitions.reassign("t", 0, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert at.state() == before

    @pytest.mark.parametrize("target", [None, (2, 3)])
    @pytest.mark.parametrize(("elr", "last"), [((4,), ()), ((), (4,))])
    def test_when_an_arriving_one_is_the_last_that_has_it(
        self, target: tuple[int, ...] | None, elr: tuple[int, ...], last: tuple[int, ...]
    ) -> None:
        """KIP-966: nobody leads, and the one that may lead again is an arriving one. Its log must stay (a simulated schedule)."""
        held = PartitionState((4, 1), (), NO_LEADER, adding=(4,), removing=(1,), elr=elr, last_known_elr=last)
        at = desk(held)
        assert at.partitions.reassign("t", 0, target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert at.state() == held
        assert at.partitions.reassign("t", 0, (2, 4)) is ErrorCode.NONE
        assert 4 in at.state().replicas

    def test_of_a_smaller_assignment(self) -> None:
        """KIP-455: nobody had left yet."""
        at = desk(PartitionState((1, 2, 3), (1, 2), 1))
        at.partitions.reassign("t", 0, (2, 3))
        at.partitions.reassign("t", 0, None)
        assert (sorted(at.state().replicas), at.state().removing, at.state().leader_epoch) == ([1, 2, 3], (), 0)


class TestReplace:
    def test_another_target_takes_the_place_of_the_first(self) -> None:
        """KIP-455: who was arriving and is not wanted any more goes at once, and that ends the term."""
        at = desk()
        at.partitions.reassign("t", 0, (4, 2, 3))
        at.set_isr(1, 2, 3)
        at.partitions.reassign("t", 0, (5, 2, 3))
        state = at.state()
        assert (state.replicas, state.adding, state.removing) == ((5, 2, 3, 1), (5,), (1,))
        assert (state.leader, state.leader_epoch) == (1, 1)


def test_a_leaderless_partition_may_be_moved_too() -> None:
    """KIP-455: it waits for a leader like everything else."""
    at = desk(PartitionState((1,), (), NO_LEADER, elr=(1,), last_known_elr=(1,)))
    assert at.partitions.reassign("t", 0, (2,)) is ErrorCode.NONE
    assert (at.state().leader, at.state().isr, at.state().replicas) == (1, (1,), (2, 1)), "1 lives: it was elected"
