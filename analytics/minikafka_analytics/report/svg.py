"""Plots over the time of a run, as SVG that keeps its type at every width, and that a script can read back.

What is measured is drawn in a nested `<svg class="data">` whose units are those of the data (time in `per_second` parts of a
second, values in parts of one), and which the browser stretches to the width there is; strokes do not stretch with it. So a path
*is* its figures, exact, and report.js reads values from it and zooms by changing its view. Words stand outside of it, at
percentages, in CSS pixels: they are as large on a phone as on paper.

All plots of a run have the same time axis at the same place. Its ticks, the shaded faults with their labels, and the cursor are
drawn once for the run (timeline.py) and used by each plot. Colours are CSS classes, so a plot follows the page into dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from minikafka_analytics.report.timeline import ROOMY, Timeline

TOP, BOTTOM = 24, 28
EDGE = 3  # pixels of a drawing beyond its lowest and highest value, so that a line there is whole
SHORTEST = 0.7  # pixels that a stretch of time must be wide to be seen
LOG_PARTS = 10_000  # of a decade

Point = tuple[float, float | None, bool]  # seconds, value (None: unknown), whether a line may not be drawn to it


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
        """Return where a value is drawn, in pixels from the top."""
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
            data = " ".join(f'data-{name}="{escape(word, quote=True)}"' for name, word in words.items())
            title = f"<title>{escape(f'{group}: {role} {who}'.strip())}</title>"
            self._lanes.append(f'<path class="lane {css}" d="M0 {y:g}{"".join(path)}" {data}>{title}</path>')
            if hair and "struck" in css.split():
                self._lanes.append(f'<path class="hair {css}" d="{"".join(hair)}"/>')

    def mark(self, time: float, y: float, value: float | None, drawing: str, title: str, name: str = "") -> None:
        """A drawing of a few pixels at a moment, around (0, 0). `value`: what `y` stands for; `name`: links lead to it."""
        data = "" if value is None else f' data-value="{self.value(value)}"'
        self._words.append(
            f'<svg class="mark"{_id(name)} x="{self.timeline.share(time)}" y="{y:.1f}" data-time="{self.timeline.x(time)}"{data}>'
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
