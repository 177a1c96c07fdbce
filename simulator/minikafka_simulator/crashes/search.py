"""Tries the crash states of every prefix of a life, and crashes some of the recoveries again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from minikafka.log.checkpoints import CLEAN_SHUTDOWN
from minikafka.protocol.records import Record, build_batch

from minikafka_simulator.crashes.check import Recovered, Wrong, recover
from minikafka_simulator.crashes.expected import NOT_CLEAN, Expected
from minikafka_simulator.crashes.life import LED, NOW_MS, UNFLUSHED, RecordedLife
from minikafka_simulator.crashes.operations import ROOT, Contents, Removed, Synced
from minikafka_simulator.crashes.states import CrashState, Prefix

AGAIN = 0.12
"""The share of recoveries that are crashed, too."""
REPAIRS_AGAIN = 0.5
"""The share of those that have much to repair."""
PREFIXES_OF_A_RECOVERY = 4


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A promise that a crash broke."""

    seed: int
    prefix: int
    step: str
    choice: str
    problem: str
    operations: tuple[str, ...]
    """The last ones of the prefix."""

    def __str__(self) -> str:
        return f"seed {self.seed}, prefix {self.prefix}, {self.step}: {self.choice}: {self.problem}"


@dataclass(slots=True)
class CrashSearch:
    """What was tried of one life."""

    seed: int
    prefixes: int = 0
    states: int = 0
    known: int = 0
    """States that an earlier one had left already, with the same expectations."""
    again: int = 0
    """States of recoveries that were crashed."""
    kinds: Counter[str] = field(default_factory=Counter)
    violations: list[BrokenPromise] = field(default_factory=list)


def search(
    seed: int, states: int, *, steps: int = 0, prefixes: Iterable[int] | None = None, keep_going: bool = False
) -> CrashSearch:
    """Try `states` power losses at each prefix of the life of this seed, besides the death of the process.

    Stops at the first prefix with a violation, which is the shortest, unless told to keep going. `prefixes` names those to try
    instead of all.
    """
    life = RecordedLife(seed, steps)
    broke = _lived(life)
    chosen = None if prefixes is None else set(prefixes)
    outcome, prefix, seen = CrashSearch(seed), Prefix(life.disk.start), set[tuple[bytes, int]]()
    for operation in (None, *life.disk.operations):
        if operation is not None:
            prefix.add(operation)
            outcome.kinds[type(operation).__name__] += 1
        if chosen is not None and prefix.length not in chosen:
            continue
        outcome.prefixes += 1
        step, expected = life.expectations.at(prefix.length)
        rng = random.Random(seed << 32 | prefix.length)
        for number, state in enumerate(_states(life, prefix, rng, states)):
            key = state.contents.digest(life.disk.is_directory), id(expected)
            if key in seen:
                outcome.known += 1
                continue
            seen.add(key)
            outcome.states += 1
            own = random.Random(f"{seed}/{prefix.length}/{number}")  # a replay makes the same choices
            try:
                _try(life, state, expected, own, outcome)
            except Wrong as wrong:
                violation = BrokenPromise(
                    seed, prefix.length, step, state.choice, str(wrong), _last(life, prefix.length)
                )
                outcome.violations.append(violation)
                if not keep_going:
                    return outcome
    if broke is not None and chosen is None:
        length = prefix.length
        outcome.violations.append(
            BrokenPromise(seed, length, "the life itself", "no crash", broke, _last(life, length))
        )
    return outcome


def _lived(life: RecordedLife) -> str | None:
    """Live it; what it ended with before its time, which its prefixes mostly show better."""
    try:
        life.run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _states(life: RecordedLife, prefix: Prefix, rng: random.Random, most: int) -> Iterator[CrashState]:
    yield prefix.everything()
    for state in prefix.states(rng, most):
        if life.unflushed and rng.random() < 0.5:
            _wipe(state.contents)
            state = state._replace(choice=f"{state.choice}; the unflushed volume is a tmpfs")
        yield state


def _wipe(contents: Contents) -> None:
    """A power loss takes what a tmpfs has."""
    node = contents.directories[ROOT].get(UNFLUSHED.strip("/"))
    if node is not None:
        contents.directories[node] = {}


def _try(life: RecordedLife, state: CrashState, expected: Expected, rng: random.Random, outcome: CrashSearch) -> None:
    recovered = _recover(life, state.contents, expected)
    if not state.is_power_loss:
        _check_nothing_lost(recovered, expected)
    if rng.random() >= (REPAIRS_AGAIN if _repairs_all(recovered) else AGAIN):
        return
    _crash_recovery(life, recovered, expected, rng, outcome)
    _go_on(life, recovered)


