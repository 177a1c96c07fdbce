"""Plots over the time of a run, as SVG that keeps its type at every width, and that a script can read back.

What is measured is drawn in a nested `<svg class="data">` whose units are those of the data (time in `per_second` parts of a
second, values in parts of one), and which the browser stretches to the width there is; strokes do not stretch with it. So a path
*is* its figures, exact, and report.js reads values from it and zooms by changing its view. Words stand outside of it, at
percentages, in CSS pixels: they are as large on a phone as on paper.

All plots of a run have the same time axis at the same place. Its ticks, the shaded faults with their labels, and the cursor are
drawn once for the run (`Timeline`) and used by each plot. Colours are CSS classes, so a plot follows the page into dark mode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

TOP, BOTTOM = 24, 28
EDGE = 3  # pixels of a drawing beyond its lowest and highest value, so that a line there is whole
ROOMY, NARROW = 580, 250
"""Pixels that a plot is wide at least, on a page above and below 720 pixels: what room labels have without a script."""
LABEL_HEIGHT = 16
LETTER = 7.6  # width of one in a fault's label, on the generous side
MOST_EDGES = 80  # lines where faults began: of more faults they would hide the plot
SHORTEST = 0.7  # pixels that a stretch of time must be wide to be seen
LOG_PARTS = 10_000  # of a decade
FINE_SECONDS = 600  # a longer run is drawn in hundredths of a second, a shorter one in thousandths

Point = tuple[float, float | None, bool]  # seconds, value (None: unknown), whether a line may not be drawn to it
Record = dict[str, Any]


class Label(NamedTuple):
    """The label of one fault, or of several in a row that have no room for one each. `at`: share of the run where it begins."""

    at: float
    text: str
    title: str

    def width(self) -> float:
        return label_width(self.text)


def label_width(text: str) -> float:
    """Of a fault's label, in pixels."""
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
    return [Label(_x(group, seconds, width) / width, _named(group), _told(group)) for group in groups]


def _x(group: Sequence[Record], seconds: float, width: float) -> float:
    start: float = min(max(group[0]["began"] / seconds, 0.0), 1.0) * width
    return max(min(start, width - label_width(_named(group))), 0.0)


def _named(group: Sequence[Record]) -> str:
    numbers = [fault["number"] for fault in group]
    return f"F{numbers[0]}" if len(group) == 1 else f"F{min(numbers)}–{max(numbers)}"


def _told(group: Sequence[Record]) -> str:
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
        """Where a time is drawn; times outside of the run are drawn at its edges."""
        return min(max(round(time * self.per_second), 0), self.whole)

    def share(self, time: float) -> str:
        """Where a time is drawn, in percent."""
        return f"{100 * self.x(time) / self.whole:.2f}%"

    def parts(self) -> str:
        """What the plots of this run use: faults with their labels, ticks of the time axis."""
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
        told = [
            [
                self.x(row["began"]),
                self.x(self.seconds if row["ended"] is None else row["ended"]),
                row["number"],
                row["title"],
            ]
            for row in self._faults
        ]
        faults = escape(json.dumps(told, ensure_ascii=False, separators=(",", ":")), quote=True)
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


