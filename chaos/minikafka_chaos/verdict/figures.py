"""The numbers of a run. Records of one kind are counted once, however many readers saw them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka_chaos.verdict.anomalies import LOSS, ORDER, AnomalyKind
from minikafka_chaos.verdict.evidence import Evidence

_GAPS = """
    WITH ours AS (SELECT tp, invoked, done, outcome FROM sends WHERE tp IS NOT NULL),
    edges AS (SELECT tp, min(invoked) AS first, max(greatest(invoked, coalesce(done, invoked))) AS last FROM ours GROUP BY tp),
    points AS (
      SELECT tp, first AS time FROM edges
      UNION ALL SELECT tp, done FROM ours WHERE outcome = 'ok'
      UNION ALL SELECT tp, last FROM edges
    ), gaps AS (SELECT tp, time - lag(time) OVER (PARTITION BY tp ORDER BY time) AS seconds FROM points)
    SELECT topic, part, max(seconds) AS seconds FROM gaps JOIN partitions USING (tp)
    GROUP BY topic, part ORDER BY seconds DESC NULLS LAST, topic, part LIMIT 1
"""
"""Neighbours of: the first send of a partition, its acknowledgements, its last send line (docs/reference/verdicts.md)."""


def count(evidence: Evidence, kinds: Mapping[AnomalyKind, int]) -> dict[str, Any]:
    """The figures that a verdict gives, as docs/reference/verdicts.md lists them."""
    sends = evidence.rows(
        """
        SELECT count(*) AS sent, count(*) FILTER (outcome = 'ok') AS acknowledged, count(*) FILTER (outcome = 'fail') AS failed,
               count(*) FILTER (outcome = 'info') AS unknown FROM sends
        """
    )[0]
    fates = dict(evidence.db.execute("SELECT fate, count(*) FROM fates GROUP BY fate").fetchall())
    gap = next((row for row in evidence.rows(_GAPS) if row["seconds"] is not None), None)
    return {
        **sends,
        "unknown_but_there": evidence.one(
            "SELECT count(*) FROM sends SEMI JOIN present USING (value) WHERE outcome = 'info'"
        ),
        "read": evidence.one("SELECT count(DISTINCT value) FROM present"),
        "read_failures": evidence.one("SELECT read_failures FROM figures"),
        "lost": sum(kinds.get(kind, 0) for kind in LOSS),
        "accepted_loss": fates.get("accepted", 0),
        "deleted": fates.get("deleted", 0),
        "undecided": fates.get("undecided", 0),
        "duplicated": kinds.get(AnomalyKind.DUPLICATE, 0),
        "reordered": sum(kinds.get(kind, 0) for kind in ORDER),
        "phantoms": kinds.get(AnomalyKind.PHANTOM, 0),
        "divergent": kinds.get(AnomalyKind.DIVERGENT_REPLICAS, 0),
        "replicas_compared": evidence.one("SELECT count(*) FROM replicas") if evidence.has_replicas else None,
        "longest_ack_gap_s": round(gap["seconds"], 3) if gap else None,
        "longest_ack_gap_in": f"{gap['topic']}-{gap['part']}" if gap else None,
        "anomalies": {kind.value: number for kind, number in kinds.items()},
    }
