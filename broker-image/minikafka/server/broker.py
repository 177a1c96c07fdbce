"""The broker: wires log, replication, controller, store and listeners together, and owns their lives."""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus

from minikafka import __version__
from minikafka.authorization.service import Authorization
from minikafka.config import BrokerConfig, ConfigError
from minikafka.log.errors import LogError
from minikafka.log.manager import LogManager
from minikafka.metadata.store import ClusterStore
from minikafka.protocol.types import TopicPartition
from minikafka.replication.fetch_loop import FetcherPool
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.internal_log import InternalLog
from minikafka.replication.offline_logs import OfflineLogs
from minikafka.replication.replicas import ReplicaManager
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server.api import load_handlers
from minikafka.server.api.fetch import FOLLOWER_FETCH
from minikafka.server.connection import ClientConnection
from minikafka.server.connections import ConnectionRegistry
from minikafka.server.context import BrokerContext
from minikafka.server.controller_role import Reconcile
from minikafka.server.fetchers import ReplicaFetcher
from minikafka.server.group_service import GroupService
from minikafka.server.hooks import HookedConnection, HookedReplicas, Hooks
from minikafka.server.hosting import PartitionHost
from minikafka.server.housekeeping import Housekeeping
from minikafka.server.machine import Machine
from minikafka.server.membership import AlterPartitionSender, Membership
from minikafka.server.metadata_cache import MetadataCache
from minikafka.server.metadata_follower import MetadataFollower
from minikafka.server.observation import observe
from minikafka.server.observer import BrokerObserver
from minikafka.server.offline_logs import LogDirShell
from minikafka.server.offsets_topic import OffsetsTopic
from minikafka.server.producer_ids import ProducerIds
from minikafka.server.quotas import ClientQuotas
from minikafka.server.readiness import Readiness
from minikafka.server.services import Services
from minikafka.server.topic_requests import TopicRequests
from minikafka.telemetry.exposition import BrokerCollector
from minikafka.transport.channels import METRICS
from minikafka.transport.http import MetricsDoor, MetricsServer
from minikafka.transport.listeners import Listeners
from minikafka.transport.request_memory import RequestMemory
from minikafka.transport.turn import TurnQueue

DISK_FULL = HTTPStatus.INSUFFICIENT_STORAGE

SHUTDOWN_SECONDS_MAX = 10.0
"""How long a controlled shutdown may take before the broker stops anyway."""


