"""The invariants (``spec`` names A1.. client-visible, B1.. broker-visible), checked after every event.

The checker keeps its own account of what is committed: when a leader's high watermark passes an offset, the identity of the
record there (leader epoch and CRC of its batch) is written down, and from then on no leader may have another one (the *true
high watermark* of Vanlightly's specification). Brokers' own high watermarks are never taken as true.

An unclean election, and only that, excuses a loss: what its leader does not have is struck from the account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.controller.workspace import Event
from minikafka.metadata.image import NO_LEADER, ClusterImage, PartitionState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.partition import Partition

from minikafka_chaos.simulation.client_checks import ClientChecks
from minikafka_chaos.simulation.watcher import Watcher

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.world import World

Identity = tuple[int, int, int]
"""(leader epoch, CRC of the batch, index in the batch) of one record."""

GONE: Identity = (-1, -1, -1)
"""Stands for a record below a replica's log start: it was deleted, and is like any other."""


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


def _first_difference(wanted: list[Identity], found: list[Identity]) -> int:
    """The first offset at which two logs differ, one being shorter counted; the longer length when they do not."""
    if wanted == found:
        return len(wanted)
    for offset, (a, b) in enumerate(zip(wanted, found, strict=False)):
        if a != b and GONE not in (a, b):
            return offset
    return min(len(wanted), len(found)) if len(found) < len(wanted) else len(wanted)


class View:
    """What the checker remembers of one hosted replica."""

    __slots__ = ("hw", "hw_epoch", "identities", "partition_epoch", "start", "term")

    def __init__(self) -> None:
        self.identities: list[Identity] = []
        self.start = 0
        self.hw = 0
        self.hw_epoch = -1
        self.partition_epoch = -1
        self.term = object()


