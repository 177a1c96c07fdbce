"""What brokers used in and outside of the time of each fault, by median and MAD: from the counters of their scrapes.

A mean over a fault's time would be that of its worst scrape. Times are unix seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from math import inf
from statistics import median
from typing import Any

from minikafka_analytics.behaviour.resources import COUNTERS, MOST_STEPS
from minikafka_analytics.behaviour.z_score import MAD_OF_NORMAL, SCORE_LEAST
from minikafka_analytics.landing.schemas import APIS, METRICS_OF_A_BROKER, METRICS_OF_REQUESTS

Record = dict[str, Any]
Figures = dict[str, float]

CPU, FSYNC, FSYNC_SHARE = "cpu", "fsync", "fsync share"
MEASURES = {
    CPU: "processor seconds of the broker's process in a second",
    FSYNC: "seconds that one flush of a log took, on average between two scrapes",
    FSYNC_SHARE: "seconds spent on flushes in a second; more than 1 where several run at once",
    "Produce": "seconds from a request's last byte to its answer's first, on average between two scrapes",
    "Fetch": "the same, of clients, waiting for records included",
    "FetchFollower": "the same, of brokers",
}
SHARES = (CPU, FSYNC_SHARE)
"""Of a second; the others are times."""

SCRAPES_LEAST = 3  # of a fault's time that is compared: fewer are a matter of chance


def by_broker(rows: Sequence[Record]) -> dict[int, list[Record]]:
    """Rows of `resources.counted` of each broker, in time."""
    found: dict[int, list[Record]] = defaultdict(list)
    for row in rows:
        found[row["broker"]].append(row)
    for broker, own in found.items():
        found[broker] = sorted(own, key=lambda row: row["told"]["time"] if row["told"] else row["last_failed"])
    return dict(sorted(found.items()))


def usage(
    rows: Mapping[int, Sequence[Record]], faults: Sequence[Record], clock: Record
) -> tuple[list[Record], dict[int, Record]]:
    """A row for each broker, measure and time of a fault (`fault`: its number; None for the time in which there was none).

    Every broker has rows, whichever was struck; a figure is of the time of the scrape that ended it. `scrapes`: how many figures
    there are; `mad`: the median distance from the `median`; `score`: how far the median of the fault's time is from the one
    without faults, in that one's MAD (the modified z-score), None where that is 0 or nothing is known of such a time.

    And for each broker what was left out: `anew`, neighbouring scrapes between which a process began or a counter fell;
    `apart`, those too far apart; `missing`, the metrics that no scrape tells.
    """
    found: list[Record] = []
    left_out: dict[int, Record] = {}
    longest = max(clock["silence"], 2 * (clock["ended"] - clock["began"]) / MOST_STEPS)
    for broker, own in rows.items():
        samples = [row["told"] for row in own if row["told"]]
        left_out[broker] = {"anew": 0, "apart": 0, "missing": _missing(samples)}
        figures = list(_grown(samples, longest, left_out[broker]))
        times = [time for time, _ in figures]
        bounds = [_bounds(times, fault) for fault in faults]
        struck = set(chain.from_iterable(range(*each) for each in bounds))
        calm = _summed_up(each for number, each in enumerate(figures) if number not in struck)
        found += [{"broker": broker, "fault": None, **row, "score": None} for row in calm.values()]
        for fault, each in zip(faults, bounds, strict=True):
            during = _summed_up(figures[slice(*each)])
            found += [
                {"broker": broker, "fault": fault["number"], **row, "score": _score(row, calm.get(measure))}
                for measure, row in during.items()
            ]
    order = list(MEASURES)
    key = lambda row: (row["fault"] or 0, row["broker"], order.index(row["measure"]))  # noqa: E731
    return sorted(found, key=key), left_out


def unlike(rows: Sequence[Record]) -> list[Record]:
    """The figures of faults' times that are unlike those of the time without faults, the oddest first."""
    odd = [row for row in rows if abs(row["score"] or 0) >= SCORE_LEAST and row["scrapes"] >= SCRAPES_LEAST]
    return sorted(odd, key=lambda row: -abs(row["score"]))


def _missing(samples: Sequence[Record]) -> list[str]:
    if not samples:
        return []
    known = {name for row in samples for name in ("started", *COUNTERS) if row[name] is not None}
    found = [metric for metric, name in METRICS_OF_A_BROKER.items() if name not in known]
    # A broker exports the requests of an API from the first one on: only without any of them the metric is missing.
    found += [
        metric
        for metric, ends in METRICS_OF_REQUESTS.items()
        if not any(f"{begins}_{ends}" in known for begins in APIS.values())
    ]
    return found


def _grown(samples: Sequence[Record], longest: float, left_out: Record) -> Iterator[tuple[float, Figures]]:
    """Yield for each two neighbours the time of the later one, and the measures that both have."""
    for before, after in pairwise(samples):
        apart = after["time"] - before["time"]
        grown = {
            name: after[name] - before[name]
            for name in COUNTERS
            if after[name] is not None and before[name] is not None
        }
        if before["started"] != after["started"] or any(growth < 0 for growth in grown.values()):
            left_out["anew"] += 1
        elif not 0 < apart <= longest:
            left_out["apart"] += 1
        else:
            yield after["time"], _figures(grown, apart)


def _figures(grown: Figures, apart: float) -> Figures:
    means = {FSYNC: ("flush_seconds", "flushes")}
    means |= {api: (f"{begins}_seconds", f"{begins}_requests") for api, begins in APIS.items()}
    found = {
        name: grown[column] / apart
        for name, column in ((CPU, "cpu"), (FSYNC_SHARE, "flush_seconds"))
        if column in grown
    }
    for name, (seconds, times) in means.items():
        if seconds in grown and grown.get(times):
            found[name] = grown[seconds] / grown[times]
    return found


def _bounds(times: Sequence[float], fault: Record) -> tuple[int, int]:
    """Return which of these times, from the first to before the last, are of the fault's."""
    ended = inf if fault["ended"] is None else fault["ended"]
    return bisect_left(times, fault["began"]), bisect_left(times, ended)


def _summed_up(figures: Iterable[tuple[float, Figures]]) -> dict[str, Record]:
    values: dict[str, list[float]] = defaultdict(list)
    for _, each in figures:
        for measure, value in each.items():
            values[measure].append(value)
    found = {}
    for measure, known in values.items():
        middle = median(known)
        mad = median(abs(value - middle) for value in known)
        found[measure] = {"measure": measure, "scrapes": len(known), "median": middle, "mad": mad, "most": max(known)}
    return found


def _score(row: Record, calm: Record | None) -> float | None:
    return MAD_OF_NORMAL * (row["median"] - calm["median"]) / calm["mad"] if calm and calm["mad"] else None
