"""Asks Spark every question of a set of runs, several at once, and brings the answers, which are small, to the driver.

Nothing is decided here: which steps and answers there are and what they depend on, nothing else. The tables of a run (history,
journal, replicas, events, samples) are steps, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minikafka_analytics.behaviour import (
    coverage,
    faults,
    isr,
    lag,
    leadership,
    operations,
    replicas,
    resources,
    scrapes,
)
from minikafka_analytics.judge import anomalies, evidence, fates, logs
from minikafka_analytics.spark.questions import Questions, Record
from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Answers = dict[str, list[Record]]

ROWS_MAX = 20_000
"""Elections, ISR changes, truncations, returns, other events and pauses each, of a run, that a report tells one by one."""


def answer_all(ask: Questions) -> Answers:
    """Every answer, by name, for all the runs in the tables; each record has its `run`."""
    _judge(ask)
    _describe(ask)
    ask.answer("gaps", operations.longest_gaps, "gaps", "sends")
    ask.answer(
        "journal",
        lambda journal: journal.where("kind <> 'action'").select("run", "seq", "time", "kind", "body"),
        "journal",
    )
    return ask.answers()


def judge(ask: Questions) -> Answers:
    """The answers that a verdict depends on, and no others: history, journal and replicas are enough for them."""
    _judge(ask)
    ask.answer("gaps", lambda gaps: gaps.where("rank = 1"), "gaps")
    ask.answer(
        "journal",
        lambda journal: journal.where("kind = 'verdict'").select("run", "seq", "body"),
        "journal",
    )
    return ask.answers()


def _judge(ask: Questions) -> None:
    """The judgement of docs/reference/verdicts.md, in the order in which its steps depend on each other."""
    ask.step("census", evidence.census, "history", few=True)
    ask.step("markers", evidence.markers, "history", few=True)
    ask.step("sends", evidence.sends, "history")
    ask.step("facts", logs.facts, "replicas", few=True)
    ask.step("logs", logs.of_replicas, "replicas", few=True)
    ask.step("sent", evidence.sent, "sends", few=True)
    ask.step("bases", evidence.bases, "census", "markers", "journal", "facts", "logs", few=True)
    ask.step("lines", evidence.lines_of_readers, "history", "bases")
    ask.step("sittings", evidence.sittings, "lines", few=True)
    ask.step("extents", evidence.extents, "census", "markers", "facts", "logs", "sent", "sittings", "bases", few=True)
    ask.step("places", evidence.places, "lines", "sittings")
    ask.step("fates", _fates, "sends", "places", "extents", "facts", "bases")
    ask.step("suspects", fates.suspects, "fates", few=True)
    ask.step("moves", anomalies.moves, "lines", few=True)
    ask.step(
        "of_history",
        _of_history,
        "markers",
        "lines",
        "moves",
        "places",
        "fates",
        "suspects",
        "extents",
        "bases",
        few=True,
    )
    ask.step("of_logs", _of_logs, "replicas", "facts", "logs", "extents", few=True)
    ask.step("gaps", operations.gaps, "sends", "sent", few=True)
    ask.answer("bases", _as_it_is, "bases")
    ask.answer("counts", fates.counts, "fates")
    ask.answer("losses", fates.losses, "suspects", "bases")
    ask.answer("torn", logs.gaps_in_evidence, "replicas", "facts", "logs", "extents")
    ask.answer("kinds", lambda *found: anomalies.by_kind(anomalies.together(found)), "of_history", "of_logs")


def _fates(sends: DataFrame, places: DataFrame, extents: DataFrame, facts: DataFrame, bases: DataFrame) -> DataFrame:
    return fates.fates(sends, places, extents, evidence.topics(extents, facts), bases)


def _of_history(
    markers: DataFrame,
    lines: DataFrame,
    moves: DataFrame,
    places: DataFrame,
    fate: DataFrame,
    suspects: DataFrame,
    extents: DataFrame,
    bases: DataFrame,
) -> DataFrame:
    return anomalies.together(
        [
            anomalies.of_values(suspects, bases),
            anomalies.phantoms(suspects, extents),
            anomalies.of_places(places, fate, extents),
            anomalies.of_readers(moves, lines, fate, extents),
            anomalies.of_senders(fate, bases),
            anomalies.stale(lines, fate),
            anomalies.ends(markers, bases),
            anomalies.of_groups(markers, places, extents, bases),
        ]
    )


def _of_logs(replicas: DataFrame, facts: DataFrame, each: DataFrame, extents: DataFrame) -> DataFrame:
    return anomalies.together(
        [
            logs.bounds(facts, extents),
            logs.of_batches(replicas, each, extents),
            logs.divergence(replicas, each, extents),
        ]
    )


def _describe(ask: Questions) -> None:
    """What the run's faults, events and samples tell beside the judgement."""
    ask.step("scrapes", resources.scrapes, "samples", few=True)
    ask.step("wide", replicas.wide, "samples")
    ask.step("faults", faults.episodes, "journal", few=True)
    ask.step("clock", clocks, "census", "journal", "scrapes", few=True)
    ask.step("relevant", leadership.relevant, "events", "clock", few=True)
    ask.step("partitions", leadership.partitions, "relevant", "wide", "sent", few=True)
    ask.step("terms", leadership.terms, "relevant", few=True)
    ask.step("isr", leadership.isr_changes, "relevant", "partitions", few=True)
    ask.step("cuts", leadership.truncations, "relevant", "fates", "terms", "faults", few=True)
    for name, step in {"clocks": "clock", "faults": "faults", "partitions": "partitions"}.items():
        ask.answer(name, _as_it_is, step)
    ask.answer("terms", first("began, topic, partition", unclean="count_if(clean = false)"), "terms")
    ask.answer("isr", first("time, seq", number="id"), "isr")
    ask.answer("truncations", first("time, id", cut="sum(records)"), "cuts")
    ask.answer(
        "workloads",
        lambda markers: markers.where("op = 'workload' AND settings IS NOT NULL").select("run", "time", "settings"),
        "markers",
    )
    ask.answer("rates", operations.rates, "sends", "clock")
    ask.answer("errors", operations.errors, "sends")
    ask.answer("coverage", coverage.coverage, "markers", "sittings", "wide")
    of_faults, in_order = first("number, topic, partition"), first("time, id")
    ask.answer("pauses", lambda *found: of_faults(faults.pauses(*found)), "faults", "gaps")
    ask.answer("returns", lambda *found: in_order(leadership.returns(*found)), "relevant", "wide")
    ask.answer("events", lambda events: first("time, seq")(leadership.others(events)), "relevant")
    ask.answer("series", replicas.series, "wide", "clock")
    ask.answer("lag", replicas.lag, "wide", "clock")
    ask.answer("at_risk", replicas.at_risk, "wide")
    ask.answer("exposure", replicas.exposure, "wide", "clock", "partitions")
    ask.answer("silences", replicas.silences, "scrapes", "clock")
    ask.answer("went_back", replicas.watermarks_that_went_back, "wide")
    ask.answer("stalls", _stalls, "wide", "clock")
    ask.answer("isr_by_partition", isr.by_partition, "isr", "partitions", "clock")
    in_time = first("time, topic, partition")
    ask.answer("sightings", lambda *found: in_time(scrapes.sightings(*found)), "wide", "clock")
    ask.answer("counted", resources.counted, "scrapes", "clock")
    ask.answer("examples", _examples, "of_history", "of_logs", "fates", "cuts", "places")


