"""No invariant is dead code: for each there is a healthy world in which one thing is made wrong, and it fires."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn
from uuid import UUID

import pytest
from minikafka.controller.workspace import Event
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.groups.records import CommittedOffset
from minikafka.groups.timers import Now
from minikafka.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, format_checkpoint, write_offsets
from minikafka.log.epochs import CHECKPOINT_NAME
from minikafka.log.errors import CorruptBatch
from minikafka.metadata.image import MIN_ISR
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.partition import Partition
from minikafka.replication.replica_host import ReplicaHost
from minikafka_chaos.simulation import (
    checker,
    client_checks,
    disk_checks,
    group_checks,
    isr_checks,
    log_checks,
    term_checks,
    world,
)
from minikafka_chaos.simulation.broker import SimBroker
from minikafka_chaos.simulation.bug_seed import rules_with
from minikafka_chaos.simulation.checker import Violation
from minikafka_chaos.simulation.client_checks import Ack
from minikafka_chaos.simulation.group_checks import Fetched, SentCommit
from minikafka_chaos.simulation.invariants import INVARIANTS
from minikafka_chaos.simulation.leading import Waiting
from minikafka_chaos.simulation.members import GroupMember
from minikafka_chaos.simulation.mirror import GONE, Identity
from minikafka_chaos.simulation.world import EVENT_FAILED, Plan, World, simulate

FAR = 1_000_000
"""An offset or an epoch that no run reaches."""
ALIEN = (FAR, 1, 0)
"""The identity of a record that nobody wrote."""


class Scene:
    """A cluster that has served clients without any fault and has come to rest."""

    def __init__(self) -> None:
        self.world = World(seed=3, plan=Plan(seconds=2.0, strikes_max=0))
        self.world.run()
        self.checker = self.world.checker
        self.tp: TopicPartition = min(tp for tp in self.checker.states if tp.topic != OFFSETS_TOPIC)
        self.state = self.checker.states[self.tp]
        self.leader: SimBroker = self.world.brokers[self.state.leader]
        self.follower: SimBroker = self.world.brokers[next(i for i in self.state.isr if i != self.leader.id)]
        self.partition: Partition = self.leader.partitions[self.tp]
        self.producer = next(p for p in self.world.producers if p.acks == -1 and p.tp == self.tp)

    def view(self, broker: SimBroker) -> Any:
        """What the checker remembers of a broker's replica; whoever asks is about to change it, so it is looked at again."""
        view = self.checker.views[broker.id, self.tp]
        view.looked_at = None
        return view

    def decided(self, fence: int | None = None, **changes: Any) -> None:
        """The controller's next decision about the partition."""
        image = self.leader.image
        topic = image.topics[self.tp.topic]
        partitions = list(topic.partitions)
        partitions[self.tp.partition] = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **changes)
        image.topics[self.tp.topic] = replace(topic, partitions=tuple(partitions))
        if fence is not None:
            image.brokers[fence] = replace(image.brokers[fence], fenced=True)
        self.checker.committed([], image)

    def reads(self, offset: int, value: str, position: int | None = None, identity: Identity | None = None) -> None:
        """A reader is given a record; the one that is committed there, unless ``identity`` says otherwise."""
        self.checker.clients.sent_values.setdefault(value, -1)
        given = identity or self.checker.truth[self.tp][offset]
        self.checker.clients.consumed(self.tp, offset if position is None else position, offset, value, given)

    def committed_is(self, offset: int, identity: Identity) -> None:
        """Another record was committed at an offset than the brokers have."""
        truth = self.checker.truth[self.tp]
        truth[offset : offset + 1] = [identity]
        for view in self.checker.views.values():
            view.disagree_from(offset)
            view.looked_at = None

    @property
    def end(self) -> int:
        return len(self.checker.truth[self.tp])

    def look(self, broker: SimBroker) -> None:
        """Compare all that a broker remembers of its log with the log, as after a restart."""
        self.checker.started(broker)


def acknowledged_but_not_there(scene: Scene) -> None:
    scene.checker.clients.acks[scene.tp].append(Ack(0, "another"))
    scene.checker.final()


def read_at_two_offsets(scene: Scene) -> None:
    scene.checker.clients.seen.clear()
    scene.reads(0, "x")
    scene.reads(1, "x")


def two_values_at_one_offset(scene: Scene) -> None:
    scene.reads(0, "another")


