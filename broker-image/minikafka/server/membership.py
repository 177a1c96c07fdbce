"""Carries what :class:`~minikafka.membership.lifecycle.BrokerLifecycle` wants done next, and requests to the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from minikafka.controller.brokers import HeartbeatAnswer, Registration
from minikafka.controller.heartbeats import Heartbeats
from minikafka.controller.resignation import ControllerResignation
from minikafka.membership import lifecycle as to_do
from minikafka.membership.lifecycle import BrokerLifecycle, Effect, LifecycleSettings
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import ClusterStore, Lease, StoreError
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.replication.isr_requests import RETRY_SECONDS, IsrRequests
from minikafka.server.context import BrokerContext
from minikafka.server.controller_contact import ControllerContact
from minikafka.server.controller_role import COMPONENT as CONTROLLER
from minikafka.server.controller_role import ControllerRole, Reconcile
from minikafka.server.forwarding import Forwarding
from minikafka.server.metadata_cache import MetadataCache
from minikafka.transport.listeners import Listeners
from minikafka.transport.peer import PeerClosed, PeerConnection

NOT_A_BROKER = (
    "the controller does not take this broker for one: its principal needs CLUSTER_ACTION; name it in super.users of all "
    "brokers, or make an ACL"
)


class Membership:
    """Runs for the life of the broker.

    Args:
        context: see there.
        store: has the controller's lease.
        metadata: what is known of the cluster.
        listeners: where others find this broker.
        reconcile: what the controller's broker does beside; None: nothing.
        registered: told that the controller has admitted this broker; the image may already know.
        registration_lost: told that the controller does not know this incarnation: until it is registered again it leads nothing.
    """

    def __init__(
        self,
        context: BrokerContext,
        store: ClusterStore,
        metadata: MetadataCache,
        listeners: Listeners,
        reconcile: Reconcile | None,
        registered: Callable[[], None],
        registration_lost: Callable[[], None],
    ) -> None:
        config = context.config
        self.context = context
        self.store = store
        self._metadata = metadata
        self._listeners = listeners
        self._reconcile = reconcile
        self._registered = registered
        self._registration_lost = registration_lost
        self.role: ControllerRole | None = None
        self.should_shut_down = asyncio.Event()
        self._resignation = ControllerResignation(config.broker_session_timeout_ms / 1000)
        self.lifecycle = BrokerLifecycle(
            context.broker_id,
            LifecycleSettings(config.broker_heartbeat_interval_ms / 1000, config.broker_session_timeout_ms / 1000),
            self._resignation,
            lambda: str(context.machine.new_id()),
            context.clock.now(),
        )
        self._contact = ControllerContact(context.health, config.broker_session_timeout_ms / 1000, context.clock.now())
        self._connection: PeerConnection | None = None
        self._forwarding = Forwarding(context)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, previous_broker_epoch: int = -1) -> None:
        """The cluster's id is known, and what the last incarnation left behind."""
        self.lifecycle.cluster_id = self._metadata.image.cluster_id
        self.lifecycle.previous_broker_epoch = previous_broker_epoch
        self._task = self.context.supervisor.repeat("membership", self._step)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._disconnect()
        self._forwarding.close()
        if self.role is not None:
            await self.role.stop("broker stops")

    # -- what the broker wants ----------------------------------------------------------------------------------------------

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    @property
    def controller_id(self) -> int:
        return self.lifecycle.controller_id

    @property
    def controller_epoch(self) -> int:
        return self.lifecycle.controller_epoch

    def fence(self) -> None:
        """Have others lead what this broker leads, until the replicas are settled."""
        self.lifecycle.fence()
        self._changed.set()

    def give_up(self, reason: str) -> None:
        """Have others lead what this broker leads, and be the controller, until the replicas are settled."""
        if self.role is not None:
            self.role.resign(reason)
        self.fence()

    def shut_down(self) -> None:
        """Begin the controlled shutdown."""
        self.lifecycle.shut_down()
        self._changed.set()

    def replicas_settled(self, leads_in_name_only: bool, has_offline_logs: bool) -> None:
        """Replicas match the image; if all of them can, this broker may lead."""
        self.lifecycle.replicas_settled(leads_in_name_only, has_offline_logs)
        self._changed.set()

    def heartbeats_ended(self, lost: Heartbeats) -> None:
        """The connection that carried a broker's heartbeats has ended: the controller, if it is here, takes it for dead."""
        if self.role is not None:
            self.role.connection_lost(lost)

    def term_ended(self, role: ControllerRole) -> None:
        """A term of this broker as the controller is over."""
        if self.role is role:
            self.role = None
            self.context.stats.active_controller = 0
        self.lifecycle.term_ended(role.controller_epoch)
        self._changed.set()

    # -- one step after the other -------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        """Do what is to be done next. Raises what nobody expected; then all begins anew, for a term that could not begin is none:
        nobody would renew its lease."""
        self._changed.clear()
        self._contact.look(self.context.clock.now())
        try:
            await self._carry_out(await self._take(self.lifecycle.step))
        except Exception:
            await self._carry_out(self.lifecycle.failed())
            raise

    async def _take(self, step: to_do.Step) -> list[Effect]:
        """What follows from a step."""
        lifecycle = self.lifecycle
        try:
            match step:
                case to_do.ReadLease():
                    lease = await self.store.lease()
                    return lifecycle.lease_read(lease, self.context.clock.now())
                case to_do.TakeLease():
                    host, port = self._listeners.inter_broker()
                    lease = await self.store.acquire(self.context.broker_id, host, port, step.expected_epoch)
                    return lifecycle.lease_taken(lease)
                case to_do.ReadSnapshot():
                    snapshot = await self.store.snapshot()
                    return lifecycle.snapshot_read(step.lease, snapshot, self.context.clock.now())
                case to_do.Connect():
                    return await self._connect(step)
                case to_do.Register() | to_do.Heartbeat():
                    return await self._ask(step)
                case to_do.Wait():
                    return await self._wait(step)
        except StoreError as error:
            self.context.warn_rarely("store", f"cluster store: {error}")
            self._contact.store_failed(str(error))
            return lifecycle.store_failed()

    async def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case to_do.TermBegins():
                    await self._begin_term(effect.lease, effect.image)
                case to_do.TermIsOver():
                    if self.role is not None:
                        await self.role.stop(effect.reason)
                case to_do.Registered():
                    self._registered()
                case to_do.RegistrationLost():
                    self._registration_lost()
                case to_do.IdInUse():
                    self.context.warn(
                        f"node.id {self.context.broker_id} is in use by another live broker of this cluster; trying again"
                    )
                case to_do.MayStop():
                    self.should_shut_down.set()
                case to_do.Disconnect():
                    self._disconnect()

    async def _begin_term(self, lease: Lease, image: ClusterImage) -> None:
        if self.role is not None:
            await self.role.stop("a new term began")
        self.role = ControllerRole(
            self.context, self.store, self._metadata, lease, image, self._resignation, self.term_ended, self._reconcile
        )
        self.role.start()
        self.context.events.emit("controller_elected", controller_epoch=lease.epoch)
        self.context.stats.active_controller = 1

    async def _wait(self, step: to_do.Wait) -> list[Effect]:
        """Until the step is another one: what changes it without being asked rings the bell."""
        try:
            async with asyncio.timeout(step.seconds):
                while self.lifecycle.step is step:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return self.lifecycle.waited()
        return []

    # -- the connection to the controller -----------------------------------------------------------------------------------

    async def _connect(self, step: to_do.Connect) -> list[Effect]:
        connection: PeerConnection | None = None

        def closed() -> None:
            """Felt at once, not when the next heartbeat is due."""
            if connection is not None and connection is self._connection:
                self._connection = None
                if connection.timed_out:
                    self.context.heard_nothing_from(f"the controller, broker {step.controller}", step.host, step.port)
                self.lifecycle.disconnected()
                self._changed.set()

        try:
            connection = await self.context.channels.connect(
                step.host,
                step.port,
                self.context.client_id("heartbeat"),
                step.seconds,
                self._answer_seconds_max(),
                closed,
            )
        except ConnectionRefusedError:
            return self.lifecycle.connection_refused()
        except (OSError, TimeoutError):
            return self.lifecycle.connect_failed(self.context.clock.now())
        self._connection = connection
        self.context.supervisor.clear(
            CONTROLLER
        )  # another broker is, so it is nobody's loss that this one could not be
        effects = self.lifecycle.connected()
        if not connection.is_open:
            closed()
        return effects

    def _answer_seconds_max(self) -> float:
        """A heartbeat that has no answer within a session has none in time, whatever ``request.timeout.ms`` is."""
        config = self.context.config
        return min(config.request_timeout_ms, config.broker_session_timeout_ms) / 1000

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _ask(self, step: to_do.Register | to_do.Heartbeat) -> list[Effect]:
        """Of the own term, or over the connection."""
        lifecycle = self.lifecycle
        try:
            async with asyncio.timeout(step.seconds):
                if isinstance(step, to_do.Register):
                    error, epoch = await self._register(step)
                    self._heard(error)
                    return lifecycle.registered(error, epoch, self.context.clock.now())
                answer = await self._heartbeat(step)
        except TimeoutError:
            return lifecycle.unanswered()
        except PeerClosed:
            return []  # it was told as the connection closed
        except KafkaError as refused:
            if isinstance(step, to_do.Register):
                return lifecycle.registered(refused.code, -1, self.context.clock.now())
            answer = HeartbeatAnswer(refused.code)
        self._heard(answer.error)
        return lifecycle.heartbeat_answered(answer, self.context.clock.now())

    def _heard(self, error: ErrorCode) -> None:
        """Of a controller, whatever it has said; unless it is none. The own term counts for as long as its lease is renewed."""
        if self.role is not None:
            self._contact.answered(self.role.renewed_at)
            if self.role.renewal_problem:
                self._contact.store_failed(self.role.renewal_problem)
        elif error is not ErrorCode.NOT_CONTROLLER:
            self._contact.answered(self.context.clock.now())
            self._forwarding.answered(self._controller_address())
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self.context.warn_rarely("cluster action", NOT_A_BROKER)

    def _controller(self) -> PeerConnection:
        """Raises KafkaError NOT_CONTROLLER when there is nobody to ask: an own term that ends before the step comes to it."""
        if self._connection is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no connection to the controller")
        return self._connection

    async def _register(self, step: to_do.Register) -> tuple[ErrorCode, int]:
        context, cluster_id = self.context, self._metadata.image.cluster_id
        if self.role is not None:
            registration = Registration(
                context.broker_id,
                cluster_id,
                step.incarnation,
                self._listeners.advertised(),
                context.config.broker_rack or None,
                step.previous_broker_epoch,
            )
            return await self.role.submit(lambda c: c.brokers.register(registration, context.clock.now()))
        answer = await self._controller().request(
            ApiKey.BROKER_REGISTRATION,
            3,
            {
                "broker_id": context.broker_id,
                "cluster_id": cluster_id,
                "incarnation_id": UUID(step.incarnation),
                "listeners": [
                    {
                        "name": name,
                        "host": host,
                        "port": port,
                        "security_protocol": context.config.security(name).protocol_number,
                    }
                    for name, host, port in self._listeners.advertised()
                ],
                "rack": context.config.broker_rack or None,
                "previous_broker_epoch": step.previous_broker_epoch,
            },
        )
        return ErrorCode(int(answer.error_code)), answer.broker_epoch

    async def _heartbeat(self, step: to_do.Heartbeat) -> HeartbeatAnswer:
        broker_id, epoch = self.context.broker_id, step.broker_epoch
        fence, shut_down = step.want_fence, step.want_shut_down
        if self.role is not None:
            return await self.role.submit(
                lambda c: c.brokers.heartbeat(broker_id, epoch, fence, shut_down, self.context.clock.now())
            )
        answer = await self._controller().request(
            ApiKey.BROKER_HEARTBEAT,
            1,
            {
                "broker_id": broker_id,
                "broker_epoch": epoch,
                "current_metadata_offset": self._metadata.image.revision,
                "want_fence": fence,
                "want_shut_down": shut_down,
            },
        )
        return HeartbeatAnswer(ErrorCode(int(answer.error_code)), answer.is_fenced, answer.should_shut_down)

    # -- requests for the controller --------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this broker is the controller."""
        return self.role is not None

    async def call(self, api_key: int, version: int, values: Mapping[str, Any], principal: str = "") -> messages.Entity:
        """Ask the controller something for ``principal``; raises KafkaError NOT_CONTROLLER when it cannot be reached."""
        body = messages.encode_request(api_key, version, values)
        answer = await self.forward(api_key, version, body, principal=principal)
        return messages.decode_response(api_key, version, answer)

    async def forward(
        self, api_key: int, version: int, body: bytes, client_id: str | None = None, principal: str = ""
    ) -> bytes:
        """Pass a client's request on to the controller: see :meth:`Forwarding.request`."""
        address = self._controller_address()
        return await self._forwarding.request(address, principal, api_key, version, body, client_id)

    def _controller_address(self) -> tuple[str, int] | None:
        """None: it is here, or nowhere."""
        is_here = self.controller_id == self.context.broker_id
        return None if is_here else self._metadata.address_of(self.controller_id)

    # -- ISR changes ------------------------------------------------------------------------------------------------------

    async def alter_partitions(self, proposals: list[IsrProposal]) -> list[AlterPartitionAnswer] | None:
        """Ask the controller; None when the outcome is unknown or there is no controller to ask."""
        epoch = self.broker_epoch
        if self.role is not None:
            broker_id = self.context.broker_id
            return await self.role.submit(lambda c: [c.partitions.alter(broker_id, epoch, p) for p in proposals])
        connection = self._connection
        if connection is None or not connection.is_open:
            return None
        answer = await connection.request(
            ApiKey.ALTER_PARTITION, 3, _alter_request(self.context.broker_id, epoch, proposals)
        )
        top = ErrorCode(int(answer.error_code))
        if top is ErrorCode.NOT_CONTROLLER:
            return None
        if top:
            return [AlterPartitionAnswer(top)] * len(proposals)
        found = {(t.topic_id, p.partition_index): p for t in answer.topics for p in t.partitions}
        return [_alter_answer(found.get((UUID(bytes=p.topic_id), p.topic_partition.partition))) for p in proposals]


