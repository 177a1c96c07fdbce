"""One simulated cluster: assembled from a seed, run to its verdict."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from random import Random

from minikafka.config import BrokerConfig
from minikafka.controller.topics import NewTopic
from minikafka.groups.config import GroupConfig
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.log.config import FOREVER, LogConfig
from minikafka.log.simulated_disk import PAGE_BYTES
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal

from minikafka_simulator.checks.account import Violation
from minikafka_simulator.checks.checker import Checker
from minikafka_simulator.checks.group_checks import SHARED
from minikafka_simulator.checks.isr_checks import UNCLEAN_ELECTION
from minikafka_simulator.clients.api_prober import ApiProber
from minikafka_simulator.clients.clients import Bursts, CheckedReading, Committing, EndOffsetWatcher, OneByOne, Passing
from minikafka_simulator.clients.group_member import GroupMember
from minikafka_simulator.clients.log_reader import LogReader
from minikafka_simulator.clients.producer import Producer
from minikafka_simulator.cluster.broker import SimBroker
from minikafka_simulator.cluster.gate import FETCH_BYTES_MAX
from minikafka_simulator.faults.disk_faults import DiskFaults
from minikafka_simulator.faults.faulty_cluster import FaultyCluster
from minikafka_simulator.faults.nemesis import Nemesis
from minikafka_simulator.faults.plan import SECONDS_USUAL, Plan
from minikafka_simulator.faults.targeted_faults import TargetedFaults
from minikafka_simulator.machine.network import Network
from minikafka_simulator.machine.scheduler import Scheduler
from minikafka_simulator.machine.streams import Streams
from minikafka_simulator.schedules.configuration import drawn
from minikafka_simulator.stores.kubernetes_store import KubernetesStores
from minikafka_simulator.stores.store import SimStore

FLUSH_MESSAGES = (FOREVER, FOREVER, FOREVER, 1, 3)
"""In most runs nobody waits for a flush, as by default."""

GROUP_SHARE = 0.3
"""The share of runs that have a consumer group, too."""

KUBERNETES_SHARE = 0.15
"""The share of runs whose cluster store is the one on Kubernetes."""

RETENTION_SHARE = 0.1
"""The share of runs in which records get old soon."""

UNFLUSHED_PAGES = (3, 4, 6)
"""What it has room for. Each log there takes a page at least."""

SUPERVISOR_SECONDS = 0.3
"""Until a process that has ended by itself is started again."""

EVENTS_MAX = 200_000
"""A run that makes more events than this has run wild; a usual one makes a few thousand. A longer one may make more."""

EVENT_FAILED = "E1 no exception"
"""The invariant that an event breaks when it raises what nobody catches: in production a broker would have died of it."""


@dataclass(slots=True)
class Result:
    """How a run went. ``digest`` is equal for equal runs; ``faults`` counts the strikes of the nemesis."""

    seed: int
    violation: str | None
    invariant: str | None
    events: int
    faults: int
    acknowledged: int
    unclean_elections: int
    digest: str
    trace: list[str] = field(default_factory=list)


class World(FaultyCluster):
    """Brokers, store, network, clients and nemesis of one run."""

    lag = 1.0
    """replica.lag.time.max.ms"""
    heartbeat = 0.2
    session = 1.2
    fetch_timeout = 1.0
    """How long a follower waits for the answer to a fetch (replica.socket.timeout.ms)."""
    fetch_backoff = 1.0
    """replica.fetch.backoff.ms"""

    def __init__(self, seed: int, plan: Plan | None = None, trace: bool = False) -> None:
        super().__init__(Scheduler(seed, trace))
        self.plan = plan or Plan()
        random = self.random
        self.produce_timeout = 0.7
        count = random.choice((3, 3, 3, 4, 5))
        self.min_isr = random.choice((2, 2, 2, 1))
        self.log_config = LogConfig(
            segment_bytes=random.choice((700, 2000, 1 << 20)),
            index_interval_bytes=200,
            flush_interval_messages=Random(f"flush.messages {seed}").choice(FLUSH_MESSAGES),
        )
        retention = Random(f"retention {seed}")
        if retention.random() < RETENTION_SHARE:
            self.log_config = replace(
                self.log_config,
                segment_bytes=min(self.log_config.segment_bytes, 2000),
                retention_ms=retention.choice((1000, 3000, -1)),
                retention_bytes=retention.choice((-1, 3000, 8000)),
            )
        self.imbalance_check_seconds = random.choice((1, 5))
        self.served_one_batch = set()
        self.nemesis: Nemesis | None = None
        groups = Random(f"groups {seed}")
        self.unclean_allowed = Random(f"unclean elections {seed}").random() < self.plan.unclean
        self.pipelined = Random(f"several in flight {seed}").random() < self.plan.pipelined
        self.groups = ("g", "other")[: groups.choice((1, 1, 2))] if groups.random() < GROUP_SHARE else ()
        self.offsets_partitions = groups.choice((1, 2))
        self.load_slice = groups.choice((0.0, 1.0))
        self.group_config = GroupConfig(
            group_initial_rebalance_delay_ms=groups.choice((0, 100)),
            group_min_session_timeout_ms=100,
            offsets_commit_timeout_ms=400,
        )
        self.network = Network(self.scheduler, self.brokers)
        self.watcher = self.checker = Checker(self)
        self.min_isr_of = dict.fromkeys(range(1, count + 1), self.min_isr)
        self.server_random = Random(f"whole {seed}")
        self.streams = Streams(self.scheduler, self.network.segment_seconds, seed)
        self.targeted_faults = TargetedFaults(self, seed)
        self.brokers.update((i, SimBroker(self, i)) for i in range(1, count + 1))
        volumes = Random(f"sizeLimit {seed}")
        if volumes.random() < self.plan.small_volume:
            self.unflushed_dir, size = "/unflushed", volumes.choice(UNFLUSHED_PAGES) * PAGE_BYTES
            for broker in self.brokers.values():
                broker.disk.volumes[self.unflushed_dir] = size
        self.topic = [TopicPartition("t", i) for i in range(random.choice((1, 1, 2)))]
        self.producers: list[Producer] = []
        self.pipelining = None
        self.consumers: list[LogReader] = []
        self.note(f"seed {seed}: {count} brokers, {len(self.topic)} partitions, min ISR {self.min_isr}")
        for broker in self.brokers.values():
            broker.start()
        self.scheduler.at(0.2, self._begin)

    def open_store(self) -> SimStore:
        seed = self.scheduler.seed
        if Random(f"store {seed}").random() < KUBERNETES_SHARE:
            return KubernetesStores(self, seed, self.heartbeat)
        return super().open_store()

    def close(self) -> None:
        """The run is over."""
        for broker in self.brokers.values():
            broker.close()
        self.store.close()

    # -- chance decides -------------------------------------------------------------------------------------------------

    def broker_config(self, broker: int) -> BrokerConfig:
        return drawn(self, broker, self.targeted_faults.patience)

    def next_turn(self) -> float:
        return self.server_random.uniform(0.0, 0.01)

    def reader_wait(self) -> float:
        return self.random.choice((0.0, 0.1))

    def gave_up(self, broker: SimBroker) -> None:
        """Its supervisor starts it again, unless somebody was faster."""
        self.scheduler.at(SUPERVISOR_SECONDS, lambda: None if broker.up else broker.start())

    def connections_closed(self, broker: SimBroker) -> None:
        for producer in self.producers:
            producer.broker_ended(broker.id)

    def read_limit(self, follower: int, asked: int) -> int:
        if follower in self.served_whole:
            return FETCH_BYTES_MAX
        return 1 if follower in self.served_one_batch else asked

    def outcome_is_lost(self) -> bool:
        return self.random.random() < self.plan.unknown_commit

    def isr_proposed(self, broker: SimBroker, proposal: IsrProposal) -> None:
        super().isr_proposed(broker, proposal)
        leader = broker.partitions[proposal.topic_partition].leader
        if leader is not None and self.nemesis is not None:
            self.nemesis.proposed([m for m, _ in proposal.isr], leader.isr.committed)

    def only_minorities_are_down(self) -> bool:
        return self.nemesis is not None and self.nemesis.minority and not self.targeted_faults.there_is_one

    def faults_are_over(self) -> bool:
        return self.nemesis is not None and not self.nemesis.active

    # -- the run --------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Create the topic as soon as there is a controller and everybody is there, then let clients and faults loose."""
        held = self.store.held
        role = self.brokers[held.holder].role if held is not None else None
        if role is None or len(list(role.controller.image.active_brokers())) < len(self.brokers):
            self.scheduler.at(0.05, self._begin)
            return
        if "t" not in role.controller.image.topics:
            configs = {UNCLEAN_ELECTION: "true"} if self.unclean_allowed else {}
            desired = NewTopic("t", len(self.topic), 3, configs=configs)
            role.submit(lambda c: c.topics.create(desired), lambda _: None)
        if self.groups and OFFSETS_TOPIC not in role.controller.image.topics:
            offsets = NewTopic(OFFSETS_TOPIC, self.offsets_partitions, 3, configs={"cleanup.policy": "compact"})
            role.submit(lambda c: c.topics.create(offsets), lambda _: None)
        wanted = len(self.topic) + (self.offsets_partitions if self.groups else 0)
        if self.groups:  # a server takes no offsets of a topic that it does not know
            wanted += len(SHARED)
            if SHARED[0].topic not in role.controller.image.topics:
                shared = NewTopic(SHARED[0].topic, len(SHARED), 3)
                role.submit(lambda c: c.topics.create(shared), lambda _: None)
        if len(self.checker.states) < wanted:  # not in the store yet, or its commit was refused
            self.scheduler.at(0.05, self._begin)
            return
        number = 0
        for tp in self.topic:
            for acks in (-1, -1, 1):
                number += 1
                self.producers.append(Producer(self, OneByOne(self, number, acks), [tp], number))
            self.consumers.append(LogReader(self, tp, CheckedReading(self)))
            self.scheduler.at(0.5, self.consumers[-1].poll)
            EndOffsetWatcher(self, tp)
        if self.pipelined:
            self.pipelining = Producer(self, Bursts(self, number + 1), self.topic, number + 1)
            self.producers.append(self.pipelining)
        self.checker.groups.members += [
            GroupMember(self, group, SHARED, Committing(self), number) for group in self.groups for number in range(3)
        ]
        if self.groups:
            self.checker.groups.look()
        ApiProber(self, self.scheduler.seed)
        self.nemesis = Nemesis(self)
        if self.plan.passing and "remake_topic" in self.nemesis.profile.faults:
            Producer(self, Passing(self))
        self.disk_faults = DiskFaults(self, self.nemesis, self.scheduler.seed)
        self.targeted_faults.begin(self.nemesis)

    def run(self) -> None:
        """Faults for a while, then heal, then the final look; raises Violation."""
        self._until(self._long_enough)
        assert self.nemesis is not None, "the faults have ended, so they have begun"
        self.nemesis.heal(self.disk_faults, self.targeted_faults)
        for producer in self.producers:
            producer.stopped = True
        self.checker.groups.finish()
        deadline = self.now + self.plan.settle
        self._until(lambda: self.now >= deadline or self._settled())
        self.checker.final()

    def _long_enough(self) -> bool:
        if self.nemesis is None:
            return False
        steps = self.plan.steps
        return self.now >= self.plan.seconds if steps is None else self.scheduler.events >= steps

    def _settled(self) -> bool:
        """Everybody is idle and in sync; looked at rarely, for it costs."""
        if self.scheduler.events % 50:
            return False
        if not all(p.idle for p in self.producers):
            return False
        if any(c.position < len(self.checker.commits.truth.get(c.tp, ())) for c in self.consumers):
            return False
        for tp, state in self.checker.states.items():
            if state.leader < 0 or set(state.isr) != set(state.replicas):
                return False
            hosted = [self.checker.views.get((r, tp)) for r in (state.leader, *state.replicas)]
            if len({-1 if view is None else len(view.identities) for view in hosted}) != 1:
                return False
            if not all(tp in self.brokers[r].partitions for r in state.replicas):
                return False
        if not self.checker.groups.settled or self.store.out_of_line() is not None:
            return False
        return all(self.checker.logs.stray_log(broker) is None for broker in self.brokers.values())

    def _until(self, done: Callable[[], bool]) -> None:
        events_max = EVENTS_MAX * max(1.0, self.plan.seconds / SECONDS_USUAL)
        while not done():
            if not self.scheduler.step():
                return
            if self.checker.violation is not None:
                raise self.checker.violation
            if self.scheduler.events > events_max:
                self.checker.fail("L4 bounded", f"{events_max:.0f} events in {self.now:.1f} s: the cluster runs wild")


def _described(error: Exception) -> str:
    """The exception and the function it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} (in {frames[-1].name} of {PurePath(frames[-1].filename).name})"


def simulate(seed: int, plan: Plan | None = None, trace: bool = False) -> Result:
    """Run one seed to its verdict."""
    world = World(seed, plan, trace)
    violation: Violation | None = None
    try:
        world.run()
    except Violation as found:
        violation = found
    except Exception as error:
        violation = Violation(EVENT_FAILED, _described(error))
        world.note(f"VIOLATION {violation}")
    world.close()
    scheduler = world.scheduler
    return Result(
        seed,
        str(violation) if violation else None,
        violation.invariant if violation else None,
        scheduler.events,
        world.nemesis.count if world.nemesis is not None else 0,
        world.checker.clients.acked,
        world.checker.commits.unclean,
        scheduler.digest(),
        scheduler.lines if trace or violation else [],
    )
