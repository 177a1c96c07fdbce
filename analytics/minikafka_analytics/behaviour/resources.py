"""What brokers used, and how long their requests took: counters of scrapes, as few rows as figures of a whole run need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.landing.schemas import APIS, METRICS_OF_A_BROKER, METRICS_OF_REQUESTS, UP
from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_STEPS = 1_000
"""Steps of time of a run, each with one scrape of each broker's process: what a long run has in between is passed over, for a
counter tells the same over two intervals as over each."""

COUNTERS = (
    "cpu",
    "flush_seconds",
    "flushes",
    *(f"{api}_{what}" for api in APIS.values() for what in ("seconds", "requests")),
)

SCRAPES = "run STRING, broker INT, time DOUBLE, value DOUBLE, started DOUBLE, " + ", ".join(
    f"{counter} DOUBLE" for counter in COUNTERS
)
COUNTED = (
    "run STRING, broker INT, scrapes BIGINT, first_failed DOUBLE, last_failed DOUBLE, failed BIGINT, first_answered DOUBLE, "
    f"told STRUCT<time: DOUBLE, started: DOUBLE, {', '.join(f'{counter}: DOUBLE' for counter in COUNTERS)}>"
)


def scrapes(samples: DataFrame) -> DataFrame:
    """One row a scrape of a broker: `SCRAPES`, in this order. `value` is 1 when it was answered, else 0 (the metric `up`).

    `started` (unix seconds) and counters (seconds, or a number of flushes or requests) are as exported, from the metrics of
    `schemas.METRICS_OF_A_BROKER` and `METRICS_OF_REQUESTS`; null where the scrape does not tell them.
    """
    columns = [
        f"max(value) FILTER (WHERE metric = '{metric}') AS {name}" for metric, name in METRICS_OF_A_BROKER.items()
    ]
    columns += [
        f"max(value) FILTER (WHERE metric = '{metric}' AND labels['api'] = '{api}') AS {begins}_{ends}"
        for api, begins in APIS.items()
        for metric, ends in METRICS_OF_REQUESTS.items()
    ]
    named = ", ".join(f"'{metric}'" for metric in (UP, *METRICS_OF_A_BROKER, *METRICS_OF_REQUESTS))
    return query(
        f"""
        SELECT run, broker, time, max(value) FILTER (WHERE metric = '{UP}') AS value, {", ".join(columns)}
        FROM {{samples}} WHERE metric IN ({named}) GROUP BY run, broker, time
        HAVING value IS NOT NULL
        """,
        samples=samples,
    )


def counted(scrapes: DataFrame, clock: DataFrame) -> DataFrame:
    """From `scrapes`, one row for each step of time of each process of a broker, and one for the scrapes in it that failed:
    `COUNTED`, in this order, within the run's time.

    `scrapes`: how many there were, `failed` of them without an answer, from `first_failed` to `last_failed` (unix seconds; null
    without one). `told`: the last that was answered, with its counters; null where none was. Two rows of one process, told by
    `started`, have grown by what lies between them. A process that does not export when it was started is known to be another
    one only by a counter that fell.
    """
    return query(
        f"""
        SELECT s.run, s.broker, count(*) AS scrapes, min(s.time) FILTER (WHERE s.value = 0) AS first_failed,
               max(s.time) FILTER (WHERE s.value = 0) AS last_failed, count_if(s.value = 0) AS failed,
               min(s.time) FILTER (WHERE s.value = 1) AS first_answered,
               max(IF(s.value = 1, struct(s.time, s.started, {", ".join(f"s.{counter}" for counter in COUNTERS)}), NULL)) AS told
        FROM {{scrapes}} s JOIN {{clock}} c ON c.run = s.run
        WHERE s.time BETWEEN c.began AND c.ended
        GROUP BY s.run, s.broker, s.started, floor((s.time - c.began) * {MOST_STEPS} / (c.ended - c.began))
        """,
        scrapes=scrapes,
        clock=clock,
    )
