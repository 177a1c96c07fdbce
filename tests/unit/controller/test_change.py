"""One change of one partition: who leads, who is in sync, who is eligible, which epochs grow."""

from dataclasses import replace

import pytest
from minikafka.controller.change import ChangeRules, Election, PartitionAssignment, PartitionChange, change
from minikafka.metadata.image import NO_LEADER, RECOVERED, RECOVERING, PartitionState

OLD = PartitionState((1, 2, 3), (1, 2, 3), 1, leader_epoch=5, partition_epoch=9)


def rules(*alive: int, min_isr: int = 1, elr: bool = True) -> ChangeRules:
    return ChangeRules(min_isr, lambda broker: broker in alive, elr)


def must(made: PartitionChange | None) -> PartitionState:
    assert made is not None
    return made.state


class TestEpochs:
    def test_nothing_to_change(self) -> None:
        """KIP-497: no record, no epoch."""
        assert change(OLD, rules(1, 2, 3)) is None
        assert change(OLD, rules(1, 2, 3), isr=(1, 2, 3), recovered=True) is None

    @pytest.mark.parametrize("isr", [(1, 2), (1,)])
    def test_an_isr_change_leaves_the_leader_epoch(self, isr: tuple[int, ...]) -> None:
        """KAFKA-15021: only the partition epoch grows, in shrink and expansion."""
        new = must(change(OLD, rules(1, 2, 3), isr=isr))
        assert (new.leader, new.isr, new.leader_epoch, new.partition_epoch) == (1, isr, 5, 10)
        again = must(change(new, rules(1, 2, 3), isr=(1, 2, 3)))
        assert (again.leader_epoch, again.partition_epoch) == (5, 11)

    def test_a_new_leader_has_a_new_epoch(self) -> None:
        """R12: the leader epoch grows at every leader change, the partition epoch with it."""
        made = change(OLD, rules(2, 3), isr=(2, 3))
        assert made is not None and made.clean is True
        assert (made.state.leader, made.state.leader_epoch, made.state.partition_epoch) == (2, 6, 10)

    def test_losing_the_leader_too(self) -> None:
        """R12: a term ends also when nobody follows it."""
        made = change(replace(OLD, isr=(1,)), rules(), isr=())
        assert made is not None and made.clean is None
        assert (made.state.leader, made.state.leader_epoch, made.state.partition_epoch) == (NO_LEADER, 6, 10)


class TestElection:
    @pytest.mark.parametrize(
        ("alive", "isr", "election", "leader", "clean"),
        [
            pytest.param((1, 2, 3), (1, 2, 3), Election.ONLINE, 2, None, id="a fit leader stays"),
            pytest.param((1, 3), (1, 3), Election.ONLINE, 1, True, id="else the first fit in assignment order"),
            pytest.param((3,), (3, 1), Election.ONLINE, 3, True, id="which must be alive"),
            pytest.param((1, 3), (3,), Election.ONLINE, 3, True, id="and in sync"),
            pytest.param(
                (1, 2, 3), (1, 2, 3), Election.PREFERRED, 1, True, id="preferred: the first of the assignment"
            ),
            pytest.param((2, 3), (2, 3), Election.PREFERRED, 2, None, id="preferred dead: the leader stays"),
            pytest.param((1, 2, 3), (2, 3), Election.PREFERRED, 2, None, id="preferred out of sync: the leader stays"),
            pytest.param((3,), (3,), Election.PREFERRED, 3, True, id="neither: the first fit"),
            pytest.param((1, 3), (3,), Election.UNCLEAN, 3, True, id="unclean allowed, but not needed"),
        ],
    )
    def test_of_the_fit(
        self, alive: tuple[int, ...], isr: tuple[int, ...], election: Election, leader: int, clean: bool | None
    ) -> None:
        """R14: the first live replica in the ISR, the preferred one when it is asked for."""
        made = change(replace(OLD, leader=2), rules(*alive), isr=isr, election=election)
        if made is None:
            assert leader == 2
        else:
            assert (made.state.leader, made.clean) == (leader, clean)

    def test_an_empty_live_isr_is_offline(self) -> None:
        """R14, unclean.leader.election.enable=false: no leader although a replica lives."""
        new = must(change(replace(OLD, isr=(1,)), rules(2, 3), isr=()))
        assert (new.leader, new.isr) == (NO_LEADER, ())

    def test_unclean_takes_the_first_that_lives(self) -> None:
        """R14, unclean.leader.election.enable=true: ISR = {it}, and what it lacks is lost."""
        made = change(replace(OLD, isr=(1,)), rules(2, 3), isr=(), election=Election.UNCLEAN)
        assert made is not None and made.clean is False
        assert (made.state.leader, made.state.isr, made.state.recovery_state) == (2, (2,), RECOVERING)
        assert (made.state.elr, made.state.last_known_elr) == ((), ())

    def test_unclean_with_nobody_alive(self) -> None:
        """R14: then even that cannot help."""
        assert must(change(replace(OLD, isr=(1,)), rules(), isr=(), election=Election.UNCLEAN)).leader == NO_LEADER

    def test_recovery_is_confirmed_by_the_leader(self) -> None:
        """KIP-704: RECOVERING until the next AlterPartition."""
        recovering = replace(OLD, recovery_state=RECOVERING)
        assert must(change(recovering, rules(1, 2, 3), recovered=True)).recovery_state == RECOVERED
        assert must(change(recovering, rules(1, 2, 3), isr=(1, 2))).recovery_state == RECOVERING


