"""What became of every value: rule Fate of docs/reference/verdicts.md, and the counts that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.telemetry.anomalies import LOSS

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLOCK_ERROR_SECONDS = 1.0  # an outcome so much before its send: the clock was set back meanwhile (rule Clock)
LOST = ", ".join(sorted(f"'{kind.value}'" for kind in LOSS))


def fates(sends: DataFrame, places: DataFrame, extents: DataFrame, topics: DataFrame, bases: DataFrame) -> DataFrame:
    """One row per value that was sent or read.

    `fate` of an acknowledged send: kept, deleted, accepted, undecided, or a kind of loss; null for all others. `places` are
    where it was read, `counted` those of them that duplicates are counted over. `held_offset` is the acknowledged offset (null
    for an accepted loss, and in a topic that was deleted since), `lowest` the smallest offset the value has in its partition. A
    value that was read and never sent has a null `outcome`.
    """
    return query(
        """
        WITH found AS (
          SELECT run, value, collect_list(struct(topic, partition, offset, in_final)) AS places,
                 count_if(in_final OR NOT judged) AS counted
          FROM {places} GROUP BY run, value
        ), joined AS (
          SELECT coalesce(s.run, f.run) AS run, coalesce(s.value, f.value) AS value, s.* EXCEPT (run, value),
                 coalesce(f.places, array()) AS places, coalesce(f.counted, 0) AS counted
          FROM {sends} s FULL OUTER JOIN found f ON s.run = f.run AND s.value = f.value
        ), facing AS (
          SELECT j.*, filter(j.places, p -> p.topic = j.topic AND p.partition = j.partition) AS here,
                 coalesce(j.completed < e.f_line, false) AS judged, e.f_start, e.f_highest, e.f_time, e.deleted_to,
                 e.deleted_until, e.logged, e.compacted,
                 e.swept, t.deleted_at, t.whole, t.judged_before, b.accept_before
          FROM joined j
          LEFT JOIN {extents} e ON e.run = j.run AND e.topic = j.topic AND e.partition = j.partition
          LEFT JOIN {topics} t ON t.run = j.run AND t.topic = j.topic
          LEFT JOIN {bases} b ON b.run = j.run
        ), decided AS (
          SELECT *, coalesce(completed_at <= deleted_at, false) AS former,
            CASE
              WHEN outcome IS NULL OR outcome <> 'acked' THEN NULL
              WHEN completed_at <= deleted_at THEN 'deleted'
              WHEN partition IS NULL THEN CASE
                WHEN exists(places, p -> p.topic = topic AND p.in_final) THEN 'kept'
                WHEN whole AND completed < judged_before THEN IF(completed_at < accept_before, 'accepted', 'unseen')
                ELSE 'undecided' END
              WHEN exists(here, p -> p.in_final) THEN 'kept'
              WHEN offset < deleted_to AND (NOT judged OR offset < f_start OR coalesce(f_time < deleted_until, true))
                THEN IF(invoked_at <= deleted_until, 'deleted', 'undecided')
              WHEN judged AND completed_at < accept_before THEN 'accepted'
              WHEN compacted THEN 'undecided'
              WHEN judged AND offset < f_start THEN IF(logged > 0, 'lost-below-start', 'undecided')
              WHEN judged AND offset IS NULL AND f_start > 0 THEN 'undecided'
              WHEN judged THEN IF(offset <= f_highest, 'lost-write', 'unseen')
              WHEN size(here) = 0 AND exists(swept, s -> s.low <= offset AND offset <= s.high)
                THEN IF(completed_at < accept_before, 'accepted', 'lost-write')
              ELSE 'undecided'
            END AS fate
          FROM facing
        )
        SELECT run, value, topic, partition, process, invoked, completed, invoked_at, completed_at, outcome, unanswered, error,
               offset, leader_epoch, contradiction, places, counted, fate,
               coalesce(fate IN ({lost}), false) AS lost,
               IF(outcome = 'acked' AND fate <> 'accepted' AND NOT former, offset, NULL) AS held_offset,
               least(IF(outcome = 'acked' AND fate <> 'accepted' AND NOT former, offset, NULL),
                     array_min(transform(here, p -> p.offset))) AS lowest,
               array_min(transform(places, p -> p.offset)) AS first_offset
        FROM decided
        """.replace("{lost}", LOST),
        sends=sends,
        places=places,
        extents=extents,
        topics=topics,
        bases=bases,
    )


def suspects(fates: DataFrame) -> DataFrame:
    """The values with which anything may be wrong by themselves: all but those that nobody read, and those that were
    acknowledged, and read there and nowhere else."""
    return query(
        """
        SELECT * FROM {fates}
        WHERE lost OR counted > 1 OR size(places) > 1 OR (size(places) = 1 AND NOT coalesce(
          outcome = 'acked' AND get(places, 0).topic = topic AND get(places, 0).partition = partition
          AND get(places, 0).offset = held_offset, false))
        """,
        fates=fates,
    )


def counts(fates: DataFrame) -> DataFrame:
    """Per run and partition, and per run (topic and partition null): how many values met each fate (rule Counts)."""
    return query(
        """
        SELECT run, topic, partition,
               count_if(outcome IS NOT NULL) AS sent,
               count_if(outcome = 'acked') AS acknowledged,
               count_if(outcome = 'failed') AS failed,
               count_if(outcome = 'unknown') AS unknown,
               count_if(outcome = 'unknown' AND size(places) > 0) AS unknown_but_there,
               count_if(size(places) > 0) AS read,
               count_if(lost) AS lost,
               count_if(fate = 'accepted') AS accepted_loss,
               count_if(fate = 'deleted') AS deleted,
               count_if(fate = 'undecided') AS undecided,
               count_if(contradiction) AS contradictions, count_if(completed_at < invoked_at - {clock_error}) AS early
        FROM {fates} GROUP BY GROUPING SETS ((run), (run, topic, partition))
        """,
        fates=fates,
        clock_error=CLOCK_ERROR_SECONDS,
    )


def losses(suspects: DataFrame, bases: DataFrame) -> DataFrame:
    """Per run and claim of no loss (by its place among the claims): how many lost records it forbids."""
    return query(
        """
        SELECT f.run, b.at, count(*) AS broken_by
        FROM {suspects} f JOIN (
          SELECT run, posexplode(claims) AS (at, claim) FROM {bases}) b
          ON b.run = f.run AND b.claim.type = 'NoAcknowledgedRecordLost' AND f.completed_at >= b.claim.since
        WHERE f.lost GROUP BY f.run, b.at
        """,
        suspects=suspects,
        bases=bases,
    )
