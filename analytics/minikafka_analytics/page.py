"""Renders the report's data as one HTML page that needs nothing else: styles and plots are inside it, and it has no script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from minikafka_analytics import charts, words
from minikafka_analytics.aftermath import BLAMED_FOR_SECONDS
from minikafka_analytics.operations import NOTABLE_GAP_SECONDS

Record = dict[str, Any]

TEMPLATES = Path(__file__).parent / "templates"
MOST_ROWS = 60  # of one table; report.json has all of them


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
        "secs": words.seconds,
        "num": words.number,
        "size": words.size,
        "these": words.these,
        "at": at,
        "brokers": words.brokers,
        "setting": setting_name,
    }
    environment.globals |= {
        "count": words.count,
        "span": words.span,
        "means": words.FAULT_MEANS,
        "most_rows": MOST_ROWS,
        "notable_gap": NOTABLE_GAP_SECONDS,
        "blamed_for": BLAMED_FOR_SECONDS,
    }
    template = environment.get_template("report.html.j2")
    runs = [{**run, "plots": plots(run, points[run["id"]])} for run in report["runs"]]
    style = Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))
    return template.render(report={**report, "runs": runs}, style=style)


def plots(run: Record, points: Record) -> Record:
    """Every plot of a run as SVG; "" for those of which nothing is known."""
    drawn = {
        "roles": charts.roles(run),
        "acknowledgements": charts.acknowledgements(run),
        "latency": charts.latency(run),
        "exposure": charts.exposure(run, points["exposure"]),
    }
    safe: Record = {name: Markup(svg) for name, svg in drawn.items()}
    safe["partitions"] = [
        {
            "name": f"{partition['topic']}-{partition['partition']}",
            "offsets": Markup(charts.offsets(run, points["series"], partition)),
            "behind": Markup(charts.behind(run, points["lag"], partition)),
            "brokers": sorted({row["broker"] for row in points["series"] if charts.same_partition(partition, row)}),
        }
        for partition in charts.shown(run)
    ]
    safe["left_out"] = len(run["partitions"]) - len(safe["partitions"])
    safe["colours"] = {broker: charts.colour(run, broker) for broker in run["brokers"]}
    return safe


def at(value: float | None) -> str:
    """A moment of the run."""
    return "–" if value is None else f"{value:.2f} s"


def setting_name(name: str) -> str:
    """A dotted name may break after its dots."""
    return name.replace(".", ".\u200b")
