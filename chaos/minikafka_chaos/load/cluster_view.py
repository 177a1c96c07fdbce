"""Who leads, who is in sync, who controls: asked over the Kafka protocol, so on any ground."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, TopicMetadata  # type: ignore[attr-defined]
from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.load.clients import NO_BROKER, PartitionView
from minikafka_chaos.load.librdkafka import admin_config

TIMEOUT_S = 2.0


class ClusterView:
    """Asks a live broker for metadata.

    A client that holds a connection to a paused broker may ask that one and wait; so the client is made anew whenever
    the set of live brokers changes. And whenever nobody answered: a client may have been told of brokers that are dead by now
    and of no other (by one that had just started, and was no part of the cluster yet), and knows nobody else to ask.
    """

    def __init__(
        self, live_bootstrap: Callable[[], str], security: Callable[[], ClientSecurity] = lambda: PLAINTEXT
    ) -> None:
        self._live_bootstrap = live_bootstrap
        self._security = security
        self._asked = ""
        self._client: AdminClient | None = None

    def _admin(self) -> AdminClient:
        bootstrap = self._live_bootstrap()
        if self._client is None or bootstrap != self._asked:
            self._client = AdminClient(admin_config(bootstrap, self._security(), timeout_ms=int(TIMEOUT_S * 1000)))
            self._asked = bootstrap
        return self._client

    def partitions(self, topic: str, timeout_s: float = TIMEOUT_S) -> dict[TopicPartition, PartitionView] | None:
        """All partitions of a topic, or None while nobody tells of it."""
        try:
            found = described_topic(self._admin(), topic, timeout_s)
        except KafkaException:
            self._client = None
            return None
        if found is None:
            return None
        return {
            TopicPartition(topic, number): PartitionView(p.leader, tuple(p.replicas), tuple(p.isrs))
            for number, p in found.partitions.items()
        }

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        partitions = self.partitions(topic_partition.topic)
        return None if partitions is None else partitions.get(topic_partition)

    def controller(self) -> int:
        """The controller's broker id, or -1 while nobody tells."""
        try:
            found: int = self._admin().list_topics(timeout=TIMEOUT_S).controller_id
        except KafkaException:
            self._client = None
            return NO_BROKER
        return found


def described_topic(admin: AdminClient, topic: str, timeout_s: float) -> TopicMetadata | None:
    """What brokers tell of a topic; None where there is none. Raises KafkaException.

    Asks for all topics, for an AdminClient that names one has brokers make it (auto.create.topics.enable).
    """
    return admin.list_topics(timeout=timeout_s).topics.get(topic)