def read_though_never_sent(scene: Scene) -> None:
    scene.checker.clients.consumed(scene.tp, 0, 0, "x", scene.checker.truth[scene.tp][0])


def acknowledged_and_never_read(scene: Scene) -> None:
    scene.checker.clients.seen.clear()
    scene.checker.final()


def reader_jumps(scene: Scene) -> None:
    scene.reads(1, "x", position=0)


def read_beyond_the_true_high_watermark(scene: Scene) -> None:
    scene.reads(scene.end, "x", identity=ALIEN)


def read_another_record_than_the_committed(scene: Scene) -> None:
    scene.reads(0, "x", identity=ALIEN)


def reader_is_sent_back(scene: Scene) -> None:
    scene.checker.clients.parted(scene.tp, scene.end, 0, scene.end - 1)


def reader_is_given_what_it_has(scene: Scene) -> None:
    scene.checker.clients.given(scene.tp, 5, 4)


def reader_is_sent_over_what_nobody_deleted(scene: Scene) -> None:
    scene.checker.clients.out_of_range(scene.tp, 0, 1)


def reader_is_out_of_range_though_it_read_what_is_committed(scene: Scene) -> None:
    scene.checker.clients.out_of_range(scene.tp, scene.end, 0)


def acknowledged_and_passed_over_beyond_the_deletions(scene: Scene) -> None:
    """Records were deleted, but the one that nobody read is a later one."""
    ack = scene.checker.clients.acks[scene.tp][-1]
    scene.checker.records_deleted(scene.tp, ack.offset)
    scene.checker.clients.out_of_range(scene.tp, 0, ack.offset)
    del scene.checker.clients.seen[scene.tp, ack.offset]
    scene.checker.final()


def acknowledged_at_a_lower_offset(scene: Scene) -> None:
    scene.checker.clients.acknowledged(scene.producer, 0)


def reader_lags_in_the_end(scene: Scene) -> None:
    next(c for c in scene.world.consumers if c.tp == scene.tp).position = 0
    scene.checker.final()


def silence_with_a_minority_down(scene: Scene) -> None:
    assert scene.world.nemesis is not None
    scene.world.nemesis.minority = True
    scene.checker.clients.ack_times[scene.tp] = scene.world.now - 60
    scene.checker.clients.last_ack.clear()
    scene.checker.clients.acknowledged(scene.producer, 0)


def end_goes_back(scene: Scene) -> None:
    scene.checker.clients.end_offset(scene.tp, scene.world.now + 1, 0, 0)


def acknowledged_above_the_true_high_watermark(scene: Scene) -> None:
    scene.checker.clients.acknowledged(scene.producer, FAR)


def leader_outside_its_isr(scene: Scene) -> None:
    scene.decided(isr=(scene.follower.id,))


def another_record_is_committed(scene: Scene) -> None:
    scene.committed_is(0, ALIEN)
    scene.checker.after(scene.leader)


def follower_takes_what_is_not_committed_for_committed(scene: Scene) -> None:
    del scene.checker.truth[scene.tp][-1]
    scene.committed_is(scene.end - 1, scene.checker.truth[scene.tp][-1])
    scene.follower.partitions[scene.tp].high_watermark = scene.end + 1
    scene.checker.after(scene.follower)


def a_log_start_hides_a_committed_record(scene: Scene) -> None:
    """The leader's log begins later than anybody asked for: that is no deletion."""
    scene.partition.log.increment_log_start_offset(1)
    scene.checker.after(scene.leader)


def a_log_start_hides_it_at_the_start(scene: Scene) -> None:
    scene.partition.log.increment_log_start_offset(1)
    scene.look(scene.leader)


def everything_is_lost_at_once(scene: Scene) -> None:
    scene.committed_is(scene.end, ALIEN)
    scene.checker.lost_power(scene.follower)


def everything_is_lost_though_some_was_deleted(scene: Scene) -> None:
    scene.checker.records_deleted(scene.tp, 2)
    scene.committed_is(2, ALIEN)
    scene.checker.lost_power(scene.follower)


def committed_beside_the_controllers_view(scene: Scene) -> None:
    assert scene.partition.leader is not None
    scene.partition.leader.isr.committed = (
        scene.leader.id,
    )  # of the others the controller knows, and they still count
    committed_on_the_leader_alone(scene)


