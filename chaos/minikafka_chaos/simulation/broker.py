"""A broker of the simulation: production logs and partitions in a shell made of virtual-time events.

Mirrors ``minikafka.server``: hosting, fetchers, ISR proposals, membership, checkpoints. A broker dies between two events,
never inside one; what it had not flushed may die with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minikafka.controller.brokers import Registration
from minikafka.log.config import LogConfig
from minikafka.log.errors import LogError
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import TOPIC, ClusterImage, PartitionState, TopicState
from minikafka.metadata.store import Lease, StoreError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.replication.isr import AfterAnswer, AlterPartitionAnswer, IsrProposal
from minikafka.replication.partition import Partition, ReplicationConfig, Role

from minikafka_chaos.simulation.network import Reply
from minikafka_chaos.simulation.role import NOT_CONTROLLER, SimRole

if TYPE_CHECKING:
    from minikafka_chaos.simulation.world import World

DATA = "/data"
FETCH_TIMEOUT = 1.0
BACKOFF = 0.05
LISTENER = "SIM"


class Parked:
    """A fetch that waits at a leader, or an acks=all produce."""

    __slots__ = ("answer", "done")

    def __init__(self, answer: Callable[[], None]) -> None:
        self.answer = answer
        self.done = False

    def wake(self) -> None:
        if not self.done:
            self.done = True
            self.answer()


class SimBroker:
    """One broker over all its incarnations; the disk outlives them."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.disk = MemoryFileSystem()
        self.up = False
        self.paused = False
        self.stopping = False
        self.incarnation = 0
        self._backlog: list[Callable[[], None]] = []
        self._forget()

    def _forget(self) -> None:
        self.image = ClusterImage("simulated")
        self.partitions: dict[TopicPartition, Partition] = {}
        self.parked: dict[TopicPartition, list[Parked]] = {}
        self.producers: dict[TopicPartition, list[tuple[int, Callable[[ErrorCode], None]]]] = {}
        self.fetching: dict[TopicPartition, int] = {}
        self.role: SimRole | None = None
        self.broker_epoch = -1
        self.registering = False
        self.registrations = 0
        self.want_fence = True
        self.hosted_once = False
        self._seen: tuple[int, int] = (-1, -1)
        self._seen_at = self.world.now
        self._proposals: dict[TopicPartition, IsrProposal] = {}
        self._altering = False
        self.logs: LogManager | None = None

    # -- events ---------------------------------------------------------------------------------------------------------

    def run(self, incarnation: int, event: Callable[[], None]) -> None:
        """Run an event of this incarnation now, or when a pause is over, or never."""
        if not self.up or incarnation != self.incarnation:
            return
        if self.paused:
            self._backlog.append(lambda: self.run(incarnation, event))
            return
        try:
            event()
        except LogError as error:
            self.world.note(f"b{self.id} log error: {error}")
        self.world.checker.after(self)

    def later(self, delay: float, event: Callable[[], None]) -> None:
        incarnation = self.incarnation
        self.world.scheduler.at(delay, lambda: self.run(incarnation, event))

    # -- life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.world
        self._forget()
        self.up, self.paused, self.stopping = True, False, False
        self.incarnation += 1
        self.logs = world.rules.log_manager.open(
            [DATA],
            self.disk,
            cluster_id="simulated",
            node_id=self.id,
            config_for=lambda _: world.log_config,
            now_ms=world.now_ms,
        )
        world.note(f"b{self.id} starts clean={self.logs.clean} " + self._ends())
        world.checker.started(self)
        self.later(0.0, self.sync)
        self.later(0.0, self.step)
        self.later(world.lag / 2, self._isr_tick)
        self.later(world.random.uniform(0.1, 0.5), self._checkpoint)
        self.later(world.random.uniform(0.05, 0.5), self._flush)

    def _ends(self) -> str:
        assert self.logs is not None
        return " ".join(f"{tp}:{log.log_end_offset}" for tp, log in sorted(self.logs.logs.items()))

    def crash(self, lossy: bool, torn: bool) -> None:
        """The process dies; with ``lossy`` the machine does, and what was not flushed is gone (``torn``: in part)."""
        if not self.up:
            return
        self.world.note(f"b{self.id} {'loses power' if lossy else 'is killed'}{' torn' if lossy and torn else ''}")
        self.up = self.paused = False
        self._backlog.clear()
        role, self.role = self.role, None
        if role is not None:
            role.over = True
        if not lossy:
            self.disk.kill()
        elif torn:
            self.disk.crash(self.world.random)
        else:
            self.disk.power_loss()
        if lossy:
            self.world.checker.lost_power(self)
        self._connections_close()

    def _connections_close(self) -> None:
        """The controller, and those who had this broker as their controller, see their connections close."""
        epoch = self.broker_epoch
        for other in self.world.brokers.values():
            if not other.up or other is self or (self.id, other.id) in self.world.network.cut:
                continue
            if other.role is not None and epoch >= 0:
                role = other.role
                other.later(
                    self.world.random.uniform(0.0, 0.01),
                    lambda r=role: r.submit(lambda c: c.brokers.connection_lost(self.id, epoch), lambda _: None),  # type: ignore[misc]
                )
            other.later(self.world.random.uniform(0.0, 0.01), other.step_now)

    def pause(self) -> None:
        if self.up and not self.paused:
            self.world.note(f"b{self.id} pauses")
            self.paused = True

    def resume(self) -> None:
        if self.up and self.paused:
            self.world.note(f"b{self.id} resumes")
            self.paused = False
            backlog, self._backlog = self._backlog, []
            for event in backlog:
                event()

    def shut_down(self) -> None:
        """Controlled shutdown: asked for here, carried out by :meth:`step` once the controller agrees."""
        if self.up and not self.paused and self.broker_epoch >= 0:
            self.world.note(f"b{self.id} shuts down")
            self.stopping = True
            self.step_now()

    def _stop_cleanly(self) -> None:
        assert self.logs is not None
        self.logs.checkpoint_high_watermarks(self._high_watermarks())
        self.world.checker.checkpointed(self)
        self.logs.close(clean=True, broker_epoch=self.broker_epoch)
        self.world.note(f"b{self.id} stopped cleanly")
        self.up = False
        if self.role is not None:
            self.role.over = True
            self.role = None
        self.disk.kill()
        self._connections_close()

    # -- the cluster image -------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Read what changed in the store."""
        world = self.world
        try:
            world.store.check(self.id)
        except StoreError:
            self.later(0.1, self.sync)
            return
        changes = world.store.inner.changes_now(self.image.revision)
        if changes.revision != self.image.revision:
            for key, value in changes.records.items():
                self.image.apply(key, value)
            self.image.revision = changes.revision
        self._apply(changes.records)

    def _apply(self, records: Any) -> None:
        me = self.image.brokers.get(self.id)
        if me is None or self.broker_epoch < 0 or me.epoch != self.broker_epoch:
            return
        if self.hosted_once:
            topics = [self.image.topics.get(k.removeprefix(TOPIC)) for k in records if k.startswith(TOPIC)]
        else:
            topics = list(self.image.topics.values())
            self.hosted_once = True
        for topic in topics:
            if topic is not None:
                for index, state in enumerate(topic.partitions):
                    self._host(topic, index, state)
        now = self.world.now
        for partition in self.partitions.values():
            if partition.leader is not None:
                for replica, remote in partition.leader.remotes.items():
                    if replica not in partition.leader.isr.maximal and remote.leo >= 0:
                        self._propose(partition.leader.maybe_expand(replica, remote, now))
        if self.want_fence:
            self.want_fence = False
            self.step_now()

    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Peers of the partitions."""
        return self.world.rules.eligible(self.image.brokers.get(broker_id), broker_epoch)

    def alive_epoch(self, broker_id: int) -> int:
        peer = self.image.brokers.get(broker_id)
        return -1 if peer is None else peer.epoch

    def _host(self, topic: TopicState, index: int, state: PartitionState) -> None:
        tp = TopicPartition(topic.name, index)
        partition = self.partitions.get(tp)
        if partition is None:
            if self.id not in state.replicas:
                return
            partition = self._create(topic, tp)
        was, was_leader = partition.role, partition.leader
        before = partition.high_watermark
        changed = partition.apply_state(state, self.world.now)
        if changed:
            self.world.note(
                f"b{self.id} {tp} {was.name.lower()} -> {partition.role.name.lower()} "
                f"epoch {state.leader_epoch}.{state.partition_epoch} leader {state.leader} "
                f"isr {list(state.isr)} leo {partition.log.log_end_offset} hw {partition.high_watermark}"
            )
            if was is Role.LEADER and was_leader is not partition.leader:
                self._fail_producers(tp)
            self._wake(tp)
            if partition.follower is not None:
                self._fetch(tp)
        if partition.high_watermark != before:
            self._moved(partition)

    def _create(self, topic: TopicState, tp: TopicPartition) -> Partition:
        assert self.logs is not None
        world = self.world
        log = self.logs.logs.get(tp)
        if log is None:
            log = self.logs.create(tp, topic.topic_id, LogConfig(), now_ms=world.now_ms)
        log.configure(world.log_config)
        config = ReplicationConfig(world.min_isr, world.lag, world.truncation_mode)
        partition = world.rules.partition(
            tp, topic.topic_id.bytes, self.id, log, config, self, self.logs.high_watermarks.get(tp, 0)
        )
        self.partitions[tp] = partition
        world.checker.hosted(self, partition)
        return partition

    # -- following ------------------------------------------------------------------------------------------------------

    def _fetch(self, tp: TopicPartition) -> None:
        """One fetch of one partition; each has a number, so that a timer does not double it."""
        partition = self.partitions[tp]
        follower = partition.follower
        if follower is None or follower.failed:
            return
        number = self.fetching[tp] = self.fetching.get(tp, 0) + 1
        position = follower.position()
        epoch = self.broker_epoch
        leader_id = follower.leader_id
        source = self.id

        def serve(leader: SimBroker, reply: Reply) -> None:
            leader.serve_follower(tp, source, epoch, position, reply)

        def again() -> None:
            if self.fetching.get(tp) == number:
                self._fetch(tp)

        def refused() -> None:
            self.later(BACKOFF, again)

        def answered(answer: Any) -> None:
            self._fetched(tp, position, answer)
            again()

        self.world.network.request(self.id, leader_id, serve, answered, refused)
        self.later(FETCH_TIMEOUT, again)

    def _fetched(self, tp: TopicPartition, position: FetchPosition, answer: Any) -> None:
        partition = self.partitions[tp]
        follower = partition.follower
        if follower is None:
            return
        error, diverging, high_watermark, start, records = answer
        before = partition.log.log_end_offset
        outcome = follower.answered(position, error, diverging, high_watermark, start, memoryview(bytearray(records)))
        if outcome is FetchOutcome.APPENDED:
            self.world.note(
                f"b{self.id} {tp} appends {before}..{partition.log.log_end_offset} hw {partition.high_watermark}"
            )
        elif outcome is FetchOutcome.OUT_OF_RANGE:
            self._ask_offsets(tp, position)
        elif outcome in (FetchOutcome.BACK_OFF, FetchOutcome.FAILED):
            self.fetching[tp] = self.fetching.get(tp, 0) + 1
            number = self.fetching[tp]
            self.later(BACKOFF, lambda: self._fetch(tp) if self.fetching.get(tp) == number else None)
        self._note_truncations(tp, partition)

    def _note_truncations(self, tp: TopicPartition, partition: Partition) -> None:
        follower = partition.follower
        if follower is not None and follower.truncations:
            for before, after, _, reason in follower.truncations:
                self.world.note(f"b{self.id} {tp} truncates {before} -> {after}: {reason}")
            follower.truncations.clear()

    def _ask_offsets(self, tp: TopicPartition, position: FetchPosition) -> None:
        follower = self.partitions[tp].follower
        assert follower is not None

        def serve(leader: SimBroker, reply: Reply) -> None:
            partition = leader.partitions.get(tp)
            if partition is not None and partition.check_leader(position.leader_epoch) is ErrorCode.NONE:
                reply((partition.log.log_start_offset, partition.log.log_end_offset))

        def answered(offsets: Any) -> None:
            current = self.partitions[tp].follower
            if current is follower:
                current.leader_offsets(position, *offsets)
                self._note_truncations(tp, self.partitions[tp])
                self._fetch(tp)

        self.world.network.request(self.id, follower.leader_id, serve, answered)

    # -- leading --------------------------------------------------------------------------------------------------------

    def serve_follower(
        self, tp: TopicPartition, source: int, broker_epoch: int, position: FetchPosition, reply: Reply
    ) -> None:
        """A follower's fetch: note its position, answer now or when there is something to send."""
        partition = self.partitions.get(tp)
        if partition is None:
            reply((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, -1, -1, b""))
            return
        code = partition.check_leader(position.leader_epoch)
        if code or partition.leader is None:
            reply((code or ErrorCode.NOT_LEADER_OR_FOLLOWER, None, -1, -1, b""))
            return
        self.world.checker.served(self, partition, position.leader_epoch)
        before = partition.high_watermark
        outcome = partition.leader.follower_fetch(
            source, broker_epoch, position.leader_epoch, position.offset, position.last_fetched_epoch, self.world.now
        )
        if partition.high_watermark != before:
            self._moved(partition)
        if outcome.error or outcome.diverging:
            reply((outcome.error, outcome.diverging, partition.high_watermark, partition.log.log_start_offset, b""))
            return
        self._propose(outcome.proposal)
        if position.offset < partition.log.log_end_offset:
            self._send_records(tp, position, reply)
            return
        parked = Parked(lambda: self._send_records(tp, position, reply))
        self.parked.setdefault(tp, []).append(parked)
        self.later(self.world.random.uniform(0.1, 0.3), parked.wake)

    def _send_records(self, tp: TopicPartition, position: FetchPosition, reply: Reply) -> None:
        partition = self.partitions[tp]
        code = partition.check_leader(position.leader_epoch)
        records = b""
        if not code and position.offset > partition.log.log_end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        if not code and position.offset < partition.log.log_end_offset:
            limit = self.world.random.choice((200, 1000, 100_000))
            records = partition.log.read(position.offset, limit, partition.log.log_end_offset).read()
        reply((code, None, partition.high_watermark, partition.log.log_start_offset, records))

    def _wake(self, tp: TopicPartition) -> None:
        for parked in self.parked.pop(tp, []):
            parked.wake()

    def produce(self, tp: TopicPartition, batch: bytes, acks: int, reply: Reply) -> None:
        """A client's batch; ``reply`` gets (error, base offset)."""
        partition = self.partitions.get(tp)
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
            info = leader.append(memoryview(bytearray(batch)), self.world.now_ms, self.world.now)
        except LogError as error:
            reply((error.code, -1))
            return
        if not info.duplicate:
            self.world.note(f"b{self.id} {tp} leads append {info.first_offset}..{info.last_offset + 1}")
            self._wake(tp)
        if partition.high_watermark != before:
            self._moved(partition)
        if acks != -1:
            reply((ErrorCode.NONE, info.first_offset))
            return
        self.producers.setdefault(tp, []).append(
            (info.last_offset + 1, lambda error: reply((error, -1 if error else info.first_offset)))
        )
        self._settle(partition)

    def _moved(self, partition: Partition) -> None:
        self.world.checker.high_watermark(self, partition)
        self._settle(partition)

    def _settle(self, partition: Partition) -> None:
        """Answer the acks=all produces that the high watermark has passed."""
        waiting = self.producers.get(partition.topic_partition, [])
        while waiting and partition.leader is not None:
            required, respond = waiting[0]
            code = partition.leader.acknowledgement(required)
            if code is None:
                return
            waiting.pop(0)
            respond(code)

    def _fail_producers(self, tp: TopicPartition) -> None:
        for _, respond in self.producers.pop(tp, []):
            respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- ISR ------------------------------------------------------------------------------------------------------------

    def _isr_tick(self) -> None:
        now = self.world.now
        for partition in self.partitions.values():
            if partition.leader is not None:
                before = partition.high_watermark
                self._propose(partition.leader.maybe_shrink(now))
                partition.leader.maybe_advance_high_watermark(now)
                if partition.high_watermark != before:
                    self._moved(partition)
        self.later(self.world.lag / 2, self._isr_tick)

    def _propose(self, proposal: IsrProposal | None) -> None:
        if proposal is None:
            return
        self.world.note(f"b{self.id} {proposal.topic_partition} proposes isr {[m for m, _ in proposal.isr]}")
        self.world.checker.proposed(self, proposal)
        leader = self.partitions[proposal.topic_partition].leader
        if leader is not None and self.world.nemesis is not None:
            self.world.nemesis.proposed([m for m, _ in proposal.isr], leader.isr.committed)
        self._proposals[proposal.topic_partition] = proposal
        self._alter()

    def _alter(self) -> None:
        """One request in flight; an answer that does not come means an unknown outcome."""
        if self._altering or not self._proposals:
            return
        self._altering = True
        batch, self._proposals = list(self._proposals.values()), {}
        epoch = self.broker_epoch
        state = {"open": True}

        def decide(controller: Any) -> list[AlterPartitionAnswer]:
            return [controller.partitions.alter(self.id, epoch, p) for p in batch]

        def finish(answers: Any) -> None:
            if not state["open"]:
                return
            state["open"] = False
            retry = False
            for index, proposal in enumerate(batch):
                if answers is None or answers == NOT_CONTROLLER:
                    answer = AlterPartitionAnswer(ErrorCode.REQUEST_TIMED_OUT)
                else:
                    answer = answers[index]
                if self._altered(proposal, answer):
                    self._proposals.setdefault(proposal.topic_partition, proposal)
                    retry = True
            self._altering = False
            if retry:
                self.later(BACKOFF, self._alter)
            else:
                self._alter()

        self._ask_controller(decide, finish)
        self.later(0.5, lambda: finish(None))

    def _altered(self, proposal: IsrProposal, answer: AlterPartitionAnswer) -> bool:
        partition = self.partitions.get(proposal.topic_partition)
        leader = None if partition is None else partition.leader
        if partition is None or leader is None or leader.isr.pending is not proposal:
            return False
        before = partition.high_watermark
        after = leader.answered(proposal, answer, self.world.now)
        self.world.note(
            f"b{self.id} {proposal.topic_partition} isr answer {answer.error.name} -> {list(leader.isr.committed)} {after.value}"
        )
        if partition.high_watermark != before:
            self._moved(partition)
        return after is AfterAnswer.RETRY

    # -- membership -------------------------------------------------------------------------------------------------------

    def _ask_controller(self, decide: Callable[[Any], Any], reply: Callable[[Any], None]) -> None:
        """Send to whoever holds the lease as far as this broker knows; answers NOT_CONTROLLER when that is over."""
        if self.role is not None and not self.role.over:
            self.role.submit(decide, reply)
            return
        holder = self._seen[0]
        if holder < 0 or holder == self.id:
            reply(NOT_CONTROLLER)
            return

        def serve(controller: SimBroker, answer: Reply) -> None:
            if controller.role is None:
                answer(NOT_CONTROLLER)
            else:
                controller.role.submit(decide, answer)

        self.world.network.request(self.id, holder, serve, reply, lambda: reply(NOT_CONTROLLER))

    def step_now(self) -> None:
        """A membership step out of turn: something has changed."""
        self._step(again=False)

    def step(self) -> None:
        self._step(again=True)

    def _step(self, again: bool) -> None:
        world = self.world
        if again:
            self.later(world.heartbeat, self.step)
        try:
            world.store.check(self.id)
            lease = world.store.inner.held
        except StoreError:
            return
        mine = (
            self.role is not None and lease is not None and self.role.lease.epoch == lease.epoch and not self.role.over
        )
        if lease is None or (lease.holder == self.id and not mine):
            self._take(lease)
            return
        if self._seen != (lease.holder, lease.epoch * 100_000 + lease.renewed):
            self._seen = (lease.holder, lease.epoch * 100_000 + lease.renewed)
            self._seen_at = world.now
        if not mine:
            if self.role is not None:
                self.role.end("lease is held by another")
                self.role = None
            holder = world.brokers[lease.holder]
            if not holder.up or world.now - self._seen_at > world.session:
                self._take(lease)
                return
        self._beat()

    def _take(self, old: Lease | None) -> None:
        world = self.world
        lease = world.store.inner.acquire_now(self.id, "sim", self.id, old.epoch if old else 0)
        if lease is None:
            return
        image = ClusterImage("simulated")
        changes = world.store.inner.changes_now(-1)
        for key, value in changes.records.items():
            if value is not None:
                image.apply(key, value)
        if self.role is not None:
            self.role.end("a new term")
        world.note(f"b{self.id} is controller, epoch {lease.epoch}")
        self.role = SimRole(self, lease, image)
        self._seen, self._seen_at = (self.id, lease.epoch * 100_000), world.now
        self._beat()

    def _beat(self) -> None:
        assert self.logs is not None
        world = self.world
        if self.broker_epoch < 0:
            if self.registering:
                return
            registration = Registration(
                self.id, "simulated", f"{self.id}.{self.incarnation}.{self.registrations}", ((LISTENER, "sim", self.id),),
                None, -1 if self.registrations else self.logs.previous_broker_epoch,
            )  # fmt: skip
            self.registering = True
            self.later(world.session / 2, self._give_up_registering)
            self._ask_controller(lambda c: c.brokers.register(registration, world.now), self._registered)
            return
        epoch, fence, stop = self.broker_epoch, self.want_fence, self.stopping
        self._ask_controller(lambda c: c.brokers.heartbeat(self.id, epoch, fence, stop, world.now), self._beaten)

    def _give_up_registering(self) -> None:
        self.registering = False

    def _registered(self, answer: Any) -> None:
        self.registering = False
        if answer == NOT_CONTROLLER or self.broker_epoch >= 0:
            return
        error, epoch = answer
        if not error:
            self.broker_epoch = epoch
            self.world.note(f"b{self.id} registered, broker epoch {epoch}")
            self.sync()
            self.step_now()

    def _beaten(self, answer: Any) -> None:
        if answer == NOT_CONTROLLER:
            return
        if answer.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self._lose_registration()
            return
        if answer.should_shut_down and self.stopping:
            if any(p.leader is not None for p in self.partitions.values()):
                self.later(0.05, self.sync)
            else:
                self._stop_cleanly()

    def _lose_registration(self) -> None:
        """Another registration under this id has replaced ours (a late request of a dead incarnation can): begin again."""
        self.world.note(f"b{self.id} lost its registration {self.broker_epoch}")
        self.broker_epoch = -1
        self.registrations += 1
        self.want_fence, self.hosted_once = True, False
        for tp, partition in self.partitions.items():
            partition.role, partition.leader, partition.follower, partition.state = Role.NONE, None, None, None
            self.world.checker.reset(self, tp)
            self._fail_producers(tp)
            self._wake(tp)
        self.step_now()

    # -- checkpoints ------------------------------------------------------------------------------------------------------

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {tp: p.high_watermark for tp, p in self.partitions.items()}

    def _checkpoint(self) -> None:
        assert self.logs is not None
        marks = self.world.rules.checkpointed(self)
        self.logs.checkpoint_high_watermarks(marks)
        self.logs.checkpoint_recovery_points()
        self.world.checker.checkpointed(self)
        self.later(self.world.random.uniform(0.2, 0.6), self._checkpoint)

    def _flush(self) -> None:
        for partition in self.partitions.values():
            if self.world.random.random() < 0.7:
                partition.log.flush()
        self.later(self.world.random.uniform(0.05, 0.6), self._flush)
