"""Acknowledged records that are gone, and those whose absence is right or cannot be judged."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import FINAL, Case, Run


def _deleted_by_request() -> Run:
    return Run().acked_many(10).start_moved(4).final_many(4, 10).topic().alike(10, start=4)


def _start_moved_by_nobody() -> Run:
    return Run().acked_many(4).final([], start=4).topic().alike(4, start=4)


def _deleted_less_than_is_gone() -> Run:
    return Run().acked_many(10).start_moved(2, "retention").final_many(4, 10).topic().alike(10, start=4)


def _late_since_beside_the_strict_claim() -> Run:
    """KIP-101 A with a second claim: its late `since` must not excuse what the first forbids."""
    run = Run().acked("m0", 0).acked("m1", 1)
    late = run.now
    run.acked("m2", 1, process=2).final(["m0", "m2"])
    return run.claim("NoAcknowledgedRecordLost").claim("NoAcknowledgedRecordLost", since=late)


def _two_since() -> Run:
    """Both claims are late: what was lost between them breaks the earlier one only."""
    run = Run().acked("v0", 0)
    early = run.now
    run.acked("v1", 1)
    late = run.now
    run.acked("v2", 2).final([])
    return run.claim("NoAcknowledgedRecordLost", since=late).claim("NoAcknowledgedRecordLost", since=early)


def _given_up() -> Run:
    """A power loss took m1, as the scenario says beforehand; what readers were told before it is no evidence."""
    run = Run().acked("m0", 0).acked("m1", 1).assign().poll([(0, "m0"), (1, "m1")]).end_offset(2)
    since = run.now
    run.acked("m2", 1).end_offset(2).final(["m0", "m2"])
    return run.claim("NoAcknowledgedRecordLost", since=since)


def _lost_after_since() -> Run:
    run = Run().acked("m0", 0)
    since = run.now
    return run.acked("m1", 1).acked("m2", 2).final(["m0", "m1"]).claim("NoAcknowledgedRecordLost", since=since)


def _topic_deleted() -> Run:
    run = Run().acked_many(3)
    return run.start_moved(None, "topic_deleted", from_=None, partition=None).topic()


def _without_partition() -> Run:
    return Run().acked("a", 0).invoke("b", partition=None).ok("b", None, partition=None)


CASES = (
    Case("lost-at-the-end", lambda: Run().acked_many(3).final_many(0, 2), "Failed", {"unseen": 1}, {"lost": 1}),
    Case("lost-all", lambda: Run().acked_many(3).final([]), "Failed", {"unseen": 3}, {"lost": 3}),
    Case("lost-with-acks-1", lambda: Run("1").acked_many(3).final_many(0, 2), "Failed", {"unseen": 1}),
    Case(
        "lost-in-the-middle",
        lambda: Run().acked("a", 0).acked("b", 1).invoke("c").unknown("c").final(["a", "c"]),
        "Failed",
        {"lost-write": 1, "inconsistent-offsets": 1, "stale-offset": 1},
        {"lost": 1},
    ),
    Case(
        "lost-in-a-hole",
        lambda: Run().acked_many(3).assign(process=FINAL).poll([(0, "v0"), (2, "v2")], process=FINAL).read_to(3, FINAL),
        "Failed",
        {"lost-write": 1, "int-poll-skip": 1},
        {"lost": 1},
    ),
    Case("lost-without-offset", lambda: Run().invoke("a").ok("a", None).final([]), "Failed", {"unseen": 1}),
    Case(
        "lost-in-one-partition-of-two",
        lambda: Run().acked("a", 0).acked("b", 0, partition=1).final(["a"]).final([], partition=1),
        "Failed",
        {"unseen": 1},
        {"lost": 1},
    ),
    Case(
        "lost-and-in-another-partition",
        lambda: Run().acked("a", 0).final([]).final(["a"], partition=1),
        "Failed",
        {"unseen": 1, "ack-offset": 1, "phantom": 1},
        {"lost": 1},
    ),
    Case(
        "lost-though-no-reader-came-to-the-end",
        lambda: Run().acked_many(4).assign().poll([(0, "v0"), (2, "v2")]).read_stopped(3),
        "Failed",
        {"lost-write": 1, "int-poll-skip": 1},
        {"lost": 1, "undecided": 3},
    ),
    Case(
        "no-reader-came-to-the-end",
        lambda: Run().acked_many(3).assign().poll([(0, "v0"), (1, "v1")]).read_stopped(2),
        "Inconclusive",
        {},
        {"undecided": 3},
    ),
    Case("nobody-read-anything", lambda: Run().acked_many(3), "Inconclusive", {}, {"undecided": 3}),
    Case(
        "a-reader-that-started-later-does-not-accuse",
        lambda: Run().acked("a", 0).acked("b", 1).assign(1).poll([(1, "b")]).read_stopped(2),
        "Inconclusive",
        {},
        {"undecided": 2},
    ),
    Case(
        "acknowledged-after-the-final-read-began",
        lambda: Run().acked("a", 0).invoke("b").final(["a"]).ok("b", 1),
        "Inconclusive",
        {},
        {"undecided": 1},
    ),
    Case(
        "the-last-final-read-counts",
        lambda: Run().acked("a", 0).final(["a"]).acked("b", 1).final(["a"]),
        "Failed",
        {"unseen": 1},
    ),
    Case(
        "an-earlier-final-read-does-not-absolve",
        lambda: Run().acked("a", 0).acked("b", 1).final(["a", "b"]).final(["a"]),
        "Failed",
        {"unseen": 1, "vanished-read": 1},
    ),
    Case("deleted-by-request", _deleted_by_request, "Passed", {}, {"deleted": 4, "lost": 0}, proven=2),
    Case(
        "deleted-by-retention",
        lambda: Run().acked_many(6).start_moved(6, "retention").final([], start=6).topic().alike(6, start=6),
        "Passed",
        {},
        {"deleted": 6},
    ),
    Case("topic-deleted", _topic_deleted, "Inconclusive", {}, {"deleted": 3, "undecided": 0}),
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
        "more-is-gone-than-was-deleted",
        _deleted_less_than_is_gone,
        "Failed",
        {"lost-below-start": 2, "unexplained-start": 3},
        {"lost": 2, "deleted": 2},
    ),
    Case(
        "a-follower-took-its-leaders-start-explains-nothing",
        lambda: Run().acked_many(4).start_moved(2, "leader").final_many(2, 4).topic().alike(4, start=2),
        "Failed",
        {"lost-below-start": 2, "unexplained-start": 3},
    ),
    Case(
        "a-compacted-topic-cannot-be-judged-for-loss",
        lambda: Run().acked_many(3).final_many(0, 2).topic(cleanup_policy="compact").alike(3),
        "Inconclusive",
        {},
        {"undecided": 1},
    ),
    Case(
        "late-since-beside-the-strict-claim",
        _late_since_beside_the_strict_claim,
        "Failed",
        {"lost-write": 1, "inconsistent-offsets": 1, "stale-offset": 1},
        {"lost": 1, "accepted_loss": 0},
        proven=5,
    ),
    Case("two-claims-with-since", _two_since, "Failed", {"unseen": 2}, {"lost": 2, "accepted_loss": 1}),
    Case("given-up-beforehand", _given_up, "Passed", {}, {"lost": 0, "accepted_loss": 1, "acknowledged": 3}),
    Case("lost-after-since", _lost_after_since, "Failed", {"unseen": 1}, {"lost": 1, "accepted_loss": 0}),
    Case(
        "the-step-of-since-was-never-begun",
        lambda: Run().acked_many(2).final_many(0, 1).claim("NoAcknowledgedRecordLost", since="never"),
        "Inconclusive",
        {},
        {"lost": 0, "undecided": 2},
    ),
    Case(
        "acknowledged-without-partition-and-gone",
        lambda: _without_partition().final(["a"]).topic().alike(1),
        "Failed",
        {"unseen": 1},
        {"lost": 1},
        proven=5,
    ),
    Case("acknowledged-without-partition-and-there", lambda: _without_partition().final(["a", "b"]), "Passed"),
    Case(
        "acknowledged-without-partition-and-not-all-read",
        lambda: _without_partition().final(["a"]).topic(partitions=2).alike(1).alike(0, partition=1),
        "Inconclusive",
        {},
        {"undecided": 1},
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
    Case(
        "an-outage-from-the-beginning",
        lambda: Run().invoke("a").wait(9).ok("a", 0).final(["a"]).claim("AckGapAtMost", limit_millis=5000),
        "Failed",
        {},
        {"longest_ack_gap_s": 10.0},
    ),
    Case(
        "no-gap-can-be-told",
        lambda: _without_partition_only().claim("AckGapAtMost", limit_millis=5000),
        "Inconclusive",
        {},
        {"longest_ack_gap_s": None},
    ),
)


def _without_partition_only() -> Run:
    run = Run().invoke("b", partition=None).ok("b", None, partition=None)
    return run.final(["b"])
