"""Registration, heartbeats, fencing, controlled shutdown."""

from dataclasses import replace

import pytest
from minikafka.controller.brokers import Registration
from minikafka.controller.resignation import ControllerResignation
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import NO_LEADER, PartitionState
from minikafka.protocol.errors import ErrorCode

from .desk import CLUSTER, LISTENER, Desk

STATE = PartitionState((1, 2, 3), (1, 2, 3), 1)
SESSION = 9.0
TRUST = ControllerConfig(trust_isr=True)


class TestRegistration:
    def test_a_newcomer_starts_fenced(self) -> None:
        """KIP-631: until its heartbeat says that it has caught up; its epoch is above all there were."""
        at = Desk(STATE)
        assert at.register(4) == (ErrorCode.NONE, 31)
        assert at.image.brokers[4].fenced
        changes, events = at.controller.take_changes()
        assert changes["broker/4"]["fenced"] is True
        assert [(e.name, e.fields["clean"]) for e in events] == [("broker_registered", True)]

    def test_of_another_cluster(self) -> None:
        """KIP-631: INCONSISTENT_CLUSTER_ID."""
        at = Desk(STATE)
        stranger = Registration(4, "another", "x", LISTENER, None, -1)
        assert at.brokers.register(stranger, 0.0) == (ErrorCode.INCONSISTENT_CLUSTER_ID, -1)
        assert 4 not in at.image.brokers

    def test_the_same_incarnation_again_keeps_its_epoch(self) -> None:
        """KIP-631: the answer to its first request got lost; nothing changes."""
        at = Desk(STATE)
        assert at.register(2, "incarnation-2") == (ErrorCode.NONE, 20)
        assert at.state() == STATE
        assert not at.controller.workspace.has_changes

    def test_an_id_in_use_is_refused(self) -> None:
        """KIP-631: DUPLICATE_BROKER_REGISTRATION while another process of that id is connected and in session."""
        at = Desk(STATE)
        assert at.register(2, now=SESSION) == (ErrorCode.DUPLICATE_BROKER_REGISTRATION, -1)
        assert at.register(2, now=SESSION + 1)[0] is ErrorCode.NONE, "its session is over"

    def test_an_id_whose_process_is_gone_is_free_at_once(self) -> None:
        """KIP-631: a closed connection says more than a session that has time left."""
        at = Desk(STATE)
        at.die(2)
        assert at.register(2) == (ErrorCode.NONE, 31)

    def test_one_never_met_by_this_controller_may_be_replaced(self) -> None:
        """R15: a new controller knows brokers from the store; whoever registers first speaks for the id."""
        at = Desk(STATE, connected=False)
        assert at.register(2)[0] is ErrorCode.NONE

    def test_a_replaced_incarnation_is_fenced_everywhere(self) -> None:
        """KIP-903: late heartbeats and requests of the old one are refused by epoch."""
        at = Desk(STATE)
        at.die(2)
        _, epoch = at.register(2)
        assert at.brokers.heartbeat(2, 20, False, False, 0.0).error is ErrorCode.STALE_BROKER_EPOCH
        assert at.partitions.alter(2, 20, at.proposal((1,))).error is ErrorCode.STALE_BROKER_EPOCH
        at.brokers.connection_lost(2, 20)
        assert at.brokers.heartbeat(2, epoch, False, False, 0.0).error is ErrorCode.NONE

    def test_each_epoch_is_new(self) -> None:
        """KIP-631: an epoch names one incarnation, of whatever broker."""
        at = Desk(STATE)
        epochs = [at.register(broker, str(turn))[1] for turn in range(3) for broker in (7, 8)]
        assert epochs == sorted(set(epochs))


