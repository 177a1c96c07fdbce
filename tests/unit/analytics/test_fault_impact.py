"""Which fault preceded what: sorted spans against the plain definition, and how partitions came through faults."""

from __future__ import annotations

import random
from math import inf
from typing import Any

import pytest
from minikafka_analytics.behaviour import fault_impact

from tests.forms import for_each

Record = dict[str, Any]


def fault(number: int, began: float, ended: float | None, *brokers: int) -> Record:
    return {"number": number, "began": began, "ended": ended, "brokers": list(brokers)}


def by_definition(faults: list[Record], concerned: list[int], time: float) -> tuple[int | None, float | None]:
    """The fault that `Blame` has to name, by comparing with every fault."""
    best: tuple[bool, float, int] | None = None
    for lane in (*concerned, fault_impact.ANYONE):
        own = lane != fault_impact.ANYONE
        begun = [each for each in faults if each["began"] <= time and (not own or lane in each["brokers"])]
        if not begun:
            continue

        def until(each: Record) -> float:
            return inf if each["ended"] is None else each["ended"] + fault_impact.BLAMED_FOR_SECONDS

        last = max(begun, key=lambda each: (each["began"], until(each), each["number"]))
        longest = max(begun, key=lambda each: (until(each), each["number"], each["began"]))
        held = next((each for each in (last, longest) if until(each) >= time), None)
        if held is not None:
            candidate = (own, held["began"], held["number"])
            best = candidate if best is None else max(best, candidate)
    return (None, None) if best is None else (best[2], time - best[1])


@for_each(range(50))
def test_blame_is_the_latest_fault_that_had_begun_and_was_not_healed_for_long(seed: int) -> None:
    chance = random.Random(seed)
    faults = []
    for number in range(1, chance.randint(1, 12)):
        began = chance.uniform(0, 200)
        ended = None if chance.random() < 0.2 else began + chance.choice((0.1, 5, 80))
        faults.append(fault(number, began, ended, *chance.sample((1, 2, 3), chance.randint(0, 2))))
    rows: list[Record] = [
        {"id": n, "time": chance.uniform(-10, 260), "concerned": chance.sample((1, 2, 3, -1), chance.randint(0, 2))}
        for n in range(40)
    ]
    told = fault_impact.Blame(faults).attribute(rows)
    assert [(row["fault"], row["after_fault"]) for row in told] == [
        by_definition(faults, row["concerned"], row["time"]) for row in rows
    ]


def test_a_fault_is_noticed_when_a_broker_of_it_is_fenced_for_the_first_time() -> None:
    faults = [fault(1, 10.0, 12.0, 1), fault(2, 20.0, None, 2)]
    events: list[Record] = [
        {"event": "broker_fenced", "target": 1, "time": 11.5},
        {"event": "broker_fenced", "target": 1, "time": 11.0},
        {"event": "broker_fenced", "target": 1, "time": 13.0},  # after it was healed: for another reason
        {"event": "broker_unfenced", "target": 2, "time": 21.0},
        {"event": "broker_fenced", "target": None, "time": 21.0},
    ]
    assert fault_impact.noticed(faults, events) == {1: 1.0}


def test_faults_overlap_what_they_last_into() -> None:
    faults = [fault(1, 0.0, 1.0), fault(2, 4.0, None), fault(3, 9.0, 10.0)]
    assert fault_impact.overlapping(faults, 1.0, 3.0) == [1]
    assert fault_impact.overlapping(faults, 2.0, 3.0) == []
    assert fault_impact.overlapping(faults, 100.0, 101.0) == [2]


def term(epoch: int, leader: int, began: float, until: float | None, **then: Any) -> Record:
    after = {"next_leader": None, "next_led_from": None, **then}
    return {
        "topic": "t",
        "partition": 0,
        "leader_epoch": epoch,
        "leader": leader,
        "began": began,
        "until": until,
        **after,
    }


def change(time: float, *removed: int, first: bool = False, full_at: float | None = None) -> Record:
    return {"topic": "t", "partition": 0, "time": time, "removed": list(removed), "first": first, "full_at": full_at}


