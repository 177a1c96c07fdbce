"""The anomalies that histories show, by the definitions of docs/reference/verdicts.md: one row for each of what a kind counts.

Columns: run, kind, note (a note in place of an error), topic, partition, offset, value, broker. The kinds are declared in
`minikafka.telemetry.anomalies`; nothing else is shared with the verifier, so that the two can contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from minikafka.telemetry.anomalies import AnomalyKind

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXAMPLES_KEPT = 40
"""Of each kind, per run: the count tells the size, the first few tell the story."""


def named(sql: str) -> str:
    """SQL in which every `:kind-name:` is the declared name in quotes; a name that is not declared raises KeyError."""
    parts = sql.split(":")
    return "".join(part if n % 2 == 0 else f"'{AnomalyKind(part).value}'" for n, part in enumerate(parts))


def of_values(suspects: DataFrame, bases: DataFrame) -> DataFrame:
    """Return what is wrong with single values: lost, aborted and read, not where they were acknowledged, at several places."""
    return query(
        named(
            """
            WITH wrong AS (
              SELECT run, value, topic, partition, offset, idempotence OR no_duplicates AS strict, explode(filter(array(
                       IF(lost, fate, NULL),
                       IF(outcome = 'failed' AND size(places) > 0, :aborted-read:, NULL),
                       IF(held_offset IS NOT NULL AND partition IS NOT NULL AND size(places) > 0 AND NOT exists(places,
                          p -> p.topic = f.topic AND p.partition = f.partition AND p.offset = held_offset),
                          :ack-offset:, NULL),
                       IF(counted > 1, :duplicate:, NULL)), k -> k IS NOT NULL)) AS kind
              FROM (SELECT x.*, idempotence, no_duplicates FROM {suspects} x JOIN {bases} b ON b.run = x.run) f
            )
            SELECT run, kind, kind = :duplicate: AND NOT strict AS note, topic, coalesce(partition, -1) AS partition, offset,
                   value
            FROM wrong
            """
        ),
        suspects=suspects,
        bases=bases,
    )


def phantoms(suspects: DataFrame, extents: DataFrame) -> DataFrame:
    """Values that were read where nobody has sent them, above what was there before."""
    return query(
        named(
            """
            WITH stranger AS (
              SELECT run, value, explode(filter(places,
                       p -> outcome IS NULL OR p.topic <> topic OR coalesce(p.partition <> partition, false))) AS place
              FROM {suspects})
            SELECT s.run, :phantom: AS kind, false AS note, e.topic, e.partition, place.offset AS offset, min(value) AS value
            FROM stranger s JOIN {extents} e
              ON e.run = s.run AND e.topic = place.topic AND e.partition = place.partition AND place.offset >= e.there_before
            GROUP BY s.run, e.topic, e.partition, place.offset
            """
        ),
        suspects=suspects,
        extents=extents,
    )


def of_places(places: DataFrame, fates: DataFrame, extents: DataFrame) -> DataFrame:
    """Records that vanished, and offsets that held different values for different clients."""
    return query(
        named(
            """
            SELECT p.run, :vanished-read: AS kind, false AS note, p.topic, p.partition, p.offset, p.value
            FROM {places} p JOIN {extents} e ON e.run = p.run AND e.topic = p.topic AND e.partition = p.partition
            WHERE vanished AND NOT compacted
            UNION ALL
            SELECT run, :inconsistent-offsets:, false, topic, partition, offset, min(value) FROM (
              SELECT run, topic, partition, offset, value FROM {places}
              UNION ALL
              SELECT run, topic, partition, held_offset, value FROM {fates}
              WHERE held_offset IS NOT NULL AND partition IS NOT NULL)
            GROUP BY run, topic, partition, offset HAVING min(value) <> max(value)
            """
        ),
        places=places,
        fates=fates,
        extents=extents,
    )


def moves(lines: DataFrame) -> DataFrame:
    """Return what readers got that was not the offset after the one before: back, the same again, or further on (a jump)."""
    return query(
        """
        WITH step AS (
          SELECT run, topic, partition, seq, op, offset, value, batch,
                 lag(op) OVER sitting AS op_before, lag(batch) OVER sitting AS batch_before,
                 IF(lag(op) OVER sitting = 'assign', lag(offset) OVER sitting - 1, lag(offset) OVER sitting) AS before
          FROM {lines} WHERE op <> 'read'
          WINDOW sitting AS (PARTITION BY run, topic, partition, process, sitting ORDER BY seq)
        )
        SELECT run, topic, partition, offset, value, before,
               coalesce(op_before = 'poll' AND batch = batch_before, false) AS inside
        FROM step WHERE op = 'poll' AND before IS NOT NULL AND offset <> before + 1
        """,
        lines=lines,
    )


def of_readers(moves: DataFrame, lines: DataFrame, fates: DataFrame, extents: DataFrame) -> DataFrame:
    """Readers that got offsets out of order, or jumped over a record that is known.

    Jumps are rare, so known offsets are sorted for partitions with a jump only: a running count of them tells at both ends of
    each jump how many lie below, and no jump is compared with every record.
    """
    return query(
        named(
            """
            WITH jump AS (SELECT * FROM {moves} WHERE offset > before + 1),
            jumped AS (SELECT DISTINCT run, topic, partition FROM jump),
            known AS (
              SELECT k.run, k.topic, k.partition, k.offset, max(k.record) AS record FROM (
                SELECT p.run, p.topic, p.partition, p.offset, IF(p.offset >= e.deleted_to, 1, 0) AS record FROM (
                  SELECT run, topic, partition, offset FROM {lines} WHERE op = 'poll'
                  UNION ALL
                  SELECT run, topic, partition, held_offset FROM {fates} WHERE held_offset IS NOT NULL) p
                JOIN {extents} e ON e.run = p.run AND e.topic = p.topic AND e.partition = p.partition
                LEFT SEMI JOIN jumped j ON j.run = p.run AND j.topic = p.topic AND j.partition = p.partition
                UNION ALL
                SELECT run, topic, partition, before, 0 FROM jump
                UNION ALL
                SELECT run, topic, partition, offset - 1, 0 FROM jump) k
              GROUP BY k.run, k.topic, k.partition, k.offset
            ), ranked AS (
              SELECT run, topic, partition, offset, sum(record) OVER (PARTITION BY run, topic, partition ORDER BY offset
                       ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS below
              FROM known
            )
            SELECT run, IF(inside, :int-nonmonotonic-poll:, :nonmonotonic-poll:) AS kind, false AS note,
                   topic, partition, offset, value
            FROM {moves} WHERE offset <= before
            UNION ALL
            SELECT j.run, IF(inside, :int-poll-skip:, :poll-skip:), false, j.topic, j.partition, j.offset, value
            FROM jump j
            JOIN ranked a ON a.run = j.run AND a.topic = j.topic AND a.partition = j.partition AND a.offset = j.before
            JOIN ranked b ON b.run = j.run AND b.topic = j.topic AND b.partition = j.partition AND b.offset = j.offset - 1
            WHERE b.below > a.below
            """
        ),
        moves=moves,
        lines=lines,
        fates=fates,
        extents=extents,
    )


def of_senders(fates: DataFrame, bases: DataFrame) -> DataFrame:
    """One producer's acknowledged offsets that do not grow in the order of its sends."""
    return query(
        named(
            """
            WITH step AS (
              SELECT f.run, topic, partition, held_offset AS offset, value, completed, idempotence OR no_reordering AS strict,
                     max(struct(held_offset, -invoked AS nth, completed)) OVER (
                       PARTITION BY f.run, topic, partition, process ORDER BY invoked
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
              FROM {fates} f JOIN {bases} b ON b.run = f.run WHERE held_offset IS NOT NULL AND partition IS NOT NULL
            )
            SELECT run, :nonmonotonic-send: AS kind, highest.completed > completed AND NOT strict AS note, topic, partition,
                   offset, value
            FROM step WHERE offset <= highest.held_offset
            """
        ),
        fates=fates,
        bases=bases,
    )


def stale(lines: DataFrame, fates: DataFrame) -> DataFrame:
    """Records that got an offset which was known to be taken before they were sent: one for each such highest offset."""
    return query(
        named(
            """
            WITH learnt AS (
              SELECT run, topic, partition, seq, offset, NULL AS value, NULL AS lowest FROM {lines} WHERE op = 'poll'
              UNION ALL
              SELECT run, topic, partition, completed, held_offset, NULL, NULL FROM {fates} WHERE held_offset IS NOT NULL
              UNION ALL
              SELECT run, topic, partition, invoked, NULL, value, lowest FROM {fates}
              WHERE lowest IS NOT NULL AND outcome IS NOT NULL
            ), before AS (
              SELECT *, max(offset) OVER (PARTITION BY run, topic, partition ORDER BY seq
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS known
              FROM learnt WHERE partition IS NOT NULL
            )
            SELECT run, :stale-offset: AS kind, false AS note, topic, partition, min(lowest) AS offset, min(value) AS value
            FROM before WHERE lowest <= known GROUP BY run, topic, partition, known
            """
        ),
        lines=lines,
        fates=fates,
    )


def ends(markers: DataFrame, bases: DataFrame) -> DataFrame:
    """End offsets that went back for one client."""
    return query(
        named(
            """
            SELECT run, :end-offset-went-back: AS kind, false AS note, topic, partition, offset, CAST(NULL AS STRING) AS value
            FROM (
              SELECT h.run, topic, partition, offset,
                     lag(offset) OVER (PARTITION BY h.run, topic, partition, process ORDER BY seq) AS before
              FROM {markers} h JOIN {bases} b ON b.run = h.run
              WHERE op = 'end_offset' AND offset IS NOT NULL AND topic IS NOT NULL
                AND partition IS NOT NULL AND time >= accept_before AND time > coalesce(gone[topic], double('-Infinity')))
            WHERE offset < before
            """
        ),
        markers=markers,
        bases=bases,
    )


def of_groups(markers: DataFrame, places: DataFrame, extents: DataFrame, bases: DataFrame) -> DataFrame:
    """Return what groups of consumers went past without processing it, did twice, or began again (rule Groups)."""
    return query(
        named(
            """
            WITH member AS (
              SELECT run, process, min(value) AS name FROM {markers}
              WHERE op = 'join' AND type = 'ok' GROUP BY run, process
            ), step AS (
              SELECT h.run, h.topic, h.partition, seq, op, offset, value, name
              FROM {markers} h JOIN member m ON m.run = h.run AND m.process = h.process JOIN {bases} b ON b.run = h.run
              LEFT SEMI JOIN {extents} e ON e.run = h.run AND e.topic = h.topic AND e.partition = h.partition
              WHERE op IN ('assign', 'process', 'dead_letter', 'commit') AND type = 'ok' AND time >= accept_before
                AND time > coalesce(gone[h.topic], double('-Infinity'))
            ), extent AS (
              SELECT run, topic, partition, name, min(offset) FILTER (WHERE op = 'assign') AS start,
                     max(offset) FILTER (WHERE op IN ('assign', 'commit')) AS reach
              FROM step GROUP BY run, topic, partition, name
            ), passed AS (
              SELECT p.run, p.topic, p.partition, p.offset, p.value, name
              FROM {places} p JOIN extent x ON x.run = p.run AND x.topic = p.topic AND x.partition = p.partition
               AND p.offset >= start AND p.offset < reach
              WHERE in_final
            ), placed AS (
              SELECT *, last(IF(op = 'commit', offset, NULL), true) OVER (PARTITION BY run, topic, partition, name ORDER BY seq
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS committed
              FROM step WHERE op IN ('assign', 'commit')
            )
            SELECT run, :unprocessed: AS kind, false AS note, topic, partition, offset, value
            FROM passed a LEFT ANTI JOIN (SELECT * FROM step WHERE op IN ('process', 'dead_letter')) s
              ON s.run = a.run AND s.topic = a.topic AND s.partition = a.partition AND s.name = a.name AND s.value = a.value
            UNION ALL
            SELECT run, IF(op = 'process', :reprocessed:, :duplicate-dead-letter:), op = 'process', topic, partition, offset,
                   value FROM step WHERE op IN ('process', 'dead_letter')
            GROUP BY run, op, topic, partition, name, offset, value HAVING count(*) > 1
            UNION ALL
            SELECT run, :rewound:, false, topic, partition, offset, CAST(NULL AS STRING) FROM placed
            WHERE op = 'assign' AND offset < committed
            """
        ),
        markers=markers,
        places=places,
        extents=extents,
        bases=bases,
    )


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """All anomalies in one table."""
    columns = ["run", "kind", "note", "topic", "partition", "offset", "value"]
    alike = [frame if frame.columns == columns else frame.select(*columns) for frame in frames]
    return reduce(lambda left, right: left.unionAll(right), alike)


def by_kind(anomalies: DataFrame) -> DataFrame:
    """Per run, kind and severity: how many."""
    return anomalies.groupBy("run", "kind", "note").count()


def examples(anomalies: DataFrame, fates: DataFrame, truncations: DataFrame, places: DataFrame) -> DataFrame:
    """The first anomalies of each kind and run, with what is known of the value.

    `cuts`: the truncations since its acknowledgement whose range holds the offset of a lost value, by their `id` in order;
    `now_holds`: what the final reader found at the offset of a lost value.
    """
    return query(
        """
        WITH first AS (
          SELECT * FROM (
            SELECT *, row_number() OVER (PARTITION BY run, kind ORDER BY note, topic, partition, offset, value) AS number
            FROM {anomalies}) WHERE number <= {most}
        ), kept AS (
          SELECT a.*, f.process, f.invoked_at, f.completed_at, f.outcome, f.first_offset, size(f.places) AS copies,
                 f.outcome IS NOT NULL AND coalesce(f.lost, false) AS lost
          FROM first a LEFT JOIN (
            SELECT f.* FROM {fates} f LEFT SEMI JOIN first a ON a.run = f.run AND a.value = f.value) f
            ON f.run = a.run AND f.value = a.value
        ), cut AS (
          SELECT k.run, k.kind, k.number, transform(array_sort(collect_list(struct(t.time, t.id))), each -> each.id) AS cuts
          FROM kept k JOIN {truncations} t
            ON k.lost AND t.run = k.run AND t.topic = k.topic AND t.partition = k.partition
           AND t.low <= k.offset AND k.offset < t.high AND t.time >= k.completed_at
          GROUP BY k.run, k.kind, k.number
        ), held AS (
          SELECT k.run, k.kind, k.number, min(p.value) AS now_holds
          FROM kept k JOIN {places} p
            ON k.lost AND p.in_final AND p.run = k.run AND p.topic = k.topic AND p.partition = k.partition
           AND p.offset = k.offset
          GROUP BY k.run, k.kind, k.number
        )
        SELECT k.*, coalesce(c.cuts, array()) AS cuts, h.now_holds
        FROM kept k LEFT JOIN cut c USING (run, kind, number) LEFT JOIN held h USING (run, kind, number)
        ORDER BY run, kind, number
        """,
        anomalies=anomalies,
        fates=fates,
        truncations=truncations,
        places=places,
        most=EXAMPLES_KEPT,
    )
