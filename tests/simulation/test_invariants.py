"""No invariant is dead code: for each there is a healthy world in which one thing is made wrong, and it fires."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.partition import Partition
from minikafka_chaos.simulation import checker, client_checks, world
from minikafka_chaos.simulation.broker import SimBroker
from minikafka_chaos.simulation.checker import Violation
from minikafka_chaos.simulation.client_checks import Ack
from minikafka_chaos.simulation.invariants import INVARIANTS
from minikafka_chaos.simulation.rules import Rules
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
        self.tp: TopicPartition = min(self.checker.states)
        self.state = self.checker.states[self.tp]
        self.leader: SimBroker = self.world.brokers[self.state.leader]
        self.follower: SimBroker = self.world.brokers[next(i for i in self.state.isr if i != self.leader.id)]
        self.partition: Partition = self.leader.partitions[self.tp]
        self.producer = next(p for p in self.world.producers if p.acks == -1 and p.tp == self.tp)

    def view(self, broker: SimBroker) -> Any:
        return self.checker.views[broker.id, self.tp]

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

    def never_sent_by_clients(self, *values: str) -> None:
        for value in values:
            self.checker.clients.sent_values[value] = -1


def acknowledged_but_not_there(scene: Scene) -> None:
    scene.checker.clients.acks[scene.tp].append(Ack(0, "another"))
    scene.checker.final()


def read_at_two_offsets(scene: Scene) -> None:
    scene.never_sent_by_clients("x")
    scene.checker.clients.consumed(scene.tp, FAR, FAR, "x")
    scene.checker.clients.consumed(scene.tp, FAR + 1, FAR + 1, "x")


def two_values_at_one_offset(scene: Scene) -> None:
    scene.never_sent_by_clients("x", "y")
    scene.checker.clients.consumed(scene.tp, FAR, FAR, "x")
    scene.checker.clients.consumed(scene.tp, FAR, FAR, "y")


def read_though_never_sent(scene: Scene) -> None:
    scene.checker.clients.consumed(scene.tp, FAR, FAR, "x")


def acknowledged_and_never_read(scene: Scene) -> None:
    scene.checker.clients.seen.clear()
    scene.checker.final()


def reader_jumps(scene: Scene) -> None:
    scene.checker.clients.consumed(scene.tp, FAR, FAR + 1, "x")


def reader_read_what_was_not_committed(scene: Scene) -> None:
    scene.checker.clients.out_of_range(scene.tp, FAR, 0)


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
    scene.checker.truth[scene.tp][0] = ALIEN
    scene.checker.high_watermark(scene.leader, scene.partition)


def everything_is_lost_at_once(scene: Scene) -> None:
    scene.checker.truth[scene.tp].append(ALIEN)
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
    scene.checker.high_watermark(scene.leader, scene.partition)


def new_leader_lacks_a_record(scene: Scene) -> None:
    scene.checker.truth[scene.tp].append(ALIEN)
    scene.view(scene.leader).term = None
    scene.checker.after(scene.leader)


def member_lacks_a_record(scene: Scene) -> None:
    scene.checker.truth[scene.tp].append(ALIEN)
    scene.checker.after(scene.follower)


def leader_counts_without_a_member(scene: Scene) -> None:
    assert scene.partition.leader is not None
    scene.partition.leader.isr.maximal = frozenset({scene.leader.id})
    scene.checker.after(scene.leader)


def replicas_differ(scene: Scene) -> None:
    scene.view(scene.follower).identities[0] = ALIEN
    scene.checker.final()


def fenced_member(scene: Scene) -> None:
    scene.decided(fence=scene.follower.id)


def member_and_eligible_at_once(scene: Scene) -> None:
    scene.decided(elr=(scene.follower.id,))


def fetch_of_another_epoch_is_served(scene: Scene) -> None:
    scene.checker.served(scene.leader, scene.partition, scene.state.leader_epoch - 1)


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


def unanswered_in_the_end(scene: Scene) -> None:
    scene.producer.batch = b"x"
    scene.checker.final()


def endless_events(scene: Scene) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "EVENTS_MAX", scene.world.scheduler.events)
        scene.world._until(lambda: False)


def committed_before_its_flush(scene: Scene) -> None:
    log = scene.partition.log
    log.configure(replace(log.config, flush_interval_messages=1))
    log.flushed_offset = scene.partition.high_watermark - 1
    scene.checker.high_watermark(scene.leader, scene.partition)


WRONG: dict[str, Callable[[Scene], None]] = {
    "A1 lost-write": acknowledged_but_not_there,
    "A2 unseen": acknowledged_and_never_read,
    "A3 duplicate": read_at_two_offsets,
    "A4 inconsistent-offsets": two_values_at_one_offset,
    "A5 aborted read": read_though_never_sent,
    "A7 poll-skip": reader_jumps,
    "A8 nonmonotonic-poll": reader_read_what_was_not_committed,
    "A9 nonmonotonic-send": acknowledged_at_a_lower_offset,
    "A11 realtime lag": reader_lags_in_the_end,
    "A14 end offset monotone": end_goes_back,
    "A15 ack-offset": acknowledged_above_the_true_high_watermark,
    "A16 progress": silence_with_a_minority_down,
    "B1 LeaderInIsr": leader_outside_its_isr,
    "B2 WeakIsr": committed_on_the_leader_alone,
    "B3 StrongIsr": another_record_is_committed,
    "B4 ValidHighWatermark": committed_beside_the_controllers_view,
    "B5 LeaderCompleteness": new_leader_lacks_a_record,
    "B6 LeaderCandidateCompleteness": member_lacks_a_record,
    "B7 ReplicationQuorumSuperset": leader_counts_without_a_member,
    "B8 LogMatching": replicas_differ,
    "B9 ValidControllerState": fenced_member,
    "B10 ValidControllerIsrAndElr": member_and_eligible_at_once,
    "B11 NoCommittedRecordLostGlobally": everything_is_lost_at_once,
    "B12 ValidFetcherState": fetch_of_another_epoch_is_served,
    "B13 epochs": two_leaders_of_one_epoch,
    "B14 offsets": high_watermark_beyond_the_end,
    "B15 recovery": log_end_without_records,
    "B16 producer state": sequence_refused,
    "B17 restored high watermark": high_watermark_not_restored,
    "B18 NoHastyShrink": hasty_shrink,
    "B19 FlushedBeforeCommitted": committed_before_its_flush,
    "L1 leader": no_leader_in_the_end,
    "L2 full ISR": not_in_sync_in_the_end,
    "L3 progress": unanswered_in_the_end,
    "L4 bounded": endless_events,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[name.split()[0] for name in WRONG])
def test_the_invariant_fires(invariant: str, make_wrong: Callable[[Scene], None]) -> None:
    with pytest.raises(Violation) as found:
        make_wrong(Scene())
    assert found.value.invariant == invariant


def test_an_unexpected_exception_is_a_violation() -> None:
    class Broken(Rules):
        def checkpointed(self, broker: SimBroker) -> NoReturn:
            raise KeyError(broker.id)

    result = simulate(1, Broken())
    assert result.invariant == EVENT_FAILED
    assert "KeyError" in (result.violation or "") and "VIOLATION" in result.trace[-1]


def test_every_declared_invariant_is_exercised_here() -> None:
    assert set(WRONG) | {EVENT_FAILED} == set(INVARIANTS)


def test_every_reported_invariant_is_declared() -> None:
    reported = {
        call.args[0].value
        for module in (checker, client_checks, world)
        for call in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "fail"
        and isinstance(call.args[0], ast.Constant)
    }
    assert reported | {EVENT_FAILED} == set(INVARIANTS)