class TestUncleanShutdown:
    """KIP-966: what a broker was in sync with counts after a restart only if it stopped cleanly."""

    def test_a_clean_restart_keeps_eligibility(self) -> None:
        """KIP-966: previousBrokerEpoch is the registered one: it lost nothing."""
        at = Desk(PartitionState((1, 2), (1,), 1, elr=(2,)), configs={"min.insync.replicas": "2"})
        at.die(2)
        at.register(2, clean=True)
        assert at.state().elr == (2,)

    def test_an_unclean_one_loses_it(self) -> None:
        """KIP-966: it may have lost its tail: out of ISR and ELR. Simulator bug keep-uncleanly-stopped."""
        at = Desk(PartitionState((1, 2), (1,), 1, elr=(2,)), configs={"min.insync.replicas": "2"})
        at.die(2)
        at.register(2)
        assert at.state().elr == ()

    def test_a_restart_within_the_session_is_noticed(self) -> None:
        """KIP-966: the connection's end was not seen, and the registration alone must take the seats.

        Simulator bug restart-unnoticed.
        """
        at = Desk(STATE, connected=False)
        at.register(1)
        assert (at.state().leader, at.state().isr) == (2, (2, 3))
        assert [e.name for e in at.events()] == ["leader_elected", "broker_registered"]

    def test_the_last_replica_standing(self) -> None:
        """KIP-903, KIP-966: the last of the ISR is killed and returns without its tail; it leads only as the last known
        leader, and the election counts as unclean."""
        at = Desk(PartitionState((1, 2, 3), (1,), 1), configs={"min.insync.replicas": "1"})
        at.die(1)
        assert (at.state().leader, at.state().isr, at.state().elr) == (NO_LEADER, (), (1,))
        at.register(1)
        assert (at.state().isr, at.state().elr, at.state().last_known_elr) == ((), (), (1,))
        at.events()
        at.ready(1)
        assert (at.state().leader, at.state().isr) == (1, (1,))
        elected = next(e for e in at.events() if e.name == "leader_elected")
        assert elected.fields["clean"] is False

    def test_after_a_clean_stop_it_simply_leads_again(self) -> None:
        """KIP-966: eligible, so a clean election."""
        at = Desk(PartitionState((1, 2, 3), (1,), 1))
        at.brokers.heartbeat(1, 10, False, True, 0.0)
        at.die(1)
        at.come_back(1, clean=True)
        assert at.state().leader == 1
        assert [e.fields["clean"] for e in at.events() if e.name == "leader_elected"] == [True]


class TestHeartbeat:
    def test_unfences_who_is_ready(self) -> None:
        """KIP-631, R14: and elects it where nobody leads."""
        at = Desk(PartitionState((1, 2, 3), (1,), 1))
        at.die(1)
        at.register(1, clean=True)
        assert at.brokers.heartbeat(1, 31, True, False, 0.0) == (ErrorCode.NONE, True, False)
        assert at.state().leader == NO_LEADER
        assert at.brokers.heartbeat(1, 31, False, False, 0.0) == (ErrorCode.NONE, False, False)
        assert at.state().leader == 1

    def test_fences_who_asks_for_it(self) -> None:
        """KIP-631: wantFence of an unfenced broker: it cannot serve; its session goes on."""
        at = Desk(STATE)
        assert at.brokers.heartbeat(1, 10, True, False, 5.0) == (ErrorCode.NONE, True, False)
        assert (at.state().leader, at.state().isr) == (2, (2, 3))
        assert at.brokers.sessions[1].last_contact == 5.0
        at.ready(1)
        assert at.state().isr == (2, 3), "back, but in sync only when its leader says so"

    def test_of_nobody(self) -> None:
        """KIP-631: BROKER_ID_NOT_REGISTERED makes it register."""
        assert Desk(STATE).brokers.heartbeat(9, 1, False, False, 0.0).error is ErrorCode.BROKER_ID_NOT_REGISTERED

    def test_keeps_the_session(self) -> None:
        """R15: silence for longer than broker.session.timeout.ms is death, whatever the connection says."""
        at = Desk(STATE)
        at.brokers.heartbeat(1, 10, False, False, 5.0)
        at.controller.tick(SESSION + 0.1)
        assert [b.broker_id for b in at.image.active_brokers()] == [1]
        at.controller.tick(5.0 + SESSION)
        assert not at.image.brokers[1].fenced, "exactly at the limit it is still in session"
        at.controller.tick(5.1 + SESSION)
        assert at.image.brokers[1].fenced