def committed_on_the_leader_alone(scene: Scene) -> None:
    assert scene.partition.leader is not None
    batch = build_batch([Record(0, scene.world.now_ms, None, b"x")])
    scene.partition.leader.append(memoryview(bytearray(batch)), scene.world.now_ms, scene.world.now)
    scene.partition.high_watermark = scene.partition.log.log_end_offset
    scene.checker.after(scene.leader)


def new_leader_lacks_a_record(scene: Scene) -> None:
    scene.committed_is(scene.end, ALIEN)
    scene.view(scene.leader).term = None
    scene.checker.after(scene.leader)


def member_lacks_a_record(scene: Scene) -> None:
    scene.committed_is(scene.end, ALIEN)
    scene.checker.leader_candidates(scene.tp)


def member_has_another_record_at_the_same_length(scene: Scene) -> None:
    scene.committed_is(scene.end - 1, ALIEN)
    scene.checker.leader_candidates(scene.tp)


def leader_counts_without_a_member(scene: Scene) -> None:
    assert scene.partition.leader is not None
    scene.partition.leader.isr.maximal = frozenset({scene.leader.id})
    scene.checker.after(scene.leader)


def replicas_differ(scene: Scene) -> None:
    scene.view(scene.follower).identities[0] = ALIEN
    scene.checker.final()


def a_record_is_gone_though_nobody_deleted_it(scene: Scene) -> None:
    scene.checker.records_deleted(scene.tp, 1)
    scene.view(scene.follower).identities[1] = GONE
    scene.checker.final()


def two_records_of_one_epoch_at_one_offset(scene: Scene) -> None:
    epoch = scene.view(scene.follower).identities[0][0]
    scene.checker.logs.written[scene.tp][0, epoch] = ALIEN
    scene.look(scene.follower)


def fenced_member(scene: Scene) -> None:
    scene.decided(fence=scene.follower.id)


def member_and_eligible_at_once(scene: Scene) -> None:
    scene.decided(elr=(scene.follower.id,))


def member_that_is_no_replica(scene: Scene) -> None:
    scene.decided(replicas=tuple(scene.state.isr[:-1]))


def eligible_beside_an_isr_that_is_large_enough_now(scene: Scene) -> None:
    """What is large enough is for the cluster to say, and it may say another thing than when the run began."""
    broker_configs = scene.leader.image.broker_configs
    *isr, out = scene.state.isr
    broker_configs[""] = {**broker_configs[""], MIN_ISR: "3"}
    scene.state = replace(scene.state, isr=tuple(isr), elr=(out,))
    scene.decided()  # two of three are in sync where three are asked for: the third may be eligible beside them
    broker_configs[""] = {**broker_configs[""], MIN_ISR: "2"}
    scene.state = replace(scene.state, partition_epoch=scene.state.partition_epoch + 1)
    scene.decided()


def answer_of_a_zombie_is_taken(scene: Scene) -> None:
    follower = scene.follower.partitions[scene.tp]
    scene.checker.fetched(scene.follower, follower, scene.leader.id, scene.state.leader_epoch - 1)


def answer_of_a_usurper_is_taken(scene: Scene) -> None:
    follower = scene.follower.partitions[scene.tp]
    usurper = next(i for i in scene.world.brokers if i not in (scene.leader.id, scene.follower.id))
    scene.checker.fetched(scene.follower, follower, usurper, scene.state.leader_epoch)


def epoch_noted_too_late(scene: Scene) -> None:
    epochs = scene.partition.log.epochs
    epochs._starts[-1] += 1
    scene.look(scene.leader)


