"""Runs in which nothing is wrong: no judge may accuse."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import Case, Run


def healthy() -> Run:
    return Run("all").acked("a", 0).acked("b", 1).invoke("c").unknown("c").acked("d", 2).final(["a", "b", "d"])


CASES = (
    Case("healthy", healthy, "Passed", {}, {"sent": 4, "acknowledged": 3, "unknown": 1, "read": 3, "lost": 0}),
    Case(
        "healthy-with-replicas",
        lambda: Run().acked_many(5).final_many(0, 5).topic().alike(5),
        "Passed",
        {},
        {"acknowledged": 5, "read": 5},
    ),
    Case(
        "unknown-that-is-there",
        lambda: Run().acked("a", 0).invoke("b").unknown("b").final(["a", "b"]),
        "Passed",
        {},
        {"unknown": 1, "unknown_but_there": 1},
    ),
    Case("unanswered", lambda: Run().acked("a", 0).invoke("b").final(["a"]), "Passed", {}, {"unknown": 1}),
    Case("nothing-acknowledged", lambda: Run().invoke("a").unknown("a").final([]), "Inconclusive"),
    Case("a-problem-was-told", lambda: healthy().problem("a step was not reached"), "Inconclusive"),
)
