"""Renders the report's data as one HTML page that needs nothing else: styles, plots and a script are inside it.

Without the script the page is whole: it adds a cursor over all plots of a run, values at it, and zooming. The page's own policy
lets no other script run and nothing be fetched, whatever a run's evidence holds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from minikafka_analytics import formatting
from minikafka_analytics.behaviour import isr, usage
from minikafka_analytics.behaviour.fault_impact import BLAMED_FOR_SECONDS
from minikafka_analytics.behaviour.operations import NOTABLE_GAP_SECONDS
from minikafka_analytics.behaviour.scrape_gaps import SEEN_BY
from minikafka_analytics.report import charts
from minikafka_analytics.report.figures import FIGURES

Record = dict[str, Any]

TEMPLATES = Path(__file__).parent / "templates"
MOST_ROWS = 25  # of one table; report.json has all of them
MOST_FAULT_ROWS = 30  # of the faults one by one, with the partitions of each where that is not too much
MOST_FAULTS = 12  # where there are more than rows: those that took longest to recover
MOST_PARTITIONS_OF_A_FAULT = 8


def page(report: Record, points: Mapping[str, Record]) -> str:
    """The page of a report. `points`: of each run's id, the series of its plots."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "secs": formatting.seconds,
        "num": formatting.number,
        "size": formatting.size,
        "these": formatting.these,
        "at": at,
        "brokers": formatting.brokers,
        "setting": setting_name,
    }
    environment.globals |= {
        "count": formatting.count,
        "span": formatting.span,
        "means": formatting.FAULT_MEANS,
        "most_rows": MOST_ROWS,
        "most_lost": charts.MOST_LOST,
        "notable_gap": NOTABLE_GAP_SECONDS,
        "blamed_for": BLAMED_FOR_SECONDS,
        "shrinks_within": isr.WITHIN_SECONDS,
        "seen_by": SEEN_BY,
        "figure": figure,
        "compared": {name: each for name, each in FIGURES.items() if each.title},
        "asked_of": {each["name"] for each in report["asked"] if each["sql"]},
    }
    template = environment.get_template("report.html.j2")
    runs = [
        {
            **run,
            "plots": plots(run, points[run["id"]]),
            "shown_faults": shown_faults(run),
            "resources_shown": resources_shown(run["resources"], run["blindness"]["brokers"]),
        }
        for run in report["runs"]
    ]
    style = Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    return template.render(
        report={**report, "runs": runs},
        questions=questions(report["asked"]),
        style=style,
        script=Markup(script),
        digest=digest(script),
    )


def questions(asked: Sequence[Record]) -> list[Record]:
    """Return what has SQL of its own. `anchor`: figures lead to it; of a step and an answer of one name to the step."""
    with_sql = [each for each in asked if each["sql"]]
    steps = {each["name"] for each in with_sql if not each["answer"]}
    return [{**each, "anchor": not each["answer"] or each["name"] not in steps} for each in with_sql]


def digest(script: str) -> str:
    """Return what the page's policy knows its script by: it stands between the tags with a line break before and after it."""
    return base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()


def plots(run: Record, points: Record) -> Record:
    """Every plot of a run as SVG; "" for those of which nothing is known."""
    drawn = {
        "parts": charts.timeline(run).parts(),
        "roles": charts.roles(run),
        "acknowledgements": charts.acknowledgements(run, points["series"]),
        "latency": charts.latency(run),
        "exposure": charts.exposure(run, points["exposure"]),
    }
    safe: Record = {name: Markup(svg) for name, svg in drawn.items()}
    safe["partitions"] = [
        {
            "name": charts.name_of(partition),
            "offsets": Markup(charts.offsets(run, points["series"], partition)),
            "behind": Markup(charts.behind(run, points["lag"], partition)),
            "brokers": sorted({row["broker"] for row in points["series"] if charts.same_partition(partition, row)}),
        }
        for partition in charts.shown(run)
    ]
    safe["left_out"] = len(run["partitions"]) - len(safe["partitions"])
    safe["colours"] = {broker: charts.colour(run, broker) for broker in run["brokers"]}
    safe["moments"] = moments(run, points)
    return safe


