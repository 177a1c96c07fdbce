"""Asks Spark every question of a set of runs, several at once, and brings the answers, which are small, to the driver.

Nothing is decided here: which tables there are and what they depend on, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from minikafka_analytics import faults, integrity, leadership, operations, replicas
from minikafka_analytics.schemas import UP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

Record = dict[str, Any]
Answers = dict[str, list[Record]]
AT_ONCE = 3  # planning one query overlaps running another; more than this only queue for two cores


def measure(landed: Mapping[str, DataFrame]) -> Answers:
    """Every answer, by name, for all the runs in the landed tables; each record has its `run`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {name: pool.submit(_collect, frame) for name, frame in _questions(landed, pool).items()}
        return {name: future.result() for name, future in asked.items()}


def _questions(landed: Mapping[str, DataFrame], pool: ThreadPoolExecutor) -> dict[str, DataFrame]:
    """The tables to collect. What several of them are made from is computed once, and cut off from how it was made: planning a
    query costs more than running it here, and grows with the whole tree below it."""
    scrapes = landed["samples"].where(f"metric = '{UP}'")
    history, journal, ups = pool.map(_settle, (landed["history"], landed["journal"], scrapes))
    clock = _settle(clocks(history, journal, ups))
    soon = {
        "sends": pool.submit(lambda: _settle(operations.sends(history))),
        "wide": pool.submit(lambda: _settle(replicas.wide(landed["samples"]))),
        "reads": pool.submit(lambda: _settle(integrity.reads(history))),
        "bounds": pool.submit(lambda: _settle(integrity.bounds(history))),
        "faults": pool.submit(lambda: _settle(faults.episodes(journal))),
        "events": pool.submit(lambda: _settle(leadership.relevant(landed["events"], clock))),
    }
    sends, wide, reads, bounds, faulty, events = (future.result() for future in soon.values())
    later = {
        "fates": pool.submit(lambda: _settle(integrity.fates(sends, reads, bounds))),
        "gaps": pool.submit(lambda: _settle(operations.gaps(sends))),
        "partitions": pool.submit(lambda: _settle(leadership.partitions(events, wide, sends))),
        "terms": pool.submit(lambda: _settle(leadership.terms(events))),
        "isr": pool.submit(lambda: _settle(leadership.isr_changes(events))),
    }
    fates, gaps, partitions, terms, isr = (future.result() for future in later.values())
    cuts = _settle(leadership.truncations(events, fates, terms, faulty))
    offices = terms.selectExpr(
        "*",
        "row_number() OVER (PARTITION BY run ORDER BY began, topic, partition) AS id",
        "began AS time",
        "array(IF(coalesce(previous_leader, -1) = -1, leader, previous_leader)) AS concerned",
    )
    return {
        "clocks": clock,
        "lines": lines(landed),
        "journal": journal.where("malformed IS NULL AND kind <> 'action'").select("run", "seq", "time", "kind", "body"),
        "workloads": history.where("op = 'workload' AND settings IS NOT NULL").select("run", "time", "settings"),
        "faults": faulty,
        "noticed": faults.noticed(faulty, events),
        "rates": operations.rates(sends, clock),
        "errors": operations.errors(sends),
        "counts": integrity.counts(fates, clock),
        "examples": integrity.examples(fates, cuts, reads, clock),
        "rewritten": integrity.rewritten(reads, sends, clock),
        "coverage": integrity.coverage(reads, bounds, wide),
        "partitions": partitions,
        "gaps": operations.longest_gaps(gaps, sends, faulty),
        "terms": faults.preceding(offices, faulty),
        "isr": faults.preceding(isr, faulty),
        "truncations": faults.preceding(cuts, faulty),
        "returns": faults.preceding(leadership.returns(events, wide), faulty),
        "recoveries": faults.recoveries(faulty, terms, isr, gaps, partitions),
        "events": leadership.others(events),
        "series": replicas.series(wide, clock),
        "at_risk": replicas.at_risk(wide),
        "exposure": replicas.exposure(wide, clock, partitions),
        "silences": replicas.silences(ups, clock, faulty),
        "went_back": replicas.watermarks_that_went_back(wide),
    }


