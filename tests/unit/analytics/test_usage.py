"""What brokers used in and outside of faults' times, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_analytics.behaviour.resources import COUNTERS
from minikafka_analytics.behaviour.usage import by_broker, unlike, usage

CLOCK = {"began": 0.0, "ended": 100.0, "silence": 3.0}


def row(time: float, broker: int = 1, started: float | None = 0.5, **counters: float) -> dict[str, Any]:
    told = {"time": time, "started": started, **dict.fromkeys(COUNTERS), **counters}
    return {"broker": broker, "told": told, "last_failed": None}


def failed(time: float, broker: int = 1) -> dict[str, Any]:
    return {"broker": broker, "told": None, "last_failed": time}


def fault(number: int, began: float, ended: float | None) -> dict[str, Any]:
    return {"number": number, "began": began, "ended": ended}


def used(rows: list[dict[str, Any]], *faults: dict[str, Any], ended: float = 100.0) -> tuple[list[Any], dict[Any, Any]]:
    return usage(by_broker(rows), faults, CLOCK | {"ended": ended})


def test_each_measure_is_what_counters_grew_by() -> None:
    counters = {"cpu": 1.0, "flush_seconds": 2.0, "flushes": 10.0, "produce_seconds": 1.0, "produce_requests": 5.0}
    later = {"cpu": 1.5, "flush_seconds": 2.2, "flushes": 50.0, "produce_seconds": 1.3, "produce_requests": 8.0}
    found, _ = used([row(1, **counters), row(3, **later)])
    assert {each["measure"]: each["median"] for each in found} == {
        "cpu": pytest.approx(0.25),
        "fsync": pytest.approx(0.005),
        "fsync share": pytest.approx(0.1),
        "Produce": pytest.approx(0.1),
    }


def test_a_faults_time_against_the_time_without_one() -> None:
    grown = [0.1, 0.2, 0.3, 0.2, 0.2, 0.9, 0.8, 0.7, 0.1]  # per second; those that end at 6, 7 and 8 s are of the fault
    rows, cpu = [row(0, cpu=0.0)], 0.0
    for second, growth in enumerate(grown, 1):
        cpu += growth
        rows.append(row(second, cpu=cpu))
    found, _ = used(rows, fault(1, 5.5, 9.0))
    calm, struck = found
    assert (calm["fault"], calm["scrapes"], calm["median"], calm["score"]) == (None, 6, pytest.approx(0.2), None)
    assert calm["mad"] == pytest.approx(0.05)  # of 0.1, 0, 0.1, 0, 0 and 0.1
    assert (struck["fault"], struck["scrapes"]) == (1, 3)
    assert (struck["median"], struck["most"]) == (pytest.approx(0.8), pytest.approx(0.9))
    assert struck["score"] == pytest.approx(0.6745 * 0.6 / 0.05)
    assert unlike(found) == [struck]


def test_a_fault_that_is_never_healed_lasts_to_the_end() -> None:
    found, _ = used([row(second, cpu=second / 10) for second in range(5)], fault(1, 1.5, None))
    assert [(each["fault"], each["scrapes"], each["score"]) for each in found] == [(None, 1, None), (1, 3, None)]


def test_another_process_and_a_counter_that_fell_tell_nothing() -> None:
    rows = [
        row(1, cpu=50.0), row(2, cpu=51.0),
        row(3, started=2.5, cpu=60.0),  # another process, though its counter is larger
        row(4, started=None, cpu=70.0), row(5, started=None, cpu=1.0), row(6, started=None, cpu=1.5),
    ]  # fmt: skip
    found, left_out = used(rows)
    assert [(each["scrapes"], each["most"]) for each in found] == [(2, 1.0)]
    assert left_out[1]["anew"] == 3


def test_nothing_is_told_over_a_silence() -> None:
    found, left_out = used([row(1, cpu=1.0), failed(3), row(9, cpu=2.0), row(10, cpu=2.5)])
    assert [(each["scrapes"], each["most"]) for each in found] == [(1, 0.5)]
    assert left_out[1]["apart"] == 1


def test_steps_of_a_long_run_are_no_silence() -> None:
    found, left_out = used([row(10, cpu=1.0), row(28, cpu=2.8)], ended=10_000.0)  # steps of 10 s
    assert (found[0]["median"], left_out[1]["apart"]) == (pytest.approx(0.1), 0)


def test_metrics_that_are_missing_are_named() -> None:
    found, left_out = used([row(1, flush_seconds=1.0, flushes=1.0), row(2, flush_seconds=1.0, flushes=1.0)])
    assert [(each["measure"], each["median"]) for each in found] == [("fsync share", 0.0)]  # nothing was flushed
    assert left_out[1]["missing"] == [
        "process_cpu_seconds_total",
        "minikafka_request_duration_seconds_sum",
        "minikafka_request_duration_seconds_count",
    ]
    assert used([failed(1)])[1] == {1: {"anew": 0, "apart": 0, "missing": []}}  # no scrape, no metric to miss
