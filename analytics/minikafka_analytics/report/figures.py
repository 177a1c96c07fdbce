"""The handful of numbers that runs are compared by: each with where it is from, its column, and its title in the comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from minikafka_analytics.report.columns import Schema, maybe, number, whole

Record = dict[str, Any]


class Figure(NamedTuple):
    """One of them; seconds, unless it is a whole number."""

    column: Schema
    of: Callable[[Record], Any] | None = None
    """From what the report says of the run; None: counted over more rows than the report has."""
    title: str = ""
    """Of its column in the comparison; empty: it has none there."""

    @property
    def is_seconds(self) -> bool:
        return "number" in self.column["type"]


def most(values: Iterable[float | None]) -> float | None:
    """The largest of those that are known."""
    return max((value for value in values if value is not None), default=None)


def _worst(name: str) -> Callable[[Record], float | None]:
    return lambda run: most(fault["worst"][name] for fault in run["faults"])


def _latency(name: str) -> Callable[[Record], float | None]:
    return lambda run: (run["throughput"]["whole_run"] or {}).get(name)


def _exposed(name: str) -> Callable[[Record], int | None]:
    return lambda run: (run["exposure"][name] or {}).get("records")


FIGURES: Mapping[str, Figure] = {
    "lost": Figure(whole(), lambda run: run["counts"]["lost"]),
    "longest_gap": Figure(
        maybe(number()), lambda run: most(gap["seconds"] for gap in run["gaps"]), "longest pause of acks"
    ),
    "re_elected": Figure(maybe(number()), _worst("re_elected"), "slowest re-election"),
    "re_acknowledged": Figure(maybe(number()), _worst("re_acknowledged")),
    "full_isr": Figure(maybe(number()), _worst("full_isr"), "slowest to full ISR"),
    "latency_p50": Figure(maybe(number()), _latency("p50"), "ack latency p50"),
    "latency_p99": Figure(maybe(number()), _latency("p99"), "ack latency p99"),
    "most_at_risk": Figure(maybe(whole()), _exposed("one_broker"), "most unflushed on a broker"),
    "most_on_no_disk": Figure(maybe(whole()), _exposed("committed_on_no_disk"), "committed on no disk"),
    "truncated_records": Figure(whole(), title="records cut"),
    "unclean_elections": Figure(whole()),
}


def figures(run: Record, over_all: Record) -> Record:
    """Every figure of a run; those that the report cannot tell are in `over_all`."""
    return {name: over_all[name] if figure.of is None else figure.of(run) for name, figure in FIGURES.items()}
