"""Following in a simulation: fetches of one partition each, and what comes of their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.replication.partition import Partition

from minikafka_chaos.simulation import reports
from minikafka_chaos.simulation.network import Reply

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker

BACKOFF = 0.05
TAKEN = frozenset({FetchOutcome.APPENDED, FetchOutcome.EMPTY, FetchOutcome.TRUNCATED})
"""Something of the answer counts from now on."""


class Following:
    """One incarnation's part as a follower; mirrors ``minikafka.server.fetchers``."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self._fetching: dict[TopicPartition, int] = {}
        self._held: set[TopicPartition] = set()
        """Not asked for until a flush is done."""

    def fetch(self, tp: TopicPartition) -> None:
        """One fetch of one partition; each has a number, so that a timer does not double it."""
        partition = self.broker.partitions.get(tp)
        follower = None if partition is None else partition.follower
        if partition is None or follower is None or follower.failed:
            return
        if not follower.may_ask():
            self._held.add(tp)
            self.broker.flushing.soon(partition)
            return
        number = self._fetching[tp] = self._fetching.get(tp, 0) + 1
        position = follower.position()
        epoch = self.broker.broker_epoch
        leader_id = follower.leader_id
        source = self.broker.id

        def serve(leader: SimBroker, reply: Reply) -> None:
            leader.leading.serve_follower(
                tp, source, epoch, position, lambda answer: reply((leader.epoch_led(tp), answer))
            )

        def again() -> None:
            if self._fetching.get(tp) == number:
                self.fetch(tp)

        def refused() -> None:
            self.broker.later(BACKOFF, again)

        def answered(sent: Any) -> None:
            self._fetched(tp, position, leader_id, *sent)
            again()

        self.broker.world.network.request(self.broker.id, leader_id, serve, answered, refused)
        self.broker.later(self.broker.world.fetch_timeout, again)

    def flushed(self, tp: TopicPartition) -> None:
        """More of its log is on disk: what was held back may be asked for."""
        if tp in self._held:
            self._held.discard(tp)
            self.fetch(tp)

    def _fetched(self, tp: TopicPartition, position: FetchPosition, leader_id: int, sent_in: int, answer: Any) -> None:
        partition = self.broker.partitions.get(tp)
        follower = None if partition is None else partition.follower
        if partition is None or follower is None:
            return
        error, diverging, high_watermark, start, records = answer
        before = partition.log.log_end_offset
        outcome = follower.answered(position, error, diverging, high_watermark, start, memoryview(bytearray(records)))
        if outcome in TAKEN:
            self.broker.world.watcher.fetched(self.broker, partition, leader_id, sent_in)
        if outcome is FetchOutcome.APPENDED:
            self.broker.world.note(
                f"b{self.broker.id} {tp} appends {before}..{partition.log.log_end_offset} hw {partition.high_watermark}"
            )
        elif outcome is FetchOutcome.OUT_OF_RANGE:
            self._ask_offsets(tp, position)
        elif outcome in (FetchOutcome.BACK_OFF, FetchOutcome.FAILED):
            self._fetching[tp] = self._fetching.get(tp, 0) + 1
            number = self._fetching[tp]
            self.broker.later(BACKOFF, lambda: self.fetch(tp) if self._fetching.get(tp) == number else None)
        self.note_truncations(tp, partition)

    def note_truncations(self, tp: TopicPartition, partition: Partition) -> None:
        follower = partition.follower
        if follower is not None and follower.truncations:
            for before, after, records, reason in follower.truncations:
                self.broker.world.note(f"b{self.broker.id} {tp} truncates {before} -> {after}: {reason}")
                reports.truncated(self.broker, partition, before, after, records, reason)
            follower.truncations.clear()

    def _ask_offsets(self, tp: TopicPartition, position: FetchPosition) -> None:
        follower = self.broker.partitions[tp].follower
        assert follower is not None

        def serve(leader: SimBroker, reply: Reply) -> None:
            partition = leader.partitions.get(tp)
            if partition is not None and partition.check_leader(position.leader_epoch) is ErrorCode.NONE:
                reply((partition.log.log_start_offset, partition.log.log_end_offset))

        def answered(offsets: Any) -> None:
            partition = self.broker.partitions.get(tp)
            if partition is not None and partition.follower is follower:
                follower.leader_offsets(position, *offsets)
                self.note_truncations(tp, partition)
                self.fetch(tp)

        self.broker.world.network.request(self.broker.id, follower.leader_id, serve, answered)
