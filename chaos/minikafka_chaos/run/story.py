"""Telling a scenario's steps: waits, sends and faults, one after the other, each written ahead in the journal."""

from __future__ import annotations

import random
from collections.abc import Callable

from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.fault_verbs import Verb
from rich.markup import escape

from minikafka_chaos.load.clients import Script
from minikafka_chaos.record.history import FAIL, INFO, OK
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.run.conditions import Choice, ConditionResult, RunState, StepMark
from minikafka_chaos.run.open_faults import OpenFaults
from minikafka_chaos.run.reporter import ProgressReporter
from minikafka_chaos.scenario.faults import Fault, Targets
from minikafka_chaos.scenario.scenario import ScenarioSpec
from minikafka_chaos.scenario.steps import (
    Expectation,
    FaultSpec,
    MemberSpec,
    MemberVerb,
    SendSpec,
    StartWait,
    Step,
    Target,
    WaitSpec,
)

TARGET_TIMEOUT_S = 20.0
"""How long a step may look for a broker in the role it wants: an election may be under way."""


BREATH_S = 0.001
"""Between two steps: what came before a step has an earlier time than it, also where time only passes when it is waited."""


class StateNotReached(Exception):
    """The story could not be told to its end: not the data's fault, and not a proof of anything."""


class Story:
    """Tells the steps of one scenario on one ground.

    `until(holds, deadline_s)` polls a condition; it is the runner's, so that progress shows and a dead load is noticed.
    """

    def __init__(
        self,
        spec: ScenarioSpec,
        world: RunState,
        script: Script,
        journal: Journal,
        faults: OpenFaults,
        reporter: ProgressReporter,
        until: Callable[[Callable[[], bool], float], bool],
        rng: random.Random,
    ) -> None:
        self.spec = spec
        self.world = world
        self.ground = world.ground
        self.clock = world.ground.clock
        self.script = script
        self.journal = journal
        self.faults = faults
        self.reporter = reporter
        self.until = until
        self.rng = rng
        self.step_times: dict[str, float] = {}
        """Unix time at which each step first began."""
        self.fault_times: list[tuple[str, float]] = []
        """(step, unix time) of each fault, when it had been done."""
        self.rounds = 0

    def run(self) -> str | None:
        """Do all steps, for all rounds. Returns why it ended early, or None."""
        began = self.clock.monotonic()
        while self._another_round(began):
            self.rounds += 1
            if self.spec.rounds > 1 or self.spec.until_seconds is not None:
                self.reporter.say(f"[bold]round {self.rounds}[/]")
            for step in self.spec.steps:
                self.clock.sleep(BREATH_S)
                self.step_times.setdefault(step.name, self.clock.time())
                mark = self.world.mark(step.name)
                try:
                    self._do(step, mark)
                except StateNotReached as error:
                    problem = f"step {step.name}: {error}"
                    self.journal.note(problem, step=step.name, round=self.rounds)
                    self.reporter.say(f"[yellow]{escape(problem)}[/]: the rest of the story is left out")
                    return problem
        return None

    def _another_round(self, began: float) -> bool:
        if self.spec.until_seconds is not None:
            return self.clock.monotonic() - began < self.spec.until_seconds
        return self.rounds < self.spec.rounds

    def _do(self, step: Step, mark: StepMark) -> None:
        if step.wait is not None:
            self._wait(step.name, step.wait)
        elif step.send is not None:
            self._send(step.name, step.send)
        elif step.member is not None:
            self._member(step.name, step.member)
        elif step.fault is not None:
            self._fault(step.name, step.fault, mark)

    # -- waits and sends -----------------------------------------------------------------------------------------------

    def _wait(self, name: str, wait: WaitSpec) -> None:
        began = self.clock.monotonic()
        answers: list[ConditionResult] = []

        def all_hold() -> bool:
            answers[:] = [self.world.check(condition, began) for condition in wait.conditions]
            return all(answer.holds for answer in answers)

        held = self.until(all_hold, wait.deadline_seconds)
        took = self.clock.monotonic() - began
        seen = "; ".join(f"{c.type} {a.seen}" for c, a in zip(wait.conditions, answers, strict=True))
        self.journal.write("check", {"step": name, "ok": held, "seen": seen, "seconds": round(took, 3)})
        if not held:
            raise StateNotReached(f"not reached in {wait.deadline_seconds} s ({seen})")
        self.reporter.say(f"{name}: {escape(seen)} (after {took:.1f} s)")

    def _send(self, name: str, send: SendSpec) -> None:
        values = send.values if self.rounds == 1 else [f"{value}-r{self.rounds}" for value in send.values]
        where = TopicPartition(send.topic, send.partition)
        with self.journal.action(name, "Send", str(where), None, values=values) as action:
            outcomes = self.script.send(send.topic, send.partition, values, send.deadline_seconds)
            action.fields["outcomes"] = outcomes
        self.reporter.say(f"{name}: {escape(', '.join(values))} to {where}: {outcome_counts(outcomes)}")
        if send.expect is Expectation.ACKNOWLEDGED and outcomes[OK] < len(values):
            raise StateNotReached(f"{', '.join(values)} not acknowledged in {send.deadline_seconds} s each")

    def _member(self, name: str, spec: MemberSpec) -> None:
        group = self.world.group
        assert group is not None, "a scenario without a group has no such steps"
        with self.journal.action(
            name, f"{spec.verb.value}Member", f"member {spec.member} of group {self.world.ground.group}", None
        ):
            if spec.verb is MemberVerb.START:
                group.start_member(spec.member)
            elif not group.crash_member(spec.member, spec.at.value, spec.deadline_seconds):
                raise StateNotReached(
                    f"member {spec.member} got no records in {spec.deadline_seconds} s, and so did not die"
                )
        self.reporter.say(f"{name}: [bold]{spec.verb.value}[/] member {spec.member}")

    # -- faults --------------------------------------------------------------------------------------------------------

    def _fault(self, name: str, spec: FaultSpec, mark: StepMark) -> None:
        if spec.step is not None:
            self._undo(name, spec, spec.step, mark)
            return
        verb = self.rng.choice(spec.verbs)
        if spec.within_millis:
            self.clock.sleep(self.rng.uniform(0.0, spec.within_millis / 1000))
        targets = self._targets(spec, verb, mark)
        fault = Fault(
            name if self.rounds == 1 else f"{name}-r{self.rounds}", verb, spec.parameters, spec.duration_seconds, name
        )
        began = self.clock.monotonic()
        with self.faults.making(fault, targets):
            self.fault_times.append((name, self.clock.time()))
            if verb.rule.makes_ready:
                self._wait_ready(spec, targets)
        whom = ", ".join(f"broker {broker}" for broker in targets.brokers) or "the cluster"
        whom += f" ({targets.role})" if targets.role else ""
        ends = f", for {spec.duration_seconds} s" if spec.duration_seconds is not None else ""
        self.reporter.say(f"{name}: [bold]{verb.value}[/] {whom}{ends} (took {self.clock.monotonic() - began:.2f} s)")

    def _targets(self, spec: FaultSpec, verb: Verb, mark: StepMark) -> Targets:
        if spec.target is None:
            return Targets()
        mark.choice = self._choose(spec.target)
        brokers, role = mark.choice.brokers, mark.choice.role
        if not verb.rule.peers:
            return Targets(brokers, role=role)
        others = [b for b in self.ground.brokers if b not in brokers] or brokers  # all of them: each from each
        return Targets(brokers, tuple(others) if spec.peer is None else self._choose(spec.peer).brokers, role)

    def _undo(self, name: str, spec: FaultSpec, step: str, mark: StepMark) -> None:
        """Recover a step's fault, unless it has ended by itself meanwhile."""
        mark.choice = self.world.marks[step].choice
        handle = self.faults.of_step(step)
        began = self.clock.monotonic()
        done = [] if handle is None else self.faults.undo(handle, f"step {name}")
        self.fault_times.append((name, self.clock.time()))
        if handle is not None:
            self._wait_ready(spec, handle.targets)
        took = self.clock.monotonic() - began
        self.reporter.say(f"{name}: [bold]Recover[/] {step}: {', '.join(done) or 'it has ended'} (took {took:.2f} s)")

    def _wait_ready(self, spec: FaultSpec, targets: Targets) -> None:
        if spec.wait_for is StartWait.READY:
            for broker in targets.brokers:
                self.ground.wait_ready(broker, spec.deadline_seconds)

    def _choose(self, target: Target) -> Choice:
        found: list[Choice] = []

        def chosen() -> bool:
            choice = self.world.choose(target)
            if choice is not None:
                found.append(choice)
            return bool(found)

        if not self.until(chosen, TARGET_TIMEOUT_S):
            raise StateNotReached(f"no broker is {target.type.value} of {target.topic or 'any topic'}")
        return found[0]


def outcome_counts(outcomes: dict[str, int]) -> str:
    """`12 acknowledged, 3 unknown`."""
    parts = [f"{outcomes[OK]:,} acknowledged"]
    parts += [f"{outcomes[kind]:,} {word}" for kind, word in ((FAIL, "failed"), (INFO, "unknown")) if outcomes[kind]]
    return ", ".join(parts)