class Broker:
    """One broker process. ``start`` returns when it is registered and unfenced; ``stop`` is a controlled shutdown.

    The parts are made here, each with what it needs of the others, and none of them knows the broker. What a part tells to
    one that is made after it goes through a lambda.

    Args:
        config: its settings.
        store: the cluster's.
        machine: what it runs on; this one unless given.
        observer: who watches it from inside, if anybody does.
        reconcile: what it does beside for as long as it is the controller.
    """

    logs: LogManager
    reporter: ReplicaReporter
    housekeeping: Housekeeping
    offline_logs: OfflineLogs
    fetchers: FetcherPool[HostedPartition]
    host: PartitionHost
    follower: MetadataFollower

    def __init__(
        self,
        config: BrokerConfig,
        store: ClusterStore,
        machine: Machine | None = None,
        observer: BrokerObserver | None = None,
        reconcile: Reconcile | None = None,
    ) -> None:
        self.context = context = BrokerContext(config, machine or Machine(), observer)
        self.config = config
        self.broker_id = context.broker_id
        self.store = store
        self.clock = context.clock
        self.stats = context.stats
        self.events = context.events
        self.hooks = Hooks(context.events.emit) if config.minikafka_test_hooks else None
        self.failure: str | None = None
        self.failed = asyncio.Event()
        self.stopping = False

        # what is known of the cluster, and how others reach this broker
        self.metadata = MetadataCache(store, context.clock, config.inter_broker_listener)
        self.authorization = Authorization(config, self.metadata, context.stats, context.events.emit, context.clock.now)
        self.quotas = ClientQuotas(config, self.metadata, context.stats, context.events.emit, context.clock.now)
        connection = ClientConnection if self.hooks is None else partial(HookedConnection, self.hooks)
        self.listeners = Listeners(config, lambda name: connection(self.services, name))
        self.membership = Membership(
            context,
            store,
            self.metadata,
            self.listeners,
            reconcile,
            registered=lambda: self.follower.take({}),
            registration_lost=lambda: self.host.reset(),
        )
        self.connections = ConnectionRegistry(
            config,
            context.stats,
            self.membership.heartbeats_ended,
            context.events.emit,
            context.clock.now,
            rate_of=lambda host: self.metadata.image.quotas.connection_rate(host),
        )
        turn_queue = TurnQueue(context.clock.now)
        self.topics = TopicRequests(self.membership, self.metadata, context.clock.now, turn_queue)

        # the replicas, and their logs
        self.alter_sender = AlterPartitionSender(
            context, self.membership.alter_partitions, lambda asked, answer: self.reporter.isr_answered(asked, answer)
        )
        replicas = ReplicaManager if self.hooks is None else partial(HookedReplicas, self.hooks)
        self.replicas = replicas(
            context.stats,
            self.alter_sender.propose,
            context.clock,
            exists=self.metadata.partition_exists,
            hint=self.metadata.leader_hint,
            log_failed=lambda partition, error: self.reporter.log_failed(partition, error),
            flush_soon=lambda partition: self.housekeeping.flush_soon(partition),
        )
        self.reporter = ReplicaReporter(
            context, self.replicas, lambda topic_partition, error: self.offline_logs.failed(topic_partition, error)
        )
        self.housekeeping = Housekeeping(
            context,
            self.replicas,
            self.reporter,
            high_watermarks=lambda: self.host.high_watermarks(),
            flushed=lambda partition: self.fetchers.flushed(partition),
        )
        self._log_dir = LogDirShell(context, self, self.replicas, self.housekeeping, lambda: self.logs)
        self.offline_logs = self._log_dir.policy()
        self.fetchers = FetcherPool[HostedPartition](
            partial(
                ReplicaFetcher,
                context,
                self.metadata,
                self.reporter,
                lambda: self.membership.broker_epoch,
                self.housekeeping.flush_soon,
                self.replicas.follower_lacks_room,
            )
        )

        # what is kept in them for groups
        self.internal = InternalLog(self.replicas, self.reporter.log_failed)
        offsets_topic = OffsetsTopic(config, self.topics, self.metadata)
        self.groups = GroupService.of(context, self.metadata, self.internal, offsets_topic.ensure)

        # what connections and handlers of requests have of all this
        memory = config.queued_max_request_bytes
        self.services = Services(
            context=context,
            handlers=load_handlers(),
            metadata=self.metadata,
            authorization=self.authorization,
            quotas=self.quotas,
            request_memory=None if memory <= 0 else RequestMemory(memory),
            membership=self.membership,
            connections=self.connections,
            topics=self.topics,
            producer_ids=ProducerIds(store),
            replicas=self.replicas,
            reporter=self.reporter,
            groups=self.groups,
            turn_queue=turn_queue,
        )

        # the image: what brings all of it in line with the cluster
        self.host = PartitionHost(
            context,
            self.metadata,
            self.replicas,
            self.fetchers,
            self.offline_logs,
            self.reporter,
            self.groups,
            look_again=lambda: self.follower.take_again(),
        )
        self.follower = MetadataFollower(
            context, self.metadata, self.host, self.membership, self.offline_logs, self.listeners.serve, self.fail
        )

        self._metrics: MetricsServer | None = None
        self._ready_when = Readiness(
            self.broker_id, config.minikafka_ready_in_sync_timeout_ms / 1000, context.warn, self.clock.now
        )

    # -- life -----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open data, store and listeners, join the cluster.

        Raises:
            ConfigError, LogError, StoreError, OSError: with one line that says what is wrong; nothing is left running.
        """
        config, context = self.config, self.context
        began = self.clock.now()
        self.events.emit("broker_starting", version=__version__, cluster_id=config.cluster_id or "")
        await context.channels.open(context.supervisor.repeat)
        await self.listeners.open()
        await self._serve_metrics()
        disk = context.machine.disk(config, context.warn)
        on_disk = LogManager.cluster_id_on_disk(config.log_dirs, disk)
        cluster_id = await self.store.open(config.cluster_id or on_disk)
        self.metadata.open(cluster_id)
        self.logs = LogManager.open(
            config.log_dirs,
            disk,
            cluster_id=cluster_id,
            node_id=self.broker_id,
            config_for=lambda _: config.topic({}).log_config(),
            now_ms=self.clock.unix_ms(),
            unflushed_dir=config.minikafka_unflushed_dir or None,
            unflushed_max_bytes=config.minikafka_unflushed_max_bytes,
        )
        volume = self.logs.unflushed_volume
        if volume is not None and volume.limit < config.minikafka_unflushed_max_bytes:
            context.warn(
                f"minikafka.unflushed.max.bytes={config.minikafka_unflushed_max_bytes}: there is room for {volume.limit} "
                f"only in {config.minikafka_unflushed_dir}; that is the limit"
            )
        self.reporter.watch_volume(volume)
        self.stats.clean_shutdown = int(self.logs.clean)
        self.stats.recovery_seconds = self.clock.now() - began
        self.host.open(self.logs)
        self.metadata.announce()
        self.membership.start(self.logs.previous_broker_epoch)
        self.follower.start()
        self.housekeeping.start(self.logs)
        await self.follower.ready.wait()
        listeners = [f"{n}://{h}:{p}" for n, h, p in self.listeners.advertised()]
        self.events.emit("broker_ready", listeners=listeners, seconds=round(self.clock.now() - began, 4))

    async def _serve_metrics(self) -> None:
        if self.config.minikafka_metrics_port is None:
            return
        collector = BrokerCollector(
            self.stats,
            lambda: observe(self.services, self.listeners.names),
            api_names={key: spec.name for key, (spec, _) in self.services.handlers.items()}
            | {FOLLOWER_FETCH: "FetchFollower"},
            events=self.events,
            failed=self.context.health.problems,
        )
        channels = self.context.channels
        door = MetricsDoor(
            tls=lambda: channels.accept(METRICS),
            tokens=channels.metrics_tokens,
            refused=lambda address, reason: self.context.not_let_in(address, METRICS, reason),
        )
        self._metrics = MetricsServer(collector.render, self.context.health.verdict, self._readiness, self.hooks, door)
        host, port = self.config.minikafka_metrics_host, self.config.minikafka_metrics_port
        try:
            await self._metrics.start(host, port)
        except OSError as error:
            raise ConfigError(
                f"minikafka.metrics.port: cannot listen on {host}:{port} ({error.strerror or error})"
            ) from error

    def _readiness(self) -> tuple[bool | HTTPStatus, str]:
        ready, reason = self._ready_when.probe(self.metadata.image, self.membership.broker_epoch, self.stopping)
        if not ready and self.offline_logs.disk_is_full:
            return DISK_FULL, f"{reason}: a disk is full"  # all that a kubelet tells of a probe is its status
        return ready, reason

    async def stop(self, reason: str = "asked to stop") -> None:
        """Move leaders away, stop serving, flush and close the logs; leaves the clean-shutdown marker."""
        if self.stopping:
            return
        self.stopping = True
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
                    await self.metadata.changed()
        except TimeoutError:
            self.context.warn("controlled shutdown took too long; stopping anyway")

    async def abort(self) -> bool:
        """Stop without asking anybody; True when all logs were flushed and closed."""
        self.listeners.close()
        self.context.channels.close()
        await self.housekeeping.stop()
        self.topics.stop()
        self.offline_logs.stop()
        self._log_dir.stop()
        self.alter_sender.stop()
        self.fetchers.stop()
        self.groups.stop()
        await self.follower.stop()
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
                self.context.warn(f"data directory: {error}")
        await self.store.close()
        if self._metrics is not None:
            await self._metrics.stop()
        if hasattr(self, "logs"):
            self.context.observer.closed(clean)
        return clean

    # -- what its parts ask of the whole ----------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """End the process (exit code 3), as one that crashed: its supervisor starts it again.

        Nobody is told anything more: what failed may be what the answers would be made of (Kafka halts).
        """
        self.failure = reason
        self.context.health.report("broker", reason)
        self.failed.set()
        self.connections.close_all()

    # -- `server.offline_logs.Owner`

    @property
    def is_fenced(self) -> bool:
        return self.membership.lifecycle.is_fenced(self.metadata.image)

    @property
    def is_ending(self) -> bool:
        return self.failed.is_set() or self.stopping

    def resign(self, topic_partition: TopicPartition) -> None:
        self.host.resign(topic_partition)
        self.membership.fence()

    def settle(self, topics: set[str]) -> None:
        self.host.settle(topics)

    # -- what handlers ask for ----------------------------------------------------------------------------------------------

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch
