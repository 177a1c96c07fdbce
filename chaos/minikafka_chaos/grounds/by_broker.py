"""Verbs that are done to brokers one by one, as every ground with processes does them; see `BrokerVerbs`."""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minikafka.telemetry.fault_verbs import Verb

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.load.load import GROUP
from minikafka_chaos.scenario.faults import Fault, Handle, Targets, WipeMode
from minikafka_chaos.scenario.scenario import ScenarioSpec


def partial_losses(spec: ScenarioSpec) -> Iterator[str]:
    """Steps that lose a part of what is unflushed, for the refusals of a ground that cannot, a line each."""
    for step in spec.steps:
        mode = None if step.fault is None else step.fault.parameters.mode
        if mode not in (None, WipeMode.ALL):
            yield f"step {step.name}: parameters.mode {mode.value}: not on this ground; allowed: {WipeMode.ALL.value}"


def loss_seed(run_seed: int, fault: Fault, broker: int) -> int:
    """Return what decides how much of a broker's unflushed bytes is left: the run's seed, for each fault and broker another."""
    return zlib.crc32(f"{run_seed}:{fault.id}:{broker}".encode())


class BrokerVerbs(ABC):
    """`inject` and `recover` of a ground, made of what it can do to a broker. What is not about a broker's process or files
    goes to `make` and `unmake`."""

    name: str
    group = GROUP

    # -- what a ground says -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def brokers(self) -> Sequence[int]: ...

    @abstractmethod
    def condition(self, broker: int) -> BrokerCondition: ...

    @abstractmethod
    def start(self, broker: int) -> None:
        """Start a dead broker."""

    @abstractmethod
    def wait_ready(self, broker: int, deadline_s: float) -> None:
        """Wait until it is ready. Raises ToolTrouble when it is not after so many seconds, or has ended."""

    @abstractmethod
    def kill(self, brokers: Sequence[int]) -> None:
        """Crash these processes at one moment."""

    @abstractmethod
    def terminate(self, broker: int, seconds: float | None = None) -> None:
        """Shut down cleanly. Raises ToolTrouble when it still runs so many seconds later (None: the ground's own)."""

    @abstractmethod
    def pause(self, brokers: Sequence[int]) -> None: ...

    @abstractmethod
    def resume(self, broker: int) -> None: ...

    @abstractmethod
    def wipe_unflushed(self, broker: int) -> None:
        """Lose what a dead broker had not flushed."""

    def lose_unflushed(self, fault: Fault, broker: int) -> None:
        """Lose it as the fault's `mode` says; a ground that can lose all of it only leaves this as it is."""
        if (mode := fault.parameters.mode or WipeMode.ALL) is not WipeMode.ALL:
            raise ToolTrouble(f"the {self.name} ground loses all that is unflushed, or nothing; not {mode.value}")
        self.wipe_unflushed(broker)

    @abstractmethod
    def wipe_volume(self, broker: int) -> None:
        """Lose a dead broker's disk."""

    def make(self, fault: Fault, targets: Targets) -> Mapping[str, Any]:
        """Make a fault of another kind; what undoing it needs, as JSON."""
        del targets
        raise ToolTrouble(f"the {self.name} ground cannot {fault.verb.value}")

    def unmake(self, handle: Handle) -> list[str]:
        """Undo what `make` made; what was done, a line each."""
        raise ToolTrouble(f"the {self.name} ground cannot undo {handle.fault.verb.value}")

    # -- what follows ---------------------------------------------------------------------------------------------------

    def inject(self, fault: Fault, targets: Targets) -> Handle:
        brokers = targets.brokers
        state: Mapping[str, Any] = {}
        match fault.verb:
            case Verb.KILL:
                self.kill(brokers)
            case Verb.POWER_LOSS:
                self.kill(brokers)
                for broker in brokers:
                    self.lose_unflushed(fault, broker)
            case Verb.PAUSE:
                self.pause(brokers)
            case Verb.START | Verb.TERMINATE | Verb.RESTART | Verb.RESUME | Verb.RECOVER:
                for broker in brokers:
                    self._do_to_process(fault, broker)
            case Verb.WIPE_UNFLUSHED:
                for broker in brokers:
                    self.lose_unflushed(fault, broker)
            case Verb.WIPE_VOLUME:
                for broker in brokers:
                    self.wipe_volume(broker)
            case _:
                state = self.make(fault, targets)
        return Handle(fault, targets, state)

    def _do_to_process(self, fault: Fault, broker: int) -> None:
        match fault.verb:
            case Verb.START:
                self.start(broker)
            case Verb.TERMINATE:
                self.terminate(broker, fault.shutdown_s)
            case Verb.RESTART:
                self.terminate(broker, fault.shutdown_s)
                self.start(broker)
            case Verb.RESUME:
                self.resume(broker)
            case _:
                self.bring_back(broker)

    def recover(self, handle: Handle) -> list[str]:
        match handle.fault.verb:
            case Verb.KILL | Verb.POWER_LOSS | Verb.TERMINATE:
                wrong = BrokerCondition.DEAD
            case Verb.PAUSE:
                wrong = BrokerCondition.PAUSED
            case _:
                return self.unmake(handle) if handle.fault.rule.lasts else []
        hit = [broker for broker in handle.targets.brokers if self.condition(broker) is wrong]
        return [line for broker in hit if (line := self.bring_back(broker)) is not None]

    def bring_back(self, broker: int) -> str | None:
        """Resume the paused, start the dead; None for one that runs, which is left alone."""
        match self.condition(broker):
            case BrokerCondition.PAUSED:
                self.resume(broker)
                return f"resumed broker {broker}"
            case BrokerCondition.DEAD:
                self.start(broker)
                return f"started broker {broker}"
        return None

    def heal_brokers(self, deadline_s: float) -> list[str]:
        """Bring back all brokers, and wait until they are ready; what was done, a line each.

        One that runs and ends meanwhile was shutting down already, as after a restart that was not over in time: it is started.
        """
        deadline = time.monotonic() + deadline_s
        done = {broker: self.bring_back(broker) for broker in self.brokers}
        for broker in self.brokers:
            try:
                self.wait_ready(broker, max(0.0, deadline - time.monotonic()))
            except ToolTrouble:
                if done[broker] is not None or self.condition(broker) is not BrokerCondition.DEAD:
                    raise
                done[broker] = self.bring_back(broker)
                self.wait_ready(broker, max(0.0, deadline - time.monotonic()))
        return [line for line in done.values() if line is not None]
