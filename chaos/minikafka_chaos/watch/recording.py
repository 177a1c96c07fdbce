"""The states of a watched cluster one after the other, and the way to any of them, forwards and backwards. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minikafka_chaos.watch.evidence import Evidence
from minikafka_chaos.watch.fold import Fold
from minikafka_chaos.watch.lines import Line, line_of
from minikafka_chaos.watch.state import Changes, ClusterState, Entity, Key

STEPS_KEPT_MAX = 20_000
"""While a cluster is watched live: hours of a quiet one, some twenty seconds of a thousand events a second."""
KEYFRAME_STEPS = 256
"""From one whole state that is kept to the next."""


class WatchedStep(NamedTuple):
    """Something that was seen: when, what a person is to read of it (None: offsets have moved), and what it changes."""

    time: float
    line: Line | None
    changes: Changes


class Recording:
    """All steps, of which the oldest are forgotten where there are too many (`steps_max`)."""

    def __init__(self, steps_max: int | None = None) -> None:
        self.steps: list[WatchedStep] = []
        self.forgotten = 0
        """Steps that are no longer there."""
        self._steps_max = steps_max
        self._fold = Fold()
        self._keyframes: list[dict[Key, Entity]] = [{}]
        """The states before the steps 0, 256, 512 and so on."""

    def take(self, evidence: Evidence) -> WatchedStep | None:
        """Add what follows from a piece of evidence; None where nothing does."""
        changes, line = self._fold.take(evidence), line_of(evidence)
        if not changes and line is None:
            return None
        before = self.steps[-1].time if self.steps else evidence.time
        step = WatchedStep(max(evidence.time, before), line, changes)  # of several clocks: none goes back
        self.steps.append(step)
        if len(self.steps) % KEYFRAME_STEPS == 0:
            self._keyframes.append(dict(self._fold.state.entities))
            if self._steps_max is not None and len(self.steps) > self._steps_max:
                self._forget()
        return step

    def _forget(self) -> None:
        """Leave out the older half."""
        keyframes = len(self._keyframes) // 2
        del self._keyframes[:keyframes]
        del self.steps[: keyframes * KEYFRAME_STEPS]
        self.forgotten += keyframes * KEYFRAME_STEPS

    def take_all(self, evidence: Iterable[Evidence]) -> None:
        """Add what follows from all of it, in the order of its times."""
        for each in sorted(evidence, key=lambda each: each.time):
            self.take(each)

    @property
    def newest(self) -> ClusterState:
        """The state after the last step. It changes with the next one."""
        return self._fold.state

    @property
    def oldest(self) -> dict[Key, Entity]:
        """What was known before the first step that is still there."""
        return self._keyframes[0]

    def state(self, steps: int) -> ClusterState:
        """Return the state after so many of the steps."""
        steps = min(max(steps, 0), len(self.steps))
        keyframe = min(steps // KEYFRAME_STEPS, len(self._keyframes) - 1)
        state = ClusterState(self._keyframes[keyframe])
        for step in self.steps[keyframe * KEYFRAME_STEPS : steps]:
            state.take(step.changes)
        return state
