"""What is checked of controllers and of brokers' places in the cluster: see ``invariants``, B26 to B28 and B37."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minikafka.controller.workspace import Event

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.scheduled_cluster import ScheduledCluster

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker, Term

RENEWALS_MAX = 2
"""A controller tries to renew its lease as often before it must know that another has it."""
SLACK = 0.1
"""Seconds, for operations of the store."""
LATE_SECONDS = 1.0
"""A heartbeat that was sent before a pause comes no later, nor does the decision take longer, while the store is willing."""
LOOK_SECONDS = 0.02
"""Between two looks at who is silent: it takes a second and more until that is wrong."""


class TermChecks:
    """Of one world."""

    def __init__(self, world: ScheduledCluster, account: Account) -> None:
        self._world = world
        self._account = account
        self._written: dict[int, Event] = {}
        """In the store and not told yet, by identity."""
        self._settled: set[tuple[int, int]] = set()
        """Incarnations (broker, broker epoch) whose replicas were once what the image says."""
        self._superseded: dict[tuple[int, int], float] = {}
        """Terms (broker, controller epoch) that go on though another broker holds the lease; since when."""
        self._terms: dict[tuple[int, int], float] = {}
        """Terms (broker, controller epoch), and when they were first seen."""
        self._stopped: dict[int, float] = {}
        """When the store was last out of reach of a broker, so that nothing could be written."""
        self._active: dict[tuple[int, int], float] = {}
        """Since when a controller has held a broker (controller, broker) for alive: a heartbeat that the network held back may
        come after it was fenced."""
        self._looked: dict[tuple[int, int], float] = {}
        """When the brokers that a term (broker, controller epoch) holds for alive were last looked at."""

    def committed(self, events: Sequence[Event]) -> None:
        """The store has taken these decisions."""
        for event in events:
            self._written[id(event)] = event
            if event.name == "broker_unfenced":
                target, epoch = event.fields["target"], event.fields["broker_epoch"]
                if (target, epoch) not in self._settled:
                    self._account.fail(
                        "B27 UnfencedWhenReady",
                        f"broker {target} is unfenced in broker epoch {epoch}, and its replicas do not match the image yet",
                    )

    def emitted(self, broker: SimBroker, event: Event) -> None:
        """A controller tells of a decision."""
        if self._written.pop(id(event), None) is None:
            self._account.fail(
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
        if role is None:
            return
        if store.down or broker.id in store.unreachable:
            self._stopped[broker.id] = self._world.now
        if not role.term.over:
            self._silence(broker, role)
        held = store.held
        if held is None or held.epoch <= role.term.epoch:
            return
        now, key = self._world.now, (broker.id, role.term.epoch)
        since = max(
            self._superseded.setdefault(key, now),
            broker.awake_since,
            store.failed_at.get(broker.id, 0.0),
            self._stopped.get(broker.id, 0.0),
        )
        if now - since > RENEWALS_MAX * role.term.renew_seconds + SLACK:
            self._account.fail(
                "B28 OneController",
                f"broker {broker.id} goes on in controller epoch {role.term.epoch} {now - since:.2f} s after broker "
                f"{held.holder} took the lease in epoch {held.epoch}",
            )

    def _silence(self, broker: SimBroker, role: Term) -> None:
        """A broker that stands still, its connections open, is fenced by the controller when its session is over (B37)."""
        world, key = self._world, (broker.id, role.term.epoch)
        began = self._terms.setdefault(key, world.now)
        if world.now < self._looked.get(key, 0.0) + LOOK_SECONDS:
            return
        self._looked[key] = world.now
        stopped = max(self._stopped.get(broker.id, 0.0), world.store.failed_at.get(broker.id, 0.0))
        heard = max(began, broker.awake_since, stopped)
        for other in world.brokers.values():
            if not role.controller.image.is_active(other.id):
                self._active.pop((broker.id, other.id), None)
                continue
            since = self._active.setdefault((broker.id, other.id), world.now)
            if not (other.up and other.paused) or other is broker:
                continue
            silent = world.now - max(heard, other.paused_at, since)
            if silent > world.session + LATE_SECONDS:
                self._account.fail(
                    "B37 SilenceIsFenced",
                    f"controller {broker.id} has heard nothing of broker {other.id} for {silent:.2f} s, and has not fenced it",
                )
