"""The group coordinator at work: gives the sans-I/O core time, the log and asyncio futures.

The core (:mod:`minikafka.groups`) decides; this shell reads clocks, keeps one timer armed for the core's next deadline,
turns callbacks into awaitables, writes to ``__consumer_offsets`` and reads it back when a partition becomes ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from uuid import uuid4

from minikafka.groups.config import GroupConfig
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.offsets_log import Done, GroupRecord
from minikafka.groups.placement import OFFSETS_TOPIC, partition_for
from minikafka.groups.replay import Replay
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
from minikafka.groups.timers import Now
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.records import Record, RecordBatch, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka.server.health import Health
from minikafka.server.offsets_topic import OffsetsTopic
from minikafka.server.supervision import Supervisor

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

LOAD_SLICE_SECONDS = 0.005
"""How long loading may keep the event loop before it lets others run."""

LOAD_RETRY_SECONDS_FIRST, LOAD_RETRY_SECONDS_MAX = 0.5, 30.0
TICK_RETRY_SECONDS = 1.0

TOPIC_WAIT_SECONDS = 1.0
"""How long FindCoordinator waits for ``__consumer_offsets`` to be created before it tells the client to try again."""

Answer = TypeVar("Answer")


class AppendInternal(Protocol):
    """Append one record batch to a partition of an internal topic, as acks=all does."""

    def __call__(self, topic: str, partition: int, batch: bytearray, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` once: NONE when the high watermark has passed the batch, else the produce error."""
        ...


