"""The cluster as a broker describes it: brokers, controller, topics, and each partition with its leader epoch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from minikafka.client.connection import BrokerConnection, NoAnswer, endpoints
from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.command.exits import UNKNOWN, CommandError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

_METADATA_NEWEST = 12
_POLL_SECONDS = 0.05


class BrokerMetadata(NamedTuple):
    """A broker, and where it is reached."""

    id: int
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """A partition; ``leader`` is -1 when it has none, ``leader_epoch`` -1 when the broker did not say."""

    number: int
    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]

    @property
    def offline(self) -> bool:
        """Nobody leads it: it takes and gives no records."""
        return self.leader < 0

    @property
    def under_replicated(self) -> bool:
        """Some replica is not in sync."""
        return len(self.isr) < len(self.replicas)


class TopicMetadata(NamedTuple):
    """A topic; ``error`` is UNKNOWN_TOPIC_OR_PARTITION for one that was asked for and is not there."""

    name: str
    error: ErrorCode
    internal: bool
    partitions: list[PartitionMetadata]


class ClusterMetadata(NamedTuple):
    """One broker's view of the cluster; ``controller`` is -1 when it knows none."""

    cluster_id: str | None
    controller: int
    brokers: list[BrokerMetadata]
    """Those that live, as far as the controller knows."""
    topics: list[TopicMetadata]
    fenced: Sequence[BrokerMetadata] = ()
    """Those that it does not hear: dead, paused, cut off, or about to start. Empty where the cluster does not say."""

    def topic(self, name: str) -> TopicMetadata | None:
        """A topic that exists, by name."""
        return next((topic for topic in self.topics if topic.name == name and not topic.error), None)


def fetch_metadata(
    bootstrap: str,
    topics: Sequence[str] | None = None,
    timeout: float = 10.0,
    security: ClientSecurity = PLAINTEXT,
) -> ClusterMetadata:
    """Ask the first broker that answers; None for all topics. Never creates a topic.

    Raises:
        CommandError: nobody answers, or not within ``timeout`` seconds (exit code 3).
    """
    values = {
        "topics": None if topics is None else [{"name": name} for name in topics],
        "allow_auto_topic_creation": False,
    }
    with first_that_answers(bootstrap, timeout, security) as connection:
        try:
            answer = connection.request(ApiKey.METADATA, _METADATA_NEWEST, values)
        except NoAnswer as refusal:
            raise CommandError(UNKNOWN, f"{connection.address} {refusal}") from refusal
        registered = _registered(connection)
    unfenced = None if registered is None else {broker.id for broker, is_fenced in registered if not is_fenced}
    return ClusterMetadata(
        cluster_id=answer.cluster_id,
        controller=int(answer.controller_id),
        brokers=sorted(
            BrokerMetadata(int(node.node_id), node.host, int(node.port), node.rack)
            for node in answer.brokers
            if unfenced is None or int(node.node_id) in unfenced
        ),
        topics=sorted(
            TopicMetadata(
                name=str(topic.name),
                error=ErrorCode(int(topic.error_code)),
                internal=topic.is_internal,
                partitions=sorted(
                    PartitionMetadata(
                        number=int(partition.partition_index),
                        error=ErrorCode(int(partition.error_code)),
                        leader=int(partition.leader_id),
                        leader_epoch=int(partition.leader_epoch),
                        replicas=[int(broker) for broker in partition.replica_nodes],
                        isr=[int(broker) for broker in partition.isr_nodes],
                        offline_replicas=[int(broker) for broker in partition.offline_replicas],
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in answer.topics
        ),
        fenced=sorted(broker for broker, is_fenced in registered or () if is_fenced),
    )


def _registered(connection: BrokerConnection) -> list[tuple[BrokerMetadata, bool]] | None:
    """All brokers, and whether the controller has fenced them; None when the cluster does not say.

    Metadata lists dead ones a while. Versions before 2 (KIP-1073) leave fenced ones out.
    """
    asked = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
    try:
        answer = connection.request(ApiKey.DESCRIBE_CLUSTER, 2, asked)
    except NoAnswer:
        return None
    return [
        (BrokerMetadata(int(node.broker_id), node.host, int(node.port), node.rack), getattr(node, "is_fenced", False))
        for node in answer.brokers
    ]


def await_metadata(
    bootstrap: str,
    topics: Sequence[str],
    satisfied: Callable[[ClusterMetadata], bool],
    timeout: float,
    security: ClientSecurity = PLAINTEXT,
) -> ClusterMetadata:
    """Ask again until ``satisfied``, or ``timeout`` seconds have passed; what was said last, either way."""
    deadline = time.monotonic() + timeout
    while True:
        metadata = fetch_metadata(bootstrap, topics, security=security)
        if satisfied(metadata) or time.monotonic() > deadline:
            return metadata
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def first_that_answers(
    bootstrap: str, timeout: float, security: ClientSecurity = PLAINTEXT
) -> Iterator[BrokerConnection]:
    """A connection to the first bootstrap address that takes one and speaks Kafka; else :class:`CommandError`."""
    refusals = []
    for host, port in endpoints(bootstrap):
        try:
            connection = BrokerConnection(host, port, timeout, security)
        except NoAnswer as refusal:
            refusals.append(f"{host}:{port} ({refusal})")
            continue
        with connection:
            try:
                connection.request(ApiKey.API_VERSIONS, 0, {})
            except NoAnswer as refusal:
                refusals.append(f"{host}:{port} ({refusal})")
                continue
            yield connection
            return
    raise CommandError(UNKNOWN, f"no broker answers at {', '.join(refusals)}")
