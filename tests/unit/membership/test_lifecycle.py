"""Who is the controller, am I it, does it know that I live (R15, KIP-631): one step after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest
from minikafka.controller.brokers import HeartbeatAnswer
from minikafka.controller.resignation import ControllerResignation
from minikafka.membership.lifecycle import (
    BrokerLifecycle,
    Connect,
    Disconnect,
    Effect,
    Heartbeat,
    IdInUse,
    LifecycleSettings,
    MayStop,
    ReadLease,
    ReadSnapshot,
    Register,
    Registered,
    RegistrationLost,
    TakeLease,
    TermBegins,
    TermIsOver,
    Wait,
)
from minikafka.metadata.image import BROKER, BrokerState, ClusterImage
from minikafka.metadata.store import Lease, Snapshot
from minikafka.protocol.errors import ErrorCode

ME, OTHER = 1, 2
BEAT, SESSION = 2.0, 9.0
HELD = Lease(OTHER, 7, 0, "h", 92)
MINE = Lease(ME, 8, 0, "me", 91)
OK = HeartbeatAnswer(ErrorCode.NONE, False)

S = TypeVar("S")


class Life:
    """A lifecycle, and what it did to the broker."""

    def __init__(self) -> None:
        self.incarnations = 0
        self.resignation = ControllerResignation(SESSION)
        self.core = BrokerLifecycle(ME, LifecycleSettings(BEAT, SESSION), self.resignation, self._incarnation, 0.0)
        self.core.cluster_id = "a-cluster"
        self.core.previous_broker_epoch = 30

    def _incarnation(self) -> str:
        self.incarnations += 1
        return f"incarnation {self.incarnations}"

    def at(self, kind: type[S]) -> S:
        assert isinstance(self.core.step, kind)
        return self.core.step

    def read(self, lease: Lease | None, now: float = 0.0) -> list[Effect]:
        self.at(ReadLease)
        return self.core.lease_read(lease, now)

    def follows(self) -> Life:
        """Registered with broker 2, and waiting for the next heartbeat."""
        self.read(HELD)
        self.core.connected()
        self.core.registered(ErrorCode.NONE, 31, 0.0)
        self.core.heartbeat_answered(OK, 0.0)
        self.at(Wait)
        return self

    def leads(self) -> Life:
        """The controller, and registered with itself."""
        self.read(None)
        self.core.lease_taken(MINE)
        self.core.snapshot_read(MINE, Snapshot(0, {}), 0.0)
        self.core.registered(ErrorCode.NONE, 31, 0.0)
        self.core.heartbeat_answered(OK, 0.0)
        return self

    def silent(self) -> None:
        """Heartbeats have no answer, and the lease is not renewed."""
        self.core.waited()
        self.at(Heartbeat)
        self.core.unanswered()


@pytest.fixture
def life() -> Life:
    return Life()


class TestLease:
    def test_one_that_nobody_holds_is_taken(self, life: Life) -> None:
        assert life.read(None) == []
        assert life.at(TakeLease).expected_epoch == 0

    def test_the_image_is_read_after_it_is_taken(self, life: Life) -> None:
        life.read(None)
        life.core.lease_taken(MINE)
        assert life.at(ReadSnapshot).lease == MINE
        assert life.core.leads is None
        records = {f"{BROKER}4": BrokerState(4, 9, "x", (), None).to_json()}
        effects = life.core.snapshot_read(MINE, Snapshot(33, records), 0.0)
        assert [type(effect) for effect in effects] == [TermBegins]
        image = effects[0].image  # type: ignore[union-attr]
        assert (image.cluster_id, image.revision, image.brokers[4].epoch) == ("a-cluster", 33, 9)
        assert (life.core.leads, life.core.controller_id, life.core.controller_epoch) == (8, ME, 8)
        assert life.at(Register).seconds is None

    def test_a_race_that_was_lost(self, life: Life) -> None:
        life.read(None)
        life.core.lease_taken(None)
        life.read(HELD)
        assert life.at(Connect).controller == OTHER

    def test_one_of_a_term_that_this_process_knows_nothing_of(self, life: Life) -> None:
        """Of the process before, or whose answer was lost."""
        life.read(replace(MINE, epoch=3))
        assert life.at(TakeLease).expected_epoch == 3

    def test_who_stands_back_leaves_it_to_the_others(self, life: Life) -> None:
        life.resignation.begin(0.0)
        life.read(MINE, 1.0)
        life.at(Wait)
        life.core.poke()
        life.at(Wait)
        life.core.waited()
        life.read(MINE, 2 * SESSION)
        assert life.at(TakeLease).expected_epoch == MINE.epoch

    @pytest.mark.parametrize("step", ["read", "take", "snapshot"])
    def test_a_store_that_is_away(self, life: Life, step: str) -> None:
        if step != "read":
            life.read(None)
        if step == "snapshot":
            life.core.lease_taken(MINE)
        assert life.core.store_failed() == []
        life.at(Wait)
        life.core.waited()
        life.at(ReadLease)
        assert life.core.leads is None


class TestTerm:
    def test_it_heartbeats_to_itself(self, life: Life) -> None:
        life.leads()
        assert life.at(Wait).seconds == BEAT
        life.core.waited()
        assert life.at(Heartbeat).seconds is None

    def test_its_end_is_felt_at_once(self, life: Life) -> None:
        life.leads()
        life.core.term_ended(8)
        life.at(ReadLease)
        assert life.core.leads is None
        life.read(MINE)
        assert life.at(TakeLease).expected_epoch == 8

    def test_the_end_of_an_earlier_one_is_not(self, life: Life) -> None:
        life.leads()
        life.core.term_ended(7)
        assert life.core.leads == 8

    def test_it_ends_when_another_holds_the_lease(self, life: Life) -> None:
        life.leads()
        life.core.waited()
        life.core.heartbeat_answered(HeartbeatAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID), 0.0)
        assert life.core.leads == 8
        life.core.waited()
        assert life.read(Lease(OTHER, 9, 0, "h", 92)) == [TermIsOver("lease is held by another")]
        assert life.core.leads is None
        life.at(Connect)


class TestConnection:
    def test_to_the_holder(self, life: Life) -> None:
        life.read(HELD)
        step = life.at(Connect)
        assert (step.host, step.port, step.controller, step.seconds) == ("h", 92, OTHER, BEAT)
        life.core.connected()
        assert life.at(Register).seconds == 2 * BEAT

    def test_refused(self, life: Life) -> None:
        """The process is gone."""
        life.read(HELD)
        life.core.connection_refused()
        assert life.at(TakeLease).expected_epoch == HELD.epoch

    def test_that_does_not_come(self, life: Life) -> None:
        """That alone says nothing: a session without a sign of life in the store does."""
        life.read(HELD, 0.0)
        life.core.connect_failed(SESSION)
        life.at(Wait)
        life.core.waited()
        life.read(HELD, SESSION + 1)
        life.core.connect_failed(SESSION + 1)
        life.at(TakeLease)

    def test_a_renewed_lease_is_a_sign_of_life(self, life: Life) -> None:
        life.read(HELD, 0.0)
        life.core.connect_failed(1.0)
        life.core.waited()
        life.read(replace(HELD, renewed=1), SESSION)
        life.core.connect_failed(SESSION + 1)
        life.at(Wait)

    def test_that_closes_is_felt_at_once(self, life: Life) -> None:
        life.follows()
        life.core.disconnected()
        life.read(HELD)
        life.at(Connect)

    def test_that_is_taken_and_closed_without_a_word_says_nothing(self, life: Life) -> None:
        """So does a proxy that stands before a dead holder: only the lease tells, or it would be tried for ever."""
        life.read(HELD, 0.0)
        life.core.connected()
        life.core.disconnected()
        life.read(HELD, 1.0)
        life.at(Wait)
        life.core.waited()
        life.read(HELD, 2.0)
        life.core.connected()
        life.core.disconnected()
        life.read(HELD, SESSION + 1)
        assert life.at(TakeLease).expected_epoch == HELD.epoch

    def test_a_closed_one_of_before_changes_nothing(self, life: Life) -> None:
        life.core.disconnected()
        life.at(ReadLease)
        life.leads()
        life.core.disconnected()
        life.at(Wait)


class TestSilence:
    def test_the_lease_is_looked_at(self, life: Life) -> None:
        """And the connection is kept: to hang up would look like our death."""
        life.follows().silent()
        assert life.read(HELD, SESSION) == []
        life.at(Heartbeat)

    def test_of_a_session(self, life: Life) -> None:
        life.follows().silent()
        assert life.read(HELD, SESSION + 0.1) == []
        assert life.at(TakeLease).expected_epoch == HELD.epoch
        assert life.core.lease_taken(MINE) == [Disconnect()]

    def test_another_is_the_controller_by_now(self, life: Life) -> None:
        life.follows().silent()
        assert life.read(Lease(3, 8, 0, "g", 93)) == [Disconnect()]
        assert life.at(Connect).controller == 3

    def test_while_the_store_is_away(self, life: Life) -> None:
        """Nobody else can take the lease either."""
        life.follows().silent()
        assert life.core.store_failed() == []
        life.at(Heartbeat)

    def test_one_that_says_it_is_no_controller(self, life: Life) -> None:
        """While it renews the lease it may be about to be one; else its term is free."""
        life.follows()
        life.core.waited()
        refused = HeartbeatAnswer(ErrorCode.NOT_CONTROLLER)
        assert life.core.heartbeat_answered(refused, SESSION) == [Disconnect()]
        life.at(Wait)
        life.core.waited()
        life.read(HELD, SESSION + 1)
        life.core.connected()
        assert life.core.heartbeat_answered(refused, SESSION + 1) == [Disconnect()]
        assert life.at(TakeLease).expected_epoch == HELD.epoch

    def test_two_that_are_cut_off_leave_it_to_the_rest(self, life: Life) -> None:
        """One resigned, the other took over and resigns: the rest sees that only after a session. It was taken back at once."""
        life.follows().core.waited()
        life.resignation.begin(0.0)
        refused = HeartbeatAnswer(ErrorCode.NOT_CONTROLLER)
        assert life.core.heartbeat_answered(refused, 1.5 * SESSION) == [Disconnect()]
        life.at(Wait)
        assert life.resignation.leaves_the_lease(3.5 * SESSION - 0.1) and not life.resignation.leaves_the_lease(
            3.5 * SESSION
        )

    def test_a_silent_one_is_left_to_the_others_while_it_stands_back(self, life: Life) -> None:
        life.resignation.begin(0.0)
        life.read(HELD, 0.0)
        assert life.core.connect_failed(1.5 * SESSION) == []
        life.at(Wait)
        life.core.waited()
        life.read(HELD, 2 * SESSION)
        assert life.core.connect_failed(2 * SESSION) == []
        assert life.at(TakeLease).expected_epoch == HELD.epoch


class TestRegistration:
    def test_with_what_the_last_incarnation_left(self, life: Life) -> None:
        life.read(HELD)
        life.core.connected()
        step = life.at(Register)
        assert (step.incarnation, step.previous_broker_epoch) == ("incarnation 1", 30)
        assert life.core.registered(ErrorCode.NONE, 31, 0.0) == [Registered(31)]
        beat = life.at(Heartbeat)
        assert (beat.broker_epoch, beat.want_fence, beat.want_shut_down) == (31, True, False)

    def test_it_is_kept_under_the_next_controller(self, life: Life) -> None:
        life.follows()
        life.core.disconnected()
        life.read(Lease(3, 8, 0, "g", 93))
        life.core.connected()
        assert life.at(Heartbeat).broker_epoch == 31

    @pytest.mark.parametrize(
        ("error", "effects"),
        [
            (ErrorCode.DUPLICATE_BROKER_REGISTRATION, [IdInUse(), Disconnect()]),
            (ErrorCode.INCONSISTENT_CLUSTER_ID, [Disconnect()]),
        ],
    )
    def test_that_is_refused(self, life: Life, error: ErrorCode, effects: list[Effect]) -> None:
        life.read(HELD)
        life.core.connected()
        assert life.core.registered(error, -1, 0.0) == effects
        life.at(Wait)
        assert life.core.broker_epoch == -1

    @pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
    def test_that_is_lost(self, life: Life, error: ErrorCode) -> None:
        """As another incarnation, which nothing is known to have survived: the marker was the last one's (KIP-966)."""
        life.follows()
        life.core.replicas_settled(False)
        assert life.at(Heartbeat).want_fence is False
        assert life.core.heartbeat_answered(HeartbeatAnswer(error), 0.0) == [RegistrationLost(31)]
        step = life.at(Register)
        assert (step.incarnation, step.previous_broker_epoch) == ("incarnation 2", -1)
        assert (life.core.broker_epoch, life.core.want_fence) == (-1, True)

    def test_in_the_image(self, life: Life) -> None:
        """Of this incarnation, not of another under this id."""
        image = ClusterImage("a-cluster")
        image.brokers[ME] = BrokerState(ME, -1, "x", (), None)
        assert life.core.in_image(image) is None
        image.brokers[ME] = BrokerState(ME, 31, "x", (), None)
        assert life.core.in_image(image) is None
        life.follows()
        assert life.core.in_image(image) is image.brokers[ME]
        image.brokers[ME] = BrokerState(ME, 32, "x", (), None)
        assert life.core.in_image(image) is None


