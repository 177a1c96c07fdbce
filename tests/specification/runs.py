"""Runs what is recorded: simulated schedules by seed, with a simulator bug or without, and those of the golden traces."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from math import inf
from pathlib import Path
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka_simulator.bugs.bug import Bug
from minikafka_simulator.bugs.in_process import planted
from minikafka_simulator.checks.account import Violation
from minikafka_simulator.cluster.watcher import Watcher
from minikafka_simulator.faults.plan import PROFILES, Plan, Profile
from minikafka_simulator.schedules.world import World

from tests.simulation.golden import trace as golden
from tests.specification.recorder import Recorder, Trace

TP = TopicPartition("t", 0)

NOT_SPECIFIED = {
    "delete_records", "alter_min_isr", "raise_min_isr_unheard", "roll_min_isr", "reassign", "unregister", "remake_topic",
}  # fmt: skip
"""Faults that leave what the specification has: a log's start, the minimal ISR, the replicas and the topic."""

PLAN = Plan(
    profiles=tuple(
        Profile(profile.name, tuple(f for f in profile.faults if f not in NOT_SPECIFIED), profile.pause_between)
        for profile in PROFILES
        if profile.name not in ("admin", "names")
    ),
    small_volume=0.0,
    passing=False,
)


class _EnoughError(Exception):
    """No more of this schedule is wanted."""


class RecordedWorld(World):
    """A schedule whose watcher stands behind a recorder."""

    def __init__(self, seed: int, trace: Trace, plan: Plan, steps_max: float) -> None:
        self._trace, self._steps_max = trace, steps_max
        super().__init__(seed, plan)

    def _until(self, done: Callable[[], bool]) -> None:
        def enough() -> bool:
            if len(self._trace.steps) >= self._steps_max or self._trace.ended:
                raise _EnoughError
            return done()

        super()._until(enough)

    @property
    def watcher(self) -> Any:
        return self._recorder

    @watcher.setter
    def watcher(self, inner: Watcher) -> None:
        self._recorder = Recorder(self, inner, self._trace, TP, kills_lose_power=False)


STEPS_MAX = 300
"""Of a schedule. Quint takes its time."""
STEPS_AFTER = 30
"""How many steps a schedule with a mistake is followed after the simulator has found a violation."""


def simulated(seed: int, bug: Bug | None = None, plan: Plan = PLAN) -> Trace:
    """The steps of a schedule: its first, and with a bug all until some after what the simulator calls a violation.

    With a bug no violation ends it at once: the specification is to judge.
    """
    trace = Trace(f"schedule {seed}" if bug is None else f"{bug.name} in schedule {seed}")
    violated: list[int] = []
    with nullcontext() if bug is None else planted(bug):
        world = RecordedWorld(seed, trace, plan, STEPS_MAX if bug is None else inf)
        if bug is not None:
            world.checker.fail = lambda *_: violated.append(len(trace.steps))  # type: ignore[method-assign]
        try:
            world.run()
        except _EnoughError:
            pass
        except Violation as violation:
            trace.ended = trace.ended or str(violation)
        except Exception as error:
            if bug is None:
                raise
            trace.ended = trace.ended or f"{type(error).__name__}: {error}"
        finally:
            world.close()
    if violated:
        del trace.steps[violated[0] + STEPS_AFTER :]
    elif bug is None:
        del trace.steps[STEPS_MAX:]
    return trace


def golden_traces() -> Iterator[Trace]:
    """The steps of each golden trace, by the name of its file."""
    for path in golden.files():
        yield golden_trace(path)


def golden_trace(path: Path) -> Trace:
    """The steps of one."""
    trace = Trace(path.stem)
    with tempfile.TemporaryDirectory() as folder:
        schedule = golden.Trace(
            Path(folder), lambda cluster: Recorder(cluster, Watcher(), trace, golden.TP, kills_lose_power=True)
        )
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith(">"):
                    schedule.carry_out(line[1:])
        finally:
            schedule.close()
    return trace
