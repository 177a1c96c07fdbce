"""The faults of a run, as episodes: from the first blow to a broker until it was put right again.

The journal has one line before and one after every action. Killing a broker, wiping its unflushed volume and starting
it again are three actions, and to a reader they are one fault, a power loss that lasted until the start was done. So
the disruptive actions on one target up to the next healing action on it are put together; an episode without a healing
action of its own lasts as long as its actions did (or is open, when the brokers were left down).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def preceding(occurrences: DataFrame, faults: DataFrame) -> DataFrame:
    """Adds `fault` (number, null for none) and `after_fault` (seconds since it began) to rows with (run, id, time, concerned).

    The fault named is the latest that had begun and was not healed for long; one that hit a broker that the row concerns goes
    before one that did not. It says what came before, which is as far as an observer can go.
    """
    return occurrences.sparkSession.sql(
        """
        WITH candidate AS (
          SELECT o.run, o.id, f.number AS fault, o.time - f.began AS after_fault,
                 row_number() OVER (PARTITION BY o.run, o.id
                                    ORDER BY arrays_overlap(f.brokers, o.concerned) DESC, f.began DESC) AS rank
          FROM {occurrences} o JOIN {faults} f
            ON f.run = o.run AND f.began <= o.time AND o.time <= coalesce(f.ended, o.time) + {blamed_for}
        )
        SELECT o.*, c.fault, c.after_fault FROM {occurrences} o
        LEFT JOIN candidate c ON c.run = o.run AND c.id = o.id AND c.rank = 1
        """,
        occurrences=occurrences,
        faults=faults,
        blamed_for=BLAMED_FOR_SECONDS,
    )


def noticed(faults: DataFrame, events: DataFrame) -> DataFrame:
    """Seconds from each fault to the moment when the controller fenced a broker of it; no row where it never did."""
    return faults.sparkSession.sql(
        """
        SELECT f.run, f.number, min(e.time) - min(f.began) AS noticed
        FROM {faults} f JOIN {events} e
          ON e.run = f.run AND e.event = 'broker_fenced' AND array_contains(f.brokers, e.target)
         AND e.time >= f.began AND e.time <= coalesce(f.ended, e.time)
        GROUP BY f.run, f.number
        """,
        faults=faults,
        events=events,
    )


def recoveries(
    faults: DataFrame, terms: DataFrame, isr: DataFrame, gaps: DataFrame, partitions: DataFrame
) -> DataFrame:
    """How each partition came through each fault, in seconds after it began; null where it did not happen or need not.

    - led: a broker of the fault led the partition when it began. re_elected: until the next leader took over (null with
      `led`: it kept the lead or nobody was elected before the broker was struck again).
    - gap: the longest pause of acknowledgements that began before the fault or within a second of it and ended after it began;
      re_acknowledged: from the fault to the end of that pause.
    - shrunk: until the ISR first lost a broker of the fault; full_isr: until the ISR had every replica again.
    """
    return faults.sparkSession.sql(
        """
        WITH pair AS (
          SELECT f.run, f.number, f.brokers, f.began, f.ended, p.topic, p.partition, p.replicas,
                 lead(f.began) OVER (PARTITION BY f.run, p.topic, p.partition ORDER BY f.began) AS next_fault
          FROM {faults} f JOIN {partitions} p ON p.run = f.run
        ), office AS (
          SELECT a.run, a.number, a.topic, a.partition, true AS led, max(t.leader) AS old_leader,
                 max(t.next_leader) AS new_leader, min(t.next_led_from) - min(a.began) AS re_elected
          FROM pair a JOIN {terms} t
            ON t.run = a.run AND t.topic = a.topic AND t.partition = a.partition
           AND array_contains(a.brokers, t.leader) AND t.began <= a.began AND (t.until IS NULL OR t.until > a.began)
          GROUP BY a.run, a.number, a.topic, a.partition
        ), pause AS (
          SELECT a.run, a.number, a.topic, a.partition, max(g.seconds) AS gap,
                 max_by(g.ended, g.seconds) - min(a.began) AS re_acknowledged, max_by(g.open, g.seconds) AS never_again
          FROM pair a JOIN {gaps} g
            ON g.run = a.run AND g.topic = a.topic AND g.partition = a.partition
           AND g.ended > a.began AND g.began < least(a.began + 1.0, coalesce(a.next_fault, a.began + 1.0))
          GROUP BY a.run, a.number, a.topic, a.partition
        ), lost_seat AS (
          SELECT a.run, a.number, a.topic, a.partition, min(i.time) AS shrunk_at
          FROM pair a JOIN {isr} i
            ON i.run = a.run AND i.topic = a.topic AND i.partition = a.partition
           AND i.time >= a.began AND i.time < coalesce(a.ended + 5.0, i.time + 1) AND arrays_overlap(i.removed, a.brokers)
          GROUP BY a.run, a.number, a.topic, a.partition
        ), full_again AS (
          SELECT s.run, s.number, s.topic, s.partition, min(i.time) AS full_at
          FROM lost_seat s JOIN pair a USING (run, number, topic, partition) JOIN {isr} i
            ON i.run = s.run AND i.topic = s.topic AND i.partition = s.partition
           AND i.time > s.shrunk_at AND size(i.isr) >= a.replicas
          GROUP BY s.run, s.number, s.topic, s.partition
        )
        SELECT a.run, a.number, a.topic, a.partition, coalesce(o.led, false) AS led, o.old_leader, o.new_leader,
               IF(o.re_elected <= coalesce(a.ended - a.began, o.re_elected) + 5.0, o.re_elected, NULL) AS re_elected,
               p.gap, p.re_acknowledged, coalesce(p.never_again, false) AS never_again,
               s.shrunk_at - a.began AS shrunk, u.full_at - a.began AS full_isr
        FROM pair a
        LEFT JOIN office o USING (run, number, topic, partition)
        LEFT JOIN pause p USING (run, number, topic, partition)
        LEFT JOIN lost_seat s USING (run, number, topic, partition)
        LEFT JOIN full_again u USING (run, number, topic, partition)
        ORDER BY run, number, topic, partition
        """,
        faults=faults,
        terms=terms,
        isr=isr,
        gaps=gaps,
        partitions=partitions,
    )


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)
