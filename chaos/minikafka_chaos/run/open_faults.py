"""The faults that are on: made, not undone yet. Each ends by its duration, by a step that undoes it, or at the final heal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from minikafka.telemetry.fault_verbs import Verb

from minikafka_chaos.clock import Timer
from minikafka_chaos.grounds import Ground
from minikafka_chaos.scenario.faults import Fault, Handle, Ledger, Targets

Say = Callable[[str], None]


class OpenFaults:
    """Makes and undoes faults on one ground, each written down in the ledger before.

    What has a duration is undone in the background of the story: by a thread where time is the machine's, by an event where
    it is virtual. A failure there is kept in `failure`, for whoever waits for something to look at.
    """

    def __init__(self, ground: Ground, ledger: Ledger, say: Say) -> None:
        self._ground = ground
        self._ledger = ledger
        self._say = say
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Handle, Timer | None]] = {}
        self._closed = False
        self._undoing = 0
        self._idle = threading.Condition(self._lock)
        self.failure: BaseException | None = None

    @property
    def handles(self) -> list[Handle]:
        """Return what is on now, oldest first."""
        with self._lock:
            return [handle for handle, _ in self._open.values()]

    # -- making --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def making(self, fault: Fault, targets: Targets) -> Iterator[None]:
        """Make the fault, then run the body, which waits for whatever its step waits for; written down around both."""
        clock = self._ground.clock
        self._ledger.intend(fault, targets, None if fault.duration_s is None else clock.time() + fault.duration_s)
        try:
            handle = self._ground.inject(fault, targets)
            if fault.rule.lasts:
                self._add(handle)
            self._settle(fault, targets)
            yield
        except BaseException as error:
            self._ledger.failed(fault, targets, error)
            raise
        self._ledger.injected(handle)

    def _add(self, handle: Handle) -> None:
        """Time runs from when it was made; a timer in the lock, so that it cannot come before what it ends."""
        fault = handle.fault
        with self._lock:
            timer = None
            if fault.duration_s is not None:
                timer = self._ground.clock.call_later(fault.duration_s, lambda: self._expire(fault.id))
            self._open[fault.id] = handle, timer

    def _settle(self, fault: Fault, targets: Targets) -> None:
        """What this verb has just ended needs no further undoing: its duration must not undo what comes after it."""
        undoes = fault.rule.undoes
        done: list[Handle] = []
        with self._lock:
            for key, (handle, timer) in list(self._open.items()):
                if handle.fault.verb not in undoes:
                    continue
                if handle.fault.rule.peers and not set(handle.targets.links) <= set(targets.links) | {
                    (peer, broker) for broker, peer in targets.links
                }:
                    continue
                left = None if handle.fault.rule.peers else handle.without(targets.brokers)
                if left is None:
                    if timer is not None:
                        timer.cancel()
                    del self._open[key]
                    done.append(handle)
                else:
                    self._open[key] = left, timer
        for handle in done:
            self._ledger.recovered(handle, f"step {fault.step}")

    # -- undoing -------------------------------------------------------------------------------------------------------

    def of_step(self, step: str) -> Handle | None:
        """Return what the step made last, if it is on; None when it has ended."""
        with self._lock:
            found = [handle for handle, _ in self._open.values() if handle.fault.step == step]
        return found[-1] if found else None

    def undo(self, handle: Handle, how: str) -> list[str]:
        """Undo one fault, if nobody has yet; what was done, a line each. Raises what the ground raises."""
        with self._lock:
            if self._open.get(handle.fault.id) is None:
                return []
            current, timer = self._open.pop(handle.fault.id)
        if timer is not None:
            timer.cancel()
        return self._recover(current, how)

    def _recover(self, handle: Handle, how: str) -> list[str]:
        recovery = Fault(f"{handle.fault.id}-end", Verb.RECOVER, step=handle.fault.step)
        self._ledger.intend(recovery, handle.targets, None)
        try:
            done = self._ground.recover(handle)
        except BaseException as error:
            self._ledger.failed(recovery, handle.targets, error)
            raise
        self._ledger.injected(Handle(recovery, handle.targets))
        self._ledger.recovered(handle, how)
        return done

    def _expire(self, fault_id: str) -> None:
        with self._lock:
            if self._closed or fault_id not in self._open:
                return
            handle, _ = self._open.pop(fault_id)
            self._undoing += 1
        try:
            done = self._recover(handle, "its duration")
            verb = handle.fault.verb.value
            self._say(
                f"{handle.fault.step}: the end of [bold]{verb}[/] ({', '.join(done) or 'nothing was left of it'})"
            )
        except BaseException as error:
            self.failure = error
        finally:
            with self._idle:
                self._undoing -= 1
                self._idle.notify_all()

    def close(self) -> list[Handle]:
        """No duration ends anything from now on; returns when none is at it. What is still on, for the final heal."""
        with self._idle:
            self._closed = True
            left = list(self._open.values())
            self._open.clear()
            while self._undoing:
                self._idle.wait()
        for _, timer in left:
            if timer is not None:
                timer.cancel()
        return [handle for handle, _ in left]
