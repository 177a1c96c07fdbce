"""Leading in a simulation: serves followers, readers and producers, now or when there is something to tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minikafka.log.errors import LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchPosition
from minikafka.replication.partition import Partition

from minikafka_chaos.simulation.network import Reply

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class Parked:
    """A fetch that waits at a leader."""

    __slots__ = ("answer", "done")

    def __init__(self, answer: Callable[[], None]) -> None:
        self.answer = answer
        self.done = False

    def wake(self) -> None:
        if not self.done:
            self.done = True
            self.answer()


class Leading:
    """One incarnation's part as a leader; mirrors ``minikafka.server.replicas``."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self._parked: dict[TopicPartition, list[Parked]] = {}
        self._producers: dict[TopicPartition, list[tuple[int, Callable[[ErrorCode], None]]]] = {}
        self._unflushed_producers: dict[TopicPartition, list[tuple[int, Callable[[ErrorCode], None]]]] = {}

    def serve_follower(
        self, tp: TopicPartition, source: int, broker_epoch: int, position: FetchPosition, reply: Reply
    ) -> None:
        """A follower's fetch: note its position, answer now or when there is something to send."""
        partition = self.broker.partitions.get(tp)
        if partition is None:
            reply((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, -1, -1, b""))
            return
        code = partition.check_leader(position.leader_epoch)
        if code or partition.leader is None:
            reply((code or ErrorCode.NOT_LEADER_OR_FOLLOWER, None, -1, -1, b""))
            return
        before = partition.high_watermark
        outcome = partition.leader.follower_fetch(
            source,
            broker_epoch,
            position.leader_epoch,
            position.offset,
            position.last_fetched_epoch,
            self.broker.world.now,
        )
        if partition.high_watermark != before:
            self.moved(partition)
        if outcome.error or outcome.diverging:
            reply((outcome.error, outcome.diverging, partition.high_watermark, partition.log.log_start_offset, b""))
            return
        self.broker.isr.propose(outcome.proposal)
        if position.offset < partition.log.log_end_offset:
            self._send_records(tp, position, reply)
            return
        parked = Parked(lambda: self._send_records(tp, position, reply))
        self._parked.setdefault(tp, []).append(parked)
        self.broker.later(self.broker.world.fetch_wait(), parked.wake)

    def _send_records(self, tp: TopicPartition, position: FetchPosition, reply: Reply) -> None:
        partition = self.broker.partitions.get(tp)
        if partition is None:
            reply((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, -1, -1, b""))
            return
        code = partition.check_leader(position.leader_epoch)
        records = b""
        if not code and position.offset > partition.log.log_end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        if not code and position.offset < partition.log.log_end_offset:
            end = partition.log.log_end_offset
            records = partition.log.read(position.offset, self.broker.world.read_limit(), end).read()
        reply((code, None, partition.high_watermark, partition.log.log_start_offset, records))

    def serve_reader(
        self, tp: TopicPartition, leader_epoch: int, position: int, last_epoch: int, limit: int, reply: Reply
    ) -> None:
        """A client's fetch; ``reply`` gets (error, records below the high watermark, log start, where the log parts or None).

        ``last_epoch`` is the leader epoch of the reader's last record, -1 for none: with it the leader can tell that the
        reader has read what is no longer there (KIP-320).
        """
        partition = self.broker.partitions.get(tp)
        if partition is None:
            reply((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"", 0, None))
            return
        code = partition.check_leader(leader_epoch)
        log, parted = partition.log, None
        if not code and not log.log_start_offset <= position <= log.log_end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        if not code and partition.leader is not None:
            code, parted = partition.leader.divergence(position, last_epoch)
        records = b""
        if not code and parted is None and position < partition.high_watermark:
            records = log.read(position, limit, partition.high_watermark).read()
        reply((code, records, log.log_start_offset, parted))

    def serve_bounds(self, tp: TopicPartition, leader_epoch: int, reply: Reply) -> None:
        """ListOffsets, earliest and latest; ``reply`` gets (start, end, leader epoch) when this leader knows them."""
        partition = self.broker.partitions.get(tp)
        if partition is not None and not partition.check_leader(leader_epoch) and partition.leader is not None:
            end = partition.leader.end_offset_for_clients()
            if end is not None:
                reply((partition.log.log_start_offset, end, partition.leader_epoch))

    def wake(self, tp: TopicPartition) -> None:
        """Answer the fetches that wait."""
        for parked in self._parked.pop(tp, []):
            parked.wake()

    def produce(self, tp: TopicPartition, batch: bytes, acks: int, reply: Reply) -> None:
        """A client's batch; ``reply`` gets (error, base offset)."""
        partition = self.broker.partitions.get(tp)
        leader = None if partition is None else partition.leader
        if partition is None or leader is None:
            reply((ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
            return
        code = leader.check_enough_replicas(acks)
        if code:
            reply((code, -1))
            return
        before = partition.high_watermark
        try:
            info = leader.append(memoryview(bytearray(batch)), self.broker.now_ms, self.broker.world.now)
        except LogError as error:
            reply((error.code, -1))
            return
        if not info.duplicate:
            self.broker.world.note(f"b{self.broker.id} {tp} leads append {info.first_offset}..{info.last_offset + 1}")
            self.wake(tp)
        if partition.high_watermark != before:
            self.moved(partition)
        owes_flush, required = partition.log.owes_flush, info.last_offset + 1
        if owes_flush:
            self.broker.flushing.soon(partition)
        if acks == 0 or (acks == 1 and not (owes_flush and not leader.appended_safely(required))):
            reply((ErrorCode.NONE, info.first_offset))
            return
        waiting = self._producers if acks == -1 else self._unflushed_producers
        waiting.setdefault(tp, []).append((required, lambda error: reply((error, -1 if error else info.first_offset))))
        self._settle(partition)

    def moved(self, partition: Partition) -> None:
        """A high watermark has moved."""
        self.broker.world.watcher.high_watermark(self.broker, partition)
        self._settle(partition)

    def flushed(self, partition: Partition) -> None:
        """More of its log is on disk: what waited for that goes on."""
        leader, tp = partition.leader, partition.topic_partition
        if leader is None:
            return
        before = partition.high_watermark
        leader.maybe_advance_high_watermark(self.broker.world.now)
        if partition.high_watermark != before:
            self.moved(partition)
        waiting = self._unflushed_producers.get(tp, [])
        while waiting and leader.appended_safely(waiting[0][0]):
            waiting.pop(0)[1](ErrorCode.NONE)

    def _settle(self, partition: Partition) -> None:
        """Answer the acks=all produces that the high watermark has passed."""
        waiting = self._producers.get(partition.topic_partition, [])
        while waiting and partition.leader is not None:
            required, respond = waiting[0]
            code = partition.leader.acknowledgement(required)
            if code is None:
                return
            waiting.pop(0)
            respond(code)

    def fail_producers(self, tp: TopicPartition) -> None:
        """Nobody waits at a replica that leads no more."""
        for waiting in (self._producers, self._unflushed_producers):
            for _, respond in waiting.pop(tp, []):
                respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
