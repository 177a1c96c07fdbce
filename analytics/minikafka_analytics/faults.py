"""The faults of a run, as episodes: from the first blow to a broker until it was put right again.

The journal has one line before and one after every action. Killing a broker, wiping its unflushed volume and starting
it again are three actions, and to a reader they are one fault, a power loss that lasted until the start was done. So
the disruptive actions on one target up to the next healing action on it are put together; an episode without a healing
action of its own lasts as long as its actions did (or is open, when the brokers were left down).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.asof import latest, within
from minikafka_analytics.operations import NOTABLE_GAP_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEALING = ("start", "resume", "heal")
"""Actions that undo a fault on their target; on the target `all` they undo every fault."""

NOT_FAULTS = ("send",)
"""Actions of the journal that disturb nothing."""

LEAVES_DOWN = ("kill", "power_loss", "terminate", "pause", "cut", "wipe_unflushed", "wipe_volume")
"""Faults that last until something heals them, however short the action itself was."""

SNAKE_CASE = (
    # `lower` would load ICU's collation tables, which takes longer than the whole query
    "translate(regexp_replace(fault, '([a-z])([A-Z])', '$1_$2'), "
    "'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
)

BLAMED_FOR_SECONDS = 20.0
"""A fault is named as what preceded an event until this long after it was healed: then catching up is over (or never)."""


def episodes(journal: DataFrame) -> DataFrame:
    """One row per fault: (run, number, step, kinds, target, brokers, role, began, struck, ended, ok, detail).

    `number` counts by time from 1; `kinds` are the verbs in snake_case; `struck` is when the last disruptive action was done,
    `ended` when the healing was (null: never); `brokers` are the broker ids in the target's name.
    """
    return journal.sparkSession.sql(
        """
        WITH line AS (
          SELECT run, seq, time, phase, step, {snake_case} AS fault,
                 coalesce(target, '') AS target, role, ok, detail,
                 row_number() OVER (PARTITION BY run, fault, target, phase ORDER BY time, seq) AS nth
          FROM {journal} WHERE kind = 'action' AND malformed IS NULL AND fault IS NOT NULL
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
        .replace("{healing}", _listed(HEALING))
        .replace("{not_faults}", _listed(NOT_FAULTS))
        .replace("{leaves_down}", _listed(LEAVES_DOWN)),
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


def preceding(occurrences: DataFrame, faults: DataFrame) -> DataFrame:
    """Adds `fault` (number, null for none) and `after_fault` (seconds since it began) to rows with (run, id, time, concerned).

    The fault named is the latest that had begun and was not healed for long; one that hit a broker that the row concerns goes
    before one that did not. It says what came before, which is as far as an observer can go.
    """
    blamed = f"until + {BLAMED_FOR_SECONDS} AS until"
    spans = blows(faults).selectExpr("run", "lane", "number", "began", blamed)
    anyone = faults.selectExpr(
        "run", "-1 AS lane", "number", "began", "coalesce(ended, double('Infinity')) AS until"
    ).selectExpr("run", "lane", "number", "began", blamed)
    rows = occurrences.selectExpr("run", "explode(array_append(concerned, -1)) AS lane", "id", "time")
    return occurrences.sparkSession.sql(
        """
        SELECT o.*, c.best.number AS fault, o.time - c.best.began AS after_fault
        FROM {occurrences} o LEFT JOIN (
          SELECT run, id, max(struct(lane >= 0 AS own, began, number)) AS best FROM {candidates} GROUP BY run, id) c
          ON c.run = o.run AND c.id = o.id
        """,
        occurrences=occurrences,
        candidates=latest(rows, spans.unionAll(anyone)),
    )


def noticed(faults: DataFrame, events: DataFrame) -> DataFrame:
    """Seconds from each fault to the moment when the controller fenced a broker of it; no row where it never did."""
    fenced = events.where("event = 'broker_fenced' AND target IS NOT NULL").selectExpr(
        "run", "target AS lane", "row_number() OVER (PARTITION BY run ORDER BY time, seq) AS id", "time"
    )
    return faults.sparkSession.sql(
        """
        SELECT f.run, f.number, min(e.time - f.began) AS noticed
        FROM {held} f JOIN {fenced} e ON e.run = f.run AND e.id = f.id AND e.lane = f.lane GROUP BY f.run, f.number
        """,
        held=latest(fenced, blows(faults).select("run", "lane", "number", "began", "until")),
        fenced=fenced,
    )


def recoveries(
    faults: DataFrame, terms: DataFrame, isr: DataFrame, gaps: DataFrame, partitions: DataFrame
) -> DataFrame:
    """How partitions came through faults, in seconds after these began: a row only where something happened, null where not.

    - led: a broker of the fault led the partition when it began. re_elected: until the next leader took over (null with
      `led`: it kept the lead or nobody was elected before the broker was struck again).
    - gap: the longest pause of acknowledgements that a client would notice, and that began before the fault or within a
      second of it and ended after it began; re_acknowledged: from the fault to the end of that pause.
    - shrunk: until the ISR first lost a broker of the fault; full_isr: until the ISR had every replica again.
    """
    struck = blows(faults)
    offices = terms.where("leader >= 0").selectExpr(
        "run", "leader AS lane", "struct(topic, partition, leader_epoch) AS id", "began AS low", "until AS high"
    )
    moments = faults.selectExpr("run", "0 AS lane", "number", "began AS time")
    pauses = gaps.where(f"seconds >= {NOTABLE_GAP_SECONDS}").selectExpr(
        "run", "0 AS lane", "struct(topic, partition, rank) AS id", "began - 1.0 AS low", "ended AS high"
    )
    left = isr.where("NOT first AND size(removed) > 0").selectExpr(
        "run", "explode(removed) AS lane", "struct(topic, partition, time, full_at) AS id", "time"
    )
    blamed = struck.selectExpr("run", "lane", "number", "began", "until + 5.0 AS until")
    return faults.sparkSession.sql(
        """
        WITH fault AS (
          SELECT run, number, began, ended, lead(began) OVER (PARTITION BY run ORDER BY began) AS next_fault FROM {faults}
        ), office AS (
          SELECT a.run, a.number, t.topic, t.partition, true AS led, max(t.leader) AS old_leader,
                 max(t.next_leader) AS new_leader, min(t.next_led_from) AS led_from
          FROM {led} a JOIN {terms} t ON t.run = a.run AND t.topic = a.id.topic AND t.partition = a.id.partition
                                     AND t.leader_epoch = a.id.leader_epoch
          GROUP BY a.run, a.number, t.topic, t.partition
        ), pause AS (
          SELECT a.run, a.number, g.topic, g.partition, max(g.seconds) AS gap, max_by(g.ended, g.seconds) AS acked_at,
                 max_by(g.open, g.seconds) AS never_again
          FROM {paused} a
          JOIN {gaps} g ON g.run = a.run AND g.topic = a.id.topic AND g.partition = a.id.partition AND g.rank = a.id.rank
          JOIN fault f ON f.run = a.run AND f.number = a.number
          WHERE f.next_fault IS NULL OR g.began < f.next_fault
          GROUP BY a.run, a.number, g.topic, g.partition
        ), seat AS (
          SELECT run, number, id.topic AS topic, id.partition AS partition, min(id.time) AS shrunk_at,
                 min_by(id.full_at, id.time) AS full_at
          FROM {unseated} GROUP BY run, number, id.topic, id.partition
        ), pair AS (
          SELECT * FROM office FULL OUTER JOIN pause USING (run, number, topic, partition)
          FULL OUTER JOIN seat USING (run, number, topic, partition)
        )
        SELECT p.run, p.number, p.topic, p.partition, coalesce(led, false) AS led, old_leader, new_leader,
               IF(led_from <= coalesce(f.ended, led_from) + 5.0, led_from - f.began, NULL) AS re_elected,
               gap, acked_at - f.began AS re_acknowledged, coalesce(never_again, false) AS never_again,
               shrunk_at - f.began AS shrunk, full_at - f.began AS full_isr
        FROM pair p JOIN fault f ON f.run = p.run AND f.number = p.number
        LEFT SEMI JOIN (SELECT * FROM {partitions} WHERE watched) w
          ON w.run = p.run AND w.topic = p.topic AND w.partition = p.partition
        ORDER BY run, number, topic, partition
        """,
        faults=faults,
        terms=terms,
        gaps=gaps,
        partitions=partitions,
        led=within(struck.select("run", "lane", "number", "time"), offices),
        paused=within(moments, pauses),
        unseated=latest(left, blamed),
    )


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)