class GroupService:
    """Group coordination of one broker.

    Args:
        config: limits and timeouts of groups.
        offsets_partitions: partitions that ``__consumer_offsets`` will have while it does not exist.
        append_internal: see :class:`AppendInternal`.
        read_log: all batches of a partition up to the log END offset. Not the high watermark: a new leader's high
            watermark lags, and everything acknowledged is in its log.
        ensure_offsets_topic: creates ``__consumer_offsets`` if need be; may raise KafkaError.
        partition_count: partitions of a topic in this broker's metadata, 0 when there is no such topic.
        partition_leader: broker id, -1 when there is none.
        endpoint_of: (host, port) of a live broker for a listener.
        now: monotonic seconds. now_ms: wall clock, milliseconds.
        emit: takes an event's name and fields, see ``telemetry/events.py``.
        warn: one line for the operator.
        supervisor: told of what fails here that nobody expected to.
    """

    def __init__(
        self,
        *,
        config: GroupConfig,
        offsets_partitions: int,
        append_internal: AppendInternal,
        read_log: Callable[[str, int], Iterator[RecordBatch]],
        ensure_offsets_topic: Callable[[], Awaitable[None]],
        partition_count: Callable[[str], int],
        partition_leader: Callable[[str, int], int],
        endpoint_of: Callable[[int, str], tuple[str, int] | None],
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        new_id: Callable[[], str] = lambda: str(uuid4()),
        emit: Callable[..., None] = lambda *_, **__: None,
        warn: Callable[[str], None] = lambda _: None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._append_internal = append_internal
        self._read_log = read_log
        self._ensure_offsets_topic = ensure_offsets_topic
        self.partition_count = partition_count
        self._partition_leader = partition_leader
        self._endpoint_of = endpoint_of
        self._clock = now
        self._wall_clock_ms = now_ms
        self._emit = emit
        self._warn = warn
        self._supervisor = supervisor or Supervisor(Health(emit), lambda error: warn(repr(error)))
        self._leading: set[int] = set()
        self._loads: dict[int, asyncio.Task[bool]] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}
        self._retry_seconds: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0
        self._started = False
        self._stopped = False
        self.coordinator = GroupCoordinator(
            config,
            offsets_partitions,
            self._append,
            new_id,
            on_rebalanced=lambda group, generation, members, reason: emit(
                "group_rebalanced", group=group, generation=generation, members=members, reason=reason
            ),
            on_deleted=lambda group, reason: emit("group_deleted", group=group, reason=reason),
        )

    @classmethod
    def for_broker(cls, broker: Broker) -> GroupService:
        """Wired to a broker."""

        def partition_count(topic: str) -> int:
            state = broker.image.topics.get(topic)
            return 0 if state is None else len(state.partitions)

        def partition_leader(topic: str, partition: int) -> int:
            state = broker.image.partition(topic, partition)
            return -1 if state is None else state.leader

        def endpoint_of(broker_id: int, listener: str) -> tuple[str, int] | None:
            state = broker.image.brokers.get(broker_id)
            return None if state is None or state.fenced else state.endpoint(listener)

        return cls(
            config=GroupConfig.of(broker.config),
            offsets_partitions=broker.config.offsets_topic_num_partitions,
            append_internal=broker.internal.append,
            read_log=broker.internal.read,
            ensure_offsets_topic=OffsetsTopic(broker).ensure,
            partition_count=partition_count,
            partition_leader=partition_leader,
            endpoint_of=endpoint_of,
            emit=broker.events.emit,
            warn=broker.warn,
            supervisor=broker.supervisor,
        )

    # -- life ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the clock; the first partition that becomes ours does it too."""
        if not self._started and not self._stopped:
            self._started = True
            self.coordinator.start(self._now())
            self._arm()

    async def stop(self) -> None:
        """Answer NOT_COORDINATOR to all who wait, and do nothing more."""
        self._stopped = True
        for retry in self._retries.values():
            retry.cancel()
        loads = list(self._loads.values())
        for task in loads:
            task.cancel()
        if loads:
            await asyncio.wait(loads)
        for partition in self.coordinator.owned:
            self.coordinator.unload(partition, self._now())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> Now:
        return Now(self._clock(), self._wall_clock_ms())

    def _arm(self) -> None:
        """Have the core called at its next deadline."""
        deadline = self.coordinator.next_deadline()
        if deadline is None or self._stopped:
            return
        if self._timer is not None:
            if self._armed_for <= deadline:
                return
            self._timer.cancel()
        self._armed_for = deadline
        self._timer = asyncio.get_running_loop().call_later(max(0.0, deadline - self._clock()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._supervisor.call("group timers", lambda: self.coordinator.tick(self._now())):
            self._arm()
        elif not self._stopped:  # sessions must run out, rebalances end: never without a next time
            self._armed_for = self._clock() + TICK_RETRY_SECONDS
            self._timer = asyncio.get_running_loop().call_later(TICK_RETRY_SECONDS, self._tick)

    # -- leadership ---------------------------------------------------------------------------------

    def on_leadership_change(self, partition: int, is_leader: bool, epoch: int) -> None:
        """This broker leads, or does not lead, a partition of ``__consumer_offsets`` (any number of times the same).

        Calls come in the order of the partition's states. A new leader epoch of the same leader needs no new load:
        whoever never stopped to lead has in memory what is in its log. So `epoch` decides nothing, and may even be
        smaller than before, when the topic was deleted and made again.
        """
        del epoch
        if self._stopped:
            return
        self.start()
        if not is_leader:
            self._leading.discard(partition)
            task = self._loads.pop(partition, None)
            if task is not None:
                task.cancel()
            self._forget_failures(partition)
            self.coordinator.unload(partition, self._now())
        elif not self._is_loaded(partition):
            self._leading.add(partition)
            self.coordinator.partitions = self.partition_count(OFFSETS_TOPIC) or self.coordinator.partitions
            self._begin_load(partition)
        self._arm()

    def _is_loaded(self, partition: int) -> bool:
        """It is in memory, on its way there, or will be tried again."""
        return partition in self.coordinator.owned or partition in self._loads or partition in self._retries

    def _begin_load(self, partition: int) -> None:
        load = _Load(partition, self.coordinator.start_loading(partition), self._clock)
        try:
            batches = self._read_log(OFFSETS_TOPIC, partition)
        except Exception as error:
            self._load_failed(partition, error)
            return
        # most partitions are empty or short: ready before the first request can ask
        if self._advance(load, batches):
            return
        task = self._supervisor.once(_loading_of(partition), self._go_on_loading, load, batches)
        self._loads[partition] = task

        def forget(done: asyncio.Task[bool]) -> None:
            if self._loads.get(partition) is done:
                del self._loads[partition]

        task.add_done_callback(forget)

    def _load_failed(self, partition: int, error: Exception) -> None:
        """Half of the offsets would be worse than none: consumers would start over where the rest is missing."""
        self._supervisor.report(_loading_of(partition), error)
        self.coordinator.unload(partition, self._now())
        pause = self._retry_seconds.get(partition, LOAD_RETRY_SECONDS_FIRST)
        self._retry_seconds[partition] = min(2 * pause, LOAD_RETRY_SECONDS_MAX)

        def again() -> None:
            self._retries.pop(partition, None)
            if partition in self._leading and not self._stopped and not self._is_loaded(partition):
                self._begin_load(partition)
                self._arm()

        self._retries[partition] = asyncio.get_running_loop().call_later(pause, again)

    def _forget_failures(self, partition: int) -> None:
        retry = self._retries.pop(partition, None)
        if retry is not None:
            retry.cancel()
        if self._retry_seconds.pop(partition, None) is not None:
            self._supervisor.clear(_loading_of(partition))

    async def _go_on_loading(self, load: _Load, batches: Iterator[RecordBatch]) -> None:
        finished = False
        while not finished:
            await asyncio.sleep(0)
            finished = self._advance(load, batches)
        self._arm()

    def _advance(self, load: _Load, batches: Iterator[RecordBatch]) -> bool:
        """Read on for a moment; True when the partition is loaded, or cannot be."""
        try:
            if not load.read(batches):
                return False
        except Exception as error:
            self._load_failed(load.partition, error)
            return True
        for offset, reason in load.replay.malformed[:10]:
            self._warn(f"{OFFSETS_TOPIC}-{load.partition} offset {offset} was passed over: {reason}")
        self.coordinator.finish_loading(load.partition, load.replay, self._now())
        self._forget_failures(load.partition)
        if load.replay.records:
            self._emit(
                "group_loaded",
                topic=OFFSETS_TOPIC,
                partition=load.partition,
                partitions=1,
                records=load.replay.records,
                seconds=round(self._clock() - load.began, 4),
            )
        return True

    def topics_deleted(self, topics: Collection[str]) -> None:
        """Offsets in topics that no longer exist go with them."""
        self.coordinator.forget_topics(topics, self._now())
        self._arm()

    # -- the log ------------------------------------------------------------------------------------

    def _append(self, partition: int, records: Sequence[GroupRecord], done: Done) -> None:
        timestamp = self._wall_clock_ms()
        batch = build_batch([Record(i, timestamp, key, value) for i, (key, value) in enumerate(records)])

        def answered(error: ErrorCode) -> None:
            done(error, self._now())
            self._arm()

        try:
            self._append_internal(OFFSETS_TOPIC, partition, batch, answered)
        except KafkaError as error:
            answered(error.code)
        except Exception as error:  # whoever waits for the answer must get one
            self._supervisor.report(f"append to {OFFSETS_TOPIC}-{partition}", error)
            answered(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._supervisor.clear(f"append to {OFFSETS_TOPIC}-{partition}")

    # -- requests -----------------------------------------------------------------------------------

    async def find(self, group_id: str, listener: str) -> tuple[ErrorCode, int, str, int]:
        """FindCoordinator: (error, broker id, host, port). Creates ``__consumer_offsets`` the first time."""
        if not self.partition_count(OFFSETS_TOPIC):
            try:
                async with asyncio.timeout(TOPIC_WAIT_SECONDS):
                    await self._ensure_offsets_topic()
            except (KafkaError, TimeoutError, OSError):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
        partitions = self.partition_count(OFFSETS_TOPIC)
        if partitions:
            leader = self._partition_leader(OFFSETS_TOPIC, partition_for(group_id, partitions))
            address = self._endpoint_of(leader, listener) if leader >= 0 else None
            if address is not None:
                return ErrorCode.NONE, leader, *address
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1

    async def join(self, request: JoinRequest) -> JoinResult:
        """JoinGroup; returns when the rebalance lets it."""
        result: Reply[JoinResult] = Reply()
        self.coordinator.join(request, result.set, self._now())
        return await self._wait(result)

    async def sync(self, request: SyncRequest) -> SyncResult:
        """SyncGroup; returns when the leader's assignment is stored."""
        result: Reply[SyncResult] = Reply()
        self.coordinator.sync(request, result.set, self._now())
        return await self._wait(result)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat."""
        return self.coordinator.heartbeat(group_id, member_id, instance_id, generation, self._now())

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> LeaveResult:
        """LeaveGroup."""
        result = self.coordinator.leave(group_id, leaving, self._now())
        self._arm()
        return result

    async def commit(self, request: CommitRequest) -> Mapping[TopicPartition, ErrorCode]:
        """OffsetCommit; returns when the record is replicated."""
        result: Reply[Mapping[TopicPartition, ErrorCode]] = Reply()
        self.coordinator.commit_offsets(request, result.set, self._now())
        return await self._wait(result)

    def fetch(self, group_id: str, wanted: Sequence[TopicPartition] | None) -> FetchResult:
        """OffsetFetch; all offsets when `wanted` is None."""
        return self.coordinator.fetch_offsets(group_id, wanted)

    async def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]:
        """OffsetDelete; returns when the tombstones are replicated."""
        result: Reply[tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]] = Reply()
        self.coordinator.delete_offsets(
            group_id, partitions, lambda error, rows: result.set((error, rows)), self._now()
        )
        return await self._wait(result)

    async def delete_group(self, group_id: str) -> ErrorCode:
        """DeleteGroups, one of them; returns when the tombstones are replicated."""
        result: Reply[ErrorCode] = Reply()
        self.coordinator.delete_group(group_id, result.set, self._now())
        return await self._wait(result)

    async def _wait(self, reply: Reply[Answer]) -> Answer:
        self._arm()
        return await reply.future


def _loading_of(partition: int) -> str:
    return f"loading of {OFFSETS_TOPIC}-{partition}"


class Reply(Generic[Answer]):
    """A callback that can be awaited."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def set(self, answer: Answer) -> None:
        """Wake who waits, if its client is still there."""
        if not self.future.done():
            self.future.set_result(answer)


class _Load:
    """One partition on its way into memory."""

    def __init__(self, partition: int, replay: Replay, clock: Callable[[], float]) -> None:
        self.partition = partition
        self.replay = replay
        self.began = clock()
        self._clock = clock

    def read(self, batches: Iterator[RecordBatch]) -> bool:
        """Take in batches for a moment; True at the end of the log."""
        until = self._clock() + LOAD_SLICE_SECONDS
        for batch in batches:
            # transactional commits are not supported, so nothing of theirs can be here but what another program wrote
            if not batch.header.control and not batch.header.transactional:
                for record in batch.records():
                    self.replay.add(record.offset, record.key, record.value)
            if self._clock() > until:
                return False
        return True
