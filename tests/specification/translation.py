"""Writes recorded traces as a Quint module that replays them, and reads its verdicts.

A module has all steps of some traces as values; each trace is folded over by the specification's own function ``judged``, until
that refuses a step or an invariant is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from minikafka.metadata.image import PartitionState

from tests.specification.recorder import Step, Trace

LONG = 150
"""Steps in one value: the parser of Quint is slow on long ones."""


class Refusal(NamedTuple):
    """What the specification says of a trace."""

    trace: str
    taken: int
    """Steps that it allows, from the first."""
    rule: str
    """Which rule the next breaks; empty when all are allowed."""
    step: Step | None


CODES = (
    "Written", "Registered", "Applied", "Resigned", "Appended", "Heard", "Advanced", "Proposed", "FellBack", "Took", "Cut",
    "Checkpointed", "Stopped", "Started", "Restored", "Acknowledged", "Consumed", "Reordered",
)  # fmt: skip
"""The steps, in the order of ``decoded`` in `spec/replay.qnt`."""

STOPS = ("clean", "killed", "power", "wiped")


def packed(numbers: Sequence[int]) -> int:
    """Numbers from -1 on as one, as ``digits`` in `spec/replay.qnt` takes them apart."""
    return sum((number + 1) << 32 * place for place, number in enumerate([len(numbers) - 1, *numbers]))


def code(step: Step) -> list[int]:
    """A step as numbers, as ``decoded`` in `spec/replay.qnt` reads them. ValueError: the specification has no such step."""
    name, *values = step
    if name == "Took":  # a log comes last
        values = [*values[:4], values[5], values[4]]
    return [CODES.index(name), *(number for value in values for number in _numbers(value))]


def _numbers(value: Any) -> list[int]:
    match value:
        case int():
            return [int(value)]
        case list():
            return value
        case str():
            return [STOPS.index(value)]
        case frozenset():
            return [_bits(value)]
        case PartitionState():
            return [value.partition_epoch, value.leader_epoch, value.leader, _bits(value.isr), _bits(value.elr)]
    raise ValueError(f"{value!r} is no value of a step")


def _bits(brokers: Iterable[int]) -> int:
    return sum(1 << broker for broker in brokers)


def _truth(value: bool) -> str:
    return str(value).lower()


def module(traces: Sequence[Trace]) -> str:
    """A module whose state are the verdicts on these traces, each of which has begun."""
    lines = ["module traces {", '  import partition.* from "./partition"', '  import replay.* from "./replay"']
    verdicts = []
    for number, trace in enumerate(traces):
        config, first = trace.config, trace.first
        assert config is not None
        assert first is not None
        lines += [
            "",
            f"  // {trace.name}",
            f"  pure val begun{number} = replayed({{ replicas: {list(config.replicas)}, minIsr: {config.min_isr}, "
            f"unclean: {_truth(config.unclean)}, trustIsr: {_truth(config.trust_isr)} }}, "
            f"{{ pe: {first.partition_epoch}, le: {first.leader_epoch}, leader: {first.leader}, "
            f"isr: brokers({_bits(first.isr)}), elr: brokers({_bits(first.elr)}) }})",
        ]
        at = f"begun{number}"
        for part, begin in enumerate(range(0, len(trace.steps), LONG)):
            codes = ",\n    ".join(str(packed(code(step))) for step in trace.steps[begin : begin + LONG])
            lines.append(f"  pure val part{number}_{part} = replay({at}, [\n    {codes}\n  ])")
            at = f"part{number}_{part}"
        verdicts.append(f"verdict({at})")
    lines += [
        "",
        "  var verdicts: List[{ taken: int, rule: str }]",
        f"  action init = verdicts' = [{', '.join(verdicts)}]",
        "  action step = verdicts' = verdicts",
        "}",
        "",
    ]
    return "\n".join(lines)


def refusals(traces: Sequence[Trace], itf: Mapping[str, Any]) -> list[Refusal]:
    """The verdicts, in the order of the traces, from a trace of the module in the Informal Trace Format."""
    found = []
    for trace, verdict in zip(traces, itf["states"][0]["verdicts"], strict=True):
        taken, rule = int(verdict["taken"]["#bigint"]), verdict["rule"]
        found.append(Refusal(trace.name, taken, rule, trace.steps[taken] if rule else None))
    return found
