"""Carries the fetches of a simulated broker: the connection to each leader, and what production's loop wants asked over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.fetch import FollowerData
from minikafka.replication.fetch_loop import BACKOFF_SECONDS_FIRST, FetcherPool, Key, Taken
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offsets import EARLIEST, LATEST, list_offset
from minikafka.replication.partition import Partition

from minikafka_chaos.simulation.network import Reply

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker

COUNTS = frozenset({FetchOutcome.APPENDED, FetchOutcome.EMPTY, FetchOutcome.TRUNCATED})
"""Something of the answer counts from now on."""


def fetchers(broker: SimBroker) -> FetcherPool[HostedPartition]:
    """Those of one incarnation."""
    return FetcherPool(lambda leader_id: SimFetcher(broker, leader_id))


def note_truncations(broker: SimBroker, partition: Partition) -> None:
    """Write what a follower cut off into the trace, before the reporter takes it."""
    follower, tp = partition.follower, partition.topic_partition
    for before, after, _, reason in follower.truncations if follower is not None else ():
        broker.world.note(f"b{broker.id} {tp} truncates {before} -> {after}: {reason}")


class SimFetcher:
    """Fetches everything that is followed from one leader. A request that has no answer in time closes the connection."""

    def __init__(self, broker: SimBroker, leader_id: int) -> None:
        self.broker = broker
        self.leader_id = leader_id
        self.loop = broker.world.rules.fetch_loop(leader_id, broker.world.fetch_backoff)
        self._connection = 0
        """Its number; what belongs to an earlier one is over."""
        self._stopped = False
        self._wakes = False

    def add(self, partition: HostedPartition) -> None:
        self.loop.follow(partition)
        self._kick(overtake=True)

    def remove(self, partition: HostedPartition) -> None:
        self.loop.unfollow(partition)

    def flushed(self, partition: HostedPartition) -> None:
        if self.loop.flushed(partition):
            self._kick(overtake=True)

    def _flush_soon(self) -> None:
        for partition in self.loop.owe_flush():
            self.broker.flushing.soon(partition)

    @property
    def is_idle(self) -> bool:
        return self.loop.is_idle

    def stop(self) -> None:
        self._stopped = True
        self.loop.clear()

    def _kick(self, overtake: bool = False) -> None:
        world = self.broker.world
        if self._stopped:
            return
        asked = self.loop.next_fetch(world.now, overtake)
        self._flush_soon()
        if self.loop.wake_at is not None and not self._wakes:
            self._wakes = True
            self.broker.later(self.loop.wake_at - world.now, self._backed_off)
        if asked:
            self._fetch(asked)

    def _backed_off(self) -> None:
        self._wakes = False
        self._kick(overtake=True)

    def _fetch(self, asked: dict[Key, FetchPosition]) -> None:
        connection, source, epoch = self._connection, self.broker.id, self.broker.broker_epoch
        state = {"open": True}

        def serve(leader: SimBroker, reply: Reply) -> None:
            leader.leading.serve_follower(source, epoch, asked, reply)

        def closed() -> None:
            if state["open"] and connection == self._connection:
                self._disconnected()

        def answered(answers: Any) -> None:
            if not state["open"] or self._stopped or connection != self._connection:
                return
            state["open"] = False
            for taken in self.loop.answered(asked, 0, answers.data, self.broker.world.now):
                self._took(taken, answers.led)
            self._flush_soon()
            if self.loop.may_fetch_on:
                self._kick(overtake=True)

        self.broker.world.network.request(source, self.leader_id, serve, answered, closed, fetch=True)
        self.broker.later(self.broker.world.fetch_timeout, closed)

    def _disconnected(self) -> None:
        self._connection += 1
        self.loop.disconnected()
        if not self._stopped:
            self.broker.later(BACKOFF_SECONDS_FIRST, self._kick)

    def _took(self, taken: Taken[HostedPartition], led: dict[Key, int]) -> None:
        """Errors of the code end the run, and those of a disk that takes everything."""
        world, partition = self.broker.world, taken.partition
        if taken.broke is not None:
            raise taken.broke
        if taken.failure is not None:
            self.broker.log_dir.log_failed(partition, taken.failure)
        if taken.outcome in COUNTS:
            sent_in = led.get((partition.topic_id, partition.topic_partition.partition), -1)
            world.watcher.fetched(self.broker, partition, self.leader_id, sent_in)
        if taken.outcome is FetchOutcome.APPENDED:
            world.note(
                f"b{self.broker.id} {partition.topic_partition} appends {taken.position.offset}.."
                f"{partition.log.log_end_offset} hw {partition.high_watermark}"
            )
        elif taken.outcome is FetchOutcome.OUT_OF_RANGE:
            self._ask_offsets(partition, taken.position)
        note_truncations(self.broker, partition)
        self.broker.leading.reporter.fetched(taken, self.leader_id)

    def _ask_offsets(self, partition: HostedPartition, position: FetchPosition) -> None:
        tp = partition.topic_partition

        def serve(leader: SimBroker, reply: Reply) -> None:
            there = leader.partitions.get(tp)
            if there is not None:
                start, end = (list_offset(there, position.leader_epoch, at, replica=True) for at in (EARLIEST, LATEST))
                if not start.error and not end.error:
                    reply((start.offset, end.offset))

        def answered(offsets: Any) -> None:
            earliest, latest = offsets
            taken = self.loop.leader_range(partition, position, earliest, latest, self.broker.world.now)
            if taken is not None:
                self._took(taken._replace(outcome=FetchOutcome.STALE), {})
                self._kick(overtake=True)

        self.broker.world.network.request(self.broker.id, self.leader_id, serve, answered)


class FetchAnswer:
    """What a leader answers to a fetch, and (for the checker) in which leader epoch it led each partition."""

    __slots__ = ("data", "led")

    def __init__(self, data: list[FollowerData], led: dict[Key, int]) -> None:
        self.data = data
        self.led = led
