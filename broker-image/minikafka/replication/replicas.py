"""The replica manager: the hot path of Produce and Fetch over all partitions hosted by this broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka.log.errors import LogDirFailure, LogError
from minikafka.log.record_validation import RecordsAhead
from minikafka.log.unflushed_volume import UnflushedVolume
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FetchPartition, FetchRequest, PartitionData, TopicKey
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.types import TopicPartition
from minikafka.protocol.wire import MANY_ROWS
from minikafka.replication.append_room import AppendRoom, WaitingAppend
from minikafka.replication.clock import Clock
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import AfterAnswer, AlterPartitionAnswer, IsrProposal
from minikafka.replication.purgatory import (
    DelayedFetch,
    DelayedProduce,
    FetchClient,
    FetchDone,
    FetchTopics,
    ProduceWaiter,
)

if TYPE_CHECKING:
    from minikafka.telemetry.stats import BrokerStats, TopicTraffic

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Written by the broker itself only."""

NOTHING_AHEAD: Mapping[int, RecordsAhead] = {}

WAITING_ROWS_MAX = 1 << 19
"""Of the fetches of one user that wait at the same time, with 85 MB. Those beyond are answered at once, with what there is."""

SWEEP_SECONDS = 0.05
"""How late an expired produce may be answered."""

STORAGE_MESSAGE = "Disk error when trying to access log file on the disk."
"""Kafka's."""


class IsrAnswered(NamedTuple):
    """What came of the controller's answer to a proposal."""

    partition: HostedPartition
    error: ErrorCode
    isr_before: tuple[int, ...]
    isr: tuple[int, ...]
    again: bool
    """The outcome is unknown: the same proposal is to be sent again."""


