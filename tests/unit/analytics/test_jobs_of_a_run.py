"""What is asked of a run's tables, on tables small enough to be counted by hand."""

from __future__ import annotations

from typing import Any

import frames
import pytest
from minikafka_analytics.behaviour import isr, lag, replicas, resources, scrapes

pytestmark = pytest.mark.timeout(900)

CLOCK = "run STRING, began DOUBLE, ended DOUBLE, interval DOUBLE, scraped_until DOUBLE, silence DOUBLE"
SAMPLES = (
    "run STRING, time DOUBLE, broker INT, metric STRING, labels MAP<STRING, STRING>, topic STRING, partition INT, "
    "value DOUBLE"
)
CHANGES = (
    "run STRING, topic STRING, partition INT, time DOUBLE, until DOUBLE, full_at DOUBLE, isr ARRAY<INT>, removed ARRAY<INT>, "
    "added ARRAY<INT>, first BOOLEAN"
)
PARTITIONS = "run STRING, topic STRING, partition INT, replicas BIGINT"


def frame(spark: Any, schema: str, *rows: dict[str, Any]) -> Any:
    """A table of rows of run "r" that may leave columns out."""
    return frames.frame(spark, schema, *({"run": "r", **row} for row in rows))


def clock(spark: Any, ended: float = 100.0) -> Any:
    row = {"began": 0.0, "ended": ended, "interval": 1.0, "scraped_until": ended, "silence": 3.0}
    return frame(spark, CLOCK, row)


def rows_of(table: Any, schema: str, spark: Any) -> list[dict[str, Any]]:
    """The rows of a table that has the columns that are declared."""
    assert table.dtypes == frames.shape(spark, schema)
    found = [row.asDict(recursive=True) for row in table.collect()]
    return [{name: value for name, value in row.items() if name != "run"} for row in found]


def led(
    time: float,
    leo: float | None,
    hw: float,
    lag: dict[str, float] | None = None,
    *,
    epoch: int = 4,
    size: int = 2,
    role: int = 2,
    broker: int = 1,
) -> list[dict[str, Any]]:
    """A scrape of a replica of t-0: what its broker, a leader by default, tells; `lag` by follower."""
    own = {
        "minikafka_log_end_offset": leo,
        "minikafka_high_watermark": hw,
        "minikafka_leader_epoch": epoch,
        "minikafka_replica_role": role,
        "minikafka_isr_size": size,
    }
    about = {"time": time, "broker": broker, "topic": "t", "partition": 0}
    told = [
        {**about, "metric": name, "labels": {}, "value": float(value)}
        for name, value in own.items()
        if value is not None
    ]
    followers = {**about, "metric": "minikafka_follower_lag"}
    return told + [{**followers, "labels": {"follower": name}, "value": value} for name, value in (lag or {}).items()]


def wide(spark: Any, *scraped: list[dict[str, Any]]) -> Any:
    return replicas.wide(frame(spark, SAMPLES, *(row for rows in scraped for row in rows)))


def stalls(spark: Any, *scraped: list[dict[str, Any]], ended: float = 100.0) -> list[dict[str, Any]]:
    table = lag.stalls(wide(spark, *scraped), clock(spark, ended))
    return sorted(rows_of(table, lag.STALLS, spark), key=lambda row: (row["began"], row["what"]))