def test_a_partition_led_by_the_broker_that_was_struck() -> None:
    terms = [term(0, 1, 0.0, 10.3, next_leader=2, next_led_from=10.3), term(1, 2, 10.3, None)]
    isr = [change(0.0, first=True), change(10.2, 1, full_at=14.0), change(11.0, 1, full_at=15.0)]
    pause = {"number": 1, "topic": "t", "partition": 0, "gap": 0.6, "acked_at": 10.7, "never_again": False}
    (row,) = fault_impact.recoveries([fault(1, 10.0, 12.0, 1)], terms, isr, [pause])
    assert (row["led"], row["old_leader"], row["new_leader"]) == (True, 1, 2)
    assert (row["re_elected"], row["gap"], row["re_acknowledged"]) == pytest.approx((0.3, 0.6, 0.7))
    assert (row["shrunk"], row["full_isr"], row["never_again"]) == (pytest.approx(0.2), pytest.approx(4.0), False)


@pytest.mark.parametrize(
    ("ended", "next_led_from", "re_elected"),
    [(12.0, 17.1, None), (12.0, 17.0, 7.0), (None, 99.0, 89.0), (12.0, None, None)],
)
def test_an_election_long_after_the_fault_was_healed_is_not_because_of_it(
    ended: float | None, next_led_from: float | None, re_elected: float | None
) -> None:
    terms = [term(0, 1, 0.0, None, next_leader=2, next_led_from=next_led_from)]
    (row,) = fault_impact.recoveries([fault(1, 10.0, ended, 1)], terms, [], [])
    assert (row["led"], row["re_elected"], row["gap"], row["full_isr"]) == (True, re_elected, None, None)


def reported_fault(
    number: int, name: str, noticed: float | None, full_isr: float | None, never_full: int = 0
) -> Record:
    worst = {"re_elected": None, "re_acknowledged": None, "full_isr": full_isr}
    worst |= {"never_acknowledged": 0, "never_full": never_full}
    return {"number": number, "name": name, "ended": None if never_full else 2.0, "noticed": noticed, "worst": worst}


def test_kinds_of_faults_are_summed_up_over_those_that_have_the_time() -> None:
    kills = [reported_fault(n, "kill -9", None if n == 3 else n / 10, n / 1.0) for n in range(1, 22)]
    kind, other = fault_impact.by_kind([reported_fault(90, "pause", None, None, never_full=1), *kills])
    assert (kind["name"], kind["faults"], kind["not_healed"]) == ("kill -9", 21, 0)
    assert kind["noticed"] == {"of": 20, "p50": 1.1, "p95": 2.0, "max": 2.1}
    assert kind["full_isr"] == {"of": 21, "p50": 11.0, "p95": 20.0, "max": 21.0}
    assert kind["re_elected"] == {"of": 0, "p50": None, "p95": None, "max": None}
    assert (other["name"], other["faults"], other["not_healed"], other["never_full"]) == ("pause", 1, 1, 1)


def test_nothing_is_told_of_partitions_that_no_fault_touched() -> None:
    terms = [term(0, 1, 0.0, 10.0), term(1, 2, 10.0, None)]  # its term ended at the moment when the fault began
    isr = [change(10.0, 3, full_at=11.0), change(18.0, 1)]
    assert fault_impact.recoveries([fault(1, 10.0, 12.0, 1)], terms, isr, []) == []


def test_many_faults_and_many_events_do_not_multiply() -> None:
    class Counted(float):
        compared = 0

        def __lt__(self, other: object) -> bool:
            Counted.compared += 1
            return float.__lt__(self, other)  # type: ignore[operator]

    faults = [fault(n, Counted(n), n + 0.5, n % 3) for n in range(1, 201)]
    blame = fault_impact.Blame(faults)
    Counted.compared = 0
    rows = [{"time": Counted(n / 20), "concerned": [n % 3]} for n in range(4_000)]
    assert len(blame.attribute(rows)) == 4_000
    # Two look-ups of eight comparisons each; all with all would be 800,000.
    assert 4_000 < Counted.compared < 4_000 * 40
