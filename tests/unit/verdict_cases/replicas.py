"""What the replicas' own logs show."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import Case, Run, batch, records


def _sent(count: int) -> Run:
    return Run().acked_many(count).final_many(0, count).topic()


CASES = (
    Case(
        "one-in-sync-replica-emptied",
        lambda: _sent(4).alike(4, brokers=(1, 2)).replica(3),
        "Failed",
        {"short-replica": 1},
        proven=1,
    ),
    Case(
        "all-in-sync-replicas-emptied",
        lambda: _sent(4).replica(1).replica(2).replica(3),
        "Failed",
        {"short-replica": 3},
        proven=1,
    ),
    Case(
        "other-batch-on-one-replica",
        lambda: _sent(3).alike(3, brokers=(1, 2)).replica(3, [*records(0, 2), batch(2, epoch=0, crc=1)]),
        "Failed",
        {"divergent-replicas": 2},
    ),
    Case("a-replica-is-not-told-of", lambda: _sent(3).alike(3, brokers=(1, 2)), "Inconclusive"),
)
