"""UnregisterBroker: a broker that will not come back is forgotten, but not the epochs that it had (KIP-631, KIP-903)."""

from __future__ import annotations

from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import ClusterImage, PartitionState
from minikafka.protocol.errors import ErrorCode

from .desk import CLUSTER, Desk

STATE = PartitionState((1, 2, 3), (1, 2, 3), 1)


def test_a_broker_that_nobody_knows() -> None:
    at = Desk(STATE)
    assert at.brokers.unregister(9) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert not at.controller.workspace.has_changes


def test_it_leaves_the_image_and_every_isr_and_stays_a_replica() -> None:
    at = Desk(STATE)
    at.die(3)
    at.events()
    assert at.brokers.unregister(3) is ErrorCode.NONE
    assert sorted(at.image.brokers) == [1, 2]
    assert (at.state().isr, at.state().replicas) == ((1, 2), (1, 2, 3))
    assert [event.name for event in at.events()] == ["broker_unregistered"]


def test_one_that_leads_is_fenced_first() -> None:
    at = Desk(STATE)
    assert at.brokers.unregister(1) is ErrorCode.NONE
    assert (at.state().leader, at.state().isr, at.state().leader_epoch) == (2, (2, 3), 1)
    assert at.brokers.heartbeat(1, 10, False, False, 0.0).error is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert {event.name for event in at.events()} == {"broker_fenced", "leader_elected", "broker_unregistered"}


def test_it_is_no_eligible_leader_any_more() -> None:
    """KIP-966: after it comes back nobody knows whether it was stopped cleanly."""
    at = Desk(STATE, config=ControllerConfig(min_insync_replicas=2))
    for broker in (3, 2, 1):
        at.die(broker)
    assert 1 in at.state().elr
    at.brokers.unregister(1)
    assert 1 not in at.state().elr


def test_no_later_registration_gets_its_epoch() -> None:
    """KIP-903: a fetch that its last incarnation has sent must not count for the next. A new controller knows it, too."""
    at = Desk(STATE)
    assert at.image.brokers[3].epoch == 30
    at.brokers.unregister(3)
    record = at.controller.take_changes()[0]["broker/3"]
    later = ClusterImage(CLUSTER)
    later.apply("broker/3", record)
    assert (later.brokers, later.unregistered) == ({}, {3: 30})
    assert at.register(3) == (ErrorCode.NONE, 31)
    assert at.image.unregistered == {}


def test_one_that_registers_again_is_there_again() -> None:
    at = Desk(STATE)
    at.brokers.unregister(3)
    at.register(3)
    at.ready(3)
    record = at.controller.take_changes()[0]["broker/3"]
    later = ClusterImage(CLUSTER)
    later.apply("broker/3", record)
    assert (sorted(later.brokers), later.unregistered) == ([3], {})
    assert at.set_isr(1, 2, 3).error is ErrorCode.NONE


def test_an_older_program_sees_a_fenced_broker() -> None:
    """Brokers of two versions share a store while a cluster is rolled."""
    at = Desk(STATE)
    at.brokers.unregister(3)
    record = at.controller.take_changes()[0]["broker/3"]
    assert record["fenced"] is True
    assert {"epoch", "incarnation", "endpoints", "rack", "shuttingDown"} <= record.keys()
