"""The group coordinator as a broker has it: loaded where the broker leads ``__consumer_offsets``, woken when something is due.

No I/O: time and timers come from a clock, the log through :class:`InternalTopic`. What waits is answered through callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

from minikafka.groups.config import GroupConfig
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.group import JoinRespond, SyncRespond
from minikafka.groups.offsets_log import Done, GroupRecord
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.groups.replay import Replay
from minikafka.groups.requests import (
    CommitRequest,
    FetchResult,
    JoinRequest,
    LeaveResult,
    MemberIdentity,
    SyncRequest,
)
from minikafka.groups.timers import Now
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.records import Record, RecordBatch, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock

LOAD_SLICE_SECONDS: Final = 0.005
"""How long loading may keep the thread before it lets others run."""
LOAD_RETRY_SECONDS_FIRST, LOAD_RETRY_SECONDS_MAX = 0.5, 30.0
TICK_RETRY_SECONDS = 1.0
COMMIT_WAIT_WARNING_SECONDS = 10.0
"""After which people are told that the groups of a partition wait for a commit."""
PASSED_OVER: Final = "was passed over"
"""Said of a record that cannot be read. Brokers write none, so a simulation ends where this is said."""

TIMERS: Final = "group timers"


class InternalTopic(Protocol):
    """The log of ``__consumer_offsets``; see :class:`~minikafka.replication.internal_log.InternalLog`."""

    def append(self, topic: str, partition: int, batch: bytearray, done: Callable[[ErrorCode], None]) -> None:
        """Append as acks=all does; call `done` once: NONE when the high watermark has passed the batch, else the error."""
        ...

    def read(self, topic: str, partition: int) -> Iterator[RecordBatch]:
        """All batches up to the log END offset. Not the high watermark: a new leader's lags, and everything acknowledged
        is in its log."""
        ...

    def when_committed(self, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` once: NONE when the high watermark has passed all that the log holds now, else the error."""
        ...


class LedPartition(Protocol):
    """A replica of this broker, as far as groups must know it."""

    @property
    def topic_partition(self) -> TopicPartition: ...
    @property
    def leader(self) -> object | None: ...


class GroupObserver(Protocol):
    """Who hears of what happens here."""

    def emit(self, name: str, **fields: object) -> None:
        """An event, see ``telemetry/events.py``."""
        ...

    def warn(self, line: str) -> None:
        """One line for the operator."""
        ...

    def failed(self, work: str, error: Exception) -> None:
        """Work of this name raised what nobody expected; it will be tried again."""
        ...

    def recovered(self, work: str) -> None:
        """Work of this name succeeded."""
        ...


