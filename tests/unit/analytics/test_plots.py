"""Plots: labels stand over what they name, paths are the figures they are drawn from, and one time axis serves a run."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Any

import pytest
from minikafka_analytics.report import svg
from minikafka_analytics.report.svg import Plot
from minikafka_analytics.report.timeline import NARROW, ROOMY, Timeline, label_width, labels

from tests.forms import for_each

Record = dict[str, Any]


def fault(number: int, began: float, ended: float | None) -> Record:
    return {"number": number, "began": began, "ended": ended, "title": f"kill -9 of broker {number % 3}"}


def some_faults(seed: int) -> tuple[float, list[Record]]:
    chance = random.Random(seed)
    seconds = chance.choice((0.5, 20.0, 1800.0))
    began = sorted(chance.uniform(0, seconds) for _ in range(chance.choice((1, 2, 7, 60, 311))))
    return seconds, [fault(n, at, chance.choice((None, at + 0.01, at + seconds / 10))) for n, at in enumerate(began, 1)]


def numbers(text: str) -> set[int]:
    first, _, last = text.replace("F", "").partition("–")
    return set(range(int(first), int(last or first) + 1))


@for_each(product(range(40), (NARROW, ROOMY, 980)))
def test_every_label_stands_over_its_own_faults_and_over_no_other(seed: int, width: int) -> None:
    seconds, faults = some_faults(seed)
    found = labels(faults, seconds, width)
    assert [number for label in found for number in sorted(numbers(label.text))] == [row["number"] for row in faults]
    for label, after in zip(found, [*found[1:], None], strict=True):
        low, high = label.at * width, label.at * width + label.width()
        assert low >= 0
        assert high <= width + 1e-6
        if after is not None:
            assert high < after.at * width
        own = numbers(label.text)
        over = {row["number"] for row in faults if low < row["began"] / seconds * width < high}
        assert over <= own
        first = next(row for row in faults if row["number"] == min(own))
        starts = first["began"] / seconds * width
        assert low == pytest.approx(min(starts, width - label.width()), abs=1e-6)


def test_a_label_is_as_wide_as_its_text_needs() -> None:
    assert label_width("F1") < label_width("F1–311") <= NARROW / 3


def points_of(path: str) -> list[list[tuple[float, float]]]:
    """A path of M and l, read back as a browser reads it."""
    pieces: list[list[tuple[float, float]]] = []
    for part in path.split("M")[1:]:
        first, _, rest = part.partition("l")
        x, y = map(float, first.split())
        pieces.append([(x, -y)])
        steps = [float(word) for word in rest.split()]
        for dx, dy in zip(steps[::2], steps[1::2], strict=True):
            x, y = x + dx, y + dy
            pieces[-1].append((x, -y))
    return pieces


def test_a_line_is_its_figures() -> None:
    rows = [(0.5, 0.0, True), (1.0, 12.0, False), (2.5, 7_000_001.0, False), (3.0, None, False), (4.0, 5.0, False)]
    plot = Plot("offsets", Timeline("A", 20.0, []), 200, 7_000_001.0, unit="offset")
    plot.line(rows, "b1", "broker 1")
    (path,) = re.findall(r'<path class="line b1" d="(.*?)"', plot.svg())
    assert points_of(path) == [[(500, 0), (1000, 12), (2500, 7_000_001)], [(4000, 5)]]


def test_a_line_is_not_drawn_over_a_silence() -> None:
    plot = Plot("offsets", Timeline("A", 20.0, []), 200, 10.0)
    plot.line([(1.0, 1.0, True), (2.0, 2.0, False), (9.0, 3.0, True), (10.0, 4.0, False)], "b1", "broker 1")
    (path,) = re.findall(r'<path class="line b1" d="(.*?)"', plot.svg())
    assert [len(piece) for piece in points_of(path)] == [2, 2]


def test_logarithmic_values_can_be_read_back() -> None:
    plot = Plot("latency", Timeline("A", 20.0, []), 200, 5_000.0, 0.4, logarithmic=True, unit="ms")
    for value in (0.4, 3.14, 4_321.0):
        assert plot.lowest * 10 ** (plot.value(value) / svg.LOG_PARTS) == pytest.approx(value, rel=2e-4)


def test_all_plots_of_a_run_have_one_time_axis() -> None:
    """Whatever stands to the left of a plot, its time begins at the same place and has the same scale."""
    line = Timeline("A", 1800.0, [fault(1, 3.0, 5.0)])
    offsets = Plot("offsets", line, 200, 1e9, unit="offset")
    offsets.line([(0.0, 1.0, True), (1800.0, 1e9, False)], "b1", "broker 1")
    roles = Plot("roles", line, 120)
    roles.heading(12, "a-topic-with-a-very-long-name" * 3)
    roles.lane(30, [(0.0, 900.0)], "leads", "bank-0", "leads", "1")
    views = re.findall(r'viewBox="(\S+) \S+ (\S+) \S+"', offsets.svg() + roles.svg(value_axis=False))
    assert len(views) == 4
    assert set(views) == {("0", "180000")}
    for drawing in (offsets.svg(), roles.svg(value_axis=False)):
        assert '<use href="#times-A"' in drawing
        assert '<use href="#cursor-A"' in drawing


def test_nothing_with_words_is_stretched() -> None:
    """Type inside of a drawing that is made smaller on a phone is made smaller with it."""
    line = Timeline("A", 20.0, [fault(1, 3.0, 5.0)])
    plot = Plot("offsets", line, 200, 10.0, unit="offset")
    plot.line([(0.0, 1.0, True), (20.0, 9.0, False)], "b1", "broker 1")
    plot.lane(30, [(0.0, 9.0)], "leads", "bank-0", "leads", "1")
    plot.mark(3.0, 50.0, 4.0, '<text class="mark-text">−2</text>', "a cut")
    for drawing in (plot.svg(), line.parts()):
        for _, inside in re.findall(r"<svg ([^>]*viewBox[^>]*)>(.*?)</svg>", drawing):
            assert "<text" not in inside
        assert "<text" in drawing


def test_a_stretch_too_short_to_be_seen_has_a_line() -> None:
    line = Timeline("A", 1800.0, [])
    plot = Plot("roles", line, 120)
    plot.lane(30, [(10.0, 10.3), (100.0, 900.0)], "gap struck", "bank-0", "nothing acknowledged")
    (hair,) = re.findall(r'<path class="hair.*?d="(.*?)"', plot.svg())
    assert hair == "M1000 24v12"


def test_evidence_stays_text() -> None:
    line = Timeline("A", 20.0, [{**fault(1, 3.0, 5.0), "title": '"><script>alert(1)</script>'}])
    plot = Plot('"><script>', line, 200, 10.0, unit="<b>")
    plot.line([(0.0, 1.0, True)], "b1", '"><script>')
    plot.heading(1, "<script>")
    plot.lane(3, [(0.0, 1.0)], "leads", '"><script>', "leads", "<script>")
    assert "<script" not in plot.svg() + line.parts()
