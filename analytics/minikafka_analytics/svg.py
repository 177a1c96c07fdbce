"""Plots over the time of a run, drawn as SVG by hand: no library draws them smaller, or in the page's own colours and type.

Colours are CSS classes, so that a plot follows the page into dark mode and onto paper. Every mark has a `<title>`, which
browsers show on hover and screen readers read. Coordinates are rounded to a tenth of a unit, which keeps pages small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

WIDTH = 1060
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 24, 28
LABEL_WIDTH = 24  # of a fault's number at the top of its band
NARROWEST_BAND = 3.0  # a fault of milliseconds must still be seen

Point = tuple[float, float | None, bool]  # seconds, value (None: unknown), whether a line may not be drawn to it


class Plot:
    """One plot: the time of the run from left to right, values from bottom to top (linear, or logarithmic)."""

    def __init__(
        self,
        name: str,
        seconds: float,
        height: int,
        highest: float = 0.0,
        lowest: float = 0.0,
        logarithmic: bool = False,
        unit: str = "",
        left: int = LEFT,
    ) -> None:
        self.name, self.seconds, self.height, self.unit, self.left = name, max(seconds, 0.001), height, unit, left
        self.logarithmic = logarithmic
        self.bottom = height - BOTTOM
        self._drawn: list[str] = []
        self._behind: list[str] = []
        if logarithmic:
            self.lowest = 10 ** math.floor(math.log10(max(lowest, 1e-6)))
            self.highest = 10 ** math.ceil(math.log10(max(highest, self.lowest * 10)))
        else:
            self.lowest, self.highest = 0.0, _nice_top(highest)

    def x(self, time: float) -> float:
        """Where a time is drawn; times outside of the run are drawn at its edges."""
        share = min(max(time / self.seconds, 0.0), 1.0)
        return self.left + share * (WIDTH - self.left - RIGHT)

    def y(self, value: float) -> float:
        """Where a value is drawn."""
        if self.logarithmic:
            share = math.log10(max(value, self.lowest) / self.lowest) / math.log10(self.highest / self.lowest)
        else:
            share = value / self.highest if self.highest else 0.0
        return self.bottom - min(max(share, 0.0), 1.0) * (self.bottom - TOP)

    def bands(self, faults: Iterable[tuple[str, float, float | None, str]]) -> None:
        """Shades the time of each fault: (number, from, to or None for the end, what it was)."""
        free_from = 0.0
        for number, began, ended, title in faults:
            x0, x1 = self.x(began), self.x(self.seconds if ended is None else ended)
            width = max(x1 - x0, NARROWEST_BAND)
            label = max(x0, free_from)
            free_from = label + LABEL_WIDTH + 2
            self._behind.append(
                f"<g><title>{escape(title)}</title>"
                f'<rect class="band" x="{x0:.1f}" y="{TOP}" width="{width:.1f}" height="{self.bottom - TOP}"/>'
                f'<path class="band-edge" d="M{x0:.1f} {TOP}V{self.bottom}"/>'
                f'<rect class="band-label" x="{label:.1f}" y="{TOP - 19}" width="{LABEL_WIDTH}" height="16" rx="3"/>'
                f'<text class="band-text" x="{label + LABEL_WIDTH / 2:.1f}" y="{TOP - 7}">{escape(number)}</text></g>'
            )

    def line(self, points: Sequence[Point], css: str, title: str) -> None:
        """Joins the points, but not across what is unknown."""
        path, joined = [], False
        for time, value, fresh in points:
            if value is None:
                joined = False
                continue
            path.append(f"{'L' if joined and not fresh else 'M'}{self.x(time):.1f} {self.y(value):.1f}")
            joined = True
        if path:
            self._drawn.append(f'<path class="line {css}" d="{"".join(path)}"><title>{escape(title)}</title></path>')

    def area(self, points: Sequence[Point], css: str, title: str) -> None:
        """Fills below the points, in as many pieces as there are silences."""
        for piece in _pieces(points):
            if len(piece) < 2:
                continue
            top = "L".join(f"{self.x(time):.1f} {self.y(value):.1f}" for time, value in piece)
            first, last = self.x(piece[0][0]), self.x(piece[-1][0])
            self._drawn.append(
                f'<path class="area {css}" d="M{first:.1f} {self.bottom}L{top}L{last:.1f} {self.bottom}Z">'
                f"<title>{escape(title)}</title></path>"
            )

    def bar(self, began: float, ended: float, low: float, high: float, css: str, title: str) -> None:
        """A column from `low` to `high` over a stretch of time."""
        x0, x1, y0, y1 = self.x(began), self.x(ended), self.y(low), self.y(high)
        self._drawn.append(
            f'<rect class="{css}" x="{x0 + 0.4:.1f}" y="{y1:.1f}" width="{max(x1 - x0 - 0.8, 0.6):.1f}" '
            f'height="{max(y0 - y1, 0.5):.1f}"><title>{escape(title)}</title></rect>'
        )

    def box(
        self, began: float, ended: float, y: float, height: float, css: str, title: str, least: float = 0.8
    ) -> None:
        """A stretch of time in a lane at `y` from the top of the drawing."""
        x0, x1 = self.x(began), self.x(ended)
        self._drawn.append(
            f'<rect class="{css}" x="{x0:.1f}" y="{y:.1f}" width="{max(x1 - x0, least):.1f}" height="{height:.1f}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def dot(self, time: float, value: float, css: str, title: str, radius: float = 2.0) -> None:
        """A small round mark."""
        self._drawn.append(
            f'<circle class="{css}" cx="{self.x(time):.1f}" cy="{self.y(value):.1f}" r="{radius}">'
            f"<title>{escape(title)}</title></circle>"
        )

    def wedge(self, time: float, value: float, css: str, title: str, text: str = "") -> None:
        """A mark that points down at a place, with a word above it."""
        x, y = self.x(time), self.y(value)
        word = f'<text class="mark-text" x="{x:.1f}" y="{y - 13:.1f}">{escape(text)}</text>' if text else ""
        self._drawn.append(
            f'<g><title>{escape(title)}</title><path class="{css}" d="M{x - 5:.1f} {y - 10:.1f}h10l-5 9z"/>{word}</g>'
        )

    def text(self, x: float, y: float, text: str, css: str = "tick") -> None:
        """Words at a place of the drawing."""
        self._drawn.append(f'<text class="{css}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>')

    def svg(self, value_axis: bool = True) -> str:
        """The finished drawing."""
        axes = self._values() if value_axis else []
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.name, quote=True)}">'
            + "".join([*self._behind, *axes, *self._times(), *self._drawn])
            + "</svg>"
        )

    def _values(self) -> list[str]:
        drawn = []
        for value in self._ticks():
            y = self.y(value)
            drawn.append(f'<path class="grid" d="M{self.left} {y:.1f}H{WIDTH - RIGHT}"/>')
            drawn.append(f'<text class="tick end" x="{self.left - 7}" y="{y + 3.6:.1f}">{short(value)}</text>')
        if self.unit:
            drawn.append(f'<text class="tick unit end" x="{self.left - 7}" y="{TOP - 11}">{escape(self.unit)}</text>')
        return drawn

    def _ticks(self) -> list[float]:
        if self.logarithmic:
            decades = round(math.log10(self.highest / self.lowest))
            return [self.lowest * 10**n for n in range(decades + 1)]
        step = _nice_step(self.highest / 4)
        return [n * step for n in range(int(self.highest / step + 0.001) + 1)]

    def _times(self) -> list[str]:
        step = _time_step(self.seconds)
        drawn = [f'<path class="axis" d="M{self.left} {self.bottom}H{WIDTH - RIGHT}"/>']
        for n in range(int(self.seconds / step + 0.001) + 1):
            time = n * step
            x = self.x(time)
            drawn.append(f'<path class="axis" d="M{x:.1f} {self.bottom}v4"/>')
            drawn.append(
                f'<text class="tick middle" x="{x:.1f}" y="{self.bottom + 17}">{clock(time, self.seconds)}</text>'
            )
        return drawn


def short(value: float) -> str:
    """A tick's value: 0.5, 250, 12k, 3M."""
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:,.10g}"


def clock(time: float, seconds: float) -> str:
    """A time on an axis of that many seconds: 12 s, or 2:30 when it is longer than two minutes."""
    return f"{time:g} s" if seconds < 120 else f"{int(time // 60)}:{int(time % 60):02d}"


def _pieces(points: Sequence[Point]) -> list[list[tuple[float, float]]]:
    pieces: list[list[tuple[float, float]]] = [[]]
    for time, value, fresh in points:
        if value is None or fresh:
            pieces.append([])
        if value is not None:
            pieces[-1].append((time, value))
    return pieces


def _nice_step(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return float(next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= value - 1e-9))


def _nice_top(highest: float) -> float:
    if highest <= 0:
        return 1.0
    step = _nice_step(highest * 1.04 / 4)
    return step * math.ceil(highest * 1.04 / step)


def _time_step(seconds: float) -> float:
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
    return next((float(step) for step in steps if seconds / step <= 14), math.ceil(seconds / 14 / 3600) * 3600.0)
