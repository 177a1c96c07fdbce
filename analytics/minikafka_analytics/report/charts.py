"""The plots of a report: which lines are drawn from which figures. Each function gives one SVG, or "" when nothing is known."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

from minikafka_analytics.behaviour.operations import NOTABLE_GAP_SECONDS
from minikafka_analytics.formatting import count, span
from minikafka_analytics.report.svg import BOTTOM, TOP, Plot, Point
from minikafka_analytics.report.timeline import NARROW, ROOMY, Timeline

Record = dict[str, Any]

MOST_PARTITIONS = 6  # with plots of their own in a report; the Parquet files have all of them
MOST_LOST = 12  # lost records that are told in a table, which comes before everything else
MOST_MARKS = 80  # of one kind in one plot: the largest; report.json has all
MOST_SILENCES = 40  # that are marked in one plot: more dots would hide its lines
COLOURS = 6  # brokers beyond take the colours from the first on again
LANE, LANE_GAP, HEADING = 15, 4, 17
PAUSES = 9  # pixels high is a lane of pauses
LONGEST_NAME = 40  # letters of a lane's name; Kafka allows 249 to a topic
MARK_ROOM = 44  # pixels that a mark's word takes
MS = 1000.0


class Moment(NamedTuple):
    """What a mark in a plot is called, so that a table can lead to it. `number`: of the row among its kind."""

    run: str
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.run}-{self.kind}-{self.number}"


def timeline(run: Record) -> Timeline:
    """The time axis that all plots of a run share."""
    return Timeline(run["label"], run["seconds"], run["faults"])


def colour(run: Record, broker: int) -> str:
    """The CSS class that a broker is drawn with everywhere."""
    return f"b{run['brokers'].index(broker) % COLOURS + 1}" if broker in run["brokers"] else "b0"


def shown(run: Record) -> list[Record]:
    """The partitions that have plots: those with lost records first, then as numbered."""
    ranked = sorted(run["partitions"], key=lambda row: (-row["lost"], row["topic"], row["partition"]))
    return sorted(ranked[:MOST_PARTITIONS], key=lambda row: (row["topic"], row["partition"]))


def name_of(row: Record) -> str:
    """bank-0."""
    return f"{row['topic']}-{row['partition']}"


def lane_name(row: Record) -> str:
    """A partition's name, with the middle left out where it is too long to be drawn."""
    name, number = str(row["topic"]), f"-{row['partition']}"
    room = LONGEST_NAME - len(number)
    if len(name) > room:
        half = (room - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    return name + number


def roles(run: Record) -> str:
    """Draw who led each partition, who was in sync, who was away."""
    partitions = [row for row in shown(run) if any(same_partition(row, change) for change in run["isr_changes"])]
    if not partitions or not run["brokers"]:
        return ""
    block = HEADING + len(run["brokers"]) * (LANE + LANE_GAP) + 8
    plot = Plot("Roles of replicas over time", timeline(run), TOP + 2 + block * len(partitions) + BOTTOM)
    whole = [(0.0, run["seconds"])]
    for n, row in enumerate(partitions):
        top, name = TOP + 2 + n * block, name_of(row)
        plot.heading(top + 12, lane_name(row))
        changes = [change for change in run["isr_changes"] if same_partition(row, change)]
        terms = [term for term in run["elections"] if same_partition(row, term)]
        for lane, broker in enumerate(run["brokers"]):
            y = top + HEADING + lane * (LANE + LANE_GAP) + LANE / 2
            css, who = colour(run, broker), str(broker)
            plot.beside(y + 4, f"broker {broker}")
            plot.lane(y, whole, "bare-lane", name, "")
            in_sync = [change for change in changes if broker in change["isr"]]
            plot.lane(y, _spans(run, in_sync, "time"), f"in-sync {css}", name, "in sync", who)
            led = [term for term in terms if term["leader"] == broker]
            plot.lane(y, _spans(run, led, "began"), f"leads {css}", name, "leads", who)
            away = [
                (fault["began"], run["seconds"] if fault["ended"] is None else fault["ended"])
                for fault in run["faults"]
                if broker in fault["brokers"]
            ]
            plot.lane(y, away, "away struck", name, "away", who)
            plot.lane(y, away, "hatch", name, "")
    return plot.svg(value_axis=False)


def _spans(run: Record, rows: list[Record], began: str) -> list[tuple[float, float]]:
    """From when until when each row held, within the run; what follows at once on another is one with it."""
    found: list[tuple[float, float]] = []
    for row in sorted(rows, key=lambda row: row[began]):
        low, high = max(row[began], 0.0), run["seconds"] if row["until"] is None else row["until"]
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        elif high > low:
            found.append((low, high))
    return found


def acknowledgements(run: Record, points: list[Record]) -> str:
    """Sends per second by outcome, and below them, per partition, when nothing was acknowledged, and which records were lost.

    `points`: of the plots of offsets; a lost record of a partition that has none is led to here.
    """
    rates, step = run["throughput"]["over_time"], run["throughput"]["step"]
    if not rates:
        return ""
    lanes = shown(run)
    highest = max(row["acked"] + row["failed"] + row["unknown"] for row in rates) / step
    plot = Plot("Sends per second by outcome", timeline(run), 190, highest, unit="per s", parts=step)
    for outcome, title in (("unknown", "unknown"), ("failed", "failed"), ("acked", "acknowledged")):
        below = {"unknown": ("acked", "failed"), "failed": ("acked",), "acked": ()}[outcome]
        columns = []
        for row in rates:
            low = sum(row[name] for name in below) / step
            columns.append((row["second"], min(row["second"] + step, run["seconds"]), low, low + row[outcome] / step))
        plot.steps(columns, f"o-{outcome}", title)
    for n, partition in enumerate(lanes):
        top = plot.height + 2 + n * (HEADING + PAUSES + LANE_GAP)
        y = top + HEADING + PAUSES / 2
        plot.heading(top + 13, lane_name(partition))
        plot.lane(y, [(0.0, run["seconds"])], "acked-lane", name_of(partition), "")
        gaps = [
            (gap["began"], gap["ended"])
            for gap in run["gaps"]
            if same_partition(partition, gap) and gap["seconds"] >= NOTABLE_GAP_SECONDS
        ]
        plot.lane(y, sorted(gaps), "gap struck", name_of(partition), "nothing acknowledged")
        for number, lost in lost_ones(run):
            if same_partition(partition, lost) and lost["completed_at"] is not None:
                elsewhere = lost["offset"] is not None and any(same_partition(partition, row) for row in points)
                name = "" if elsewhere else str(Moment(run["label"], "lost", number))
                title = f"{lost['value']} was acknowledged at {lost['completed_at']:.2f} s, and lost"
                row = Moment(run["label"], "lost", number)
                diamond = _linked(f"{row}-row", number, '<path class="cut" d="M0-7l5 7l-5 7l-5-7z"/>')
                plot.mark(lost["completed_at"], y, None, diamond, title, name)
    plot.height += len(lanes) * (HEADING + PAUSES + LANE_GAP) + 8
    return plot.svg()


def _linked(name: str, number: int, drawing: str) -> str:
    """The mark of a lost record leads back to its row, where there is one."""
    return f'<a href="#{name}">{drawing}</a>' if number <= MOST_LOST else drawing


def lost_ones(run: Record) -> list[tuple[int, Record]]:
    """The lost records that are told one by one, numbered from 1."""
    return list(enumerate((row for row in run["anomalies"] if row["lost"]), 1))


def latency(run: Record) -> str:
    """Return how long acknowledgements took, over the time of the run."""
    step = run["throughput"]["step"]
    rates = [row for row in run["throughput"]["over_time"] if row["p50"] is not None]
    if not rates:
        return ""
    highest = max(row["max"] for row in rates) * MS
    lowest = min(row["p50"] for row in rates) * MS
    plot = Plot("Latency of acknowledgements", timeline(run), 200, highest, lowest, logarithmic=True, unit="ms")
    for name in ("p50", "p95", "p99"):
        points: list[Point] = []
        before = None
        for row in rates:
            fresh = before is not None and row["second"] > before + step
            points.append((row["second"] + step / 2, row[name] * MS, fresh))
            before = row["second"]
        plot.line(points, f"l-{name}", name)
    plot.dots([(row["second"] + step / 2, row["max"] * MS) for row in rates], "l-max", "slowest")
    return plot.svg()


def offsets(run: Record, points: list[Record], partition: Record) -> str:
    """Log end offset (solid) and high watermark (dotted, seen where it differs) of every replica, where a log was cut, and the
    records that were lost."""
    rows = [row for row in points if same_partition(partition, row)]
    if not rows:
        return ""
    highest = max((row["leo"] or 0 for row in rows), default=0)
    plot = Plot(
        f"Offsets of {name_of(partition)} on every replica", timeline(run), 215, highest, unit="offset", floating=True
    )
    by_broker = _by_broker(rows)
    for broker, found in by_broker.items():
        plot.line(_line(found, "hw"), f"{colour(run, broker)} dashed", f"high watermark on broker {broker}")
    for n, (broker, found) in enumerate(by_broker.items()):
        # Lines that lie on each other stay visible when each is thinner than the one below.
        width = f"w{max(len(by_broker) - n, 1) if len(by_broker) <= 4 else 1}"
        plot.line(_line(found, "leo"), f"{colour(run, broker)} {width}", f"log end offset on broker {broker}")
    quiet = sum(row["fresh"] for row in rows) - len(by_broker)
    for broker, found in by_broker.items() if quiet <= MOST_SILENCES else ():
        silences = [(before, after) for before, after in pairwise(found) if after["fresh"]]
        last, first = (
            [(row["time"], row["leo"] or 0) for row in side]
            for side in (
                [before for before, _ in silences],
                [after for _, after in silences],
            )
        )
        css = colour(run, broker)
        plot.dots(last, f"ends {css}", "")
        plot.dots(first, f"begins {css}", "")
        plot.dots(first, "hollow", "")
    _mark_cuts(plot, run, partition)
    for number, lost in lost_ones(run):
        if same_partition(partition, lost) and lost["completed_at"] is not None and lost["offset"] is not None:
            title = f"{lost['value']} at offset {lost['offset']:,} was acknowledged at {lost['completed_at']:.2f} s, and lost"
            name = str(Moment(run["label"], "lost", number))
            ring = _linked(f"{name}-row", number, '<circle class="lost" r="6"/><circle class="cut" r="2"/>')
            plot.mark(lost["completed_at"], plot.y(lost["offset"]), lost["offset"], ring, title, name)
    return plot.svg()


def cuts_of(run: Record, partition: Record) -> list[Record]:
    """The truncations of a partition that its plot marks: the largest ones, by time."""
    cuts = [cut for cut in run["truncations"] if same_partition(partition, cut)]
    return sorted(sorted(cuts, key=lambda cut: -cut["records"])[:MOST_MARKS], key=lambda cut: cut["time"])


def _mark_cuts(plot: Plot, run: Record, partition: Record) -> None:
    """Wedges that point at where a log was cut; the larger a cut the sooner it has the number of its records above it."""
    cuts = cuts_of(run, partition)
    worded = {css: _with_room(run, cuts, width) for css, width in (("roomy", ROOMY), ("narrow", NARROW))}
    for cut in cuts:
        records = cut["high"] - cut["low"]
        cut_off = f"{count(records, 'record')} at {cut['time']:.2f} s: {span(cut['low'], cut['high'])}"
        css = " ".join(name for name, those in worded.items() if cut["id"] in those)
        word = f'<text class="mark-text {css}" y="-13">−{records:,}</text>' if css and len(css.split()) == 1 else ""
        if len(css.split()) == 2:
            word = f'<text class="mark-text" y="-13">−{records:,}</text>'
        wedge = f'<path class="cut" d="M-5-10h10l-5 9z"/>{word}'
        name = str(Moment(run["label"], "cut", cut["id"]))
        title = f"broker {cut['broker']} cut {cut_off}"
        plot.mark(cut["time"], plot.y(cut["low"]), cut["low"], wedge, title, name)


def _with_room(run: Record, cuts: list[Record], width: float) -> set[int]:
    """The ids of the cuts whose words do not run into those of larger ones in a plot so many pixels wide."""
    found: dict[int, float] = {}
    for cut in sorted(cuts, key=lambda cut: (-cut["records"], cut["id"])):
        at = cut["time"] / run["seconds"] * width
        inside = MARK_ROOM / 2 <= at <= width - MARK_ROOM / 2 + 14
        if inside and all(abs(at - other) >= MARK_ROOM for other in found.values()):
            found[cut["id"]] = at
    return set(found)


def behind(run: Record, points: list[Record], partition: Record) -> str:
    """Return how many records each follower lacked, as its leader counted."""
    rows = [row for row in points if same_partition(partition, row)]
    highest = max((row["behind"] or 0 for row in rows), default=0)
    if not highest:
        return ""
    plot = Plot("Records behind the leader", timeline(run), 116, highest, unit="records")
    for broker, found in _by_broker(rows).items():
        plot.line(_line(found, "behind"), colour(run, broker), f"records that broker {broker} lacked")
    return plot.svg()


def exposure(run: Record, points: list[Record]) -> str:
    """Records not flushed, per broker, and committed ones that no replica had flushed."""
    highest = max((row["records"] or 0 for row in points), default=0)
    if not points:
        return ""
    plot = Plot("Records at risk of a power loss", timeline(run), 210, highest, unit="records")
    plot.area(
        _line([row for row in points if row["broker"] is None], "records"),
        "bare",
        "committed, and flushed on no replica",
    )
    for broker, found in _by_broker([row for row in points if row["broker"] is not None]).items():
        plot.line(_line(found, "records"), colour(run, broker), f"not flushed on broker {broker}")
    return plot.svg()


def same_partition(one: Record, other: Record) -> bool:
    """Return whether two records are about one partition."""
    return bool(one["topic"] == other["topic"] and one["partition"] == other["partition"])


def _by_broker(rows: list[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["broker"], row["time"])):
        found[row["broker"]].append(row)
    return dict(found)


def _line(rows: list[Record], name: str) -> list[Point]:
    return [(row["time"], row[name], row["fresh"]) for row in rows]
