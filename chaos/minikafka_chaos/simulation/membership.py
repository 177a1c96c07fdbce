"""A simulated broker's place in the cluster: who is the controller, am I it, does it know that I live."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minikafka.controller.brokers import Registration
from minikafka.controller.standing_back import StandingBack
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import Lease, StoreError
from minikafka.protocol.errors import ErrorCode

from minikafka_chaos.simulation.network import Reply
from minikafka_chaos.simulation.role import NOT_CONTROLLER, SimRole
from minikafka_chaos.simulation.store import CLUSTER_ID

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker

LISTENER = "SIM"


class Membership:
    """Of one incarnation; mirrors ``minikafka.server.membership``."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self.role: SimRole | None = None
        self.epoch = -1
        """The broker epoch, -1 without a registration."""
        self.want_fence = True
        self._registering = False
        self._registrations = 0
        self._seen: tuple[int, int] = (-1, -1)
        self._seen_at = broker.world.now
        self._standing_back = StandingBack(broker.world.session)

    def leave(self) -> None:
        """The process ends."""
        if self.role is not None:
            self.role.over = True
            self.role = None

    def ask_controller(self, decide: Callable[[Any], Any], reply: Callable[[Any], None]) -> None:
        """Send to whoever holds the lease as far as this broker knows; answers NOT_CONTROLLER when that is over."""
        if self.role is not None and not self.role.over:
            self.role.submit(decide, reply)
            return
        holder = self._seen[0]
        if holder < 0 or holder == self.broker.id:
            reply(NOT_CONTROLLER)
            return

        def serve(controller: SimBroker, answer: Reply) -> None:
            if controller.role is None:
                answer(NOT_CONTROLLER)
            else:
                controller.role.submit(decide, answer)

        self.broker.world.network.request(self.broker.id, holder, serve, reply, lambda: reply(NOT_CONTROLLER))

    def step_now(self) -> None:
        """A membership step out of turn: something has changed."""
        self._step(again=False)

    def step(self) -> None:
        self._step(again=True)

    def _step(self, again: bool) -> None:
        world = self.broker.world
        if again:
            self.broker.later(world.heartbeat, self.step)
        try:
            world.store.check(self.broker.id)
            lease = world.store.inner.held
        except StoreError:
            return
        mine = (
            self.role is not None and lease is not None and self.role.lease.epoch == lease.epoch and not self.role.over
        )
        if lease is None or (lease.holder == self.broker.id and not mine):
            self.role = None
            if not self._standing_back.waits(world.now):
                self._take(lease)
            return
        if self._seen != (lease.holder, lease.epoch * 100_000 + lease.renewed):
            self._seen = (lease.holder, lease.epoch * 100_000 + lease.renewed)
            self._seen_at = world.now
        if not mine:
            if self.role is not None:
                self.role.end("lease is held by another")
                self.role = None
            holder = world.brokers[lease.holder]
            if not holder.up or world.now - self._seen_at > world.session:
                self._take(lease)
                return
        self._beat()

    def _take(self, old: Lease | None) -> None:
        world = self.broker.world
        lease = world.store.inner.acquire_now(self.broker.id, "sim", self.broker.id, old.epoch if old else 0)
        if lease is None:
            return
        image = ClusterImage(CLUSTER_ID)
        changes = world.store.inner.changes_now(-1)
        for key, value in changes.records.items():
            if value is not None:
                image.apply(key, value)
        if self.role is not None:
            self.role.end("a new term")
        world.note(f"b{self.broker.id} is controller, epoch {lease.epoch}")
        world.event(self.broker, "controller_elected", controller_epoch=lease.epoch)
        self.role = SimRole(self.broker, lease, image, self._standing_back)
        self._seen, self._seen_at = (self.broker.id, lease.epoch * 100_000), world.now
        self._beat()

    def _beat(self) -> None:
        broker, world = self.broker, self.broker.world
        assert broker.logs is not None
        if self.epoch < 0:
            if self._registering:
                return
            registration = Registration(
                broker.id,
                CLUSTER_ID,
                f"{broker.id}.{broker.incarnation}.{self._registrations}",
                ((LISTENER, "sim", broker.id),),
                world.rack(broker.id),
                -1 if self._registrations else broker.logs.previous_broker_epoch,
            )
            self._registering = True
            broker.later(world.session / 2, self._give_up_registering)
            self.ask_controller(lambda c: c.brokers.register(registration, world.now), self._registered)
            return
        epoch, fence, stop = self.epoch, self.want_fence, broker.stopping
        self.ask_controller(lambda c: c.brokers.heartbeat(broker.id, epoch, fence, stop, world.now), self._beaten)

    def _give_up_registering(self) -> None:
        self._registering = False

    def _registered(self, answer: Any) -> None:
        self._registering = False
        if answer == NOT_CONTROLLER or self.epoch >= 0:
            return
        error, epoch = answer
        if not error:
            self.epoch = epoch
            self.broker.world.note(f"b{self.broker.id} registered, broker epoch {epoch}")
            self.broker.sync()
            self.step_now()

    def _beaten(self, answer: Any) -> None:
        if answer == NOT_CONTROLLER:
            return
        if answer.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self._lose_registration()
            return
        if answer.should_shut_down and self.broker.stopping:
            if any(p.leader is not None for p in self.broker.partitions.values()):
                self.broker.later(0.05, self.broker.sync)
            else:
                self.broker.stop()

    def _lose_registration(self) -> None:
        """Another registration under this id has replaced ours (a late request of a dead incarnation can): begin again."""
        self.broker.world.note(f"b{self.broker.id} lost its registration {self.epoch}")
        self.epoch = -1
        self._registrations += 1
        self.want_fence = True
        self.broker.hosting.reset()
        self.step_now()
