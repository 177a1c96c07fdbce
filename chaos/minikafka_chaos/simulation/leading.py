"""Brings the requests of a simulated network to production's replica manager, and its answers back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minikafka.log.results import FetchSlice
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import CONSUMER, FetchPartition, FetchRequest, FollowerData
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.types import TopicPartition
from minikafka.replication.fetch_loop import Key
from minikafka.replication.follower import FetchPosition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offsets import EARLIEST, LATEST, list_offset
from minikafka.replication.purgatory import FetchDone, FetchTopics
from minikafka.replication.reporter import ReplicaReporter

from minikafka_chaos.simulation.following import FetchAnswer
from minikafka_chaos.simulation.network import Reply
from minikafka_chaos.simulation.reports import SimContext

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker

FETCH_BYTES_MAX = 1 << 30
SESSIONLESS = (0, -1)
Produced = tuple[ErrorCode, int]
"""Of a partition in a produce: the error, and the offset of the batch's first record."""

OVERDUE_SECONDS = 0.2
"""How late an answer may leave when its time is up; a sweep of the purgatory comes every 0.05 s."""


class Waiting:
    """A request that was taken in and has no answer yet, as the checker sees it."""

    __slots__ = ("answered", "deadline", "parts")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.parts: list[tuple[HostedPartition, int]] = []
        """Of a produce: each partition, and the high watermark that it waits for."""
        self.answered = False

    def overdue(self, now: float, awake_since: float) -> str | None:
        """Why it should have been answered by now, or None."""
        if self.answered:
            return None
        if self.parts and all(hosted.leader is None or hosted.high_watermark >= up_to for hosted, up_to in self.parts):
            told = ", ".join(
                f"{hosted.topic_partition} up to {up_to}, "
                + ("which is led no more" if hosted.leader is None else f"the HW is {hosted.high_watermark}")
                for hosted, up_to in self.parts
            )
            return f"a produce waits for {told}"
        if now > max(self.deadline, awake_since) + OVERDUE_SECONDS:
            return f"its time was up at {self.deadline:.3f}, it is {now:.3f}"
        return None


