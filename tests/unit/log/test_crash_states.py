"""Whatever a crash leaves of the files of a broker's life, it starts again with all that it had flushed.

`make crashes` tries whole lives (docs/internals/crash-states.md); here are a few prefixes of one.
"""

from __future__ import annotations

import random

import pytest
from minikafka_simulator.bugs.catalogue import CRASH_BUGS
from minikafka_simulator.bugs.in_process import planted
from minikafka_simulator.commands.crashes import main
from minikafka_simulator.crashes.disk import RecordedDisk, RecordedFileSystem
from minikafka_simulator.crashes.operations import Contents
from minikafka_simulator.crashes.search import search
from minikafka_simulator.crashes.states import Prefix
from minikafka_simulator.crashes.store_search import search_store

from tests.forms import for_each

EARLY = ("rename-unsynced-file", "folder-unsynced-parent", "trust-sealed")
"""Mistakes that a short prefix of the first life shows."""
OF_THE_STORE = "commit-unsynced"
RARE = (
    "epochs-before-indexes", "tails-before-data", "tail-unsynced", "retention-before-names", "retention-leaves-hole",
    "pass-over-producers", "start-above-end",
)  # fmt: skip
"""Those that a dozen lives show late or not at all; each has a test of its own (docs/internals/what-it-found.md)."""
STATES = 6
LIVES = 12


def record(*steps: str) -> RecordedDisk:
    """What the broker's file system code does for some steps."""
    disk = RecordedDisk()
    fs = RecordedFileSystem(disk)
    for step in steps:
        match step:
            case "make":
                fs.makedirs("/d")
            case "write":
                fs.open_append("/d/f").append(b"abc")
            case "more":
                fs.open_append("/d/f").append(b"def")
            case "cut":
                fs.open_append("/d/f").truncate(1)
            case "fsync":
                fs.open_append("/d/f").fsync()
            case "fsync folder":
                fs.fsync_dir("/d")
            case "replace":
                fs.write_atomic("/d/f", b"new")
            case "replace, not durable":
                fs.write_atomic("/d/f", b"new", durable=False)
            case "remove":
                fs.remove("/d/f")
    return disk


def left(disk: RecordedDisk, contents: Contents) -> bytes | None:
    """What a crash state has of the file; None: it is not there."""
    fs = RecordedFileSystem(RecordedDisk(contents, disk.is_directory))
    return fs.read_bytes("/d/f") if fs.exists("/d/f") else None


@for_each(
    [
        (("write",), {None, b"", b"abc"}),
        (("write", "fsync"), {None, b"abc"}),
        (("write", "fsync folder"), {b"", b"abc"}),
        (("write", "fsync", "fsync folder", "more"), {b"abc", b"abcdef"}),
        (("write", "fsync", "fsync folder", "cut"), {b"abc", b"a"}),
        (("write", "fsync", "fsync folder", "cut", "more"), {b"abc", b"a", b"adef"}),
        (("write", "fsync", "fsync folder", "replace"), {b"new"}),
        (("write", "fsync", "fsync folder", "replace, not durable"), {b"abc", b"new", b""}),
        (("write", "fsync", "fsync folder", "remove"), {None, b"abc"}),
    ]
)
def test_what_was_not_fsynced_may_be_there_or_not(steps: tuple[str, ...], expected: set[bytes | None]) -> None:
    disk = record("make", *steps)
    prefix = Prefix(disk.start)
    for operation in disk.operations:
        prefix.add(operation)
    found = {left(disk, state.contents) for state in prefix.states(random.Random(1), 300)}
    assert found >= expected
    torn = (
        {b"\0" * n for n in range(1, 7)} if b"" in expected or b"abcdef" in expected or b"adef" in expected else set()
    )
    assert len(found) == len(expected) or torn, found - expected
    assert left(disk, prefix.everything().contents) in expected


def test_a_broker_starts_from_what_a_crash_leaves() -> None:
    outcome = search(3, 2, prefixes=range(0, 700, 13))
    assert not outcome.violations, outcome.violations[0]
    assert outcome.prefixes > 30
    assert outcome.states > 50
    assert outcome.again > 10


@for_each(EARLY)
def test_a_mistake_is_noticed(name: str) -> None:
    with planted(CRASH_BUGS[name]):
        assert search(1, STATES).violations


@for_each(
    [
        ("--bug=no-such", "--bug=no-such: no such simulator bug; allowed: see --list-bugs"),
        ("--states=0", "--states=0: allowed: 1 to 10000"),
        ("--lives=0", "--lives=0: allowed: 1 or more"),
        ("--prefix=3", "--prefix: a prefix of which life? give its --seed"),
    ]
)
def test_bad_input(option: str, line: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("sys.stderr.write", said.append)
        assert main([option]) == 2
    assert "".join(said) == f"make crashes: {line}\n"


def test_a_violation_is_printed_with_its_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bug", "folder-unsynced-parent", "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    assert "VIOLATION seed 1, prefix " in printed
    replay = printed[printed.index("ARGS='") + 6 : printed.rindex("'")]
    assert main(replay.split()) == 0
    assert "-- create " in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_prefix_of_a_life(seed: int) -> None:
    outcome = search(seed, STATES)
    assert not outcome.violations, outcome.violations[0]


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(CRASH_BUGS) - {*EARLY, *RARE, OF_THE_STORE}))
def test_every_mistake_is_noticed(name: str) -> None:
    with planted(CRASH_BUGS[name]):
        assert any(search(seed, STATES).violations for seed in range(1, LIVES + 1))


@pytest.mark.full
@pytest.mark.parametrize("bug", [None, OF_THE_STORE])
def test_every_prefix_of_the_cluster_store_of_one_machine(bug: str | None) -> None:
    assert bool(search_store(1, STATES, bug).violations) == (bug is not None)
