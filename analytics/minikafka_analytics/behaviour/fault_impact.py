"""What faults did: which of them preceded an event, how partitions came through them, which explain a gap or a silence.

All of it is about what the report shows row by row, and is joined here, of one run at a time, when Spark's answers are with the
driver. Joins in time look up the moment in sorted spans, so many faults and many events do not multiply.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import Any, NamedTuple

Record = dict[str, Any]

BLAMED_FOR_SECONDS = 20.0
"""A fault is named as what preceded an event until this long after it was healed: then catching up is over (or never)."""
LEFT_WITHIN_SECONDS = 5.0
"""A broker that leaves the ISR, or a leader that is elected, within this time after a fault was healed does so because of it."""
ANYONE = -1
"""The lane of faults on any broker."""


class Span(NamedTuple):
    """From when until when a fault counts. Sorted as spans: by when it ends, then as numbered."""

    until: float
    number: int
    began: float


class Spans:
    """The spans of faults, by broker, to be asked which one holds at a moment."""

    def __init__(self, spans: Iterable[tuple[int, Span]]) -> None:
        lanes: dict[int, list[Span]] = defaultdict(list)
        for lane, span in spans:
            lanes[lane].append(span)
        self._spans = {lane: sorted(found, key=lambda span: (span.began, span)) for lane, found in lanes.items()}
        self._began = {lane: [span.began for span in found] for lane, found in self._spans.items()}
        self._longest = {lane: list(accumulate(found, max)) for lane, found in self._spans.items()}

    def at(self, lane: int | None, time: float) -> Span | None:
        """Return the one that began last, unless it is over by then: then the one that lasts longest."""
        if lane not in self._spans:
            return None
        before = bisect_right(self._began[lane], time) - 1
        if before < 0:
            return None
        for span in (self._spans[lane][before], self._longest[lane][before]):
            if span.until >= time:
                return span
        return None


def blows(faults: Sequence[Record], seconds_more: float = 0.0) -> Iterable[tuple[int, Span]]:
    """A span for each fault and broker that it struck; it counts until `seconds_more` after it was healed."""
    for fault in faults:
        for broker in fault["brokers"]:
            yield broker, _span(fault, seconds_more)


def _span(fault: Record, seconds_more: float) -> Span:
    return Span(_ended(fault) + seconds_more, fault["number"], fault["began"])


def _ended(fault: Record) -> float:
    return inf if fault["ended"] is None else float(fault["ended"])


class Blame:
    """Which fault preceded an event.

    It is the latest that had begun and was not healed for long; one that hit a broker that the event concerns goes before one
    that did not. It says what came before, which is as far as an observer can go.
    """

    def __init__(self, faults: Sequence[Record]) -> None:
        anyone = ((ANYONE, _span(fault, BLAMED_FOR_SECONDS)) for fault in faults)
        self._spans = Spans([*blows(faults, BLAMED_FOR_SECONDS), *anyone])

    def attribute(self, rows: Iterable[Record]) -> list[Record]:
        """Rows with `time` and `concerned` (brokers), and with `fault` (a number or None) and `after_fault` (seconds) added."""
        return [{**row, **self._before(row["concerned"], row["time"])} for row in rows]

    def _before(self, concerned: Sequence[int | None], time: float) -> Record:
        held = [(lane != ANYONE, span) for lane in (*concerned, ANYONE) if (span := self._spans.at(lane, time))]
        if not held:
            return {"fault": None, "after_fault": None}
        _, best = max(held, key=lambda each: (each[0], each[1].began, each[1].number))
        return {"fault": best.number, "after_fault": time - best.began}


def noticed(faults: Sequence[Record], events: Iterable[Record]) -> dict[int, float]:
    """Seconds from each fault to the moment when the controller fenced a broker of it; those it never did are left out."""
    spans = Spans(blows(faults))
    found: dict[int, float] = {}
    for event in events:
        if event["event"] == "broker_fenced" and (span := spans.at(event["target"], event["time"])):
            found[span.number] = min(event["time"] - span.began, found.get(span.number, inf))
    return found


def overlapping(faults: Sequence[Record], low: float, high: float) -> list[int]:
    """The numbers of the faults that lasted at some time from `low` to `high`."""
    return [fault["number"] for fault in faults if fault["began"] <= high and _ended(fault) >= low]


def recoveries(
    faults: Sequence[Record], terms: Sequence[Record], isr: Sequence[Record], pauses: Sequence[Record]
) -> list[Record]:
    """How partitions came through faults, in seconds after these began: a row only where something happened, None where not.

    - led: a broker of the fault led the partition when it began. re_elected: until the next leader took over (None with
      `led`: it kept the lead or nobody was elected before the broker was struck again).
    - gap: the longest pause of acknowledgements that a client would notice, and that began before the fault or within a
      second of it and ended after it began; re_acknowledged: from the fault to the end of that pause.
    - shrunk: until the ISR first lost a broker of the fault; full_isr: until the ISR had every replica again.
    """
    led = _led(faults, terms)
    paused = {(row["number"], row["topic"], row["partition"]): row for row in pauses}
    left = _left(faults, isr)
    by_number = {fault["number"]: fault for fault in faults}
    rows = []
    for key in sorted(key for key in led.keys() | paused.keys() | left.keys() if key[2] is not None):
        number, topic, partition = key
        began, ended = by_number[number]["began"], by_number[number]["ended"]
        office, pause, seat = led.get(key), paused.get(key), left.get(key)
        led_from: float | None = None if office is None else office["led_from"]
        in_time = led_from is not None and led_from <= (led_from if ended is None else ended) + LEFT_WITHIN_SECONDS
        rows.append(
            {
                "number": number,
                "topic": topic,
                "partition": partition,
                "led": office is not None,
                "old_leader": office and office["old_leader"],
                "new_leader": office and office["new_leader"],
                "re_elected": None if led_from is None or not in_time else led_from - began,
                "gap": pause and pause["gap"],
                "re_acknowledged": pause and pause["acked_at"] - began,
                "never_again": bool(pause and pause["never_again"]),
                "shrunk": seat and seat["time"] - began,
                "full_isr": None if seat is None or seat["full_at"] is None else seat["full_at"] - began,
            }
        )
    return rows


RECOVERED = ("noticed", "re_elected", "re_acknowledged", "full_isr")
"""Times of a fault that kinds of faults are compared by: its own, else the worst of its partitions."""
PERCENTILES = {"p50": 50, "p95": 95, "max": 100}


def by_kind(faults: Sequence[Record]) -> list[Record]:
    """Faults as the report tells them, summed up by name: the most frequent first.

    Of each time: `of`, how many faults of the kind have it, and percentiles over these (seconds), each a time that occurred
    (nearest rank).
    """
    kinds: dict[str, list[Record]] = defaultdict(list)
    for fault in faults:
        kinds[fault["name"]].append(fault)
    return [
        {
            "name": name,
            "faults": len(found),
            "not_healed": sum(fault["ended"] is None for fault in found),
            "never_acknowledged": sum(fault["worst"]["never_acknowledged"] > 0 for fault in found),
            "never_full": sum(fault["worst"]["never_full"] > 0 for fault in found),
            **{
                time: _percentiles(fault[time] if time in fault else fault["worst"][time] for fault in found)
                for time in RECOVERED
            },
        }
        for name, found in sorted(kinds.items(), key=lambda each: (-len(each[1]), each[0]))
    ]


def _percentiles(times: Iterable[float | None]) -> Record:
    known = sorted(time for time in times if time is not None)
    ranks = {
        name: known[max(-(-len(known) * share // 100), 1) - 1] if known else None for name, share in PERCENTILES.items()
    }
    return {"of": len(known), **ranks}


Key = tuple[int, str, int]


def _led(faults: Sequence[Record], terms: Sequence[Record]) -> dict[Key, Record]:
    """Return for each fault the partitions that a broker of it led when it began, with the next leader."""
    struck: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for fault in faults:
        for broker in fault["brokers"]:
            struck[broker].append((fault["began"], fault["number"]))
    for moments in struck.values():
        moments.sort()
    found: dict[Key, Record] = {}
    for term in terms:
        moments = struck.get(term["leader"], [])
        first = bisect_left(moments, (term["began"], 0))
        last = len(moments) if term["until"] is None else bisect_left(moments, (term["until"], 0))
        for _, number in moments[first:last]:
            key = (number, term["topic"], term["partition"])
            known = found.get(key)
            found[key] = {
                "old_leader": _most(known and known["old_leader"], term["leader"]),
                "new_leader": _most(known and known["new_leader"], term["next_leader"]),
                "led_from": _least(known and known["led_from"], term["next_led_from"]),
            }
    return found


def _left(faults: Sequence[Record], isr: Sequence[Record]) -> dict[Key, Record]:
    """Return for each fault the partitions whose ISR lost a broker of it: the first such change."""
    spans = Spans(blows(faults, LEFT_WITHIN_SECONDS))
    found: dict[Key, Record] = {}
    for change in isr:
        for broker in () if change["first"] else change["removed"]:
            if span := spans.at(broker, change["time"]):
                key = (span.number, change["topic"], change["partition"])
                if key not in found or change["time"] < found[key]["time"]:
                    found[key] = change
    return found


def _most(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else max(one, other)


def _least(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else min(one, other)