class Leading:
    """What comes to one incarnation over the network: fetches of followers and readers, produces, questions of offsets."""

    def __init__(self, broker: SimBroker) -> None:
        world = broker.world
        self.broker = broker
        self._waiting: list[Waiting] = []
        context = SimContext(broker)
        self.clock = context.clock
        self.replicas = world.rules.replica_manager(context.stats, broker.isr.propose, self.clock)
        self.reporter = ReplicaReporter(context, self.replicas)
        self.replicas.flush_soon = broker.flushing.soon
        self.replicas.exists = lambda key, index: any(
            key in (topic.topic_id.bytes, topic.name) for topic in broker.image_partitions(index)
        )

    def overdue(self, awake_since: float) -> str | None:
        """A request that should have been answered by now; ``awake_since``: the broker ran without a pause."""
        if not self._waiting:
            return None
        self._waiting = [waiting for waiting in self._waiting if not waiting.answered]
        now = self.broker.world.now
        return next(filter(None, (waiting.overdue(now, awake_since) for waiting in self._waiting)), None)

    def _fetch(self, request: FetchRequest, respond: FetchDone) -> None:
        waiting = Waiting(self.broker.world.now + request.max_wait_ms / 1000)

        def answer(topics: FetchTopics, size: int) -> None:
            waiting.answered = True
            try:
                respond(topics, size)
            except OSError as error:
                self._file_failed(topics, error)

        parked = self.replicas.fetch(request, answer)
        if not waiting.answered:
            self._waiting.append(waiting)
        if parked is not None:
            self.broker.later(parked.deadline - self.broker.world.now, lambda: parked.retry(True))

    def _file_failed(self, answer: FetchTopics, error: OSError) -> None:
        """The disk could not read what was to be sent: there is no answer, as when production's connection ends."""
        self.broker.tolerate(error)
        files = {id(file): file for _, row in answer for part in row for file, *_ in part.ranges}
        for partition in self.replicas.all():
            if any(partition.log.reads_from(file) for file in files.values()):
                self.broker.log_dir.log_failed(partition, partition.log.refused("read failed", error))

    def serve_follower(self, source: int, broker_epoch: int, asked: dict[Key, FetchPosition], reply: Reply) -> None:
        """A follower's fetch of all that it follows here."""
        world = self.broker.world
        topics: dict[bytes, list[FetchPartition]] = {}
        for (topic_id, index), position in asked.items():
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    index,
                    position.leader_epoch,
                    position.offset,
                    position.last_fetched_epoch,
                    position.log_start_offset,
                    world.read_limit(source),
                )
            )
        wait_ms = int(world.fetch_wait() * 1000)
        request = FetchRequest(source, wait_ms, 1, FETCH_BYTES_MAX, 0, *SESSIONLESS, list(topics.items()))
        request.replica_epoch = broker_epoch

        def respond(answer: FetchTopics, size: int) -> None:
            del size
            data, led = [], {}
            for topic_id, row in answer:
                assert isinstance(topic_id, bytes)
                for part in row:
                    records = FetchSlice(list(part.ranges), part.size).read()
                    data.append(
                        FollowerData(
                            topic_id,
                            part.partition,
                            part.error,
                            part.high_watermark,
                            part.log_start_offset,
                            part.diverging,
                            memoryview(bytearray(records)),
                        )
                    )
                    led[topic_id, part.partition] = self.broker.epoch_led(topic_id, part.partition)
            reply(FetchAnswer(data, led))

        self._fetch(request, respond)

    def serve_reader(
        self, tp: TopicPartition, leader_epoch: int, position: int, last_epoch: int, limit: int, reply: Reply
    ) -> None:
        """A client's fetch; ``reply`` gets (error, records below the high watermark, where the log parts or None).

        ``last_epoch`` is the leader epoch of the reader's last record, -1 for none: with it the leader can tell that the
        reader has read what is no longer there (KIP-320).
        """
        asked = FetchPartition(tp.partition, leader_epoch, position, last_epoch, -1, limit)
        wait_ms = int(self.broker.world.reader_wait() * 1000)
        request = FetchRequest(CONSUMER, wait_ms, 1, FETCH_BYTES_MAX, 0, *SESSIONLESS, [(tp.topic, [asked])])

        def respond(answer: FetchTopics, size: int) -> None:
            del size
            part = answer[0][1][0]
            records = FetchSlice(list(part.ranges), part.size).read()
            reply((ErrorCode(part.error), records, part.diverging))

        self._fetch(request, respond)

    def serve_bounds(self, tp: TopicPartition, leader_epoch: int, reply: Reply) -> None:
        """ListOffsets, earliest and latest; ``reply`` gets (start, end, leader epoch) when this leader knows them."""
        partition = self.broker.partitions.get(tp)
        if partition is not None:
            start, end = (list_offset(partition, leader_epoch, at, replica=False) for at in (EARLIEST, LATEST))
            if not start.error and not end.error:
                reply((start.offset, end.offset, end.leader_epoch))

    def serve_end(self, tp: TopicPartition, leader_epoch: int, reply: Reply) -> None:
        """ListOffsets, latest; ``reply`` gets (end, leader epoch) when this leader knows them."""
        self.serve_bounds(tp, leader_epoch, lambda found: reply(found[1:]))

    def produce(self, parts: Sequence[tuple[TopicPartition, bytes]], acks: int, reply: Reply) -> None:
        """A client's batches; ``reply`` gets a list of :data:`Produced`."""
        world = self.broker.world
        waiting, before = began_to_wait(self.broker, parts)

        def respond(results: list[tuple[str, list[PartitionResult]]]) -> None:
            waiting.answered = True
            reply([(ErrorCode(row.error), row.base_offset) for _, rows in results for row in rows])

        topics: dict[str, list[tuple[int, memoryview | None]]] = {}
        for tp, batch in parts:
            topics.setdefault(tp.topic, []).append((tp.partition, memoryview(bytearray(batch))))
        timeout_ms = int(world.produce_timeout * 1000)
        self.replicas.produce(ProduceRequest(None, acks, timeout_ms, list(topics.items())), respond)
        self._waiting += wait_for(self.broker, waiting, before)


def began_to_wait(
    broker: SimBroker, parts: Sequence[tuple[TopicPartition, bytes]]
) -> tuple[Waiting, list[tuple[HostedPartition, int]]]:
    """Before a produce is served: who waits, and each of its partitions with the log end offset that it has now."""
    asked = dict.fromkeys(tp for tp, _ in parts)
    hosted = [partition for tp in asked if (partition := broker.partitions.get(tp)) is not None]
    deadline = broker.world.now + broker.world.produce_timeout
    return Waiting(deadline), [(partition, partition.log.log_end_offset) for partition in hosted]


def wait_for(broker: SimBroker, waiting: Waiting, before: list[tuple[HostedPartition, int]]) -> list[Waiting]:
    """After it was served: it waits, unless it is answered already."""
    for partition, end in before:
        if (now := partition.log.log_end_offset) > end:
            broker.world.note(f"b{broker.id} {partition.topic_partition} leads append {end}..{now}")
    if waiting.answered or not before:
        return []
    room = broker.leading.replicas.room
    if room is None or not room.waiting:  # else it may not be appended yet
        waiting.parts = [(partition, partition.log.log_end_offset) for partition, _ in before]
    return [waiting]
