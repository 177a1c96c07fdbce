"""Deadlines that move."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from minikafka.groups.timers import Now, TimerQueue


def test_a_moved_deadline_fires_once_at_its_last_place() -> None:
    """Heartbeats only ever move deadlines."""
    queue = TimerQueue()
    fired: list[float] = []
    timer = queue.timer(lambda now: fired.append(now.monotonic))
    timer.set(10)
    timer.set(20)
    timer.set(15)
    assert queue.next_deadline() == 15
    queue.run(Now(12, 0))
    assert fired == []
    queue.run(Now(15, 0))
    queue.run(Now(30, 0))
    assert fired == [15]
    assert queue.next_deadline() is None


def test_a_timer_set_while_it_runs_waits_for_the_next_run() -> None:
    """So a run ends, whatever is set to happen at once."""
    queue = TimerQueue()
    runs: list[int] = []
    timer = queue.timer(lambda _: (runs.append(1), timer.set(5)))
    timer.set(5)
    queue.run(Now(5, 0))
    assert runs == [1]
    assert queue.next_deadline() == 5


def test_a_timer_cancelled_by_another_one_of_the_same_moment_does_not_fire() -> None:
    """The member that is removed has no session to expire."""
    queue = TimerQueue()
    fired: list[str] = []
    second = queue.timer(lambda _: fired.append("second"))
    first = queue.timer(lambda _: (fired.append("first"), second.cancel()))
    first.set(1)
    second.set(1)
    queue.run(Now(1, 0))
    assert fired == ["first"]


@given(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 20))), max_size=60))
def test_next_deadline_is_the_earliest_one(steps: list[tuple[int, int | None]]) -> None:
    """Against a plain dictionary; each tick fires exactly what is due."""
    queue = TimerQueue()
    fired: list[int] = []
    timers = [queue.timer(lambda _, number=number: fired.append(number)) for number in range(4)]
    expected: dict[int, int] = {}
    now = 0
    for number, deadline in steps:
        if number == 4:
            now += deadline or 0
            due = {n for n, d in expected.items() if d <= now}
            fired.clear()
            queue.run(Now(now, 0))
            assert set(fired) == due
            assert len(fired) == len(due)
            expected = {n: d for n, d in expected.items() if n not in due}
        elif deadline is None:
            timers[number].cancel()
            expected.pop(number, None)
        else:
            timers[number].set(deadline)
            expected[number] = deadline
        assert queue.next_deadline() == min(expected.values(), default=None)