class TestStalls:
    def test_of_a_follower_and_of_the_watermark_that_waits_for_it(self, spark: Any) -> None:
        found = stalls(
            spark,
            led(1, 10, 10, {"2": 0.0, "3": 0.0}),  # nothing to wait for
            led(2, 15, 10, {"2": 5.0, "3": 1.0}),
            led(3, 20, 10, {"2": 10.0, "3": 1.0}),  # 2 is at 10 still, 3 went from 14 to 19
            led(4, 20, 12, {"2": 8.0, "3": 0.0}),
            led(5, 20, 20, {"2": 0.0, "3": 0.0}),
        )
        about = {
            "topic": "t", "partition": 0, "leader": 1, "leader_epoch": 4, "began": 2.0, "ended": 3.0, "seconds": 1.0,
            "scrapes": 2, "behind": 10, "open": False,
        }  # fmt: skip
        assert found == [
            {"what": "follower", "broker": 2, **about},
            {"what": "high watermark", "broker": 1, **about},
        ]

    def test_one_scrape_and_offsets_that_move_are_none(self, spark: Any) -> None:
        assert stalls(spark, led(1, 10, 5), led(2, 20, 6), led(3, 20, 20)) == []

    def test_it_counts_anew_for_another_epoch_and_is_open_at_the_end(self, spark: Any) -> None:
        found = stalls(spark, led(1, 9, 5), led(2, 9, 5), led(3, 9, 5, epoch=5), led(9, 9, 5, epoch=5), ended=10.0)
        assert [(row["leader_epoch"], row["began"], row["ended"], row["open"]) for row in found] == [
            (4, 1.0, 2.0, False),
            (5, 3.0, 9.0, True),
        ]

    def test_followers_and_scrapes_without_the_end_of_the_log_tell_nothing(self, spark: Any) -> None:
        assert stalls(spark, led(1, 9, 5, role=1), led(2, 9, 5, role=1)) == []
        assert stalls(spark, led(1, None, 5, {"2": 3.0}), led(2, None, 5, {"2": 3.0})) == []


def test_lag_of_followers_as_their_leader_tells_it(spark: Any) -> None:
    scraped = wide(spark, led(1, 9, 5, {"2": 4.0, "3": 0.0}), led(2, 9, 5), led(9, 9, 5, {"2": 7.0}))
    found = [row.asDict() for row in replicas.lag(scraped, clock(spark)).collect()]
    assert [(row["broker"], row["time"], row["behind"], row["fresh"]) for row in found] == [
        (2, 1.0, 4, True),
        (2, 9.0, 7, True),
        (3, 1.0, 0, True),
    ]


def change(time: float, isr: list[int], removed: list[int], added: list[int], **more: Any) -> dict[str, Any]:
    return {
        "topic": "t", "partition": 0, "time": time, "isr": isr, "removed": removed, "added": added, "first": False, **more
    }  # fmt: skip


def test_isr_that_flaps(spark: Any) -> None:
    changes = [
        change(-5, [1, 2, 3], [], [1, 2, 3], first=True, until=10.0),
        change(10, [1, 2], [3], [], until=20.0, full_at=20.0),
        change(20, [1, 2, 3], [], [3], until=65.0, full_at=90.0),
        change(65, [1, 3], [2], [], until=70.0, full_at=90.0),
        change(70, [1], [3], [], until=90.0, full_at=90.0),
        change(90, [1, 2, 3], [], [2, 3]),
        {
            **change(99, [1], [], [1], first=True),
            "partition": 1,
        },  # of one replica: never alone among several, nor short
    ]
    partitions = [{"topic": "t", "partition": 0, "replicas": 3}, {"topic": "t", "partition": 1, "replicas": 1}]
    table = isr.by_partition(frame(spark, CHANGES, *changes), frame(spark, PARTITIONS, *partitions), clock(spark))
    found = sorted(rows_of(table, isr.BY_PARTITION, spark), key=lambda row: row["partition"])
    assert found == [
        {
            "topic": "t", "partition": 0, "replicas": 3, "shrinks": 3, "expansions": 2, "shrinks_within": 3,
            "shrinks_within_from": 10.0, "least": 1, "short": 35.0, "longest_short": 25.0, "alone": 20.0,
        },
        {
            "topic": "t", "partition": 1, "replicas": 1, "shrinks": 0, "expansions": 0, "shrinks_within": 0,
            "shrinks_within_from": None, "least": 1, "short": 0.0, "longest_short": 0.0, "alone": 0.0,
        },
    ]  # fmt: skip


