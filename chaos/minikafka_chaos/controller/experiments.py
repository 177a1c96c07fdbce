"""What is to be done about an experiment now: one step at a time, from what was observed. No I/O.

Each step is one write or one act, and what it is about is written down before it is done; so whoever dies between two steps
leaves behind what the next look needs to go on. The order: finalizer, cluster (where the experiment brings one), Lease,
status Running, Job. At the end: status Healing (from then on no fault can begin), the Job is gone, faults are undone, topics
removed or own cluster gone, Lease free, last status, finalizer off. Each phase has a module; `transitions` has their picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from minikafka_kube.events import Emit

from minikafka_chaos.controller.phases import ended, healing, pending, running
from minikafka_chaos.controller.phases.transitions import reported, with_conditions
from minikafka_chaos.controller.steps import ObservedExperiment, SetFinalizer, Step, Wait, WriteStatus
from minikafka_chaos.experiment.kinds import unread
from minikafka_chaos.experiment.reasons import Happening
from minikafka_chaos.experiment.status import Phase

PHASES: Final[Mapping[Phase | None, Callable[[ObservedExperiment], Step]]] = {
    None: pending.step,
    Phase.PENDING: pending.step,
    Phase.RUNNING: running.step,
    Phase.JUDGING: running.step,
    Phase.HEALING: healing.step,
    **{phase: ended.step for phase in Phase if phase.ended},
}
_AFTER: Final = frozenset({Phase.HEALING, *(phase for phase in Phase if phase.ended)})
"""In these it is no matter whether the finalizer is still on."""


def decide(seen: ObservedExperiment) -> Step:
    """The next step."""
    if seen.forced and seen.finalized:
        return ended.let_go(seen)
    phase = seen.phase
    if phase is not None and not phase.ended and unread(seen.experiment) != reported(seen.status):
        return _report_annotations(seen)
    if phase not in _AFTER and not seen.finalized:
        return Wait() if seen.deleting else SetFinalizer(on=True)
    return PHASES[phase](seen)


def _report_annotations(seen: ObservedExperiment) -> Step:
    """Return what somebody asked for in words that are not understood, or no longer does."""
    says = unread(seen.experiment)
    events = [Emit(Happening.ANNOTATION_UNREAD, says, warning=True)] if says else []
    return WriteStatus(with_conditions(seen, seen.status, annotations=says), events)
