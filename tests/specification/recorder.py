"""Records what happens to one partition of a simulated cluster, as steps of `spec/partition.qnt`.

A recorder stands between a cluster and who watches it, hears of the same moments, and looks at the replicas then. What differs
from when it looked last are steps; of a log it believes the bytes, of everything else what the broker goes by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minikafka.controller.workspace import Event
from minikafka.metadata.image import NO_LEADER, ClusterImage, PartitionState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.partition import Partition
from minikafka_simulator.checks.mirror import unrefused
from minikafka_simulator.cluster.broker import SimBroker
from minikafka_simulator.cluster.cluster import SimCluster
from minikafka_simulator.cluster.watcher import Watcher

Step = tuple[Any, ...]
"""The name of a step and what it takes, in the order of the specification. Sets are frozensets, logs are lists of entries."""

RECORDS = 100_000
"""An entry is its leader epoch times this, and which record it is."""

UNKNOWN = -1

OF_NO_BROKER = {"Written", "Acknowledged", "Consumed", "Reordered"}


@dataclass(slots=True)
class Config:
    """What holds for the partition all the time."""

    replicas: tuple[int, ...]
    min_isr: int = 1
    unclean: bool = False
    trust_isr: bool = False


@dataclass(slots=True)
class Trace:
    """The steps of one partition, and why no more were recorded, if so."""

    name: str
    config: Config | None = None
    first: PartitionState | None = None
    steps: list[Step] = field(default_factory=list)
    ended: str = ""


@dataclass(slots=True)
class Seen:
    """A broker's replica as it was looked at last."""

    up: bool = True
    incarnation: int = 0
    disk: object = None
    stopping: bool = False
    flushed_at_power_loss: int | None = None
    epoch: int | None = None
    partition: Partition | None = None
    log: list[int] = field(default_factory=list)
    hw: int = 0
    place: tuple[str, int, int] = ("none", -1, -1)
    """Role, leader epoch and partition epoch."""
    remote: dict[int, int] = field(default_factory=dict)
    pending: IsrProposal | None = None
    checkpoint: int = 0


