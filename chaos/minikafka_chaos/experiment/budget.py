"""The budget of an experiment with a cluster that is not its own: how many brokers may be out, and what must stay alive.

It is looked at twice: beforehand, over the whole story, so that an experiment is refused before anything is touched; and
at each fault, with the brokers that are out then and the in-sync replicas as the brokers' own metadata has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from minikafka.telemetry.fault_verbs import TAKE_OUT, UNDOING, Lost, Verb
from minikafka_kube.observed import PartitionState

from minikafka_chaos.scenario.scenario import Loss, SafetySpec, ScenarioSpec
from minikafka_chaos.scenario.steps import Step, Target, TargetType

_SHOWN_MAX: Final = 3


@dataclass(frozen=True)
class BudgetRefusal:
    """Why a fault must not be made now."""

    why: str
    passes: bool = False
    """What stands in its way is no fault of the experiment, and may be over in a moment."""


def story_refusal(spec: ScenarioSpec, brokers: int) -> str:
    """Return why the story as a whole would break its budget; empty when no step would. It counts what is out at worst."""
    out: dict[str, int] = {}
    for step in spec.steps:
        fault = step.fault
        if fault is None:
            continue
        verbs = frozenset(fault.verbs)
        for verb in fault.verbs:
            if _destroys(verb) and spec.safety.loss is not Loss.MEANT:
                return f"step {step.name}: {verb.value} needs safety.loss: Meant"
        target = fault.target
        origin = _origin(step.name, target, fault.step)
        if verbs & TAKE_OUT:
            out[origin] = max(out.get(origin, 0), _size(spec, target, brokers))
            if fault_count := _more_than(out, spec.safety, brokers):
                return (
                    f"step {step.name}: {fault_count} brokers may be out at once; allowed by safety.brokersOutMax: "
                    f"{spec.safety.brokers_out_max}"
                )
            if verbs == {Verb.RESTART}:
                out.pop(origin, None)  # one after the other, each back before the step ends
        elif verbs <= UNDOING:
            if target is not None and target.type is TargetType.ALL:
                out.clear()
            out.pop(origin, None)
    return ""


def _more_than(out: dict[str, int], safety: SafetySpec, brokers: int) -> int:
    number = min(sum(out.values()), brokers)
    return number if number > safety.brokers_out_max else 0


def _origin(step: str, target: Target | None, undone: str | None) -> str:
    """Who these brokers are, as far as the document says: who was chosen by an earlier step, or numbers."""
    if undone is not None:
        return undone
    if target is None:
        return step
    if target.type is TargetType.SAME_AS and target.step is not None:
        return target.step
    if target.type is TargetType.BROKERS:
        return ",".join(map(str, sorted(target.brokers)))
    return step


def _size(spec: ScenarioSpec, target: Target | None, brokers: int) -> int:
    if target is None:
        return brokers
    match target.type:
        case TargetType.ALL:
            return brokers
        case TargetType.BROKERS:
            return len(set(target.brokers))
        case TargetType.SAME_AS:
            earlier = next((step.fault for step in spec.steps if step.name == target.step), None)
            return brokers if earlier is None else _size(spec, earlier.target, brokers)
    return 1


def fault_refusal(
    verb: Verb, out: Collection[int], targets: Collection[int], partitions: Iterable[PartitionState], safety: SafetySpec
) -> str:
    """Why a fault must not be made now; empty when it may. ``out``: brokers that do not serve already, whatever the reason."""
    if _destroys(verb) and safety.loss is not Loss.MEANT:
        return "needs safety.loss: Meant"
    if verb not in TAKE_OUT:
        return ""
    gone = {*out, *targets}
    if len(gone) > safety.brokers_out_max:
        return (
            f"brokers {_numbers(gone)} would be out at once; allowed by safety.brokersOutMax: {safety.brokers_out_max}"
        )
    return "" if safety.loss is Loss.MEANT else last_replica(partitions, gone)


def last_replica(partitions: Iterable[PartitionState], gone: Collection[int]) -> str:
    """Return which partitions would have no live in-sync replica without those brokers; empty when none."""
    dead = [one for one in partitions if one.replicas and not set(one.isr) - set(gone)]
    if not dead:
        return ""
    more = f" and {len(dead) - _SHOWN_MAX} more" if len(dead) > _SHOWN_MAX else ""
    shown = ", ".join(str(one) for one in dead[:_SHOWN_MAX])
    return f"without brokers {_numbers(gone)} no in-sync replica would live of {shown}{more} (safety.loss: Meant allows it)"


def cluster_refusal(spec: ScenarioSpec, partitions: Sequence[PartitionState]) -> str:
    """Return why a cluster cannot stand what the story may take from it, whoever its targets will be."""
    if spec.safety.loss is Loss.MEANT or not any(_takes_out(step) for step in spec.steps):
        return ""
    worst = 1
    weak = [one for one in partitions if one.replicas and len(one.isr) <= worst]
    if not weak:
        return ""
    more = f" and {len(weak) - _SHOWN_MAX} more" if len(weak) > _SHOWN_MAX else ""
    shown = ", ".join(f"{one} ({len(one.isr)} of {len(one.replicas)})" for one in weak[:_SHOWN_MAX])
    return f"one broker less would take the last in-sync replica of {shown}{more} (safety.loss: Meant allows it)"


def _takes_out(step: Step) -> bool:
    return step.fault is not None and any(verb in TAKE_OUT for verb in step.fault.verbs)


def _destroys(verb: Verb) -> bool:
    return verb.rule.lost is Lost.VOLUME


def _numbers(brokers: Collection[int]) -> str:
    return ", ".join(str(broker) for broker in sorted(brokers))
