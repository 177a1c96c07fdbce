"""The ledger of a run on Kubernetes: the experiment's status, written by compare-and-set before each fault.

The write that says that a fault is about to be made is also the permission to make it: it succeeds only if the experiment is
still running, nobody has asked for its end, and this runner is the one it knows. So once the controller has written that it
heals, no fault can begin any more, whatever the runner does and however long it was asleep.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from minikafka.telemetry.fault_verbs import TAKE_OUT, UNDOING, Verb

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.experiment import record, topics
from minikafka_chaos.experiment.budget import BudgetRefusal
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, Object, asks
from minikafka_chaos.experiment.record import Whereabouts
from minikafka_chaos.experiment.status import ExperimentStatus, Phase
from minikafka_chaos.grounds.kubernetes import SLACK_SECONDS
from minikafka_chaos.scenario.faults import Fault, Handle, Targets

EXPIRY_SECONDS: Final = 1800.0
"""When a fault without a duration ends by itself; the agents' gate holds no longer than an hour."""
PATIENCE_SECONDS: Final = 60.0
"""How long an API server that does not answer is asked again. The fault is not made until it has."""
RETRY_SECONDS: Final = 0.5
BUDGET_SECONDS: Final = 60.0
"""How long a fault waits for a budget that others use up: a broker of a cluster that others use too is not ready for a moment
whenever its controller changes or the operator rolls it."""

logger = logging.getLogger(__name__)


class FaultRefused(ToolTrouble):
    """A fault that must not be made: the experiment has ended, or its budget is used up."""


class _MayPass(FaultRefused):
    """Refused for what may be over in a moment."""


class Absent(ToolTrouble):
    """A broker has no pod now; whoever took it makes it anew."""


class ExperimentChanged(Exception):
    """The experiment was changed since it was read."""


class Unavailable(Exception):
    """The API server did not answer, or not with sense."""


class StatusStore(Protocol):
    """One experiment at the API server."""

    def read(self) -> Object | None:
        """As it is now; None when it is gone. Raises Unavailable."""
        ...

    def write_status(self, thing: Object) -> None:
        """Replace its status, if it is at the resource version in its metadata. Raises ExperimentChanged, Unavailable."""
        ...


Locate = Callable[[Collection[int]], Mapping[int, Whereabouts]]
"""Where these brokers are now. Raises Absent, Unavailable."""
Guard = Callable[[Verb, Collection[int], Collection[int]], BudgetRefusal | None]
"""Verb, targets, and brokers out by earlier faults: why the budget forbids it; None when it does not. Raises Unavailable."""


