"""Being the controller in a simulation: the production controller, with group commit to a slow store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from minikafka.controller.brokers import CUT_OFF
from minikafka.controller.controller import Controller
from minikafka.controller.standing_back import StandingBack
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import Lease, StoreError

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker

NOT_CONTROLLER = "not controller"
"""The answer to everything once the term is over."""


class SimRole:
    """One controller term of one broker; mirrors ``minikafka.server.controller_role``."""

    def __init__(self, broker: SimBroker, lease: Lease, image: ClusterImage, standing_back: StandingBack) -> None:
        world = broker.world
        self.broker = broker
        self.standing_back = standing_back
        self.lease = lease
        self.over = False
        self.controller: Controller = world.rules.controller(
            image,
            lease.epoch,
            world.controller_config_of(broker.id),
            world.now,
            lambda: UUID(int=world.random.getrandbits(128), version=4),
        )
        self._queue: list[tuple[Callable[[Controller], Any], Callable[[Any], None]]] = []
        self._committing = False
        self._tick_due: float | None = None
        broker.later(0.0, self._tick)
        broker.later(world.heartbeat, self._renew)

    def end(self, reason: str) -> None:
        if not self.over:
            self.over = True
            self.broker.world.note(f"b{self.broker.id} resigns: {reason}")
            self.broker.world.event(
                self.broker, "controller_resigned", controller_epoch=self.lease.epoch, reason=reason
            )
            for _, reply in self._queue:
                reply(NOT_CONTROLLER)
            self._queue.clear()

    def submit(self, decide: Callable[[Controller], Any], reply: Callable[[Any], None]) -> None:
        if self.over:
            reply(NOT_CONTROLLER)
            return
        self._queue.append((decide, reply))
        if not self._committing:
            self._committing = True
            self.broker.later(0.0, self._commit)

    def _commit(self) -> None:
        world = self.broker.world
        batch, self._queue = self._queue, []
        if self.over or not batch:
            self._committing = False
            for _, reply in batch:
                reply(NOT_CONTROLLER)
            return
        answers = [(reply, decide(self.controller)) for decide, reply in batch]
        changes, events = self.controller.take_changes()

        def written() -> None:
            if changes:
                try:
                    world.store.check(self.broker.id)
                    world.store.inner.commit_now(self.lease.epoch, changes)
                    world.store.committed()
                    world.watcher.committed(events, self.controller.image)
                    for event in events:
                        world.event(self.broker, event.name, event.topic, event.partition, **event.fields)
                    if world.outcome_is_lost():
                        raise StoreError("the answer of the store was lost")
                except StoreError as error:
                    for reply, _ in answers:
                        reply(NOT_CONTROLLER)
                    self.end(str(error))
                    return
            for reply, value in answers:
                reply(value)
            self._committing = bool(self._queue)
            if self._queue:
                self._commit()

        if changes:
            self.broker.later(world.random.uniform(0.0005, 0.01), written)
        else:
            written()

    def _tick(self) -> None:
        if self.over:
            return
        world = self.broker.world
        for broker_id, session in list(self.controller.brokers.sessions.items()):
            if not session.connected and broker_id != self.broker.id and not world.brokers[broker_id].up:
                self.submit(lambda c, b=broker_id: c.brokers.connection_refused(b), lambda _: None)  # type: ignore[misc]
        now, brokers = world.now, self.controller.brokers
        pause = world.controller_config.session_timeout / 8
        if self._tick_due is not None and now - self._tick_due > pause:
            brokers.excuse(now - self._tick_due)
        if self.standing_back.gives_way(brokers, now):
            self.end(CUT_OFF)
            return
        self.submit(lambda c: c.tick(world.now), lambda _: None)
        self._tick_due = now + pause
        self.broker.later(pause, self._tick)

    def _renew(self) -> None:
        if self.over:
            return
        world = self.broker.world
        try:
            world.store.check(self.broker.id)
            self.lease = world.store.inner.renew_now(self.lease)
        except StoreError as error:
            if not world.store.down and self.broker.id not in world.store.unreachable:
                self.end(str(error))
                return
        self.broker.later(world.heartbeat, self._renew)