class TestFencing:
    def test_a_closed_connection_is_acted_on_at_once(self) -> None:
        """R14: a dead process; electing takes no session timeout."""
        at = Desk(STATE)
        at.die(1)
        assert (at.state().leader, at.state().isr, at.state().leader_epoch) == (2, (2, 3), 1)
        assert [e.name for e in at.events()] == ["broker_fenced", "leader_elected"]
        at.die(1)
        assert at.events() == []

    def test_the_connection_of_an_earlier_incarnation_says_nothing(self) -> None:
        """KIP-903: it closes late, when the next one is already there."""
        at = Desk(STATE)
        at.brokers.connection_lost(1, 9)
        at.brokers.connection_lost(99, 1)
        assert at.state() == STATE

    def test_a_refused_connection_is_a_dead_process(self) -> None:
        """R15: a new controller asks the brokers it never met, so that a double death does not take a session."""
        at = Desk(STATE, connected=False)
        at.brokers.connection_refused(1)
        assert at.state().leader == 2
        at.brokers.heartbeat(3, 30, False, False, 0.0)
        at.brokers.connection_refused(3)
        assert not at.image.brokers[3].fenced, "that one speaks to this controller"
        at.brokers.connection_refused(99)
        at.brokers.connection_refused(1)
        assert [e.name for e in at.events()].count("broker_fenced") == 1

    def test_silence_too(self) -> None:
        """R14: a hung broker, found when its session runs out."""
        at = Desk(STATE)
        at.brokers.heartbeat(2, 20, False, False, 5.0)
        at.brokers.heartbeat(3, 30, False, False, 5.0)
        at.controller.tick(SESSION + 0.5)
        assert (at.state().leader, at.state().isr) == (2, (2, 3))
        assert next(e.fields.get("reason") for e in at.events()) == "session timed out"

    def test_who_is_known_as_fenced_has_no_session(self) -> None:
        """R15: a new controller waits only for those that were alive."""
        at = Desk(STATE)
        at.die(3)
        again = Desk(STATE)
        again.image.brokers[3] = at.image.brokers[3]
        assert set(type(again.brokers)(again.controller.workspace, again.partitions, 0.0).sessions) == {1, 2}

    def test_a_session_of_a_fenced_broker_ends_without_noise(self) -> None:
        """KIP-631: it registered, and never became ready."""
        at = Desk(STATE)
        at.register(4)
        at.events()
        at.brokers.tick(100.0)
        assert 4 not in at.brokers.sessions
        assert "broker_fenced" not in [e.name for e in at.events() if e.fields.get("target") == 4]


class TestCutOff:
    """KAFKA-15489: a controller that most brokers cannot reach gives way to one that they can."""

    def heard(self, at: Desk, now: float, *brokers: int) -> None:
        for broker in brokers:
            at.brokers.heartbeat(broker, at.image.brokers[broker].epoch, False, False, now)

    def test_alone_of_three(self) -> None:
        at = Desk(STATE)
        self.heard(at, 1.9, 2)  # the last that came through; its session has not run out yet
        self.heard(at, SESSION + 0.1, 1)
        assert at.brokers.is_cut_off(SESSION + 0.1)
        assert not at.brokers.hears_most(SESSION + 0.1)

    def test_who_hears_most_stays_and_fences_the_silent_one(self) -> None:
        at = Desk(STATE)
        self.heard(at, SESSION, 1, 2)
        assert not at.brokers.is_cut_off(SESSION + 1)
        assert at.brokers.hears_most(SESSION + 1)
        at.controller.tick(SESSION + 1)
        assert at.image.brokers[3].fenced

    def test_nobody_has_run_out_yet(self) -> None:
        at = Desk(STATE)
        self.heard(at, SESSION, 1)
        assert not at.brokers.is_cut_off(SESSION)

    def test_of_two_either_may_stay(self) -> None:
        """Or both would stand back for each other for ever."""
        at = Desk(STATE)
        at.die(3)
        self.heard(at, 2 * SESSION, 1)
        assert not at.brokers.is_cut_off(2 * SESSION)

    def test_those_who_never_spoke_to_it_do_not_count_as_heard(self) -> None:
        at = Desk(STATE, connected=False)
        self.heard(at, 1.0, 1)
        assert not at.brokers.hears_most(1.0)
        self.heard(at, 1.0, 2)
        assert at.brokers.hears_most(1.0)

    def test_the_lease_is_left_to_the_others_for_two_sessions(self) -> None:
        at, resignation = Desk(STATE), ControllerResignation(SESSION)
        self.heard(at, SESSION + 0.1, 1)
        assert resignation.is_due(at.brokers, SESSION + 0.1)
        assert resignation.leaves_the_lease(3 * SESSION)
        assert not resignation.leaves_the_lease(3 * SESSION + 0.1)

    def test_if_nobody_did_better_it_stays_until_it_has_heard_most_again(self) -> None:
        at, resignation = Desk(STATE), ControllerResignation(SESSION)
        self.heard(at, SESSION + 0.1, 1)
        assert resignation.is_due(at.brokers, SESSION + 0.1)
        assert not resignation.is_due(at.brokers, SESSION + 0.2)
        self.heard(at, SESSION + 0.3, 1, 2)
        assert not resignation.is_due(at.brokers, SESSION + 0.3)
        self.heard(at, 3 * SESSION, 1)
        assert resignation.is_due(at.brokers, 3 * SESSION)

    def test_who_stood_still_itself_accuses_nobody(self) -> None:
        at = Desk(STATE)
        at.brokers.excuse(SESSION)
        at.controller.tick(SESSION + 1)
        assert not any(broker.fenced for broker in at.image.brokers.values())
        assert not at.brokers.is_cut_off(SESSION + 1)


