"""An administrator: asks any of them, by Kafka's requests; who is not the controller passes them on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from minikafka.controller.topics import NewTopic
from minikafka.metadata.image import MIN_ISR
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.wire_client import WireClient
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = (
    (ApiKey.CREATE_TOPICS, 7),
    (ApiKey.DELETE_TOPICS, 6),
    (ApiKey.DELETE_RECORDS, 2),
)
ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS = (ApiKey.ELECT_LEADERS, 2), (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
UNREGISTER_BROKER = (ApiKey.UNREGISTER_BROKER, 0)
ALTER_PARTITION_REASSIGNMENTS = (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0)
"""API keys and the versions that are asked in."""

TIMEOUT_MS: Final = 1_000
TOPIC: Final = 2
SET, DELETE = 0, 1
PREFERRED: Final = 0


class Admin(WireClient):
    """Of one cluster.

    Nobody waits for most answers: faults may strike at any moment.
    """

    def __init__(self, world: CheckedCluster, seed: int) -> None:
        super().__init__(world, Random(f"admin {seed}"))

    def remake(self, desired: NewTopic, make_anew: bool) -> None:
        """Make the topic, or delete the one of its name, and then perhaps make it."""
        if desired.name in self._world.checker.topic_ids:
            self._delete(desired.name, desired if make_anew else None)
        else:
            self._create(desired)

    def _create(self, desired: NewTopic) -> None:
        topic = {
            "name": desired.name,
            "num_partitions": desired.partitions,
            "replication_factor": desired.replication_factor,
            "assignments": [],
            "configs": [],
        }
        self._ask_any(CREATE_TOPICS, {"topics": [topic], "timeout": TIMEOUT_MS, "validate_only": False})

    def _delete(self, topic: str, then: NewTopic | None) -> None:
        """And make another, once the answer has come."""

        def answered(answer: messages.Entity) -> None:
            del answer
            if then is not None:
                self._create(then)

        topics = [{"name": topic, "topic_id": None}]
        self._ask_any(DELETE_TOPICS, {"topics": topics, "timeout": TIMEOUT_MS}, answered)

    def set_min_isr(self, topic: str, value: str | None) -> None:
        """None: the cluster's default again."""
        config = {"name": MIN_ISR, "config_operation": DELETE if value is None else SET, "value": value}
        resource = {"resource_type": TOPIC, "resource_name": topic, "configs": [config]}
        self._ask_any(INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False})

    def reassign(self, tp: TopicPartition, replicas: Sequence[int]) -> None:
        partition = {"partition_index": tp.partition, "replicas": list(replicas)}
        topics = [{"name": tp.topic, "partitions": [partition]}]
        self._ask_any(ALTER_PARTITION_REASSIGNMENTS, {"timeout": TIMEOUT_MS, "topics": topics})

    def elect(self) -> None:
        """Preferred leaders, everywhere."""
        self._ask_any(ELECT_LEADERS, {"election_type": PREFERRED, "topic_partitions": None, "timeout": TIMEOUT_MS})

    def unregister(self, broker: int) -> None:
        """Have the cluster forget a broker."""
        self._ask_any(UNREGISTER_BROKER, {"broker_id": broker})

    def delete_records(self, leader: SimBroker, tp: TopicPartition, before: int) -> None:
        partition = {"partition_index": tp.partition, "offset": before}
        topics = [{"name": tp.topic, "partitions": [partition]}]
        self._ask(leader.id, DELETE_RECORDS, {"topics": topics, "timeout": TIMEOUT_MS})

    def _ask_any(self, api: tuple[int, int], values: dict[str, Any], answered: Reply | None = None) -> None:
        broker = self._any()
        if broker is not None:
            self._ask(broker, api, values, answered)