def _examples(
    of_history: DataFrame, of_logs: DataFrame, fate: DataFrame, cuts: DataFrame, places: DataFrame
) -> DataFrame:
    return anomalies.examples(anomalies.together([of_history, of_logs]), fate, cuts, places)


def _stalls(wide: DataFrame, clock: DataFrame) -> DataFrame:
    return first("began, what, topic, partition, broker")(lag.stalls(wide, clock))


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def first(order: str, number: str = "", **over_all: str) -> Callable[[DataFrame], DataFrame]:
    """The first rows of each run, as many as the driver is to hold; in each `among`, how many the run has, and figures over all.

    `number`: the name of a column with the place of a row in that order, from 1. A run of a thousand faults and partitions has a
    million elections, each of which takes a kilobyte of the driver's memory.
    """
    figures = "".join(f", {figure} OVER whole AS {name}" for name, figure in over_all.items())
    columns = "* EXCEPT (nth)" + (f", nth AS {number}" if number else "")

    def of(rows: DataFrame) -> DataFrame:
        return query(
            f"""
            SELECT {columns} FROM (
              SELECT *, row_number() OVER (PARTITION BY run ORDER BY {order}) AS nth, count(*) OVER whole AS among{figures}
              FROM {{rows}}
              -- of the order of `nth`: two orders are two windows on each other, each with all rows of a run in memory
              WINDOW whole AS (PARTITION BY run ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING))
            WHERE nth <= {{most}} ORDER BY run, nth
            """,
            rows=rows,
            most=ROWS_MAX,
        )

    return of


def clocks(census: DataFrame, journal: DataFrame, scrapes: DataFrame) -> DataFrame:
    """Per run: when it began and ended (unix seconds), how often brokers were scraped, and what counts as their silence.

    A run begins with the first send or action, for what was done before to set it up is no part of the time axis, and ends
    with the last line of the history or of an action. `rate_step`: whole seconds in a step of the rates.
    """
    return query(
        f"""
        WITH client AS (
          SELECT run, min(began) FILTER (WHERE op = 'send') AS first_send, min(began) AS first, max(ended) AS last
          FROM {{census}} GROUP BY run
        ), journaled AS (
          SELECT run, min(time) AS first, min(time) FILTER (WHERE kind = 'action') AS first_action,
                 max(time) FILTER (WHERE kind = 'action') AS last
          FROM {{journal}} GROUP BY run
        ), scrape AS (
          SELECT run, broker, time, time - lag(time) OVER (PARTITION BY run, broker ORDER BY time) AS apart
          FROM {{scrapes}}
        ), scraped AS (
          SELECT run, percentile(apart, 0.5) AS interval, max(time) AS scraped_until, count(*) AS scrapes,
                 count(DISTINCT broker) AS brokers FROM scrape GROUP BY run
        ), run AS (
          SELECT coalesce(c.run, t.run) AS run, coalesce(least(c.first_send, t.first_action), c.first, t.first) AS began,
                 greatest(c.last, t.last) AS ended, c.first_send
          FROM client c FULL OUTER JOIN journaled t ON c.run = t.run
        )
        SELECT r.run, r.began, greatest(r.ended, r.began + 0.001) AS ended, r.first_send,
               coalesce(s.interval, 1.0) AS interval, s.interval IS NOT NULL AS scraped,
               coalesce(s.scraped_until, r.ended) AS scraped_until, coalesce(s.scrapes, 0) AS scrapes,
               coalesce(s.brokers, 0) AS brokers,
               CAST(greatest(1, ceil((greatest(r.ended, r.began) - r.began) / {operations.MOST_STEPS})) AS INT) AS rate_step,
               greatest({replicas.SILENT_AFTER_SCRAPES} * coalesce(s.interval, 1.0), {replicas.SILENT_AFTER_SECONDS}) AS silence
        FROM run r LEFT JOIN scraped s ON r.run = s.run
        """,
        census=census,
        journal=journal,
        scrapes=scrapes,
    )
