"""Asks Spark every question of a set of runs, several at once, and brings the answers, which are small, to the driver.

Nothing is decided here: which tables there are and what they depend on, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from minikafka_analytics import (
    anomalies,
    coverage,
    evidence,
    fates,
    faults,
    leadership,
    logs,
    operations,
    replicas,
)
from minikafka_analytics.schemas import UP
from minikafka_analytics.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

Record = dict[str, Any]
Answers = dict[str, list[Record]]
Later = Callable[[], "DataFrame"]
AT_ONCE = 3  # planning one query overlaps running another; more than this only queue for two cores


FEW_ROWS = frozenset(
    [
        "bases",
        "gaps",
        "sittings",
        "extents",
        "of_logs",
        "of_history",
        "faults",
        "clock",
        "partitions",
        "terms",
        "isr",
        "cuts",
    ],
)
"""Steps with a row per partition, reader, fault or anomaly, not per record or scrape."""


def measure(landed: Mapping[str, DataFrame], steps: Steps) -> Answers:
    """Every answer, by name, for all the runs in the landed tables; each record has its `run`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judged = _Judged(landed, steps, pool)
        asked = {**judged.questions(), **_told(landed, steps, pool, judged)}
        waiting = {name: pool.submit(_collect, frame) for name, frame in asked.items()}
        return {name: future.result() for name, future in waiting.items()}


def judge(landed: Mapping[str, DataFrame], steps: Steps) -> Answers:
    """The answers that a verdict depends on, and no others: history, journal and replicas are enough for them."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judged = _Judged(landed, steps, pool)
        asked = {
            **judged.questions(),
            "gaps": judged.land["gaps"].where("rank = 1"),
            "lines": lines(landed),
            "journal": landed["journal"].where("kind = 'verdict' AND malformed IS NULL").select("run", "seq", "body"),
        }
        waiting = {name: pool.submit(_collect, frame) for name, frame in asked.items()}
        return {name: future.result() for name, future in waiting.items()}


class _Landing:
    """Lands steps on a pool, and waits for them by name."""

    def __init__(self, steps: Steps, pool: ThreadPoolExecutor) -> None:
        self._steps = steps
        self._pool = pool
        self._waiting: dict[str, Future[DataFrame]] = {}

    def begin(self, **made: Later) -> None:
        for name, make in made.items():
            self._waiting[name] = self._pool.submit(self._land, name, make)

    def _land(self, name: str, make: Later) -> DataFrame:
        return self._steps.land(name, make(), few=name in FEW_ROWS)

    def __getitem__(self, name: str) -> DataFrame:
        return self._waiting[name].result()


class _Judged:
    """The judgement of docs/verdicts.md: steps in the order in which they depend on each other."""

    def __init__(self, landed: Mapping[str, DataFrame], steps: Steps, pool: ThreadPoolExecutor) -> None:
        history, journal, told = landed["history"], landed["journal"], landed["replicas"]
        self.history, self.told = history, told
        land = self.land = _Landing(steps, pool)
        land.begin(
            bases=lambda: evidence.bases(history, journal, told),
            sends=lambda: evidence.sends(history),
        )
        bases, sends = land["bases"], land["sends"]
        land.begin(lines=lambda: evidence.lines_of_readers(history, bases), gaps=lambda: operations.gaps(sends))
        lines = land["lines"]
        land.begin(sittings=lambda: evidence.sittings(lines))
        sittings = land["sittings"]
        land.begin(
            extents=lambda: evidence.extents(history, told, sends, sittings, bases),
            places=lambda: evidence.places(lines, sittings),
        )
        extents, places = land["extents"], land["places"]
        land.begin(
            fates=lambda: fates.fates(sends, places, extents, evidence.topics(extents, told), bases),
            of_logs=lambda: anomalies.together(
                [logs.bounds(told, extents), logs.of_batches(told, extents), logs.divergence(told, extents)]
            ),
        )
        fate = land["fates"]
        land.begin(
            of_history=lambda: anomalies.together(
                [
                    anomalies.of_values(fate, bases),
                    anomalies.phantoms(fate, extents),
                    anomalies.of_places(places, fate, extents),
                    anomalies.of_readers(lines, fate, extents),
                    anomalies.of_senders(fate, bases),
                    anomalies.stale(lines, fate),
                    anomalies.ends(history, bases),
                ]
            ),
        )

    def questions(self) -> dict[str, DataFrame]:
        land = self.land
        self.anomalies = land["of_history"].unionAll(land["of_logs"])
        return {
            "bases": land["bases"],
            "counts": fates.counts(land["fates"]),
            "kinds": anomalies.by_kind(self.anomalies),
            "losses": fates.losses(land["fates"], land["bases"]),
            "torn": logs.gaps_in_evidence(self.told, land["extents"]),
        }


def _told(
    landed: Mapping[str, DataFrame], steps: Steps, pool: ThreadPoolExecutor, judged: _Judged
) -> dict[str, DataFrame]:
    """What the run's faults, events and samples tell beside the judgement."""
    land = _Landing(steps, pool)
    history, journal = landed["history"], landed["journal"]
    land.begin(
        ups=lambda: landed["samples"].where(f"metric = '{UP}'").select("run", "time", "broker", "value"),
        wide=lambda: replicas.wide(landed["samples"]),
        faults=lambda: faults.episodes(journal),
    )
    ups, wide, faulty = land["ups"], land["wide"], land["faults"]
    land.begin(clock=lambda: clocks(history, journal, ups))
    clock, sends, gaps = land["clock"], judged.land["sends"], judged.land["gaps"]
    land.begin(events=lambda: leadership.relevant(landed["events"], clock))
    events = land["events"]
    land.begin(
        partitions=lambda: leadership.partitions(events, wide, sends),
        terms=lambda: leadership.terms(events),
    )
    partitions, terms, fate = land["partitions"], land["terms"], judged.land["fates"]
    land.begin(
        isr=lambda: leadership.isr_changes(events, partitions),
        cuts=lambda: leadership.truncations(events, fate, terms, faulty),
    )
    isr, cuts = land["isr"], land["cuts"]
    return {
        "clocks": clock,
        "lines": lines(landed),
        "journal": journal.where("malformed IS NULL AND kind <> 'action'").select("run", "seq", "time", "kind", "body"),
        "workloads": history.where("op = 'workload' AND settings IS NOT NULL").select("run", "time", "settings"),
        "faults": faulty,
        "rates": operations.rates(sends, clock),
        "errors": operations.errors(sends),
        "examples": anomalies.examples(judged.anomalies, fate, cuts, judged.land["places"]),
        "coverage": coverage.coverage(history, judged.land["sittings"], wide),
        "partitions": partitions,
        "gaps": operations.longest_gaps(gaps, sends),
        "terms": terms,
        "isr": isr,
        "truncations": cuts,
        "returns": leadership.returns(events, wide),
        "pauses": faults.pauses(faulty, gaps),
        "events": leadership.others(events),
        "series": replicas.series(wide, clock),
        "lag": replicas.lag(landed["samples"], clock),
        "at_risk": replicas.at_risk(wide),
        "exposure": replicas.exposure(wide, clock, partitions),
        "silences": replicas.silences(ups, clock),
        "went_back": replicas.watermarks_that_went_back(wide),
    }


