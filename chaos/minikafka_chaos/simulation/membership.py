"""A simulated broker's place in the cluster: carries what production's lifecycle wants done next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minikafka.controller.brokers import HeartbeatAnswer, Registration
from minikafka.controller.controller import Controller
from minikafka.controller.heartbeats import Heartbeats
from minikafka.controller.resignation import ControllerResignation
from minikafka.membership import lifecycle as to_do
from minikafka.membership.lifecycle import Effect, LifecycleSettings, Step
from minikafka.metadata.store import Lease, Snapshot
from minikafka.protocol.errors import ErrorCode, KafkaError

from minikafka_chaos.simulation.network import Reply
from minikafka_chaos.simulation.role import SimRole
from minikafka_chaos.simulation.store import CLUSTER_ID

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker

LISTENER = "SIM"

NOT_CONTROLLER = KafkaError(ErrorCode.NOT_CONTROLLER, "no broker that is the controller was asked")

Decide = Callable[[Controller], Any]


class ControllerConnection:
    """Over which a broker's heartbeats go."""

    __slots__ = ("controller", "heard", "source")

    def __init__(self, source: int, controller: int, now: float) -> None:
        self.source = source
        self.controller = controller
        self.heard = now
        """When the last answer came."""


class Membership:
    """Of one incarnation."""

    def __init__(self, broker: SimBroker) -> None:
        world = broker.world
        self.broker = broker
        self.role: SimRole | None = None
        self._resignation = ControllerResignation(world.session)
        self._incarnations = 0
        self.lifecycle = world.rules.broker_lifecycle(
            broker.id,
            LifecycleSettings(world.heartbeat, world.session),
            self._resignation,
            self._new_incarnation,
            world.now,
        )
        self.lifecycle.cluster_id = CLUSTER_ID
        self.connection: ControllerConnection | None = None
        self._doing: Step | None = None

    def _new_incarnation(self) -> str:
        self._incarnations += 1
        return f"{self.broker.id}.{self.broker.incarnation}.{self._incarnations}"

    def start(self) -> None:
        assert self.broker.logs is not None
        self.lifecycle.previous_broker_epoch = self.broker.logs.previous_broker_epoch
        self._go_on()

    def fence(self) -> None:
        """Have others lead what this broker leads, until the replicas are settled."""
        self.lifecycle.fence()
        self._go_on()

    # -- one step after the other -------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Begin the step that is to be done, unless it is under way."""
        step, store, broker = self.lifecycle.step, self.broker.world.store, self.broker
        if step is self._doing:
            return
        self._doing = step
        lifecycle, world = self.lifecycle, broker.world

        def store_failed(_: Exception) -> None:
            self._done(step, lifecycle.store_failed)

        match step:
            case to_do.ReadLease():

                def read(lease: Lease | None) -> None:
                    self._done(step, lambda: lifecycle.lease_read(lease, world.now))

                store.read_lease(broker, read, store_failed)
            case to_do.TakeLease():

                def taken(lease: Lease | None) -> None:
                    self._done(step, lambda: lifecycle.lease_taken(lease))

                store.take_lease(broker, step.expected_epoch, taken, store_failed)
            case to_do.ReadSnapshot():
                held = step.lease

                def seen(snapshot: Snapshot) -> None:
                    self._done(step, lambda: lifecycle.snapshot_read(held, snapshot, world.now))

                store.read_snapshot(broker, seen, store_failed)
            case to_do.Connect():
                self._connect(step)
            case to_do.Register():
                self._register(step)
            case to_do.Heartbeat():
                self._heartbeat(step)
            case to_do.Wait():
                broker.later(step.seconds, lambda: self._done(step, lifecycle.waited))

    def _done(self, step: Step, outcome: Callable[[], list[Effect]]) -> None:
        """What came of a step, unless something else is done by now."""
        if step is self._doing and step is self.lifecycle.step:
            self._carry_out(outcome())
            self._go_on()

    def _carry_out(self, effects: list[Effect]) -> None:
        broker, world = self.broker, self.broker.world
        for effect in effects:
            match effect:
                case to_do.TermBegins():
                    if self.role is not None:
                        self.role.end("a new term")
                    world.note(f"b{broker.id} is controller, epoch {effect.lease.epoch}")
                    world.event(broker, "controller_elected", controller_epoch=effect.lease.epoch)
                    self.role = SimRole(broker, effect.lease, effect.image, self._resignation)
                case to_do.TermIsOver():
                    if self.role is not None:
                        self.role.end(effect.reason)
                case to_do.Registered():
                    world.note(f"b{broker.id} registered, broker epoch {effect.broker_epoch}")
                    broker.follow_image({})
                case to_do.RegistrationLost():
                    world.note(f"b{broker.id} lost its registration {effect.broker_epoch}")
                    broker.hosting.reset()
                case to_do.MayStop():
                    self._stop_when_others_lead()
                case to_do.Disconnect():
                    self.hang_up()

    def _stop_when_others_lead(self) -> None:
        broker = self.broker
        if not broker.stopping:
            return
        if any(p.leader is not None for p in broker.partitions.values()):
            broker.later(0.05, broker.sync)
        else:
            broker.later(0.0, broker.stop)

    # -- what the broker wants ----------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        self.lifecycle.shut_down()
        self._go_on()

    def replicas_settled(self) -> None:
        """Replicas match the image."""
        offline = bool(len(self.broker.log_dir.policy))
        self.lifecycle.replicas_settled(bool(self.broker.hosting.host.leads_in_name_only), offline)
        self._go_on()

    def term_ended(self, role: SimRole) -> None:
        """A term of this broker as the controller is over."""
        if self.role is role:
            self.role = None
        self.lifecycle.term_ended(role.term.epoch)
        self._go_on()

    # -- the connection to the controller -----------------------------------------------------------------------------------

    def _connect(self, step: to_do.Connect) -> None:
        world, lifecycle = self.broker.world, self.lifecycle
        connection = ControllerConnection(self.broker.id, step.controller, world.now)

        def connected() -> list[Effect]:
            connection.heard = world.now
            self.connection = connection
            return lifecycle.connected()

        def accept(controller: SimBroker, reply: Reply) -> None:
            del controller
            reply(None)

        world.network.request(
            self.broker.id,
            step.controller,
            accept,
            lambda _: self._done(step, connected),
            lambda: self._done(step, lifecycle.connection_refused),
        )
        self.broker.later(step.seconds, lambda: self._done(step, lambda: lifecycle.connect_failed(world.now)))

    def hang_up(self) -> None:
        """Close the connection; the controller sees it, as far as the links let that through."""
        connection, self.connection = self.connection, None
        if connection is not None:
            world = self.broker.world
            controller = world.brokers[connection.controller]
            world.close_at(self.broker.id, controller, lambda: controller.connection_closed(connection))

    def connection_closed(self, connection: ControllerConnection) -> None:
        """The other side has closed it, or it gave no answer for too long."""
        if connection is self.connection:
            self.hang_up()
            self.lifecycle.disconnected()
            self._go_on()

    def ask_controller(self, decide: Decide, reply: Callable[[Any], None]) -> None:
        """Of the own term, or over the connection; the answer is a KafkaError NOT_CONTROLLER when there is nobody to ask."""
        if self.role is not None:
            self.role.submit(decide, reply)
        elif self.connection is None:
            reply(NOT_CONTROLLER)
        else:
            self._request(self.connection, decide, reply, None)

    def _request(
        self, connection: ControllerConnection, decide: Decide, reply: Callable[[Any], None], heard: Heartbeats | None
    ) -> None:
        """A request that has no answer within a session closes the connection, unless others have one."""
        broker, world, asked = self.broker, self.broker.world, self.broker.world.now

        def serve(controller: SimBroker, answer: Reply) -> None:
            controller.serve_broker(connection, heard, decide, answer)

        def answered(value: Any) -> None:
            connection.heard = world.now
            reply(value)

        def late() -> None:
            if connection.heard <= asked:
                self.connection_closed(connection)

        def closed() -> None:
            self.connection_closed(connection)
            reply(NOT_CONTROLLER)

        world.network.request(broker.id, connection.controller, serve, answered, closed)
        broker.later(world.session, late)

    def _ask(self, step: to_do.Register | to_do.Heartbeat, decide: Decide, took: Callable[[Any], list[Effect]]) -> None:
        def reply(answer: Any) -> None:
            self._done(step, lambda: took(answer))

        if self.role is not None:
            self.role.submit(decide, reply)
            return
        if self.connection is None:
            reply(NOT_CONTROLLER)
            return
        heard = Heartbeats(self.broker.id, step.broker_epoch, -1) if isinstance(step, to_do.Heartbeat) else None
        self._request(self.connection, decide, reply, heard)
        if step.seconds is not None:
            self.broker.later(step.seconds, lambda: self._done(step, self.lifecycle.unanswered))

    def _register(self, step: to_do.Register) -> None:
        broker, world = self.broker, self.broker.world
        registration = Registration(
            broker.id,
            CLUSTER_ID,
            step.incarnation,
            ((LISTENER, "sim", broker.id),),
            None,
            step.previous_broker_epoch,
        )

        def took(answer: Any) -> list[Effect]:
            error, epoch = (answer.code, -1) if isinstance(answer, KafkaError) else answer
            return self.lifecycle.registered(error, epoch, world.now)

        self._ask(step, lambda c: c.brokers.register(registration, world.now), took)

    def _heartbeat(self, step: to_do.Heartbeat) -> None:
        broker, world = self.broker, self.broker.world

        def took(answer: Any) -> list[Effect]:
            told = HeartbeatAnswer(answer.code) if isinstance(answer, KafkaError) else answer
            return self.lifecycle.heartbeat_answered(told, world.now)

        self._ask(
            step,
            lambda c: c.brokers.heartbeat(
                broker.id, step.broker_epoch, step.want_fence, step.want_shut_down, world.now
            ),
            took,
        )