class GroupHost:
    """The groups of one broker.

    Args:
        config: limits and timeouts of groups.
        offsets_partitions: partitions that ``__consumer_offsets`` will have while it does not exist.
        clock: where time comes from, and timers.
        log: see :class:`InternalTopic`.
        partition_count: partitions of a topic in this broker's metadata, 0 when there is no such topic.
        topic_id: see :class:`~minikafka.groups.coordinator.GroupCoordinator`.
        new_id: a fresh unique text each time, for member ids.
        observer: see :class:`GroupObserver`.
        load_slice: seconds; see `LOAD_SLICE_SECONDS`.
    """

    def __init__(
        self,
        *,
        config: GroupConfig,
        offsets_partitions: int,
        clock: Clock,
        log: InternalTopic,
        partition_count: Callable[[str], int],
        topic_id: Callable[[str], bytes | None],
        new_id: Callable[[], str],
        observer: GroupObserver,
        load_slice: float = LOAD_SLICE_SECONDS,
    ) -> None:
        self._clock = clock
        self._log = log
        self._partition_count = partition_count
        self._observer = observer
        self.load_slice = load_slice
        self._leading: set[int] = set()
        self._loads: dict[int, _Load] = {}
        self._retries: dict[int, object] = {}
        self._retry_seconds: dict[int, float] = {}
        self._armed_for: float | None = None
        self._started = False
        self._stopped = False
        self.coordinator = GroupCoordinator(
            config,
            offsets_partitions,
            self._append,
            new_id,
            topic_id,
            on_rebalanced=lambda group, generation, members, reason: observer.emit(
                "group_rebalanced", group=group, generation=generation, members=members, reason=reason
            ),
            on_deleted=lambda group, reason: observer.emit("group_deleted", group=group, reason=reason),
        )

    # -- life ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the clock; the first partition that becomes ours does it too."""
        if not self._started and not self._stopped:
            self._started = True
            self.coordinator.start(self._now())
            self._arm()

    def stop(self) -> None:
        """Answer NOT_COORDINATOR to all who wait, and do nothing more."""
        self._stopped = True
        self._loads.clear()
        self._retries.clear()
        for partition in self.coordinator.owned:
            self.coordinator.unload(partition, self._now())

    def _now(self) -> Now:
        return Now(self._clock.now(), self._clock.unix_ms())

    def _arm(self) -> None:
        """Have the core called at its next deadline."""
        deadline = self.coordinator.next_deadline()
        if deadline is None or self._stopped or (self._armed_for is not None and self._armed_for <= deadline):
            return
        self._wake_at(deadline)

    def _wake_at(self, deadline: float) -> None:
        self._armed_for = deadline
        self._clock.later(max(0.0, deadline - self._clock.now()), lambda: self._tick(deadline))

    def _tick(self, armed_for: float) -> None:
        if self._stopped or armed_for != self._armed_for:
            return  # an earlier time has been asked for since
        self._armed_for = None
        try:
            self.coordinator.tick(self._now())
        except Exception as error:  # sessions must run out, rebalances end: never without a next time
            self._observer.failed(TIMERS, error)
            self._wake_at(self._clock.now() + TICK_RETRY_SECONDS)
        else:
            self._observer.recovered(TIMERS)
            self._arm()

    # -- leadership ---------------------------------------------------------------------------------

    def role_changed(self, partition: LedPartition) -> None:
        """A replica of this broker leads now, or does not."""
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self.on_leadership_change(index, partition.leader is not None)

    def on_leadership_change(self, partition: int, is_leader: bool) -> None:
        """This broker leads, or does not lead, a partition of ``__consumer_offsets`` (any number of times the same).

        Calls come in the order of the partition's states. A new leader epoch of the same leader needs no new load:
        whoever never stopped to lead has in memory what is in its log.
        """
        if self._stopped:
            return
        self.start()
        if not is_leader:
            self._leading.discard(partition)
            self._loads.pop(partition, None)
            self._forget_failures(partition)
            self.coordinator.unload(partition, self._now())
        elif not self._is_loaded(partition):
            self._leading.add(partition)
            self.coordinator.partitions = self._partition_count(OFFSETS_TOPIC) or self.coordinator.partitions
            self._begin_load(partition)
        self._arm()

    def _is_loaded(self, partition: int) -> bool:
        """It is in memory, on its way there, or will be tried again."""
        return partition in self.coordinator.owned or partition in self._loads or partition in self._retries

    def _begin_load(self, partition: int) -> None:
        replay = self.coordinator.start_loading(partition)
        try:
            batches = self._log.read(OFFSETS_TOPIC, partition)
        except Exception as error:
            self._load_failed(partition, error)
            return
        # most partitions are empty or short: ready before the first request can ask
        load = self._loads[partition] = _Load(partition, replay, batches, self._clock.now())
        self._go_on_loading(load)

    def _go_on_loading(self, load: _Load) -> None:
        """Read on for a moment, until the partition is loaded or cannot be."""
        if self._loads.get(load.partition) is not load:
            return  # given up meanwhile
        try:
            read_all = load.read(self._clock.now, self.load_slice)
        except Exception as error:
            self._load_failed(load.partition, error)
            return
        if read_all:
            self._await_commit(load)
        else:
            self._clock.later(0.0, lambda: self._go_on_loading(load))

    def _await_commit(self, load: _Load) -> None:
        """Until all that was read is committed.

        A new leader may hold records that never are. Who was told of them (a share of a generation, an offset) would be
        contradicted by the next coordinator, in the same generation. Kafka's coordinators hold such answers back (KIP-848,
        CoordinatorRuntime); here all groups of the partition wait.
        """

        def answered(error: ErrorCode) -> None:
            if self._loads.get(load.partition) is not load:
                return  # given up meanwhile
            if error is not ErrorCode.NONE:  # it leads in another epoch by now, or is about to hear that it does not
                self._clock.later(LOAD_RETRY_SECONDS_FIRST, lambda: self._await_commit(load))
                return
            try:
                self._loaded(load)
            except Exception as problem:
                self._load_failed(load.partition, problem)
            self._arm()

        if self._loads.get(load.partition) is not load:
            return  # given up meanwhile
        if not load.waits:
            load.waits = True
            self._clock.later(COMMIT_WAIT_WARNING_SECONDS, lambda: self._tell_of_waiting(load))
        try:
            self._log.when_committed(OFFSETS_TOPIC, load.partition, answered)
        except Exception as problem:
            self._load_failed(load.partition, problem)

    def _tell_of_waiting(self, load: _Load) -> None:
        if self._loads.get(load.partition) is load:
            self._observer.warn(
                f"{OFFSETS_TOPIC}-{load.partition}: its groups wait until all that was read of it is committed; "
                "are as many replicas in sync as min.insync.replicas asks for?"
            )

    def _loaded(self, load: _Load) -> None:
        replay = load.replay
        for offset, reason in replay.malformed[:10]:
            self._observer.warn(f"{OFFSETS_TOPIC}-{load.partition} offset {offset} {PASSED_OVER}: {reason}")
        self.coordinator.finish_loading(load.partition, replay, self._now())
        del self._loads[load.partition]
        self._forget_failures(load.partition)
        if replay.records:
            self._observer.emit(
                "group_loaded",
                topic=OFFSETS_TOPIC,
                partition=load.partition,
                partitions=1,
                records=replay.records,
                seconds=round(self._clock.now() - load.began, 4),
            )

    def _load_failed(self, partition: int, error: Exception) -> None:
        """Half of the offsets would be worse than none: consumers would start over where the rest is missing."""
        self._loads.pop(partition, None)
        self._observer.failed(_loading_of(partition), error)
        self.coordinator.unload(partition, self._now())
        pause = self._retry_seconds.get(partition, LOAD_RETRY_SECONDS_FIRST)
        self._retry_seconds[partition] = min(2 * pause, LOAD_RETRY_SECONDS_MAX)
        attempt = self._retries[partition] = object()

        def again() -> None:
            if self._retries.get(partition) is not attempt:
                return
            del self._retries[partition]
            if partition in self._leading and not self._stopped and not self._is_loaded(partition):
                self._begin_load(partition)
                self._arm()

        self._clock.later(pause, again)

    def _forget_failures(self, partition: int) -> None:
        self._retries.pop(partition, None)
        if self._retry_seconds.pop(partition, None) is not None:
            self._observer.recovered(_loading_of(partition))

    def topics_deleted(self) -> None:
        """Offsets in topics that no longer exist go with them."""
        self.coordinator.topics_deleted(self._now())
        self._arm()

    # -- the log ------------------------------------------------------------------------------------

    def _append(self, partition: int, records: Sequence[GroupRecord], done: Done) -> None:
        timestamp = self._clock.unix_ms()
        batch = build_batch([Record(i, timestamp, key, value) for i, (key, value) in enumerate(records)])
        work = f"append to {OFFSETS_TOPIC}-{partition}"

        def answered(error: ErrorCode) -> None:
            done(error, self._now())
            self._arm()

        try:
            self._log.append(OFFSETS_TOPIC, partition, batch, answered)
        except KafkaError as error:
            answered(error.code)
        except Exception as error:  # whoever waits for the answer must get one
            self._observer.failed(work, error)
            answered(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._observer.recovered(work)

    # -- requests -----------------------------------------------------------------------------------

    def join(self, request: JoinRequest, respond: JoinRespond) -> None:
        """JoinGroup; answered when the rebalance lets it."""
        self.coordinator.join(request, respond, self._now())
        self._arm()

    def sync(self, request: SyncRequest, respond: SyncRespond) -> None:
        """SyncGroup; answered when the leader's assignment is stored."""
        self.coordinator.sync(request, respond, self._now())
        self._arm()

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat. It moves deadlines later only, so no other timer is needed."""
        return self.coordinator.heartbeat(group_id, member_id, instance_id, generation, self._now())

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> LeaveResult:
        """LeaveGroup."""
        result = self.coordinator.leave(group_id, leaving, self._now())
        self._arm()
        return result

    def commit(self, request: CommitRequest, respond: Callable[[Mapping[TopicPartition, ErrorCode]], None]) -> None:
        """OffsetCommit; answered when the record is replicated."""
        self.coordinator.commit_offsets(request, respond, self._now())
        self._arm()

    def fetch(self, group_id: str, wanted: Sequence[TopicPartition] | None) -> FetchResult:
        """OffsetFetch; all offsets when `wanted` is None."""
        return self.coordinator.fetch_offsets(group_id, wanted)

    def delete_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        respond: Callable[[ErrorCode, Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """OffsetDelete; answered when the tombstones are replicated."""
        self.coordinator.delete_offsets(group_id, partitions, respond, self._now())
        self._arm()

    def delete_group(self, group_id: str, respond: Callable[[ErrorCode], None]) -> None:
        """DeleteGroups, one of them; answered when the tombstones are replicated."""
        self.coordinator.delete_group(group_id, respond, self._now())
        self._arm()


def _loading_of(partition: int) -> str:
    return f"loading of {OFFSETS_TOPIC}-{partition}"


class _Load:
    """One partition on its way into memory."""

    def __init__(self, partition: int, replay: Replay, batches: Iterator[RecordBatch], began: float) -> None:
        self.partition = partition
        self.replay = replay
        self.began = began
        self.waits = False
        """All is read, and not all of it committed."""
        self._batches = batches

    def read(self, now: Callable[[], float], seconds: float) -> bool:
        """Take in batches for a moment, one at least; True at the end of the log."""
        until = now() + seconds
        for batch in self._batches:
            # transactional commits are not supported, so nothing of theirs can be here but what another program wrote
            if not batch.header.control and not batch.header.transactional:
                for record in batch.records():
                    self.replay.add(record.offset, record.key, record.value)
            if now() >= until:
                return False
        return True
