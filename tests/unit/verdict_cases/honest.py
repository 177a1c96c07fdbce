"""Runs in which nothing is wrong, or nothing can be said: no judge may accuse."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import FINAL, Case, Run, batch, records


def healthy() -> Run:
    return Run("all").acked("a", 0).acked("b", 1).invoke("c").unknown("c").acked("d", 2).final(["a", "b", "d"])


def _two_partitions() -> Run:
    run = Run().acked("a", 0).acked("b", 0, partition=1).final(["a"]).final(["b"], partition=1)
    return run.topic(partitions=2).alike(1).alike(1, partition=1)


def _big_batches() -> Run:
    logs = [batch(0, 2), batch(3, 3, epoch=1), batch(4, 7, epoch=1)]
    run = Run().acked_many(8).final_many(0, 8).topic()
    return run.replica(1, logs).replica(2, logs).replica(3, logs)


def _log_start_inside_a_batch() -> Run:
    """DeleteRecords moves the start to the middle of a batch, which stays in the file as a whole."""
    logs = [batch(0, 4), *records(5, 8)]
    run = Run().acked_many(8).start_moved(3).final_many(3, 8).topic()
    for broker in (1, 2, 3):
        run.replica(broker, logs, start=3)
    return run


def _a_follower_lags_behind_the_deletion() -> Run:
    """Followers take the leader's start later: a lower start is no anomaly."""
    run = Run().acked_many(6).start_moved(3).final_many(3, 6).topic()
    return run.alike(6, start=3, brokers=(1, 2)).replica(3, records(0, 6))


def _sequences() -> Run:
    """Two producers in turn; the first one's numbers wrap around, the second begins anew with another epoch."""
    ours = {"producer_id": 7, "producer_epoch": 0}
    logs = [
        batch(0, 1, base_sequence=2147483646, **ours),
        batch(2, producer_id=8, producer_epoch=0, base_sequence=5),
        batch(3, base_sequence=0, **ours),
        batch(4, producer_id=8, producer_epoch=1, base_sequence=0),
        batch(5, producer_id=7, producer_epoch=0, base_sequence=-1, control=True),
        batch(6, base_sequence=1, **ours),
    ]
    run = Run(idempotence=True).acked_many(5).acked("v6", 6).assign(process=FINAL)
    run.poll([(n, f"v{n}") for n in (0, 1, 2, 3, 4, 6)], process=FINAL).read_to(7, FINAL).topic()
    return run.replica(1, logs).replica(2, logs).replica(3, logs)


CASES = (
    Case(
        "healthy",
        healthy,
        "Passed",
        {},
        {"sent": 4, "acknowledged": 3, "failed": 0, "unknown": 1, "unknown_but_there": 0, "read": 3, "lost": 0},
    ),
    Case("healthy-with-replicas", lambda: Run().acked_many(5).final_many(0, 5).topic().alike(5), "Passed"),
    Case("healthy-two-partitions", _two_partitions, "Passed"),
    Case("healthy-big-batches", _big_batches, "Passed"),
    Case(
        "one-reader-follows-and-one-reads-back",
        lambda: Run().acked("a", 0).assign().poll([(0, "a")]).acked("b", 1).poll([(1, "b")], batch=2).final(["a", "b"]),
        "Passed",
        {},
        {"read": 2},
    ),
    Case(
        "unknown-that-is-there",
        lambda: Run().acked("a", 0).invoke("b").unknown("b").final(["a", "b"]),
        "Passed",
        {},
        {"unknown": 1, "unknown_but_there": 1},
    ),
    Case("unanswered", lambda: Run().acked("a", 0).invoke("b").final(["a"]), "Passed", {}, {"unknown": 1}),
    Case(
        "failed-and-not-there",
        lambda: Run().acked("a", 0).invoke("b").fail("b").final(["a"]),
        "Passed",
        {},
        {"failed": 1},
    ),
    Case(
        "unknown-turns-up-late",
        lambda: Run().invoke("x").unknown("x").acked("a", 0).final(["a", "x"]),
        "Passed",
    ),
    Case(
        "unknown-was-on-its-way-before",
        lambda: Run().invoke("x").acked("a", 1, process=2).unknown("x").final(["x", "a"]),
        "Passed",
    ),
    Case("acknowledged-without-offset", lambda: Run().invoke("a").ok("a", None).final(["a"]), "Passed"),
    Case(
        "a-retry-without-idempotence-made-a-duplicate",
        lambda: Run().acked("a", 0).final(["a", "a"]),
        "Passed",
        {"duplicate": 1},
        {"duplicated": 1},
    ),
    Case(
        "a-client-overtook-itself",
        lambda: Run().invoke("a", "b").ok("b", 0).ok("a", 1).final(["b", "a"]),
        "Passed",
        {"nonmonotonic-send": 1},
        {"reordered": 1},
    ),
    Case(
        "two-producers-need-no-common-order",
        lambda: Run().invoke("a").invoke("b", process=2).ok("b", 0, process=2).ok("a", 1).final(["b", "a"]),
        "Passed",
    ),
    Case(
        "a-hole-that-nobody-knows-a-record-in",
        lambda: Run().acked("a", 0).acked("c", 5).assign().poll([(0, "a"), (5, "c")]).read_to(6),
        "Passed",
    ),
    Case(
        "a-reader-that-was-placed-anew-may-go-back",
        lambda: Run().acked("a", 0).assign().poll([(0, "a")]).assign().poll([(0, "a")]).final(["a"]),
        "Passed",
    ),
    Case(
        "a-reader-whose-start-is-not-told",
        lambda: Run().acked("a", 0).acked("b", 1).poll([(1, "b")], process=7).final(["a", "b"]),
        "Passed",
    ),
    Case(
        "end-offsets-told-to-different-clients",
        lambda: healthy().end_offset(3, process=7).end_offset(2, process=8).end_offset(3, process=8),
        "Passed",
    ),
    Case(
        "what-was-there-before-is-no-phantom",
        lambda: Run().end_offset(2).acked("a", 2).final(["old-1", "old-2", "a"]),
        "Passed",
    ),
    Case("log-start-inside-a-batch", _log_start_inside_a_batch, "Passed", {}, {"deleted": 3}),
    Case("a-follower-deletes-later", _a_follower_lags_behind_the_deletion, "Passed", {}, {"deleted": 3}),
    Case("sequences-that-follow-each-other", _sequences, "Passed"),
    Case(
        "short-outage-within-the-limit",
        lambda: Run().acked("a", 0).wait(1.5).acked("b", 1).final(["a", "b"]).claim("AckGapAtMost", limit_millis=4000),
        "Passed",
        {},
        {"longest_ack_gap_s": 3.5},
    ),
    Case("nothing-acknowledged", lambda: Run().invoke("a").unknown("a").final([]), "Inconclusive"),
    Case("nothing-at-all", Run, "Inconclusive", {}, {"sent": 0, "longest_ack_gap_s": None}),
    Case("a-problem-was-told", lambda: healthy().problem("a step was not reached"), "Inconclusive"),
)
