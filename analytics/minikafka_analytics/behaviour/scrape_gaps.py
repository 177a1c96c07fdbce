"""Metrics against events: what no scrape saw, for how long nobody looked, and what scrapes saw of which no event tells.

Gauges tell what is, so a state that was over before the next scrape is in none of them. Times are unix seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

Record = dict[str, Any]
Place = tuple[str, int]

LEADER_CHANGE, ISR_SHRINK, FENCED_BROKER = "leader change", "ISR shrink", "fenced broker"
SEEN_BY = {
    LEADER_CHANGE: "a leader that tells the new leader epoch",
    ISR_SHRINK: "a leader that tells an ISR of the new size",
    FENCED_BROKER: "the broker that does not answer",
}
"""What a scrape has to meet, before the next change, for the event to be seen."""

MOST_UNSEEN = 1_000
"""Events of each kind that are told one by one."""
SKEW_SECONDS = 0.5
"""A leader may be scraped before the event of its election is written; earlier than this by a whole while it cannot."""


class Sighting(NamedTuple):
    """What leaders of a partition told at each scrape from `began` to `ended`."""

    leader_epoch: int | None
    isr_size: int | None
    began: float
    ended: float


class Mark(NamedTuple):
    """An event that a gauge tells of. `until`: when it was over (None: not before the run was)."""

    time: float
    until: float | None
    topic: str | None
    partition: int | None
    broker: int | None
    seen: bool
    seen_after: float | None  # seconds, where the first scrape that saw it is known


def scrape_coverage(
    found: Mapping[str, Sequence[Record]], scraped: Mapping[int, Sequence[Record]], until: float
) -> Record:
    """`brokers`, how each was scraped; `events`, how many of each kind there were and how many no scrape saw.

    Events after `until` are not counted, for not all of them are with the driver. `looks`: what scrapes tell of such things;
    without any of it nothing could be seen (`unseen` None). `slowest`: seconds until a scrape saw an event, at most.
    `skew`: by how many seconds a leader epoch was seen before its event, at most; `unlogged`: leader epochs that were seen, and
    of which no event tells.

    The first leader and the first ISR of a partition are no events. A broker that was cut off from its peers alone answers
    scrapes, and is fenced all the same.
    """
    clock = found["clocks"][0] if found["clocks"] else None
    if clock is None:
        return {"brokers": [], "events": [], "skew": None, "unlogged": 0}
    seen = sightings(found["sightings"])
    ended = min(clock["ended"], until)
    marks = {
        LEADER_CHANGE: list(_leader_changes(found["terms"], seen)),
        ISR_SHRINK: list(_shrinks(found["isr"], seen)),
        FENCED_BROKER: list(_fenced(found["events"], scraped)),
    }
    looks = {
        LEADER_CHANGE: sum(each.leader_epoch is not None for own in seen.values() for each in own),
        ISR_SHRINK: sum(each.isr_size is not None for own in seen.values() for each in own),
        FENCED_BROKER: sum(row["scrapes"] for own in scraped.values() for row in own),
    }
    epochs = {(row["topic"], row["partition"], row["leader_epoch"]): row["began"] for row in found["terms"]}
    first = {
        (*place, each.leader_epoch): each.began
        for place, own in seen.items()
        for each in reversed(own)
        if each.leader_epoch is not None
    }
    early = [epochs[epoch] - time for epoch, time in first.items() if epoch in epochs]
    return {
        "brokers": [_scraped(broker, own, found["silences"], clock) for broker, own in scraped.items()],
        "events": [
            _counted(what, [mark for mark in marks[what] if clock["began"] <= mark.time <= ended], looks[what])
            for what in SEEN_BY
        ],
        "skew": max((seconds for seconds in early if seconds >= SKEW_SECONDS), default=None),
        "unlogged": sum(epoch not in epochs and time <= ended for epoch, time in first.items()),
    }


def sightings(rows: Iterable[Record]) -> dict[Place, list[Sighting]]:
    """Return what was told of each partition, in time, from rows of `scrapes.sightings`."""
    of_place: dict[Place, list[Record]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["time"]):
        of_place[row["topic"], row["partition"]].append(row)
    found: dict[Place, list[Sighting]] = {}
    for place, own in of_place.items():
        sighted: list[Sighting] = []
        for row in own:
            state = (row["leader_epoch"], row["isr_size"])
            if sighted and state == sighted[-1][:2]:
                sighted[-1] = sighted[-1]._replace(ended=row["time"])
                continue
            if sighted:
                sighted[-1] = sighted[-1]._replace(ended=max(sighted[-1].ended, row["before"]))
            sighted.append(Sighting(*state, row["time"], row["time"]))
        found[place] = sighted
    return found


def _leader_changes(terms: Iterable[Record], seen: Mapping[Place, Sequence[Sighting]]) -> Iterable[Mark]:
    for term in terms:
        if term["leader"] < 0 or term["previous_leader"] is None:
            continue
        place, time = (term["topic"], term["partition"]), term["began"]
        sighted = [each.began for each in seen.get(place, ()) if each.leader_epoch == term["leader_epoch"]]
        yield Mark(time, term["until"], *place, None, bool(sighted), max(min(sighted) - time, 0.0) if sighted else None)


def _shrinks(changes: Iterable[Record], seen: Mapping[Place, Sequence[Sighting]]) -> Iterable[Mark]:
    for change in changes:
        if change["first"] or not change["removed"]:
            continue
        place, time = (change["topic"], change["partition"]), change["time"]
        until = inf if change["until"] is None else change["until"]
        size = len(change["isr"])
        sighted = [
            each for each in seen.get(place, ()) if each.isr_size == size and each.ended >= time and each.began < until
        ]
        # An ISR of this size that was told before, too: which of these scrapes was the first after the event is not known.
        after = (
            [each.began - time for each in sighted if each.began >= time]
            if sighted and sighted[0].began >= time
            else []
        )
        yield Mark(time, change["until"], *place, None, bool(sighted), min(after, default=None))


def _fenced(events: Iterable[Record], scraped: Mapping[int, Sequence[Record]]) -> Iterable[Mark]:
    of_broker: dict[int, list[Record]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["time"]):
        if event["event"] in {"broker_fenced", "broker_unfenced"} and event["target"] is not None:
            of_broker[event["target"]].append(event)
    for broker, own in of_broker.items():
        failed = sorted(
            row[name] for row in scraped.get(broker, ()) if row["failed"] for name in ("first_failed", "last_failed")
        )
        over: list[float | None] = [*(event["time"] for event in own[1:]), None]
        for event, until in zip(own, over, strict=True):
            if event["event"] != "broker_fenced":
                continue
            time = event["time"]
            failures = [at - time for at in failed if time <= at < (inf if until is None else until)]
            yield Mark(time, until, None, None, broker, bool(failures), min(failures, default=None))


def _counted(what: str, marks: Sequence[Mark], looks: int) -> Record:
    unseen = sorted((mark for mark in marks if not mark.seen), key=lambda mark: mark.time)
    return {
        "what": what,
        "events": len(marks),
        "unseen": len(unseen) if looks else None,
        "looks": looks,
        "slowest": max((mark.seen_after for mark in marks if mark.seen_after is not None), default=None),
        "examples": [
            {name: getattr(mark, name) for name in ("time", "until", "topic", "partition", "broker")}
            for mark in (unseen[:MOST_UNSEEN] if looks else ())
        ],
    }


def _scraped(broker: int, rows: Sequence[Record], silences: Iterable[Record], clock: Record) -> Record:
    """`unscraped`: seconds without an answer, of all times that count as a silence; `longest`: the longest of these."""
    answered = min((row["first_answered"] for row in rows if row["told"]), default=None)
    late = (min(clock["ended"], clock["scraped_until"]) if answered is None else answered) - clock["began"]
    apart = [late] if answered is None or late > clock["silence"] else []
    for each in silences:
        low, high = max(each["began"], clock["began"]), min(each["ended"], clock["ended"])
        if each["broker"] == broker and high > low:
            apart.append(high - (max(low, answered) if answered is not None else low))
    return {
        "broker": broker,
        "scrapes": sum(row["scrapes"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "unscraped": sum(apart),
        "longest": max(apart, default=0.0),
    }
