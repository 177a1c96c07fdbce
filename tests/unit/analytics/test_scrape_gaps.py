"""Metrics against events: which events no scrape met, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_analytics.behaviour.observed import unseen
from minikafka_analytics.behaviour.scrape_gaps import FENCED_BROKER, ISR_SHRINK, LEADER_CHANGE, scrape_coverage

CLOCK = {"began": 0.0, "ended": 100.0, "silence": 3.0, "scraped_until": 100.0}
LANE = {"topic": "t", "partition": 0}


def sighting(time: float, epoch: int | None, size: int | None, before: float | None = None) -> dict[str, Any]:
    return {**LANE, "leader": 1, "leader_epoch": epoch, "isr_size": size, "time": time, "before": before}


def term(
    began: float, epoch: int, until: float | None = None, leader: int = 1, previous: int | None = 2
) -> dict[str, Any]:
    return {
        **LANE,
        "began": began,
        "until": until,
        "leader_epoch": epoch,
        "leader": leader,
        "previous_leader": previous,
    }


def shrink(time: float, isr: list[int], until: float | None = None, removed: tuple[int, ...] = (3,)) -> dict[str, Any]:
    return {**LANE, "time": time, "until": until, "isr": isr, "removed": list(removed), "first": False}


def event(time: float, name: str, target: int = 2) -> dict[str, Any]:
    return {"time": time, "event": name, "target": target}


def scraped(scrapes: int = 100, failed: tuple[float, ...] = (), answered: float | None = 0.0) -> dict[str, Any]:
    first, last = (failed[0], failed[-1]) if failed else (None, None)
    told = None if answered is None else {"time": answered}
    return {
        "scrapes": scrapes, "failed": len(failed), "first_failed": first, "last_failed": last, "told": told,
        "first_answered": answered,
    }  # fmt: skip


def blind(until: float = 100.0, of_brokers: dict[int, Any] | None = None, **found: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {name: [] for name in ("terms", "isr", "events", "sightings", "silences")}
    return scrape_coverage({"clocks": [CLOCK], **nothing, **found}, of_brokers or {}, until)


def row(found: dict[str, Any], what: str) -> dict[str, Any]:
    return next(each for each in found["events"] if each["what"] == what)


def test_a_leader_whose_epoch_no_scrape_told() -> None:
    sightings = [sighting(1, 1, 3), sighting(12, 3, 3, before=9)]
    terms = [term(0, 1, 10, previous=None), term(10, 2, 11), term(11, 3, 50), term(50, 4, None, leader=-1)]
    found = row(blind(terms=terms, sightings=sightings), LEADER_CHANGE)
    assert (found["events"], found["unseen"], found["slowest"]) == (2, 1, 1.0)
    assert found["examples"] == [{"time": 10, "until": 11, "topic": "t", "partition": 0, "broker": None}]


def test_a_shrink_that_was_over_before_the_next_scrape() -> None:
    sightings = [
        sighting(1, 1, 3),
        sighting(20, 1, 2, before=19),
        sighting(30, 1, 3, before=25),
        sighting(60, 1, 3, 59),
    ]
    changes = [
        shrink(10.2, [1, 2], until=10.8),  # all scrapes at the time told 3
        shrink(18.5, [1, 2], until=29.5),
        shrink(24, [1, 4], until=29.5),  # another one went and one came: 2 was told before and after
        shrink(40, [1], until=None),
        shrink(50, [1, 2], until=50.5),  # a leader told 2 before, and never again
        {**shrink(5, [1, 2, 3], removed=()), "added": [3]},
    ]
    found = row(blind(isr=changes, sightings=sightings), ISR_SHRINK)
    assert (found["events"], found["unseen"], found["slowest"]) == (5, 3, 1.5)
    assert [each["time"] for each in found["examples"]] == [10.2, 40, 50]
    assert found["looks"] == 3  # the last scrape told what the one before it did


def test_a_fenced_broker_is_seen_by_scrapes_that_fail() -> None:
    events = [
        event(10, "broker_fenced"),
        event(20, "broker_unfenced"),
        event(30, "broker_fenced"),
        event(31, "broker_unfenced"),
    ]
    rows = {2: [scraped(), scraped(9, (8.0, 12.0), None), scraped(1, (31.5,), None)]}
    found = row(blind(events=events, of_brokers=rows), FENCED_BROKER)
    assert (found["events"], found["unseen"], found["slowest"]) == (2, 1, 2.0)
    assert found["examples"] == [{"time": 30, "until": 31, "topic": None, "partition": None, "broker": 2}]


def test_only_events_of_the_runs_time_that_are_all_told_count() -> None:
    changes = [shrink(-1, [1]), shrink(5, [1]), shrink(50, [1])]
    assert row(blind(until=20.0, isr=changes, sightings=[sighting(1, 1, 3)]), ISR_SHRINK)["events"] == 1


def test_without_gauges_nothing_is_known_of_events() -> None:
    found = blind(terms=[term(10, 2)], isr=[shrink(10, [1])], sightings=[sighting(1, 1, None)])
    assert (row(found, LEADER_CHANGE)["unseen"], row(found, ISR_SHRINK)["unseen"]) == (1, None)
    assert [line[:40] for line in unseen(found)] == [
        "No scrape saw 1 of 1 leader change: what",
        "Whether scrapes saw 1 ISR shrink is not ",
        "Scrapes saw 1 leader epoch of which no e",
    ]


def test_clocks_that_differ() -> None:
    found = blind(terms=[term(10, 2), term(20, 3)], sightings=[sighting(7.5, 2, 3), sighting(19.9, 3, 3, before=19)])
    assert found["skew"] == 2.5
    assert row(found, LEADER_CHANGE)["slowest"] == 0.0
    assert any("2.50 s before its event" in line for line in unseen(found))


@pytest.mark.parametrize(
    ("rows", "silences", "unscraped", "longest"),
    [
        ([scraped(answered=1.0)], [], 0.0, 0.0),
        ([scraped(answered=9.0)], [], 9.0, 9.0),
        ([scraped(5, (1.0, 2.0), None)], [], 100.0, 100.0),
        ([scraped()], [(10.0, 15.0), (90.0, 120.0)], 15.0, 10.0),
        ([scraped(answered=5.0)], [(-20.0, 5.0)], 5.0, 5.0),  # answered before the run began
    ],
)
def test_how_long_nobody_looked(
    rows: list[dict[str, Any]], silences: list[tuple[float, float]], unscraped: float, longest: float
) -> None:
    gaps = [{"broker": 2, "began": low, "ended": high} for low, high in silences]
    (found,) = blind(of_brokers={2: rows}, silences=[*gaps, {"broker": 3, "began": 0.0, "ended": 99.0}])["brokers"]
    assert (found["unscraped"], found["longest"]) == (unscraped, longest)


def test_an_empty_run() -> None:
    assert blind(clocks=[])["events"] == []
