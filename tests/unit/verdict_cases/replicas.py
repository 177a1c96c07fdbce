"""What the replicas' own logs show."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.verdict_cases.builder import Case, Line, Run, batch, records


def _sent(count: int, **config: str) -> Run:
    return Run().acked_many(count).final_many(0, count).topic(**config)


def _third(count: int, logs: Sequence[Line], **told: object) -> Run:
    """Brokers 1 and 2 are alike and whole; broker 3 has these batches."""
    return _sent(count).alike(count, brokers=(1, 2)).replica(3, logs, **told)  # type: ignore[arg-type]


def _everywhere(count: int, logs: Sequence[Line], **config: str) -> Run:
    run = _sent(count, **config)
    return run.replica(1, logs).replica(2, logs).replica(3, logs)


_OURS = {"producer_id": 7, "producer_epoch": 0}

CASES = (
    Case(
        "one-in-sync-replica-emptied",
        lambda: _third(4, []),
        "Failed",
        {"short-replica": 1},
        proven=1,
    ),
    Case(
        "two-in-sync-replicas-emptied",
        lambda: _sent(4).alike(4, brokers=(1,)).replica(2).replica(3),
        "Failed",
        {"short-replica": 2},
        proven=1,
    ),
    Case(
        "all-in-sync-replicas-emptied",
        lambda: _everywhere(4, []),
        "Failed",
        {"short-replica": 3},
        proven=1,
    ),
    Case("one-in-sync-replica-lacks-the-last-record", lambda: _third(4, records(0, 3)), "Failed", {"short-replica": 1}),
    Case(
        "a-short-replica-that-is-not-in-sync",
        lambda: _third(4, records(0, 2), in_sync=False),
        "Inconclusive",
    ),
    Case(
        "no-replica-is-in-sync",
        lambda: _sent(3).replica(1, in_sync=False).replica(2, in_sync=False).replica(3, in_sync=False),
        "Inconclusive",
    ),
    Case(
        "nothing-tells-how-many-replicas-there-are",
        lambda: Run().acked_many(3).final_many(0, 3).alike(3, brokers=(1,)),
        "Inconclusive",
    ),
    Case(
        "a-replica-has-an-unacknowledged-tail",
        lambda: _third(3, records(0, 4)),
        "Passed",
    ),
    Case(
        "a-replicas-directory-is-gone",
        lambda: _third(3, [], damage="the replica's directory is missing"),
        "Failed",
        {"short-replica": 1, "broken-log": 1},
    ),
    Case(
        "the-first-segment-of-one-replica-is-gone",
        lambda: _third(4, records(2, 4), start=2),
        "Failed",
        {"unexplained-start": 1},
    ),
    Case(
        "the-first-batches-are-gone-and-the-start-is-not",
        lambda: _third(4, records(2, 4)),
        "Failed",
        {"broken-log": 1, "divergent-replicas": 2},
    ),
    Case(
        "a-segment-in-the-middle-is-gone-everywhere",
        lambda: _everywhere(4, [batch(0), batch(3)]),
        "Failed",
        {"broken-log": 3},
    ),
    Case(
        "other-batch-on-one-replica",
        lambda: _third(3, [*records(0, 2), batch(2, crc=1)]),
        "Failed",
        {"divergent-replicas": 2},
    ),
    Case(
        "the-same-offset-of-another-epoch",
        lambda: _third(3, [*records(0, 2), batch(2, epoch=1)]),
        "Failed",
        {"divergent-replicas": 2},
    ),
    Case(
        "other-batch-boundaries",
        lambda: _third(3, [batch(0, 1), batch(2)]),
        "Failed",
        {"divergent-replicas": 2},
    ),
    Case(
        "three-replicas-three-truths",
        lambda: (
            _sent(2)
            .replica(1, [batch(0), batch(1, crc=1)])
            .replica(2, [batch(0), batch(1, crc=2)])
            .replica(3, [batch(0), batch(1, crc=3)])
        ),
        "Failed",
        {"divergent-replicas": 3},
    ),
    Case(
        "a-divergent-replica-that-is-not-in-sync",
        lambda: _third(3, [*records(0, 2), batch(2, crc=1)], in_sync=False),
        "Failed",
        {"divergent-replicas": 2},
    ),
    Case(
        "tails-beyond-the-common-end-may-differ",
        lambda: _sent(2).replica(1, [*records(0, 2), batch(2, crc=1)]).alike(2, brokers=(2, 3)),
        "Passed",
    ),
    Case(
        "wrong-crc-on-one-replica",
        lambda: _third(3, [batch(0), batch(1, crc_right=False), batch(2)]),
        "Failed",
        {"corrupt-batch": 1},
    ),
    Case(
        "wrong-crc-everywhere",
        lambda: _everywhere(2, [batch(0), batch(1, crc_right=False)]),
        "Failed",
        {"corrupt-batch": 3},
    ),
    Case(
        "batches-overlap",
        lambda: _everywhere(3, [batch(0, 1), batch(1), batch(2)]),
        "Failed",
        {"broken-log": 3},
    ),
    Case(
        "epochs-fall",
        lambda: _everywhere(3, [batch(0, epoch=2), batch(1, epoch=1), batch(2, epoch=2)]),
        "Failed",
        {"broken-log": 3},
    ),
    Case(
        "damage-behind-the-end",
        lambda: _third(3, records(0, 3), damage="00000000000000000000.log: garbage"),
        "Failed",
        {"broken-log": 1},
    ),
    Case(
        "a-sequence-is-there-twice",
        lambda: _everywhere(
            3,
            [
                batch(0, base_sequence=0, **_OURS),
                batch(1, base_sequence=1, **_OURS),
                batch(2, base_sequence=1, **_OURS),
            ],
        ),
        "Failed",
        {"broken-sequence": 3},
    ),
    Case(
        "a-sequence-is-left-out",
        lambda: _everywhere(2, [batch(0, base_sequence=0, **_OURS), batch(1, base_sequence=5, **_OURS)]),
        "Failed",
        {"broken-sequence": 3},
    ),
    Case(
        "a-compacted-topic-has-holes-of-its-own",
        lambda: _sent(4, cleanup_policy="compact,delete").alike(4, brokers=(1, 2)).replica(3, [batch(0), batch(3)]),
        "Passed",
    ),
    Case("a-replica-is-not-told-of", lambda: _sent(3).alike(3, brokers=(1, 2)), "Inconclusive"),
    Case(
        "no-replica-is-told-of",
        lambda: _sent(3),
        "Inconclusive",
    ),
    Case(
        "batches-were-taken-out-of-the-evidence",
        lambda: _third(3, records(0, 3), told_batches=4),
        "Inconclusive",
    ),
    Case(
        "one-replica-is-told-of-twice",
        lambda: _sent(3).alike(3).replica(3, records(0, 3)),
        "Error",
    ),
    Case(
        "lost-on-all-replicas-alike",
        lambda: Run().acked_many(4).final_many(0, 3).topic().alike(3),
        "Failed",
        {"unseen": 1},
        {"lost": 1},
    ),
)