def _settle(frame: DataFrame) -> DataFrame:
    """Computes a table now and keeps it in memory as a leaf that later queries start from."""
    return frame.localCheckpoint(eager=True)


def clocks(history: DataFrame, journal: DataFrame, scrapes: DataFrame) -> DataFrame:
    """Per run: when it began and ended (unix seconds), how often brokers were scraped, and what counts as their silence.

    A run begins with the first send or action, for what was done before to set it up is no part of the time axis, and ends
    with the last line of the history or of an action. `rate_step`: whole seconds in a step of the rates. `accepted_before`:
    records acknowledged before it may be lost, because the scenario says that it destroys every copy (`since` of its
    claims).
    """
    return history.sparkSession.sql(
        f"""
        WITH client AS (
          SELECT run, min(time) FILTER (WHERE op = 'send') AS first_send, min(time) AS first, max(time) AS last
          FROM {{history}} GROUP BY run
        ), told AS (
          SELECT run, min(time) AS first, min(time) FILTER (WHERE kind = 'action') AS first_action,
                 max(time) FILTER (WHERE kind = 'action') AS last
          FROM {{journal}} GROUP BY run
        ), scrape AS (
          SELECT run, broker, time, time - lag(time) OVER (PARTITION BY run, broker ORDER BY time) AS apart
          FROM {{scrapes}}
        ), scraped AS (
          SELECT run, percentile(apart, 0.5) AS interval, max(time) AS scraped_until, count(*) AS scrapes,
                 count(DISTINCT broker) AS brokers FROM scrape GROUP BY run
        ), since AS (
          SELECT run,
                 explode(from_json(get_json_object(body, '$.scenario.spec.claims'), 'ARRAY<STRUCT<since: STRING>>').since) AS step
          FROM {{journal}} WHERE kind = 'scenario'
        ), accepted AS (
          SELECT j.run, max(j.time) AS accepted_before FROM (
            SELECT run, step, min(time - coalesce(seconds, 0)) AS time FROM {{journal}}
            WHERE step IS NOT NULL GROUP BY run, step) j
          JOIN since s ON s.run = j.run AND s.step = j.step GROUP BY j.run
        ), run AS (
          SELECT coalesce(c.run, t.run) AS run, coalesce(least(c.first_send, t.first_action), c.first, t.first) AS began,
                 greatest(c.last, t.last) AS ended, c.first_send
          FROM client c FULL OUTER JOIN told t ON c.run = t.run
        )
        SELECT r.run, r.began, greatest(r.ended, r.began + 0.001) AS ended, r.first_send,
               coalesce(s.interval, 1.0) AS interval, s.interval IS NOT NULL AS scraped,
               coalesce(s.scraped_until, r.ended) AS scraped_until, coalesce(s.scrapes, 0) AS scrapes,
               coalesce(s.brokers, 0) AS brokers,
               a.accepted_before,
               CAST(greatest(1, ceil((greatest(r.ended, r.began) - r.began) / {operations.MOST_STEPS})) AS INT) AS rate_step,
               greatest({replicas.SILENT_AFTER_SCRAPES} * coalesce(s.interval, 1.0), {replicas.SILENT_AFTER_SECONDS}) AS silence
        FROM run r LEFT JOIN scraped s ON r.run = s.run LEFT JOIN accepted a ON a.run = r.run
        """,
        history=history,
        journal=journal,
        scrapes=scrapes,
    )


def lines(landed: Mapping[str, DataFrame]) -> DataFrame:
    """Per run and table: rows landed, lines that could not be read, and the text of one of those."""
    frames = [frame.selectExpr("run", f"'{name}' AS `table`", "malformed") for name, frame in landed.items()]
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionAll(frame)
    return together.groupBy("run", "table").agg(
        *_expressions("count(*) AS rows", "count(malformed) AS malformed", "min(malformed) AS example")
    )


def _expressions(*texts: str) -> list[Any]:
    from pyspark.sql import functions as F

    return [F.expr(text) for text in texts]


def _collect(frame: DataFrame) -> list[Record]:
    return [_plain(row) for row in frame.collect()]


def _plain(row: Row) -> Record:
    return row.asDict(recursive=True)
