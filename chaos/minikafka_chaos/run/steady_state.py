"""The steady state of a run: it must hold before any fault is made and after all are undone, and is watched in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from minikafka_chaos.record.journal import Journal
from minikafka_chaos.run.conditions import ConditionResult, RunState
from minikafka_chaos.scenario.metric_query import Samples, by_name
from minikafka_chaos.scenario.probes import During, Probe, SteadyStateSpec, needs_samples

LOOK_S = 1.0
"""Between two looks while the story is told."""

STOP_S_MAX = 30.0

STEP = "steady-state"
"""What its lines in the journal name as their step."""


class SteadyState:
    """Asks what `spec` says, on the ground of `world`. `until` is the runner's: it polls, with a deadline in seconds."""

    def __init__(
        self,
        spec: SteadyStateSpec,
        world: RunState,
        journal: Journal,
        until: Callable[[Callable[[], bool], float], bool],
    ) -> None:
        self._spec = spec
        self._world = world
        self._journal = journal
        self._until = until

    def _samples(self) -> Samples:
        if not needs_samples(self._spec.probes):
            return {}
        ground = self._world.ground
        return by_name({broker: ground.metrics(broker) for broker in ground.brokers})

    def _look(self) -> list[tuple[str, ConditionResult]]:
        now = self._world.ground.clock.monotonic()
        found = [(each.type, self._world.check(each, now)) for each in self._spec.conditions]
        samples = self._samples()
        return found + [(probe.name, ConditionResult(*probe.ask(samples))) for probe in self._spec.probes]

    def wait(self, when: str) -> str | None:
        """Wait until it holds, `deadlineSeconds` at most; why it does not, or None. `when` is for the reader."""
        answers: list[tuple[str, ConditionResult]] = []

        def holds() -> bool:
            answers[:] = self._look()
            return all(answer.holds for _, answer in answers)

        held = self._until(holds, self._spec.deadline_seconds)
        seen = "; ".join(f"{name} {answer.seen}" for name, answer in answers)
        self._journal.write("check", {"step": STEP, "when": when, "ok": held, "seen": seen})
        if held:
            return None
        missing = "; ".join(f"{name} {answer.seen}" for name, answer in answers if not answer.holds)
        return f"steady state not reached {when} in {self._spec.deadline_seconds} s ({missing})"

    def watcher(self) -> SteadyStateWatcher | None:
        """Return what asks the probes from its `start` to its `stop`; None without probes."""
        return SteadyStateWatcher(self._spec.probes, self._samples, self._journal) if self._spec.probes else None


class SteadyStateWatcher:
    """Asks all probes every second in a thread of its own; each change is in the journal."""

    def __init__(self, probes: Sequence[Probe], samples: Callable[[], Samples], journal: Journal) -> None:
        self._probes = probes
        self._samples = samples
        self._journal = journal
        self._held = dict.fromkeys((probe.name for probe in probes), True)
        self._looks = 0
        self._missed = dict.fromkeys((probe.name for probe in probes), 0)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(LOOK_S):
                self._look(self._samples())
        except BaseException as error:
            self.failure = error

    def _look(self, samples: Samples) -> None:
        self._looks += 1
        for probe in self._probes:
            held, seen = probe.ask(samples)
            self._missed[probe.name] += not held
            if held != self._held[probe.name]:
                self._held[probe.name] = held
                about = {"step": STEP, "when": "during", "probe": probe.name, "ok": held, "seen": seen}
                self._journal.write("check", about)

    def stop(self) -> list[str]:
        """End; a line for each probe that was required and did not hold all the time."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)
        self._journal.note("probes during the story", looks=self._looks, missed=dict(self._missed))
        found = []
        if self.failure is not None:
            found.append(f"the probes ended: {self.failure!r}")
        for probe in self._probes:
            missed = self._missed[probe.name]
            if missed and probe.during is During.REQUIRED:
                found.append(f"probe {probe.name} did not hold in {missed} of {self._looks} looks during the story")
        return found
