"""What a controller decides counts when it is in the store, and its term ends with the first thing that is not (R15)."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka.controller.brokers import CUT_OFF
from minikafka.controller.controller import Controller
from minikafka.controller.heartbeats import Heartbeats
from minikafka.controller.resignation import ControllerResignation
from minikafka.controller.term import Commit, ControllerTerm, Effect, Failed, GiveAnswer, Happened, TermEnded
from minikafka.controller.topics import NewTopic
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import PartitionState
from minikafka.metadata.store import FencedControllerError, Lease, StoreError
from minikafka.protocol.errors import ErrorCode

from .desk import Desk

ME = 1
SESSION = 8.0
STATE = PartitionState((1, 2, 3), (1, 2, 3), 1)


class Term:
    """A term on a desk: what it wanted, and what was answered."""

    def __init__(self, connected: bool = True) -> None:
        self.desk = Desk(STATE, config=ControllerConfig(session_timeout=SESSION), connected=connected)
        self.resignation = ControllerResignation(SESSION)
        self.term = ControllerTerm(ME, Lease(ME, 5, 0, "h", 1), self.desk.controller, self.resignation)
        self.answers: list[Any] = []
        self.effects: list[Effect] = []
        self.run(self.term.decide(0.0))
        self.effects.clear()

    def run(self, effects: list[Effect]) -> list[Effect]:
        """Carry out, but for commits."""
        self.effects += effects
        for effect in effects:
            if isinstance(effect, GiveAnswer):
                effect.give()
        return effects

    def create(self, name: str) -> None:
        self.run(self.term.submit(lambda c: c.topics.create(NewTopic(name, 1, 3)).name, self.answers.append))

    def decide(self, now: float = 0.0) -> list[Commit]:
        return [e for e in self.run(self.term.decide(now)) if isinstance(e, Commit)]

    def told(self) -> list[str]:
        return [effect.event.name for effect in self.effects if isinstance(effect, Happened)]

    def ends(self) -> list[str]:
        return [effect.reason for effect in self.effects if isinstance(effect, TermEnded)]

    def codes(self) -> list[ErrorCode]:
        return [answer.code for answer in self.answers]


@pytest.fixture
def at() -> Term:
    return Term()


class TestCommits:
    def test_no_answer_and_no_event_before_the_commit(self, at: Term) -> None:
        at.create("new")
        commits = at.decide()
        assert [(c.controller_epoch, list(c.records)) for c in commits] == [(5, ["topic/new"])]
        assert (at.answers, at.told()) == ([], [])
        at.run(at.term.committed())
        assert at.answers == ["new"]
        assert at.told() == ["topic_created"]
        assert isinstance(at.effects[-1], GiveAnswer), "who is answered finds the event told"

    def test_what_comes_meanwhile_shares_the_next(self, at: Term) -> None:
        at.create("a")
        at.create("b")
        assert [sorted(c.records) for c in at.decide()] == [["topic/a", "topic/b"]]
        at.create("c")
        at.create("d")
        assert at.decide() == [], "one at a time"
        at.run(at.term.committed())
        assert at.answers == ["a", "b"]
        assert [sorted(c.records) for c in at.decide()] == [["topic/c", "topic/d"]]

    def test_what_waits_is_decided_in_turns(self, at: Term) -> None:
        """Of 200 requests at once a broker stood still for 3 s, and the lease was not renewed."""
        for name in ("a", "b", "c"):
            at.create(name)
        turns = iter((False, True, False))
        (commit,) = [e for e in at.run(at.term.decide(0.0, lambda: next(turns))) if isinstance(e, Commit)]
        assert sorted(commit.records) == ["topic/a", "topic/b"] and at.term.has_requests
        at.run(at.term.committed())
        assert at.answers == ["a", "b"]
        assert [sorted(c.records) for c in at.decide()] == [["topic/c"]] and not at.term.has_requests

    def test_what_changes_nothing_is_answered_at_once(self, at: Term) -> None:
        at.run(at.term.submit(lambda c: len(c.image.brokers), at.answers.append))
        assert at.decide() == []
        assert at.answers == [3]

    def test_a_refusal_is_an_answer(self, at: Term) -> None:
        at.create("t")
        at.create("new")
        assert len(at.decide()) == 1
        assert at.answers == []
        at.run(at.term.committed())
        assert (at.answers[0].code, at.answers[1]) == (ErrorCode.TOPIC_ALREADY_EXISTS, "new")
        assert not at.term.over

    @pytest.mark.parametrize("error", [FencedControllerError("another has the lease"), StoreError("away")])
    def test_one_that_fails_ends_the_term(self, at: Term, error: StoreError) -> None:
        """Also when its outcome is unknown: the image holds what may not be in the store."""
        at.create("new")
        at.decide()
        at.create("later")
        at.run(at.term.commit_failed(error))
        assert at.codes() == [ErrorCode.NOT_CONTROLLER] * 2
        assert (at.told(), at.ends()) == ([], [str(error)])
        at.create("too late")
        assert at.codes() == [ErrorCode.NOT_CONTROLLER] * 3
        assert at.decide() == []

    def test_one_that_ends_after_the_term(self, at: Term) -> None:
        """Who waited has heard of no success, and does not hear of one now."""
        at.create("new")
        at.decide()
        at.run(at.term.end("broker stops"))
        assert at.codes() == [ErrorCode.NOT_CONTROLLER]
        assert at.term.committed() == [] and at.term.commit_failed(StoreError("x")) == []
        assert at.ends() == ["broker stops"]


class TestMistakes:
    def test_one_in_a_decision_ends_the_term(self, at: Term) -> None:
        """Who asked is not told to try the next controller; nothing that was decided beside it is written."""

        def decide(_: Controller) -> None:
            raise LookupError("a mistake that nobody made")

        at.create("before")
        at.run(at.term.submit(decide, at.answers.append))
        at.create("after")
        assert at.decide(now=3.0) == []
        assert at.codes() == [
            ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER
        ]  # fmt: skip
        assert [str(e.error) for e in at.effects if isinstance(e, Failed)] == ["a mistake that nobody made"]
        assert at.ends() == ["internal error: LookupError('a mistake that nobody made')"]
        assert at.resignation.leaves_the_lease(3.0 + 2 * SESSION - 0.1)

    def test_one_after_the_end_is_nobodys(self, at: Term) -> None:
        at.term.end("over")
        assert at.term.failed(LookupError("x"), 0.0) == []


class TestTime:
    def test_sessions_are_looked_at(self, at: Term) -> None:
        for broker in (1, 2):
            at.desk.brokers.heartbeat(broker, 10 * broker, False, False, SESSION)
        at.run(at.term.tick(SESSION + 0.1))
        commit = at.decide()[0]
        assert commit.records["broker/3"]["fenced"] is True

    def test_a_tick_that_comes_late_excuses_everybody(self, at: Term) -> None:
        """The process was paused: it cannot know who spoke meanwhile."""
        at.term.tick(0.0)
        at.term.woke(100.0)
        assert not at.run(at.term.tick(100.0))
        assert at.decide() == [] and not at.term.over

    def test_one_in_time_excuses_nobody(self, at: Term) -> None:
        at.term.tick(0.0)
        at.term.woke(at.term.tick_seconds * 1.5)
        assert {session.last_contact for session in at.desk.brokers.sessions.values()} == {0.0}

    def test_who_hears_nobody_resigns_and_leaves_the_lease(self, at: Term) -> None:
        """KAFKA-15489."""
        at.run(at.term.tick(SESSION + 0.1))
        assert at.ends() == [CUT_OFF]
        assert at.resignation.leaves_the_lease(SESSION + 0.2)

    def test_strangers_are_asked(self) -> None:
        """A controller that never met them: a refused connection says that they are gone, silence says nothing yet."""
        at = Term(connected=False)
        assert at.term.strangers() == [2, 3]
        at.run(at.term.connection_refused(3))
        commit = at.decide()[0]
        assert [key for key in commit.records if key.startswith("broker/")] == ["broker/3"]
        assert at.term.strangers() == [2]

    @pytest.mark.parametrize(("error", "ends"), [(FencedControllerError("lost"), ["lost"]), (StoreError("away"), [])])
    def test_a_renewal_that_fails(self, at: Term, error: StoreError, ends: list[str]) -> None:
        """While the store is away nobody else can take the lease either."""
        at.run(at.term.renewal_failed(error))
        assert at.ends() == ends

    def test_a_renewal(self, at: Term) -> None:
        at.term.renewed(Lease(ME, 5, 1, "h", 1))
        assert (at.term.lease.renewed, at.term.epoch) == (1, 5)


class TestConnections:
    def test_the_end_of_one_is_a_death(self, at: Term) -> None:
        at.run(at.term.connection_lost(Heartbeats(2, 20, 5), 0.0))
        assert at.decide()[0].records["broker/2"]["fenced"] is True

    def test_one_of_an_earlier_term_says_nothing(self, at: Term) -> None:
        """That term ended, brokers hung up for want of answers, and this broker is the controller again."""
        at.run(at.term.connection_lost(Heartbeats(2, 20, 4), 0.0))
        assert at.decide() == []

    @pytest.mark.parametrize("woken", [False, True], ids=["before the tick", "after the tick"])
    def test_one_that_ended_while_this_process_stood_still_makes_a_stranger(self, at: Term, woken: bool) -> None:
        """Found by a test on processes: a paused controller woke up and fenced everybody that had hung up for want of answers."""
        at.term.tick(0.0)
        if woken:
            at.term.woke(100.0)
            at.run(at.term.tick(100.0))
        at.run(at.term.connection_lost(Heartbeats(2, 20, 5), 100.1))
        assert at.decide(100.1) == []
        assert at.term.strangers() == [2]
        at.run(at.term.connection_refused(2))
        assert at.decide(100.2)[0].records["broker/2"]["fenced"] is True

    def test_soon_after_it_an_end_is_a_death_again(self, at: Term) -> None:
        at.term.tick(0.0)
        at.term.woke(100.0)
        at.run(at.term.tick(100.0))
        at.run(at.term.connection_lost(Heartbeats(2, 20, 5), 100.0 + at.term.tick_seconds))
        assert at.decide(100.6)[0].records["broker/2"]["fenced"] is True

    def test_whose_heartbeats_count(self, at: Term) -> None:
        assert at.term.has_registered(2, 20)
        assert not at.term.has_registered(2, 19) and not at.term.has_registered(9, 90)


def test_it_ends_once(at: Term) -> None:
    at.run(at.term.resign("asked to", 1.0))
    at.run(at.term.end("again"))
    at.run(at.term.tick(2.0))
    assert at.ends() == ["asked to"]
    assert at.resignation.leaves_the_lease(2.0)
