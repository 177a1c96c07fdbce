"""What the status of an experiment says beside its faults: the conditions, and what follows from the rest of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from minikafka_kube.conditions import Judgement, condition, written
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant

from minikafka_chaos.controller import record, returning
from minikafka_chaos.controller.api import FaultState, Phase
from minikafka_chaos.controller.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.controller.steps import (
    ObservedExperiment,
)

_ANNOTATIONS: Final = "; annotation "
"""Where the condition Complete begins to tell of annotations that do nothing."""


def with_conditions(
    o: ObservedExperiment,
    status: Mapping[str, Any],
    accepted: Judgement | None = None,
    *,
    annotations: str | None = None,
) -> dict[str, Any]:
    """The status with its conditions and all that follows from the rest of it.

    ``annotations``: those that do nothing; None: what was said of them stays.
    """
    before = o.status.get("conditions") or []
    phase = Phase(status["phase"])
    ending = status.get("ending") or {}
    judgements = [accepted] if accepted is not None else []
    if o.phase is None or not o.phase.ended:  # after the end brokers are others' to take, and what was said stays
        over = phase is Phase.HEALING or phase.ended
        judgements.append(record.healed(status, returning.described(returning.missing(o, status)) if over else ""))
    if phase is Phase.REFUSED:
        judgements.append(Judgement(ChaosCondition.COMPLETE, True, ChaosReason.REFUSED, "nothing was touched"))
    elif phase.ended:
        judgements.append(Judgement(ChaosCondition.COMPLETE, True, reason_of(ending), str(ending.get("message") or "")))
    else:
        wrong = unread_of(o.status) if annotations is None else annotations
        says = f"its phase is {phase.value}" + (f"; {wrong}" if wrong else "")
        judgements.append(Judgement(ChaosCondition.COMPLETE, False, ChaosReason.GOING_ON, says))
    made = written(judgements, before, generation(o), o.now)
    new = {one["type"] for one in made}
    kept = [dict(one) for one in before if one["type"] not in new]
    order = {one.value: place for place, one in enumerate(ChaosCondition)}
    conditions = sorted([*made, *kept], key=lambda one: order.get(one["type"], len(order)))  # others' own come last
    changed = {**status, "conditions": conditions, "observedGeneration": generation(o)}
    if not record.open_faults(status):
        changed["recoveryFailing"] = None
    return {name: value for name, value in changed.items() if value is not None}


def recovery_events(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Emit]:
    """An Event for each fault that is over now and was not before."""
    was = {(fault["id"], fault.get("broker")): fault["state"] for fault in record.faults_of(before)}
    return [
        Emit(
            Happening.FAULT_RECOVERED,
            f"{record.fault_now([{**fault, 'state': 'was'}])} ({fault['step']}): {fault['detail']}",
        )
        for fault in record.faults_of(after)
        if fault["state"] == FaultState.RECOVERED
        and was.get((fault["id"], fault.get("broker"))) != FaultState.RECOVERED
    ]


def differs(status: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Apart from what is told for the first time only because it was looked at."""
    return {k: v for k, v in status.items() if k != "faultsMade"} != {
        k: v for k, v in before.items() if k != "faultsMade"
    }


def message_of(status: Mapping[str, Any], kind: StrEnum) -> str:
    """Return what one of the conditions says."""
    return str(condition(status, kind).get("message") or "")


def unread_of(status: Mapping[str, Any]) -> str:
    """Return what the condition Complete says already of annotations that do nothing."""
    _, found, after = message_of(status, ChaosCondition.COMPLETE).partition(_ANNOTATIONS)
    return (
        (found + after).removeprefix("; ")
        if condition(status, ChaosCondition.COMPLETE).get("reason") == ChaosReason.GOING_ON
        else ""
    )


def reason_of(ending: Mapping[str, Any]) -> ChaosReason:
    """Return why it ends; of one that only somebody else can have written down: that no run has come to a verdict."""
    reason = str(ending.get("reason") or "")
    return ChaosReason(reason) if reason in {each.value for each in ChaosReason} else ChaosReason.RUNNER_FAILED


def generation(o: ObservedExperiment) -> int:
    """Return the generation of its spec."""
    return int(o.experiment["metadata"].get("generation") or 0)


def created(o: ObservedExperiment) -> datetime:
    """Return when the object was made."""
    return instant(o.experiment["metadata"].get("creationTimestamp")) or o.now


def time_allowed(o: ObservedExperiment) -> timedelta:
    """``spec.activeDeadlineSeconds``."""
    return timedelta(seconds=int(o.experiment["spec"].get("activeDeadlineSeconds") or 3600))
