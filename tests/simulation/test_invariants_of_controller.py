"""The controller's decisions and what is told of them (B): each invariant fires when one thing is made wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from minikafka.controller.workspace import Event
from minikafka.metadata.image import MIN_ISR

from tests.simulation.scene import MakeWrong, Scene, fires


def leader_outside_its_isr(scene: Scene) -> None:
    scene.decided(isr=(scene.follower.id,))


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


def two_leaders_of_one_epoch(scene: Scene) -> None:
    scene.checker.leaders[scene.tp, scene.state.leader_epoch] = scene.follower.id
    scene.view(scene.leader).term = None
    scene.checker.after(scene.leader)


def the_lease_of_another_term_is_taken(scene: Scene) -> None:
    scene.checker.lease_taken(scene.follower.id, held=2, expected=1)


def an_event_that_nobody_wrote(scene: Scene) -> None:
    scene.checker.emitted(scene.leader, Event("leader_elected", scene.tp.topic, scene.tp.partition, {}))


def an_event_told_twice(scene: Scene) -> None:
    event = Event("topic_created", "x", None, {})
    scene.checker.committed([event], scene.leader.image)
    scene.checker.emitted(scene.leader, event)
    scene.checker.emitted(scene.leader, event)


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


WRONG: dict[str, MakeWrong] = {
    "B1 LeaderInIsr": leader_outside_its_isr,
    "B9 ValidControllerState": fenced_member,
    "B10 ValidControllerIsrAndElr": member_and_eligible_at_once,
    "B10 ValidControllerIsrAndElr, no replica": member_that_is_no_replica,
    "B10 ValidControllerIsrAndElr, min ISR altered": eligible_beside_an_isr_that_is_large_enough_now,
    "B13 epochs": two_leaders_of_one_epoch,
    "B13 epochs, of a term": a_leaders_partition_epoch_falls,
    "B39 LeaseAsExpected": the_lease_of_another_term_is_taken,
    "B26 ToldWhenWritten": an_event_that_nobody_wrote,
    "B26 ToldWhenWritten, twice": an_event_told_twice,
    "B27 UnfencedWhenReady": unfenced_before_it_has_looked_at_the_image,
    "B28 OneController": a_term_goes_on_though_another_has_the_lease,
    "B29 IsrGoesFirst": elected_beside_a_live_member,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: MakeWrong) -> None:
    fires(invariant, make_wrong)
