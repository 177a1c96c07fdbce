"""Telling a scenario's steps: waits, sends and faults, one after the other, each written ahead in the journal."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence

from minikafka.protocol.types import TopicPartition
from rich.markup import escape

from minikafka_chaos.conditions import Answer, Choice, Mark, World
from minikafka_chaos.grounds.clients import Script
from minikafka_chaos.history import FAIL, INFO, OK
from minikafka_chaos.journal import Journal
from minikafka_chaos.reporter import Reporter
from minikafka_chaos.scenario import ScenarioSpec
from minikafka_chaos.steps import Expectation, FaultSpec, SendSpec, StartWait, Step, Target, Verb, WaitSpec

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
        world: World,
        script: Script,
        journal: Journal,
        reporter: Reporter,
        until: Callable[[Callable[[], bool], float], bool],
        rng: random.Random,
    ) -> None:
        self.spec = spec
        self.world = world
        self.ground = world.ground
        self.clock = world.ground.clock
        self.script = script
        self.journal = journal
        self.reporter = reporter
        self.until = until
        self.rng = rng
        self.step_times: dict[str, float] = {}
        """Unix time at which each step first began."""
        self.fault_times: list[tuple[str, float]] = []
        """(step, unix time) of each fault, when it had been done."""
        self.rounds = 0

    def tell(self) -> str | None:
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

    def _do(self, step: Step, mark: Mark) -> None:
        if step.wait is not None:
            self._wait(step.name, step.wait)
        elif step.send is not None:
            self._send(step.name, step.send)
        elif step.fault is not None:
            self._fault(step.name, step.fault, mark)

    # -- waits and sends -----------------------------------------------------------------------------------------------

    def _wait(self, name: str, wait: WaitSpec) -> None:
        began = self.clock.monotonic()
        answers: list[Answer] = []

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
        self.reporter.say(f"{name}: {escape(', '.join(values))} to {where}: {told(outcomes)}")
        if send.expect is Expectation.ACKNOWLEDGED and outcomes[OK] < len(values):
            raise StateNotReached(f"{', '.join(values)} not acknowledged in {send.deadline_seconds} s each")

    # -- faults --------------------------------------------------------------------------------------------------------

    def _fault(self, name: str, fault: FaultSpec, mark: Mark) -> None:
        verb = self.rng.choice(fault.verbs)
        mark.choice = self._choose(fault.target)
        peers = self._choose(fault.peer) if fault.peer is not None else None
        brokers, role = mark.choice.brokers, mark.choice.role
        began = self.clock.monotonic()
        with contextlib.ExitStack() as actions:
            for broker in brokers:
                actions.enter_context(self.journal.action(name, verb.value, f"broker-{broker}", role))
            self._apply(verb, brokers, peers.brokers if peers else None)
            self.fault_times.append((name, self.clock.time()))
            if verb in (Verb.START, Verb.RESTART, Verb.RECOVER) and fault.wait_for is StartWait.READY:
                for broker in brokers:
                    self.ground.wait_ready(broker, fault.deadline_seconds)
        whom = ", ".join(f"broker {broker}" for broker in brokers) + (f" ({role})" if role else "")
        self.reporter.say(f"{name}: [bold]{verb.value}[/] {whom} (took {self.clock.monotonic() - began:.2f} s)")

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

    def _apply(self, verb: Verb, brokers: Sequence[int], peers: Sequence[int] | None) -> None:
        ground = self.ground
        match verb:
            case Verb.KILL:
                ground.kill(brokers)
            case Verb.POWER_LOSS:
                ground.kill(brokers)
                for broker in brokers:
                    ground.wipe_unflushed(broker)
            case Verb.PAUSE:
                ground.pause(brokers)
            case Verb.CUT | Verb.HEAL:
                change = ground.cut if verb is Verb.CUT else ground.heal
                others = peers if peers is not None else [b for b in ground.brokers if b not in brokers]
                for broker in brokers:
                    for peer in others:
                        change(broker, peer)
            case _:
                for broker in brokers:
                    self._apply_to_one(verb, broker)

    def _apply_to_one(self, verb: Verb, broker: int) -> None:
        ground = self.ground
        match verb:
            case Verb.START:
                ground.start(broker)
            case Verb.TERMINATE:
                ground.terminate(broker)
            case Verb.RESTART:
                ground.terminate(broker)
                ground.start(broker)
            case Verb.RESUME:
                ground.resume(broker)
            case Verb.RECOVER:
                ground.recover(broker)
            case Verb.WIPE_UNFLUSHED:
                ground.wipe_unflushed(broker)
            case Verb.WIPE_VOLUME:
                ground.wipe_volume(broker)
            case _:
                raise AssertionError(verb)


def told(outcomes: dict[str, int]) -> str:
    """`12 acknowledged, 3 unknown`."""
    parts = [f"{outcomes[OK]:,} acknowledged"]
    parts += [f"{outcomes[kind]:,} {word}" for kind, word in ((FAIL, "failed"), (INFO, "unknown")) if outcomes[kind]]
    return ", ".join(parts)