class TestWishes:
    def test_a_poke_is_a_heartbeat(self, life: Life) -> None:
        life.follows()
        life.core.fence()
        assert life.at(Heartbeat).want_fence

    def test_one_while_a_heartbeat_is_under_way_is_another(self, life: Life) -> None:
        life.follows()
        life.core.waited()
        under_way = life.at(Heartbeat)
        life.core.shut_down()
        assert life.at(Heartbeat) is under_way
        life.core.heartbeat_answered(OK, 0.0)
        assert life.at(Heartbeat).want_shut_down
        assert life.core.heartbeat_answered(replace_answer(should_shut_down=True), 0.0) == [MayStop()]
        life.at(Wait)

    def test_replicas_that_match_the_image_may_lead(self, life: Life) -> None:
        life.follows()
        life.core.replicas_settled(False)
        assert life.at(Heartbeat).want_fence is False
        life.core.heartbeat_answered(OK, 0.0)
        life.core.replicas_settled(False)
        life.at(Wait)

    def test_not_with_a_log_offline(self, life: Life) -> None:
        life.follows()
        life.core.replicas_settled(False, has_offline_logs=True)
        life.at(Wait)
        assert life.core.want_fence

    def test_a_term_that_was_given_up_is_ended_first(self, life: Life) -> None:
        """The controller must hear of the wish to be fenced, and end the term, before it is taken back."""
        life.follows()
        life.core.replicas_settled(False)
        life.core.heartbeat_answered(OK, 0.0)
        life.core.replicas_settled(True)
        assert life.at(Heartbeat).want_fence
        life.core.heartbeat_answered(OK, 0.0)
        life.core.replicas_settled(True)
        life.at(Wait)
        life.core.replicas_settled(False)
        assert life.at(Heartbeat).want_fence is False


def test_a_mistake_begins_all_anew(life: Life) -> None:
    life.follows()
    life.core.waited()
    assert life.core.failed() == [Disconnect()]
    life.at(ReadLease)


def replace_answer(**changed: bool) -> HeartbeatAnswer:
    return OK._replace(**changed)  # type: ignore[arg-type]