class Recorder:
    """Of one partition of one cluster. Whom it stands before hears of everything, after it."""

    def __init__(
        self, cluster: SimCluster, inner: Watcher, trace: Trace, tp: TopicPartition, kills_lose_power: bool
    ) -> None:
        self._cluster, self._inner, self.trace, self._tp = cluster, inner, trace, tp
        self._kills_lose_power = kills_lose_power
        """A golden trace's power loss is a kill after which files are deleted."""
        self._seen: dict[int, Seen] = {}
        self._words: dict[int, PartitionState] = {}
        self._ids: dict[str, int] = {}
        self._replicas: frozenset[int] = frozenset()
        self._order: tuple[int, ...] = ()
        self._hosted = False
        self._topic_id: bytes | None = None
        self._acknowledged = 0
        self._read: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def _records(self) -> bool:
        return self.trace.config is not None and not self.trace.ended

    def _step(self, name: str, *values: Any) -> None:
        """Record a step, of a broker that has a replica; ``values`` begin with the broker, but for steps of no broker."""
        if self._records and (name in OF_NO_BROKER or values[0] in self._replicas):
            self.trace.steps.append((name, *values))

    def _of(self, broker: SimBroker) -> Seen:
        return self._seen.setdefault(broker.id, Seen(True, broker.incarnation, broker.disk))

    # -- what the cluster tells -----------------------------------------------------------------------------------------------

    def started(self, broker: SimBroker) -> None:
        self._look_who_is_up()
        seen = self._of(broker)
        if not seen.up:
            if broker.logs is not None and broker.logs.previous_broker_epoch < 0:
                self._died_stopping(broker)
            if broker.disk is not seen.disk:
                self._step("Stopped", broker.id, "wiped", 0)
                seen.log = []
            seen.up, seen.incarnation, seen.disk = True, broker.incarnation, broker.disk
            seen.stopping, seen.flushed_at_power_loss, seen.partition = False, None, None
            log = None if broker.logs is None else broker.logs.logs.get(self._tp)
            if log is not None and (log.failure is not None or log.log_start_offset):
                self._end("records were deleted")
            with unrefused(broker.disk):
                found = [] if log is None or not self._records else self._entries(log, 0, log.log_end_offset)
            same = next((i for i, (a, b) in enumerate(zip(seen.log, found, strict=False)) if a != b), None)
            kept = min(len(seen.log), len(found)) if same is None else same
            self._step("Started", broker.id, kept, found[kept:])
            seen.log, seen.hw, seen.place, seen.pending = found, 0, ("none", -1, -1), None
        self._inner.started(broker)

    def _died_stopping(self, broker: SimBroker) -> None:
        """It was stopping when it was seen last, and has left no word of a clean shutdown on its disk."""
        steps = self.trace.steps
        for at in range(len(steps) - 1, -1, -1):
            if steps[at][:2] == ("Stopped", broker.id):
                if steps[at][2] == "clean":
                    steps[at] = ("Stopped", broker.id, "killed", 0)
                return

    def hosted(self, broker: SimBroker, partition: Partition) -> None:
        self._look_who_is_up()
        if partition.topic_partition == self._tp and self._records:
            seen = self._of(broker)
            seen.partition, seen.hw = partition, partition.high_watermark
            self._step("Restored", broker.id, partition.high_watermark)
            assert self.trace.config is not None
            if not self._hosted:
                self._hosted, self.trace.config.min_isr = True, partition.config.min_insync_replicas
        self._inner.hosted(broker, partition)

    def dropped(self, broker: SimBroker, tp: TopicPartition) -> None:
        if tp == self._tp:
            self._end("a replica was deleted")
        self._inner.dropped(broker, tp)

    def reopened(self, broker: SimBroker, tp: TopicPartition) -> None:
        if tp == self._tp:
            self._end("a log was opened anew after its disk refused something")
        self._inner.reopened(broker, tp)

    def reset(self, broker: SimBroker, tp: TopicPartition) -> None:
        if tp == self._tp:
            self._look(broker)
            self._step("Resigned", broker.id)
            self._of(broker).place = ("none", -1, -1)
        self._inner.reset(broker, tp)

    def lost_power(self, broker: SimBroker) -> None:
        seen = self._of(broker)
        if seen.partition is not None:
            seen.flushed_at_power_loss = seen.partition.log.flushed_offset
        else:
            seen.flushed_at_power_loss = 0
        self._look_who_is_up()
        self._inner.lost_power(broker)

    def checkpointed(self, broker: SimBroker, marks: Mapping[TopicPartition, int], perhaps: bool = False) -> None:
        if self._tp in marks:
            self._look(broker)
            seen = self._of(broker)
            if perhaps or marks[self._tp] != seen.checkpoint:
                self._step("Checkpointed", broker.id, marks[self._tp], perhaps)
                seen.checkpoint = UNKNOWN if perhaps else marks[self._tp]
        self._inner.checkpointed(broker, marks, perhaps)

    def after(self, broker: SimBroker) -> None:
        self._look_at_clients()  # what they have heard they heard before this event
        self._look(broker)
        self._inner.after(broker)

    def fetched(self, broker: SimBroker, partition: Partition, leader: int, sent_in: int) -> None:
        if partition.topic_partition == self._tp and self._records:
            seen = self._of(broker)
            kept, grown = self._differs(broker, seen, partition)
            if kept < len(seen.log) or grown or partition.high_watermark != seen.hw:
                self._step("Took", broker.id, leader, sent_in, kept, grown, partition.high_watermark)
            seen.log, seen.hw = seen.log[:kept] + grown, partition.high_watermark
        self._inner.fetched(broker, partition, leader, sent_in)

    def proposed(self, broker: SimBroker, proposal: IsrProposal) -> None:
        self._look(broker)
        self._inner.proposed(broker, proposal)

    def records_deleted(self, tp: TopicPartition, to: int) -> None:
        if tp == self._tp:
            self._end("records were deleted by request")
        self._inner.records_deleted(tp, to)

    def retained(self, broker: SimBroker, partition: Partition, start: int) -> None:
        if partition.topic_partition == self._tp:
            self._end("records were too old")
        self._inner.retained(broker, partition, start)

    def committed(self, events: list[Event], image: ClusterImage) -> None:
        self._look_who_is_up()
        topic = image.topics.get(self._tp.topic)
        if topic is not None:
            state = topic.partitions[self._tp.partition]
            if self.trace.config is None:
                self._begin(topic, state, image)
            elif topic.topic_id.bytes != self._topic_id:
                self._end("the topic was made anew")
            elif state.partition_epoch not in self._words or state != self._words[state.partition_epoch]:
                self._written(events, state, image)
        elif self.trace.config is not None:
            self._end("the topic was deleted")
        for broker, registration in image.brokers.items():
            seen = self._seen.setdefault(broker, Seen(True, 0))
            if seen.epoch is not None and seen.epoch != registration.epoch:
                self._step("Registered", broker)
            seen.epoch = registration.epoch
        self._inner.committed(events, image)

    # -- what a controller writes -------------------------------------------------------------------------------------------

    def _begin(self, topic: Any, state: PartitionState, image: ClusterImage) -> None:
        config = next(broker.server.config for broker in self._cluster.brokers.values() if broker.server is not None)
        self._topic_id = topic.topic_id.bytes
        self.trace.config = Config(
            state.replicas,
            config.min_insync_replicas,
            config.unclean_leader_election_enable or topic.configs.get("unclean.leader.election.enable") == "true",
            config.minikafka_unclean_shutdown_policy == "trust_isr",
        )
        self._replicas, self._order = frozenset(state.replicas), state.replicas
        self.trace.first = self._words[state.partition_epoch] = state
        for broker in self._cluster.brokers.values():
            seen = self._of(broker)
            seen.up, seen.incarnation, seen.disk = broker.up, broker.incarnation, broker.disk
            if not broker.up:
                self._step("Stopped", broker.id, "killed", 0)

    def _written(self, events: list[Event], state: PartitionState, image: ClusterImage) -> None:
        assert self.trace.config is not None
        if set(state.replicas) != self._replicas:
            self._end("replicas were reassigned")
            return
        if state.replicas != self._order:
            self._step("Reordered", list(state.replicas))
            self._order = state.replicas
        self._words[state.partition_epoch] = state
        clean = all(
            event.fields["clean"]
            for event in events
            if event.name == "leader_elected" and (event.topic, event.partition) == tuple(self._tp)
        )
        active = frozenset(broker for broker in state.replicas if image.is_active(broker))
        self._step("Written", state, active, clean)

    def _end(self, why: str) -> None:
        if self._records:
            self.trace.ended = why

    # -- what brokers do ------------------------------------------------------------------------------------------------------

    def _look_who_is_up(self) -> None:
        for broker in self._cluster.brokers.values():
            seen = self._seen.get(broker.id)
            if seen is None or not seen.up:
                continue
            if broker.up and broker.incarnation == seen.incarnation:
                seen.stopping = broker.stopping and broker.broker_epoch >= 0
                continue
            seen.up = False
            flushed = seen.flushed_at_power_loss
            if flushed is None and self._kills_lose_power:
                flushed = 0 if seen.partition is None else seen.partition.log.flushed_offset
            if seen.stopping and seen.flushed_at_power_loss is None:
                self._step("Stopped", broker.id, "clean", 0)
            elif flushed is not None:
                self._step("Stopped", broker.id, "power", flushed)
            else:
                self._step("Stopped", broker.id, "killed", 0)

    def _look(self, broker: SimBroker) -> None:
        self._look_who_is_up()
        if not broker.up or not self._records:
            return
        partition = broker.gate.replicas.get(self._tp.topic, self._tp.partition)
        if partition is None or partition.topic_id != self._topic_id:
            return
        assert self.trace.config is not None
        if partition.log.failure is not None:
            self._end("a disk refused something")
        elif partition.log.log_start_offset:
            self._end("records were deleted")
        elif partition.config.min_insync_replicas != self.trace.config.min_isr:
            self._end("min.insync.replicas was changed")
        else:
            self._compare(broker, self._of(broker), partition)

    def _compare(self, broker: SimBroker, seen: Seen, partition: Partition) -> None:
        seen.partition = partition
        leader = partition.leader
        place = self._place(partition)
        if place != seen.place:
            self._moved(broker, seen, partition, place)
        kept, grown = self._differs(broker, seen, partition)
        if kept < len(seen.log):
            self._step("Cut", broker.id, kept)
        if grown:
            self._step("Appended", broker.id, grown)
        seen.log = seen.log[:kept] + grown
        if leader is not None:
            for follower, remote in leader.remotes.items():
                if remote.leo != seen.remote.get(follower, UNKNOWN):
                    self._step("Heard", broker.id, follower, remote.leo)
                    seen.remote[follower] = remote.leo
            if seen.pending is not None and leader.isr.pending is None:
                self._step("FellBack", broker.id)
                seen.pending = None
        if partition.high_watermark != seen.hw:
            self._step("Advanced", broker.id, partition.high_watermark)
            seen.hw = partition.high_watermark
        if leader is not None and leader.isr.pending is not seen.pending and leader.isr.pending is not None:
            seen.pending = leader.isr.pending
            self._step("Proposed", broker.id, frozenset(member for member, _ in seen.pending.isr))

    def _place(self, partition: Partition) -> tuple[str, int, int]:
        if partition.leader is not None:
            return "leader", partition.leader.epoch, max(partition.leader.partition_epoch, partition.partition_epoch)
        return ("none" if partition.follower is None else "follower"), partition.leader_epoch, partition.partition_epoch

    def _moved(self, broker: SimBroker, seen: Seen, partition: Partition, place: tuple[str, int, int]) -> None:
        role, epoch, partition_epoch = place
        word = self._words.get(partition_epoch)
        wanted = role
        if word is not None:
            wanted = "none" if word.leader == NO_LEADER else "leader" if word.leader == broker.id else "follower"
        if role == "none" and wanted != role:
            if seen.place[0] != "none":
                self._step("Resigned", broker.id)
        else:
            self._step("Applied", broker.id, partition_epoch, partition.log.epochs.latest)
            if role == "leader" and (seen.place[0] != role or seen.place[1] + 1 < epoch):
                seen.remote = {}  # who leads again at once keeps its followers' positions
            seen.pending = None
        seen.place = place

    def _differs(self, broker: SimBroker, seen: Seen, partition: Partition) -> tuple[int, list[int]]:
        """How much of the log is as it was, and what is there beyond."""
        end, known = partition.log.log_end_offset, len(seen.log)
        if end <= known:
            return end, []
        with unrefused(broker.disk):
            return known, self._entries(partition.log, known, end)

    def _entries(self, log: Any, first: int, end: int) -> list[int]:
        found = []
        for batch in log.read_batches(first, end):
            for record in batch.records():
                if first <= record.offset < end:
                    number = self._number((record.value or b"").decode())
                    found.append(batch.header.partition_leader_epoch * RECORDS + number)
        return found

    def _number(self, value: str) -> int:
        return self._ids.setdefault(value, len(self._ids) + 1)

    # -- what clients see -----------------------------------------------------------------------------------------------------

    def _look_at_clients(self) -> None:
        clients = getattr(self._inner, "clients", None)
        if clients is None or not self._records:
            return
        acks = clients.acks.get(self._tp, [])
        for ack in acks[self._acknowledged :]:
            self._step("Acknowledged", ack.offset, self._number(ack.value))
        self._acknowledged = len(acks)
        for number, consumer in enumerate(self._cluster.consumers):  # type: ignore[attr-defined]
            before = self._read.get(number, 0)
            if consumer.tp == self._tp and consumer.position != before:
                read = [clients.seen.get((self._tp, offset)) for offset in range(before, consumer.position)]
                if all(value is not None for value in read):
                    self._step("Consumed", before, [self._number(value) for value in read])
                self._read[number] = consumer.position