def _alter_request(broker_id: int, broker_epoch: int, proposals: list[IsrProposal]) -> dict[str, Any]:
    topics: dict[bytes, list[dict[str, Any]]] = {}
    for proposal in proposals:
        topics.setdefault(proposal.topic_id, []).append(
            {
                "partition_index": proposal.topic_partition.partition,
                "leader_epoch": proposal.leader_epoch,
                "new_isr_with_epochs": [{"broker_id": b, "broker_epoch": e} for b, e in proposal.isr],
                "leader_recovery_state": proposal.recovery_state,
                "partition_epoch": proposal.partition_epoch,
            }
        )
    return {
        "broker_id": broker_id,
        "broker_epoch": broker_epoch,
        "topics": [{"topic_id": UUID(bytes=t), "partitions": parts} for t, parts in topics.items()],
    }


def _alter_answer(part: Any) -> AlterPartitionAnswer:
    if part is None:
        return AlterPartitionAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
    return AlterPartitionAnswer(
        ErrorCode(int(part.error_code)), part.leader_epoch, part.partition_epoch, tuple(part.isr)
    )


Asks = Callable[[list[IsrProposal]], Awaitable[list[AlterPartitionAnswer] | None]]


class AlterPartitionSender:
    """Sends what :class:`~minikafka.replication.isr_requests.IsrRequests` has to ask for (R10).

    Args:
        context: see there.
        ask: has the controller asked.
        answered: given each answer (None: unknown outcome); True to ask again.
    """

    def __init__(
        self, context: BrokerContext, ask: Asks, answered: Callable[[IsrProposal, AlterPartitionAnswer | None], bool]
    ) -> None:
        self._context = context
        self._ask = ask
        self._take = answered
        self._requests = IsrRequests()
        self._task: asyncio.Task[bool] | None = None

    def propose(self, proposal: IsrProposal) -> None:
        self._context.observer.isr_proposed(proposal)
        self._requests.propose(proposal)
        if self._task is None:
            self._task = self._context.supervisor.once("ISR changes", self._send)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send(self) -> None:
        try:
            while batch := self._requests.next_request():
                answers: list[AlterPartitionAnswer] | None = None
                try:
                    answers = await self._ask(batch)
                except (PeerClosed, KafkaError):
                    pass  # unknown outcome, or a controller that has just resigned: the same proposal again
                except Exception as error:  # a leader whose proposal is never answered could not propose again
                    self._context.supervisor.report("ISR changes", error)
                if self._requests.answered(batch, answers, self._answered):
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._task = None

    def _answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
        try:
            return self._take(proposal, answer)
        except Exception as error:  # the other proposals have answers too
            self._context.supervisor.report("ISR changes", error)
            return True
