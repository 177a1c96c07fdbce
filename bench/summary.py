"""From rows to ratios: medians of the rounds, and best against best, MiniKafka over Apache Kafka, beside the goal."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.measurements import Row

MINI, KAFKA = "MiniKafka", "Apache Kafka"
OTHERS_CORES_MAX = 0.4
"""Rows during which others used more than this are left out, as long as a quieter one of the same test is there."""


class Line(NamedTuple):
    """One line of the table; ``goal`` is what the ratio has to be, None when it is there for information."""

    title: str
    unit: str
    figure: str
    test: str
    goal: float | None = None
    higher_is_better: bool = True


LINES = (
    Line("produce, Kafka's producer, 256 KiB batches", "MB/s", "mb_s", "produce_256k", 1.0),
    Line("produce, Kafka's producer, 64 KiB batches", "MB/s", "mb_s", "produce_64k", 1.0),
    Line("produce, Kafka's producer, 1 MiB batches", "MB/s", "mb_s", "produce_1m", 1.0),
    Line("produce, Kafka's producer, 100 B records", "MB/s", "mb_s", "produce_100b", 0.9),
    Line("produce, raw, 64 KiB batches", "MB/s", "mb_s", "raw_produce_64k", 1.2),
    Line("produce, Kafka's producer, 64 KiB, lz4", "MB/s", "mb_s", "produce_lz4", 1.0),
    Line("produce, Kafka's producer, 64 KiB, zstd", "MB/s", "mb_s", "produce_zstd", 1.0),
    Line("produce, raw, 128 KiB of words as lz4", "MB/s", "mb_s", "raw_produce_lz4", 1.0),
    Line("produce, raw, 128 KiB of words as zstd", "MB/s", "mb_s", "raw_produce_zstd", 1.0),
    Line("produce, raw, 1 MiB batches", "MB/s", "mb_s", "raw_produce_1m"),
    Line("produce, raw, one 1 KiB record a request", "requests/s", "req_s", "raw_small", 1.5),
    Line("consume, Kafka's consumer", "MB/s", "mb_s", "consume_java", 0.95),
    Line("fetch, raw, 1 MiB a request", "MB/s", "mb_s", "raw_fetch_1m", 0.95),
    Line("brokers' CPU, 256 KiB batches", "CPU s/GB", "broker_cpu_s_per_gb", "produce_256k", 0.6, False),
    Line("brokers' CPU, 64 KiB batches", "CPU s/GB", "broker_cpu_s_per_gb", "produce_64k", 0.6, False),
    Line("brokers' CPU, raw 64 KiB batches", "CPU s/GB", "broker_cpu_s_per_gb", "raw_produce_64k", None, False),
    Line("brokers' CPU, raw lz4", "CPU s/GB", "broker_cpu_s_per_gb", "raw_produce_lz4", 1.0, False),
    Line("brokers' CPU, raw zstd", "CPU s/GB", "broker_cpu_s_per_gb", "raw_produce_zstd", 1.0, False),
    Line("brokers' CPU, raw fetch", "CPU s/GB", "broker_cpu_s_per_gb", "raw_fetch_1m", 1.0, False),
    Line("p99 at 2,000 records/s, Kafka's producer", "ms", "p99_ms", "paced_2000_java", 0.75, False),
    Line("p50 at 2,000 requests/s, raw open loop", "ms", "p50_ms", "paced_2000_raw", None, False),
    Line("p99 at 2,000 requests/s, raw open loop", "ms", "p99_ms", "paced_2000_raw", 0.5, False),
    Line("p99 at 500 requests/s, raw open loop", "ms", "p99_ms", "paced_500_raw", 0.5, False),
    Line("p50, one request in flight, raw", "ms", "p50_ms", "sync", None, False),
    Line("p99 end to end, Kafka's tool", "ms", "p99_ms", "end_to_end_java", None, False),
    Line("RSS of three brokers after load", "MB", "resident_mb", "paced_2000_raw", 0.2, False),
    Line("start: exec to all three in Metadata, fresh", "s", "ready_s", "start_fresh", 0.3, False),
    Line("start: the same on data that is there", "s", "ready_s", "start_restart", 0.3, False),
    Line("start: exec to first acknowledged record", "s", "first_ack_s", "start_restart", None, False),
    Line("idle CPU of three brokers", "cores", "cores", "idle", 0.3, False),
    Line("RSS of three idle brokers", "MB", "resident_mb", "idle", 0.2, False),
    Line("gap after kill -9 of the leader, median", "s", "gap_s", "failover", 0.2, False),
    Line("gap after kill -9 of the leader, worst", "s", "worst_gap_s", "failover", None, False),
)


class Compared(NamedTuple):
    """One line with its figures: (min, median, max) of each contender, and the ratio of the medians."""

    line: Line
    mini: tuple[float, float, float]
    kafka: tuple[float, float, float]

    @property
    def ratio(self) -> float | None:
        """MiniKafka over Apache Kafka; None when the latter is zero."""
        return self.mini[1] / self.kafka[1] if self.kafka[1] else None

    @property
    def best_ratio(self) -> float | None:
        """The same of each one's best round, which other work on the machine disturbed least."""
        best = 2 if self.line.higher_is_better else 0
        return self.mini[best] / self.kafka[best] if self.kafka[best] else None

    @property
    def reached(self) -> bool | None:
        """Return whether the goal is reached; None without a goal or a ratio."""
        if self.line.goal is None or self.ratio is None:
            return None
        better: Callable[[float, float], bool] = operator.ge if self.line.higher_is_better else operator.le
        return better(round(self.ratio, 2), self.line.goal)


