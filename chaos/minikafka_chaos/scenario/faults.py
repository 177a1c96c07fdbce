"""A fault as a value: which verb with which parameters, on whom, for how long, and who writes it down before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Protocol

from minikafka.telemetry.fault_verbs import Rule, Verb
from pydantic import Field

from minikafka_chaos.links.rules import CLIENTS, LinkRule, Way
from minikafka_chaos.scenario.document import Part


class Direction(StrEnum):
    """Which way a fault of the network goes, as its target sees it."""

    BOTH = "Both"
    OUTBOUND = "Outbound"
    INBOUND = "Inbound"


class WipeMode(StrEnum):
    """How much of what was not flushed is gone: all of it, a part (each log ends at a byte that the seed chooses), or a part and
    garbage follows."""

    ALL = "All"
    TORN = "Torn"
    GARBAGE = "Garbage"


class Parameters(Part):
    """What a verb needs to know; which verb takes which is in `minikafka.telemetry.fault_verbs`."""

    direction: Direction | None = None
    """Of Cut, Delay and Loss. Inbound: what the target is sent; Outbound: what it sends; Both. Without it: both."""
    mode: WipeMode | None = None
    """Of WipeUnflushed and PowerLoss: how much of what was not flushed is lost. Without it: All."""
    millis: Annotated[int, Field(ge=-86_400_000, le=86_400_000)] | None = None
    """Milliseconds of Delay, SlowFsync and ClockStep (negative: back)."""
    jitter_millis: Annotated[int, Field(ge=0, le=60_000)] | None = None
    """Of Delay: up to so much more, each way."""
    percent: Annotated[int, Field(ge=1, le=100)] | None = None
    """Of Loss: how many of a hundred segments are lost."""

    def given(self) -> dict[str, Any]:
        """Return what was said, under the names that it has in documents."""
        found: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return found


PLAIN = Parameters()
"""Nothing was said."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to be done. `id` is its own within a run: a ground that is asked twice for one fault makes one."""

    id: str
    verb: Verb
    parameters: Parameters = PLAIN
    duration_s: float | None = None
    """Seconds after which it is undone by itself; None: it lasts until a step, or the final heal, undoes it."""
    step: str = ""
    shutdown_s: float | None = None
    """Seconds that a broker may take for a clean shutdown; None: as many as the ground allows."""

    @property
    def rule(self) -> Rule:
        return self.verb.rule


@dataclass(frozen=True, slots=True)
class Targets:
    """Whom a fault hits: `peers` are the other ends of the links that it is about, `role` why these were chosen."""

    brokers: tuple[int, ...] = ()
    peers: tuple[int, ...] = ()
    role: str | None = None

    @property
    def names(self) -> list[str]:
        """As the journal has them."""
        return [f"broker-{broker}" for broker in self.brokers] or ["cluster"]

    @property
    def links(self) -> list[tuple[int, int]]:
        """Every pair of a target and one of its peers."""
        return [(broker, peer) for broker in self.brokers for peer in self.peers if peer != broker]


@dataclass(frozen=True, slots=True)
class Handle:
    """A fault that was made. `state` is what its ground needs to undo it beyond that; JSON, for it may be kept elsewhere."""

    fault: Fault
    targets: Targets
    state: Mapping[str, Any] = field(default_factory=dict)

    def without(self, brokers: Sequence[int]) -> Handle | None:
        """Return what is left of it when these brokers are well again; None when that is nothing."""
        left = tuple(broker for broker in self.targets.brokers if broker not in brokers)
        return replace(self, targets=replace(self.targets, brokers=left)) if left else None


def link_rules(fault: Fault, targets: Targets) -> list[tuple[Way, LinkRule]]:
    """Return what a Cut, Delay or Loss puts on which ways."""
    parameters = fault.parameters
    rule = LinkRule(
        cut=fault.verb is Verb.CUT,
        millis=parameters.millis or 0,
        jitter_millis=parameters.jitter_millis or 0,
        percent=parameters.percent or 0,
    )
    direction = parameters.direction or Direction.BOTH
    ways: list[tuple[Way, LinkRule]] = []
    for broker, peer in targets.links:
        if direction is not Direction.INBOUND:
            ways.append((Way(broker, peer), rule))
        if direction is not Direction.OUTBOUND:
            ways.append((Way(peer, broker), rule))
    return ways


def healed(targets: Targets) -> list[str]:
    """Return what the end of a fault of the network is called, a line for each link."""
    ends = [(broker, "clients" if peer == CLIENTS else str(peer)) for broker, peer in targets.links]
    return [f"healed brokers {broker} and {peer}" for broker, peer in ends]


class Ledger(Protocol):
    """Where faults are written down, ahead of being made: whoever finds it after a crash knows what may be broken.

    The verbs that undo something (`Rule.lasts` is false) are told as well. Calls come from more than one thread. An error
    that `intend` raises keeps the fault from being made.
    """

    def intend(self, fault: Fault, targets: Targets, expires: float | None) -> None:
        """Record that it is about to be made, and ends by itself at `expires` (unix seconds). Durable when this returns."""
        ...

    def injected(self, handle: Handle) -> None:
        """Record that it was made, and whatever its step waits for has come."""
        ...

    def failed(self, fault: Fault, targets: Targets, error: BaseException) -> None:
        """Record that it could not be made, or not wholly."""
        ...

    def recovered(self, handle: Handle, how: str) -> None:
        """Nothing of it is left. `how` names what undid it: a step, its duration, the final heal."""
        ...


class Ledgers:
    """Several ledgers as one, asked in this order."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = ledgers

    def intend(self, fault: Fault, targets: Targets, expires: float | None) -> None:
        for ledger in self._ledgers:
            ledger.intend(fault, targets, expires)

    def injected(self, handle: Handle) -> None:
        for ledger in self._ledgers:
            ledger.injected(handle)

    def failed(self, fault: Fault, targets: Targets, error: BaseException) -> None:
        for ledger in self._ledgers:
            ledger.failed(fault, targets, error)

    def recovered(self, handle: Handle, how: str) -> None:
        for ledger in self._ledgers:
            ledger.recovered(handle, how)
