"""The time of a run from left to right, as all of its plots have it: ticks, and faults that are shaded and labelled.

It is drawn once for a run, and each plot uses it (svg.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

ROOMY, NARROW = 580, 250
"""Pixels that a plot is wide at least, on a page above and below 720 pixels: what room labels have without a script."""
LABEL_HEIGHT = 16
LETTER = 7.6  # width of one in a fault's label, on the generous side
MOST_EDGES = 80  # lines where faults began: of more faults they would hide the plot
FINE_SECONDS = 600  # a longer run is drawn in hundredths of a second, a shorter one in thousandths

Record = dict[str, Any]


class Label(NamedTuple):
    """The label of one fault, or of several in a row that have no room for one each. `at`: share of the run where it begins."""

    at: float
    text: str
    title: str

    def width(self) -> float:
        return label_width(self.text)


def label_width(text: str) -> float:
    """Measure a fault's label, in pixels."""
    return round(len(text) * LETTER + 8, 1)


def labels(faults: Sequence[Record], seconds: float, width: float) -> list[Label]:
    """Labels for a plot so many pixels wide: each begins where its first fault does (at the right edge: ends there) and ends
    before the first fault of the next, so that none stands over a fault that it does not name.

    report.js does the same for the part of a run that it shows.
    """
    groups: list[list[Record]] = []
    for fault in sorted(faults, key=lambda row: (row["began"], row["number"])):
        groups.append([fault])
        while len(groups) > 1:
            at, before = _x(groups[-1], seconds, width), _x(groups[-2], seconds, width)
            over = (
                groups[-2][-1]["began"] / seconds * width > at
            )  # at the right edge, where labels stand before their faults
            if not over and before + label_width(_named(groups[-2])) + 2 <= at:
                break
            last = groups.pop()
            groups[-1] += last
    return [Label(_x(group, seconds, width) / width, _named(group), _sentence(group)) for group in groups]


def _x(group: Sequence[Record], seconds: float, width: float) -> float:
    start: float = min(max(group[0]["began"] / seconds, 0.0), 1.0) * width
    return max(min(start, width - label_width(_named(group))), 0.0)


def _named(group: Sequence[Record]) -> str:
    numbers = [fault["number"] for fault in group]
    return f"F{numbers[0]}" if len(group) == 1 else f"F{min(numbers)}–{max(numbers)}"


def _sentence(group: Sequence[Record]) -> str:
    if len(group) == 1:
        (fault,) = group
        until = "never healed" if fault["ended"] is None else f"healed at {fault['ended']:.1f} s"
        return f"F{fault['number']}: {fault['title']} at {fault['began']:.2f} s, {until}"
    return f"{len(group)} faults from {group[0]['began']:.1f} s to {group[-1]['began']:.1f} s"


class Timeline:
    """The time of a run and its faults, as every plot of it shows them. `label`: of the run on its page, for names of parts."""

    def __init__(self, label: str, seconds: float, faults: Sequence[Record]) -> None:
        self.label, self.seconds = label, max(seconds, 0.001)
        self.per_second = 1000 if seconds <= FINE_SECONDS else 100
        self.whole = max(round(self.seconds * self.per_second), 1)
        self._faults = faults

    def x(self, time: float) -> int:
        """Return where a time is drawn; times outside of the run are drawn at its edges."""
        return min(max(round(time * self.per_second), 0), self.whole)

    def share(self, time: float) -> str:
        """Return where a time is drawn, in percent."""
        return f"{100 * self.x(time) / self.whole:.2f}%"

    def parts(self) -> str:
        """Return what the plots of this run use: faults with their labels, ticks of the time axis."""
        bands, edges, at = [], [], 0
        for fault in sorted(self._faults, key=lambda row: row["began"]):
            began, ended = self.x(fault["began"]), self.x(self.seconds if fault["ended"] is None else fault["ended"])
            bands.append(f"m{began - at} 0h{ended - began}v1h{began - ended}z")
            edges.append(f"m{began - at} 0v1m0-1")
            at = began
        shaded = (
            f'<path class="band" d="M0 0{"".join(bands)}"/>'
            + (f'<path class="band-edge" d="M0 0{"".join(edges)}"/>' if len(edges) <= MOST_EDGES else "")
            if bands
            else ""
        )
        rows = [
            [
                self.x(row["began"]),
                self.x(self.seconds if row["ended"] is None else row["ended"]),
                row["number"],
                row["title"],
            ]
            for row in self._faults
        ]
        faults = escape(json.dumps(rows, ensure_ascii=False, separators=(",", ":")), quote=True)
        return (
            f'<svg class="parts" width="0" height="0" aria-hidden="true" data-run="{self.label}" data-whole="{self.whole}"'
            f' data-per-second="{self.per_second}" data-faults="{faults}"><g id="bands-{self.label}">{shaded}</g>'
            f'<g id="labels-{self.label}">{self._labels(ROOMY, "roomy")}{self._labels(NARROW, "narrow")}</g>'
            f'<g id="times-{self.label}">{self._times(14, "roomy")}{self._times(5, "narrow")}</g>'
            f'<g id="cursor-{self.label}"></g></svg>'
        )

    def _labels(self, width: int, css: str) -> str:
        drawn = "".join(
            f'<svg class="tab" x="{100 * label.at:.2f}%"><title>{escape(label.title)}</title>'
            f'<rect class="band-label" width="{label.width():g}" height="{LABEL_HEIGHT}" rx="3"/>'
            f'<text class="band-text" x="{label.width() / 2:.1f}" y="12">{label.text}</text></svg>'
            for label in labels(self._faults, self.seconds, width)
        )
        return f'<g class="{css}">{drawn}</g>' if drawn else ""

    def _times(self, most: int, css: str) -> str:
        step, drawn = time_step(self.seconds, most), []
        for n in range(int(self.seconds / step + 0.001) + 1):
            at = self.share(n * step)
            drawn.append(
                f'<svg class="at" x="{at}"><path class="axis" d="M0 0v4"/>'
                f'<text class="tick middle" y="17">{clock(n * step, self.seconds)}</text></svg>'
            )
        return f'<g class="{css}">{"".join(drawn)}</g>'


def clock(time: float, seconds: float) -> str:
    """A time on an axis of that many seconds: 12 s, or 2:30 when it is longer than two minutes."""
    return f"{time:g} s" if seconds < 120 else f"{int(time // 60)}:{int(time % 60):02d}"


def time_step(seconds: float, most: int) -> float:
    """Seconds between two ticks of a time axis that has room for so many."""
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
    return next((float(step) for step in steps if seconds / step <= most), math.ceil(seconds / most / 3600) * 3600.0)
