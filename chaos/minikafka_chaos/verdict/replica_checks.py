"""Finds what the replicas' own logs show to be wrong, from `replicas.jsonl`: a query for each kind of docs/reference/verdicts.md.

Followers copy batches byte by byte, so two replicas that agree have the same (base offset, last offset, leader epoch, CRC)
at every place below their common end: the log matching property of KIP-101. In a compacted topic it does not hold, for
each replica compacts by itself.
"""

from __future__ import annotations

from typing import Any

from minikafka_chaos.record.history import WorkloadSettings
from minikafka_chaos.verdict.anomalies import AnomalyKind
from minikafka_chaos.verdict.evidence import Evidence
from minikafka_chaos.verdict.verifier import AnomalySummary, Check, Row, find


def _tables(evidence: Evidence) -> None:
    evidence.run(
        """
        CREATE TABLE replicas AS
        SELECT tp, topic, part, broker, in_sync, start, "end", batches, coalesce(found, 0) AS found, damage, compacted, deleted_to
        FROM (SELECT topic, partition AS part, broker, in_sync, start, "end", batches, damage FROM told WHERE kind = 'replica') r
        JOIN partitions USING (topic, part)
        LEFT JOIN (SELECT topic, partition AS part, broker, count(*) AS found FROM told WHERE kind = 'batch' GROUP BY ALL) b
        USING (topic, part, broker)
        """,
        """
        CREATE TABLE batches AS
        SELECT r.tp, r.topic, r.part, t.broker, t.index, base_offset, last_offset, leader_epoch, producer_id, producer_epoch,
               base_sequence, crc, crc_right, segment, position, values, r.compacted, r.start, r.found = r.batches AS whole
        FROM told t JOIN replicas r ON r.topic = t.topic AND r.part = t.partition AND r.broker = t.broker WHERE kind = 'batch'
        """,
        """
        CREATE TABLE neighbours AS
        SELECT *, lag(last_offset) OVER log AS last_before, lag(leader_epoch) OVER log AS epoch_before
        FROM batches WINDOW log AS (PARTITION BY tp, broker ORDER BY index)
        """,
    )


def _at(row: Row) -> str:
    return f"{row['topic']}-{row['part']}: broker {row['broker']}"


def _short(row: Row) -> str:
    return f"{_at(row)} is in sync, and its log ends at {row['pos']}: the final reader came to {row['read_to']}"


def _start(row: Row) -> str:
    return (
        f"{_at(row)}: the log starts at {row['pos']}, and nothing but deletions up to {row['deleted_to']} is known to have "
        "moved it"
    )


def _differ(row: Row) -> str:
    low, high = row["brokers"]
    return (
        f"{row['topic']}-{row['part']}: brokers {low} and {high} differ at offset {row['pos']}, below their common end "
        f"{row['common_end']}: {_described(low, row['batches'])}; {_described(high, row['batches'])}"
    )


def _described(broker: int, batches: list[dict[str, Any]]) -> str:
    ours = [batch for batch in batches if batch["broker"] == broker]
    if not ours:
        return f"broker {broker} has nothing there"
    batch = ours[0]
    span = f"{batch['base_offset']}-{batch['last_offset']}"
    values = f" ({', '.join(map(repr, batch['values']))})" if batch["values"] else ""
    return f"broker {broker} has offsets {span} of epoch {batch['leader_epoch']}, CRC {batch['crc']:08x}{values}"


def _broken(row: Row) -> str:
    if row["damage"] is not None:
        return f"{_at(row)}: the log is damaged behind offset {row['pos']}: {row['damage']}"
    if row["last_offset"] < row["pos"]:
        return f"{_at(row)}: the batch at offset {row['pos']} ends at {row['last_offset']}"
    if row["last_before"] is None:
        return f"{_at(row)}: the log starts at {row['start']}, and its first batch is at {row['pos']}"
    if row["leader_epoch"] < row["epoch_before"]:
        return (
            f"{_at(row)}: leader epoch falls from {row['epoch_before']} to {row['leader_epoch']} at offset {row['pos']}"
        )
    return f"{_at(row)}: the batch at offset {row['pos']} follows one that ends at {row['last_before']}"


