"""Is every acknowledged record still there, once, and in order? Asked of the history alone, without the verifier.

A final reader says so: it closes each partition with a line `read` that tells how far it came. Where no reader wrote one, a
process counts as a final reader when it first polled after the last answer to any send. What other readers saw during the run
is used only to find records that were replaced by others after they could be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXAMPLES_KEPT = 40  # of each kind of anomaly, per run
REWRITTEN_KEPT = 500  # offsets; one is enough for the verdict, hundreds tell nothing more


def reads(history: DataFrame) -> DataFrame:
    """One row per record that any reader was given: (run, topic, partition, offset, value, time, process, final)."""
    return history.sparkSession.sql(
        """
        WITH polled AS (
          SELECT run, topic, partition, offset, value, time, process, leader_epoch,
                 min(time) OVER (PARTITION BY run, process) AS first_poll
          FROM {history}
          WHERE op = 'poll' AND type = 'ok' AND value IS NOT NULL AND malformed IS NULL
        ), sent AS (
          SELECT run, max(time) AS last_answer FROM {history} WHERE op = 'send' AND malformed IS NULL GROUP BY run
        ), reader AS (
          SELECT DISTINCT run, process, true AS closing FROM {history} WHERE op = 'read' AND malformed IS NULL
        ), any_closing AS (SELECT DISTINCT run, true AS some FROM reader)
        SELECT p.run, topic, partition, offset, value, time, process, leader_epoch,
               IF(coalesce(some, false), coalesce(closing, false), first_poll >= coalesce(last_answer, 0)) AS final
        FROM polled p LEFT JOIN reader USING (run, process) LEFT JOIN any_closing USING (run) LEFT JOIN sent USING (run)
        """,
        history=history,
    )


def fates(sends: DataFrame, reads: DataFrame, bounds: DataFrame) -> DataFrame:
    """One row per value that was sent or finally read, with what became of it as flags.

    lost: acknowledged, and not in the final read, although that came to the end of the partition or past its offset. expired:
    not there, but below the start of the log. undecided: not there, and no reader came so far. duplicated: at two or
    more places. reordered: at a smaller offset than a value the same process sent earlier to the partition. moved: not
    at the offset that was acknowledged. never_sent: read, but no client sent it.
    """
    return sends.sparkSession.sql(
        """
        WITH found AS (
          SELECT run, value, count(DISTINCT topic, partition, offset) AS copies, min(offset) AS first_offset,
                 collect_set(offset) AS offsets, max(topic) AS topic, max(partition) AS partition
          FROM {reads} WHERE final GROUP BY run, value
        ), joined AS (
          SELECT coalesce(s.run, f.run) AS run, coalesce(s.value, f.value) AS value,
                 coalesce(s.topic, f.topic) AS topic, coalesce(s.partition, f.partition) AS partition,
                 s.process, s.invoked_at, s.completed_at, s.offset, s.outcome, s.error,
                 coalesce(f.copies, 0) AS copies, f.first_offset, f.offsets,
                 max(f.first_offset) OVER (
                   PARTITION BY coalesce(s.run, f.run), s.topic, s.partition, s.process ORDER BY s.invoked_at
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
          FROM {sends} s FULL OUTER JOIN found f ON s.run = f.run AND s.value = f.value
        ), reach AS (
          SELECT run, topic, partition, max(offset) AS reached_offset FROM {reads} WHERE final GROUP BY run, topic, partition
        ), extent AS (
          SELECT run, topic, partition, coalesce(start_offset, 0) AS kept_from,
                 coalesce(readers_at_the_end > 0, false) AS complete, coalesce(reached_offset, -1) AS reached_offset
          FROM reach FULL OUTER JOIN {bounds} USING (run, topic, partition)
        ), placed AS (
          SELECT *, coalesce(outcome = 'acked' AND copies = 0, false) AS missing,
                 coalesce(offset < kept_from, false) AS before_the_start,
                 coalesce(complete OR offset <= reached_offset, false) AS passed
          FROM joined LEFT JOIN extent USING (run, topic, partition)
        )
        SELECT run, value, topic, partition, process, invoked_at, completed_at, offset, outcome, error, copies, first_offset,
               missing AND NOT before_the_start AND passed AS lost,
               missing AND before_the_start AS expired,
               missing AND NOT before_the_start AND NOT passed AS undecided,
               copies > 1 AS duplicated,
               coalesce(outcome IS NOT NULL AND first_offset < reached, false) AS reordered,
               coalesce(outcome = 'acked' AND copies > 0 AND NOT array_contains(offsets, offset), false) AS moved,
               outcome IS NULL AS never_sent
        FROM placed
        """,
        sends=sends,
        reads=reads,
        bounds=bounds,
    )


def counts(fates: DataFrame, clock: DataFrame) -> DataFrame:
    """Per run and partition, and per run (topic and partition null): how many values met each fate.

    `accepted_loss`: those of the lost that the scenario declares lost beforehand.
    """
    return fates.sparkSession.sql(
        """
        SELECT f.run, topic, partition,
               count_if(outcome IS NOT NULL) AS sent,
               count_if(outcome = 'acked') AS acked,
               count_if(outcome = 'failed') AS failed,
               count_if(outcome = 'unknown') AS unknown,
               count_if(copies > 0) AS read,
               count_if(lost) AS lost,
               count_if(lost AND completed_at < accepted_before) AS accepted_loss,
               count_if(expired) AS expired,
               count_if(undecided) AS undecided,
               count_if(duplicated) AS duplicated,
               count_if(reordered) AS reordered,
               count_if(moved) AS moved,
               count_if(never_sent) AS never_sent,
               count_if(outcome = 'failed' AND copies > 0) AS failed_but_present,
               count_if(outcome = 'unknown' AND copies > 0) AS unknown_present
        FROM {fates} f LEFT JOIN {clock} c ON c.run = f.run GROUP BY GROUPING SETS ((f.run), (f.run, topic, partition))
        """,
        fates=fates,
        clock=clock,
    )


def examples(fates: DataFrame, truncations: DataFrame, reads: DataFrame, clock: DataFrame) -> DataFrame:
    """The first values lost, duplicated, reordered, moved or never sent, in the order they were sent.

    `cuts`: the truncations since its acknowledgement whose range holds the offset of a lost value, by their `id` in order;
    `now_holds`: the value that the final read found at the offset of a lost one; `given_up`: the scenario says it may be lost.
    """
    return fates.sparkSession.sql(
        """
        WITH kept AS (
          SELECT * EXCEPT (rank), row_number() OVER (PARTITION BY run ORDER BY kind, rank) AS number FROM (
            SELECT *, row_number() OVER (PARTITION BY run, kind ORDER BY invoked_at, first_offset) AS rank
            FROM (
              SELECT *, CASE WHEN lost THEN 'lost' WHEN duplicated THEN 'duplicated' WHEN reordered THEN 'reordered'
                             WHEN never_sent THEN 'never sent' WHEN moved THEN 'moved' END AS kind
              FROM {fates} WHERE lost OR duplicated OR reordered OR never_sent OR moved))
          WHERE rank <= {most}
        ), cut AS (
          SELECT k.run, k.number, transform(array_sort(collect_list(struct(t.time, t.id))), each -> each.id) AS cuts
          FROM kept k JOIN {truncations} t
            ON k.lost AND t.run = k.run AND t.topic = k.topic AND t.partition = k.partition
           AND t.low <= k.offset AND k.offset < t.high AND t.time >= k.completed_at
          GROUP BY k.run, k.number
        )
        SELECT k.*, coalesce(c.cuts, array()) AS cuts, n.now_holds,
               coalesce(k.lost AND k.completed_at < t.accepted_before, false) AS given_up
        FROM kept k
        LEFT JOIN cut c ON c.run = k.run AND c.number = k.number
        LEFT JOIN (
          SELECT k.run, k.number, min(r.value) AS now_holds
          FROM kept k JOIN {reads} r
            ON k.lost AND r.final AND r.run = k.run AND r.topic = k.topic AND r.partition = k.partition AND r.offset = k.offset
          GROUP BY k.run, k.number) n ON n.run = k.run AND n.number = k.number
        LEFT JOIN {clock} t ON t.run = k.run
        ORDER BY k.run, k.number
        """,
        fates=fates,
        truncations=truncations,
        reads=reads,
        clock=clock,
        most=EXAMPLES_KEPT,
    )


def rewritten(reads: DataFrame, sends: DataFrame, clock: DataFrame) -> DataFrame:
    """Offsets of which clients were told different values, by an acknowledgement or by a reader: one record replaced another.

    What clients were told before `accepted_before` is left out, for the scenario says that it destroys every copy then.
    """
    return reads.sparkSession.sql(
        """
        WITH told AS (
          SELECT run, topic, partition, offset, value, time FROM {reads} WHERE offset IS NOT NULL
          UNION ALL
          SELECT run, topic, partition, offset, value, completed_at FROM {sends} WHERE outcome = 'acked' AND offset IS NOT NULL
        )
        SELECT t.run, topic, partition, offset, array_agg(DISTINCT value) AS values,
               min(time) AS first_at, max(time) AS last_at
        FROM told t LEFT JOIN {clock} c ON c.run = t.run
        WHERE c.accepted_before IS NULL OR t.time >= c.accepted_before
        GROUP BY t.run, topic, partition, offset HAVING count(DISTINCT value) > 1
        ORDER BY t.run, topic, partition, offset LIMIT {most}
        """,
        reads=reads,
        sends=sends,
        clock=clock,
        most=REWRITTEN_KEPT,
    )


def bounds(history: DataFrame) -> DataFrame:
    """Per partition: the first offset and the end that its leader named last, and how far the final reader came."""
    return history.sparkSession.sql(
        """
        SELECT run, topic, partition,
               max_by(offset, time) FILTER (WHERE op = 'start_offset') AS start_offset,
               max_by(offset, time) FILTER (WHERE op = 'end_offset') AS end_offset,
               max(offset) FILTER (WHERE op = 'read') AS read_to,
               max(error) FILTER (WHERE op = 'read' AND type <> 'ok') AS read_error,
               count_if(op = 'read' AND type = 'ok') AS readers_at_the_end
        FROM {history}
        WHERE op IN ('start_offset', 'end_offset', 'read') AND malformed IS NULL AND topic IS NOT NULL
        GROUP BY run, topic, partition
        """,
        history=history,
    )


def coverage(reads: DataFrame, bounds: DataFrame, replicas: DataFrame) -> DataFrame:
    """How far the final read came in each partition, against the ends that leaders named and exported."""
    return reads.sparkSession.sql(
        """
        WITH read AS (
          SELECT run, topic, partition, count(*) AS records, max(offset) AS last_offset
          FROM {reads} WHERE final GROUP BY run, topic, partition
        ), exported AS (
          SELECT run, topic, partition, max_by(hw, time) AS high_watermark
          FROM {replicas} WHERE role = 2 GROUP BY run, topic, partition
        ), named AS (SELECT * FROM read FULL OUTER JOIN {bounds} USING (run, topic, partition))
        SELECT n.*, e.high_watermark FROM named n LEFT JOIN exported e USING (run, topic, partition)
        """,
        reads=reads,
        bounds=bounds,
        replicas=replicas,
    )
