"""What a report has room for of what brokers used, and the words for it."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_analytics.behaviour import observed
from minikafka_analytics.report.page import figure, resources_shown


def used(broker: int, fault: int | None, score: float | None = None, scrapes: int = 9) -> dict[str, Any]:
    figures = {"scrapes": scrapes, "median": 0.2, "mad": 0.1, "most": 0.3}
    return {"broker": broker, "fault": fault, "measure": "cpu", **figures, "score": score}


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        ("cpu", 0.2, "20 %"),
        ("fsync share", 0.0123, "1.2 %"),
        ("fsync", 0.00012, "0.12 ms"),
        ("Produce", 0.0021, "2.10 ms"),
        ("Fetch", 0.5, "0.50 s"),
        ("fsync", 0.0, "0.00 ms"),
    ],
)
def test_figures_are_told_in_a_unit_that_reads_well(measure: str, value: float, text: str) -> None:
    assert figure(measure, value) == text


def test_the_page_shows_what_is_unlike_the_rest_and_what_is_left_out() -> None:
    rows = [used(1, None), used(1, 1, -4.0), used(1, 2, 3.0), used(1, 3, 9.0), used(1, 4, 99.0, scrapes=2)]
    shown = resources_shown(rows, [{"anew": 2, "apart": 1}])
    assert [row["fault"] for row, calm in shown["unlike"] if calm == rows[0]] == [3, 1]
    assert (shown["titles"], shown["when"]) == (["cpu"], "In the time without faults")
    assert shown["left_out"].startswith("Left out: 2 pairs of neighbouring scrapes")
    whole = resources_shown(rows[:1], [{"anew": 0, "apart": 0}])
    assert (whole["when"], whole["left_out"]) == ("Over the whole run", "")


def test_of_very_many_figures_the_oddest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [used(1, None), used(1, 1, 0.5), used(1, 2, -7.0), used(1, 3, None)]
    monkeypatch.setattr(observed, "MOST_FIGURES", 2)
    assert observed.most_odd(rows) == ([rows[0], rows[2]], {"resources": {"among": 4, "told": 2}})
    monkeypatch.setattr(observed, "MOST_FIGURES", 4)
    assert observed.most_odd(rows) == (rows, {})
