"""Faults at the moments when something is nearly wrong, in a part of the runs.

A fault that strikes at the right moment finds a bug a hundred times sooner than denser faults at random. Each ambush here waits
for its moment by looking now and again, and strikes at the first that comes. Its choices come from a source of their own, so that
runs without one are what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from minikafka.metadata.image import NO_LEADER
from minikafka.protocol.types import TopicPartition

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.faults.faulty_cluster import FaultyCluster
    from minikafka_simulator.faults.nemesis import Nemesis

SHARE = 0.3
"""Of runs that have one."""

LOOK_SECONDS = 0.02

PAUSE_SECONDS = 0.6
"""Mean time from one strike to the next."""

PATIENCE = 5
"""How much more rarely brokers flush and write checkpoints in some runs, so that a power loss finds something to take."""

BREATH_SECONDS = 2.0
"""From the end of a cut to the next, so that something is acknowledged."""

SLOW_FOLLOWER_SECONDS = 3.0
"""More than a follower may be behind."""
SLOW_WAY_BACK_SECONDS = 6.0
"""As long as it may take a follower to start, to catch up and to join."""
ONE_SEGMENT_BYTES = 1 << 20
"""No run fills such a segment. One fetch reads no further than to the end of a segment."""


class TargetedFaults:
    """The one of a run, if it has one."""

    def __init__(self, world: FaultyCluster, seed: int) -> None:
        self.world = world
        self.random = Random(f"ambushes {seed}")
        kinds: tuple[Callable[[Nemesis], bool], ...] = (
            self._power_loss_after_a_cut,
            self._power_loss_at_the_first_record,
            self._election_beside_the_isr,
            self._slow_follower,
            self._late_metadata,
        )
        if world.log_config.segment_bytes >= ONE_SEGMENT_BYTES:
            kinds += (self._slow_way_back,) * len(kinds)
        if world.pipelined:
            kinds += (self._restart_of_an_unheard_leader,) * len(kinds)
        self._look_for = self.random.choice(kinds)
        self._ends: dict[tuple[int, int, TopicPartition], int] = {}
        """Log ends when last looked at, by broker and incarnation."""
        self._mended = 0.0
        """When links may be cut again."""
        self.active = self.there_is_one = self.random.random() < SHARE
        patient = (self._power_loss_after_a_cut, self._power_loss_at_the_first_record)
        self.patience = PATIENCE if self.active and self._look_for in patient else 1
        """Times the usual pauses between flushes, and between checkpoints."""

    def begin(self, nemesis: Nemesis) -> None:
        """Begin to wait for the moment."""
        self._nemesis = nemesis
        if self.active:
            self.world.scheduler.at(self.random.uniform(0.3, 1.0), self._look)

    def heal(self) -> None:
        """Nothing more happens."""
        self.active = False
        self.world.served_one_batch.clear()
        self.world.served_whole.clear()
        self.world.applies_late.clear()
        if self.world.pipelining is not None:
            self.world.pipelining.hear()

    def _look(self) -> None:
        nemesis = self._nemesis
        if not self.active or not nemesis.may_strike():
            return
        struck = self._look_for(nemesis)
        self.world.scheduler.at(self.random.expovariate(1 / PAUSE_SECONDS) if struck else LOOK_SECONDS, self._look)

    # -- loss of power ------------------------------------------------------------------------------------------------

    def _power_loss_after_a_cut(self, nemesis: Nemesis) -> bool:
        """A replica that has just cut its log loses power: neither what it cut nor what it wrote over it may come back.

        So that there is much to cut, a leader goes on without the others for a while; and little is flushed in between.
        """
        if self.random.random() < 0.005 and nemesis.counts():
            nemesis.isolate()
        for key, before, end in self._moved():
            if end < before and self._lose_power(nemesis, self.world.brokers[key[0]], self.random.uniform(0.0, 0.4)):
                return True
        return False

    def _power_loss_at_the_first_record(self, nemesis: Nemesis) -> bool:
        """A broker that was just started loses power when it has written anything: what its start did may not be on the disk."""
        if self.random.random() < 0.01 and nemesis.counts():
            nemesis.shut_down()
        seen = {(broker_id, incarnation) for broker_id, incarnation, _ in self._ends}
        for broker in self.world.brokers.values():
            if broker.up and (broker.id, broker.incarnation) not in seen:
                self._remember(broker)
        for key, before, end in self._moved():
            broker = self.world.brokers[key[0]]
            young = self.world.now - broker.started_at < 1.0
            if end > before and young and self._lose_power(nemesis, broker, 0.0):
                return True
        return False

    def _moved(self) -> list[tuple[tuple[int, int, TopicPartition], int, int]]:
        """Logs whose end is another than when last looked at: (whose, end before, end)."""
        before, self._ends = self._ends, {}
        for broker in self.world.brokers.values():
            self._remember(broker)
        return [(key, before[key], end) for key, end in self._ends.items() if key in before and before[key] != end]

    def _remember(self, broker: SimBroker) -> None:
        if broker.up and broker.logs is not None:
            for tp, log in broker.logs.logs.items():
                self._ends[broker.id, broker.incarnation, tp] = log.log_end_offset

    def _lose_power(self, nemesis: Nemesis, broker: SimBroker, after: float) -> bool:
        incarnation = broker.incarnation
        back = self.random.uniform(0.0, 1.0)

        def strike() -> None:
            if self.active and broker.incarnation == incarnation and nemesis.lose_power(broker, torn=True):
                nemesis.back_in(broker, back)

        if not nemesis.may_lose(broker) or not nemesis.counts():
            return False
        self.world.scheduler.at(after, strike)
        return True

    # -- restarts ------------------------------------------------------------------------------------------------------

    def _restart_of_an_unheard_leader(self, nemesis: Nemesis) -> bool:
        """A leader stops and leads again, while a producer does not hear what became of the batches it has in flight."""
        producer = self.world.pipelining
        if producer is None:
            return False
        for tp in [tp for tp, lane in producer.lanes.items() if lane.in_flight > 1]:
            leader = self.world.brokers.get(self.world.checker.states[tp].leader)
            if leader is None or not leader.up or leader.paused or not nemesis.spares(leader) or not nemesis.counts():
                continue
            back, again = self.random.uniform(0.3, 0.6), self.random.uniform(0.8, 1.5)
            producer.deaf = True
            leader.shut_down()
            nemesis.back_in(leader, back)
            self.world.note(f"producer {producer.producer_id} hears nothing")
            self.world.scheduler.at(back + again, partial(nemesis.prefer, tp, leader.id))
            self.world.scheduler.at(back + again + 0.2, producer.hear)
            return True
        return False

    # -- admins and networks ------------------------------------------------------------------------------------------

    def _election_beside_the_isr(self, nemesis: Nemesis) -> bool:
        """Followers are cut off from their leader until it is alone in the ISR; then an admin wants one of them to lead."""
        held = self.world.store.held
        for tp, state in sorted(self.world.checker.states.items()):
            eligible = [m for m in state.elr if self.world.brokers[m].up]
            if state.isr and eligible:
                first = state.replicas[0] in eligible
                nemesis.prefer(tp, state.replicas[0] if first else eligible[0], reorder=not first, elect=first)
        for _, state in sorted(self.world.checker.states.items()):
            if (
                state.leader == NO_LEADER
                or (held is not None and held.holder == state.leader)
                or self.world.now < self._mended
            ):
                continue
            followers = [m for m in state.replicas if m != state.leader]
            if self.random.random() < 0.02 and len(followers) > 1 and nemesis.counts():
                links = [link for f in followers for link in ((f, state.leader), (state.leader, f))]
                away = self.world.lag * self.random.uniform(1.6, 2.4)
                nemesis.cut_links(links, f"followers of b{state.leader} off", away)
                self._mended = self.world.now + away + BREATH_SECONDS
        return False

    def _slow_follower(self, nemesis: Nemesis) -> bool:
        """A follower that fetches all the time, one batch at a time over a slow link, and so is never where its leader is."""
        for _, state in sorted(self.world.checker.states.items()):
            others = [m for m in state.isr if m != state.leader]
            if state.leader != NO_LEADER and others and self.random.random() < 0.02 and nemesis.counts():
                self._slow_down(self.random.choice(others), self.world.served_one_batch, SLOW_FOLLOWER_SECONDS, 0.15)
                return True
        return False

    def _slow_down(self, follower: int, among: set[int], seconds: float, delay: float) -> None:
        slow = self.world.network.slow_followers
        among.add(follower)
        slow[follower] = delay * self.random.uniform(0.7, 1.3)
        self.world.note(f"b{follower} fetches slowly")

        def mend() -> None:
            among.discard(follower)
            slow.pop(follower, None)

        self.world.scheduler.at(seconds * self.random.uniform(0.8, 1.2), mend)

    def _slow_way_back(self, nemesis: Nemesis) -> bool:
        """A follower that is not in sync gets all that there is with each fetch, over a slow link, from a leader that is busy."""
        served = self.world.served_whole
        if self.random.random() < 0.01 and nemesis.counts():
            nemesis.kill()
        for _, state in sorted(self.world.checker.states.items()):
            out = [m for m in state.replicas if m not in state.isr and m not in served and self.world.brokers[m].up]
            if state.leader != NO_LEADER and out and nemesis.counts():
                self._slow_down(self.random.choice(out), served, SLOW_WAY_BACK_SECONDS, 0.05)
                return True
        return False

    def _late_metadata(self, nemesis: Nemesis) -> bool:
        """A leader that waits for followers applies what it read from the store late, when it has newer answers already."""
        applies_late = self.world.applies_late
        for _, state in sorted(self.world.checker.states.items()):
            leader = state.leader
            if (
                leader != NO_LEADER
                and leader not in applies_late
                and len(state.isr) < len(state.replicas)
                and nemesis.counts()
            ):
                applies_late[leader] = self.random.uniform(0.1, 0.8)
                self.world.note(f"b{leader} applies what it reads {applies_late[leader]:.2f} s late")
                self.world.scheduler.at(self.random.uniform(0.5, 2.0), partial(self._in_time, leader))
                return True
        return False

    def _in_time(self, broker: int) -> None:
        self.world.applies_late.pop(broker, None)