class ReplicaManager:
    """Hosted partitions by topic name and by topic id, and what happens on their behalf.

    Args:
        stats: counts bytes, records and what is refused.
        propose: has the controller asked for another ISR.
        clock: what time it is, and who wakes the purgatory.
        exists: whether the cluster has such a partition, by name or id of its topic.
        hint: where the leader of a partition is, as (broker, leader epoch), if that is known.
        log_failed: told of a log that refused an append or a read.
        flush_soon: has a replica flushed that is not to be counted before that.
    """

    def __init__(
        self,
        stats: BrokerStats,
        propose: Callable[[IsrProposal], None],
        clock: Clock,
        *,
        exists: Callable[[TopicKey, int], bool],
        hint: Callable[[TopicKey, int], tuple[int, int] | None],
        log_failed: Callable[[HostedPartition, LogError], None],
        flush_soon: Callable[[HostedPartition], None],
    ) -> None:
        self.by_name: dict[str, dict[int, HostedPartition]] = {}
        self.by_id: dict[bytes, dict[int, HostedPartition]] = {}
        self.stats = stats
        self.traffic: dict[TopicKey, TopicTraffic] = {}
        """What is counted of each topic with a partition here, by name and by id."""
        self.propose = propose
        self.exists = exists
        self.hint = hint
        self.log_failed = log_failed
        self.flush_soon = flush_soon
        self.room: AppendRoom | None = None
        """Where appends wait for room on the unflushed volume, when there is one."""
        self._ready: list[DelayedFetch] = []
        self._waiting_rows: Counter[str] = Counter()
        """Of the fetches that wait, by user."""
        self._moved: list[HostedPartition] = []
        """Whose high watermark has moved, and who waits for it does not know yet."""
        self.moved: Callable[[HostedPartition], None] = self._moved.append
        """What the partitions that are added are made with."""
        self._delayed: set[DelayedProduce] = set()
        self._sweeps = False
        self._clock = clock
        self._now, self._unix_ms, self._later = clock

    def keep_room(self, volume: UnflushedVolume, tell: Callable[[bool, float], None]) -> None:
        """Have appends wait where there is no room for them on this volume; ``tell``: see :class:`AppendRoom`."""
        self.room = AppendRoom(volume, self, self._clock, self._append_late, self.flush_soon, tell)

    def follower_lacks_room(self) -> None:
        """A follower here could not append all that came, for there was no room."""
        assert self.room is not None, "a volume that is full is one that room is kept on"
        self.room.follower_waits()

    # -- hosting ------------------------------------------------------------------------------------------------------

    def add(self, partition: HostedPartition) -> None:
        topic, index = partition.topic_partition
        self.by_name.setdefault(topic, {})[index] = partition
        self.by_id.setdefault(partition.topic_id, {})[index] = partition
        partition.traffic = self.traffic[topic] = self.traffic[partition.topic_id] = self.stats.topic(topic)

    def remove(self, partition: HostedPartition) -> None:
        topic, index = partition.topic_partition
        tables: tuple[tuple[dict[Any, dict[int, HostedPartition]], TopicKey], ...] = (
            (self.by_name, topic),
            (self.by_id, partition.topic_id),
        )
        for table, key in tables:
            parts = table.get(key, {})
            if parts.get(index) is partition:
                del parts[index]
            if not parts:
                table.pop(key, None)
                self.traffic.pop(key, None)
        if topic not in self.by_name:
            self.stats.topic_gone(topic)

    def get(self, topic: str, index: int) -> HostedPartition | None:
        parts = self.by_name.get(topic)
        return None if parts is None else parts.get(index)

    def all(self) -> list[HostedPartition]:
        return [p for parts in self.by_name.values() for p in parts.values()]

    # -- produce ------------------------------------------------------------------------------------------------------

    def produce(
        self,
        request: ProduceRequest,
        respond: Callable[[list[tuple[str, list[PartitionResult]]]], None],
        internal: bool = False,
        ahead: Mapping[int, RecordsAhead] = NOTHING_AHEAD,
    ) -> None:
        """Append and answer, at once or when the high watermark allows it (R16).

        `ahead` is what is known of the request's batches already, by the `id` of their view.
        """
        acks = request.acks
        now = self._now()
        now_ms = self._unix_ms()
        results: list[tuple[str, list[PartitionResult]]] = []
        delayed: DelayedProduce | None = None
        room = self.room
        for name, partitions in request.topics:
            parts = self.by_name.get(name)
            traffic = self.traffic.get(name)
            if traffic is not None:
                traffic.produce_requests += 1
            row: list[PartitionResult] = []
            results.append((name, row))
            for index, records in partitions:
                partition = None if parts is None else parts.get(index)
                known = ahead.get(id(records)) if ahead else None
                if partition is None:
                    row.append(self._produce_elsewhere(name, index))
                elif name in INTERNAL_TOPICS and not internal:
                    row.append(PartitionResult(index, ErrorCode.INVALID_TOPIC_EXCEPTION))
                elif room is not None and partition.leader is not None and records and room.must_wait(len(records)):
                    if delayed is None:
                        delayed = DelayedProduce(now + request.timeout_ms / 1000, lambda: respond(results))
                    row.append(self._wait_for_room(room, WaitingAppend(name, index, records, acks, delayed, known)))
                else:
                    result, required = self._append(partition, index, records, acks, now_ms, now, known)
                    row.append(result)
                    if required >= 0:
                        if delayed is None:
                            delayed = DelayedProduce(now + request.timeout_ms / 1000, lambda: respond(results))
                        delayed.left += 1
                        waiting = partition.producers if acks == -1 else partition.unflushed_producers
                        waiting.append(ProduceWaiter(required, delayed, result))
                if row[-1].error and records is not None:
                    self._count_rejected(name, records)
        if delayed is None or not (delayed.left or delayed.done):
            respond(results)
        else:
            self._delayed.add(delayed)
            self._sweep_later()

    def _wait_for_room(self, room: AppendRoom, append: WaitingAppend) -> PartitionResult:
        size = len(append.records)
        if size > room.batch_bytes_max:
            append.result.error = ErrorCode.MESSAGE_TOO_LARGE
            append.result.message = f"a batch of {size} bytes; minikafka.unflushed.max.bytes is {room.volume.limit}"
            return append.result
        append.delayed.left += 1
        room.wait(append)
        return append.result

    def _append_late(self, append: WaitingAppend) -> None:
        """Append what has waited for room. A timer has brought it here: no round of events ends, and tells who waits for data."""
        someone_is_notified = bool(self._ready)
        self._append_now(append)
        if self._ready and not someone_is_notified:
            self._later(0.0, self.flush_ready)

    def _append_now(self, append: WaitingAppend) -> None:
        partition = self.get(append.topic, append.index)
        found, required = self._produce_elsewhere(append.topic, append.index), -1
        if partition is not None:
            found, required = self._append(
                partition, append.index, append.records, append.acks, self._unix_ms(), self._now(), append.ahead
            )
        append.result.take(found)
        if partition is not None and required >= 0:
            waiting = partition.producers if append.acks == -1 else partition.unflushed_producers
            waiting.append(ProduceWaiter(required, append.delayed, append.result))
            return
        if found.error:
            self._count_rejected(append.topic, append.records)
        append.delayed.settle(append.result, ErrorCode.NONE)

    def _count_rejected(self, topic: str, records: memoryview) -> None:
        self.stats.rejected_bytes += len(records)
        traffic = self.traffic.get(topic)
        if traffic is not None:
            traffic.rejected_bytes += len(records)

    def _append(
        self,
        partition: HostedPartition,
        index: int,
        records: memoryview | None,
        acks: int,
        now_ms: int,
        now: float,
        ahead: RecordsAhead | None,
    ) -> tuple[PartitionResult, int]:
        """(result, offset that must be safe before it is answered, or -1).

        Safe is below the high watermark, and for acks=1 what the leader itself has as flush.messages wants it.
        """
        leader = partition.leader
        if leader is None:
            hint = self.hint(*partition.topic_partition)
            return PartitionResult(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint), -1
        refused = leader.check_enough_replicas(acks)
        if refused:
            return PartitionResult(index, refused), -1
        if records is None or len(records) == 0:
            return PartitionResult(index, ErrorCode.INVALID_RECORD, message="no record batch in the request"), -1
        try:
            info = leader.append(records, now_ms, now, ahead)
        except LogError as error:
            self._disk_refused(partition, error)
            # what the operating system said names files of this broker
            message = STORAGE_MESSAGE if isinstance(error, LogDirFailure) else str(error)
            result = PartitionResult(index, error.code, message=message, record_errors=error.record_errors)
            if error.tells_log_start:
                result.log_start_offset = partition.log.log_start_offset
            return result, -1
        traffic = partition.traffic
        traffic.bytes_in += info.bytes
        traffic.messages_in += info.records
        log = partition.log
        result = PartitionResult(index, 0, info.first_offset, info.log_append_time, log.log_start_offset)
        if partition.followers and not info.duplicate:
            self.wake(partition.followers)
        if self._moved:
            self.settle_moved()
        owes_flush = log.owes_flush
        if owes_flush:
            self.flush_soon(partition)
        required = info.last_offset + 1
        if acks == -1:
            return result, required if partition.high_watermark < required else -1
        if acks == 1 and owes_flush and not leader.appended_safely(required):
            return result, required
        return result, -1

    def _disk_refused(self, partition: HostedPartition, error: LogError) -> None:
        if isinstance(error, LogDirFailure):
            self.log_failed(partition, error)

    @property
    def waiting_produces(self) -> int:
        """Produce requests that wait; counted when asked, for they come and go by the thousand."""
        return sum(not delayed.done for delayed in self._delayed)

    def _sweep_later(self) -> None:
        if not self._sweeps:
            self._sweeps = True
            self._later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Time out produces. A time-out says nothing about the write: it may still be committed."""
        self._sweeps = False
        now = self._now()
        expired = [d for d in self._delayed if d.done or d.deadline <= now]
        for delayed in expired:
            self._delayed.discard(delayed)
        overdue = {d for d in expired if not d.done}
        if self.room is not None:
            self.room.sweep(overdue)
        if overdue:
            for partition in self.all():
                for waiting in (partition.producers, partition.unflushed_producers):
                    for waiter in [w for w in waiting if w.delayed in overdue]:
                        waiting.remove(waiter)
                        waiter.delayed.settle(waiter.result, ErrorCode.REQUEST_TIMED_OUT)
        if self._delayed:
            self._sweep_later()

    # -- waking -------------------------------------------------------------------------------------------------------

    def wake(self, waiting: dict[DelayedFetch, None]) -> None:
        """Have parked fetches tried again at the end of this round of events."""
        ready = self._ready
        for fetch in waiting:
            if not fetch.queued:
                fetch.queued = True
                ready.append(fetch)
        waiting.clear()

    def flushed(self, partition: HostedPartition) -> None:
        """More of its log is on disk: a leader may count for more, where flush.messages made it wait (R17)."""
        if self.room is not None:
            self._later(0.0, self.room.flushed)  # when this flush has given up its claim
        leader = partition.leader
        if leader is None:
            return
        leader.maybe_advance_high_watermark(self._now())
        self.settle_moved()
        if partition.unflushed_producers:
            partition.settle_unflushed_producers()
        self.flush_ready()

    def settle_moved(self) -> None:
        """Settle producers and wake consumers where the high watermark has moved. Not in the middle of what moves it: who is
        answered may append again, as a coordinator does. Where nobody asks for it, the end of the round does.
        """
        while self._moved:
            partition = self._moved.pop()
            if partition.producers:
                partition.settle_producers()
            if partition.consumers:
                self.wake(partition.consumers)

    def flush_ready(self) -> None:
        """The end of a round of events: tell whoever waits for a high watermark that has moved, try woken fetches again.

        Those that come after many rows have a turn each: others are served in between.
        """
        self.settle_moved()
        rows = 0
        problem: Exception | None = None
        while self._ready:
            ready, self._ready = self._ready, []
            for fetch in ready:
                rows += fetch.rows
                if fetch.rows and rows > MANY_ROWS:
                    fetch.retry_in_turn()
                    continue
                fetch.queued = False
                try:
                    fetch.retry(False)
                except Exception as error:  # the ones after it wait for nothing else
                    problem = error
        if problem is not None:
            raise problem

    # -- fetch --------------------------------------------------------------------------------------------------------

    def fetch(
        self, request: FetchRequest, respond: FetchDone, client: FetchClient | None = None
    ) -> DelayedFetch | None:
        """Answer, at once or later (R7); what waits is the caller's to retry at its deadline, and to give up.

        Args:
            request: of a follower or a consumer.
            respond: takes the answer.
            client: who has turns; None: it needs none.
        """
        settled = self.note_followers(request) if request.replica_id >= 0 else {}
        topics, total, urgent = self.read(request, settled)
        wait = request.max_wait_ms / 1000
        if urgent or total >= request.min_bytes or wait <= 0:
            respond(topics, total)
            return None
        parked = DelayedFetch(self._now() + wait, request, respond, self, client)
        if parked.rows and not self._may_wait(parked):
            respond(topics, total)
            return None
        self.park(parked, request)
        return parked

    def _may_wait(self, fetch: DelayedFetch) -> bool:
        """Count the rows of a fetch that is to wait, unless its user has too many."""
        assert fetch.client is not None, "it has rows"
        user = fetch.user = fetch.client.asked_by
        if self._waiting_rows[user] + fetch.rows > WAITING_ROWS_MAX:
            return False
        self._waiting_rows[user] += fetch.rows
        return True

    def note_followers(self, request: FetchRequest) -> dict[tuple[TopicKey, int], PartitionData]:
        """A follower's positions, taken in once a request; answers the partitions that get an error or a divergence."""
        now = self._now()
        settled: dict[tuple[TopicKey, int], PartitionData] = {}
        for key, partitions in request.topics:
            parts = self.by_id.get(key) if type(key) is bytes else self.by_name.get(key)  # type: ignore[arg-type]
            if parts is None:
                continue
            for asked in partitions:
                partition = parts.get(asked.partition)
                if partition is None:
                    continue
                data = self._note_follower(partition, request, asked, now)
                if data is not None:
                    settled[key, asked.partition] = data
        return settled

    def _note_follower(
        self, partition: HostedPartition, request: FetchRequest, asked: FetchPartition, now: float
    ) -> PartitionData | None:
        code = partition.check_leader(asked.current_leader_epoch)
        leader = partition.leader
        if code or leader is None:
            return PartitionData(asked.partition, code)
        outcome = leader.follower_fetch(
            request.replica_id,
            request.replica_epoch,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            now,
            asked.log_start_offset,
        )
        if self._moved:
            self.settle_moved()
        if outcome.error or outcome.diverging:
            data = PartitionData(
                asked.partition, outcome.error, partition.high_watermark, partition.log.log_start_offset
            )
            data.diverging = outcome.diverging
            return data
        if outcome.proposal is not None:
            self.propose(outcome.proposal)
        return None

    def read(
        self, request: FetchRequest, settled: Mapping[tuple[TopicKey, int], PartitionData]
    ) -> tuple[FetchTopics, int, bool]:
        """(answer so far, bytes of records in it, whether something in it must not wait)."""
        follower = request.replica_id >= 0
        left = request.max_bytes
        total = 0
        urgent = False
        topics: FetchTopics = []
        for key, partitions in request.topics:
            parts = self.by_id.get(key) if type(key) is bytes else self.by_name.get(key)  # type: ignore[arg-type]
            row: list[PartitionData] = []
            topics.append((key, row))
            for asked in partitions:
                data = settled.get((key, asked.partition)) if settled else None
                if data is None:
                    partition = None if parts is None else parts.get(asked.partition)
                    if partition is None:
                        data = PartitionData(asked.partition, self._unknown(key, asked.partition))
                        data.current_leader = self.hint(key, asked.partition)
                    else:
                        data = self._read_partition(partition, asked, follower, left, total == 0)
                    left -= data.size
                    total += data.size
                if data.error or data.diverging is not None:
                    urgent = True
                row.append(data)
        return topics, total, urgent

    def _produce_elsewhere(self, topic: str, index: int) -> PartitionResult:
        """The answer for a partition that is not hosted here; it names the leader where there is such a partition."""
        return PartitionResult(index, self._unknown(topic, index), current_leader=self.hint(topic, index))

    def _unknown(self, key: TopicKey, index: int) -> ErrorCode:
        """Why a partition is not hosted here."""
        if self.exists(key, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        strange = type(key) is bytes and not self.exists(key, 0)
        return ErrorCode.UNKNOWN_TOPIC_ID if strange else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _read_partition(
        self, partition: HostedPartition, asked: FetchPartition, follower: bool, left: int, first: bool
    ) -> PartitionData:
        code = partition.check_leader(asked.current_leader_epoch)
        if code:
            data = PartitionData(asked.partition, code)
            data.current_leader = self.hint(*partition.topic_partition)
            return data
        log = partition.log
        data = PartitionData(asked.partition, 0, partition.high_watermark, log.log_start_offset)
        offset = asked.fetch_offset
        if not follower and asked.last_fetched_epoch >= 0 and partition.leader is not None:
            code, data.diverging = partition.leader.divergence(offset, asked.last_fetched_epoch)
            if code or data.diverging is not None:
                data.error = code
                return data
        end = log.log_end_offset
        upper = end if follower else partition.high_watermark
        if offset < log.log_start_offset or offset > end:
            return PartitionData(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset >= upper:
            return data
        limit = min(asked.max_bytes, left)
        if limit <= 0 and not first:
            return data
        try:
            found = log.read(offset, max(limit, 0), upper, first)
        except LogError as error:
            self._disk_refused(partition, error)
            data.error = error.code
            return data
        data.ranges = found.ranges
        data.size = found.size
        return data

    def answered(self, topics: FetchTopics, sent: bool) -> list[PartitionData]:
        """Count a Fetch that is about to be answered (``sent``: with records, to a client); the partitions with an error."""
        failed: list[PartitionData] = []
        for key, row in topics:
            refused = [data for data in row if data.error]
            traffic = self.traffic.get(key)
            if traffic is not None:
                traffic.fetch_requests += 1
                if sent:
                    traffic.bytes_out += sum([data.size for data in row])
                if refused:
                    traffic.failed_fetch += 1
            failed += refused
        return failed

    def park(self, fetch: DelayedFetch, request: FetchRequest) -> None:
        """Have a fetch woken by the partitions it names."""
        for key, partitions in request.topics:
            parts = self.by_id.get(key) if type(key) is bytes else self.by_name.get(key)  # type: ignore[arg-type]
            if parts is None:
                continue
            for asked in partitions:
                partition = parts.get(asked.partition)
                if partition is not None:
                    (partition.followers if fetch.follower else partition.consumers)[fetch] = None

    def unpark(self, fetch: DelayedFetch, request: FetchRequest) -> None:
        """Forget a parked fetch that was answered or whose connection is gone."""
        if fetch.rows:
            self._waiting_rows[fetch.user] -= fetch.rows
            if not self._waiting_rows[fetch.user]:
                del self._waiting_rows[fetch.user]
        for key, partitions in request.topics:
            parts = self.by_id.get(key) if type(key) is bytes else self.by_name.get(key)  # type: ignore[arg-type]
            for asked in partitions if parts is not None else ():
                partition = parts.get(asked.partition) if parts is not None else None
                if partition is not None:
                    partition.followers.pop(fetch, None)
                    partition.consumers.pop(fetch, None)

    # -- timers ---------------------------------------------------------------------------------------------------------

    def isr_tick(self) -> None:
        """Propose to shrink what lags (R8), and look again at high watermarks that waited for a laggard."""
        now = self._now()
        problem: Exception | None = None
        for partition in self.all():
            try:
                self._check_isr(partition, now)
            except Exception as error:  # the ones after it have laggards, too
                problem = error
        self.flush_ready()
        if problem is not None:
            raise problem

    def _check_isr(self, partition: HostedPartition, now: float) -> None:
        leader = partition.leader
        if leader is None:
            return
        proposal = leader.maybe_shrink(now)
        if proposal is not None:
            self.propose(proposal)
        leader.maybe_advance_high_watermark(now)
        self.settle_moved()

    # -- ISR changes ------------------------------------------------------------------------------------------------------

    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer | None) -> IsrAnswered | None:
        """Give the controller's answer (None: unknown outcome) to the leader that asked; None when it no longer waits for it."""
        partition = self.get(*proposal.topic_partition)
        leader = None if partition is None else partition.leader
        if partition is None or leader is None or leader.isr.pending is not proposal:
            return None
        if answer is None:
            answer = AlterPartitionAnswer(ErrorCode.REQUEST_TIMED_OUT)
        committed = leader.isr.committed
        after = leader.answered(proposal, answer, self._now())
        if after is AfterAnswer.REPLACED and leader.isr.pending is not None:
            self.propose(leader.isr.pending)
        self.settle_moved()
        return IsrAnswered(partition, answer.error, committed, leader.isr.committed, after is AfterAnswer.RETRY)

    def topic_partitions(self) -> list[TopicPartition]:
        return [p.topic_partition for p in self.all()]
