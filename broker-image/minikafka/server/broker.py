"""The broker: wires log, replication, controller, store and listeners together, and owns their lives."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from minikafka import __version__
from minikafka.config import BrokerConfig, ConfigError
from minikafka.controller.heartbeats import Heartbeats
from minikafka.controller.topics import NewTopic
from minikafka.log.errors import LogDirFailure, LogError
from minikafka.log.manager import LogManager
from minikafka.metadata.image import CLUSTER_CONFIG, MIN_ISR, ClusterImage, TopicState
from minikafka.metadata.store import ClusterStore, StoreError, StoreWentBackError
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.fetch import TopicKey
from minikafka.replication.fetch_loop import FetcherPool
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.server.api import load_handlers
from minikafka.server.api.fetch import FOLLOWER_FETCH
from minikafka.server.connection import API_VERSIONS, PRODUCE, ClientConnection
from minikafka.server.connections import ConnectionRegistry
from minikafka.server.controller_role import ControllerRole
from minikafka.server.fetchers import ReplicaFetcher
from minikafka.server.group_service import GroupService
from minikafka.server.health import Health
from minikafka.server.hosting import PartitionHost
from minikafka.server.housekeeping import Housekeeping
from minikafka.server.http import MetricsServer
from minikafka.server.machine import Machine
from minikafka.server.membership import AlterPartitionSender, Membership
from minikafka.server.observation import observe
from minikafka.server.offline_logs import LogDirShell
from minikafka.server.parts import Parts
from minikafka.server.readiness import Readiness
from minikafka.server.supervision import Supervisor
from minikafka.telemetry.console import tell
from minikafka.telemetry.exposition import BrokerCollector
from minikafka.telemetry.stats import BrokerStats, ReplicaStatus

SHUTDOWN_SECONDS_MAX = 10.0
"""How long a controlled shutdown may take before the broker stops anyway."""

IMAGE_WAIT_SECONDS = 1.0

SUSPECT_SECONDS = 0.2
"""How long an answer to Metadata may wait for the successor of a leader whose connection has closed."""

FENCED_LISTED_SECONDS = 10.0
"""How long Metadata still lists a broker after it was fenced; longer than clients take to find the new leaders."""

CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 7
CALL_TIMEOUT_MS = 5_000

PRODUCER_ID_BLOCK = 1000
"""Kafka's ``ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE``."""

WATCH_SECONDS = 2.0
"""How long a lost bell of the store can go unnoticed."""


