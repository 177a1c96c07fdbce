"""The faults of a run, as episodes: from the first blow to a broker until it was put right again.

The journal has one line before and one after every action. Killing a broker, wiping its unflushed volume and starting
it again are three actions, and to a reader they are one fault, a power loss that lasted until the start was done. So
the disruptive actions on one target up to the next healing action on it are put together; an episode without a healing
action of its own lasts as long as its actions did (or is open, when the brokers were left down).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minikafka.telemetry.fault_verbs import Verb

from minikafka_analytics.behaviour.asof import within
from minikafka_analytics.behaviour.operations import NOTABLE_GAP_SECONDS
from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOT_FAULTS = ("send",)
"""Actions of the journal that disturb nothing."""

SNAKE_CASE = (
    # `lower` would load ICU's collation tables, which takes longer than the whole query
    "translate(regexp_replace(fault, '([a-z])([A-Z])', '$1_$2'), "
    "'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
)


def episodes(journal: DataFrame) -> DataFrame:
    """One row per fault: (run, number, step, kinds, target, brokers, role, began, struck, ended, ok, detail).

    `number` counts by time from 1; `kinds` are the verbs in snake_case; `struck` is when the last disruptive action was done,
    `ended` when the healing was (null: never); `brokers` are the broker ids in the target's name.
    """
    return query(
        """
        WITH line AS (
          SELECT run, seq, time, phase, step, {snake_case} AS fault,
                 coalesce(target, '') AS target, role, ok, detail,
                 row_number() OVER (PARTITION BY run, fault, target, phase ORDER BY time, seq) AS nth
          FROM {journal} WHERE kind = 'action' AND fault IS NOT NULL
        ), action AS (
          SELECT run, fault, target, nth, min(time) AS began,
                 max(time) FILTER (WHERE phase = 'end') AS done, min(seq) AS seq,
                 max(step) AS step, max(role) AS role, bool_and(ok) AS ok, max(detail) AS detail,
                 fault IN ({healing}) AS heals
          FROM line WHERE fault NOT IN ({not_faults}) GROUP BY run, fault, target, nth
        ), placed AS (
          SELECT *, count_if(heals) OVER (PARTITION BY run, target ORDER BY began, seq
                      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - IF(heals, 1, 0) AS healed_before
          FROM action WHERE NOT (heals AND target = 'all')
        ), episode AS (
          SELECT run, target,
                 transform(array_sort(collect_list(struct(began, fault)) FILTER (WHERE NOT heals)), x -> x.fault) AS kinds,
                 min(began) FILTER (WHERE NOT heals) AS began,
                 max(coalesce(done, began)) FILTER (WHERE NOT heals) AS struck,
                 max(coalesce(done, began)) FILTER (WHERE heals) AS healed_at,
                 bool_or(fault IN ({leaves_down})) AS needs_healing,
                 min_by(step, began) FILTER (WHERE NOT heals AND step IS NOT NULL) AS step,
                 min_by(role, began) FILTER (WHERE NOT heals AND role IS NOT NULL) AS role,
                 bool_and(ok) FILTER (WHERE NOT heals) AS ok,
                 max_by(detail, began) FILTER (WHERE detail IS NOT NULL AND NOT coalesce(ok, true)) AS detail
          FROM placed GROUP BY run, target, healed_before HAVING count_if(NOT heals) > 0
        ), mended AS (
          SELECT e.run, e.target, e.began, min(a.done) AS by_all
          FROM episode e JOIN action a ON a.run = e.run AND a.heals AND a.target = 'all' AND a.began >= e.began
          GROUP BY e.run, e.target, e.began
        ), whole AS (
          SELECT e.*, coalesce(e.healed_at, IF(e.needs_healing, m.by_all, e.struck)) AS ended
          FROM episode e LEFT JOIN mended m ON m.run = e.run AND m.target = e.target AND m.began = e.began
        )
        SELECT run, CAST(row_number() OVER (PARTITION BY run ORDER BY began, target) AS INT) AS number, step, kinds, target,
               transform(regexp_extract_all(target, '([0-9]+)', 1), each -> CAST(each AS INT)) AS brokers, role,
               began, struck, ended, coalesce(ok, true) AS ok, detail
        FROM whole
        """.replace("{snake_case}", SNAKE_CASE)
        .replace("{healing}", _listed(verb.kind for verb in Verb if verb.rule.undoes))
        .replace("{not_faults}", _listed(NOT_FAULTS))
        .replace("{leaves_down}", _listed(verb.kind for verb in Verb if verb.rule.leaves_damage)),
        journal=journal,
    )


def blows(faults: DataFrame) -> DataFrame:
    """One row per fault and broker that it struck: (run, lane, number, time, began, until, ended); the lane is the broker."""
    return faults.selectExpr(
        "run",
        "explode(brokers) AS lane",
        "number",
        "began AS time",
        "began",
        "ended",
        "coalesce(ended, double('Infinity')) AS until",
    )


def pauses(faults: DataFrame, gaps: DataFrame) -> DataFrame:
    """The longest pause of acknowledgements that a client would notice, per fault and partition, as the fault's.

    Columns: run, number, topic, partition, gap (seconds), acked_at (unix time of its end), never_again. It began before the
    fault or within a second of it, before the next fault, and ended after this one began.
    """
    moments = faults.selectExpr("run", "0 AS lane", "number", "began AS time")
    noticed = gaps.where(f"seconds >= {NOTABLE_GAP_SECONDS}").selectExpr(
        "run",
        "0 AS lane",
        "struct(topic, partition, began, ended, seconds, open) AS id",
        "began - 1.0 AS low",
        "ended AS high",
    )
    return query(
        """
        SELECT p.run, p.number, id.topic AS topic, id.partition AS partition, max(id.seconds) AS gap,
               max_by(id.ended, id.seconds) AS acked_at, max_by(id.open, id.seconds) AS never_again
        FROM {paused} p JOIN (
          SELECT run, number, lead(began) OVER (PARTITION BY run ORDER BY began) AS next_fault FROM {faults}) f
          ON f.run = p.run AND f.number = p.number
        WHERE f.next_fault IS NULL OR id.began < f.next_fault
        GROUP BY p.run, p.number, id.topic, id.partition
        """,
        faults=faults,
        paused=within(moments, noticed),
    )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
