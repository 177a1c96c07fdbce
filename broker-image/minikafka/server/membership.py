"""A broker's place in the cluster: who is the controller, am I it, does it know that I live (R15, KIP-631).

The controller's lease lies in the store. A broker connects to the lease's holder and heartbeats over that connection. When
the connection is refused the holder's process is gone, and the lease is taken at once; when the holder is merely silent,
it is taken after a session. Taking it wrongly is harmless: the epoch in every write decides who the controller is.

A controller that hears fewer than half of the brokers leaves the lease to the others for a while
(:mod:`minikafka.controller.standing_back`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from minikafka.controller.brokers import HeartbeatAnswer, Registration
from minikafka.controller.standing_back import StandingBack
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import ClusterStore, Lease, StoreError
from minikafka.protocol import messages
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.replication.isr_requests import RETRY_SECONDS, IsrRequests
from minikafka.server.controller_role import COMPONENT as CONTROLLER
from minikafka.server.controller_role import ControllerRole
from minikafka.server.peer import PeerClosed, PeerConnection, connect

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

BROKER_REGISTRATION, BROKER_HEARTBEAT, ALTER_PARTITION = 62, 63, 56
STAND_BACK_LOOK_SECONDS = 0.5
FORWARD_SECONDS_MAX = 5.0
PLAINTEXT = 0


class Membership:
    """Runs for the life of the broker."""

    def __init__(self, broker: Broker, store: ClusterStore) -> None:
        self.broker = broker
        self.store = store
        self.incarnation = uuid4()
        self.role: ControllerRole | None = None
        self.controller_id = -1
        self.controller_epoch = 0
        self.broker_epoch = -1
        self.should_shut_down = asyncio.Event()
        self.want_fence = True
        self.want_shut_down = False
        self._connection: PeerConnection | None = None
        self._forwarder: PeerConnection | None = None
        self._forwarder_to = ("", 0)
        self._poked = asyncio.Event()
        self._seen: tuple[int, int] = (-1, -1)
        self._seen_at = time.monotonic()
        self._standing_back = StandingBack(broker.config.broker_session_timeout_ms / 1000)
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._task = self.broker.supervisor.repeat("membership", self._round)

    async def stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._connection is not None:
            self._connection.close()
        self._drop_forwarder()
        if self.role is not None:
            await self.role.stop("broker stops")
            self.role = None

    def poke(self) -> None:
        """Heartbeat now: something in it has changed."""
        self._poked.set()

    # -- finding the controller ---------------------------------------------------------------------------------------

    async def _round(self) -> None:
        """Look who holds the lease, and live under it for as long as that is so."""
        try:
            lease = await self.store.lease()
            if lease is None or (lease.holder == self.broker.broker_id and not self._is_mine(lease)):
                if self._standing_back.waits(time.monotonic()):
                    await asyncio.sleep(STAND_BACK_LOOK_SECONDS)
                else:
                    await self._take(lease)
                return
            self._look_at(lease)
            if self._is_mine(lease):
                await self._lead()
            else:
                await self._follow(lease)
        except StoreError as error:
            self.broker.housekeeping.complain("store", f"cluster store: {error}")
            await asyncio.sleep(RETRY_SECONDS * 4)
        except KafkaError:
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, lease: Lease) -> None:
        """Live under another controller. One that says it is none, and renews no lease, has resigned: its term is free."""
        try:
            await self._serve_under(lease)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER or not self._is_silent():
                raise
            await self._take(lease)

    def fence(self) -> None:
        """Have others lead what this broker leads, until :attr:`want_fence` is taken back."""
        self.want_fence = True
        self.poke()

    def give_up(self, reason: str) -> None:
        """Have others lead what this broker leads, and be the controller, until :attr:`want_fence` is taken back."""
        if self.role is not None:
            self.role.resign(reason)
        self.fence()

    def _is_mine(self, lease: Lease) -> bool:
        return self.role is not None and self.role.lease.epoch == lease.epoch and not self.role.over.is_set()

    def _look_at(self, lease: Lease) -> None:
        """Note who holds the lease, and when it last showed a sign of life."""
        self.controller_id, self.controller_epoch = lease.holder, lease.epoch
        if self._seen != (lease.epoch, lease.renewed):
            self._seen = (lease.epoch, lease.renewed)
            self._seen_at = time.monotonic()

    def _is_silent(self) -> bool:
        return time.monotonic() - self._seen_at > self.broker.config.broker_session_timeout_ms / 1000

    async def _take(self, old: Lease | None) -> None:
        """Try to become the controller; the image is read *after* the lease is ours, so that no older write is missed."""
        host, port = self.broker.inter_broker_address()
        lease = await self.store.acquire(self.broker.broker_id, host, port, old.epoch if old else 0)
        if lease is None:
            return
        snapshot = await self.store.snapshot()
        image = ClusterImage(self.broker.image.cluster_id)
        for key, value in snapshot.records.items():
            image.apply(key, value)
        image.revision = snapshot.revision
        if self.role is not None:
            await self.role.stop("a new term began")
        self.role = ControllerRole(self.broker, self.store, lease, image, self._standing_back)
        self.role.start()
        self.controller_id, self.controller_epoch = lease.holder, lease.epoch
        self.broker.events.emit("controller_elected", controller_epoch=lease.epoch)
        self.broker.stats.active_controller = 1

    # -- life under a controller ----------------------------------------------------------------------------------------

    async def _lead(self) -> None:
        """Be the controller and its own first broker."""
        assert self.role is not None
        role = self.role
        try:
            while not role.over.is_set() and not self._stopped:
                await self._beat(None)
        finally:
            if role.over.is_set():
                self.broker.stats.active_controller = 0
                self.role = None

    async def _serve_under(self, lease: Lease) -> None:
        timeout = max(self.broker.config.broker_heartbeat_interval_ms / 1000, 0.1)
        try:
            # Its end is felt at once, not when the next heartbeat is due.
            connection = await connect(
                lease.host,
                lease.port,
                self.broker.client_id("heartbeat"),
                timeout,
                self._answer_seconds_max(),
                self.poke,
            )
        except ConnectionRefusedError:
            await self._take(lease)
            return
        except (OSError, TimeoutError):
            if self._is_silent():
                await self._take(lease)
            else:
                await asyncio.sleep(RETRY_SECONDS)
            return
        self._connection = connection
        self.broker.supervisor.clear(CONTROLLER)  # another broker is, so it is nobody's loss that this one could not be
        try:
            while connection.is_open and not self._stopped:
                try:
                    async with asyncio.timeout(timeout * 2):
                        await self._beat(connection)
                except TimeoutError:
                    try:
                        current = await self.store.lease()
                    except StoreError:
                        continue  # nobody else can take the lease now; and to hang up would look like our death
                    if current is None or current.epoch != lease.epoch:
                        return
                    self._look_at(current)
                    if self._is_silent():
                        await self._take(current)
                        return
        except PeerClosed:
            return
        finally:
            self._connection = None
            if connection.timed_out:
                self.broker.told_nothing(f"the controller, broker {lease.holder}", lease.host, lease.port)
            connection.close()

    def _answer_seconds_max(self) -> float:
        """A heartbeat that has no answer within a session has none in time, whatever ``request.timeout.ms`` is."""
        config = self.broker.config
        return min(config.request_timeout_ms, config.broker_session_timeout_ms) / 1000

    async def _beat(self, connection: PeerConnection | None) -> None:
        """Register if need be, heartbeat, then wait for the next one or a poke."""
        self._poked.clear()
        if self.broker_epoch < 0:
            await self._register(connection)
        answer = await self._heartbeat(connection)
        if answer.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.broker_epoch = -1
            self.incarnation = uuid4()
            self.broker.registration_lost()
            return
        if answer.error:
            raise KafkaError(answer.error)
        if answer.should_shut_down:
            self.should_shut_down.set()
        try:
            async with asyncio.timeout(self.broker.config.broker_heartbeat_interval_ms / 1000):
                await self._poked.wait()
        except TimeoutError:
            return

    async def _register(self, connection: PeerConnection | None) -> None:
        broker = self.broker
        if connection is None:
            registration = Registration(
                broker.broker_id,
                broker.image.cluster_id,
                str(self.incarnation),
                broker.advertised_endpoints(),
                broker.config.broker_rack or None,
                broker.previous_broker_epoch,
            )
            assert self.role is not None
            error, epoch = await self.role.submit(lambda c: c.brokers.register(registration, time.monotonic()))
        else:
            answer = await connection.request(
                BROKER_REGISTRATION,
                3,
                {
                    "broker_id": broker.broker_id,
                    "cluster_id": broker.image.cluster_id,
                    "incarnation_id": self.incarnation,
                    "listeners": [
                        {"name": name, "host": host, "port": port, "security_protocol": PLAINTEXT}
                        for name, host, port in broker.advertised_endpoints()
                    ],
                    "rack": broker.config.broker_rack or None,
                    "previous_broker_epoch": broker.previous_broker_epoch,
                },
            )
            error, epoch = ErrorCode(int(answer.error_code)), answer.broker_epoch
        if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            broker.warn(f"node.id {broker.broker_id} is in use by another live broker of this cluster; trying again")
        if error:
            await asyncio.sleep(RETRY_SECONDS * 2)
            raise KafkaError(error)
        self.broker_epoch = epoch
        broker.registered(epoch)

    async def _heartbeat(self, connection: PeerConnection | None) -> HeartbeatAnswer:
        broker_id, epoch = self.broker.broker_id, self.broker_epoch
        fence, shut_down = self.want_fence, self.want_shut_down
        if connection is None:
            assert self.role is not None
            return await self.role.submit(
                lambda c: c.brokers.heartbeat(broker_id, epoch, fence, shut_down, time.monotonic())
            )
        answer = await connection.request(
            BROKER_HEARTBEAT,
            1,
            {
                "broker_id": broker_id,
                "broker_epoch": epoch,
                "current_metadata_offset": self.broker.image.revision,
                "want_fence": fence,
                "want_shut_down": shut_down,
            },
        )
        return HeartbeatAnswer(ErrorCode(int(answer.error_code)), answer.is_fenced, answer.should_shut_down)

    # -- requests for the controller --------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this broker is the controller."""
        return self.role is not None and not self.role.over.is_set()

    async def call(self, api_key: int, version: int, values: Mapping[str, Any]) -> messages.Entity:
        """Ask the controller something as a client; raises KafkaError NOT_CONTROLLER when it cannot be reached."""
        body = messages.encode_request(api_key, version, values)
        return messages.decode_response(api_key, version, await self.forward(api_key, version, body))

    async def forward(self, api_key: int, version: int, body: bytes) -> bytes:
        """Pass a client's request on to the controller as it is, as KRaft brokers do (KIP-590); the body of the answer.

        Raises:
            KafkaError: NOT_CONTROLLER when there is none to be reached; whether it was carried out is then unknown.
        """
        unreachable = KafkaError(ErrorCode.NOT_CONTROLLER, "the controller cannot be reached")
        address = self.broker.address_of(self.controller_id)
        if address is None or self.controller_id == self.broker.broker_id:
            raise unreachable
        try:
            async with asyncio.timeout(FORWARD_SECONDS_MAX):
                if self._forwarder is None or not self._forwarder.is_open or self._forwarder_to != address:
                    self._drop_forwarder()
                    self._forwarder = await connect(
                        *address,
                        self.broker.client_id("forwarder"),
                        FORWARD_SECONDS_MAX,
                        self.broker.config.request_timeout_ms / 1000,
                    )
                    self._forwarder_to = address
                return await self._forwarder.request_raw(api_key, version, body)
        except (OSError, TimeoutError) as error:
            self._drop_forwarder()
            raise unreachable from error

    def _drop_forwarder(self) -> None:
        if self._forwarder is not None:
            self._forwarder.close()
            self._forwarder = None

    # -- ISR changes ------------------------------------------------------------------------------------------------------

    async def alter_partitions(self, proposals: list[IsrProposal]) -> list[AlterPartitionAnswer] | None:
        """Ask the controller; None when the outcome is unknown or there is no controller to ask."""
        epoch = self.broker_epoch
        if self.role is not None and not self.role.over.is_set():
            broker_id = self.broker.broker_id
            return await self.role.submit(lambda c: [c.partitions.alter(broker_id, epoch, p) for p in proposals])
        connection = self._connection
        if connection is None or not connection.is_open:
            return None
        answer = await connection.request(ALTER_PARTITION, 3, _alter_request(self.broker.broker_id, epoch, proposals))
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


class AlterPartitionSender:
    """Sends what :class:`~minikafka.replication.isr_requests.IsrRequests` has to ask for (R10)."""

    def __init__(self, broker: Broker, membership: Membership) -> None:
        self._broker = broker
        self._membership = membership
        self._requests = IsrRequests()
        self._task: asyncio.Task[bool] | None = None

    def propose(self, proposal: IsrProposal) -> None:
        self._requests.propose(proposal)
        if self._task is None:
            self._task = self._broker.supervisor.once("ISR changes", self._send)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send(self) -> None:
        try:
            while batch := self._requests.next_request():
                answers: list[AlterPartitionAnswer] | None = None
                try:
                    answers = await self._membership.alter_partitions(batch)
                except (PeerClosed, KafkaError):
                    pass  # unknown outcome, or a controller that has just resigned: the same proposal again
                except Exception as error:  # a leader whose proposal is never answered could not propose again
                    self._broker.supervisor.report("ISR changes", error)
                if self._requests.answered(batch, answers, self._answered):
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._task = None

    def _answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
        try:
            return self._broker.isr_answered(proposal, answer)
        except Exception as error:  # the other proposals have answers too
            self._broker.supervisor.report("ISR changes", error)
            return True