CHECKS = (
    Check(
        AnomalyKind.SHORT_REPLICA,
        """
        SELECT topic, part, r."end" AS pos, NULL::VARCHAR AS value, false AS note, broker, f."end" AS read_to
        FROM replicas r JOIN finals f USING (tp) WHERE in_sync AND r."end" < f."end"
        """,
        _short,
    ),
    Check(
        AnomalyKind.UNEXPLAINED_START,
        """
        SELECT topic, part, start AS pos, NULL::VARCHAR AS value, false AS note, broker, deleted_to
        FROM replicas WHERE start > deleted_to
        """,
        _start,
    ),
    Check(
        AnomalyKind.DIVERGENT_REPLICAS,
        """
        WITH pairs AS (
          SELECT a.tp, a.topic, a.part, a.broker AS one, b.broker AS other, greatest(a.start, b.start) AS low,
                 least(a."end", b."end") AS high
          FROM replicas a JOIN replicas b ON a.tp = b.tp AND a.broker < b.broker
          WHERE NOT a.compacted AND a.found = a.batches AND b.found = b.batches
        ), unlike AS (
          SELECT p.topic, p.part, one, other, high, base_offset, last_offset, leader_epoch, crc, min(b.broker) AS broker,
                 any_value(values) AS values
          FROM pairs p JOIN batches b
            ON b.tp = p.tp AND b.broker IN (p.one, p.other) AND last_offset >= low AND base_offset < high
          GROUP BY ALL HAVING count(DISTINCT b.broker) = 1
        )
        SELECT topic, part, min(base_offset) AS pos, NULL::VARCHAR AS value, false AS note, [one, other] AS brokers,
               high AS common_end, count(*) AS differing_batches,
               list({'broker': broker, 'base_offset': base_offset, 'last_offset': last_offset,
                     'leader_epoch': leader_epoch, 'crc': crc, 'values': values} ORDER BY base_offset, broker)[:2] AS batches
        FROM unlike GROUP BY topic, part, one, other, high
        """,
        _differ,
    ),
    Check(
        AnomalyKind.CORRUPT_BATCH,
        """
        SELECT topic, part, base_offset AS pos, NULL::VARCHAR AS value, false AS note, broker, segment, position
        FROM batches WHERE NOT crc_right
        """,
        lambda row: f"{_at(row)}: wrong CRC of the batch at offset {row['pos']} ({row['segment']}:{row['position']})",
    ),
    Check(
        AnomalyKind.BROKEN_LOG,
        """
        SELECT topic, part, base_offset AS pos, NULL::VARCHAR AS value, false AS note, broker, NULL::VARCHAR AS damage,
               start, last_before, leader_epoch, epoch_before, segment, position, last_offset
        FROM neighbours
        WHERE whole AND (leader_epoch < epoch_before OR base_offset <= last_before OR last_offset < base_offset
           OR (NOT compacted AND base_offset > coalesce(last_before + 1, start)))
        UNION ALL
        SELECT topic, part, "end", NULL, false, broker, damage, start, NULL, NULL, NULL, NULL, NULL, NULL
        FROM replicas WHERE damage IS NOT NULL
        """,
        _broken,
    ),
    Check(
        AnomalyKind.BROKEN_SEQUENCE,
        """
        SELECT topic, part, base_offset AS pos, NULL::VARCHAR AS value, false AS note, broker, producer_id, producer_epoch,
               base_sequence, sequence_before
        FROM (
          SELECT *, lag(base_sequence + last_offset - base_offset) OVER (
            PARTITION BY tp, broker, producer_id, producer_epoch ORDER BY index) AS sequence_before
          FROM batches WHERE producer_id >= 0 AND base_sequence >= 0 AND NOT compacted AND whole
        ) WHERE base_sequence <> (sequence_before + 1) & 2147483647
        """,
        lambda row: (
            f"{_at(row)}: the batch at offset {row['pos']} has sequence {row['base_sequence']} of producer "
            f"{row['producer_id']}, the one before ends with {row['sequence_before']}"
        ),
    ),
)


def find_in_replicas(evidence: Evidence) -> list[AnomalySummary]:
    """Every anomaly that the replicas' logs show."""
    _tables(evidence)
    return find(evidence, CHECKS, WorkloadSettings(), frozenset())


def missing_evidence(evidence: Evidence) -> list[str]:
    """Return what `replicas.jsonl` should tell of and does not, a line each."""
    found = [
        f"{row['found']} of {row['wanted']} replica logs of {row['topic']}-{row['part']} found"
        for row in evidence.rows(
            """
            WITH wanted AS (SELECT topic, replication_factor AS wanted, unnest(range(partitions))::INTEGER AS part FROM topics)
            SELECT topic, part, wanted, count(r.broker) AS found FROM wanted LEFT JOIN replicas r USING (topic, part)
            GROUP BY ALL HAVING count(r.broker) < wanted ORDER BY topic, part
            """
        )
    ]
    found += [
        f"nothing tells how many replicas {row['topic']} has"
        for row in evidence.rows("SELECT DISTINCT topic FROM partitions ANTI JOIN topics USING (topic) ORDER BY topic")
    ]
    found += [
        f"{row['topic']}-{row['part']}: the replica of broker {row['broker']} was not in sync when all was over"
        for row in evidence.rows("SELECT topic, part, broker FROM replicas WHERE NOT in_sync ORDER BY ALL")
    ]
    found += [
        f"{row['topic']}-{row['part']} is in the evidence, and {row['topic']} has {row['partitions']} partitions"
        for row in evidence.rows(
            "SELECT topic, part, partitions FROM partitions JOIN topics USING (topic) WHERE part >= partitions ORDER BY ALL"
        )
    ]
    found += [
        f"{row['topic']}-{row['part']}: {row['found']} of {row['batches']} batches of broker {row['broker']} are told of"
        for row in evidence.rows(
            "SELECT topic, part, broker, batches, found FROM replicas WHERE found <> batches ORDER BY ALL"
        )
    ]
    return found
