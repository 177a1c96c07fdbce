"""Looking at a cluster: a client that reaches nobody does not stay."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load import cluster_view
from minikafka_chaos.load.clients import NO_BROKER, PartitionView
from minikafka_chaos.load.cluster_view import ClusterView


class Admin:
    """The first that is made was told of dead brokers only; the second reaches broker 0."""

    made = 0

    def __init__(self, config: dict[str, object]) -> None:
        del config
        Admin.made += 1
        self._strands = Admin.made == 1

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> SimpleNamespace:
        assert topic is None, "brokers make a topic that an AdminClient names, and this only looks"
        del timeout
        if self._strands:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        partition = SimpleNamespace(leader=0, replicas=[0, 1], isrs=[0])
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: partition})}, controller_id=0)


@pytest.fixture(autouse=True)
def admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admin, "made", 0)
    monkeypatch.setattr(cluster_view, "AdminClient", Admin)


def test_a_client_that_reached_nobody_is_made_anew() -> None:
    """The addresses are the same: it had forgotten them for what a starting broker told it."""
    view = ClusterView(lambda: "127.0.0.1:1")
    assert view.partitions("t") is None
    assert view.partition(TopicPartition("t", 0)) == PartitionView(0, (0, 1), (0,))


def test_also_when_asked_for_the_controller() -> None:
    view = ClusterView(lambda: "127.0.0.1:1")
    assert view.controller() == NO_BROKER
    assert view.controller() == 0


def test_one_that_is_answered_stays() -> None:
    view = ClusterView(lambda: "127.0.0.1:1")
    view.partitions("t")
    assert view.partitions("unknown") is None
    assert view.controller() == 0
    assert Admin.made == 2
