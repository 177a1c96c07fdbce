"""Run folders that were cut short, or that lack a file: what is not there is no proof, neither for the cluster nor against it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.verdict_cases.builder import FINAL, Case, Run, records
from tests.unit.verdict_cases.forged import HISTORY, JOURNAL, REPLICAS, claim, good, raw


def _remove(name: str) -> Run:
    return good().changed(lambda folder: (folder / name).unlink())


def _read_by_all_but_the_last() -> Run:
    """The following reader has read all, then half of it was lost everywhere, and the final reader did not come to the end."""
    run = Run().acked_many(4).assign().poll([(n, f"v{n}") for n in range(4)])
    return run.assign(0, FINAL).poll([(0, "v0")], process=FINAL).read_stopped(1, FINAL).topic().alike(2)


def _killed_after_the_load() -> Run:
    """kill -9 of the runner: no final read, no replicas' logs, no claims; the following reader has read everything."""
    run = Run().acked_many(4).assign().poll([(n, f"v{n}") for n in range(4)])
    return run.changed(claim('{"time": 1.0, "kind": "scenario", "scenario": {}}'))


def _named(*files: str) -> Run:
    text = ", ".join(f'"{name}"' for name in files)
    line = f'{{"time": 1.0, "kind": "claims", "claims": [], "problems": [], "files": [{text}]}}'
    return Run().acked_many(2).final_many(0, 2).changed(claim(line))


def _cut_replicas() -> Run:
    """The disk was full: the last batches of broker 3 are not in the file. That is no divergence."""
    return good().changed(raw(REPLICAS, lambda told: told[: len(told) - 700]))


def _copied_as_a_journal(folder: Path) -> None:
    (folder / JOURNAL).write_bytes((folder / HISTORY).read_bytes())


def _claimed() -> Run:
    return Run().acked_many(2).final_many(0, 2).claim("NoDivergence")


def _without_the_middle() -> Run:
    run = Run().acked_many(4).final_many(0, 4).topic().alike(4, brokers=(1, 2)).replica(3, records(0, 4))
    run.replicas = [line for line in run.replicas if not (line.get("broker") == 3 and line.get("index") == 2)]
    return run


def _set_back() -> Run:
    """An outage of 100 seconds, and a clock that was set back by as many: no gap is to be seen."""
    run = Run().acked("a", 0).invoke("b").wait(-5).ok("b", 1).acked("c", 2).final(["a", "b", "c"])
    return run.claim("AckGapAtMost", limit_millis=4000)


CASES = (
    Case(
        "read-once-and-no-final-read-came-to-the-end",
        _read_by_all_but_the_last,
        "Inconclusive",
        {},
        {"undecided": 4, "lost": 0},
    ),
    Case("the-runner-was-killed", _killed_after_the_load, "Inconclusive", {}, {"undecided": 4}),
    Case(
        "the-claims-were-never-written",
        lambda: good().changed(claim('{"time": 1.0, "kind": "scenario", "scenario": {}}')),
        "Inconclusive",
    ),
    Case("the-journal-is-gone", lambda: _remove(JOURNAL), "Inconclusive"),
    Case("the-journal-is-of-something-else", lambda: good().changed(_copied_as_a_journal), "Inconclusive"),
    Case(
        "a-history-alone-is-all-that-there-was",
        lambda: Run().acked_many(2).final_many(0, 2).changed(lambda folder: (folder / JOURNAL).unlink()),
        "Passed",
    ),
    Case("a-file-of-the-run-is-gone", lambda: _named(HISTORY, REPLICAS), "Inconclusive"),
    Case("the-files-of-the-run-are-there", lambda: _named(HISTORY), "Passed"),
    Case("no-divergence-is-claimed-and-nothing-tells", _claimed, "Inconclusive"),
    Case("an-empty-file-of-replicas", lambda: good().changed(raw(REPLICAS, lambda told: b"")), "Inconclusive"),
    Case("a-blank-file-of-replicas", lambda: good().changed(raw(REPLICAS, lambda told: b"\n")), "Inconclusive"),
    Case("an-empty-history", lambda: good().changed(raw(HISTORY, lambda told: b"")), "Inconclusive"),
    Case("the-file-of-replicas-is-cut-off", _cut_replicas, "Inconclusive"),
    Case(
        "batches-in-the-middle-were-taken-out",
        _without_the_middle,
        "Inconclusive",
    ),
    Case(
        "a-partition-that-the-topic-does-not-have",
        lambda: Run().acked("a", 0).acked("b", 0, partition=5).final(["a"]).final(["b"], partition=5).topic().alike(1),
        "Inconclusive",
    ),
    Case(
        "the-clock-was-set-back",
        _set_back,
        "Inconclusive",
    ),
)
