"""Acknowledged records that are gone, and those whose absence is right or cannot be judged."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import Case, Run


def _deleted_by_request() -> Run:
    run = Run().acked_many(10).start_moved(4).final_many(4, 10).topic()
    return run.alike(10, start=4)


def _start_moved_by_nobody() -> Run:
    return Run().acked_many(4).final([], start=4).topic().alike(4, start=4)


def _late_since_beside_the_strict_claim() -> Run:
    """KIP-101 A with a second claim: its late `since` must not excuse what the first forbids."""
    run = Run().acked("m0", 0).acked("m1", 1)
    late = run.now
    run.acked("m2", 1, process=2).final(["m0", "m2"])
    return run.claim("NoAcknowledgedRecordLost").claim("NoAcknowledgedRecordLost", since=late)


CASES = (
    Case("lost-at-the-end", lambda: Run().acked_many(3).final_many(0, 2), "Failed", {"unseen": 1}, {"lost": 1}),
    Case(
        "lost-in-the-middle",
        lambda: Run().acked("a", 0).acked("b", 1).invoke("c").unknown("c").final(["a", "c"]),
        "Failed",
        {"lost-write": 1, "inconsistent-offsets": 1, "stale-offset": 1},
        {"lost": 1},
    ),
    Case(
        "no-reader-came-to-the-end",
        lambda: Run().acked_many(3).assign().poll([(0, "v0"), (1, "v1")]).read_stopped(2),
        "Inconclusive",
        {},
        {"undecided": 1},
    ),
    Case("deleted-by-request", _deleted_by_request, "Passed", {}, {"deleted": 4, "lost": 0}, proven=2),
    Case(
        "log-start-moved-and-nobody-tells-who",
        lambda: Run().acked_many(10).final_many(4, 10),
        "Inconclusive",
        {},
        {"undecided": 4, "deleted": 0},
        proven=2,
    ),
    Case(
        "start-and-end-crafted-alike",
        _start_moved_by_nobody,
        "Failed",
        {"lost-below-start": 4, "unexplained-start": 3},
        {"lost": 4},
        proven=2,
    ),
    Case(
        "late-since-beside-the-strict-claim",
        _late_since_beside_the_strict_claim,
        "Failed",
        {"lost-write": 1, "inconsistent-offsets": 1, "stale-offset": 1},
        {"lost": 1, "accepted_loss": 0},
        proven=5,
    ),
    Case(
        "acknowledged-without-partition",
        lambda: (
            Run().acked("a", 0).invoke("b", partition=None).ok("b", None, partition=None).final(["a"]).topic().alike(1)
        ),
        "Failed",
        {"unseen": 1},
        {"lost": 1},
        proven=5,
    ),
    Case(
        "phantoms",
        lambda: Run().acked("v0", 0).final(["v0", *(f"stranger-{n}" for n in range(500))]),
        "Failed",
        {"phantom": 500},
        proven=3,
    ),
    Case(
        "an-outage-that-never-ends",
        lambda: (
            Run().acked("a", 0).invoke("b").wait(30).unknown("b").final(["a"]).claim("AckGapAtMost", limit_millis=1000)
        ),
        "Failed",
        {},
        {"longest_ack_gap_s": 32.0, "unknown": 1},
        proven=4,
    ),
)
