"""Brokers that die in every way the platform has: clients go on, nothing acknowledged is lost, and all heals."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import eventually
from tests.e2e.load import under_load
from tests.e2e.machine import say

pytestmark = pytest.mark.journeys

HEAL_SECONDS_MAX = 360


def _controller(journeys: BrokerCluster) -> int:
    """The controller's broker id, once somebody tells."""
    return eventually(journeys.view.controller, lambda found: found >= 0, seconds=HEAL_SECONDS_MAX, what="a controller")


def _led_by(leader: int) -> list[list[int]]:
    """That broker leads every partition at first, so that its death is felt everywhere."""
    first, second = (broker for broker in range(3) if broker != leader)
    return [[leader, first, second], [leader, second, first], [leader, first, second]]


@pytest.mark.parametrize("role", [pytest.param("broker", marks=pytest.mark.full), "controller"])
def test_a_killed_leader_is_replaced(role: str, journeys: BrokerCluster, tmp_path: Path) -> None:
    """How long acknowledgements paused is printed: 0.1 to 1 s on a machine that is not busy, 2 s at most are meant."""
    controller = _controller(journeys)
    leader = controller if role == "controller" else (controller + 1) % 3
    topic = f"killed-{role}"
    with under_load(journeys.bootstrap, topic, tmp_path, assignment=_led_by(leader)) as load:
        moment = journeys.kill_container(leader)
        successor = journeys.leader(topic, other_than=leader, seconds=HEAL_SECONDS_MAX)
        load.wait_for_acknowledged(500, seconds=HEAL_SECONDS_MAX)
        healed = journeys.wait_full_isr(topic, HEAL_SECONDS_MAX, since=moment)
    (gap,) = load.gaps([moment])
    summary = load.must_have_passed().summary
    say(
        f"container of broker {leader}, a leader{' and the controller' if leader == controller else ''}, killed: "
        f"{successor} leads, acknowledgements resumed after {gap:.2f} s, "
        f"full ISR after {healed:.1f} s; {summary}"
    )
    assert gap > 0
    assert journeys.restarts(leader) >= 1


@pytest.mark.full
def test_a_deleted_pod_returns_with_its_claim_and_heals(journeys: BrokerCluster, tmp_path: Path) -> None:
    with under_load(journeys.bootstrap, "deleted", tmp_path, assignment=_led_by(0)) as load:
        leader = journeys.leader("deleted")
        pod = journeys.kubectl.objects.there("pod", journeys.pod_name(leader))
        volume = journeys.volume_path("data", leader)
        moment = journeys.delete_pod(leader)
        load.wait_for_acknowledged(500, seconds=HEAL_SECONDS_MAX)
        journeys.wait_broker_ready(leader, HEAL_SECONDS_MAX)
        healed = journeys.wait_full_isr("deleted", HEAL_SECONDS_MAX, since=moment)
    (gap,) = load.gaps([moment])
    summary = load.must_have_passed().summary
    assert journeys.kubectl.objects.there("pod", journeys.pod_name(leader))["metadata"]["uid"] != pod["metadata"]["uid"]
    assert journeys.volume_path("data", leader) == volume
    say(f"pod of broker {leader} deleted: longest pause {gap:.2f} s, full ISR after {healed:.1f} s; {summary}")


@pytest.mark.full
def test_the_controller_dies_while_a_leader_dies(journeys: BrokerCluster, tmp_path: Path) -> None:
    controller = _controller(journeys)
    leader = next(broker for broker in range(3) if broker != controller)
    third = next(broker for broker in range(3) if broker not in (controller, leader))
    # With both of them dead one replica is left, fewer than min.insync.replicas: clients wait until one is back.
    placed = [[leader, third, controller]] * 3
    with under_load(journeys.bootstrap, "both", tmp_path, assignment=placed) as load:
        processes = journeys.processes([controller, leader])
        moment = time.time()
        journeys.node.signal("KILL", [process.pid for process in processes])
        successor = journeys.leader("both", other_than=leader, seconds=HEAL_SECONDS_MAX)
        load.wait_for_acknowledged(500, seconds=HEAL_SECONDS_MAX)
        healed = journeys.wait_full_isr("both", HEAL_SECONDS_MAX, since=moment)
    (gap,) = load.gaps([moment])
    summary = load.must_have_passed().summary
    took_over = _controller(journeys)
    say(
        f"controller {controller} and leader {leader} killed at once: {successor} leads, {took_over} controls, "
        f"acknowledgements resumed after {gap:.2f} s, full ISR after {healed:.1f} s; {summary}"
    )
    assert gap > 0