def epoch_left_over_after_truncation(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.assign_epoch(log.epochs.latest + 1, log.log_end_offset)
    scene.look(scene.follower)


def epoch_not_noted_by_a_follower(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.epochs._starts[-1] = scene.end
    batch = build_batch([Record(0, scene.world.now_ms, None, b"x")])
    info = log.append_as_leader(memoryview(bytearray(batch)), log.epochs.latest, scene.world.now_ms)
    log.epochs._starts[-1] = info.last_offset + 1
    scene.checker.after(scene.follower)


def producer_forgotten(scene: Scene) -> None:
    scene.follower.partitions[scene.tp].log.producers.clear()
    scene.look(scene.follower)


def producer_forgotten_while_records_come(scene: Scene) -> None:
    batch = build_batch([Record(0, scene.world.now_ms, None, b"x")], producer_id=99, producer_epoch=0, base_sequence=0)
    log = scene.partition.log
    log.append_as_leader(memoryview(bytearray(batch)), log.epochs.latest, scene.world.now_ms)
    log.producers.clear()
    scene.checker.after(scene.leader)


def producer_remembered_of_records_that_were_cut_off(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.producers.update(99, 0, 0, 0, scene.end, scene.end, 0, False)
    scene.look(scene.follower)


def committed_and_not_answered(scene: Scene) -> None:
    waiting = Waiting(scene.world.now + 60, scene.partition, scene.end)
    scene.leader.leading._waiting.append(waiting)
    scene.checker.after(scene.leader)


def not_answered_in_time(scene: Scene) -> None:
    scene.leader.leading._waiting.append(Waiting(scene.world.now - 1))
    scene.checker.after(scene.leader)


def waits_at_a_leader_that_is_none_any_more(scene: Scene) -> None:
    scene.partition.resign()
    scene.leader.leading._waiting.append(Waiting(scene.world.now + 60, scene.partition, FAR))
    scene.checker.after(scene.leader)


def index_entry_points_into_a_batch(scene: Scene) -> None:
    segment = next(s for s in scene.partition.log.segments if len(s.index))
    relative, position = segment.index.entry(len(segment.index) - 1)
    segment.index.truncate_entries(len(segment.index) - 1)
    segment.index._put(relative, position + 1)
    scene.look(scene.leader)


def time_index_names_a_later_batch(scene: Scene) -> None:
    segment = next(s for s in scene.partition.log.segments if len(s.time_index))
    timestamp, relative = segment.time_index.entry(len(segment.time_index) - 1)
    segment.time_index.truncate_entries(len(segment.time_index) - 1)
    segment.time_index._put(timestamp, relative + 1)
    scene.look(scene.leader)


def two_leaders_of_one_epoch(scene: Scene) -> None:
    scene.checker.leaders[scene.tp, scene.state.leader_epoch] = scene.follower.id
    scene.view(scene.leader).term = None
    scene.checker.after(scene.leader)


def high_watermark_beyond_the_end(scene: Scene) -> None:
    scene.partition.high_watermark = scene.partition.log.log_end_offset + 1
    scene.checker.after(scene.leader)


def log_end_without_records(scene: Scene) -> None:
    scene.partition.log.log_end_offset += 1
    scene.checker.started(scene.leader)


def sequence_refused(scene: Scene) -> None:
    scene.checker.clients.begins_anew(scene.producer, "OUT_OF_ORDER_SEQUENCE_NUMBER")


def high_watermark_not_restored(scene: Scene) -> None:
    scene.checker.marks[scene.leader.id, scene.tp] = scene.partition.high_watermark
    scene.partition.high_watermark = 0
    scene.checker.hosted(scene.leader, scene.partition)


def log_of_a_topic_that_is_gone(scene: Scene) -> None:
    assert scene.leader.logs is not None
    gone = TopicPartition("gone", 0)
    scene.leader.logs.logs[gone] = scene.partition.log
    scene.checker.final()


def log_of_the_topic_before(scene: Scene) -> None:
    assert scene.leader.logs is not None
    scene.leader.logs.topic_ids[scene.tp] = UUID(int=1)
    scene.checker.final()


def log_of_a_partition_that_others_have(scene: Scene) -> None:
    others = tuple(replica for replica in scene.state.replicas if replica != scene.follower.id)
    scene.checker.states[scene.tp] = replace(scene.state, replicas=others, isr=others)
    scene.checker.final()


def an_event_that_nobody_wrote(scene: Scene) -> None:
    scene.checker.told(scene.leader, Event("leader_elected", scene.tp.topic, scene.tp.partition, {}))


def an_event_told_twice(scene: Scene) -> None:
    event = Event("topic_created", "x", None, {})
    scene.checker.committed([event], scene.leader.image)
    scene.checker.told(scene.leader, event)
    scene.checker.told(scene.leader, event)


def unfenced_before_it_has_looked_at_the_image(scene: Scene) -> None:
    fields = {"target": scene.follower.id, "broker_epoch": scene.follower.broker_epoch + 1}
    scene.checker.committed([Event("broker_unfenced", None, None, fields)], scene.leader.image)


def a_term_goes_on_though_another_has_the_lease(scene: Scene) -> None:
    controller = next(broker for broker in scene.world.brokers.values() if broker.role is not None)
    store = scene.world.store
    assert store.held is not None
    store.held = replace(store.held, holder=scene.follower.id, epoch=store.held.epoch + 1)
    scene.checker.after(controller)
    scene.world.scheduler.now += 60
    scene.checker.terms.after(controller)


def a_leaders_partition_epoch_falls(scene: Scene) -> None:
    scene.checker.after(scene.leader)
    leader = scene.partition.leader
    assert leader is not None
    leader.partition_epoch -= 1
    scene.view(scene.leader)
    scene.checker.after(scene.leader)


def elected_beside_a_live_member(scene: Scene) -> None:
    scene.checker.states[scene.tp] = replace(scene.state, isr=(scene.leader.id,))
    other = scene.follower.id
    scene.decided(leader=other, isr=(other,), leader_epoch=scene.state.leader_epoch + 1)


def flushed_records_are_gone(scene: Scene) -> None:
    scene.follower.partitions[scene.tp].log.flushed_offset = FAR
    scene.checker.lost_power(scene.follower)
    scene.look(scene.follower)


def epoch_checkpoint_lags_behind_the_flush(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.flush()
    scene.follower.disk.write_atomic(f"{log.directory}/{CHECKPOINT_NAME}", format_checkpoint([]))
    scene.checker.lost_power(scene.follower)


def epoch_checkpoint_damaged_though_flushed(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.flush()
    scene.follower.disk.write_atomic(f"{log.directory}/{CHECKPOINT_NAME}", b"")
    scene.checker.lost_power(scene.follower)


def recovery_point_beyond_the_flush(scene: Scene) -> None:
    write_offsets(scene.follower.disk, f"{scene.world.data_dir}/{RECOVERY_POINTS}", {scene.tp: FAR})
    scene.checker.lost_power(scene.follower)


def clean_marker_is_back(scene: Scene) -> None:
    scene.follower.disk.write_atomic(f"{scene.world.data_dir}/{CLEAN_SHUTDOWN}", b"{}")
    scene.checker.lost_power(scene.follower)


def a_follower_that_is_behind_stays_in_sync(scene: Scene) -> None:
    scene.world.scheduler.now += 1
    scene.checker.isr.after(scene.leader)
    scene.follower.partitions[scene.tp].log.truncate_to(0)
    scene.world.scheduler.now += 60
    scene.checker.isr.after(scene.leader)


def a_follower_that_keeps_up_stays_out(scene: Scene) -> None:
    leader = scene.partition.leader
    assert leader is not None
    del scene.partition.log.segments[:-1]  # one read gives all there is
    leader.isr.commit((scene.leader.id,))
    scene.world.served_whole.add(scene.follower.id)
    for _ in range(6):
        scene.checker.isr.fetched(scene.follower, scene.follower.partitions[scene.tp], scene.leader.id)
        scene.world.scheduler.now += 0.5


def hasty_shrink(scene: Scene) -> None:
    scene.world.term_began[scene.leader.id, scene.tp, scene.state.leader_epoch] = scene.world.now
    alone = ((scene.leader.id, -1),)
    scene.checker.proposed(scene.leader, IsrProposal(scene.tp, b"", scene.state.leader_epoch, 0, alone, 0))


def no_leader_in_the_end(scene: Scene) -> None:
    scene.checker.states[scene.tp] = replace(scene.state, leader=-1)
    scene.checker.final()


def not_in_sync_in_the_end(scene: Scene) -> None:
    scene.checker.states[scene.tp] = replace(scene.state, isr=(scene.leader.id,))
    scene.checker.final()


def not_hosted_in_the_end(scene: Scene) -> None:
    scene.follower.leading.replicas.remove(scene.follower.partitions[scene.tp])
    scene.checker.final()


def unanswered_in_the_end(scene: Scene) -> None:
    scene.producer.batch = b"x"
    scene.checker.final()


def a_topic_that_is_not_shown_in_the_end(scene: Scene) -> None:
    """What is out of line is looked for in `test_kubernetes_store.py`."""
    scene.world.store.out_of_line = lambda: "one is missing"  # type: ignore[method-assign]
    scene.checker.final()


def _commits(scene: Scene, times: int) -> tuple[GroupMember, TopicPartition, list[SentCommit]]:
    """Commits of a member, one after the other, each known to be written; the last is not answered yet."""
    groups = scene.checker.groups
    member = groups.members[0]
    tp, made = member.assigned[0], []
    for _ in range(times):
        scene.world.scheduler.now += 1.0
        made.append(groups.sent(member, tp))
        scene.world.scheduler.now += 1.0
        made[-1].is_written(scene.world.now)
    scene.world.scheduler.now += 1.0
    return member, tp, [*made, groups.sent(member, tp)]


def a_member_begins_before_the_last_commit(scene: Scene) -> None:
    member, tp, (first, _, last) = _commits(scene, 2)
    scene.checker.groups.acknowledged(member, tp, last, Fetched(first.offset, scene.world.now, scene.world.now))


def a_member_begins_at_nothing(scene: Scene) -> None:
    member, tp, (*_, last) = _commits(scene, 1)
    scene.checker.groups.acknowledged(member, tp, last, Fetched(None, scene.world.now, scene.world.now))


def a_member_began_where_nobody_wrote(scene: Scene) -> None:
    member, tp, (_, last) = _commits(scene, 1)
    now = scene.world.now
    scene.checker.groups.acknowledged(member, tp, last, Fetched(last.offset - 1, now - 2, now))
    scene.checker.final()


def two_owners(scene: Scene) -> None:
    member = next(member for member in scene.checker.groups.members if member.assigned)
    member.member_id = "another"
    scene.checker.groups.assigned(member)


def a_commit_of_the_past(scene: Scene) -> None:
    member, tp, (last,) = _commits(scene, 0)
    last.generation -= 1
    scene.checker.groups.acknowledged(member, tp, last, None)


def _coordinator(scene: Scene) -> tuple[GroupCoordinator, GroupMember]:
    member = scene.checker.groups.members[0]
    return scene.world.brokers[scene.checker.states[member.tp].leader].groups.coordinator, member


def a_coordinator_that_remembers_too_much(scene: Scene) -> None:
    coordinator, member = _coordinator(scene)
    coordinator._groups[member.group].offsets.restore(member.assigned[0], CommittedOffset(FAR))
    scene.checker.groups.look()


def a_coordinator_that_forgot_a_share(scene: Scene) -> None:
    coordinator, member = _coordinator(scene)
    coordinator._groups[member.group].members[member.member_id].assignment = b""
    scene.checker.final()


def a_member_without_a_share_in_the_end(scene: Scene) -> None:
    scene.checker.groups.members[0].stable = False
    scene.checker.final()


def members_of_two_generations_in_the_end(scene: Scene) -> None:
    member = scene.checker.groups.members[0]
    member.generation = member.committed_in = FAR
    scene.checker.final()


def nobody_coordinates_in_the_end(scene: Scene) -> None:
    coordinator, member = _coordinator(scene)
    coordinator.unload(member.tp.partition, Now(scene.world.now, scene.world.now_ms))
    scene.checker.final()


def a_partition_that_nobody_has_in_the_end(scene: Scene) -> None:
    for member in scene.checker.groups.members:
        member.assigned = ()
    scene.checker.final()


def endless_events(scene: Scene) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "EVENTS_MAX", scene.world.scheduler.events)
        scene.world._until(lambda: False)


def committed_before_its_flush(scene: Scene) -> None:
    log = scene.partition.log
    log.configure(replace(log.config, flush_interval_messages=1))
    log.flushed_offset = scene.partition.high_watermark - 1
    scene.view(scene.leader).hw -= 1
    scene.checker.after(scene.leader)


WRONG: dict[str, Callable[[Scene], None]] = {
    "A1 lost-write": acknowledged_but_not_there,
    "A1 lost-write, deleted by nobody": reader_is_sent_over_what_nobody_deleted,
    "A1 lost-write, beyond the end": reader_is_out_of_range_though_it_read_what_is_committed,
    "A2 unseen": acknowledged_and_never_read,
    "A2 unseen, behind a deletion": acknowledged_and_passed_over_beyond_the_deletions,
    "A3 duplicate": read_at_two_offsets,
    "A4 inconsistent-offsets": two_values_at_one_offset,
    "A5 aborted read": read_though_never_sent,
    "A7 poll-skip": reader_jumps,
    "A8 nonmonotonic-poll": reader_is_sent_back,
    "A8 nonmonotonic-poll, given twice": reader_is_given_what_it_has,
    "A9 nonmonotonic-send": acknowledged_at_a_lower_offset,
    "A11 realtime lag": reader_lags_in_the_end,
    "A14 end offset monotone": end_goes_back,
    "A15 ack-offset": acknowledged_above_the_true_high_watermark,
    "A16 progress": silence_with_a_minority_down,
    "A18 uncommitted read": read_beyond_the_true_high_watermark,
    "A18 uncommitted read, another record": read_another_record_than_the_committed,
    "B1 LeaderInIsr": leader_outside_its_isr,
    "B2 WeakIsr": committed_on_the_leader_alone,
    "B3 StrongIsr": another_record_is_committed,
    "B3 StrongIsr, by a follower": follower_takes_what_is_not_committed_for_committed,
    "B4 ValidHighWatermark": committed_beside_the_controllers_view,
    "B5 LeaderCompleteness": new_leader_lacks_a_record,
    "B6 LeaderCandidateCompleteness": member_lacks_a_record,
    "B6 LeaderCandidateCompleteness, of equal length": member_has_another_record_at_the_same_length,
    "B7 ReplicationQuorumSuperset": leader_counts_without_a_member,
    "B8 LogMatching": replicas_differ,
    "B8 LogMatching, gone and not deleted": a_record_is_gone_though_nobody_deleted_it,
    "B8 LogMatching, within an epoch": two_records_of_one_epoch_at_one_offset,
    "B9 ValidControllerState": fenced_member,
    "B10 ValidControllerIsrAndElr": member_and_eligible_at_once,
    "B10 ValidControllerIsrAndElr, no replica": member_that_is_no_replica,
    "B10 ValidControllerIsrAndElr, min ISR altered": eligible_beside_an_isr_that_is_large_enough_now,
    "B11 NoCommittedRecordLostGlobally": everything_is_lost_at_once,
    "B11 NoCommittedRecordLostGlobally, after a deletion": everything_is_lost_though_some_was_deleted,
    "B12 ValidFetcherState": answer_of_a_zombie_is_taken,
    "B12 ValidFetcherState, another leader": answer_of_a_usurper_is_taken,
    "B13 epochs": two_leaders_of_one_epoch,
    "B13 epochs, of a term": a_leaders_partition_epoch_falls,
    "B14 offsets": high_watermark_beyond_the_end,
    "B15 recovery": log_end_without_records,
    "B16 producer state": sequence_refused,
    "B17 restored high watermark": high_watermark_not_restored,
    "B18 NoHastyShrink": hasty_shrink,
    "B19 FlushedBeforeCommitted": committed_before_its_flush,
    "B20 DeletedByRequest": a_log_start_hides_a_committed_record,
    "B20 DeletedByRequest, at the start": a_log_start_hides_it_at_the_start,
    "B21 EpochCache": epoch_noted_too_late,
    "B21 EpochCache, left over": epoch_left_over_after_truncation,
    "B21 EpochCache, not noted": epoch_not_noted_by_a_follower,
    "B22 ProducerState": producer_forgotten,
    "B22 ProducerState, while records come": producer_forgotten_while_records_come,
    "B22 ProducerState, of no record": producer_remembered_of_records_that_were_cut_off,
    "B23 Indexes": index_entry_points_into_a_batch,
    "B23 Indexes, of time": time_index_names_a_later_batch,
    "B25 OwnLogsOnly": log_of_a_topic_that_is_gone,
    "B25 OwnLogsOnly, made anew": log_of_the_topic_before,
    "B25 OwnLogsOnly, reassigned": log_of_a_partition_that_others_have,
    "B24 Purgatory": committed_and_not_answered,
    "B24 Purgatory, in time": not_answered_in_time,
    "B24 Purgatory, of a term that is over": waits_at_a_leader_that_is_none_any_more,
    "B26 ToldWhenWritten": an_event_that_nobody_wrote,
    "B26 ToldWhenWritten, twice": an_event_told_twice,
    "B27 UnfencedWhenReady": unfenced_before_it_has_looked_at_the_image,
    "B28 OneController": a_term_goes_on_though_another_has_the_lease,
    "B29 IsrGoesFirst": elected_beside_a_live_member,
    "B30 FlushedIsKept": flushed_records_are_gone,
    "B30 FlushedIsKept, epochs": epoch_checkpoint_lags_behind_the_flush,
    "B30 FlushedIsKept, epochs, damaged": epoch_checkpoint_damaged_though_flushed,
    "B30 FlushedIsKept, recovery point": recovery_point_beyond_the_flush,
    "B31 LaggardsLeave": a_follower_that_is_behind_stays_in_sync,
    "B32 WhoKeepsUpJoins": a_follower_that_keeps_up_stays_out,
    "B33 CleanOnce": clean_marker_is_back,
    "G1 CommittedOffsets": a_member_begins_before_the_last_commit,
    "G1 CommittedOffsets, none": a_member_begins_at_nothing,
    "G1 CommittedOffsets, not written": a_member_began_where_nobody_wrote,
    "G2 OneOwner": two_owners,
    "G3 FencedGeneration": a_commit_of_the_past,
    "G4 MemoryIsLog": a_coordinator_that_remembers_too_much,
    "G4 MemoryIsLog, share": a_coordinator_that_forgot_a_share,
    "L6 TopicObjects": a_topic_that_is_not_shown_in_the_end,
    "L5 groups": a_member_without_a_share_in_the_end,
    "L5 groups, generations": members_of_two_generations_in_the_end,
    "L5 groups, coordinator": nobody_coordinates_in_the_end,
    "L5 groups, partitions": a_partition_that_nobody_has_in_the_end,
    "L1 leader": no_leader_in_the_end,
    "L2 full ISR": not_in_sync_in_the_end,
    "L2 full ISR, not hosted": not_hosted_in_the_end,
    "L3 progress": unanswered_in_the_end,
    "L4 bounded": endless_events,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: Callable[[Scene], None]) -> None:
    scene = Scene()
    with pytest.raises(Violation) as found:
        make_wrong(scene)
    assert found.value.invariant == invariant.split(",", maxsplit=1)[0]


def test_what_was_deleted_by_request_is_no_loss() -> None:
    """The same as :func:`a_log_start_hides_a_committed_record`, asked for by somebody."""
    scene = Scene()
    scene.checker.records_deleted(scene.tp, 2)
    for replica in scene.state.replicas:
        hosted = scene.world.brokers[replica]
        hosted.partitions[scene.tp].log.increment_log_start_offset(2)
        scene.checker.after(hosted)
        scene.look(hosted)
    scene.checker.lost_power(scene.follower)
    scene.checker.final()


def test_a_topic_of_the_same_name_is_another_one() -> None:
    """What was known of a deleted topic accuses nobody; a replica of it that a broker still has is not looked at."""
    scene = Scene()
    image = scene.leader.image
    topic = image.topics[scene.tp.topic]
    image.put_topic(replace(topic, topic_id=UUID(int=1)))
    scene.checker.committed([], image)
    assert scene.tp not in scene.checker.truth and scene.tp in scene.checker.states
    scene.partition.high_watermark = FAR
    scene.checker.after(scene.leader)
    del image.topics[topic.name]
    scene.checker.committed([], image)
    assert not [tp for tp in scene.checker.states if tp.topic == topic.name]


def test_an_error_of_the_log_is_a_violation() -> None:
    """A disk that takes everything gives no reason for one; it used to be noted in the trace and forgotten (audit)."""

    class Refuses(ReplicaHost):
        def high_watermarks(self) -> NoReturn:
            raise CorruptBatch(f"broker {self.broker_id}")

    assert simulate(1, rules_with(host=Refuses)()).invariant == EVENT_FAILED


def test_the_reader_names_the_epoch_of_its_last_record() -> None:
    """KIP-320: a reader that never did could not be told that what it has read is gone (audit)."""
    scene = Scene()
    reader = next(c for c in scene.world.consumers if c.tp == scene.tp)
    assert reader.position == scene.end
    assert reader.last_epoch == scene.checker.truth[scene.tp][-1][0] >= 0


def test_an_unexpected_exception_is_a_violation() -> None:
    class Broken(ReplicaHost):
        def high_watermarks(self) -> NoReturn:
            raise KeyError(self.broker_id)

    result = simulate(1, rules_with(host=Broken)())
    assert result.invariant == EVENT_FAILED
    assert "KeyError" in (result.violation or "") and "VIOLATION" in result.trace[-1]


def test_every_declared_invariant_is_exercised_here() -> None:
    from tests.simulation.test_invariants_attacked import WRONG as MORE

    assert {name.split(",")[0] for name in (*WRONG, *MORE)} | {EVENT_FAILED} == set(INVARIANTS)


def test_every_reported_invariant_is_declared() -> None:
    reported = {
        call.args[0].value
        for module in (checker, client_checks, disk_checks, group_checks, isr_checks, log_checks, term_checks, world)
        for call in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "fail"
        and isinstance(call.args[0], ast.Constant)
    }
    assert reported | {EVENT_FAILED} == set(INVARIANTS)