def clocks(history: DataFrame, journal: DataFrame, scrapes: DataFrame) -> DataFrame:
    """Per run: when it began and ended (unix seconds), how often brokers were scraped, and what counts as their silence.

    A run begins with the first send or action, for what was done before to set it up is no part of the time axis, and ends
    with the last line of the history or of an action. `rate_step`: whole seconds in a step of the rates.
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
        ), run AS (
          SELECT coalesce(c.run, t.run) AS run, coalesce(least(c.first_send, t.first_action), c.first, t.first) AS began,
                 greatest(c.last, t.last) AS ended, c.first_send
          FROM client c FULL OUTER JOIN told t ON c.run = t.run
        )
        SELECT r.run, r.began, greatest(r.ended, r.began + 0.001) AS ended, r.first_send,
               coalesce(s.interval, 1.0) AS interval, s.interval IS NOT NULL AS scraped,
               coalesce(s.scraped_until, r.ended) AS scraped_until, coalesce(s.scrapes, 0) AS scrapes,
               coalesce(s.brokers, 0) AS brokers,
               CAST(greatest(1, ceil((greatest(r.ended, r.began) - r.began) / {operations.MOST_STEPS})) AS INT) AS rate_step,
               greatest({replicas.SILENT_AFTER_SCRAPES} * coalesce(s.interval, 1.0), {replicas.SILENT_AFTER_SECONDS}) AS silence
        FROM run r LEFT JOIN scraped s ON r.run = s.run
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
