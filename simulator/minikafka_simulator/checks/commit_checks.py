"""What is committed, and who has it (B2 to B6, B11 and B19 of ``invariants``).

When a leader's high watermark passes an offset, the identity of the record there (leader epoch and CRC of its batch) is written
down, and from then on no leader may have another one (the *true high watermark* of Vanlightly's specification). Brokers' own
high watermarks are never taken as true.

An unclean election, and only that, excuses a loss: what its leader does not have is struck from the account. What was deleted
by request is accounted for, too: a record that a log no longer has is missed from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.metadata.image import NO_LEADER, PartitionState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.partition import Partition

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.mirror import Identity, View, first_difference
from minikafka_simulator.checks.scheduled_cluster import ScheduledCluster

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


class CommitChecks:
    """Of one world."""

    def __init__(self, world: ScheduledCluster, account: Account) -> None:
        self._world = world
        self._account = account
        self.truth: dict[TopicPartition, list[Identity]] = {}
        self.deleted: dict[TopicPartition, int] = {}
        """Up to where records were really deleted, by request."""
        self.unclean = 0
        self.excused: dict[TopicPartition, int] = {}
        """The leader epoch of the last unclean election: what leaders of earlier ones commit after it is not committed."""
        self._power_lost: dict[int, float] = {}
        self._without_power: set[int] = set()
        self._moved: set[TopicPartition] = set()
        """Those whose candidates are looked at next, all of them: the controller's state or what is committed has changed."""

    def started(self, broker: SimBroker) -> None:
        """A new incarnation: what is left on its disk is known."""
        self._without_power.discard(broker.id)

    def decided(self, tp: TopicPartition) -> None:
        """The controller's state of a partition is another."""
        self._moved.add(tp)

    def look(self) -> None:
        """Look at the candidates for leadership wherever the controller's state or what is committed has changed."""
        while self._moved:
            self.candidates(self._moved.pop())

    def forget(self, topic: str) -> None:
        """It was deleted: one of the same name that comes later is another."""
        for table in (self.truth, self.deleted, self.excused):
            for tp in [tp for tp in table if tp.topic == topic]:
                del table[tp]

    def agreed(self, tp: TopicPartition, view: View) -> int:
        """How many of the committed records a replica has from the start."""
        return view.agrees_with(self.truth.get(tp, []), self.deleted.get(tp, 0))

    def has_all(self, broker: SimBroker, tp: TopicPartition, epoch: int, view: View) -> None:
        """A new leader of the controller's choice has everything that was ever committed (B5)."""
        state = self._account.states.get(tp)
        if state is None or state.leader != broker.id or state.leader_epoch != epoch:
            return
        truth, first = self.truth.get(tp, []), self.agreed(tp, view)
        if first < len(truth):
            self._account.fail(
                "B5 LeaderCompleteness",
                f"broker {broker.id} leads {tp} in epoch {epoch} without the committed record at {first} "
                f"(its LEO is {len(view.identities)}, the true HW {len(truth)})",
            )

    def grows(self, broker: SimBroker, partition: Partition, view: View, before: int) -> None:
        """What the high watermark of a leader has passed is committed, for ever (B2, B3, B4)."""
        tp, leader = partition.topic_partition, partition.leader
        assert leader is not None
        self._on_own_members(broker, partition, before)
        if self.excuses(tp, leader.epoch):
            return
        truth = self.truth.setdefault(tp, [])
        agreed = self.agreed(tp, view)
        if agreed < min(len(truth), partition.high_watermark):
            self._account.fail(
                "B3 StrongIsr",
                f"broker {broker.id} commits another record at {tp} {agreed}: {view.identities[agreed]}, "
                f"committed was {truth[agreed]}",
            )
        state = self._account.states.get(tp)
        grown = view.identities[len(truth) : partition.high_watermark]
        if grown and state is not None:
            truth.extend(grown)
            self._moved.add(tp)
            self._on_every_member(tp, state)

    def _on_every_member(self, tp: TopicPartition, state: PartitionState) -> None:
        """What is newly committed is on every member of the controller's ISR (B4)."""
        truth = self.truth[tp]
        for member in state.isr:
            view = self._account.views.get((member, tp))
            if self._world.brokers[member].up and (view is None or self.agreed(tp, view) < len(truth)):
                if self._restarted_since(member, tp, state):
                    continue
                self._account.fail(
                    "B4 ValidHighWatermark",
                    f"{tp}: HW {len(truth)} is committed, ISR member {member} does not have all of it",
                )

    def _restarted_since(self, member: int, tp: TopicPartition, state: PartitionState) -> bool:
        """A member that has come back but is not hosted again yet; the controller will take its seat away."""
        return tp not in self._world.brokers[member].partitions or state.leader == NO_LEADER

    def _on_own_members(self, broker: SimBroker, partition: Partition, before: int) -> None:
        """What a leader, a zombie too, newly commits is on every member of its own view of the ISR (B2)."""
        leader, tp = partition.leader, partition.topic_partition
        assert leader is not None
        began = self._account.term_began.get((broker.id, tp, leader.epoch), 0.0)
        for member in leader.isr.committed:
            other = self._world.brokers[member]
            hosted = other.partitions.get(tp) if other.up else None
            if hosted is None or hosted.leader_epoch != leader.epoch or self._power_lost.get(member, -1.0) >= began:
                continue  # a member that lost its tail in this term is on its way out of the ISR
            mine, theirs = (
                self._account.views[b, tp].identities[before : partition.high_watermark] for b in (broker.id, member)
            )
            if first_difference(mine, theirs, self.deleted.get(tp, 0), before) < len(mine):
                self._account.fail(
                    "B2 WeakIsr",
                    f"broker {broker.id} commits {tp} up to {partition.high_watermark}, "
                    f"member {member} of its own ISR {list(leader.isr.committed)} does not have all of it",
                )
            unflushed = partition.high_watermark - hosted.log.flushed_offset
            if unflushed >= hosted.log.config.flush_interval_messages:
                self._account.fail(
                    "B19 FlushedBeforeCommitted",
                    f"broker {broker.id} commits {tp} up to {partition.high_watermark}, of which member {member} has not "
                    f"flushed {unflushed}; flush.messages is {hosted.log.config.flush_interval_messages}",
                )

    def held_somewhere(self, tp: TopicPartition) -> None:
        """Power losses and truncations leave one replica at least with everything committed (B11)."""
        state = self._account.states.get(tp)
        if (
            state is not None
            and self.truth.get(tp)
            and not any(self.holds_all(replica, tp) for replica in state.replicas)
        ):
            self._account.fail(
                "B11 NoCommittedRecordLostGlobally",
                f"{tp}: no replica has the {len(self.truth.get(tp, ()))} committed records",
            )

    def lost_power(self, broker: SimBroker) -> None:
        """What a broker had not flushed is gone; what is left is known when it starts again."""
        self._power_lost[broker.id] = self._world.now
        self._without_power.add(broker.id)
        for tp in self._account.states:
            self.held_somewhere(tp)

    def candidates(self, tp: TopicPartition) -> None:
        """Each running member of ISR and ELR has what is committed, up to the true high watermark (B6)."""
        if (state := self._account.states.get(tp)) is not None:
            for member in (*state.isr, *state.elr):
                self.candidate(tp, self._world.brokers[member])

    def candidate(self, tp: TopicPartition, broker: SimBroker) -> None:
        """If a broker is a running member of ISR or ELR, it has what is committed (B6)."""
        state = self._account.states.get(tp)
        if state is None or not broker.up or (broker.id not in state.isr and broker.id not in state.elr):
            return
        partition = broker.gate.replicas.get(tp.topic, tp.partition)
        if partition is None or partition.role == 0 or not self._account.exists(tp, partition):
            return
        if partition.partition_epoch < state.partition_epoch and partition.leader_epoch != state.leader_epoch:
            return
        have, truth = self.agreed(tp, self._account.views[broker.id, tp]), len(self.truth.get(tp, ()))
        if have < truth:
            self._account.fail(
                "B6 LeaderCandidateCompleteness",
                f"{tp}: broker {broker.id} is in ISR {list(state.isr)} / ELR {list(state.elr)} with {have} of the {truth} "
                f"committed records, its LEO is {partition.log.log_end_offset}",
            )

    def excuse(self, tp: TopicPartition, leader: int, leader_epoch: int) -> int:
        """An unclean election: strike what its leader does not have; from where on."""
        self.unclean += 1
        self.excused[tp] = leader_epoch
        view = self._account.views.get((leader, tp))
        have = view.identities if view is not None else []
        truth = self.truth.get(tp, [])
        same = first_difference(truth, have, self.deleted.get(tp, 0))
        del truth[same:]
        for (_, of), other in self._account.views.items():
            if of == tp:
                other.disagree_from(same)
        return same

    def excuses(self, tp: TopicPartition, leader_epoch: int) -> bool:
        """Whether the last unclean election excuses what came of a leader epoch. Those since keep the account as any others."""
        return leader_epoch < self.excused.get(tp, -1)

    def records_deleted(self, tp: TopicPartition, to: int) -> None:
        """Records before ``to`` were deleted by request."""
        self.deleted[tp] = max(to, self.deleted.get(tp, 0))

    def holds_all(self, broker_id: int, tp: TopicPartition) -> bool:
        """Whether a replica, running or not, has everything committed; for the nemesis, so that losses stay within f.

        Of one that has lost power nobody knows before its logs are open again.
        """
        view = None if broker_id in self._without_power else self._account.views.get((broker_id, tp))
        return view is not None and self.agreed(tp, view) == len(self.truth.get(tp, ()))