class Checker(Watcher):
    """Watches one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.truth: dict[TopicPartition, list[Identity]] = {}
        self.clients = ClientChecks(world, self)
        self.views: dict[tuple[int, TopicPartition], View] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.leaders: dict[tuple[TopicPartition, int], int] = {}
        self.marks: dict[tuple[int, TopicPartition], int] = {}
        self.unclean = 0
        self.excused: set[TopicPartition] = set()
        self.power_lost: dict[int, float] = {}
        self.without_power: set[int] = set()

    def fail(self, invariant: str, detail: str) -> None:
        """Report a violation: the run ends here."""
        self.world.note(f"VIOLATION {invariant}: {detail}")
        raise Violation(invariant, detail)

    # -- the replicas' logs, mirrored ---------------------------------------------------------------------------------------

    def started(self, broker: SimBroker) -> None:
        """A new incarnation: what it found on its disk is read again, and is a valid prefix of whole batches (B15)."""
        assert broker.logs is not None
        self.without_power.discard(broker.id)
        for tp, log in broker.logs.logs.items():
            view = self.views[broker.id, tp] = View()
            expected = log.segments[0].base_offset
            view.identities.extend([GONE] * expected)
            for whole in log.read_batches(log.log_start_offset, log.log_end_offset):
                if whole.header.base_offset > expected and whole.header.base_offset <= log.log_start_offset:
                    view.identities.extend([GONE] * (whole.header.base_offset - expected))
                    expected = whole.header.base_offset
                if not whole.crc_matches() or whole.header.base_offset != expected:
                    self.fail(
                        "B15 recovery",
                        f"broker {broker.id} {tp}: batch at {whole.header.base_offset} is damaged or out of place, "
                        f"want {expected}",
                    )
                expected = whole.header.next_offset
                self._mirror_batch(view, whole)
            if log.log_start_offset == log.log_end_offset:
                view.identities.extend([GONE] * (log.log_end_offset - expected))
                expected = log.log_end_offset
            if expected != log.log_end_offset:
                self.fail(
                    "B15 recovery",
                    f"broker {broker.id} {tp}: whole batches end at {expected}, LEO {log.log_end_offset}",
                )

    @staticmethod
    def _mirror_batch(view: View, whole: Any) -> None:
        header = whole.header
        del view.identities[header.base_offset :]
        view.identities.extend(
            (header.partition_leader_epoch, header.crc, index) for index in range(header.last_offset_delta + 1)
        )

    def hosted(self, broker: SimBroker, partition: Partition) -> None:
        """A replica begins with the high watermark it checkpointed last (KAFKA-1647), as far as its log reaches."""
        tp = partition.topic_partition
        self.views.setdefault((broker.id, tp), View())
        mark = min(self.marks.get((broker.id, tp), 0), partition.log.log_end_offset)
        if partition.high_watermark < mark:
            self.fail(
                "B17 restored high watermark",
                f"broker {broker.id} {tp} starts with HW {partition.high_watermark}, it had checkpointed {mark}",
            )

    def dropped(self, broker: SimBroker, tp: TopicPartition) -> None:
        """The replica is no more; if it comes back, it is another."""
        self.views.pop((broker.id, tp), None)
        self.marks.pop((broker.id, tp), None)

    def reset(self, broker: SimBroker, tp: TopicPartition) -> None:
        """The replica waits for a new registration; its state begins anew."""
        view = self.views[broker.id, tp]
        view.partition_epoch, view.hw_epoch = -1, -1

    def checkpointed(self, broker: SimBroker) -> None:
        """Remember what a restart must find at least."""
        for tp, partition in broker.partitions.items():
            self.marks[broker.id, tp] = partition.high_watermark

    def after(self, broker: SimBroker) -> None:
        """After every event on a broker: its own replicas, and the candidates for leadership."""
        if not broker.up:
            return
        for tp, partition in broker.partitions.items():
            self._mirror(broker, tp, partition)
        for tp in self.states:
            self.leader_candidates(tp)

    def _mirror(self, broker: SimBroker, tp: TopicPartition, partition: Partition) -> None:
        view = self.views[broker.id, tp]
        log = partition.log
        hw, leo = partition.high_watermark, log.log_end_offset
        if not log.log_start_offset <= hw <= leo:
            self.fail(
                "B14 offsets", f"broker {broker.id} {tp}: log start {log.log_start_offset} <= HW {hw} <= LEO {leo}"
            )
        start = log.log_start_offset
        if start > view.start:  # deleted, or the whole log was dropped to begin anew at the leader's start
            stop = min(start, len(view.identities))
            view.identities[view.start : stop] = [GONE] * (stop - view.start)
            view.start = start
        known = len(view.identities)
        if leo < known:
            del view.identities[leo:]
            self._held_somewhere(tp)
        elif leo > known:
            first = max(known, log.log_start_offset)
            view.identities.extend([GONE] * (first - known))
            for whole in log.read_batches(first, leo):
                if whole.header.next_offset > first:
                    self._mirror_batch(view, whole)
            self._epochs_grow(broker, tp, view, known)
        if partition.leader is not None:
            self._leading(broker, tp, partition, view)
        view.hw = hw
        if partition.partition_epoch < view.partition_epoch:
            self.fail(
                "B13 epochs",
                f"broker {broker.id} {tp}: partition epoch {view.partition_epoch} -> {partition.partition_epoch}",
            )
        view.partition_epoch = partition.partition_epoch

    def _epochs_grow(self, broker: SimBroker, tp: TopicPartition, view: View, first: int) -> None:
        """Epochs of batches never fall along the log (B13)."""
        before = view.identities[first - 1][0] if first else -1
        for offset in range(first, len(view.identities)):
            epoch = view.identities[offset][0]
            if view.identities[offset] == GONE:
                continue
            if epoch < before:
                self.fail("B13 epochs", f"broker {broker.id} {tp}: epoch {epoch} at {offset} follows epoch {before}")
            before = epoch

    # -- leaders --------------------------------------------------------------------------------------------------------

    def _leading(self, broker: SimBroker, tp: TopicPartition, partition: Partition, view: View) -> None:
        leader = partition.leader
        assert leader is not None
        if leader is not view.term:
            view.term = leader
            self.world.term_began[broker.id, tp, leader.epoch] = self.world.now
            other = self.leaders.setdefault((tp, leader.epoch), broker.id)
            if other != broker.id:
                self.fail("B13 epochs", f"{tp}: brokers {other} and {broker.id} both lead epoch {leader.epoch}")
            self._complete(broker, tp, leader.epoch, view)
        elif view.hw_epoch == leader.epoch and partition.high_watermark < view.hw:
            self.fail(
                "B14 offsets",
                f"broker {broker.id} {tp}: leader's HW {view.hw} -> {partition.high_watermark} in epoch {leader.epoch}",
            )
        view.hw_epoch = leader.epoch
        if broker.id not in leader.isr.committed:
            self.fail("B1 LeaderInIsr", f"broker {broker.id} leads {tp} with ISR {list(leader.isr.committed)}")
        if partition.log.epochs.latest != leader.epoch:
            self.fail(
                "B13 epochs",
                f"broker {broker.id} leads {tp} in epoch {leader.epoch}, its log knows {partition.log.epochs.latest}",
            )
        state = self.states.get(tp)
        if state is not None and leader.epoch == state.leader_epoch and not leader.isr.maximal >= set(state.isr):
            self.fail(
                "B7 ReplicationQuorumSuperset",
                f"broker {broker.id} {tp}: counts on {sorted(leader.isr.maximal)}, the controller's ISR is {list(state.isr)}",
            )

    def served(self, broker: SimBroker, partition: Partition, asked_epoch: int) -> None:
        """Records flow only between a leader and those who know it by its present epoch (KIP-320)."""
        if asked_epoch != partition.leader_epoch:
            self.fail(
                "B12 ValidFetcherState",
                f"broker {broker.id} leads {partition.topic_partition} in epoch {partition.leader_epoch} and serves "
                f"a fetch of epoch {asked_epoch}",
            )

    def _complete(self, broker: SimBroker, tp: TopicPartition, epoch: int, view: View) -> None:
        """A new leader of the controller's choice has everything that was ever committed (B5)."""
        state = self.states.get(tp)
        if state is None or state.leader != broker.id or state.leader_epoch != epoch:
            return
        truth = self.truth.get(tp, [])
        first = _first_difference(truth, view.identities)
        if first < len(truth):
            self.fail(
                "B5 LeaderCompleteness",
                f"broker {broker.id} leads {tp} in epoch {epoch} without the committed record at {first} "
                f"(its LEO is {len(view.identities)}, the true HW {len(truth)})",
            )

    def high_watermark(self, broker: SimBroker, partition: Partition) -> None:
        """A leader's high watermark has moved: what it passed is committed, for ever (B2, B3, B8)."""
        if partition.leader is None:
            return
        tp = partition.topic_partition
        view = self.views[broker.id, tp]
        before = view.hw
        self._mirror(broker, tp, partition)
        truth = self.truth.setdefault(tp, [])
        for offset in range(min(len(truth), partition.high_watermark)):
            if view.identities[offset] not in (truth[offset], GONE) and truth[offset] != GONE:
                self.fail(
                    "B3 StrongIsr",
                    f"broker {broker.id} commits another record at {tp} {offset}: {view.identities[offset]}, "
                    f"committed was {truth[offset]}",
                )
        self._on_own_members(broker, partition, before)
        state = self.states.get(tp)
        grown = view.identities[len(truth) : partition.high_watermark]
        if grown and state is not None:
            start = len(truth)
            truth.extend(grown)
            self._on_every_member(tp, state, start)

    def _on_every_member(self, tp: TopicPartition, state: PartitionState, start: int) -> None:
        """What is newly committed is on every member of the controller's ISR (B4)."""
        truth = self.truth[tp]
        for member in state.isr:
            view = self.views.get((member, tp))
            if self.world.brokers[member].up and (
                view is None or _first_difference(truth[start:], view.identities[start:]) < len(truth) - start
            ):
                if self._restarted_since(member, tp, state):
                    continue
                self.fail(
                    "B4 ValidHighWatermark",
                    f"{tp}: HW {len(truth)} is committed, ISR member {member} does not have all of it",
                )

    def _restarted_since(self, member: int, tp: TopicPartition, state: PartitionState) -> bool:
        """A member that has come back but is not hosted again yet; the controller will take its seat away."""
        return tp not in self.world.brokers[member].partitions or state.leader == NO_LEADER

    def _on_own_members(self, broker: SimBroker, partition: Partition, before: int) -> None:
        """What a leader, a zombie too, newly commits is on every member of its own view of the ISR (B2)."""
        leader, tp = partition.leader, partition.topic_partition
        assert leader is not None
        began = self.world.term_began.get((broker.id, tp, leader.epoch), 0.0)
        for member in leader.isr.committed:
            other = self.world.brokers[member]
            hosted = other.partitions.get(tp) if other.up else None
            if hosted is None or hosted.leader_epoch != leader.epoch or self.power_lost.get(member, -1.0) >= began:
                continue  # a member that lost its tail in this term is on its way out of the ISR
            mine, theirs = (
                self.views[b, tp].identities[before : partition.high_watermark] for b in (broker.id, member)
            )
            if _first_difference(mine, theirs) < len(mine):
                self.fail(
                    "B2 WeakIsr",
                    f"broker {broker.id} commits {tp} up to {partition.high_watermark}, "
                    f"member {member} of its own ISR {list(leader.isr.committed)} does not have all of it",
                )
            unflushed = partition.high_watermark - hosted.log.flushed_offset
            if unflushed >= hosted.log.config.flush_interval_messages:
                self.fail(
                    "B19 FlushedBeforeCommitted",
                    f"broker {broker.id} commits {tp} up to {partition.high_watermark}, of which member {member} has not "
                    f"flushed {unflushed}; flush.messages is {hosted.log.config.flush_interval_messages}",
                )

    def _held_somewhere(self, tp: TopicPartition) -> None:
        """Power losses and truncations leave one replica at least with everything committed (B11)."""
        state = self.states.get(tp)
        if state is not None and not any(
            self.holds_all(replica, tp) for replica in state.replicas if replica not in self.without_power
        ):
            self.fail(
                "B11 NoCommittedRecordLostGlobally",
                f"{tp}: no replica has the {len(self.truth.get(tp, ()))} committed records",
            )

    def lost_power(self, broker: SimBroker) -> None:
        """What a broker had not flushed is gone; what is left is known when it starts again."""
        self.power_lost[broker.id] = self.world.now
        self.without_power.add(broker.id)
        for tp in self.states:
            self._held_somewhere(tp)

    def leader_candidates(self, tp: TopicPartition) -> None:
        """Each running member of ISR and ELR, or of the leader's proposal, reaches the true high watermark (B6)."""
        state = self.states[tp]
        truth = len(self.truth.get(tp, ()))
        for member in (*state.isr, *state.elr):
            broker = self.world.brokers[member]
            partition = broker.partitions.get(tp) if broker.up else None
            if partition is None or partition.role == 0:
                continue
            if partition.partition_epoch < state.partition_epoch and not self._took_part(partition, state):
                continue
            if partition.log.log_end_offset < truth:
                self.fail(
                    "B6 LeaderCandidateCompleteness",
                    f"{tp}: broker {member} is in ISR {list(state.isr)} / ELR {list(state.elr)} with LEO "
                    f"{partition.log.log_end_offset}, the true HW is {truth}",
                )

    @staticmethod
    def _took_part(partition: Partition, state: PartitionState) -> bool:
        return partition.leader_epoch == state.leader_epoch

    # -- controller -----------------------------------------------------------------------------------------------------

    def committed(self, events: list[Event], image: ClusterImage) -> None:
        """The store has taken a controller's decisions."""
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                self._state(TopicPartition(topic.name, index), state, image)
        for event in events:
            fields = " ".join(f"{k}={v}" for k, v in event.fields.items())
            self.world.note(f"controller: {event.name} {event.topic or ''}-{event.partition} {fields}")
            if event.name == "leader_elected" and not event.fields["clean"]:
                assert event.topic is not None and event.partition is not None
                self._excuse(TopicPartition(event.topic, event.partition), event.fields["leader"])

    def _state(self, tp: TopicPartition, state: PartitionState, image: ClusterImage) -> None:
        old = self.states.get(tp)
        if old is state:
            return
        if old is not None and state != old:
            if state.partition_epoch <= old.partition_epoch or state.leader_epoch < old.leader_epoch:
                self.fail(
                    "B13 epochs",
                    f"{tp}: controller's epochs {old.leader_epoch}.{old.partition_epoch} -> "
                    f"{state.leader_epoch}.{state.partition_epoch}",
                )
            if state.leader not in (old.leader, NO_LEADER) and state.leader_epoch == old.leader_epoch:
                self.fail("B13 epochs", f"{tp}: leader {old.leader} -> {state.leader} without a new epoch")
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self.fail("B1 LeaderInIsr", f"{tp}: leader {state.leader}, ISR {list(state.isr)}")
        fenced = [m for m in state.isr if not image.is_active(m)]
        if fenced:
            self.fail("B9 ValidControllerState", f"{tp}: fenced brokers {fenced} in ISR {list(state.isr)}")
        min_isr = image.min_insync_replicas(image.topics[tp.topic], self.world.min_isr)
        if set(state.isr) & set(state.elr) or (state.elr and len(state.isr) >= min(min_isr, len(state.replicas))):
            self.fail("B10 ValidControllerIsrAndElr", f"{tp}: ISR {list(state.isr)}, ELR {list(state.elr)}")
        self.states[tp] = state

    def _excuse(self, tp: TopicPartition, leader: int) -> None:
        """An unclean election: strike what its leader does not have."""
        self.unclean += 1
        self.excused.add(tp)
        view = self.views.get((leader, tp))
        have = view.identities if view is not None else []
        truth = self.truth.get(tp, [])
        same = _first_difference(truth, have)
        del truth[same:]
        self.clients.excuse(tp, same)

    def proposed(self, broker: SimBroker, proposal: IsrProposal) -> None:
        """A leader does not throw out a member that it has not given ``replica.lag.time.max.ms`` to fetch (Fluss #3698)."""
        partition = broker.partitions[proposal.topic_partition]
        leader = partition.leader
        assert leader is not None
        members = {m for m, _ in proposal.isr}
        removed = [m for m in leader.isr.committed if m not in members]
        began = self.world.term_began.setdefault((broker.id, proposal.topic_partition, leader.epoch), self.world.now)
        if removed and self.world.now - began < self.world.lag:
            self.fail(
                "B18 NoHastyShrink",
                f"broker {broker.id} {proposal.topic_partition} drops {removed} "
                f"{self.world.now - began:.2f} s after its term began",
            )

    # -- faults and the end -------------------------------------------------------------------------------------------------

    def holds_all(self, broker_id: int, tp: TopicPartition) -> bool:
        """Whether a replica, running or not, has everything committed; for the nemesis, so that losses stay within f."""
        view = self.views.get((broker_id, tp))
        truth = self.truth.get(tp, [])
        return view is not None and _first_difference(truth, view.identities) == len(truth)

    def final(self) -> None:
        """After the faults are healed and the clients are done: nothing lost, nothing divergent, everybody back (liveness)."""
        for tp, state in self.states.items():
            if state.leader == NO_LEADER:
                self.fail("L1 leader", f"{tp} has no leader after everything was healed")
            if set(state.isr) != set(state.replicas):
                self.fail(
                    "L2 full ISR",
                    f"{tp}: ISR {sorted(state.isr)} of {sorted(state.replicas)} after everything was healed",
                )
            leader = self.views[state.leader, tp].identities
            start = max(self.world.brokers[r].partitions[tp].log.log_start_offset for r in state.replicas)
            for ack in self.clients.acks.get(tp, []):
                if ack.offset >= start and self._value_at(state.leader, tp, ack.offset) != ack.value:
                    there = self._value_at(state.leader, tp, ack.offset)
                    self.fail(
                        "A1 lost-write", f"{tp}: {ack.value!r} was acknowledged at {ack.offset}; there is {there!r}"
                    )
            for replica in state.replicas:
                other = self.views[replica, tp].identities
                at = _first_difference(leader, other)
                if at < max(len(leader), len(other)):
                    self.fail(
                        "B8 LogMatching",
                        f"{tp}: brokers {state.leader} and {replica} differ from {at} on (LEO {len(leader)} and {len(other)})",
                    )
        for reader in self.world.consumers:
            self.clients.seen_by(reader.tp, reader)
        for producer in self.world.producers:
            if not producer.idle:
                self.fail("L3 progress", f"{producer.values} of {producer.tp} are still unanswered")

    def _value_at(self, broker_id: int, tp: TopicPartition, offset: int) -> str | None:
        log = self.world.brokers[broker_id].partitions[tp].log
        if not log.log_start_offset <= offset < log.log_end_offset:
            return None
        for whole in log.read_batches(offset, log.log_end_offset):
            for record in whole.records():
                if record.offset == offset:
                    return (record.value or b"").decode()
            return None
        return None
