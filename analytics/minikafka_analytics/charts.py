"""The plots of a report: which lines are drawn from which figures. Each function gives one SVG, or "" when nothing is known."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import Any

from minikafka_analytics.operations import NOTABLE_GAP_SECONDS
from minikafka_analytics.svg import BOTTOM, LEFT, TOP, Plot, Point
from minikafka_analytics.words import count, seconds, span

Record = dict[str, Any]

MOST_PARTITIONS = 6  # with plots of their own in a report; the Parquet files have all of them
COLOURS = 6  # brokers beyond take the colours from the first on again
LANE, LANE_GAP = 15, 4
LETTER = 7.0  # width of one at the size of the lanes' names, on the generous side
LONGEST_NAME = 40  # letters of a lane's name; Kafka allows 249 to a topic
BROKER_ROOM = 80  # for "broker 12" between a partition's name and its lanes
MS = 1000.0


def bands(run: Record) -> list[tuple[str, float, float | None, str]]:
    """The faults as every plot shades them."""
    found = []
    for fault in run["faults"]:
        until = "never healed" if fault["ended"] is None else f"healed at {fault['ended']:.1f} s"
        title = f"F{fault['number']}: {fault['title']} at {fault['began']:.2f} s, {until}"
        found.append((f"F{fault['number']}", fault["began"], fault["ended"], title))
    return found


def colour(run: Record, broker: int) -> str:
    """The CSS class that a broker is drawn with everywhere."""
    return f"b{run['brokers'].index(broker) % COLOURS + 1}" if broker in run["brokers"] else "b0"


def shown(run: Record) -> list[Record]:
    """The partitions that have plots: those with lost records first, then as numbered."""
    ranked = sorted(run["partitions"], key=lambda row: (-row["lost"], row["topic"], row["partition"]))
    return sorted(ranked[:MOST_PARTITIONS], key=lambda row: (row["topic"], row["partition"]))


def lane_name(row: Record) -> str:
    """A partition's name, with the middle left out where it is too long to be drawn."""
    name, number = str(row["topic"]), f"-{row['partition']}"
    room = LONGEST_NAME - len(number)
    if len(name) > room:
        half = (room - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    return name + number


def left_of_lanes(partitions: list[Record], beside: float) -> int:
    """Room on the left for the longest of the names, and for what else stands there."""
    return max(LEFT, math.ceil(beside + LETTER * max(len(lane_name(row)) for row in partitions)))


def roles(run: Record) -> str:
    """Who led each partition, who was in sync, who was away."""
    partitions = [row for row in shown(run) if any(same_partition(row, change) for change in run["isr_changes"])]
    if not partitions or not run["brokers"]:
        return ""
    block = len(run["brokers"]) * (LANE + LANE_GAP) + 10
    height, left = TOP + 6 + block * len(partitions) + BOTTOM, left_of_lanes(partitions, BROKER_ROOM)
    plot = Plot("Roles of replicas over time", run["seconds"], height, left=left)
    plot.bands(bands(run))
    for n, row in enumerate(partitions):
        top = TOP + 6 + n * block
        name = f"{row['topic']}-{row['partition']}"
        plot.text(0, top + 11, lane_name(row), "lane-name")
        changes = [change for change in run["isr_changes"] if same_partition(row, change)]
        terms = [term for term in run["elections"] if same_partition(row, term)]
        for lane, broker in enumerate(run["brokers"]):
            y = top + lane * (LANE + LANE_GAP)
            plot.text(left - 10, y + 11.5, f"broker {broker}", "tick end")
            plot.box(0, run["seconds"], y, LANE, "lane", f"{name} on broker {broker}: not in the ISR")
            for change in changes:
                if broker in change["isr"]:
                    until = run["seconds"] if change["until"] is None else change["until"]
                    if until > 0:
                        plot.box(
                            max(change["time"], 0),
                            until,
                            y,
                            LANE,
                            f"in-sync {colour(run, broker)}",
                            f"{name}: broker {broker} in sync",
                        )
            for term in terms:
                until = run["seconds"] if term["until"] is None else term["until"]
                if term["leader"] == broker and until > 0:
                    title = f"{name}: broker {broker} led, epoch {term['leader_epoch']}"
                    plot.box(max(term["began"], 0), until, y, LANE, f"leads {colour(run, broker)}", title)
            for fault in run["faults"]:
                if broker in fault["brokers"]:
                    until = run["seconds"] if fault["ended"] is None else fault["ended"]
                    plot.box(fault["began"], until, y, LANE, "away", f"broker {broker} away: {fault['title']}", 2.0)
    return plot.svg(value_axis=False)


def acknowledgements(run: Record) -> str:
    """Sends per second by outcome, and below them, per partition, when nothing was acknowledged."""
    rates, step = run["throughput"]["over_time"], run["throughput"]["step"]
    if not rates:
        return ""
    lanes = shown(run)
    below = len(lanes) * (LANE - 3 + LANE_GAP) + 8
    highest = max(row["acked"] + row["failed"] + row["unknown"] for row in rates) / step
    left = left_of_lanes(lanes, 12) if lanes else LEFT
    plot = Plot("Sends per second by outcome", run["seconds"], 190, highest, unit="per s", left=left)
    plot.bands(bands(run))
    for row in rates:
        low = 0.0
        told = f"{row['acked']:,} acknowledged, {row['failed']:,} failed, {row['unknown']:,} unknown"
        title = f"{_during(row, step)}: {told}"
        for outcome in ("acked", "failed", "unknown"):
            if row[outcome]:
                high = low + row[outcome] / step
                plot.bar(row["second"], min(row["second"] + step, run["seconds"]), low, high, f"o-{outcome}", title)
                low = high
    plot.height += below
    for n, partition in enumerate(lanes):
        y = 190 + 6 + n * (LANE - 3 + LANE_GAP)
        name = f"{partition['topic']}-{partition['partition']}"
        plot.text(plot.left - 7, y + 10, lane_name(partition), "tick end")
        plot.box(0, run["seconds"], y, LANE - 3, "lane acked-lane", f"{name}: acknowledged")
        for gap in run["gaps"]:
            if same_partition(partition, gap) and gap["seconds"] >= NOTABLE_GAP_SECONDS:
                during = "".join(f", F{number}" for number in gap["faults"])
                since = f"for {seconds(gap['seconds'])} from {gap['began']:.2f} s on{during}"
                title = f"{name}: nothing acknowledged {since}"
                plot.box(gap["began"], gap["ended"], y, LANE - 3, "gap", title, 2.0)
    return plot.svg()


def latency(run: Record) -> str:
    """How long acknowledgements took, over the time of the run."""
    step = run["throughput"]["step"]
    rates = [row for row in run["throughput"]["over_time"] if row["p50"] is not None]
    if not rates:
        return ""
    highest = max(row["max"] for row in rates) * MS
    lowest = min(row["p50"] for row in rates) * MS
    plot = Plot("Latency of acknowledgements", run["seconds"], 200, highest, lowest, logarithmic=True, unit="ms")
    plot.bands(bands(run))
    for name in ("p50", "p95", "p99"):
        points: list[Point] = []
        before = None
        for row in rates:
            fresh = before is not None and row["second"] > before + step
            points.append((row["second"] + step / 2, row[name] * MS, fresh))
            before = row["second"]
        plot.line(points, f"l-{name}", f"{name} of acknowledged sends")
    for row in rates:
        title = f"{_during(row, step)}: slowest {seconds(row['max'])}"
        plot.dot(row["second"] + step / 2, row["max"] * MS, "l-max", title)
    return plot.svg()


def _during(row: Record, step: int) -> str:
    return f"second {row['second']}" if step == 1 else f"seconds {row['second']} to {row['second'] + step}"


def offsets(run: Record, points: list[Record], partition: Record) -> str:
    """Log end offset (solid) and high watermark (dotted, seen where it differs) of every replica, and where a log was cut."""
    rows = [row for row in points if same_partition(partition, row)]
    if not rows:
        return ""
    name = f"{partition['topic']}-{partition['partition']}"
    highest = max((row["leo"] or 0 for row in rows), default=0)
    plot = Plot(f"Offsets of {name} on every replica", run["seconds"], 215, highest, unit="offset")
    plot.bands(bands(run))
    by_broker = _by_broker(rows)
    for broker, found in by_broker.items():
        plot.line(_line(found, "hw"), f"{colour(run, broker)} dashed", f"high watermark on broker {broker}")
    for n, (broker, found) in enumerate(by_broker.items()):
        # Lines that lie on each other stay visible when each is thinner than the one below.
        width = f"w{max(len(by_broker) - n, 1) if len(by_broker) <= 4 else 1}"
        plot.line(_line(found, "leo"), f"{colour(run, broker)} {width}", f"log end offset on broker {broker}")
    for broker, found in by_broker.items():
        for before, after in pairwise(found):
            if after["fresh"]:
                plot.dot(
                    before["time"],
                    before["leo"] or 0,
                    f"ends {colour(run, broker)}",
                    f"broker {broker}: last scrape at {before['time']:.1f} s",
                    3.2,
                )
                plot.dot(
                    after["time"],
                    after["leo"] or 0,
                    f"begins {colour(run, broker)}",
                    f"broker {broker}: scraped again at {after['time']:.1f} s",
                    3.2,
                )
    for cut in run["truncations"]:
        if same_partition(partition, cut):
            records = cut["high"] - cut["low"]
            cut_off = f"{count(records, 'record')} at {cut['time']:.2f} s: {span(cut['low'], cut['high'])}"
            title = f"broker {cut['broker']} cut {cut_off}"
            plot.wedge(cut["time"], cut["low"], "cut", title, f"−{records:,}")
    return plot.svg()


def behind(run: Record, points: list[Record], partition: Record) -> str:
    """How many records each follower lacked, as its leader counted."""
    rows = [row for row in points if same_partition(partition, row)]
    highest = max((row["behind"] or 0 for row in rows), default=0)
    if not highest:
        return ""
    plot = Plot("Records behind the leader", run["seconds"], 116, highest, unit="records")
    plot.bands(bands(run))
    for broker, found in _by_broker(rows).items():
        plot.line(_line(found, "behind"), colour(run, broker), f"records that broker {broker} lacked")
    return plot.svg()


def exposure(run: Record, points: list[Record]) -> str:
    """Records not flushed, per broker, and committed ones that no replica had flushed."""
    highest = max((row["records"] or 0 for row in points), default=0)
    if not points:
        return ""
    plot = Plot("Records at risk of a power loss", run["seconds"], 210, highest, unit="records")
    plot.bands(bands(run))
    plot.area(
        _line([row for row in points if row["broker"] is None], "records"),
        "bare",
        "committed, and flushed on no replica",
    )
    for broker, found in _by_broker([row for row in points if row["broker"] is not None]).items():
        plot.line(_line(found, "records"), colour(run, broker), f"not flushed on broker {broker}")
    return plot.svg()


def same_partition(one: Record, other: Record) -> bool:
    """Whether two records are about one partition."""
    return bool(one["topic"] == other["topic"] and one["partition"] == other["partition"])


def _by_broker(rows: list[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["broker"], row["time"])):
        found[row["broker"]].append(row)
    return dict(found)


def _line(rows: list[Record], name: str) -> list[Point]:
    return [(row["time"], row[name], row["fresh"]) for row in rows]
