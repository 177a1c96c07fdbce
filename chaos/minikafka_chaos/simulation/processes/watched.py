"""Production's broker, which tells the simulation what it does: for the trace, for the checker, and that mistakes end the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from minikafka.config import BrokerConfig
from minikafka.controller.term import Commit, Effect, Failed, Happened
from minikafka.log.errors import LogError
from minikafka.log.filesystem import FileSystem
from minikafka.log.log import Log
from minikafka.log.manager import LogManager
from minikafka.metadata.store import ClusterStore
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FetchPartition, FetchRequest
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.replication.fetch_loop import Key, Taken
from minikafka.replication.follower import FetchOutcome
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.purgatory import DelayedFetch, FetchDone, FetchTopics
from minikafka.replication.replica_host import Dropped, Opened
from minikafka.replication.replica_host import Effect as HostEffect
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server.broker import Broker
from minikafka.server.context import BrokerContext
from minikafka.server.controller_role import ControllerRole
from minikafka.server.hosting import PartitionHost
from minikafka.server.housekeeping import Housekeeping
from minikafka.server.machine import Machine
from minikafka.server.metadata_follower import MetadataFollower
from minikafka.server.offline_logs import LogDirShell
from minikafka.telemetry.events import EventLog

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


COUNTS = frozenset({FetchOutcome.APPENDED, FetchOutcome.EMPTY, FetchOutcome.TRUNCATED})
"""Something of the answer counts from now on."""

FollowerQuestion = tuple[int, Key, int, int]
"""Who asks for which partition, in which leader epoch, from which offset."""


class SimMachine(Machine):
    """The machine of a simulated broker."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        world = broker.world

        def later(seconds: float, event: Callable[[], None]) -> object:
            return broker.loop.call_later(seconds or world.next_turn(), event)

        self.clock = Clock(lambda: world.now, lambda: broker.now_ms, later)

    def new_id(self) -> UUID:
        return UUID(int=self.broker.world.random.getrandbits(128), version=4)

    def events(self, config: BrokerConfig) -> EventLog:
        return _Events(self.broker, config.node_id)

    def disk(self, config: BrokerConfig, warn: Callable[[str], None]) -> FileSystem:
        del config, warn
        return self.broker.disk


class _Events(EventLog):
    """Into the trace, and to whoever looks for events in the world."""

    __slots__ = ("_broker",)

    def __init__(self, broker: SimBroker, broker_id: int) -> None:
        super().__init__(None, broker_id)
        self._broker = broker

    def emit(self, event: str, *, topic: str | None = None, partition: int | None = None, **fields: Any) -> None:
        super().emit(event, topic=topic, partition=partition, **fields)
        broker = self._broker
        where = "" if topic is None else f" {topic}-{partition}"
        broker.world.note(f"b{broker.id}{where} {event} " + " ".join(f"{k}={v}" for k, v in fields.items()))
        broker.world.event(broker, event, topic, partition, **fields)
        if event == "group_deleted":
            broker.world.watcher.group_deleted(str(fields["group"]))


class WatchedContext(BrokerContext):
    """What every part has at hand; here, the simulated broker too."""

    @property
    def sim(self) -> SimBroker:
        assert isinstance(self.machine, SimMachine)
        return self.machine.broker

    def handler_failed(self, error: BaseException) -> None:
        """A mistake of the program ends the run; a disk that refuses does not."""
        self.sim.broke(error)
        super().handler_failed(error)

    def warn(self, line: str) -> None:
        if "was passed over" in line:  # a record of groups that cannot be read
            self.sim.broke(AssertionError(line))
        self.sim.world.note(f"b{self.sim.id} {line}")


class WatchedRole(ControllerRole):
    """A term."""

    context: WatchedContext

    def start(self) -> None:
        super().start()
        sim = self.context.sim
        sim.world.store.term_began(sim.term_of(self))

    def _end(self, reason: str) -> None:
        sim = self.context.sim
        sim.world.store.term_ended(sim.term_of(self))
        super()._end(reason)

    def _carry_out(self, effects: list[Effect]) -> Commit | None:
        sim = self.context.sim
        for effect in effects:
            match effect:
                case Commit():
                    sim.committing, sim.deciding = effect, self.controller.image
                case Happened():
                    sim.world.watcher.told(sim, effect.event)
                case Failed():
                    sim.broke(effect.error)
        return super()._carry_out(effects)


