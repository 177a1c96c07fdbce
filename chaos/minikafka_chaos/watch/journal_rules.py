"""What follows from the journal of a run or a session: who was killed or hangs, which faults are on, what a check has seen.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from minikafka.telemetry.fault_verbs import Serving, Verb, verbs

from minikafka_chaos.watch.evidence import JournalLine
from minikafka_chaos.watch.state import ReplicaKey, WatchedCondition

if TYPE_CHECKING:
    from minikafka_chaos.watch.fold import Draft

DEADLY: Final = verbs(lambda rule: rule.lasts and rule.serving is Serving.ENDS)
LASTING: Final = verbs(lambda rule: rule.lasts) - DEADLY - {Verb.PAUSE}
"""Faults of what is around a process; they are on until the journal says that they were recovered."""
_PREFIX = "broker-"


class JournalRules:
    """Reads the lines of one journal in their order."""

    def __init__(self) -> None:
        self._conditions: dict[str, list[Mapping[str, Any]]] = {}
        """By step of the scenario: what it waits for."""

    def take(self, draft: Draft, evidence: JournalLine) -> None:
        """Take one line."""
        line = evidence.line
        match line.get("kind"):
            case "scenario":
                self._conditions = dict(_conditions(line.get("scenario")))
            case "action" if line.get("phase") == "end" and line.get("ok") is True:
                _act(draft, line)
            case "recovered":
                _recover(draft, line)
            case "check" if line.get("ok") is True:
                for condition in self._conditions.get(str(line.get("step")), ()):
                    _held(draft, condition)


def _act(draft: Draft, line: Mapping[str, Any]) -> None:
    broker, fault = _broker(line.get("target")), line.get("fault")
    if broker is None:
        return
    if fault in DEADLY:
        draft.change_broker(broker, condition=WatchedCondition.DEAD, controller=False)
    elif fault == Verb.PAUSE:
        draft.change_broker(broker, condition=WatchedCondition.PAUSED)
    elif fault == Verb.RESUME:
        _resume(draft, broker)
    elif fault == Verb.WIPE_VOLUME:
        for key in [key for key in draft.state.entities if isinstance(key, ReplicaKey) and key.broker == broker]:
            draft.logs.cut(key, 0)
    elif fault in LASTING:
        known = draft.state.broker(broker).faults
        draft.change_broker(broker, faults=(*known, str(fault)))


def _recover(draft: Draft, line: Mapping[str, Any]) -> None:
    fault = str(line.get("fault"))
    for target in line.get("targets") or ():
        broker = _broker(target)
        if broker is None:
            continue
        if fault == Verb.PAUSE:
            _resume(draft, broker)
        elif fault in LASTING:
            known = list(draft.state.broker(broker).faults)
            if fault in known:
                known.remove(fault)
            draft.change_broker(broker, faults=tuple(known))


def _resume(draft: Draft, broker: int) -> None:
    if draft.state.broker(broker).condition is WatchedCondition.PAUSED:
        draft.change_broker(broker, condition=WatchedCondition.UP)


def _held(draft: Draft, condition: Mapping[str, Any]) -> None:
    """A condition that was waited for holds: what it says of an offset of one replica is so."""
    offset, broker = condition.get("equals"), condition.get("broker")
    if not isinstance(offset, int) or not isinstance(broker, int):
        return
    key = ReplicaKey(str(condition.get("topic")), int(condition.get("partition") or 0), broker)
    match condition.get("type"):
        case "HighWatermark":
            draft.change_replica(key, high_watermark=offset)
        case "LogEndOffset":
            draft.logs.end_at(key, offset)
        case "FlushedOffset":
            draft.change_replica(key, flushed=offset)


def _conditions(scenario: Any) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    spec = scenario.get("spec") if isinstance(scenario, Mapping) else None
    for step in (spec.get("steps") or ()) if isinstance(spec, Mapping) else ():
        wait = step.get("wait") if isinstance(step, Mapping) else None
        if isinstance(wait, Mapping):
            yield str(step.get("name")), [each for each in wait.get("conditions") or () if isinstance(each, Mapping)]


def _broker(target: Any) -> int | None:
    number = str(target).removeprefix(_PREFIX)
    return int(number) if str(target).startswith(_PREFIX) and number.isdecimal() else None
