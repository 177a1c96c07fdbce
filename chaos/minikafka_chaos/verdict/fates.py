"""What became of each acknowledged record: the table `fates`, by the rules of docs/reference/verdicts.md under *Fate*."""

from __future__ import annotations

from typing import Any

from minikafka_chaos.verdict.evidence import Evidence


def join_fates(evidence: Evidence) -> None:
    """Make `fates` (value, tp, pos, done, fate), and `acks`: the acknowledged sends that other checks may rely on."""
    evidence.run(
        """
        CREATE TABLE fates AS
        SELECT s.value, s.process, s.topic, s.part, s.tp, s.pos, s.done, s.n,
          CASE
            WHEN s.done <= p.deleted_at THEN 'deleted'
            WHEN coalesce(r.in_final, false) THEN 'kept'
            WHEN s.pos < p.deleted_to AND coalesce(s.pos < f.start OR f.first_time < p.deleted_until, true)
              THEN CASE WHEN s.invoked <= p.deleted_until THEN 'deleted' ELSE 'undecided' END
            WHEN f.tp IS NOT NULL AND s.done < getvariable('accept_before') THEN 'accepted'
            WHEN p.compacted THEN 'undecided'
            WHEN s.pos < f.start THEN CASE WHEN p.has_logs THEN 'lost-below-start' ELSE 'undecided' END
            WHEN f.tp IS NOT NULL AND s.pos IS NULL AND f.start > 0 THEN 'undecided'
            WHEN s.pos <= f.highest THEN 'lost-write'
            WHEN f.tp IS NOT NULL THEN 'unseen'
            ELSE 'undecided'
          END AS fate,
          f.tp IS NULL AND r.tp IS NULL AND s.pos >= p.deleted_to AND NOT p.compacted AS may_be_passed
        FROM sends s JOIN partitions p USING (tp)
        LEFT JOIN finals f ON f.tp = s.tp AND s.done_n < f.first_n
        LEFT JOIN present r ON r.tp = s.tp AND r.value = s.value
        WHERE s.outcome = 'ok'
        """,
        # Only what no final reader judges and nobody has read is compared with each reader's reach.
        """
        UPDATE fates SET fate = CASE WHEN done < getvariable('accept_before') THEN 'accepted' ELSE 'lost-write' END
        WHERE fate = 'undecided' AND may_be_passed AND EXISTS (
          SELECT 1 FROM sittings t
          WHERE t.tp = fates.tp AND t.start IS NOT NULL AND t.start <= fates.pos AND fates.pos <= t.highest
        )
        """,
        # Acknowledged, and nobody told the partition.
        """
        INSERT INTO fates
        WITH covered AS (
          SELECT topic, min(f.first_n) AS first_n,
                 bool_and(f.tp IS NOT NULL AND f.start = 0 AND deleted_to = 0 AND NOT compacted) AS whole
          FROM partitions LEFT JOIN finals f USING (tp) GROUP BY topic
        ), there AS (SELECT DISTINCT value, topic FROM present JOIN partitions USING (tp) WHERE in_final)
        SELECT s.value, s.process, s.topic, -1, NULL, s.pos, s.done, s.n,
          CASE
            WHEN s.done <= g.deleted_at THEN 'deleted'
            WHEN there.value IS NOT NULL THEN 'kept'
            WHEN coalesce(c.whole, false) AND s.done_n < c.first_n AND s.done < getvariable('accept_before') THEN 'accepted'
            WHEN coalesce(c.whole, false) AND s.done_n < c.first_n THEN 'unseen'
            ELSE 'undecided'
          END, false
        FROM sends s LEFT JOIN covered c USING (topic) LEFT JOIN gone g USING (topic)
        LEFT JOIN there ON there.value = s.value AND there.topic = s.topic
        WHERE s.outcome = 'ok' AND s.part IS NULL
        """,
        # What nothing else may be concluded from: given up beforehand, or of a topic that was deleted and made anew.
        """
        CREATE TABLE accepted AS
        SELECT value FROM fates LEFT JOIN gone USING (topic) WHERE fate = 'accepted' OR done <= deleted_at
        """,
        """
        CREATE VIEW acks AS
        SELECT * FROM sends ANTI JOIN accepted USING (value) WHERE outcome = 'ok' AND pos IS NOT NULL AND tp IS NOT NULL
        """,
        # Offsets that somebody knows to hold a record, and from which line on.
        """
        CREATE VIEW known AS
        SELECT tp, pos, value, done_n AS n FROM acks UNION ALL SELECT tp, pos, value, n FROM reads
        """,
    )


def undecided(evidence: Evidence) -> list[dict[str, Any]]:
    """Partitions with acknowledged records that nobody can tell the fate of: topic, part, number, below_start."""
    return evidence.rows(
        """
        SELECT s.topic, s.part, count(*) AS number, count(*) FILTER (s.pos < f.start) AS below_start
        FROM fates s LEFT JOIN finals f USING (tp) WHERE fate = 'undecided' GROUP BY ALL ORDER BY ALL
        """
    )


def deleted(evidence: Evidence) -> list[tuple[str, int]]:
    """Return how many acknowledged records were deleted, by what: `by request`, `by retention`, `with their topic`."""
    rows = evidence.rows(
        """
        WITH requested AS (
          SELECT tp, max("to") AS up_to FROM told t JOIN partitions p ON p.topic = t.topic AND p.part = t.partition
          WHERE kind = 'start' AND reason = 'delete_records' GROUP BY tp
        )
        SELECT CASE WHEN deleted_at IS NOT NULL THEN 'with their topic' WHEN s.pos < up_to THEN 'by request'
                    ELSE 'by retention' END AS how, count(*) AS number
        FROM fates s LEFT JOIN partitions USING (tp) LEFT JOIN requested USING (tp)
        WHERE fate = 'deleted' GROUP BY how ORDER BY how
        """
    )
    return [(row["how"], row["number"]) for row in rows]


def lost_since(evidence: Evidence, since: float) -> int:
    """Lost records that were acknowledged at or after `since` (unix seconds)."""
    found: int = evidence.one(
        "SELECT count(*) FROM fates WHERE fate IN ('lost-write', 'unseen', 'lost-below-start') AND done >= ?", [since]
    )
    return found
