"""The verbs of an agent: each is one fault of the broker beside it, or the end of one, or a look.

What is true at every moment, whoever dies: a fault is in `faults.json` before it is made; a gate is closed before the
broker is told to end, so that what the kubelet starts next waits at it; each fault that lasts has an end.
"""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minikafka.agent import faults as record
from minikafka.agent import gate, power_loss
from minikafka.agent.errors import BadRequest, NotNow
from minikafka.agent.faults import HOLDING, AgentVerb, BrokerFault, Faults, Stage
from minikafka.agent.power_loss import Cut, PowerLossMode
from minikafka.agent.target import TargetBroker
from minikafka.log.data_directory import IGNORED, LOCK_FILE

PAUSE_SECONDS_MAX = 50.0
"""A paused broker answers no probe: after six of them, ten seconds each, the kubelet kills it."""

KILL_SECONDS_MAX = 10.0
TERMINATE_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 2.0

RUNNING, PAUSED, HELD, DEAD = "running", "paused", "held", "dead"
"""Conditions of a broker. DEAD: nobody holds it, and its container has not been started again yet."""


@dataclass(frozen=True)
class BrokerAgent:
    """The agent of one broker. `folder` is the `chaos` volume, where its faults and the gate are."""

    target: TargetBroker
    folder: Path
    clock: Callable[[], float] = time.time
    """Unix seconds."""

    @property
    def gate(self) -> Path:
        """The file that the broker was told of with `--gate`."""
        return self.folder / record.GATE

    # -- faults that last ------------------------------------------------------------------------------------------------

    def hold(self, verb: AgentVerb, fault_id: str, until: float) -> dict[str, Any]:
        """End the broker's process, by SIGKILL or SIGTERM, and keep what is started next at the gate.

        Returns when the process is gone. Raises BadRequest, NotNow: it does not run, or is held already.
        """
        with self._faults() as faults:
            fault = self._known(faults, fault_id, verb)
            if fault is not None and self._is_settled(faults, fault):
                return {**fault.answer(), "repeated": True}
            if fault is None:
                self._check_until(until, gate.HOLD_SECONDS_MAX)
                if faults.hold is not None:
                    raise NotNow(f"the broker is held already: {faults.hold.verb} {faults.hold.id}")
                if not self.target.processes():
                    raise NotNow("the broker does not run")
                fault = self._intend(faults, BrokerFault(fault_id, verb, self.clock(), until))
            assert fault.until is not None
            gate.write_gate(self.gate, gate.GateHold(fault.until, fault.id, verb))
            # Looked for again: whatever was started before the gate was closed may have passed it.
            fault.targets = fault.targets or self.target.processes()
            faults.save()
            self._end(fault)
        seconds = KILL_SECONDS_MAX if verb is AgentVerb.KILL else TERMINATE_SECONDS_MAX
        if left := self.target.wait_ended(fault.targets, seconds):
            raise NotNow(f"the broker (process {left[0]}) still runs {seconds:g} s after it was told to end")
        return {**self._confirm(fault_id), "repeated": False}

    def _end(self, fault: BrokerFault) -> None:
        number = signal.SIGKILL if fault.verb is AgentVerb.KILL else signal.SIGTERM
        self.target.signal(fault.targets, number, signal.SIGCONT)  # a paused process takes no SIGTERM

    def pause(self, fault_id: str, until: float) -> dict[str, Any]:
        """Stop the process with SIGSTOP; its connections stay open. Returns when it has stopped.

        Raises BadRequest, NotNow: it does not run, is held, or is paused already.
        """
        with self._faults() as faults:
            fault = self._known(faults, fault_id, AgentVerb.PAUSE)
            if fault is not None and self._is_settled(faults, fault):
                return {**fault.answer(), "repeated": True}
            if fault is None:
                self._check_until(until, PAUSE_SECONDS_MAX)
                if faults.hold is not None:
                    raise NotNow(f"the broker is held: {faults.hold.verb} {faults.hold.id}")
                targets = self.target.processes()
                if not targets:
                    raise NotNow("the broker does not run")
                if any(map(self.target.is_stopped, targets)):
                    raise NotNow("the broker is paused already")
                fault = self._intend(
                    faults, BrokerFault(fault_id, AgentVerb.PAUSE, self.clock(), until, targets=targets)
                )
            self.target.signal(fault.targets, signal.SIGSTOP)
            if left := self.target.wait_stopped(fault.targets, True, STOP_SECONDS_MAX):
                raise NotNow(f"the broker (process {left[0]}) does not stop on SIGSTOP")
            fault.stage = Stage.ACTIVE
            faults.save()
            return {**fault.answer(), "repeated": False}

    def recover(self, verbs: Iterable[AgentVerb], fault_id: str | None = None, by: str = "release") -> dict[str, Any]:
        """End faults: all of these verbs that last, or the one of this id. One that is over, or unknown, is recovered."""
        verbs = frozenset(verbs)
        with self._faults() as faults:
            ended = [
                fault for fault in faults.lasting if fault.verb in verbs and (fault_id is None or fault.id == fault_id)
            ]
            for fault in ended:
                self._recover(faults, fault, by)
        return {"recovered": [fault.id for fault in ended]}

    def _recover(self, faults: Faults, fault: BrokerFault, by: str) -> None:
        """Undone first, then written down: who dies between undoes it once more."""
        if fault.verb in HOLDING:
            gate.remove_gate(self.gate)
        else:
            self.target.signal(fault.targets, signal.SIGCONT)
            if left := self.target.wait_stopped(fault.targets, False, STOP_SECONDS_MAX):
                raise NotNow(f"the broker (process {left[0]}) does not go on after SIGCONT")
        fault.stage, fault.ended_by = Stage.OVER, by
        faults.save()

    def expire(self) -> list[BrokerFault]:
        """End what has expired; those faults. Raises NotNow, UnreadableFaults, OSError."""
        now = self.clock()
        if not any(_is_due(fault, now) for fault in record.read(self.folder).lasting):
            return []
        with self._faults() as faults:
            due = [fault for fault in faults.lasting if _is_due(fault, now)]
            for fault in due:
                self._recover(faults, fault, "expiry")
        return due

    def forget_unreadable(self) -> list[int]:
        """Return what to do when `faults.json` is not what was written: nobody knows any more which faults go on, so none may.

        The gate holds until its own time. Returns the pids of processes that were made to go on.
        """
        record.put_aside(self.folder)
        stopped = [identity for identity in self.target.processes() if self.target.is_stopped(identity)]
        self.target.signal(stopped, signal.SIGCONT)
        return [identity.pid for identity in stopped]

    # -- faults that are done at once, to a broker that is held ---------------------------------------------------------------

    def wipe_unflushed(self, fault_id: str, mode: PowerLossMode, seed: int) -> dict[str, Any]:
        """Lose what was not flushed, as a power loss does (`minikafka.agent.power_loss`).

        Raises BadRequest: the broker has no unflushed volume; NotNow: it is not held.
        """
        unflushed = self.target.unflushed
        if unflushed is None:
            raise BadRequest(
                "the broker has no unflushed volume (spec.unflushedVolume): nothing can be lost on purpose"
            )
        with self._wiping(AgentVerb.WIPE_UNFLUSHED, fault_id) as (faults, fault, is_new):
            if is_new:
                if not fault.work:
                    cuts = power_loss.plan(self.target.data, unflushed, mode, seed)
                    lost = power_loss.lost_bytes(cuts)
                    fault.work = {"cuts": [cut.as_json() for cut in cuts], "lost_bytes": lost}
                    faults.save()
                if "cuts" in fault.work:
                    power_loss.carry_out([Cut(**cut) for cut in fault.work["cuts"]])
                    del fault.work["cuts"]  # from here on the tails are not needed any more
                    faults.save()
                power_loss.empty(unflushed)
        return {**fault.answer(), "lost_bytes": fault.work["lost_bytes"], "repeated": not is_new}

    def wipe_volume(self, fault_id: str) -> dict[str, Any]:
        """Lose the disk: data and what was not flushed. The event log stays. Raises NotNow: the broker is not held."""
        with self._wiping(AgentVerb.WIPE_VOLUME, fault_id) as (_, fault, is_new):
            if is_new:
                for folder in self.target.data:
                    power_loss.empty(folder, keep=(LOCK_FILE, *IGNORED))
                if (unflushed := self.target.unflushed) is not None:
                    power_loss.empty(unflushed)
        return {**fault.answer(), "repeated": not is_new}

    @contextlib.contextmanager
    def _wiping(self, verb: AgentVerb, fault_id: str) -> Iterator[tuple[Faults, BrokerFault, bool]]:
        """The fault, and whether there is work to do; then the volumes are at rest, and it is over when the body ends."""
        with self._faults() as faults:
            fault = self._known(faults, fault_id, verb)
            if fault is not None and fault.stage is Stage.OVER:
                yield faults, fault, False
                return
            with self._held_at_rest(faults):
                fault = fault or self._intend(faults, BrokerFault(fault_id, verb, self.clock()))
                yield faults, fault, True
                fault.stage = Stage.OVER
                faults.save()

    # -- looks ---------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The broker and its faults as they are now."""
        now = self.clock()
        faults = record.read(self.folder)
        found = self.target.processes()
        held = gate.holds(self.gate, now)
        ending = faults.hold is not None and faults.hold.stage is Stage.INTENDED
        if held is not None and not ending:
            condition = HELD
        elif not found:
            condition = DEAD
        else:
            condition = PAUSED if any(map(self.target.is_stopped, found)) else RUNNING
        return {
            "now": now,
            "condition": condition,
            "pids": [identity.pid for identity in found],
            "gate": held._asdict() if held else None,
            "faults": [fault.answer() for fault in faults.lasting],
        }

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """The broker's files, which nobody changes meanwhile. Raises NotNow: it is not held."""
        with self._held_at_rest(record.read(self.folder)):
            yield

    # -- inside ----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _faults(self) -> Iterator[Faults]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with record.locked(self.folder) as faults:
            yield faults

    @contextlib.contextmanager
    def _held_at_rest(self, faults: Faults) -> Iterator[None]:
        if faults.hold is None or faults.hold.stage is not Stage.ACTIVE:
            raise NotNow("the broker is not held: kill or terminate it first")
        if gate.holds(self.gate, self.clock()) is None:
            raise NotNow(f"the broker is not held any more: {faults.hold.verb} {faults.hold.id} has expired")
        with self.target.at_rest():
            yield

    def _known(self, faults: Faults, fault_id: str, verb: AgentVerb) -> BrokerFault | None:
        if not fault_id or len(fault_id) > 253:
            raise BadRequest("--id: allowed: 1 to 253 characters")
        found = faults.get(fault_id)
        if found is not None and found.verb is not verb:
            raise BadRequest(f"--id {fault_id}: it was a {found.verb}; allowed: an id of its own for each fault")
        return found

    def _is_settled(self, faults: Faults, fault: BrokerFault) -> bool:
        """Return whether nothing is left to do for a fault that was asked for before: it was made, or its time has come."""
        if fault.stage is Stage.INTENDED and _is_due(fault, self.clock()):
            self._recover(faults, fault, "expiry")
        return fault.stage is not Stage.INTENDED

    def _check_until(self, until: float, seconds_max: float) -> None:
        now = self.clock()
        if math.isnan(until) or until > now + seconds_max:
            raise BadRequest(f"--until {until:.0f}: allowed: at most {seconds_max:g} s ahead (here it is {now:.0f})")
        if until <= now:
            raise NotNow(f"--until {until:.0f}: it has expired already (here it is {now:.0f})")

    def _intend(self, faults: Faults, fault: BrokerFault) -> BrokerFault:
        faults.all.append(fault)
        faults.save()
        return fault

    def _confirm(self, fault_id: str) -> dict[str, Any]:
        """The process is gone: the fault is as it was meant to be, unless it was ended meanwhile."""
        with self._faults() as faults:
            fault = faults.get(fault_id)
            assert fault is not None, "a fault that goes on is not forgotten"
            if fault.stage is Stage.INTENDED:
                fault.stage = Stage.ACTIVE
                for paused in (each for each in faults.lasting if each.verb is AgentVerb.PAUSE):
                    paused.stage, paused.ended_by = Stage.OVER, str(fault.verb)
                faults.save()
            return fault.answer()


def _is_due(fault: BrokerFault, now: float) -> bool:
    return fault.until is not None and fault.until <= now