class TestEligibleLeaderReplicas:
    def test_who_leaves_below_the_minimum_is_eligible(self) -> None:
        """KIP-966: ELR = (ELR + ISR) - target ISR while that is below the minimum."""
        two = must(change(OLD, rules(1, 2, 3, min_isr=2), isr=(1, 2)))
        assert two.elr == (), "at the minimum the HW moves on without 3"
        one = must(change(two, rules(1, 2, 3, min_isr=2), isr=(1,)))
        assert (one.isr, one.elr) == ((1,), (2,))

    def test_it_is_cleared_when_the_isr_is_large_enough_again(self) -> None:
        """KIP-966: the HW moves on, so who is outside may miss committed records."""
        one = replace(OLD, isr=(1,), elr=(2, 3))
        assert must(change(one, rules(1, 2, 3, min_isr=2), isr=(1, 3))).elr == ()
        assert must(change(one, rules(1, 2, 3, min_isr=3), isr=(1, 3))).elr == (2,)

    def test_the_minimum_is_never_more_than_the_replicas(self) -> None:
        """KIP-966: min(min.insync.replicas, replication factor)."""
        pair = PartitionState((1, 2), (1,), 1, elr=(2,))
        assert must(change(pair, rules(1, 2, min_isr=5), isr=(1, 2))).elr == ()

    def test_an_eligible_replica_leads_when_the_isr_is_empty(self) -> None:
        """KIP-966: a clean election; ISR = [it], the others stay eligible while that is below the minimum."""
        made = change(replace(OLD, isr=(1,), elr=(2, 3)), rules(2, 3, min_isr=2), isr=())
        assert made is not None and made.clean is True
        assert (made.state.leader, made.state.isr, made.state.elr) == (2, (2,), (3, 1))
        assert made.state.recovery_state == RECOVERED

    def test_an_eligible_replica_waits_while_the_isr_is_not_empty(self) -> None:
        """KIP-966: members of the ISR have more, also when none of them lives just now (trust_isr left them there)."""
        old = replace(OLD, isr=(1,), elr=(2,))
        assert must(change(old, rules(2, min_isr=2))).leader == NO_LEADER

    def test_one_is_enough_for_a_minimum_of_one(self) -> None:
        """KIP-966: the new ISR is at the minimum at once, and nobody else stays eligible."""
        made = must(change(replace(OLD, isr=(1,), elr=(2, 3)), rules(2, 3, min_isr=1), isr=()))
        assert (made.isr, made.elr) == ((2,), ())

    def test_who_stopped_uncleanly_is_neither_in_sync_nor_eligible(self) -> None:
        """KIP-966: it may have lost its tail."""
        old = replace(OLD, isr=(1,), elr=(2, 3))
        made = must(change(old, rules(1, 3, min_isr=2), uncleanly_stopped=(2,)))
        assert (made.isr, made.elr) == ((1,), (3,))
        made = must(change(old, rules(3, min_isr=2), uncleanly_stopped=(1,)))
        assert (made.leader, made.isr, made.elr) == (3, (3,), (2,))

    def test_who_is_no_longer_assigned_is_not_eligible(self) -> None:
        """KIP-455: it will not come back."""
        old = replace(OLD, isr=(1,), elr=(2, 3))
        made = must(change(old, rules(1, 2, 3, min_isr=2), assignment=PartitionAssignment((1, 2))))
        assert made.elr == (2,)