class Host(PartitionHost):
    context: WatchedContext

    def open(self, logs: LogManager) -> None:
        sim = self.context.sim
        sim.logs = logs
        sim.world.watcher.started(sim)
        super().open(logs)

    def reset(self) -> None:
        sim = self.context.sim
        sim.look()
        for partition in self.manager.all():
            sim.world.watcher.reset(sim, partition.topic_partition)
        super().reset()

    def _carry_out_one(self, effect: HostEffect) -> None:
        sim = self.context.sim
        if isinstance(effect, Opened):
            sim.world.watcher.hosted(sim, effect.partition)
        super()._carry_out_one(effect)
        if isinstance(effect, Dropped):
            sim.world.watcher.dropped(sim, effect.partition.topic_partition)


class Follower(MetadataFollower):
    context: WatchedContext

    def take(self, records: Mapping[str, Any]) -> None:
        sim = self.context.sim
        sim.look()
        super().take(records)
        if self._membership.lifecycle.in_image(self._metadata.image) is not None:
            sim.world.watcher.settled(sim)


class Reporter(ReplicaReporter):
    _context: WatchedContext

    def log_failed(self, partition: HostedPartition, error: LogError) -> None:
        self._context.sim.tolerate(error)
        super().log_failed(partition, error)

    def fetched(self, taken: Taken[HostedPartition], leader_id: int) -> None:
        sim, partition = self._context.sim, taken.partition
        if taken.outcome in COUNTS:
            key = partition.topic_id, partition.topic_partition.partition
            asked = sim.id, key, taken.position.leader_epoch, taken.position.offset
            sim.world.watcher.fetched(sim, partition, leader_id, sim.world.answers.get((leader_id, asked), -1))
        super().fetched(taken, leader_id)


class WatchedHousekeeping(Housekeeping):
    context: WatchedContext

    async def _checkpoint_hw(self) -> None:
        sim = self.context.sim
        marks = sim.high_watermarks()
        try:
            await super()._checkpoint_hw()
        except Exception:
            sim.world.watcher.checkpointed(sim, marks, perhaps=True)
            raise
        sim.world.watcher.checkpointed(sim, marks)

    def _retain_one(self, partition: HostedPartition, now_ms: int) -> None:
        sim, log = self.context.sim, partition.log
        if log.failure is not None:
            super()._retain_one(partition, now_ms)
            return
        before, least = log.log_start_offset, min(partition.high_watermark, log.segments[-1].base_offset)
        super()._retain_one(partition, now_ms)
        if log.failure is not None:
            sim.world.watcher.retained(sim, partition, least)
        elif log.log_start_offset > before:
            sim.world.watcher.retained(sim, partition, log.log_start_offset)


class LogDir(LogDirShell):
    context: WatchedContext

    def open_anew(self, topic_partition: TopicPartition, done: Callable[[Log | Exception], None]) -> None:
        sim = self.context.sim

        def opened(found: Log | Exception) -> None:
            done(found)
            if not isinstance(found, Exception):
                sim.world.watcher.reopened(sim, topic_partition)

        super().open_anew(topic_partition, opened)


class WatchedBroker(Broker):
    """See the module."""

    its_context = WatchedContext
    controller_role = WatchedRole
    replica_reporter = Reporter
    partition_host = Host
    metadata_follower = Follower
    its_housekeeping = WatchedHousekeeping
    log_dir_shell = LogDir

    def __init__(self, sim: SimBroker, config: BrokerConfig, store: ClusterStore) -> None:
        self.sim = sim
        super().__init__(config, store, SimMachine(sim))
        self.replicas.propose = self._propose
        self.groups.host.load_slice = sim.world.load_slice
        self._fetch_of_replicas, self.replicas.fetch = self.replicas.fetch, self._fetch  # type: ignore[method-assign]

    def _fetch(self, request: FetchRequest, respond: FetchDone) -> DelayedFetch | None:
        """Keep in which leader epoch each partition of an answer to a follower was led: Kafka's protocol does not say."""
        if request.replica_id < 0:
            return self._fetch_of_replicas(request, respond)
        sim, by_id = self.sim, self.replicas.by_id
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
                        led = -1 if hosted is None or hosted.leader is None else hosted.leader.epoch
                        answers[sim.id, (request.replica_id, (key, part.partition), epoch, offset)] = led
            respond(topics, size)

        return self._fetch_of_replicas(request, answer)

    def _propose(self, proposal: IsrProposal) -> None:
        members = [member for member, _ in proposal.isr]
        self.sim.world.note(f"b{self.sim.id} {proposal.topic_partition} proposes isr {members}")
        self.sim.world.isr_proposed(self.sim, proposal)
        self.alter_sender.propose(proposal)

    async def abort(self) -> bool:
        clean = await super().abort()
        if hasattr(self, "logs"):
            marks = self.sim.high_watermarks()
            self.sim.world.watcher.checkpointed(self.sim, marks, perhaps=not clean)
        return clean