class Plot:
    """One plot: the time of the run from left to right, values from bottom to top (linear, or logarithmic).

    `parts`: of one, as values are told to the script; whole numbers need 1. `floating`: values that are far from zero may have an
    axis of their own where a short time is shown.
    """

    def __init__(
        self,
        name: str,
        timeline: Timeline,
        height: int,
        highest: float = 0.0,
        lowest: float = 0.0,
        logarithmic: bool = False,
        unit: str = "",
        parts: int = 1,
        floating: bool = False,
    ) -> None:
        self.name, self.timeline, self.height, self.unit = name, timeline, height, unit
        self.logarithmic, self.parts = logarithmic, LOG_PARTS if logarithmic else parts
        self.bottom = height - BOTTOM
        self.scale = "log" if logarithmic else "floating" if floating else "linear"
        self._data: list[str] = []
        self._lanes: list[str] = []
        self._words: list[str] = []
        if logarithmic:
            self.lowest = 10 ** math.floor(math.log10(max(lowest, 1e-6)))
            self.highest = 10 ** math.ceil(math.log10(max(highest, self.lowest * 10)))
        else:
            self.lowest, self.highest = 0.0, nice_top(highest)

    def value(self, value: float) -> int:
        """A value in the units of the drawing, upwards."""
        if self.logarithmic:
            return round(math.log10(max(value, self.lowest) / self.lowest) * LOG_PARTS)
        return round(value * self.parts)

    def y(self, value: float) -> float:
        """Where a value is drawn, in pixels from the top."""
        share = self.value(value) / self.value(self.highest)
        return self.bottom - min(max(share, 0.0), 1.0) * (self.bottom - TOP)

    def line(self, points: Sequence[Point], css: str, title: str) -> None:
        """Joins the points, but not across what is unknown."""
        path = "".join(_joined(piece) for piece in self._pieces(points))
        if path:
            self._data.append(f'<path class="line {css}" d="{path}"{_name(title)}</path>')

    def area(self, points: Sequence[Point], css: str, title: str) -> None:
        """Fills below the points, in as many pieces as there are silences."""
        path = "".join(
            _joined([(piece[0][0], 0), *piece, (piece[-1][0], 0)]) + "z"
            for piece in self._pieces(points)
            if len(piece) > 1
        )
        if path:
            self._data.append(f'<path class="area {css}" d="{path}"{_name(title)}</path>')

    def steps(self, rows: Iterable[tuple[float, float, float, float]], css: str, title: str) -> None:
        """Columns, each from a time until a time and from a value to a value above it; empty ones are not drawn."""
        found = [
            _joined([(x0, low), (x0, high), (x1, high), (x1, low)]) + "z"
            for x0, x1, low, high in (
                (self.timeline.x(began), self.timeline.x(ended), self.value(low), self.value(high))
                for began, ended, low, high in rows
                if high > low
            )
        ]
        if found:
            self._data.append(f'<path class="steps {css}" d="{"".join(found)}"{_name(title)}</path>')

    def dots(self, points: Iterable[tuple[float, float]], css: str, title: str) -> None:
        """Small round marks."""
        path = "".join(f"M{self.timeline.x(time)} {-self.value(value)}h0" for time, value in points)
        if path:
            self._data.append(f'<path class="dots {css}" d="{path}"{_name(title)}</path>')

    def lane(
        self, y: float, spans: Iterable[tuple[float, float]], css: str, group: str, role: str, who: str = ""
    ) -> None:
        """Stretches of time in a lane whose middle is `y` pixels below the top; one that is too short to be seen has a hair line.

        `group`, `role`, `who`: what a script tells of a moment in it (bank-0, leads, 2).
        """
        path, hair, at = [], [], 0
        for began, ended in spans:
            x0, x1 = self.timeline.x(began), self.timeline.x(ended)
            path.append(f"m{x0 - at} 0h{x1 - x0}")
            if (x1 - x0) / self.timeline.whole * ROOMY < SHORTEST:
                hair.append(f"M{x0} {y - 6:g}v12")
            at = x1
        if path:
            words = {"group": group, "role": role, "who": who}
            told = " ".join(f'data-{name}="{escape(word, quote=True)}"' for name, word in words.items())
            title = f"<title>{escape(f'{group}: {role} {who}'.strip())}</title>"
            self._lanes.append(f'<path class="lane {css}" d="M0 {y:g}{"".join(path)}" {told}>{title}</path>')
            if hair and "struck" in css.split():
                self._lanes.append(f'<path class="hair {css}" d="{"".join(hair)}"/>')

    def mark(self, time: float, y: float, value: float | None, drawing: str, title: str, name: str = "") -> None:
        """A drawing of a few pixels at a moment, around (0, 0). `value`: what `y` stands for; `name`: links lead to it."""
        told = "" if value is None else f' data-value="{self.value(value)}"'
        self._words.append(
            f'<svg class="mark"{_id(name)} x="{self.timeline.share(time)}" y="{y:.1f}" data-time="{self.timeline.x(time)}"{told}>'
            f"<title>{escape(title)}</title>{drawing}</svg>"
        )

    def beside(self, y: float, text: str, css: str = "tick") -> None:
        """Words to the left of the drawing."""
        self._words.append(f'<text class="{css} end" x="-7" y="{y:.1f}">{escape(text)}</text>')

    def heading(self, y: float, text: str) -> None:
        """Words at the left edge of the drawing, for the lanes below them."""
        self._words.append(f'<text class="lane-name" y="{y:.1f}">{escape(text)}</text>')

    def svg(self, value_axis: bool = True) -> str:
        """The finished drawing."""
        line, high, top = self.timeline, self.bottom - TOP, self.value(self.highest)
        edge = round(top * EDGE / high, 2)
        about = (
            f' data-parts="{self.parts}" data-lowest="{self.lowest:g}" data-top="{top}" data-bottom="{self.bottom}"'
            f' data-scale="{self.scale}"'
        )
        values = f'<g class="values">{self._values()}</g>' if value_axis else ""
        data = (
            f'<svg class="data" y="{TOP - EDGE}" width="100%" height="{high + 2 * EDGE}" preserveAspectRatio="none"'
            f' viewBox="0 {-top - edge:g} {line.whole} {top + 2 * edge:g}">{"".join(self._data)}</svg>'
            if self._data
            else ""
        )
        lanes = (
            f'<svg class="lanes" width="100%" height="{self.height}" preserveAspectRatio="none"'
            f' viewBox="0 0 {line.whole} {self.height}">{"".join(self._lanes)}</svg>'
            if self._lanes
            else ""
        )
        return (
            f'<svg class="plot" height="{self.height}" role="img" aria-label="{escape(self.name, quote=True)}" tabindex="0"'
            f' data-run="{line.label}"{about if value_axis else ""}>'
            f'<svg class="faults" y="{TOP}" width="100%" height="{high}" preserveAspectRatio="none" viewBox="0 0 {line.whole} 1">'
            f'<use href="#bands-{line.label}"/></svg><use href="#labels-{line.label}" y="{TOP - 19}"/>{values}'
            f'<rect class="axis-line" y="{self.bottom}" width="100%" height="1"/>'
            f'<use href="#times-{line.label}" y="{self.bottom}"/>{data}{lanes}{"".join(self._words)}'
            f'<use href="#cursor-{line.label}"/></svg>'
        )

    def _values(self) -> str:
        drawn = []
        for value in self._ticks():
            y = self.y(value)
            drawn.append(f'<rect class="grid" y="{y:.1f}" width="100%" height="1"/>')
            drawn.append(f'<text class="tick end" x="-7" y="{y + 3.6:.1f}">{short(value)}</text>')
        if self.unit:
            drawn.append(f'<text class="tick unit end" x="-7" y="{TOP - 11}">{escape(self.unit)}</text>')
        return "".join(drawn)

    def _ticks(self) -> list[float]:
        if self.logarithmic:
            decades = round(math.log10(self.highest / self.lowest))
            return [self.lowest * 10**n for n in range(decades + 1)]
        step = nice_step(self.highest / 4)
        return [n * step for n in range(int(self.highest / step + 0.001) + 1)]

    def _pieces(self, points: Sequence[Point]) -> list[list[tuple[int, int]]]:
        pieces: list[list[tuple[int, int]]] = [[]]
        for time, value, fresh in points:
            if value is None or fresh:
                pieces.append([])
            if value is not None:
                pieces[-1].append((self.timeline.x(time), self.value(value)))
        return [piece for piece in pieces if piece]


