"""The group coordinator on the event loop: gives :class:`~minikafka.groups.host.GroupHost` time, the log and futures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from minikafka.groups.config import GroupConfig
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.host import LOAD_SLICE_SECONDS, GroupHost, InternalTopic, LedPartition
from minikafka.groups.placement import OFFSETS_TOPIC, partition_for
from minikafka.groups.requests import (
    CommitRequest,
    FetchResult,
    JoinRequest,
    JoinResult,
    LeaveResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.server.context import BrokerContext
from minikafka.server.health import Health
from minikafka.server.metadata_cache import MetadataCache
from minikafka.server.supervision import Supervisor

TOPIC_WAIT_SECONDS = 1.0
"""How long FindCoordinator waits for ``__consumer_offsets`` to be created before it tells the client to try again."""

Answer = TypeVar("Answer")


class _SupervisedEvents:
    """Report what the groups of a broker do, to its event log, its supervisor and its operator."""

    def __init__(
        self, emit: Callable[..., None], warn: Callable[[str], None], supervisor: Supervisor | None = None
    ) -> None:
        supervisor = supervisor or Supervisor(Health(emit), lambda error: warn(repr(error)))
        self.emit = emit
        self.warn = warn
        self.failed = supervisor.report
        self.recovered = supervisor.clear


class GroupService:
    """Group coordination of one broker.

    Args:
        config: limits and timeouts of groups.
        offsets_partitions: partitions that ``__consumer_offsets`` will have while it does not exist.
        log: see :class:`~minikafka.groups.host.InternalTopic`.
        ensure_offsets_topic: creates ``__consumer_offsets`` if need be; may raise KafkaError.
        partition_count: partitions of a topic in this broker's metadata, 0 when there is no such topic.
        topic_id: see :class:`~minikafka.groups.coordinator.GroupCoordinator`.
        partition_leader: broker id, -1 when there is none.
        endpoint_of: (host, port) of a live broker for a listener.
        clock: see there.
        new_id: for members that have none.
        load_slice: see :data:`~minikafka.groups.host.LOAD_SLICE_SECONDS`.
        emit: takes an event's name and fields, see ``telemetry/events.py``.
        warn: one line for the operator.
        supervisor: told of what fails here that nobody expected to.
    """

    def __init__(
        self,
        *,
        config: GroupConfig,
        offsets_partitions: int,
        log: InternalTopic,
        ensure_offsets_topic: Callable[[], Awaitable[None]],
        partition_count: Callable[[str], int],
        topic_id: Callable[[str], bytes | None],
        partition_leader: Callable[[str, int], int],
        endpoint_of: Callable[[int, str], tuple[str, int] | None],
        clock: Clock,
        new_id: Callable[[], str],
        load_slice: float = LOAD_SLICE_SECONDS,
        emit: Callable[..., None] = lambda *_, **__: None,
        warn: Callable[[str], None] = lambda _: None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._ensure_offsets_topic = ensure_offsets_topic
        self.partition_count = partition_count
        self.topic_id = topic_id
        self._partition_leader = partition_leader
        self._endpoint_of = endpoint_of
        self.host = GroupHost(
            config=config,
            offsets_partitions=offsets_partitions,
            clock=clock,
            log=log,
            partition_count=partition_count,
            topic_id=topic_id,
            new_id=new_id,
            observer=_SupervisedEvents(emit, warn, supervisor),
            load_slice=load_slice,
        )

    @classmethod
    def of(
        cls,
        context: BrokerContext,
        metadata: MetadataCache,
        log: InternalTopic,
        ensure_offsets_topic: Callable[[], Awaitable[None]],
    ) -> GroupService:
        """That of a broker."""

        def partition_count(topic: str) -> int:
            state = metadata.image.topics.get(topic)
            return 0 if state is None else len(state.partitions)

        def topic_id(topic: str) -> bytes | None:
            state = metadata.image.topics.get(topic)
            return None if state is None else state.topic_id.bytes

        def partition_leader(topic: str, partition: int) -> int:
            state = metadata.image.partition(topic, partition)
            return -1 if state is None else state.leader

        def endpoint_of(broker_id: int, listener: str) -> tuple[str, int] | None:
            state = metadata.image.brokers.get(broker_id)
            return None if state is None or state.fenced else state.endpoint(listener)

        return cls(
            config=GroupConfig.of(context.config),
            offsets_partitions=context.config.offsets_topic_num_partitions,
            log=log,
            ensure_offsets_topic=ensure_offsets_topic,
            partition_count=partition_count,
            topic_id=topic_id,
            partition_leader=partition_leader,
            endpoint_of=endpoint_of,
            clock=context.clock,
            new_id=lambda: str(context.machine.new_id()),
            load_slice=context.machine.load_slice,
            emit=context.events.emit,
            warn=context.warn,
            supervisor=context.supervisor,
        )

    @property
    def coordinator(self) -> GroupCoordinator:
        """For what only looks: DescribeGroups, ListGroups, metrics."""
        return self.host.coordinator

    def stop(self) -> None:
        """Answer NOT_COORDINATOR to all who wait, and do nothing more."""
        self.host.stop()

    def role_changed(self, partition: LedPartition) -> None:
        """See :meth:`GroupHost.role_changed`."""
        self.host.role_changed(partition)

    def topics_deleted(self) -> None:
        """Offsets in topics that no longer exist go with them."""
        self.host.topics_deleted()

    # -- requests -----------------------------------------------------------------------------------

    async def wait_for_topic(self) -> None:
        """Create ``__consumer_offsets`` the first time, and wait a while for it."""
        if self.partition_count(OFFSETS_TOPIC):
            return
        with suppress(KafkaError, TimeoutError, OSError):
            async with asyncio.timeout(TOPIC_WAIT_SECONDS):
                await self._ensure_offsets_topic()

    def find(self, group_id: str, listener: str) -> tuple[int, str, int] | None:
        """Return id, host and port of the broker that coordinates a group; None: there is none at present."""
        partitions = self.partition_count(OFFSETS_TOPIC)
        if not partitions:
            return None
        leader = self._partition_leader(OFFSETS_TOPIC, partition_for(group_id, partitions))
        address = self._endpoint_of(leader, listener) if leader >= 0 else None
        return None if address is None else (leader, *address)

    async def join(self, request: JoinRequest) -> JoinResult:
        """JoinGroup; returns when the rebalance lets it."""
        reply: Reply[JoinResult] = Reply()
        self.host.join(request, reply.set)
        return await reply.future

    async def sync(self, request: SyncRequest) -> SyncResult:
        """SyncGroup; returns when the leader's assignment is stored."""
        reply: Reply[SyncResult] = Reply()
        self.host.sync(request, reply.set)
        return await reply.future

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat."""
        return self.host.heartbeat(group_id, member_id, instance_id, generation)

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> LeaveResult:
        """LeaveGroup."""
        return self.host.leave(group_id, leaving)

    async def commit(self, request: CommitRequest) -> Mapping[TopicPartition, ErrorCode]:
        """OffsetCommit; returns when the record is replicated."""
        reply: Reply[Mapping[TopicPartition, ErrorCode]] = Reply()
        self.host.commit(request, reply.set)
        return await reply.future

    def fetch(self, group_id: str, wanted: Sequence[TopicPartition] | None) -> FetchResult:
        """OffsetFetch; all offsets when `wanted` is None."""
        return self.host.fetch(group_id, wanted)

    async def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]:
        """OffsetDelete; returns when the tombstones are replicated."""
        reply: Reply[tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]] = Reply()
        self.host.delete_offsets(group_id, partitions, lambda error, rows: reply.set((error, rows)))
        return await reply.future

    async def delete_group(self, group_id: str) -> ErrorCode:
        """DeleteGroups, one of them; returns when the tombstones are replicated."""
        reply: Reply[ErrorCode] = Reply()
        self.host.delete_group(group_id, reply.set)
        return await reply.future


class Reply(Generic[Answer]):
    """A callback that can be awaited."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def set(self, answer: Answer) -> None:
        """Wake who waits, if its client is still there."""
        if not self.future.done():
            self.future.set_result(answer)
