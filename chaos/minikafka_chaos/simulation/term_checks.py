"""What is checked of controllers and of brokers' places in the cluster: see ``invariants``, B26 to B28."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minikafka.controller.workspace import Event

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.checker import Checker
    from minikafka_chaos.simulation.world import World

RENEWALS_MAX = 2
"""A controller tries to renew its lease as often before it must know that another has it."""
SLACK = 0.1
"""Seconds, for operations of the store."""


class TermChecks:
    """Of one world."""

    def __init__(self, world: World, checker: Checker) -> None:
        self._world = world
        self._checker = checker
        self._written: dict[int, Event] = {}
        """In the store and not told yet, by identity."""
        self._settled: set[tuple[int, int]] = set()
        """Incarnations (broker, broker epoch) whose replicas were once what the image says."""
        self._superseded: dict[tuple[int, int], float] = {}
        """Terms (broker, controller epoch) that go on though another broker holds the lease; since when."""

    def committed(self, events: Sequence[Event]) -> None:
        """The store has taken these decisions."""
        for event in events:
            self._written[id(event)] = event
            if event.name == "broker_unfenced":
                target, epoch = event.fields["target"], event.fields["broker_epoch"]
                if (target, epoch) not in self._settled:
                    self._checker.fail(
                        "B27 UnfencedWhenReady",
                        f"broker {target} is unfenced in broker epoch {epoch}, and its replicas do not match the image yet",
                    )

    def told(self, broker: SimBroker, event: Event) -> None:
        """A controller tells of a decision."""
        if self._written.pop(id(event), None) is None:
            self._checker.fail(
                "B26 ToldWhenWritten", f"controller {broker.id} tells of {event.name}, which is not in the store"
            )

    def settled(self, broker: SimBroker) -> None:
        """A broker's replicas match the image."""
        me = broker.image.brokers.get(broker.id)
        if me is not None and me.epoch == broker.broker_epoch:
            self._settled.add((broker.id, broker.broker_epoch))

    def after(self, broker: SimBroker) -> None:
        """An event on a broker is over."""
        role, store = broker.role, self._world.store
        held = store.held
        if role is None or held is None or held.epoch <= role.term.epoch:
            return
        now, key = self._world.now, (broker.id, role.term.epoch)
        since = max(
            self._superseded.setdefault(key, now), broker.awake_since, store.failed_at.get(broker.id, float("-inf"))
        )
        if now - since > RENEWALS_MAX * role.term.renew_seconds + SLACK:
            self._checker.fail(
                "B28 OneController",
                f"broker {broker.id} goes on in controller epoch {role.term.epoch} {now - since:.2f} s after broker "
                f"{held.holder} took the lease in epoch {held.epoch}",
            )