def _joined(points: Sequence[tuple[int, int]]) -> str:
    """A path through these points: the first absolute, the others from the one before."""
    (x, y), *rest = points
    words = [f"M{x} {-y}"]
    for n, (after, up) in enumerate(rest):
        words.append(f"{'l' if n == 0 else ' '}{after - x} {y - up}")
        x, y = after, up
    return "".join(words)


def _name(title: str) -> str:
    """The end of a tag: what is drawn, for the script and for who hovers."""
    return f' data-name="{escape(title, quote=True)}"><title>{escape(title)}</title>'


def _id(name: str) -> str:
    return f' id="{escape(name, quote=True)}"' if name else ""


def short(value: float) -> str:
    """A tick's value: 0.5, 250, 12k, 3M."""
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:,.10g}"


def clock(time: float, seconds: float) -> str:
    """A time on an axis of that many seconds: 12 s, or 2:30 when it is longer than two minutes."""
    return f"{time:g} s" if seconds < 120 else f"{int(time // 60)}:{int(time % 60):02d}"


def nice_step(value: float) -> float:
    """1, 2, 2.5, 5 or 10 of a power of ten: the first that is not below `value`."""
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return float(next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= value - 1e-9))


def nice_top(highest: float) -> float:
    """The top of an axis whose highest value is this one: a whole number of steps."""
    if highest <= 0:
        return 1.0
    step = nice_step(highest * 1.04 / 4)
    return step * math.ceil(highest * 1.04 / step)


def time_step(seconds: float, most: int) -> float:
    """Seconds between two ticks of a time axis that has room for so many."""
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
    return next((float(step) for step in steps if seconds / step <= most), math.ceil(seconds / most / 3600) * 3600.0)
