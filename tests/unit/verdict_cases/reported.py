"""What readers and producers were told, and must not have been."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import FINAL, Case, Run
from tests.unit.verdict_cases.honest import healthy


def _skips(batch: int) -> Run:
    run = Run().acked_many(3).assign().poll([(0, "v0")], batch=1).poll([(2, "v2")], batch=batch)
    return run.final_many(0, 3)


def _goes_back(batch: int) -> Run:
    run = Run().acked_many(2).assign().poll([(0, "v0"), (1, "v1")], batch=1).poll([(0, "v0")], batch=batch)
    return run.final_many(0, 2)


def _cut() -> Run:
    run = healthy()
    run.raw_tail = '{"time":1009.0,"process":1,"op":"send","ty'
    return run


def _line_missing() -> Run:
    """Somebody took out the acknowledgement of a record that is lost."""
    run = Run().acked_many(3).final_many(0, 2)
    del run.history[5]
    return run


def _unnumbered() -> Run:
    run = healthy()
    for line in run.history:
        del line["seq"]
    return run


def _shuffled() -> Run:
    run = healthy()
    run.history.reverse()
    return run


def _garbage() -> Run:
    run = healthy()
    run.raw_tail = "no JSON\n"
    return run


CASES = (
    Case(
        "phantoms",
        lambda: Run().acked("v0", 0).final(["v0", *(f"stranger-{n}" for n in range(500))]),
        "Failed",
        {"phantom": 500},
        {"phantoms": 500},
        proven=3,
    ),
    Case(
        "a-phantom-seen-by-the-following-reader-only",
        lambda: Run().acked("a", 0).assign().poll([(0, "a"), (1, "ghost")]).final(["a"]),
        "Failed",
        {"phantom": 1, "vanished-read": 1},
    ),
    Case(
        "a-phantom-above-what-was-there-before",
        lambda: Run().end_offset(1).acked("a", 1).final(["old", "a", "ghost"]),
        "Failed",
        {"phantom": 1},
    ),
    Case(
        "failed-and-read",
        lambda: Run().acked("a", 0).invoke("b").fail("b").final(["a", "b"]),
        "Failed",
        {"aborted-read": 1},
    ),
    Case(
        "two-values-at-one-offset",
        lambda: (
            Run().invoke("a", "b").assign().poll([(0, "a")]).assign(process=7).poll([(0, "b")], process=7).acked("c", 1)
        ),
        "Failed",
        {"inconsistent-offsets": 1},
        {"undecided": 1},
    ),
    Case(
        "read-once-and-then-no-more",
        lambda: Run().acked("a", 0).invoke("b").unknown("b").assign().poll([(0, "a"), (1, "b")]).final(["a"]),
        "Failed",
        {"vanished-read": 1},
    ),
    Case(
        "read-below-the-log-start-has-not-vanished",
        lambda: (
            Run()
            .acked_many(2)
            .assign()
            .poll([(0, "v0"), (1, "v1")])
            .start_moved(1)
            .final(["v1"], 1)
            .topic()
            .alike(2, start=1)
        ),
        "Passed",
        {},
        {"deleted": 1},
    ),
    Case(
        "a-duplicate-of-an-idempotent-producer",
        lambda: Run(idempotence=True).acked("a", 0).final(["a", "a"]),
        "Failed",
        {"duplicate": 1},
    ),
    Case(
        "a-duplicate-where-none-is-claimed",
        lambda: Run().acked("a", 0).final(["a", "a"]).claim("NoDuplicates"),
        "Failed",
        {"duplicate": 1},
    ),
    Case(
        "a-duplicate-in-another-partition",
        lambda: Run(idempotence=True).acked("a", 0).final(["a"]).final(["a"], partition=1),
        "Failed",
        {"duplicate": 1, "phantom": 1},
    ),
    Case(
        "three-copies-are-one-duplicate",
        lambda: Run().acked("a", 0).final(["a", "a", "a"]),
        "Passed",
        {"duplicate": 1},
    ),
    Case("a-poll-jumps-over-a-record", lambda: _skips(batch=1), "Failed", {"int-poll-skip": 1}),
    Case("a-reader-jumps-between-polls", lambda: _skips(batch=2), "Failed", {"poll-skip": 1}),
    Case(
        "a-reader-misses-the-first-record",
        lambda: Run().acked_many(2).assign().poll([(1, "v1")]).final_many(0, 2),
        "Failed",
        {"poll-skip": 1},
    ),
    Case(
        "a-reader-jumps-over-deleted-records",
        lambda: (
            Run()
            .acked_many(4)
            .assign()
            .poll([(0, "v0")])
            .start_moved(3)
            .poll([(3, "v3")], batch=2)
            .final(["v3"], 3)
            .topic()
            .alike(4, start=3)
        ),
        "Passed",
        {},
        {"deleted": 3},
    ),
    Case("a-poll-goes-back", lambda: _goes_back(batch=1), "Failed", {"int-nonmonotonic-poll": 1}),
    Case("a-reader-goes-back-between-polls", lambda: _goes_back(batch=2), "Failed", {"nonmonotonic-poll": 1}),
    Case(
        "a-reader-gets-what-lies-before-its-start",
        lambda: Run().acked_many(2).assign(1).poll([(0, "v0"), (1, "v1")]).final_many(0, 2),
        "Failed",
        {"nonmonotonic-poll": 1},
    ),
    Case(
        "an-idempotent-producer-is-overtaken",
        lambda: Run(idempotence=True).invoke("a", "b").ok("b", 0).ok("a", 1).final(["b", "a"]),
        "Failed",
        {"nonmonotonic-send": 1},
    ),
    Case(
        "overtaken-where-order-is-claimed",
        lambda: Run().invoke("a", "b").ok("b", 0).ok("a", 1).final(["b", "a"]).claim("NoReordering"),
        "Failed",
        {"nonmonotonic-send": 1},
    ),
    Case(
        "acknowledged-in-order-at-offsets-that-are-not",
        lambda: Run(max_in_flight=5).invoke("a", "b").ok("a", 1).ok("b", 0).final(["b", "a"]),
        "Failed",
        {"nonmonotonic-send": 1},
    ),
    Case(
        "elsewhere-than-acknowledged",
        lambda: (
            Run()
            .acked("a", 0)
            .acked("b", 5)
            .assign(process=FINAL)
            .poll([(0, "a"), (1, "b")], process=FINAL)
            .read_to(2, FINAL)
        ),
        "Failed",
        {"ack-offset": 1},
    ),
    Case(
        "a-second-copy-does-not-move-the-first",
        lambda: Run().acked("a", 1).final(["a", "a"]),
        "Passed",
        {"duplicate": 1},
    ),
    Case(
        "an-offset-that-was-taken",
        lambda: Run().acked("a", 0).acked("b", 1).acked("c", 1, process=2).final(["a", "c"]),
        "Failed",
        {"stale-offset": 1, "inconsistent-offsets": 1, "lost-write": 1},
    ),
    Case(
        "an-unknown-record-turns-up-low",
        lambda: Run().acked("a", 1).invoke("x").unknown("x").final(["x", "a"]),
        "Failed",
        {"stale-offset": 1},
    ),
    Case(
        "a-log-that-was-cut-and-written-again",
        lambda: (
            Run()
            .acked_many(4)
            .acked("w1", 2, 2)
            .acked("w2", 3, 2)
            .acked("w3", 4, 2)
            .final(["v0", "v1", "w1", "w2", "w3"])
        ),
        "Failed",
        {"stale-offset": 1, "inconsistent-offsets": 2, "lost-write": 2},
        {"lost": 2},
    ),
    Case(
        "the-end-offset-goes-back",
        lambda: healthy().end_offset(3).end_offset(2).end_offset(3),
        "Failed",
        {"end-offset-went-back": 1},
    ),
    Case(
        "a-value-is-sent-twice",
        lambda: Run().acked("a", 0).acked("a", 1).final(["a", "a"]),
        "Error",
    ),
    Case("an-outcome-without-a-send", lambda: Run().ok("a", 0).final(["a"]), "Error"),
    Case("an-outcome-before-its-send", lambda: Run().ok("a", 0).invoke("a").final(["a"]), "Error"),
    Case("two-outcomes", lambda: Run().acked("a", 0).unknown("a").final(["a"]), "Error"),
    Case("a-line-that-is-none", _garbage, "Error"),
    Case("the-last-line-was-cut-off", _cut, "Passed"),
    Case("a-line-was-taken-out", _line_missing, "Inconclusive", {}, {"unknown": 1}),
    Case("lines-without-numbers", _unnumbered, "Passed"),
    Case("lines-in-another-order", _shuffled, "Passed", {}, {"acknowledged": 3, "read": 3}),
)