def figure(row: Row, name: str) -> float | None:
    """A figure of a row, by name; also those that are worked out."""
    if name == "broker_cpu_s_per_gb":
        return row.broker_cpu_s / row.gigabytes if row.gigabytes > 0.05 else None
    if name == "resident_mb":
        return row.resident_mb
    return row.figures.get(name)


def quiet(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that others did not disturb; all of them when none is like that."""
    return [row for row in rows if row.other_cpu_s <= OTHERS_CORES_MAX * row.wall_s] or rows


def disturbed(rows: Iterable[Row]) -> float:
    """The share of loads during which other work used more than :data:`OTHERS_CORES_MAX`, 0 to 1."""
    loads = [row for row in rows if row.wall_s]
    return sum(row.other_cpu_s > OTHERS_CORES_MAX * row.wall_s for row in loads) / max(1, len(loads))


def compare(rows: Iterable[Row]) -> list[Compared]:
    """Every line for which both contenders have figures, in the order of the table."""
    rows = list(rows)
    compared = []
    for line in LINES:
        spreads = []
        for name in (MINI, KAFKA):
            of_test = quiet([row for row in rows if row.contender == name and row.test == line.test])
            values = [value for row in of_test if (value := figure(row, line.figure)) is not None]
            if values:
                spreads.append((min(values), statistics.median(values), max(values)))
        if len(spreads) == 2:
            compared.append(Compared(line, *spreads))
    return compared


def show(compared: Iterable[Compared], console: Console) -> None:
    """Print the table."""
    table = Table(title="MiniKafka beside Apache Kafka 4.3.1: three brokers, RF 3, acks=all, min ISR 2, 1 KiB records")
    table.add_column("what")
    table.add_column("unit")
    for name in (KAFKA, MINI):
        table.add_column(f"{name}\nmin / median / max", justify="right")
    table.add_column("ratio of\nmedians", justify="right")
    table.add_column("best\nto best", justify="right")
    table.add_column("goal", justify="right")
    for one in compared:
        colour = {True: "green", False: "red", None: "default"}[one.reached]
        sign = "≥" if one.line.higher_is_better else "≤"
        table.add_row(
            one.line.title,
            one.line.unit,
            _spread(one.kafka),
            _spread(one.mini),
            f"[{colour}]{one.ratio:.2f}[/]" if one.ratio is not None else "",
            f"{one.best_ratio:.2f}" if one.best_ratio is not None else "",
            f"{sign} {one.line.goal:g}" if one.line.goal is not None else "",
        )
    console.print(table)


def _spread(values: tuple[float, float, float]) -> str:
    return " / ".join(_short(value) for value in values) if values[0] != values[2] else _short(values[1])


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def as_json(compared: Iterable[Compared]) -> list[dict[str, object]]:
    """The same as a list of objects."""
    return [
        {
            "what": one.line.title,
            "test": one.line.test,
            "figure": one.line.figure,
            "unit": one.line.unit,
            "apache_kafka": [round(value, 4) for value in one.kafka],
            "minikafka": [round(value, 4) for value in one.mini],
            "ratio": None if one.ratio is None else round(one.ratio, 3),
            "best_ratio": None if one.best_ratio is None else round(one.best_ratio, 3),
            "goal": one.line.goal,
            "higher_is_better": one.line.higher_is_better,
            "reached": one.reached,
        }
        for one in compared
    ]