def moments(run: Record, points: Record) -> dict[str, set[int]]:
    """Return which lost records and which truncations have a mark in a plot, by number and by id: tables lead to these."""
    shown = charts.shown(run)
    with_offsets = [row for row in shown if any(charts.same_partition(row, each) for each in points["series"])]
    return {
        "lost": {
            number
            for number, lost in charts.lost_ones(run)
            if lost["completed_at"] is not None and any(charts.same_partition(lost, row) for row in shown)
        },
        "cut": {cut["id"] for row in with_offsets for cut in charts.cuts_of(run, row)},
    }


def shown_faults(run: Record) -> Record:
    """Return which faults are told one by one: all of them in order, or of many those that took longest to recover (`slowest`).

    `rows`: pairs of a fault and whether its partitions are told, too.
    """
    faults = run["faults"]
    few = [0 < len(fault["partitions"]) <= MOST_PARTITIONS_OF_A_FAULT for fault in faults]
    if (
        len(faults) + sum(len(fault["partitions"]) for fault, whole in zip(faults, few, strict=True) if whole)
        <= MOST_FAULT_ROWS
    ):
        return {"slowest": False, "rows": list(zip(faults, few, strict=True))}
    if len(faults) <= MOST_FAULT_ROWS:
        return {"slowest": False, "rows": [(fault, False) for fault in faults]}
    slowest = sorted(faults, key=_slowness, reverse=True)[:MOST_FAULTS]
    return {"slowest": True, "rows": [(fault, False) for fault in slowest]}


def _slowness(fault: Record) -> tuple[bool, float]:
    """By the longest of what clients and replicas waited for; what never recovered goes first."""
    worst = fault["worst"]
    never = bool(worst["never_acknowledged"] or worst["never_full"])
    return never, max((worst[name] or 0.0 for name in ("re_elected", "re_acknowledged", "full_isr")), default=0.0)


def resources_shown(rows: Sequence[Record], scraped: Sequence[Record]) -> Record:
    """Choose for each broker a figure of each measure (None where there is none), from the time without faults or, where all
    time was of some fault, no row at all; `unlike`: figures of faults' times, each with the one it is unlike."""
    calm = {(row["broker"], row["measure"]): row for row in rows if row["fault"] is None}
    anew, apart = (sum(row[name] for row in scraped) for name in ("anew", "apart"))
    measures = [name for name in usage.MEASURES if any(measure == name for _, measure in calm)]
    return {
        "titles": measures,
        "rows": [
            (broker, [calm.get((broker, measure)) for measure in measures])
            for broker in sorted({broker for broker, _ in calm})
        ],
        "means": "; ".join(f"{name}: {usage.MEASURES[name]}" for name in measures),
        "when": "In the time without faults" if any(row["fault"] is not None for row in rows) else "Over the whole run",
        "left_out": f"Left out: {formatting.count(anew, 'pair')} of neighbouring scrapes between which a process began or "
        f"a counter fell, and {apart:,} too far apart."
        if anew or apart
        else "",
        "unlike": [(row, calm[row["broker"], row["measure"]]) for row in usage.unlike(rows)],
    }


def figure(measure: str, value: float) -> str:
    """A figure of `usage.MEASURES`: a share in percent, a time in the unit that reads best."""
    if measure in usage.SHARES:
        return f"{100 * value:.{0 if value >= 0.0995 else 1}f} %"
    return formatting.seconds(value) if value >= 0.01 else f"{value * 1e3:.2f} ms"


def at(value: float | None) -> str:
    """A moment of the run."""
    return "–" if value is None else f"{value:.2f} s"


def setting_name(name: str) -> str:
    """A dotted name may break after its dots."""
    return name.replace(".", ".\u200b")
