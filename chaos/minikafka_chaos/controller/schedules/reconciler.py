"""Looks at one schedule, asks what the next step is, and does it; until there is nothing to be done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from minikafka_kube.api_server import TRANSIENT, ApiError, ApiServer
from minikafka_kube.events import Emit
from minikafka_kube.leadership import Alone, Leadership
from minikafka_kube.loops import ReconcileResult

from minikafka_chaos.controller.reconciler import REFUSALS, STALE_RETRY_SECONDS, Events, words_of
from minikafka_chaos.controller.schedules.decisions import (
    Make,
    ObservedSchedule,
    Step,
    WriteScheduleStatus,
    decide,
    not_made,
)
from minikafka_chaos.controller.schedules.status import ScheduleStatus
from minikafka_chaos.controller.steps import Remove, Wait
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_chaos.experiment.kinds import EXPERIMENT, SCHEDULE, SCHEDULE_LABEL, Object
from minikafka_chaos.experiment.reasons import Happening

STEPS_MAX: Final = 50
MAKE_SECONDS: Final = 30.0
"""For so long an experiment that cannot be made now (an admission webhook that does not answer) is tried again."""

logger = logging.getLogger(__name__)


class ScheduleReconciler:
    """Makes experiments by the clock. It holds nothing between two looks."""

    def __init__(
        self,
        server: ApiServer,
        telemetry: ControllerTelemetry,
        now: Callable[[], datetime],
        identity: str,
        leadership: Leadership | Alone,
    ) -> None:
        self._server = server
        self._telemetry = telemetry
        self._now = now
        self._leadership = leadership
        self._events = Events(server, identity, now)

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """Step by step until it has to wait. Raises ApiError and the errors of the connection; then look again."""
        for number in range(STEPS_MAX):
            schedule = await self._server.get(SCHEDULE, namespace, name)
            if schedule is None:
                return ReconcileResult("changed" if number else "steady", gone=True)
            made = await self._server.find_all(EXPERIMENT, namespace, labels=f"{SCHEDULE_LABEL}={name}")
            uid = schedule["metadata"]["uid"]
            mine = [
                one
                for one in made
                if any(owner.get("uid") == uid for owner in one["metadata"].get("ownerReferences") or ())
            ]
            observed = ObservedSchedule(schedule, mine, self._now())
            step = decide(observed)
            if isinstance(step, Wait):
                return ReconcileResult("changed" if number else "steady", step.seconds)
            try:
                await self._do(observed, step)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
                logger.info("%s/%s changed meanwhile: %s", namespace, name, error)
                return ReconcileResult("changed", STALE_RETRY_SECONDS)
        return ReconcileResult("changed", STALE_RETRY_SECONDS)

    async def _do(self, seen: ObservedSchedule, step: Step) -> None:
        namespace = seen.schedule["metadata"]["namespace"]
        await self._leadership.confirm()
        match step:
            case Make(_, _, status, events):
                if why := await self._made(namespace, step):
                    missed = not_made(seen, step, why)
                    status, events = missed.status, missed.events
                await self._write(seen, status, events)
            case WriteScheduleStatus(status, events):
                await self._write(seen, status, events)
            case Remove(_, name, uid):
                await self._server.delete(EXPERIMENT, namespace, name, uid)
                logger.info("%s/%s: removed %s from the history", namespace, seen.name, name)

    async def _made(self, namespace: str, step: Make) -> str:
        """Make an experiment; why it could not be made, empty when it is there.

        Raises ApiError and the errors of the connection for what is to be tried again: not for long, or until the next time
        comes, for a time that nobody was told of is not counted either.
        """
        try:
            return await self._created(namespace, step.thing)
        except (ApiError, *TRANSIENT) as error:
            others = any(event.reason == Happening.MISSED for event in step.events)
            if self._now() < step.due + timedelta(seconds=MAKE_SECONDS) and not others:
                raise
            return f"ChaosExperiment {step.thing['metadata']['name']} cannot be made now: {words_of(error)}"

    async def _created(self, namespace: str, thing: Object) -> str:
        name = thing["metadata"]["name"]
        try:
            await self._server.create(EXPERIMENT, namespace, thing)
        except ApiError as error:
            if error.code in REFUSALS:
                return f"ChaosExperiment {name} is refused: {error.message}"
            if error.code != 409:
                raise
            there = await self._server.get(EXPERIMENT, namespace, name)
            (owner,) = thing["metadata"]["ownerReferences"]
            owners = ((there or {}).get("metadata") or {}).get("ownerReferences") or ()
            if all(one.get("uid") != owner["uid"] for one in owners):
                return f"there is a ChaosExperiment {name} that is not this schedule's"
        return ""

    async def _write(self, seen: ObservedSchedule, status: ScheduleStatus, events: Sequence[Emit]) -> None:
        namespace = seen.schedule["metadata"]["namespace"]
        await self._server.replace_status(SCHEDULE, namespace, {**seen.schedule, "status": status.document()})
        missed = [event for event in events if event.reason == Happening.MISSED]
        if missed:
            self._telemetry.missed.labels(namespace, seen.name).inc(len(missed))
        await self._events.emit(SCHEDULE, seen.schedule, events)
