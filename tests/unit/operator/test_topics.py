"""Topics that no broker looks after (audit, issue 9, B11; issue 27, D33)."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_operator.actions import Finalizers, SetTopicCondition
from minikafka_operator.planning.topics import without_cluster

from .world import BEGIN, World, settled

METADATA = {"name": "bank", "namespace": "ns", "generation": 3, "resourceVersion": "7"}
SAYS = "spec.clusterRef.name=nobody: there is no MiniKafkaCluster of that name in its namespace"


def topic(*conditions: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {**METADATA, **metadata}, "status": {"conditions": list(conditions)}}


def condition_set(*conditions: dict[str, Any]) -> dict[str, Any]:
    (action,) = without_cluster([topic(*conditions)], "nobody", BEGIN)
    assert isinstance(action, SetTopicCondition) and action.name == "bank"
    return dict(action.condition)


def test_it_gets_a_condition() -> None:
    assert condition_set() == {
        "type": "Ready",
        "status": "False",
        "reason": "ClusterNotFound",
        "message": SAYS,
        "observedGeneration": 3,
        "lastTransitionTime": "2026-11-21T12:00:00Z",
    }


def test_once() -> None:
    assert without_cluster([topic(condition_set())], "nobody", BEGIN) == []
    assert without_cluster([{"metadata": METADATA}], "nobody", BEGIN) != []


def test_what_brokers_said_last_is_replaced() -> None:
    """The cluster is gone, and its topics have stayed."""
    before = {"type": "Ready", "status": "True", "reason": "InSync", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert condition_set(before)["reason"] == "ClusterNotFound"
    offline = {**before, "status": "False", "reason": "PartitionsOffline"}
    assert condition_set(offline)["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_one_that_is_deleted_is_let_go() -> None:
    """The finalizer is the controller broker's, and there is none."""
    doomed = topic(deletionTimestamp="2026-11-21T12:00:00Z", finalizers=["minikafka.dev/topic", "example.com/keep"])
    (action,) = without_cluster([doomed], "nobody", BEGIN)
    assert isinstance(action, Finalizers) and action.finalizers == ["example.com/keep"]
    assert action.resource_version == "7"
    assert without_cluster([topic(deletionTimestamp="2026-11-21T12:00:00Z")], "nobody", BEGIN) == []


def test_when_the_cluster_comes_it_waits_for_brokers() -> None:
    world = settled()
    world.topic("bank", ([0], [0]))
    world.topics["bank"]["status"]["conditions"] = [condition_set()]
    world.settle()
    (condition,) = world.topics["bank"]["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "WaitingForBrokers")


@pytest.mark.parametrize(
    "spec", [{"config": {"no.such.key": "1"}}, {"brokers": {"replicas": "three"}}, {"paused": True}]
)
@pytest.mark.parametrize("said", [[], [condition_set()]])
def test_a_cluster_without_brokers_is_not_a_cluster_that_is_not_there(
    spec: dict[str, Any], said: list[dict[str, Any]]
) -> None:
    """27 D33: whatever keeps its brokers from being made, its topics say what they wait for."""
    world = World()
    world.cluster["spec"].update(spec)
    world.topics["bank"] = topic(*said, name="bank")
    told_now = [action for action in world.step().actions if isinstance(action, SetTopicCondition)]
    assert [action.condition["reason"] for action in told_now] == ["WaitingForBrokers"]
    assert not [action for action in world.plan().actions if isinstance(action, SetTopicCondition)], "told once"


def test_one_that_is_new_is_left_to_brokers_that_are_ready() -> None:
    world = settled()
    world.topic("bank", ([0], [0]))
    assert not [action for action in world.plan().actions if isinstance(action, SetTopicCondition)]


def test_what_brokers_say_is_left_alone() -> None:
    world = settled()
    world.topic("bank", ([0], [0]))
    world.topics["bank"]["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "InvalidConfig"}]
    assert not [action for action in world.plan().actions if isinstance(action, SetTopicCondition)]
