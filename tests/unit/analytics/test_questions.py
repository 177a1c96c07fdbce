"""Steps and answers are computed when what they need is there, in whichever order they are declared."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from minikafka_analytics.spark.questions import Questions

DEADLINE_S = 60


class Row:
    def __init__(self, value: str) -> None:
        self._value = value

    def asDict(self, recursive: bool) -> dict[str, str]:
        return {"value": self._value}


class Frame(str):
    """In place of a DataFrame: its one row holds its name."""

    def collect(self) -> list[Row]:
        return [Row(self)]


class Kept:
    """In place of Steps: notes what is landed, in which order."""

    def __init__(self) -> None:
        self.landed: list[tuple[str, bool]] = []

    def land(self, name: str, frame: Any, few: bool = False) -> Any:
        self.landed.append((name, few))
        return frame


def together(*frames: Any) -> Any:
    return Frame("+".join(frames))


def test_a_step_waits_for_what_it_needs_also_when_that_is_declared_later() -> None:
    kept: Any = Kept()
    with Questions(kept) as ask:
        ask.answer("sum", together, "b", "a")
        ask.step("b", lambda a: together("b", a), "a", few=True)
        ask.add_table("a", lambda: together("a"))
        assert ask.answers() == {"sum": [{"value": "b+a+a"}]}
    assert kept.landed == [("b", True)]


def test_what_does_not_need_each_other_is_computed_at_once() -> None:
    both = threading.Barrier(2)

    def meet() -> Any:
        both.wait(DEADLINE_S)
        return Frame("met")

    kept: Any = Kept()
    with Questions(kept) as ask:
        ask.step("one", meet)
        ask.step("other", meet)
        ask.answer("both", together, "one", "other")
        assert ask.answers() == {"both": [{"value": "met+met"}]}


@pytest.mark.parametrize("chain", [1, 5])
def test_what_fails_fails_all_that_needs_it_and_waits_for_nobody(chain: int) -> None:
    def fail() -> Any:
        raise ValueError("no such table")

    kept: Any = Kept()
    with Questions(kept) as ask:
        ask.step("0", fail)
        for n in range(chain):
            ask.step(str(n + 1), together, str(n))
        ask.answer("last", together, str(chain))
        with pytest.raises(ValueError, match="no such table"):
            ask.answers()
    assert kept.landed == []


def test_nothing_runs_on_when_something_else_has_failed() -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow() -> Any:
        begun.set()
        ended.wait(DEADLINE_S)
        return Frame("slow")

    kept: Any = Kept()

    def interrupted() -> None:
        with Questions(kept) as ask:
            ask.step("slow", slow)
            ask.step("after", together, "slow")
            begun.wait(DEADLINE_S)
            ended.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ("slow", False) in kept.landed
    assert not [thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name and thread.is_alive()]


def test_what_was_asked_is_told_of_views_too() -> None:
    kept: Any = Kept()
    kept.whole = lambda frame: frame
    with Questions(kept) as ask:
        ask.add_table("lines", lambda: together("lines"))
        ask.view("fit", together, "lines")
        ask.step("counted", together, "fit")
        ask.answer("counts", together, "counted")
        ask.answers()
        told = [(each["name"], each["answer"], each["needs"]) for each in ask.asked()]
    assert told == [("fit", False, ["lines"]), ("counted", False, ["fit"]), ("counts", True, ["counted"])]
