"""The invariants (``spec`` names A1.. client-visible, B1.. broker-visible), checked after every event.

Here are the replicas' logs, mirrored, and the controller's decisions; what is committed, and who must have it, is in
``commit_checks``, and what else is checked in the modules beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minikafka.controller.workspace import Event
from minikafka.metadata.image import NO_LEADER, ClusterImage, PartitionState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.partition import Partition

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.client_checks import ClientChecks
from minikafka_simulator.checks.commit_checks import CommitChecks
from minikafka_simulator.checks.disk_checks import DiskChecks
from minikafka_simulator.checks.group_checks import GroupChecks
from minikafka_simulator.checks.isr_checks import IsrChecks
from minikafka_simulator.checks.log_checks import LogChecks
from minikafka_simulator.checks.mirror import (
    View,
    first_difference,
    unrefused,
)
from minikafka_simulator.checks.scheduled_cluster import ScheduledCluster
from minikafka_simulator.checks.term_checks import TermChecks
from minikafka_simulator.cluster.watcher import Watcher

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


class Checker(Account, Watcher):
    """Watches one cluster."""

    def __init__(self, world: ScheduledCluster) -> None:
        super().__init__(world.scheduler)
        self.world = world
        self.commits = CommitChecks(world, self)
        self.logs = LogChecks(world, self, self.commits)
        self.clients = ClientChecks(world, self, self.commits, self.logs)
        self.terms = TermChecks(world, self)
        self.groups = GroupChecks(world, self, self.commits)
        self.isr = IsrChecks(world, self)
        self.disks = DiskChecks(self)

    # -- the replicas' logs, mirrored ---------------------------------------------------------------------------------------

    def started(self, broker: SimBroker) -> None:
        """A new incarnation: what it found on its disk is read again, and is a valid prefix of whole batches (B15)."""
        assert broker.logs is not None
        self.commits.started(broker)
        with unrefused(broker.disk):
            for tp, log in broker.logs.logs.items():
                if self._log_exists(broker, tp):
                    self.logs.opened(broker, tp, log)
        self.disks.started(broker)

    def reopened(self, broker: SimBroker, tp: TopicPartition) -> None:
        """A log that was offline was opened anew, as after a crash of the process."""
        if broker.up and broker.logs is not None and self._log_exists(broker, tp):
            with unrefused(broker.disk):
                self.logs.opened(broker, tp, broker.logs.logs[tp])
            self.commits.held_somewhere(tp)

    def hosted(self, broker: SimBroker, partition: Partition) -> None:
        """A replica begins with the high watermark it checkpointed last (KAFKA-1647), as far as its log reaches."""
        tp = partition.topic_partition
        self.views.setdefault((broker.id, tp), View())
        mark = min(self.marks.get((broker.id, tp), 0), partition.log.log_end_offset)
        self.marks[broker.id, tp] = mark  # a log that was made anew has forgotten the rest
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
        view.partition_epoch, view.hw_epoch, view.looked_at = -1, -1, None

    def group_deleted(self, group: str) -> None:
        """A coordinator has forgotten a group."""
        self.groups.group_deleted(group)

    def checkpointed(self, broker: SimBroker, marks: Mapping[TopicPartition, int], perhaps: bool = False) -> None:
        """Remember what a restart must find at least."""
        for tp, partition in broker.partitions.items():
            if tp in marks and self.exists(tp, partition):
                before = self.marks.get((broker.id, tp), 0)
                self.marks[broker.id, tp] = min(marks[tp], before) if perhaps else marks[tp]

    def after(self, broker: SimBroker) -> None:
        """After every event on a broker: its own replicas, and the candidates for leadership."""
        if not broker.up:
            return
        offline, ids = broker.offline_logs or (), self.ids
        for partition in broker.gate.replicas.all():
            tp = partition.topic_partition
            if partition.log.failure is not None or tp in offline:
                self._failed(broker, tp, partition)
                continue  # memory and disk may differ; nobody is told anything of it
            if ids.get(tp.topic) == partition.topic_id and self._has_changed(broker, tp, partition):
                with unrefused(broker.disk):
                    self._mirror(broker, tp, partition)
                self.commits.candidate(tp, broker)
        if (overdue := broker.gate.overdue(broker.awake_since)) is not None:
            self.fail("B24 Purgatory", f"broker {broker.id}: {overdue}")
        self.terms.after(broker)
        self.isr.after(broker)
        self.commits.look()

    def _failed(self, broker: SimBroker, tp: TopicPartition, partition: Partition) -> None:
        """What a leader has written, committed and acknowledged earlier in the event in which its log failed counts; nothing
        later."""
        view, log = self.views.get((broker.id, tp)), partition.log
        if view is None or view.failed:
            return
        view.failed, before, view.hw = True, view.hw, partition.high_watermark
        if partition.leader is None or self.ids.get(tp.topic) != partition.topic_id:
            return
        known = len(view.identities)
        if log.log_start_offset <= known < log.log_end_offset:
            with unrefused(broker.disk):
                for whole in log.segments.batches(known, log.log_end_offset):
                    self.logs.take(broker, tp, view, whole)
        if view.hw > before:
            self.commits.grows(broker, partition, view, before)

    def _has_changed(self, broker: SimBroker, tp: TopicPartition, partition: Partition) -> bool:
        """Whether anything differs that the checks of one replica look at; most events touch one replica or none.

        What is committed may have changed, too: what has grown is no reason to look again (a replica's agreement with it
        never falls by that), and what was struck by an unclean election is excused.
        """
        log, leader = partition.log, partition.leader
        now = (
            log.log_end_offset,
            partition.high_watermark,
            log.log_start_offset,
            partition.state,
            partition.role,
            leader,
            None if leader is None else (leader.isr.committed, leader.isr.maximal),
            log.epochs.latest,
            self.states.get(tp),
        )
        view = self.views[broker.id, tp]
        if view.looked_at == now:
            return False
        view.looked_at = now
        return True

    def _mirror(self, broker: SimBroker, tp: TopicPartition, partition: Partition) -> None:
        view = self.views[broker.id, tp]
        log = partition.log
        hw, leo = partition.high_watermark, log.log_end_offset
        if not log.log_start_offset <= hw <= leo:
            self.fail(
                "B14 offsets", f"broker {broker.id} {tp}: log start {log.log_start_offset} <= HW {hw} <= LEO {leo}"
            )
        start, before = log.log_start_offset, view.hw
        if start != view.start:  # deleted, or the whole log was dropped to begin anew at the leader's start
            self.logs.starts_right(broker, tp, start)
            view.begin_at(start)
        known = len(view.identities)
        if leo < known:
            if partition.leader is not None and partition.leader is view.term:
                self.fail(
                    "B14 offsets",
                    f"broker {broker.id} {tp}: leader's LEO {known} -> {leo} in epoch {partition.leader.epoch}",
                )
            view.cut(leo)
            self.commits.held_somewhere(tp)
        elif leo > known:
            first = max(known, start)
            view.skip_to(first)
            for whole in log.read_batches(first, leo):
                if whole.header.next_offset > first:
                    self.logs.take(broker, tp, view, whole)
            self.logs.epochs_grow(broker, tp, view, known)
            self.logs.notes_growth(broker, tp, log, view, first)
        if partition.leader is not None:
            self._leading(broker, tp, partition, view)
        if leo < known or start != view.checked_start:
            self.logs.remembers_right(broker, tp, log, view)
            self.logs.finds_right(broker, tp, log)
            view.checked_start = start
        view.hw = hw
        if partition.leader is not None and hw != before:
            self.commits.grows(broker, partition, view, before)
        if tp not in self.commits.excused and self.commits.agreed(tp, view) < hw:
            self.fail(
                "B3 StrongIsr",
                f"broker {broker.id} {tp}: takes {hw} records for committed, of which {self.commits.agreed(tp, view)} are",
            )
        if partition.partition_epoch < view.partition_epoch:
            self.fail(
                "B13 epochs",
                f"broker {broker.id} {tp}: partition epoch {view.partition_epoch} -> {partition.partition_epoch}",
            )
        view.partition_epoch = partition.partition_epoch

    # -- leaders --------------------------------------------------------------------------------------------------------

    def _leading(self, broker: SimBroker, tp: TopicPartition, partition: Partition, view: View) -> None:
        leader = partition.leader
        assert leader is not None
        if leader is not view.term:
            view.term = leader
            self.term_began[broker.id, tp, leader.epoch] = self.world.now
            other = self.leaders.setdefault((tp, leader.epoch), broker.id)
            if other != broker.id:
                self.fail("B13 epochs", f"{tp}: brokers {other} and {broker.id} both lead epoch {leader.epoch}")
            self.commits.has_all(broker, tp, leader.epoch, view)
        elif leader.partition_epoch < view.leads_in:
            self.fail(
                "B13 epochs",
                f"broker {broker.id} leads {tp} in epoch {leader.epoch}: its partition epoch {view.leads_in} -> "
                f"{leader.partition_epoch}",
            )
        elif view.hw_epoch == leader.epoch and partition.high_watermark < view.hw:
            self.fail(
                "B14 offsets",
                f"broker {broker.id} {tp}: leader's HW {view.hw} -> {partition.high_watermark} in epoch {leader.epoch}",
            )
        view.hw_epoch, view.leads_in = leader.epoch, leader.partition_epoch
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

    def fetched(self, broker: SimBroker, partition: Partition, leader: int, sent_in: int) -> None:
        """A follower has taken in an answer: it came from who led the follower's leader epoch, in that epoch (KIP-320)."""
        self.isr.fetched(broker, partition, leader)
        tp, epoch = partition.topic_partition, partition.leader_epoch
        rightful = self.leaders.get((tp, epoch))
        if self.exists(tp, partition) and (sent_in != epoch or leader != rightful):
            self.fail(
                "B12 ValidFetcherState",
                f"broker {broker.id} follows {tp} in epoch {epoch}, which broker {rightful} leads, and takes an answer "
                f"that broker {leader} gave in epoch {sent_in}",
            )

    def lost_power(self, broker: SimBroker) -> None:
        """What a broker had not flushed is gone; what is left is known when it starts again."""
        self.disks.lost_power(broker)
        self.commits.lost_power(broker)
        self.isr.lost_power(broker)

    # -- controller -----------------------------------------------------------------------------------------------------

    def committed(self, events: list[Event], image: ClusterImage) -> None:
        """The store has taken a controller's decisions."""
        self.terms.committed(events)
        fenced = {event.fields["target"] for event in events if event.name == "broker_fenced"}
        back = {event.fields["target"]: n for n, event in enumerate(events) if event.name == "broker_unfenced"}
        elected = {
            (event.topic, event.partition): n for n, event in enumerate(events) if event.name == "leader_elected"
        }
        for topic in image.topics.values():
            if self.topic_ids.setdefault(topic.name, topic.topic_id) != topic.topic_id:
                self._forget(topic.name)
                self.topic_ids[topic.name] = topic.topic_id
            self.ids[topic.name] = topic.topic_id.bytes
            for index, state in enumerate(topic.partitions):
                tp = TopicPartition(topic.name, index)
                late = {broker for broker, n in back.items() if n > elected.get(tp, len(events))}
                self._state(tp, state, image, fenced | late)
        for name in [name for name in self.topic_ids if name not in image.topics]:
            self._forget(name)
            del self.topic_ids[name], self.ids[name]
        for event in events:
            fields = " ".join(f"{k}={v}" for k, v in event.fields.items())
            self.world.note(f"controller: {event.name} {event.topic or ''}-{event.partition} {fields}")
            if event.name == "leader_elected":
                assert event.topic is not None and event.partition is not None
                tp = TopicPartition(event.topic, event.partition)
                self.isr.elected(tp, event.fields["leader_epoch"], event.fields["clean"])
                if not event.fields["clean"]:
                    struck = self.commits.excuse(tp, event.fields["leader"], event.fields["leader_epoch"])
                    self.clients.excuse(tp, struck)
        self.isr.written(image)

    def emitted(self, broker: SimBroker, event: Event) -> None:
        """A controller tells of something that it decided."""
        self.terms.emitted(broker, event)

    def lease_taken(self, broker: int, held: int, expected: int) -> None:
        """The store is to compare before it sets (R15)."""
        if held != expected:
            self.fail(
                "B39 LeaseAsExpected",
                f"broker {broker} has taken the lease of controller epoch {held}; it had seen epoch {expected}",
            )

    def settled(self, broker: SimBroker) -> None:
        """A broker's replicas match the image."""
        self.terms.settled(broker)

    def _log_exists(self, broker: SimBroker, tp: TopicPartition) -> bool:
        """Whether a log on a broker's disk is one of a topic that there is; one that was deleted is told by its topic id."""
        assert broker.logs is not None
        found, topic_id = broker.logs.topic_ids.get(tp), self.topic_ids.get(tp.topic)
        return topic_id is not None and found in (None, topic_id)

    def _forget(self, topic: str) -> None:
        """It was deleted: one of the same name that comes later is another."""
        for tp in [tp for tp in self.states if tp.topic == topic]:
            del self.states[tp]
        self.commits.forget(topic)
        self.logs.forget(topic)
        self.clients.forget(topic)
        self.leaders = {key: leader for key, leader in self.leaders.items() if key[0].topic != topic}
        self.views = {key: View() if key[1].topic == topic else view for key, view in self.views.items()}
        self.marks = {key: mark for key, mark in self.marks.items() if key[1].topic != topic}
        self.term_began = {key: at for key, at in self.term_began.items() if key[1].topic != topic}

    def _state(self, tp: TopicPartition, state: PartitionState, image: ClusterImage, away: set[int]) -> None:
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
            self.isr.changed(tp, old, state, image, away)
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self.fail("B1 LeaderInIsr", f"{tp}: leader {state.leader}, ISR {list(state.isr)}")
        inactive = [m for m in state.isr if not image.is_active(m)]
        if inactive:
            self.fail("B9 ValidControllerState", f"{tp}: fenced brokers {inactive} in ISR {list(state.isr)}")
        self.isr.isr_and_elr(tp, state, image)
        self.states[tp] = state
        self.commits.decided(tp)

    def records_deleted(self, tp: TopicPartition, to: int) -> None:
        """Records before ``to`` were deleted by request."""
        self.commits.records_deleted(tp, to)

    def retained(self, broker: SimBroker, partition: Partition, start: int) -> None:
        """A replica has deleted what is old: only what is committed (B20), of a topic that may lose it, and that was too old or
        too much (B35). Where the disk refused meanwhile, nobody knows how much of it is gone."""
        tp, config = partition.topic_partition, partition.log.config
        if not self.exists(tp, partition):
            return
        if (
            start > partition.high_watermark
            or not config.delete
            or (config.retention_ms < 0 and config.retention_bytes < 0)
        ):
            self.fail(
                "B20 DeletedByRequest",
                f"broker {broker.id} {tp}: retention takes what is before {start}, HW {partition.high_watermark}, {config}",
            )
        if (
            partition.log.failure is None
            and (why := self.logs.kept_too_short(broker, tp, partition.log, start)) is not None
        ):
            self.fail("B35 RetainedLongEnough", f"broker {broker.id} {tp}: {why}")
        self.records_deleted(tp, start)

    def proposed(self, broker: SimBroker, proposal: IsrProposal) -> None:
        """A leader does not throw out a member that it has not given ``replica.lag.time.max.ms`` to fetch (Fluss #3698)."""
        partition = broker.partitions[proposal.topic_partition]
        leader = partition.leader
        assert leader is not None
        self.isr.proposed(broker, proposal.topic_partition)
        if not self.exists(proposal.topic_partition, partition):
            return  # of a topic that was deleted; it has not heard of that
        members = {m for m, _ in proposal.isr}
        removed = [m for m in leader.isr.committed if m not in members]
        began = self.term_began.setdefault((broker.id, proposal.topic_partition, leader.epoch), self.world.now)
        if removed and self.world.now - began < self.world.lag:
            self.fail(
                "B18 NoHastyShrink",
                f"broker {broker.id} {proposal.topic_partition} drops {removed} "
                f"{self.world.now - began:.2f} s after its term began",
            )

    # -- faults and the end -------------------------------------------------------------------------------------------------

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
            absent = [replica for replica in state.replicas if tp not in self.world.brokers[replica].partitions]
            if absent:
                self.fail("L2 full ISR", f"{tp}: brokers {absent} do not host it after everything was healed")
            leader = self.views[state.leader, tp].identities
            deleted = self.commits.deleted.get(tp, 0)
            for ack in self.clients.acks.get(tp, []):
                if ack.offset >= deleted and self.logs.value_at(state.leader, tp, ack.offset) != ack.value:
                    there = self.logs.value_at(state.leader, tp, ack.offset)
                    self.fail(
                        "A1 lost-write", f"{tp}: {ack.value!r} was acknowledged at {ack.offset}; there is {there!r}"
                    )
            for replica in state.replicas:
                other = self.views[replica, tp].identities
                at = first_difference(leader, other, deleted)
                if at < max(len(leader), len(other)):
                    self.fail(
                        "B8 LogMatching",
                        f"{tp}: brokers {state.leader} and {replica} differ from {at} on (LEO {len(leader)} and {len(other)})",
                    )
                hosted = self.world.brokers[replica]
                self.logs.remembers_right(hosted, tp, hosted.partitions[tp].log, self.views[replica, tp])
                self.logs.finds_right(hosted, tp, hosted.partitions[tp].log)
        for broker in self.world.brokers.values():
            if (stray := self.logs.stray_log(broker)) is not None:
                self.fail("B25 OwnLogsOnly", stray)
        for reader in self.world.consumers:
            self.clients.seen_by(reader.tp, reader)
        self.groups.final()
        if (difference := self.world.store.out_of_line()) is not None:
            self.fail("L6 TopicObjects", f"after everything was healed {difference}")
        for producer in self.world.producers:
            if not producer.idle:
                self.fail("L3 progress", f"{producer.values} of {producer.tp} are still unanswered")


class CheckedCluster(ScheduledCluster):
    """A cluster that the checker watches."""

    checker: Checker