class TestLastKnownLeader:
    def test_it_is_noted_when_the_isr_empties(self) -> None:
        """KIP-966: the one that led last, and not just anybody who was in the ELR."""
        new = must(change(replace(OLD, isr=(1,), elr=(2, 3)), rules(min_isr=2), isr=()))
        assert (new.leader, new.isr, new.elr, new.last_known_elr) == (NO_LEADER, (), (2, 3, 1), (1,))

    def test_it_is_kept_while_nobody_leads(self) -> None:
        """KIP-966: whoever loses its eligibility meanwhile, and in whatever order."""
        state = must(change(replace(OLD, isr=(1,), elr=(2,)), rules(min_isr=2), isr=()))
        for broker in (1, 2):
            state = must(change(state, rules(min_isr=2), uncleanly_stopped=(broker,)))
            assert state.last_known_elr == (1,)
        assert (state.isr, state.elr) == ((), ())

    def test_it_leads_when_nobody_else_can(self) -> None:
        """KIP-966, balanced recovery: counted as unclean, for it stopped uncleanly."""
        nobody = replace(OLD, leader=NO_LEADER, isr=(), elr=(), last_known_elr=(2,))
        made = change(nobody, rules(1, 2, 3, min_isr=2))
        assert made is not None and made.clean is False
        assert (made.state.leader, made.state.isr, made.state.recovery_state) == (2, (2,), RECOVERING)
        assert made.state.last_known_elr == ()

    @pytest.mark.parametrize(
        ("known", "alive", "elr"),
        [((2,), (1, 3), ()), ((9,), (1, 2, 3, 9), ()), ((1, 2), (1, 2, 3), ()), ((2,), (2,), (1,))],
        ids=["dead", "not assigned", "not one", "somebody is eligible"],
    )
    def test_else_it_does_not(self, known: tuple[int, ...], alive: tuple[int, ...], elr: tuple[int, ...]) -> None:
        """KIP-966: only the one last known leader, alive, when ISR and ELR are empty."""
        nobody = replace(OLD, leader=NO_LEADER, isr=(), elr=elr, last_known_elr=known)
        made = change(nobody, rules(*alive, min_isr=2))
        assert made is None or made.state.leader == NO_LEADER

    def test_it_is_forgotten_once_somebody_leads(self) -> None:
        """KIP-966: it is about leaderless partitions; an old name would be elected in a later emergency."""
        nobody = replace(OLD, leader=NO_LEADER, isr=(), elr=(3,), last_known_elr=(1,))
        made = must(change(nobody, rules(3, min_isr=2)))
        assert (made.leader, made.last_known_elr) == (3, ())

    def test_a_stale_name_does_not_lead_at_the_death_of_the_leader(self) -> None:
        """KIP-966: the leader stops uncleanly with nobody eligible; another, that left long ago, must not take over."""
        old = replace(OLD, isr=(1,), elr=(), last_known_elr=(3,))
        made = must(change(old, rules(2, 3, min_isr=2), uncleanly_stopped=(1,)))
        assert (made.leader, made.isr, made.last_known_elr) == (NO_LEADER, (), (1,))

    def test_the_last_of_an_isr_without_leader_stands_for_it(self) -> None:
        """KIP-966 after ``trust_isr``: that policy keeps the last member in the ISR of a leaderless partition."""
        old = replace(OLD, leader=NO_LEADER, isr=(2,))
        new = must(change(old, rules(min_isr=2), uncleanly_stopped=(2,)))
        assert (new.isr, new.elr, new.last_known_elr) == ((), (), (2,))
        assert must(change(new, rules(2, min_isr=2))).leader == 2

    def test_a_leader_that_cannot_lead_with_members_left(self) -> None:
        """KIP-966: nothing is noted while the ISR still names somebody."""
        new = must(change(replace(OLD, isr=(1, 2)), rules(3, min_isr=2)))
        assert (new.leader, new.isr, new.last_known_elr) == (NO_LEADER, (1, 2), ())


class TestWithoutEligibleLeaderReplicas:
    """The classic rules of ``minikafka.unclean.shutdown.policy=trust_isr``."""

    def test_the_last_member_stays_in_the_isr(self) -> None:
        """R14: an empty ISR is never written, for somebody must remember who may lead."""
        new = must(change(replace(OLD, isr=(1,)), rules(2, 3, elr=False), isr=()))
        assert (new.leader, new.isr, new.elr, new.last_known_elr) == (NO_LEADER, (1,), (), ())
        back = must(change(new, rules(1, 2, 3, elr=False)))
        assert (back.leader, back.isr, back.leader_epoch) == (1, (1,), 7)

    def test_nobody_is_eligible_below_the_minimum(self) -> None:
        """R14: the ISR is all there is."""
        assert must(change(OLD, rules(1, 2, 3, min_isr=2, elr=False), isr=(1,))).elr == ()

    def test_unclean_is_as_with_them(self) -> None:
        """R14: ISR = {it}."""
        made = change(replace(OLD, isr=(1,)), rules(3, elr=False), isr=(), election=Election.UNCLEAN)
        assert made is not None and made.clean is False
        assert (made.state.leader, made.state.isr) == (3, (3,))


class TestAssignment:
    def test_a_replica_that_leaves_ends_the_term(self) -> None:
        """KIP-455: the leader epoch grows, so that the one that left cannot go on under it."""
        new = must(change(OLD, rules(1, 2, 3), isr=(1, 2), assignment=PartitionAssignment((1, 2))))
        assert (new.leader, new.leader_epoch, new.partition_epoch) == (1, 6, 10)

    def test_one_that_arrives_does_not(self) -> None:
        """KIP-455: nothing changes for who is there."""
        new = must(change(OLD, rules(1, 2, 3, 4), assignment=PartitionAssignment((1, 2, 3, 4), adding=(4,))))
        assert (new.replicas, new.adding, new.leader_epoch, new.partition_epoch) == ((1, 2, 3, 4), (4,), 5, 10)
