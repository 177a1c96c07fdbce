"""Faults of the journal as episodes: what began each, and what ended it."""

from __future__ import annotations

from typing import Any

from frames import frame
from minikafka_analytics.behaviour.faults import episodes

COLUMNS = "run STRING, seq INT, time DOUBLE, kind STRING, phase STRING, step STRING, fault STRING, target STRING, role STRING, "
OUTCOME = "ok BOOLEAN, detail STRING"


def test_an_episode_ends_with_what_undid_it(spark: Any) -> None:
    """Named by a step, or by its duration: both are Recover in the journal. What nothing undid ends with the final heal."""
    actions = [
        (1.0, "DiskFull", "broker-1"),
        (2.0, "StoreOutage", "cluster"),
        (3.0, "Cut", "broker-2"),
        (4.0, "Recover", "broker-1"),
        (5.0, "Recover", "cluster"),
        (9.0, "Heal", "all"),
    ]
    rows = [
        {
            "run": "r",
            "seq": 2 * n + end,
            "time": time + 0.1 * end,
            "kind": "action",
            "phase": phase,
            "step": "s",
            "fault": fault,
            "target": target,
            "ok": True if end else None,
        }
        for n, (time, fault, target) in enumerate(actions)
        for end, phase in enumerate(("begin", "end"))
    ]
    journal = frame(spark, COLUMNS + OUTCOME, *rows)
    found = {tuple(row.kinds): (row.began, row.ended, list(row.brokers)) for row in episodes(journal).collect()}
    assert found == {
        ("disk_full",): (1.0, 4.1, [1]),
        ("store_outage",): (2.0, 5.1, []),
        ("cut",): (3.0, 9.1, [2]),
    }