class StatusLedger:
    """Writes faults down in the status of one experiment. Its methods may be called from several threads."""

    def __init__(
        self,
        store: StatusStore,
        runner: str,
        locate: Locate,
        guard: Guard = lambda _verb, _targets, _out: None,
        *,
        expiry_s: float = EXPIRY_SECONDS,
        slack_s: float = SLACK_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._runner = runner
        self._locate = locate
        self._guard = guard
        self._expiry_s = expiry_s
        self._slack_s = slack_s
        self._now = now
        self._sleep = sleep
        self._monotonic = monotonic
        self._lock = threading.Lock()

    # -- the ledger of a run -------------------------------------------------------------------------------------------

    def intend(self, fault: Fault, targets: Targets, expires: float | None) -> None:
        """Write it down and get the permission. Raises FaultRefused; for what may pass, not before `BUDGET_SECONDS`.

        When it ends is written down as of the write, not as of ``expires``: what had to wait begins later, and ends later.
        """
        del expires
        if fault.verb in UNDOING:
            return
        deadline = self._monotonic() + BUDGET_SECONDS
        while True:
            try:
                self._intend(fault, targets)
            except _MayPass as refused:
                if self._monotonic() >= deadline:
                    raise
                logger.info("%s; looking again", refused)
            else:
                return
            self._sleep(RETRY_SECONDS)

    def _intend(self, fault: Fault, targets: Targets) -> None:
        verb = fault.verb.value

        def change(thing: Object, status: ExperimentStatus) -> ExperimentStatus:
            # All of it anew on each attempt: a broker may be in another pod by now, and others may be out.
            self._require_running(thing, status)
            others = [one for one in status.open_faults if one.id != fault.id]
            out = {one.broker for one in others if one.broker is not None and one.verb in TAKE_OUT}
            if refusal := self._guard(fault.verb, targets.brokers, out):
                kind = _MayPass if refusal.passes else FaultRefused
                raise kind(f"{fault.step}: {verb}: {refusal.why}")
            now = self._now()
            # Its agent waits a little longer than its duration for the runner to undo it.
            lasts = self._expiry_s if fault.duration_s is None else fault.duration_s + self._slack_s
            ends = now + timedelta(seconds=lasts)
            try:
                where = self._locate(targets.brokers) if targets.brokers else None
            except Absent as absent:
                raise _MayPass(f"{fault.step}: {verb}: {absent}") from absent
            return record.intended(status, fault.id, fault.step, verb, where, role=targets.role, expires=ends, now=now)

        self._change(change)

    def injected(self, handle: Handle) -> None:
        """Record that it was made; in the pods that are there now, where one was replaced just before."""
        if handle.fault.verb in UNDOING:
            return
        fault_id = handle.fault.id

        def change(_: Object, status: ExperimentStatus) -> ExperimentStatus:
            status = record.injected(status, fault_id, self._now(), self._where(handle.targets))
            if handle.fault.rule.lasts:
                return status
            return record.recovered(status, lambda one: one.id == fault_id, "leaves nothing to undo", self._now())

        self._change(change)

    def _where(self, targets: Targets) -> Mapping[int, Whereabouts]:
        found: dict[int, Whereabouts] = {}
        for broker in targets.brokers:
            with contextlib.suppress(Absent):
                found |= self._locate([broker])
        return found

    def failed(self, fault: Fault, targets: Targets, error: BaseException) -> None:
        """Record that it could not be made, or not wholly; the end of the run undoes what there may be of it."""
        del targets
        if fault.verb in UNDOING:
            return
        why = f"could not be made: {' '.join(str(error).split()) or type(error).__name__}"
        self._change(lambda _, status: record.failed(status, fault.id, why))

    def recovered(self, handle: Handle, how: str) -> None:
        """Nothing of it is left."""
        fault_id = handle.fault.id
        self._change(lambda _, status: record.recovered(status, lambda one: one.id == fault_id, how, self._now()))

    # -- topics in a cluster that stays --------------------------------------------------------------------------------

    def intend_topic(self, name: str) -> None:
        """Write down that a topic is about to be made, and get the permission. Raises FaultRefused."""

        def change(thing: Object, status: ExperimentStatus) -> ExperimentStatus:
            self._require_running(thing, status)
            return topics.intended(status, name, self._now())

        self._change(change)

    def topic_made(self, name: str, topic_id: str) -> None:
        """Brokers have made it; by this id it will be removed."""
        self._change(lambda _, status: topics.made(status, name, topic_id))

    def topic_not_made(self, name: str, why: str) -> None:
        """Brokers have refused it: nothing of it is the experiment's."""
        self._change(lambda _, status: topics.not_made(status, name, why))

    # -- what else the runner tells ------------------------------------------------------------------------------------

    def take(self) -> None:
        """Be the runner of this experiment. Raises FaultRefused when it has one, or has ended."""

        def change(thing: Object, status: ExperimentStatus) -> ExperimentStatus:
            self._require_running(thing, status, other=status.runner not in (None, "", self._runner))
            return status.but(runner=self._runner)

        self._change(change)

    def set_fields(self, **fields: Any) -> None:
        """Set fields of the status, named as in an object, whatever the experiment is doing."""
        self._change(lambda _, status: ExperimentStatus.of({"status": {**status.document(), **fields}}))

    def judging(self) -> None:
        """The story is told, and every fault undone; a run that is being ended from outside stays as it is."""

        def change(_: Object, status: ExperimentStatus) -> ExperimentStatus:
            over = status.phase is Phase.RUNNING and not status.open_faults
            return status.but(phase=Phase.JUDGING) if over else status

        self._change(change)

    # -- compare-and-set -----------------------------------------------------------------------------------------------

    def _require_running(self, thing: Object, status: ExperimentStatus, *, other: bool | None = None) -> None:
        if "deletionTimestamp" in thing["metadata"]:
            raise FaultRefused("the experiment is being deleted")
        if asks(thing, ABORT_ANNOTATION):
            raise FaultRefused(f"the experiment is being aborted (annotation {ABORT_ANNOTATION})")
        if status.phase is not Phase.RUNNING:
            phase = "not set" if status.phase is None else status.phase.value
            raise FaultRefused(f"the experiment is not running: its phase is {phase}")
        if other if other is not None else status.runner != self._runner:
            raise FaultRefused(f"the experiment is run by {status.runner or 'nobody'}")

    def _change(self, change: Callable[[Object, ExperimentStatus], ExperimentStatus]) -> None:
        """Read, change, write, until nobody was in between. Raises ToolTrouble when the API server stays away.

        Where the faults have changed, the condition Healed is changed with them: the controller writes nothing meanwhile.
        """
        deadline = self._monotonic() + PATIENCE_SECONDS
        with self._lock:
            while True:
                try:
                    thing = self._store.read()
                    if thing is None:
                        raise FaultRefused("the experiment is gone")
                    before = ExperimentStatus.of(thing)
                    status = change(thing, before)
                    if status.faults != before.faults:
                        generation = int(thing["metadata"].get("generation") or 0)
                        status = record.with_healed(status, generation, self._now())
                    if status != before:
                        self._store.write_status({**thing, "status": status.document()})
                    return
                except ExperimentChanged:
                    logger.debug("The experiment changed meanwhile; once more")
                except Unavailable as error:
                    if self._monotonic() >= deadline:
                        raise ToolTrouble(f"the experiment's status cannot be written: {error}") from error
                    logger.warning("The experiment's status cannot be written yet: %s", error)
                    self._sleep(RETRY_SECONDS)
