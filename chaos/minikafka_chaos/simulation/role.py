"""Being the controller in a simulation: carries what production's term wants written, told and asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from minikafka.controller.controller import Controller
from minikafka.controller.resignation import ControllerResignation
from minikafka.controller.term import Commit, Effect, Failed, GiveAnswer, Happened, TermEnded
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import Lease, StoreError

from minikafka_chaos.simulation.network import Reply

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class SimRole:
    """One controller term of one broker."""

    def __init__(
        self, broker: SimBroker, lease: Lease, image: ClusterImage, resignation: ControllerResignation
    ) -> None:
        world = broker.world
        self.broker = broker
        self.controller: Controller = world.rules.controller(
            image,
            lease.epoch,
            world.controller_config_of(broker.id),
            world.now,
            lambda: UUID(int=world.random.getrandbits(128), version=4),
        )
        self.term = world.rules.controller_term(broker.id, lease, self.controller, resignation)
        self._will_decide = False
        world.store.term_began(self)
        broker.later(0.0, self._tick)
        broker.later(self.term.renew_seconds, self._renew)

    def submit(self, decide: Callable[[Controller], Any], reply: Callable[[Any], None]) -> None:
        """Have something decided; ``reply`` gets what was decided, once it is in the store, or a KafkaError."""
        self.ask(self.term.submit(decide, reply))

    def ask(self, effects: list[Effect]) -> None:
        """Something may wait for a decision now."""
        self.carry_out(effects)
        if not self._will_decide:
            self._will_decide = True
            self.broker.later(0.0, self._decide)

    def end(self, reason: str) -> None:
        self.carry_out(self.term.end(reason))

    def carry_out(self, effects: list[Effect]) -> None:
        """Errors of the code end the run."""
        broker, world = self.broker, self.broker.world
        for effect in effects:
            match effect:
                case Commit():
                    self._commit(effect)
                case GiveAnswer():
                    effect.give()
                case Happened():
                    event = effect.event
                    world.watcher.told(broker, event)
                    world.event(broker, event.name, event.topic, event.partition, **event.fields)
                case Failed():
                    raise effect.error
                case TermEnded():
                    world.note(f"b{broker.id} resigns: {effect.reason}")
                    world.event(broker, "controller_resigned", controller_epoch=self.term.epoch, reason=effect.reason)
                    world.store.term_ended(self)
                    broker.membership.term_ended(self)

    def _decide(self) -> None:
        self._will_decide = False
        self.carry_out(self.term.decide(self.broker.world.now))

    def _commit(self, commit: Commit) -> None:
        world, image = self.broker.world, self.controller.image

        def written() -> None:
            world.watcher.committed(list(commit.events), image)

        def done() -> None:
            self.carry_out(self.term.committed())
            self.carry_out(self.term.decide(world.now))

        def failed(error: StoreError) -> None:
            self.carry_out(self.term.commit_failed(error))

        world.store.commit(self.broker, commit, written, done, failed)

    def _tick(self) -> None:
        if self.term.over:
            return
        world = self.broker.world
        self.term.woke(world.now)
        for stranger in self.term.strangers():
            self._probe(stranger)
        self.ask(self.term.tick(world.now))
        self.broker.later(self.term.tick_seconds, self._tick)

    def _probe(self, stranger: int) -> None:
        """A refused connection says that nobody is there."""

        def serve(there: SimBroker, reply: Reply) -> None:
            del there, reply

        def refused() -> None:
            self.ask(self.term.connection_refused(stranger))

        self.broker.world.network.request(self.broker.id, stranger, serve, lambda _: None, refused)

    def _renew(self) -> None:
        if self.term.over:
            return
        store, lease = self.broker.world.store, self.term.lease

        def failed(error: StoreError) -> None:
            self.carry_out(self.term.renewal_failed(error))

        store.renew_lease(self.broker, lease, self.term.renewed, failed)
        self.broker.later(self.term.renew_seconds, self._renew)
