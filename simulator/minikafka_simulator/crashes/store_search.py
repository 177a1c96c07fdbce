"""Tries the crash states of every prefix of the life of a cluster store."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

from minikafka_simulator.crashes.operations import ROOT, Contents
from minikafka_simulator.crashes.search import BrokenPromise, CrashSearch
from minikafka_simulator.crashes.states import Prefix
from minikafka_simulator.crashes.store_life import Acknowledged, problem_of, recorded

MEMORY = Path("/dev/shm")
"""Where states are put: SQLite's own fsyncs would be most of the time."""


def search_store(seed: int, states: int, bug: str | None = None) -> CrashSearch:
    """Try `states` power losses at each prefix, besides the death of the process; ends at the first violation.

    Raises StoreUnderTrace.
    """
    record = recorded(bug)
    outcome, prefix, seen = CrashSearch(seed), Prefix(Contents.empty()), set[tuple[bytes, Acknowledged]]()
    outcome.kinds = Counter(type(operation).__name__ for operation in record.operations)
    waiting = list(record.acknowledged)
    answered = waiting.pop(0)[1]
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for operation in record.operations:
            prefix.add(operation)
            while waiting and waiting[0][0] <= prefix.length:
                answered = waiting.pop(0)[1]
            outcome.prefixes += 1
            rng = random.Random(seed << 32 | prefix.length)
            for state in (prefix.everything(), *prefix.states(rng, states)):
                key = state.contents.digest({ROOT}), answered
                if key in seen:
                    outcome.known += 1
                    continue
                seen.add(key)
                outcome.states += 1
                problem = problem_of(state.contents, answered, Path(folder))
                if problem is not None:
                    step = f"after {answered}"
                    outcome.violations.append(BrokenPromise(seed, prefix.length, step, state.choice, problem, ()))
                    return outcome
    return outcome