def test_shrinks_that_are_far_apart_do_not_flap(spark: Any) -> None:
    changes = [change(1, [1], [2], []), change(61.5, [1], [2], []), change(62, [1], [3], [])]
    partitions = [{"topic": "t", "partition": 0, "replicas": 3}]
    table = isr.by_partition(frame(spark, CHANGES, *changes), frame(spark, PARTITIONS, *partitions), clock(spark))
    (row,) = rows_of(table, isr.BY_PARTITION, spark)
    assert (row["shrinks"], row["shrinks_within"], row["shrinks_within_from"]) == (3, 2, 61.5)


def test_sightings_are_scrapes_that_told_something_else(spark: Any) -> None:
    scraped = [
        led(1, 5, 5),
        led(2, 6, 6),
        led(3, 7, 7, size=1),
        led(3, 7, 7, role=1, broker=2),  # a follower's word counts for nothing
        led(4, 8, 8, size=1, epoch=5, broker=2),
        led(5, 8, 8, size=1, epoch=5, broker=2),
    ]
    table = scrapes.sightings(wide(spark, *scraped), clock(spark))
    found = sorted(rows_of(table, scrapes.SIGHTINGS, spark), key=lambda row: row["time"])
    assert [
        (row["time"], row["before"], row["leader"], row["leader_epoch"], row["isr_size"], row["last"]) for row in found
    ] == [
        (1.0, None, 1, 4, 2, False),
        (3.0, 2.0, 1, 4, 1, False),
        (4.0, 3.0, 2, 5, 1, False),
        (5.0, 4.0, 2, 5, 1, True),
    ]


def sample(time: float, metric: str, value: float, **labels: str) -> dict[str, Any]:
    return {"time": time, "broker": 1, "metric": metric, "labels": labels, "value": value}


def test_scrapes_of_a_broker_and_its_counters(spark: Any) -> None:
    samples = [
        sample(1, "up", 1), sample(1, "process_cpu_seconds_total", 7), sample(1, "process_start_time_seconds", 0.5),
        sample(1, "minikafka_request_duration_seconds_sum", 3, api="Produce"),
        sample(1, "minikafka_request_duration_seconds_sum", 9, api="Metadata"),
        sample(2, "up", 0),
        sample(3, "process_cpu_seconds_total", 8),  # nothing tells whether this scrape was answered
    ]  # fmt: skip
    table = resources.scrapes(frame(spark, SAMPLES, *samples))
    first, second = sorted(rows_of(table, resources.SCRAPES, spark), key=lambda row: row["time"])
    known = {name: value for name, value in first.items() if value is not None}
    assert known == {"broker": 1, "time": 1.0, "value": 1.0, "started": 0.5, "cpu": 7.0, "produce_seconds": 3.0}
    assert (second["time"], second["value"], second["cpu"]) == (2.0, 0.0, None)


def test_of_a_long_run_one_scrape_in_each_step_of_time_is_kept(spark: Any) -> None:
    def scrape(time: float, value: float, started: float | None = None, cpu: float | None = None) -> dict[str, Any]:
        return {"broker": 1, "time": time, "value": value, "started": started, "cpu": cpu}

    rows = [  # of a run of 10,000 s, so of steps of 10 s
        scrape(1, 1, 0.5, 1.0), scrape(4, 1, 0.5, 2.0), scrape(9, 1, 0.5, 3.0),
        scrape(12, 0), scrape(13, 0), scrape(14, 1, 13.5, 0.1),
    ]  # fmt: skip
    table = resources.counted(frame(spark, resources.SCRAPES, *rows), clock(spark, 10_000.0))
    found = sorted(rows_of(table, resources.COUNTED, spark), key=lambda row: (row["told"] or {"time": 13})["time"])
    assert [(row["scrapes"], row["failed"], row["first_failed"], row["last_failed"]) for row in found] == [
        (3, 0, None, None),
        (2, 2, 12.0, 13.0),
        (1, 0, None, None),
    ]
    assert [(row["told"]["time"], row["told"]["cpu"]) if row["told"] else None for row in found] == [
        (9.0, 3.0),
        None,
        (14.0, 0.1),
    ]
