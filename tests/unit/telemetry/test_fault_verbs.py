"""The rows of the verbs: what one that is added must say, and what is derived of them."""

from __future__ import annotations

import pytest
from minikafka.telemetry.fault_verbs import (
    ENDING,
    GROUNDS,
    LACKS,
    RULES,
    TAKE_OUT,
    TOGETHER,
    UNDOING,
    Lost,
    Serving,
    Verb,
    verbs,
)


def test_every_verb_has_a_row() -> None:
    assert set(RULES) == set(Verb)


@pytest.mark.parametrize("verb", Verb)
def test_a_row_agrees_with_itself(verb: Verb) -> None:
    rule = verb.rule
    assert rule.does.endswith(".")
    assert not (rule.lasts and rule.undoes), "what undoes something does not last"
    assert all(undone.rule.lasts for undone in rule.undoes)
    assert rule.means or not rule.lasts, "a report says what it means"
    assert rule.lacks.keys() <= set(GROUNDS)
    if rule.undoes:
        assert rule.serving is Serving.GOES_ON
        assert rule.lost is Lost.NOTHING
        assert not rule.leaves_damage


def test_what_follows_from_the_rows() -> None:
    assert {Verb.START, Verb.RESUME, Verb.HEAL, Verb.RECOVER} == UNDOING
    assert {Verb.KILL, Verb.TERMINATE, Verb.RESTART, Verb.POWER_LOSS} == ENDING
    assert ENDING | {Verb.PAUSE, Verb.CUT, Verb.FAILING_FSYNC, Verb.DISK_FULL} == TAKE_OUT
    assert verbs(lambda rule: rule.leaves_damage and not rule.lasts) == {Verb.WIPE_UNFLUSHED, Verb.WIPE_VOLUME}
    assert verbs(lambda rule: rule.is_of_links) == {Verb.CUT, Verb.DELAY, Verb.LOSS}
    assert verbs(lambda rule: rule.makes_ready) == {Verb.START, Verb.RESTART, Verb.RECOVER}
    assert verbs(lambda rule: "millis" in rule.needs) == {Verb.DELAY, Verb.SLOW_FSYNC, Verb.CLOCK_STEP}
    assert LACKS["processes"] == {}
    assert set(LACKS["simulation"]) == {Verb.SLOW_FSYNC}


def test_a_verb_is_said_in_words() -> None:
    assert Verb.POWER_LOSS.kind == "power_loss"
    assert [verb.plain_name for verb in (Verb.POWER_LOSS, Verb.KILL, Verb.DISK_FULL)] == [
        "power loss",
        "kill -9",
        "full disk",
    ]
    assert TOGETHER[frozenset((Verb.KILL, Verb.WIPE_UNFLUSHED))] == "power loss"
    assert TOGETHER[frozenset((Verb.TERMINATE, Verb.WIPE_VOLUME))] == "disk loss after a clean stop"
