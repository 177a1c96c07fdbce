"""What `make bench` makes of its figures: when a contender is warm, and the two ratios."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import warming
from bench.loads import Figures
from bench.measurements import SHORT, Bench, Row
from bench.summary import KAFKA, MINI, compare
from bench.warming import LOOKS_MAX, is_steady, until_steady


@pytest.mark.parametrize(
    ("looks", "steady"),
    [
        ([], False),
        ([28.0], False),
        ([10.5, 10.5], False),  # one look to compare with, and two that gain nothing on it
        ([10.5, 10.4, 10.6], True),
        ([28.0, 17.0, 12.0], False),
        ([28.0, 12.0, 11.9], False),  # the gain is one look ago
        ([28.0, 12.0, 11.9, 11.5], True),
        ([12.0, 30.0, 11.9], True),  # a disturbed look is not taken for a cold one
        ([12.0, 30.0, 10.0], False),
    ],
)
def test_warm_is_what_gains_nothing_any_more(looks: list[float], steady: bool) -> None:
    assert is_steady(looks) is steady


def test_it_looks_until_then_and_no_longer() -> None:
    costs = iter([28.0, 20.0, 14.0, 11.0, 10.5, 10.4, 1.0])
    assert until_steady(lambda: next(costs)) == [28.0, 20.0, 14.0, 11.0, 10.5, 10.4]
    falling = iter(range(100, 0, -1))
    halves = until_steady(lambda: 2.0 ** next(falling))
    assert len(halves) == LOOKS_MAX
    assert not is_steady(halves)


def test_a_look_is_the_cpu_of_the_brokers_over_what_was_produced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading is for warming only: it counts for neither."""
    spent = iter([0.0, 6.0, 10.0, 13.0, 20.0, 22.9, 30.0, 32.8])  # before and after each look's producing

    class Subject:
        bootstrap = "nobody:1"

        def pids(self) -> list[int]:
            return [1, 2, 3]

    class Quiet(Bench):
        @contextmanager
        def topic(self, label: str, partitions: int = 3) -> Iterator[str]:
            yield label

    monkeypatch.setattr(warming, "cpu_seconds", lambda pids: next(spent))
    monkeypatch.setattr(warming, "java_produce", lambda *_, **__: Figures({}, 250_000_000, 0.0))
    monkeypatch.setattr(warming, "raw_load", lambda *_, **__: Figures({}, 500_000_000, 0.0))
    monkeypatch.setattr(warming, "raw_compressed", lambda *_: Figures({}, 0, 0.0))
    assert warming.warm_up(Quiet(Subject(), SHORT, print)) == [6.0, 3.0, 2.9, 2.8]  # type: ignore[arg-type]


def row(contender: str, number: int, mb_s: float, cpu_s: float) -> Row:
    return Row(contender, "produce_256k", number, {"mb_s": mb_s}, 10.0, 1.0, cpu_s, 1.0, 0.0, 100.0, 100.0)


def test_best_to_best_stands_beside_the_medians() -> None:
    """A cold first round moves the median of few rounds, and never the best."""
    rows = [row(KAFKA, n, mb_s, cpu) for n, (mb_s, cpu) in enumerate([(40.0, 28.0), (50.0, 20.0), (80.0, 10.0)])]
    rows += [row(MINI, n, mb_s, cpu) for n, (mb_s, cpu) in enumerate([(90.0, 6.0), (100.0, 5.0), (120.0, 4.0)])]
    throughput, cpu = compare(rows)
    assert (throughput.ratio, throughput.best_ratio) == (2.0, 1.5)
    assert (cpu.ratio, cpu.best_ratio) == (0.25, 0.4)
    assert throughput.reached is cpu.reached is True
