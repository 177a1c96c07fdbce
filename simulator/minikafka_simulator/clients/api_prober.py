"""A client asks brokers all the time what clients and administrators ask: that must never fail inside a broker."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.protocol.api_keys import ApiKey

from minikafka_simulator.clients.wire_client import WireClient

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster

PAUSE_SECONDS: Final = 0.15
"""Mean time between two questions."""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4

DESCRIBE_CONFIGS = (ApiKey.DESCRIBE_CONFIGS, 4)
SETTINGS = ("min.insync.replicas", "segment.bytes", "nobody's")


def questions(topic: str, group: str, broker: int) -> dict[tuple[int, int], dict[str, Any]]:
    """By API key and version."""
    asked = {"topic": topic, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 1}]}
    return {
        (ApiKey.METADATA, 12): {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False},
        (ApiKey.METADATA, 9): {"topics": None, "allow_auto_topic_creation": False},
        (ApiKey.DESCRIBE_GROUPS, 5): {"groups": [group], "include_authorized_operations": False},
        (ApiKey.LIST_GROUPS, 4): {"states_filter": []},
        (ApiKey.API_VERSIONS, 3): {"client_software_name": "curious", "client_software_version": "1"},
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4): {"replica_id": -1, "topics": [asked]},
        DESCRIBE_CONFIGS: {
            "resources": [
                {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": None},
                {"resource_type": BROKER_RESOURCE, "resource_name": str(broker), "configuration_keys": None},
            ],
            "include_synonyms": True,
            "include_documentation": False,
        },
        (ApiKey.DESCRIBE_LOG_DIRS, 4): {"topics": None},
        (ApiKey.DESCRIBE_CLUSTER, 1): {"include_cluster_authorized_operations": False, "endpoint_type": 1},
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0): {
            "topics": [{"name": topic}],
            "response_partition_limit": 10,
            "cursor": None,
        },
    }


class ApiProber(WireClient):
    """One question after the other, each to any broker that is up."""

    def __init__(self, world: CheckedCluster, seed: int) -> None:
        super().__init__(world, Random(f"curious {seed}"))
        self._later()

    def _later(self) -> None:
        self._world.scheduler.at(self._random.expovariate(1 / PAUSE_SECONDS), self._question)

    def _question(self) -> None:
        self._later()
        broker = self._any()
        if broker is None:
            return
        topic = self._random.choice(("t", OFFSETS_TOPIC, "nobody's"))
        asked = questions(topic, self._random.choice(("g", "nobody's")), broker)
        api = self._random.choice(sorted(asked))
        if api == DESCRIBE_CONFIGS and self._random.random() < 0.8:
            for resource in asked[api]["resources"]:
                resource["configuration_keys"] = SETTINGS  # all of them make an answer that takes milliseconds
        self._ask(broker, api, asked[api])