def _repairs_all(recovered: Recovered) -> bool:
    """Whether a whole log is read anew, and its indexes written, for a checkpoint of it was damaged."""
    notes = [note for log in recovered.manager.logs.values() for note in log.recovery.notes]
    return any("everything" in note or "rebuilt" in note for note in notes)


def _recover(
    life: RecordedLife, contents: Contents, expected: Expected, directories: set[int] | None = None
) -> Recovered:
    return recover(
        contents, directories or life.disk.is_directory, expected,
        directories=life.directories, unflushed=life.unflushed,
    )  # fmt: skip


def _check_nothing_lost(recovered: Recovered, expected: Expected) -> None:
    """The process died alone: everything that was appended is there."""
    for tp, alternatives in expected.logs.items():
        ends = [log.end for log in alternatives if log is not None]
        found = recovered.manager.logs.get(tp)
        if found is not None and ends and found.log_end_offset < min(ends):
            raise Wrong(f"{tp}: ends at {found.log_end_offset} though only the process died, at {min(ends)} or later")


def _crash_recovery(
    life: RecordedLife, recovered: Recovered, expected: Expected, rng: random.Random, outcome: CrashSearch
) -> None:
    """Crash while the first recovery is under way: the second keeps what the first had to."""
    operations, directories = recovered.disk.operations, recovered.disk.is_directory
    unclean_from = _marker_is_gone(recovered)
    chosen = set(rng.sample(range(len(operations) + 1), min(PREFIXES_OF_A_RECOVERY, len(operations) + 1)))
    prefix = Prefix(recovered.disk.start)
    for number, operation in enumerate((None, *operations)):
        if operation is not None:
            prefix.add(operation)
        if number not in chosen:
            continue
        clean = expected.clean if number < unclean_from else frozenset[int | None]()
        allowed = Expected(expected.logs, expected.high_watermarks, clean | {NOT_CLEAN})
        for state in prefix.states(rng, 2 + rng.randrange(2)):
            outcome.again += 1
            try:
                _recover(life, state.contents, allowed, directories)
            except Wrong as wrong:
                raise Wrong(f"after a second crash in recovery, {number} operations, {state.choice}: {wrong}") from None


def _marker_is_gone(recovered: Recovered) -> int:
    """After how many operations of a recovery the clean shutdown marker has been removed durably."""
    operations = recovered.disk.operations
    for number, operation in enumerate(operations):
        if isinstance(operation, Removed) and operation.name == CLEAN_SHUTDOWN:
            return next((n for n in range(number, len(operations)) if isinstance(operations[n], Synced)), number) + 1
    return len(operations)


def _go_on(life: RecordedLife, recovered: Recovered) -> None:
    """The broker appends, flushes, and loses power: what it found, and what it has flushed since, is there."""
    manager = recovered.manager
    log = manager.logs.get(LED)
    (expected,) = recovered.expected.logs.get(LED, (None,))
    if log is not None and expected is not None:
        batch = build_batch([Record(0, NOW_MS * 2, b"k", b"after the crash")])
        log.append_as_leader(batch, max(0, log.epochs.latest), NOW_MS)
        log.flush()
        recovered.expected.logs[LED] = (expected.appended(bytes(batch)).flushed_to(log.log_end_offset),)
        manager.checkpoint_recovery_points()
    prefix = Prefix(recovered.disk.start)
    for operation in recovered.disk.operations:
        prefix.add(operation)
    state = next(prefix.states(random.Random(0), 1))
    try:
        _recover(life, state.contents, recovered.expected, recovered.disk.is_directory)
    except Wrong as wrong:
        raise Wrong(f"recovered, written on, and then nothing survived that was not fsynced: {wrong}") from None


def _last(life: RecordedLife, length: int, most: int = 12) -> tuple[str, ...]:
    """The last operations of a prefix, one line each."""
    paths: dict[int, str] = {ROOT: ""}
    lines = [life.disk.describe(operation, paths) for operation in life.disk.operations[:length]]
    return tuple(f"{length - len(lines[-most:]) + n + 1:5} {line}" for n, line in enumerate(lines[-most:]))


def operations_of(seed: int, steps: int, length: int) -> list[str]:
    """A prefix of the record of a life, with the steps between, for people."""
    life = RecordedLife(seed, steps)
    _lived(life)
    marks: dict[int, list[str]] = {}
    for step in life.expectations.steps:
        marks.setdefault(step.first, []).append(f"-- {step.name}")
    found: list[str] = []
    for number, line in enumerate(_last(life, length, length)):
        found += [*marks.get(number, ()), line]
    return found
