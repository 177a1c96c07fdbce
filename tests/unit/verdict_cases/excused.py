"""What a deletion excuses, and what it does not; and records that turned up where nobody had sent them."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import FINAL, Case, Run, records


def _made_anew(lost: bool = False, start: int = 0) -> Run:
    """A topic is deleted, and another of its name is made: offsets begin again, and nothing of the first is owed."""
    run = Run().acked("a", 0).acked("b", 1).assign().poll([(0, "a"), (1, "b")]).end_offset(2)
    deleted = run.now - 0.5
    run.acked("c", start).acked("d", start + 1).assign(start).poll([(start, "c"), (start + 1, "d")]).end_offset(
        start + 2
    )
    run.final(["c"] if lost else ["c", "d"], start)
    run.start_moved(None, "topic_deleted", from_=None, partition=None, time=deleted)
    end = start + 1 if lost else start + 2
    return run.topic().alike(end, start=start)


def _deleted_before_it_was_made_anew() -> Run:
    """Retention had moved the start of the first topic; that explains no start of the second."""
    run = Run().acked_many(2)
    deleted = run.now - 0.5
    run.acked("z", 3, process=2).final(["z"], start=3)
    run.start_moved(3, "retention", time=deleted - 1)
    run.start_moved(None, "topic_deleted", from_=None, partition=None, time=deleted)
    return run.topic().alike(4, start=3)


def _sent_after_the_deletion() -> Run:
    """A deletion up to offset 50 excuses nothing that was sent after it: the log was cut and written again."""
    run = Run().acked_many(2).start_moved(50, "retention").wait(5)
    return run.acked("z", 2).final_many(0, 2).topic().alike(2)


def _sent_after_and_below_the_start() -> Run:
    """Below the start of F and sent after the last deletion, by clocks of two machines: nobody can tell."""
    run = Run().acked_many(2).start_moved(3, "retention", time=1003.5).acked("v2", 2).acked("v3", 3)
    return run.final_many(3, 4).topic().alike(4, start=3)


def _starts_at_zero() -> Run:
    """Broker 2 deleted up to 4; the reader's leader did not, its log starts at 0, and two records in it are gone."""
    run = Run().acked_many(4).start_moved(4, "retention", broker=2, time=1000.0).assign(0, FINAL)
    return run.poll([(0, "v0"), (3, "v3")], process=FINAL).read_to(4, FINAL).topic().alike(4)


def _deleted_while_it_was_read() -> Run:
    """The start moved after the final reader was placed at 0."""
    run = Run().acked_many(4).assign(0, FINAL)
    run.start_moved(3, time=run.now + 0.5)
    return run.poll([(3, "v3")], process=FINAL).read_to(4, FINAL).topic().alike(4, start=3)


def _short_of_what_was_read() -> Run:
    """The final reader says that it ended at 2, and had read up to 3: replicas must reach that."""
    run = Run().acked_many(4).assign(0, FINAL).poll([(n, f"v{n}") for n in range(4)], process=FINAL).read_to(2, FINAL)
    return run.topic().alike(4, brokers=(1, 2)).replica(3, records(0, 2))


def _named_before_since() -> Run:
    """Partition 3 is named by a reader before the step of the claim only: what was told then is no evidence."""
    run = Run().assign(0, 7, partition=3)
    since = run.now
    run.acked("b", 0).invoke("c", partition=None).ok("c", None, partition=None).final(["b"])
    return run.claim("NoAcknowledgedRecordLost", since=since)


CASES = (
    Case("a-topic-that-was-made-anew", _made_anew, "Passed", {}, {"deleted": 2, "acknowledged": 4}),
    Case(
        "lost-in-a-topic-that-was-made-anew",
        lambda: _made_anew(lost=True),
        "Failed",
        {"unseen": 1, "vanished-read": 1},
        {"deleted": 2, "lost": 1},
    ),
    Case("a-topic-that-was-made-anew-starts-at-0", lambda: _made_anew(start=7), "Failed", {"unexplained-start": 3}),
    Case("a-deletion-in-the-topic-before", _deleted_before_it_was_made_anew, "Failed", {"unexplained-start": 3}),
    Case("sent-after-the-last-deletion", _sent_after_the_deletion, "Failed", {"unseen": 1}, {"lost": 1, "deleted": 0}),
    Case(
        "sent-after-the-last-deletion-and-below-the-start",
        _sent_after_and_below_the_start,
        "Inconclusive",
        {},
        {"deleted": 2, "undecided": 1},
    ),
    Case(
        "deleted-elsewhere-and-the-readers-log-starts-at-0",
        _starts_at_zero,
        "Failed",
        {"lost-write": 2},
        {"lost": 2, "deleted": 0},
    ),
    Case("deleted-while-the-final-reader-read", _deleted_while_it_was_read, "Passed", {}, {"deleted": 3}),
    Case("a-replica-short-of-what-was-read", _short_of_what_was_read, "Failed", {"short-replica": 1}),
    Case("a-partition-that-was-named-before-since-only", _named_before_since, "Failed", {"unseen": 1}, {"lost": 1}),
    Case(
        "a-partition-that-only-an-end-offset-names",
        lambda: (
            Run()
            .acked("b", 0)
            .invoke("c", partition=None)
            .ok("c", None, partition=None)
            .end_offset(0, partition=9)
            .final(["b"])
        ),
        "Inconclusive",
        {},
        {"undecided": 1},
    ),
    Case(
        "an-unknown-record-turns-up-in-another-partition",
        lambda: Run().acked("a", 0).invoke("x").unknown("x").final(["a"]).final(["x"], partition=1),
        "Failed",
        {"phantom": 1},
        {"unknown_but_there": 1},
    ),
    Case(
        "a-copy-in-another-partition-is-no-retry",
        lambda: Run().acked("a", 0).final(["a"]).final(["a"], partition=1),
        "Failed",
        {"duplicate": 1, "phantom": 1},
    ),
)
