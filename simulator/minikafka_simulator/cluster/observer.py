"""Tells the simulation what a broker does: for the trace, for the checker, and that mistakes end the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from minikafka.controller.term import Commit, Effect, Failed, Happened
from minikafka.log.errors import LogError
from minikafka.log.manager import LogManager
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FetchPartition, FetchRequest
from minikafka.protocol.types import TopicPartition
from minikafka.replication.fetch_loop import Taken
from minikafka.replication.follower import FetchOutcome
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.purgatory import FetchDone, FetchTopics
from minikafka.server.controller_role import ControllerRole
from minikafka.server.observer import BrokerObserver

from minikafka_simulator.cluster.answers import NEVER

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


COUNTS = frozenset({FetchOutcome.APPENDED, FetchOutcome.EMPTY, FetchOutcome.TRUNCATED})
"""Something of the answer counts from now on."""


class SimObserver(BrokerObserver):
    """Of one incarnation."""

    def __init__(self, sim: SimBroker) -> None:
        self.sim = sim
        self.watcher = sim.world.watcher

    def failed(self, error: BaseException) -> None:
        """A mistake of the program ends the run; a disk that refuses does not."""
        self.sim.broke(error)

    def closed(self, clean: bool) -> None:
        self.watcher.checkpointed(self.sim, self.sim.high_watermarks(), perhaps=not clean)

    # -- the controller -----------------------------------------------------------------------------------------------------

    def decided(self, role: ControllerRole, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Commit():
                    self.sim.committing, self.sim.deciding = effect, role.controller.image
                case Happened():
                    self.watcher.emitted(self.sim, effect.event)
                case Failed():
                    self.sim.broke(effect.error)

    # -- replicas -----------------------------------------------------------------------------------------------------------

    def logs_opened(self, logs: LogManager) -> None:
        self.sim.logs = logs
        self.watcher.started(self.sim)

    def hosted(self, partition: HostedPartition) -> None:
        self.watcher.hosted(self.sim, partition)

    def dropped(self, partition: HostedPartition) -> None:
        self.watcher.dropped(self.sim, partition.topic_partition)

    def registration_lost(self) -> None:
        self.sim.look()
        for topic_partition in self.sim.partitions:
            self.watcher.reset(self.sim, topic_partition)

    def image_changes(self) -> None:
        self.sim.look()

    def image_applied(self) -> None:
        self.watcher.settled(self.sim)

    def isr_proposed(self, proposal: IsrProposal) -> None:
        members = [member for member, _ in proposal.isr]
        self.sim.world.note(f"b{self.sim.id} {proposal.topic_partition} proposes isr {members}")
        self.sim.world.isr_proposed(self.sim, proposal)

    def follower_asked(self, request: FetchRequest, respond: FetchDone) -> FetchDone:
        """Keep in which leader epoch each partition of the answer was led: Kafka's protocol does not say."""
        sim, by_id = self.sim, self.sim.gate.replicas.by_id
        world, answers = sim.world, sim.world.answers

        def limited(part: FetchPartition) -> FetchPartition:
            return part._replace(max_bytes=world.read_limit(request.replica_id, part.max_bytes))

        request.topics = [(key, [limited(part) for part in partitions]) for key, partitions in request.topics]
        asked = {(key, part.partition): part for key, partitions in request.topics for part in partitions}

        def answer(topics: FetchTopics, size: int) -> None:
            for key, partitions in topics:
                assert isinstance(key, bytes), "followers name topics by their ids"
                for part in partitions:
                    if part.error in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                        _, epoch, offset, *_ = asked[key, part.partition]
                        hosted = by_id.get(key, {}).get(part.partition)
                        led = NEVER if hosted is None or hosted.leader is None else hosted.leader.epoch
                        answers.note(sim.id, request.replica_id, (key, part.partition), (epoch, offset), led)
            respond(topics, size)

        return answer

    def fetched(self, taken: Taken[HostedPartition], leader_id: int) -> None:
        sim, partition = self.sim, taken.partition
        if taken.outcome in COUNTS:
            key = partition.topic_id, partition.topic_partition.partition
            position = taken.position.leader_epoch, taken.position.offset
            self.watcher.fetched(sim, partition, leader_id, sim.world.answers.of(leader_id, sim.id, key, position))

    # -- disks --------------------------------------------------------------------------------------------------------------

    def log_refused(self, partition: HostedPartition, error: LogError) -> None:
        del partition
        self.sim.tolerate(error)

    def log_reopened(self, topic_partition: TopicPartition) -> None:
        self.watcher.reopened(self.sim, topic_partition)

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        marks = self.sim.high_watermarks()
        try:
            yield
        except Exception:
            self.watcher.checkpointed(self.sim, marks, perhaps=True)
            raise
        self.watcher.checkpointed(self.sim, marks)

    @contextmanager
    def retention(self, partition: HostedPartition) -> Iterator[None]:
        log = partition.log
        if log.failure is not None:
            yield
            return
        before, least = log.log_start_offset, min(partition.high_watermark, log.segments[-1].base_offset)
        yield
        if log.failure is not None:
            self.watcher.retained(self.sim, partition, least)
        elif log.log_start_offset > before:
            self.watcher.retained(self.sim, partition, log.log_start_offset)