class Broker:
    """One broker process. ``start`` returns when it is registered and unfenced; ``stop`` is a controlled shutdown."""

    client_connection: type[ClientConnection] = ClientConnection
    controller_role: type[ControllerRole] = ControllerRole
    replica_fetcher: type[ReplicaFetcher] = ReplicaFetcher
    partition_host: type[PartitionHost] = PartitionHost
    its_housekeeping: type[Housekeeping] = Housekeeping
    log_dir_shell: type[LogDirShell] = LogDirShell

    def __init__(
        self, config: BrokerConfig, store: ClusterStore, machine: Machine | None = None, parts: Parts | None = None
    ) -> None:
        self.config = config
        self.broker_id: int = config.node_id
        self.store = store
        self.machine = machine or Machine()
        self.clock = self.machine.clock
        self.parts = parts or Parts()
        self.stats = BrokerStats()
        self.events = self.machine.events(config)
        self.health = Health(self.events.emit, self.clock.now)
        self.supervisor = Supervisor(self.health, self.handler_failed)
        self.image = ClusterImage("")
        self.handlers = load_handlers()
        self.membership = Membership(self, store)
        self.alter_sender = AlterPartitionSender(self, self.membership)
        self.replicas = self.parts.replica_manager(self.stats, self.alter_sender.propose, self.clock)
        self.replicas.exists = self.partition_exists
        self.replicas.hint = self.leader_hint
        self.replicas.log_failed = self.log_failed
        self._log_dir = self.log_dir_shell(self)
        self.offline_logs = self._log_dir.policy()
        self.fetchers = FetcherPool[HostedPartition](partial(self.replica_fetcher, self))
        self.host = self.partition_host(self)
        self.internal = self.parts.internal_log(self.replicas, self.log_failed)
        self.groups = GroupService.for_broker(self)
        self.housekeeping = self.its_housekeeping(self)
        self.replicas.flush_soon = self.housekeeping.flush_soon
        self.logs: LogManager
        self.ready = asyncio.Event()
        self.failure: str | None = None
        self.failed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._ports: dict[str, int] = {}
        self.connections = ConnectionRegistry(config, self.stats, self._broker_lost)
        self._metrics: MetricsServer | None = None
        self._ready_when = Readiness(
            self.broker_id, config.minikafka_ready_in_sync_timeout_ms / 1000, self.warn, self.clock.now
        )
        self._watcher: asyncio.Task[None] | None = None
        self._stopping = False
        self._image_changed = asyncio.Event()
        self._untaken: dict[str, Any] = {}
        self._producer_ids = (0, 0)
        self._last_alive: dict[int, float] = {}
        self._suspects: dict[int, float] = {}

    # -- life -----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open data, store and listeners, join the cluster.

        Raises:
            ConfigError, LogError, StoreError, OSError: with one line that says what is wrong; nothing is left running.
        """
        began = self.clock.now()
        self.events.emit("broker_starting", version=__version__, cluster_id=self.config.cluster_id or "")
        await self._listen()
        disk = self.machine.disk(self.config, self.warn)
        on_disk = LogManager.cluster_id_on_disk(self.config.log_dirs, disk)
        cluster_id = await self.store.open(self.config.cluster_id or on_disk)
        self.image = ClusterImage(cluster_id)
        self.logs = self.parts.log_manager.open(
            self.config.log_dirs,
            disk,
            cluster_id=cluster_id,
            node_id=self.broker_id,
            config_for=lambda _: self.config.topic({}).log_config(),
            now_ms=self.clock.unix_ms(),
            unflushed_dir=self.config.minikafka_unflushed_dir or None,
        )
        self.stats.clean_shutdown = int(self.logs.clean)
        self.stats.recovery_seconds = self.clock.now() - began
        self.offline_logs.logs = self.logs
        self.host.open(self.logs)
        self._image_changed.set()
        self.membership.start(self.logs.previous_broker_epoch)
        self._watcher = self.supervisor.repeat("cluster image", self._follow_image, failed=self._give_up)
        self.housekeeping.start()
        await self.ready.wait()
        listeners = [f"{n}://{h}:{p}" for n, h, p in self.advertised_endpoints()]
        self.events.emit("broker_ready", listeners=listeners, seconds=round(self.clock.now() - began, 4))

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for endpoint in self.config.listeners:
            try:
                server = await loop.create_server(
                    lambda name=endpoint.name: self.client_connection(self, name),
                    endpoint.host or None,
                    endpoint.port,
                    backlog=self.config.socket_listen_backlog_size,
                )
            except OSError as error:
                raise ConfigError(
                    f"listeners: cannot listen on {endpoint.host}:{endpoint.port} ({error.strerror or error})"
                ) from error
            self._servers.append(server)
            self._ports[endpoint.name] = server.sockets[0].getsockname()[1]
        if self.config.minikafka_metrics_port is not None:
            collector = BrokerCollector(
                self.stats,
                self.replica_statuses,
                api_names={key: spec.name for key, (spec, _) in self.handlers.items()}
                | {FOLLOWER_FETCH: "FetchFollower"},
                events=self.events,
                failed=self.health.problems,
            )
            self._metrics = MetricsServer(collector.render, self._health, self._readiness)
            host, port = self.config.minikafka_metrics_host, self.config.minikafka_metrics_port
            try:
                await self._metrics.start(host, port)
            except OSError as error:
                raise ConfigError(
                    f"minikafka.metrics.port: cannot listen on {host}:{port} ({error.strerror or error})"
                ) from error

    async def stop(self, reason: str = "asked to stop") -> None:
        """Move leaders away, stop serving, flush and close the logs; leaves the clean-shutdown marker."""
        if self._stopping:
            return
        self._stopping = True
        self.connections.refuse()
        self.events.emit("broker_stopping", reason=reason)
        if self.config.controlled_shutdown_enable and self.membership.broker_epoch >= 0:
            await self._controlled_shutdown()
        clean = await self.abort()
        self.events.emit("broker_stopped", clean=clean)
        self.events.close()

    async def _controlled_shutdown(self) -> None:
        self.membership.shut_down()
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS_MAX):
                await self.membership.should_shut_down.wait()
                while any(p.leader is not None for p in self.replicas.all()):
                    self._image_changed.clear()
                    if any(p.leader is not None for p in self.replicas.all()):
                        await self._image_changed.wait()
        except TimeoutError:
            self.warn("controlled shutdown took too long; stopping anyway")

    async def abort(self) -> bool:
        """Stop without asking anybody; True when all logs were flushed and closed."""
        for server in self._servers:
            server.close()
        await self.housekeeping.stop()
        self.offline_logs.stop()
        self._log_dir.stop()
        self.alter_sender.stop()
        self.fetchers.stop()
        self.groups.stop()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait((self._watcher,))
        self.connections.close_all()
        epoch = self.membership.broker_epoch
        await self.membership.stop()
        clean = False
        if hasattr(self, "logs"):
            try:
                clean = epoch >= 0 and self.failure is None
                self.logs.checkpoint_high_watermarks(self.host.high_watermarks())
                self.logs.close(clean=clean, broker_epoch=epoch)
            except (LogError, OSError) as error:
                clean = False
                self.warn(f"data directory: {error}")
        await self.store.close()
        if self._metrics is not None:
            await self._metrics.stop()
        return clean

    # -- the cluster image ------------------------------------------------------------------------------------------------

    async def _follow_image(self) -> None:
        """Take in what is new in the store, then wait for more.

        Nothing is hosted before our own registration is in the image: what is older may be untrue.
        """
        try:
            changes = await self.store.changes(self.image.revision)
            if changes.revision != self.image.revision:
                self._untaken.update(changes.records)
                for key, value in changes.records.items():
                    self.image.apply(key, value)
                self.image.revision = changes.revision
            if self._untaken or self.host.unsettled:
                self._took_changes(self._untaken)
                self._untaken = {}  # not before: whoever failed on them must see them again
            await self.store.wait(self.image.revision, WATCH_SECONDS)
        except StoreWentBackError as error:
            # What is led and followed here is of a history that the controllers to come know nothing of, and their changes
            # cannot be told from it. A new process takes the store as it is, and its logs as they are.
            self.fail(f"cluster store: {error}")
            await asyncio.sleep(WATCH_SECONDS)
        except StoreError as error:
            self.housekeeping.complain("store", f"cluster store: {error}")
            await asyncio.sleep(WATCH_SECONDS)

    def _give_up(self) -> None:
        """The image cannot be followed, so nobody here knows what this broker leads: others shall lead, in all its roles.

        The next image that is taken in ends it.
        """
        self.membership.give_up("cannot follow the cluster image")
        self.host.reset()

    def recently_fenced(self, broker_id: int) -> bool:
        """Whether a broker was seen alive less than :data:`FENCED_LISTED_SECONDS` ago."""
        seen = self._last_alive.get(broker_id)
        return seen is not None and self.clock.now() - seen < FENCED_LISTED_SECONDS

    def suspect(self, broker_id: int) -> None:
        """Our connection to a leader closed: it may be dead, and the controller about to say who leads now."""
        self._suspects[broker_id] = self.clock.now()

    async def wait_for_successors(self, leaders: Collection[int]) -> None:
        """Give the controller a moment to replace suspected leaders before clients are told of them.

        A client whose leader has died asks another broker at once. Told of the dead leader once more it believes that and
        asks again only after a second (librdkafka's ``topic.metadata.refresh`` timer); told 20 ms later it goes on.
        """
        # Let the loop read what the kernel already knows: the end of a dead leader's connection, too.
        for _ in range(2):
            await asyncio.sleep(0)
        deadline = self.clock.now() + SUSPECT_SECONDS
        while self.clock.now() < deadline and any(self._is_suspect(leader) for leader in leaders):
            self._image_changed.clear()
            try:
                async with asyncio.timeout(SUSPECT_SECONDS / 4):
                    await self._image_changed.wait()
            except TimeoutError:
                continue

    def _is_suspect(self, broker_id: int) -> bool:
        since = self._suspects.get(broker_id)
        if since is None:
            return False
        peer = self.image.brokers.get(broker_id)
        if peer is None or peer.fenced or self.clock.now() - since > SUSPECT_SECONDS:
            del self._suspects[broker_id]
            return False
        return True

    def _took_changes(self, records: Mapping[str, Any]) -> None:
        now = self.clock.now()
        for broker_id, fenced in [(b.broker_id, b.fenced) for b in self.image.brokers.values()]:
            if not fenced:
                self._last_alive[broker_id] = float("inf")
            elif self._last_alive.get(broker_id) == float("inf"):
                self._last_alive[broker_id] = now
        if CLUSTER_CONFIG in records:
            self._take_cluster_configs()
        me = self.membership.lifecycle.in_image(self.image)
        if me is not None:
            self.host.reconcile(records)
            self.membership.replicas_settled(bool(self.host.leads_in_name_only), bool(len(self.offline_logs)))
            self.stats.fenced = int(me.fenced)
            if not me.fenced:
                self.ready.set()
        self._image_changed.set()

    def look_again(self) -> None:
        """Reconcile with the image as it is, in the next round of events."""
        asyncio.get_running_loop().call_soon(self.supervisor.call, "cluster image", partial(self._took_changes, {}))

    @property
    def is_fenced(self) -> bool:
        """By the controller's word, which everybody else has as well."""
        return self.membership.lifecycle.is_fenced(self.image)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def fail(self, reason: str) -> None:
        """End the process (exit code 3), as one that crashed: its supervisor starts it again.

        Nobody is told anything more: what failed may be what the answers would be made of (Kafka halts).
        """
        self.failure = reason
        self.health.report("broker", reason)
        self.failed.set()
        self.connections.close_all()

    def _take_cluster_configs(self) -> None:
        """What must be the same on every broker comes from the image, not from this broker's file (KIP-966)."""
        value = self.image.cluster_configs.get(MIN_ISR)
        self.config.apply_dynamic({} if value is None else {MIN_ISR: value}, {})

    def registered(self) -> None:
        """The controller admitted us; the image may already know."""
        self._took_changes({})

    def registration_lost(self) -> None:
        """The controller does not know this incarnation: what we lead is not ours any more until we are registered again."""
        self.host.reset()

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch

    def partition_exists(self, key: TopicKey, index: int) -> bool:
        """Whether the cluster has such a partition, here or elsewhere."""
        topic = self.image.topics_by_id.get(key) if isinstance(key, bytes) else self.image.topics.get(key)
        return topic is not None and 0 <= index < len(topic.partitions)

    def check_topic_configs(self, configs: Mapping[str, str]) -> None:
        """Raises KafkaError INVALID_CONFIG for an override that is not allowed."""
        try:
            self.config.validate_topic_overrides(configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    # -- what handlers ask for ----------------------------------------------------------------------------------------------

    def require_controller(self) -> ControllerRole:
        """The controller role of this broker; raises KafkaError NOT_CONTROLLER when another broker has it."""
        role = self.membership.role
        if role is None:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"broker {self.membership.controller_id} is the controller, not this one"
            )
        return role

    async def create_topic(self, wish: NewTopic, validate_only: bool = False) -> TopicState:
        """Create a topic (as the controller) and wait until this broker's image shows it.

        Raises:
            KafkaError: the wish is refused, or NOT_CONTROLLER.
        """
        role = self.require_controller()
        topic = await role.submit(lambda c: c.topics.create(wish, validate_only))
        if not validate_only:
            await self.image_caught_up()
        return topic

    async def create_topic_anywhere(self, wish: NewTopic) -> None:
        """Create a topic, through the controller when that is another broker; raises KafkaError when it is refused."""
        if self.membership.leads:
            await self.create_topic(wish)
            return
        answer = await self.membership.call(
            CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            {
                "topics": [
                    {
                        "name": wish.name,
                        "num_partitions": wish.partitions,
                        "replication_factor": wish.replication_factor,
                        "configs": [{"name": k, "value": v} for k, v in wish.configs.items()],
                    }
                ],
                "timeout": CALL_TIMEOUT_MS,
            },
        )
        code = ErrorCode(int(answer.topics[0].error_code))
        if code:
            raise KafkaError(code, answer.topics[0].error_message or "")
        await self.image_caught_up()

    async def delete_topic(self, name: str) -> ErrorCode:
        """Delete a topic; raises KafkaError NOT_CONTROLLER."""
        if not self.config.delete_topic_enable:
            return ErrorCode.TOPIC_DELETION_DISABLED
        role = self.require_controller()
        code = await role.submit(lambda c: c.topics.delete(name))
        await self.image_caught_up()
        return code

    async def image_caught_up(self) -> None:
        """Wait (a second at most) until the image has what the store had when this was called.

        What was asked for is done, whether this broker can know it now or not: a store that is away is no error of the request.
        """
        try:
            target = (await self.store.changes(self.image.revision)).revision
        except StoreError:
            return
        try:
            async with asyncio.timeout(IMAGE_WAIT_SECONDS):
                while self.image.revision < target:
                    self._image_changed.clear()
                    await self._image_changed.wait()
        except TimeoutError:
            return

    async def next_producer_id(self) -> int:
        """A producer id nobody had before; raises StoreError."""
        if self._producer_ids[0] >= self._producer_ids[1]:
            first = await self.store.allocate("producer.id", PRODUCER_ID_BLOCK)
            self._producer_ids = (first, first + PRODUCER_ID_BLOCK)
        producer_id, end = self._producer_ids
        self._producer_ids = (producer_id + 1, end)
        return producer_id

    # -- addresses --------------------------------------------------------------------------------------------------------

    def advertised_endpoints(self) -> tuple[tuple[str, str, int], ...]:
        """(listener name, host, port) as clients and brokers shall use them."""
        found = []
        for endpoint in self.config.advertised_listeners:
            port = endpoint.port or self._ports[endpoint.name]
            found.append((endpoint.name, endpoint.host, port))
        return tuple(found)

    def inter_broker_address(self) -> tuple[str, int]:
        name = self.config.inter_broker_listener
        return next((h, p) for n, h, p in self.advertised_endpoints() if n == name)

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where brokers reach a broker."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(self.config.inter_broker_listener)

    def endpoints_of(self, broker_ids: Collection[int], listener: str) -> list[tuple[int, str, int, str | None]]:
        """(id, host, port, rack) for the node endpoints of KIP-951."""
        found = []
        for broker_id in sorted(broker_ids):
            broker = self.image.brokers.get(broker_id)
            address = broker.endpoint(listener) if broker is not None else None
            if broker is not None and address is not None:
                found.append((broker_id, *address, broker.rack))
        return found

    def leader_hint(self, partition: HostedPartition) -> tuple[int, int] | None:
        """(leader, leader epoch) for a client that came to the wrong broker (KIP-951)."""
        topic, index = partition.topic_partition
        state = self.image.partition(topic, index)
        return None if state is None else (state.leader, state.leader_epoch)

    def client_id(self, purpose: str) -> str:
        return f"broker-{self.broker_id}-{purpose}"

    # -- connections ------------------------------------------------------------------------------------------------------

    def _broker_lost(self, lost: Heartbeats) -> None:
        """The connection with a broker's heartbeats has ended."""
        if self.membership.role is not None:
            self.membership.role.connection_lost(lost)

    def api_versions(self, inter_broker: bool, error: ErrorCode = ErrorCode.NONE) -> dict[str, Any]:
        """The body of ApiVersions; after a version nobody knows only its own range, as Kafka does (KIP-511).

        ``inter_broker``: asked on the inter-broker listener, where there are more.
        """
        keys = [
            {"api_key": key, "min_version": 0 if key == PRODUCE else spec.min_version, "max_version": spec.max_version}
            for key, (spec, _) in sorted(self.handlers.items())
            if (error is ErrorCode.NONE or key == API_VERSIONS) and (inter_broker or not spec.inter_broker)
        ]
        return {"error_code": error, "api_keys": keys}

    # -- things that happen ------------------------------------------------------------------------------------------------

    def note_truncations(self, partition: HostedPartition) -> None:
        """Report what a follower cut off."""
        follower = partition.follower
        if follower is None:
            return
        topic, index = partition.topic_partition
        truncations, follower.truncations = follower.truncations, []
        for before, after, records, reason in truncations:
            self.stats.record_truncation(records, self.clock.unix_ms() / 1000)
            where: dict[str, Any] = {"topic": topic, "partition": index, "from_offset": before, "to_offset": after}
            if after > before:
                self.events.emit("log_restarted", **where, reason=reason)
                continue
            epoch = partition.leader_epoch
            self.events.emit("log_truncated", **where, records=records, reason=reason, leader_epoch=epoch)

    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
        """Give an answer (None: unknown outcome) to the leader that asked; True to ask again."""
        came = self.replicas.isr_answered(proposal, answer)
        if came is None:
            return False
        if came.error:
            self.stats.failed_isr_updates += 1
            if not came.again:
                topic, index = proposal.topic_partition
                self.events.emit(
                    "alter_partition_refused",
                    topic=topic,
                    partition=index,
                    error=came.error.name,
                    isr=[m for m, _ in proposal.isr],
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                )
        elif came.isr != came.isr_before:
            self.host.note_isr(came.partition, came.isr_before, came.isr)
        self.replicas.flush_ready()
        return came.again

    def log_failed(self, partition: HostedPartition, error: LogError) -> None:
        """A log refused an append or a read: say so once a minute and partition, not at every retry."""
        self.housekeeping.complain(str(partition.topic_partition), str(error))
        if isinstance(error, LogDirFailure):
            self.offline_logs.failed(partition.topic_partition, error)

    def file_failed(self, file: Any, error: OSError) -> None:
        """The disk could not read what a Fetch was answered with, long after the log had said where it lies."""
        for partition in self.replicas.all():
            if partition.log.reads_from(file):
                self.log_failed(partition, partition.log.refused("read failed", error))

    def told_nothing(self, whom: str, host: str, port: int) -> None:
        """A broker that took our request has not answered it in time; the connection was closed for it."""
        self.housekeeping.complain(f"answer of {host}:{port}", f"no answer in time from {whom} at {host}:{port}")

    def handler_failed(self, error: BaseException) -> None:
        """Something broke that nobody expected to: a mistake in this program."""
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else "?"
        if self.housekeeping.complain(place, f"internal error: {error!r} at {place}"):
            self.events.emit("internal_error", error=repr(error), place=place)

    def bad_request(self, connection: ClientConnection, problem: str) -> None:
        self.housekeeping.complain(connection.client_host, f"bad request from {connection.client_host}: {problem}")

    def warn(self, line: str) -> None:
        """One line for the operator on standard error."""
        tell(f"broker {self.broker_id}: {line}")

    # -- observation ------------------------------------------------------------------------------------------------------

    def replica_statuses(self) -> list[ReplicaStatus]:
        """What /metrics says of each hosted replica; what is counted only when asked is counted now."""
        return observe(self)

    @property
    def listener_names(self) -> list[str]:
        """Of the listeners that are open."""
        return list(self._ports)

    def _health(self) -> tuple[bool, str]:
        return self.health.verdict()

    def _readiness(self) -> tuple[bool, str]:
        return self._ready_when.probe(self.image, self.membership.broker_epoch, self._stopping)

    @property
    def data_dirs(self) -> list[Path]:
        return [Path(d) for d in self.config.log_dirs]
