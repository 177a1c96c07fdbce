"""The raw evidence of runs as the rules of docs/reference/verdicts.md speak of it: sends, sittings, places, and what is
known of each partition. Everything is joins, groups and windows over the landed lines; `run` is a key of every table, so
that any number of runs is judged at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_LOSS = "NoAcknowledgedRecordLost"
CLAIMS = "claims ARRAY<STRUCT<name: STRING, type: STRING, since: STRING, limit_millis: DOUBLE>>, problems ARRAY<STRING>"


def census(history: DataFrame) -> DataFrame:
    """The lines of the history counted, by all that what is asked of the whole of it depends on: one row per run, op, type,
    topic, partition, and whether lines are `numbered`.

    `rows` of them, `first`, `last`, `total` and `mixed` (exclusive or) of their numbers, when the first (`began`) and the last
    (`ended`) was.
    """
    return query(
        """
        SELECT run, op, type, topic, partition, numbered, count(*) AS rows, min(seq) AS first, max(seq) AS last,
               sum(seq) AS total, bit_xor(seq) AS mixed, min(time) AS began, max(time) AS ended
        FROM {history}
        GROUP BY run, op, type, topic, partition, numbered
        """,
        history=history,
    )


def markers(history: DataFrame) -> DataFrame:
    """The lines of the history that are neither sends nor reads of records: few, but where groups tell what they process."""
    return query(
        """
        SELECT run, seq, time, process, op, type, topic, partition, offset, value, error, settings
        FROM {history} WHERE op NOT IN ('send', 'poll')
        """,
        history=history,
    )


def sent(sends: DataFrame) -> DataFrame:
    """One row per partition that was sent to (null: of no known one): its sends, when the first was and the last line of one."""
    return query(
        """
        SELECT run, topic, partition, count(*) AS sends, min(invoked_at) AS first_at,
               greatest(max(invoked_at), max(completed_at)) AS last_at
        FROM {sends} GROUP BY run, topic, partition
        """,
        sends=sends,
    )


def bases(census: DataFrame, markers: DataFrame, journal: DataFrame, facts: DataFrame, logs: DataFrame) -> DataFrame:
    """One row per run: what it is to be judged by (rules Claims and Since).

    `accept_before` is the rules' *A* (unix seconds): what was read before it is no evidence. `since` of a claim is a unix
    time, -inf without one and +inf for "never"; `terms` is the line itself. `first_invoke` is the line of the first send,
    `missing_lines` how many lines with a number are not there, `misnumbered` whether the numbers are not 0 to N - 1, each once
    (their sum and their exclusive or tell it without sorting them). `has_logs` whether there is a replicas.jsonl, `gone` when
    topics were deleted (topic -> unix seconds): what is in evidence of them up to then is no evidence.
    """
    return query(
        f"""
        WITH counted AS (
          SELECT run, min(first) FILTER (WHERE op = 'send' AND type = 'invoke') AS first_invoke,
                 coalesce(sum(rows) FILTER (WHERE numbered), 0) AS numbered, coalesce(bool_or(NOT numbered), false) AS unnumbered,
                 max(last) FILTER (WHERE numbered) + 1 AS until, sum(total) FILTER (WHERE numbered) AS total,
                 bit_xor(mixed) FILTER (WHERE numbered) AS mixed
          FROM {{census}} GROUP BY run
        ), client AS (
          SELECT run, first_invoke, greatest(coalesce(until, 0) - numbered, 0) AS missing_lines,
                 (numbered > 0 AND unnumbered) OR coalesce(until < numbered, false)
                   OR coalesce(until = numbered AND (2 * total <> numbered * (numbered - 1)
                     OR mixed <> CASE (numbered - 1) % 4
                       WHEN 0 THEN numbered - 1 WHEN 1 THEN 1 WHEN 2 THEN numbered ELSE 0 END), false) AS misnumbered
          FROM counted
        ), workload AS (
          SELECT run, min_by(settings, seq) AS settings FROM {{markers}}
          WHERE op = 'workload' AND settings IS NOT NULL GROUP BY run
        ), claimed AS (
          SELECT run, max_by(body, seq) FILTER (WHERE kind = 'claims') AS claims
          FROM {{journal}} GROUP BY run
        ), logs AS (
          SELECT run, true AS has_logs, map_from_entries(collect_list(struct(topic, deleted_at)) FILTER (
                   WHERE deleted_at IS NOT NULL)) AS gone
          FROM (SELECT run, topic, max(IF(kind = 'start' AND reason = 'topic_deleted', time, NULL)) AS deleted_at
                FROM (SELECT run, topic, kind, reason, time FROM {{facts}}
                      UNION ALL SELECT run, topic, NULL, NULL, NULL FROM {{logs}}) GROUP BY run, topic)
          GROUP BY run
        ), said AS (
          SELECT run, first_invoke, coalesce(missing_lines, 0) AS missing_lines, coalesce(misnumbered, false) AS misnumbered,
                 coalesce(has_logs, false) AS has_logs, gone, claims AS terms,
                 from_json(settings, 'idempotence BOOLEAN').idempotence AS idempotence, from_json(claims, '{CLAIMS}') AS said
          FROM client FULL OUTER JOIN claimed USING (run) LEFT JOIN workload USING (run) LEFT JOIN logs USING (run)
        ), dated AS (
          SELECT *, transform(coalesce(said.claims, array()), c -> named_struct(
                   'name', c.name, 'type', c.type, 'limit_millis', c.limit_millis,
                   'since', CASE WHEN c.since IS NULL THEN double('-Infinity') WHEN c.since = 'never' THEN double('Infinity')
                                 ELSE CAST(c.since AS DOUBLE) END)) AS claims
          FROM said
        )
        SELECT run, first_invoke, missing_lines, misnumbered, has_logs, gone, terms,
               coalesce(idempotence, false) AS idempotence, claims,
               coalesce(said.problems, array()) AS problems,
               coalesce(array_min(transform(filter(claims, c -> c.type = '{NO_LOSS}'), c -> c.since)),
                        double('-Infinity')) AS accept_before,
               exists(claims, c -> c.type = 'NoDuplicates') AS no_duplicates,
               exists(claims, c -> c.type = 'NoReordering') AS no_reordering
        FROM dated
        """,
        census=census,
        markers=markers,
        journal=journal,
        facts=facts,
        logs=logs,
    )


def sends(history: DataFrame) -> DataFrame:
    """One row per value sent (rule Sends). Times in unix seconds; `invoked` and `completed` are lines.

    Outcomes follow Jepsen's rule for histories: `acked` when the cluster said yes, `failed` when it said no, `unknown` when
    nobody can say, which includes a send that was never answered. `contradiction`: the lines of this value contradict
    each other.
    """
    return query(
        """
        WITH operation AS (
          SELECT run, value, max(topic) AS topic,
                 coalesce(max(partition) FILTER (WHERE type <> 'invoke'), max(partition)) AS partition,
                 coalesce(min(process) FILTER (WHERE type = 'invoke'), min(process)) AS process,
                 min(seq) FILTER (WHERE type = 'invoke') AS invoked,
                 min(time) FILTER (WHERE type = 'invoke') AS invoked_at,
                 min(seq) FILTER (WHERE type <> 'invoke') AS completed,
                 min(time) FILTER (WHERE type <> 'invoke') AS completed_at,
                 max(type) FILTER (WHERE type <> 'invoke') AS answer,
                 max(offset) FILTER (WHERE type = 'ok') AS offset,
                 max(leader_epoch) FILTER (WHERE type = 'ok') AS leader_epoch,
                 max(error) AS error,
                 count_if(type = 'invoke') AS invocations, count_if(type <> 'invoke') AS answers,
                 min(topic) <> max(topic) OR coalesce(min(partition) <> max(partition), false) AS strayed
          FROM {history}
          WHERE op = 'send'
          GROUP BY run, value
        )
        SELECT run, value, topic, partition, process, invoked, completed,
               coalesce(invoked_at, completed_at) AS invoked_at, completed_at,
               CASE answer WHEN 'ok' THEN 'acked' WHEN 'fail' THEN 'failed' ELSE 'unknown' END AS outcome,
               answer IS NULL AS unanswered, offset, leader_epoch, IF(answer = 'ok', NULL, error) AS error,
               invocations <> 1 OR answers > 1 OR strayed OR coalesce(completed < invoked, false) AS contradiction
        FROM operation
        """,
        history=history,
    )


def lines_of_readers(history: DataFrame, bases: DataFrame) -> DataFrame:
    """The `assign`, `poll` and `read` lines that are evidence, each with the number of its sitting (rule Reads).

    A sitting is (run, topic, partition, process, sitting); number 0 is of the reads without an earlier `assign`.
    """
    return query(
        """
        SELECT h.run, topic, partition, process, seq, time, op, offset, value, batch,
               count_if(op = 'assign') OVER (PARTITION BY h.run, topic, partition, process ORDER BY seq
                 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS sitting
        FROM {history} h JOIN {bases} b ON b.run = h.run
        WHERE op IN ('poll', 'assign', 'read') AND type = 'ok' AND topic IS NOT NULL
          AND partition IS NOT NULL AND offset IS NOT NULL AND (op <> 'poll' OR value IS NOT NULL) AND time >= accept_before
          AND time > coalesce(gone[topic], double('-Infinity'))
        """,
        history=history,
        bases=bases,
    )


def sittings(lines: DataFrame) -> DataFrame:
    """One row per sitting: where it was placed (`start`), its first line, its end when it came there, and how far it read.

    `final`: it is *F* of its partition, the completed sitting that began last.
    """
    return query(
        """
        WITH sitting AS (
          SELECT run, topic, partition, process, sitting,
                 max(offset) FILTER (WHERE op = 'assign') AS start,
                 min(seq) FILTER (WHERE op <> 'read') AS first_line,
                 min_by(time, seq) FILTER (WHERE op <> 'read') AS first_time,
                 max(offset) FILTER (WHERE op = 'poll') AS highest,
                 count_if(op = 'poll') AS records,
                 max(seq) FILTER (WHERE op = 'read') AS last_read,
                 max_by(offset, seq) FILTER (WHERE op = 'read') AS end
          FROM {lines} GROUP BY run, topic, partition, process, sitting
        ), completed AS (
          SELECT *, coalesce(last_read > first_line, false) AS complete FROM sitting WHERE first_line IS NOT NULL
        )
        SELECT run, topic, partition, process, sitting, start, first_line, first_time, highest, records,
               IF(complete, greatest(end, highest + 1), NULL) AS end,
               complete AND row_number() OVER (
                 PARTITION BY run, topic, partition ORDER BY complete DESC, first_line DESC) = 1 AS final
        FROM completed
        """,
        lines=lines,
    )


def extents(
    census: DataFrame,
    markers: DataFrame,
    facts: DataFrame,
    logs: DataFrame,
    sent: DataFrame,
    sittings: DataFrame,
    bases: DataFrame,
) -> DataFrame:
    """One row per partition that the evidence names: what fates depend on (rules Reads, Deletions, Phantoms).

    `f_*` are of *F* (null without one). `deleted_to`, and `deleted_until`: when the last deletion was. `logged` replica lines;
    `compacted`; `there_before`: offsets below it may hold records of others; `swept`: disjoint ranges of offsets that some
    reader with a known start has passed.
    """
    return query(
        """
        WITH facts AS (
          SELECT run, topic, partition, max(IF(moved, `to`, NULL)) AS deleted_to, max(IF(moved, time, NULL)) AS deleted_until,
                 count_if(kind = 'replica') AS logged
          FROM (SELECT r.*, kind = 'start' AND reason IN ('retention', 'delete_records')
                         AND time > coalesce(gone[topic], double('-Infinity')) AS moved
                FROM {facts} r JOIN {bases} b ON b.run = r.run WHERE partition IS NOT NULL)
          GROUP BY run, topic, partition
        ), config AS (
          SELECT run, topic, max(partitions) AS partitions, max(replication_factor) AS replication_factor,
                 bool_or(coalesce(get_json_object(config, "$['cleanup.policy']") LIKE '%compact%', false)) AS compacted
          FROM {facts} WHERE kind = 'topic' GROUP BY run, topic
        ), ends AS (
          SELECT h.run, topic, partition, max(offset) AS there_before
          FROM {markers} h JOIN {bases} b ON b.run = h.run
          WHERE op = 'end_offset' AND (first_invoke IS NULL OR seq < first_invoke)
            AND time >= accept_before AND time > coalesce(gone[topic], double('-Infinity'))
          GROUP BY h.run, topic, partition
        ), sweep AS (
          SELECT *, max(highest) OVER (PARTITION BY run, topic, partition ORDER BY start, highest
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
          FROM {sittings} WHERE start IS NOT NULL AND highest >= start
        ), island AS (
          SELECT *, count_if(reached IS NULL OR start > reached + 1) OVER (
                      PARTITION BY run, topic, partition ORDER BY start, highest) AS island FROM sweep
        ), range AS (
          SELECT run, topic, partition, min(start) AS low, max(highest) AS high
          FROM island GROUP BY run, topic, partition, island
        ), swept AS (
          SELECT run, topic, partition, collect_list(struct(low, high)) AS swept FROM range GROUP BY run, topic, partition
        ), named AS (
          SELECT run, topic, explode(sequence(0, partitions - 1)) AS partition FROM config WHERE partitions > 0
          UNION
          SELECT run, topic, partition FROM {sent} WHERE topic IS NOT NULL AND partition IS NOT NULL
          UNION
          SELECT h.run, topic, partition FROM {census} h JOIN {bases} b ON b.run = h.run
          WHERE op IN ('assign', 'poll', 'read', 'end_offset') AND topic IS NOT NULL
            AND partition IS NOT NULL AND ended >= accept_before AND ended > coalesce(gone[topic], double('-Infinity'))
          UNION SELECT run, topic, partition FROM facts
          UNION SELECT l.run, topic, partition FROM {logs} l JOIN {bases} b ON b.run = l.run WHERE partition IS NOT NULL
        )
        SELECT n.run, n.topic, n.partition, f.first_line AS f_line, f.first_time AS f_time, coalesce(f.start, 0) AS f_start,
               f.highest AS f_highest,
               f.end AS f_end, coalesce(x.deleted_to, 0) AS deleted_to, x.deleted_until,
               coalesce(x.logged, 0) AS logged,
               coalesce(c.compacted, false) AS compacted, c.partitions, c.replication_factor,
               coalesce(e.there_before, 0) AS there_before, s.swept
        FROM named n
        LEFT JOIN (SELECT * FROM {sittings} WHERE final) f USING (run, topic, partition)
        LEFT JOIN facts x USING (run, topic, partition)
        LEFT JOIN ends e USING (run, topic, partition)
        LEFT JOIN swept s USING (run, topic, partition)
        LEFT JOIN config c USING (run, topic)
        """,
        census=census,
        markers=markers,
        facts=facts,
        logs=logs,
        sent=sent,
        sittings=sittings,
        bases=bases,
    )


def topics(extents: DataFrame, facts: DataFrame) -> DataFrame:
    """One row per topic: when it was deleted, and what a record without a partition is judged by (rule Fate).

    `whole`: every partition that the evidence names has an *F* from offset 0 on; `judged_before`: the first of their lines.
    """
    return query(
        """
        WITH gone AS (
          SELECT run, topic, max(time) AS deleted_at FROM {facts}
          WHERE kind = 'start' AND reason = 'topic_deleted' GROUP BY run, topic
        ), named AS (
          SELECT run, topic, min(f_line) AS judged_before,
                 bool_and(f_line IS NOT NULL AND f_start = 0 AND deleted_to = 0 AND NOT compacted) AS whole
          FROM {extents} GROUP BY run, topic
        )
        SELECT * FROM named FULL OUTER JOIN gone USING (run, topic)
        """,
        extents=extents,
        facts=facts,
    )


def places(lines: DataFrame, sittings: DataFrame) -> DataFrame:
    """One row per (place, value) in the reads: whether *F* read it, and whether it vanished: read before *F*, and not in *F*.

    `judged`: its partition has an *F*.
    """
    return query(
        """
        WITH read AS (
          SELECT r.run, r.topic, r.partition, r.offset, r.value, r.time, s.final, f.final IS NOT NULL AS judged,
                 coalesce(NOT s.final AND r.seq < f.first_line AND r.offset >= coalesce(f.start, 0), false) AS earlier
          FROM {lines} r JOIN {sittings} s USING (run, topic, partition, process, sitting)
          LEFT JOIN (SELECT * FROM {sittings} WHERE final) f
            ON f.run = r.run AND f.topic = r.topic AND f.partition = r.partition
          WHERE r.op = 'poll'
        )
        SELECT run, topic, partition, offset, value, bool_or(final) AS in_final, bool_or(judged) AS judged,
               bool_or(earlier) AND NOT bool_or(final) AS vanished, min(time) AS first_at, max(time) AS last_at
        FROM read GROUP BY run, topic, partition, offset, value
        """,
        lines=lines,
        sittings=sittings,
    )