class TestTrustIsr:
    """``minikafka.unclean.shutdown.policy=trust_isr``: the rules of the articles, before KIP-903 and KIP-966."""

    def test_a_restart_within_the_session_keeps_the_seat(self) -> None:
        """R14 before KIP-966: whatever it lost; the follower's half of story B."""
        at = Desk(STATE, config=TRUST)
        at.die(2)
        assert at.state() == STATE
        assert at.register(2)[0] is ErrorCode.NONE, "the closed connection makes the id free all the same"
        assert at.state().isr == (1, 2, 3)
        at.ready(2)
        assert at.state() == STATE

    def test_a_leader_that_restarts_is_followed_by_another(self) -> None:
        """R14 before KIP-966: its term ends, its seat stays."""
        at = Desk(STATE, config=TRUST)
        at.die(1)
        at.register(1)
        assert (at.state().leader, at.state().isr, at.state().leader_epoch) == (2, (1, 2, 3), 1)

    def test_the_only_member_leads_again_with_what_it_has(self) -> None:
        """R14 before KIP-966: the last replica standing, trusted: redpanda's kafka-fsync experiment."""
        at = Desk(replace(STATE, isr=(1,)), config=TRUST)
        at.die(1)
        at.register(1)
        assert (at.state().leader, at.state().isr) == (NO_LEADER, (1,))
        at.ready(1)
        assert (at.state().leader, at.state().isr, at.state().leader_epoch) == (1, (1,), 2)

    def test_a_refused_connection_is_not_acted_on(self) -> None:
        """R14: only sessions count there."""
        at = Desk(STATE, config=TRUST, connected=False)
        at.brokers.connection_refused(1)
        assert at.state() == STATE

    def test_a_session_that_runs_out_takes_the_seat(self) -> None:
        """R14: as ever; the last one stays in the ISR of a leaderless partition."""
        at = Desk(STATE, config=TRUST)
        at.controller.tick(SESSION + 1)
        assert (at.state().leader, len(at.state().isr)) == (NO_LEADER, 1)


class TestControlledShutdown:
    def test_leaders_move_away_first(self) -> None:
        """KIP-841: marked, out of every ISR, then told that it may stop."""
        at = Desk(STATE)
        assert at.brokers.heartbeat(1, 10, False, True, 0.0) == (ErrorCode.NONE, False, True)
        assert (at.state().leader, at.state().isr) == (2, (2, 3))
        assert at.image.brokers[1].shutting_down
        before = at.state()
        assert at.brokers.heartbeat(1, 10, False, True, 1.0).should_shut_down
        assert at.state() == before

    def test_it_is_not_elected_meanwhile(self) -> None:
        """KIP-841: it is alive and may not lead."""
        at = Desk(STATE)
        at.brokers.heartbeat(1, 10, False, True, 0.0)
        at.die(2)
        at.die(3)
        assert at.state().leader == NO_LEADER

    def test_a_restart_ends_it(self) -> None:
        """KIP-841: the next incarnation is a broker like any other."""
        at = Desk(STATE)
        at.brokers.heartbeat(1, 10, False, True, 0.0)
        at.die(1)
        at.come_back(1, clean=True)
        assert at.image.is_active(1)

    @pytest.mark.parametrize("fenced", [True, False])
    def test_of_one_that_never_became_ready(self, fenced: bool) -> None:
        """KIP-631: it leads nothing; it may stop at once."""
        at = Desk(STATE)
        _, epoch = at.register(4)
        answer = at.brokers.heartbeat(4, epoch, fenced, True, 0.0)
        assert (answer.error, answer.fenced, answer.should_shut_down) == (ErrorCode.NONE, True, True)


def test_the_cluster_of_the_desk() -> None:
    """R15: the controller starts from the image as the store has it."""
    assert Desk().image.cluster_id == CLUSTER
