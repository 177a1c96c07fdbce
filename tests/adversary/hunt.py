"""Plant bugs one at a time, run the tests on each, say what noticed.

Several bugs are tried at once, each in a copy of its own. A suite counts only when it passes on a copy without a bug.
"""

from __future__ import annotations

import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from minikafka_simulator.bugs.bug import Bug

from tests.adversary.planting import Copy
from tests.adversary.results import Found
from tests.adversary.suites import (
    Broken,
    Verdict,
    check_imports,
    kill_all,
    run_suite,
    run_tests,
    suite_of,
    tries,
)


class Plan(NamedTuple):
    """What to try on each bug."""

    suites: tuple[str, ...]
    every: bool = False
    """Every suite, also after one has noticed."""
    schedules: int = 250
    workers: int = os.cpu_count() or 1


class Hunt:
    """One run over some bugs. Use as a context manager: the copies are removed at the end."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._folder = tempfile.TemporaryDirectory(prefix="minikafka-adversary-")
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._sound: dict[tuple[str, ...], Future[None]] = {}
        for number in range(plan.workers):
            copy = Copy(Path(self._folder.name) / str(number))
            check_imports(copy.folder)
            self._copies.put(copy)
        self._pristine = Copy(Path(self._folder.name) / "pristine")

    def __enter__(self) -> Hunt:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, bugs: Sequence[Bug], told: Callable[[Bug, Found, float], None]) -> dict[str, Found]:
        """Try all of them; ``told`` is called as each is decided. Raises Broken, Drifted."""
        results: dict[str, Found] = {}
        self._check_sound("the tests named by the bugs", tuple(sorted({test for bug in bugs for test in bug.tests})))
        with ThreadPoolExecutor(self.plan.workers) as pool:
            jobs = {bug: pool.submit(self._try, bug) for bug in bugs}
            try:
                for bug, job in jobs.items():
                    found, seconds = job.result()
                    results[bug.name] = found
                    told(bug, found, seconds)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                kill_all()
                raise
        return results

    def _try(self, bug: Bug) -> tuple[Found, float]:
        began = time.monotonic()
        copy = self._copies.get()
        try:
            copy.plant(bug)
            try:
                return self._found(bug, copy), time.monotonic() - began
            finally:
                copy.heal()
        finally:
            self._copies.put(copy)

    def _found(self, bug: Bug, copy: Copy) -> Found:
        found: Found = {}
        tests = [test for test in bug.tests if suite_of(test) in self.plan.suites]
        if tests:
            by = run_tests(copy.folder, tests).by
            if by is not None:
                found[suite_of(by)] = by
        for suite in self.plan.suites:
            if suite in found or (found and any(found.values()) and not self.plan.every):
                continue
            if not tries(suite, bug):
                continue
            self._check_sound(suite, (suite,))
            found[suite] = run_suite(copy.folder, suite, self.plan.schedules).by
        return found

    def _check_sound(self, name: str, what: tuple[str, ...]) -> None:
        """That this passes without a bug; run once, whoever asks first. Raises Broken."""
        with self._lock:
            mine = what not in self._sound
            outcome = self._sound.setdefault(what, Future())
        if mine:
            try:
                suite = len(what) == 1 and not what[0].endswith(".py")
                folder = self._pristine.folder
                verdict = run_suite(folder, what[0], self.plan.schedules) if suite else run_tests(folder, what)
                _must_pass(name, verdict)
                outcome.set_result(None)
            except BaseException as error:
                outcome.set_exception(error)
        outcome.result()


def _must_pass(name: str, verdict: Verdict) -> None:
    if verdict.by is not None:
        raise Broken(f"{name}: fails without any bug: {verdict.by}")
