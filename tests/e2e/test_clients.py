"""Clients outside the cluster, and topics by kubectl and by Kafka clients, which are one and the same thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType  # type: ignore[attr-defined]

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import condition, eventually
from tests.e2e.load import under_load
from tests.e2e.machine import say
from tests.e2e.objects import Object

pytestmark = [pytest.mark.journeys, pytest.mark.full]

SOON_S = 240


def test_librdkafka_outside_produces_and_consumes(journeys: BrokerCluster, tmp_path: Path) -> None:
    addresses = journeys.external()
    assert len(set(addresses.values())) == 3, f"each broker has an address of its own: {addresses}"
    with under_load(journeys.bootstrap, "outside", tmp_path) as load:
        load.wait_for_acknowledged(1000)
    say(f"librdkafka outside, by {journeys.bootstrap}: {load.must_have_passed().summary}")


def _admin(cluster: BrokerCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "broker.address.family": "v4"})


def _topic(cluster: BrokerCluster, name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "MiniKafkaTopic",
        "metadata": {"name": name, "labels": {"minikafka.dev/cluster": cluster.name}},
        "spec": {"clusterRef": {"name": cluster.name}, **spec},
    }


def test_a_topic_of_kubectl_is_a_topic_of_every_client(journeys: BrokerCluster) -> None:
    kubectl, admin = journeys.kubectl, _admin(journeys)
    kubectl.apply(_topic(journeys, "orders", partitions=2, replicationFactor=3, config={"retention.ms": "3600000"}))
    kubectl("wait", "--for=condition=Ready", "mkt/orders", f"--timeout={SOON_S}s")
    _wait_for_partitions(admin, "orders", 2)

    # What `kubectl edit` does to partitions and settings.
    kubectl.patch("mkt", "orders", {"spec": {"partitions": 4, "config": {"retention.ms": "7200000"}}})
    _wait_for_partitions(admin, "orders", 4)
    eventually(
        lambda: _setting(admin, "orders", "retention.ms"),
        lambda value: value == "7200000",
        seconds=SOON_S,
        what="clients see the new retention",
    )
    kubectl.delete("mkt", "orders", f"--timeout={SOON_S}s")
    _wait_for_partitions(admin, "orders", 0)


def test_a_topic_of_a_client_is_an_object_of_kubectl(journeys: BrokerCluster) -> None:
    kubectl, admin = journeys.kubectl, _admin(journeys)
    admin.create_topics([NewTopic("payments", 2, 3)])["payments"].result(SOON_S)
    eventually(
        lambda: condition(kubectl.objects.get("mkt", "payments"), "Ready").get("status"),
        lambda status: status == "True",
        seconds=SOON_S,
        what="mkt/payments is there and Ready",
    )
    admin.create_partitions([NewPartitions("payments", 3)])["payments"].result(SOON_S)
    eventually(
        lambda: len(kubectl.objects.there("mkt", "payments")["status"]["partitions"]),
        lambda number: number == 3,
        seconds=SOON_S,
        what="its status has three partitions",
    )
    say(kubectl("get", "mkt", "payments"))
    admin.delete_topics(["payments"])["payments"].result(SOON_S)
    eventually(
        lambda: kubectl.objects.get("mkt", "payments"), lambda found: found is None, seconds=SOON_S, what="it is gone"
    )


def _wait_for_partitions(admin: AdminClient, topic: str, number: int) -> None:
    """Until clients see so many; any broker may be asked, and each hears of it by itself. 0: there is no such topic."""

    def seen() -> int:
        found = admin.list_topics(timeout=SOON_S).topics.get(topic)
        return len(found.partitions) if found else 0

    eventually(
        seen,
        lambda there: there == number,
        seconds=SOON_S,
        what=f"clients see {number} partitions of {topic}",
    )


def _setting(admin: AdminClient, topic: str, key: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return str(admin.describe_configs([resource])[resource].result(SOON_S)[key].value)
