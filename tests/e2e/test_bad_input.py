"""Bad input is refused with the field's name, or told in a condition and an Event; never a crash loop in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import Kubectl, KubectlError, condition, eventually
from tests.e2e.machine import say
from tests.e2e.objects import Object

pytestmark = pytest.mark.full

TOLD_SECONDS_MAX = 360


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replication": {"defaultFactor": 3, "minInsyncReplicas": 4}}, ["minInsyncReplicas", "defaultFactor"]),
        ({"brokers": {"replicas": 2}, "replication": {"defaultFactor": 3}}, ["defaultFactor", "brokers.replicas"]),
        ({"brokers": {"replicas": "three"}}, ["spec.brokers.replicas", "integer"]),
        ({"storage": {"size": "lots"}}, ["spec.storage.size"]),
        ({"config": {"node.id": "7"}}, ["spec.config", "node.id"]),
        ({"listeners": {"external": {"type": "Pigeon"}}}, ["spec.listeners.external.type", "NodePort"]),
    ],
)
def test_the_api_server_refuses_and_names_the_field(
    spec: dict[str, Any], words: list[str], broker_cluster: Callable[[str], BrokerCluster], namespace: Kubectl
) -> None:
    with pytest.raises(KubectlError) as refused:
        namespace.apply(broker_cluster("bad").manifest(spec), arguments=["--dry-run=server"])
    for word in words:
        assert word in str(refused.value)


def test_what_is_immutable_stays(broker_cluster: Callable[[str], BrokerCluster], namespace: Kubectl) -> None:
    cluster = broker_cluster("fixed")
    spec = {"paused": True, "storage": {"size": "2Gi"}}
    namespace.apply(cluster.manifest(spec))
    with pytest.raises(KubectlError, match="type cannot"):
        namespace.apply(cluster.manifest({**spec, "storage": {"size": "2Gi", "type": "Ephemeral"}}))


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"image": "minikafka/broker:no-such-tag", "imagePullPolicy": "Never"}, "no-such-tag"),
        ({"storage": {"storageClassName": "no-such-class"}}, "no-such-class"),
        ({"brokers": {"replicas": 1, "nodeSelector": {"no-such": "node"}}}, "broker-0"),
        ({"config": {"log.segment.bytes": "many"}}, "log.segment.bytes"),
    ],
    ids=["image", "storage-class", "unschedulable", "setting"],
)
def test_trouble_is_told_in_a_condition_and_an_event(
    spec: dict[str, Any], word: str, broker_cluster: Callable[[str], BrokerCluster], namespace: Kubectl
) -> None:
    cluster = broker_cluster("trouble")
    whole = {"brokers": {"replicas": 1}, "replication": {"defaultFactor": 1, "minInsyncReplicas": 1}, **spec}
    namespace.apply(cluster.manifest(whole))

    def explains(found: Object | None) -> bool:
        conditions = ((found or {}).get("status") or {}).get("conditions") or []
        return any(each["status"] == "False" and word in each["message"] for each in conditions)

    found = eventually(cluster.get, explains, seconds=TOLD_SECONDS_MAX, what=f"a condition tells of {word}")
    say(f"{word}: {condition(found, 'Ready')['message']}")
    eventually(
        lambda: namespace.objects.list("event"),
        lambda events: any(
            each["involvedObject"]["kind"] == "MiniKafkaCluster" and word in each["message"] for each in events
        ),
        seconds=TOLD_SECONDS_MAX,
        what=f"an Event tells of {word}",
    )
