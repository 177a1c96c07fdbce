"""What scrapes and event logs tell of a run beside its faults, as the report has it.

Times are unix seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from minikafka_analytics.behaviour import scrape_gaps, usage
from minikafka_analytics.behaviour.fault_impact import Blame
from minikafka_analytics.formatting import brokers, count, seconds, these

Record = dict[str, Any]

MOST_FIGURES = 20_000
"""Rows of what brokers used that a report tells: those of the time without faults, then the oddest."""


def observed(found: Mapping[str, list[Record]], until: float) -> tuple[Record, Record]:
    """The keys of a report's run that are not of faults: stalls, isr, blindness, resources; and which rows are left out.

    `until`: up to when all events are among `found`.
    """
    scraped = usage.by_broker(found["counted"])
    used, left_out = usage.usage(scraped, found["faults"], found["clocks"][0]) if found["clocks"] else ([], {})
    blind = scrape_gaps.scrape_coverage(found, scraped, until)
    resources, capped = most_odd(used)
    return {
        "stalls": _stalls(found["stalls"], Blame(found["faults"])),
        "isr": sorted(found["isr_by_partition"], key=lambda row: (row["topic"], row["partition"])),
        "blindness": {
            **blind,
            "brokers": [{**row, **left_out[row["broker"]]} for row in blind["brokers"]],
        },
        "resources": resources,
    }, capped


def most_odd(rows: list[Record]) -> tuple[list[Record], Record]:
    """Keep as many of the figures of brokers as a report shows, the oddest first; count what is left out."""
    if len(rows) <= MOST_FIGURES:
        return rows, {}
    kept = sorted(rows, key=lambda row: (row["fault"] is not None, -abs(row["score"] or 0)))[:MOST_FIGURES]
    return kept, {"resources": {"among": len(rows), "told": len(kept)}}


def unseen(blind: Record) -> list[str]:
    """Return what scrapes and events do not tell, in whole sentences."""
    found = [
        f"No scrape saw {row['unseen']:,} of {count(row['events'], row['what'])}: what was over before the next scrape is in no "
        "metric that tells a state."
        for row in blind["events"]
        if row["unseen"]
    ]
    found += [
        f"Whether scrapes saw {count(row['events'], row['what'])} is not known: no scrape tells of such things."
        for row in blind["events"]
        if row["events"] and row["unseen"] is None
    ]
    if blind["unlogged"]:
        found.append(
            f"Scrapes saw {count(blind['unlogged'], 'leader epoch')} of which no event tells: an event log is lost, or a "
            "broker's clock was so wrong that its events are not of the run's time."
        )
    if blind["skew"] is not None:
        found.append(
            f"A scrape saw a leader epoch {seconds(blind['skew'])} before its event: clocks differ by that at least, and what is "
            "told of scrapes against events is wrong by as much."
        )
    missing: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row in blind["brokers"]:
        if row["missing"]:
            missing[tuple(row["missing"])].append(row["broker"])
    found += [
        f"No scrape of {brokers(own)} tells {these(list(metrics))}: figures from that are left out of what brokers used."
        for metrics, own in missing.items()
    ]
    return found


def _stalls(rows: Sequence[Record], blame: Blame) -> list[Record]:
    timed = [{**row, "time": row["began"], "concerned": sorted({row["broker"], row["leader"]})} for row in rows]
    names = ("time", "concerned")
    return [{key: value for key, value in row.items() if key not in names} for row in blame.attribute(timed)]
