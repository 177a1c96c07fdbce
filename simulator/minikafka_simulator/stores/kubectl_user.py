"""A user with kubectl makes, edits and deletes a MiniKafkaTopic, whoever the controller is and whatever else happens."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from minikafka.kubernetes.api import TOPIC

from minikafka_simulator.stores.api_server import NAMESPACE, SimApiServer
from minikafka_simulator.stores.brokers import StoreCluster

NAME = "of-people"
FIRST_SECONDS, PAUSE_SECONDS = 1.5, 0.8
PATIENCE_SECONDS = 3.0
"""Until brokers are up again."""


class KubectlUser:
    """Acts at the API server until it is told to stop.

    Args:
        cluster: the name that their topics' ``clusterRef`` has.
    """

    def __init__(self, world: StoreCluster, server: SimApiServer, cluster: str, random: Random) -> None:
        self._world = world
        self._server = server
        self._cluster = cluster
        self._random = random
        self._stopped = False
        self._waits_until = 0.0
        world.scheduler.at(FIRST_SECONDS, self._act)

    def stop(self) -> None:
        """The faults are over, and so is this."""
        self._stopped = True

    def broker_ended(self, why: str) -> None:
        """A broker has ended and said why. Who deleted a topic by force while no broker looked, and made another of that name, is
        asked to delete that one, too: brokers cannot tell it from one that has lost its status."""
        found = self._server.find(TOPIC.plural, NAME)
        if repr(NAME) in why and "delete the object to give up the topic" in why and found is not None:
            self._waits_until = self._world.now + PATIENCE_SECONDS
            self._delete_by_force(found)

    def _act(self) -> None:
        if self._stopped:
            return
        random = self._random
        self._world.scheduler.at(random.expovariate(1 / PAUSE_SECONDS), self._act)
        found = self._server.find(TOPIC.plural, NAME)
        if found is None and self._world.now >= self._waits_until:
            self._ask("POST", "make", {"metadata": {"name": NAME}, "spec": self._desired()})
        elif found is not None and "deletionTimestamp" not in found["metadata"]:
            random.choice((self._delete, self._delete_by_force, self._edit, self._edit, self._edit))(found)

    def _desired(self) -> dict[str, Any]:
        """Sometimes one that cannot be had: no cluster here has nine brokers."""
        return {
            "clusterRef": {"name": self._cluster},
            "partitions": self._random.choice((1, 2)),
            "replicationFactor": self._random.choice((2, 2, 3, 9)),
        }

    def _edit(self, found: dict[str, Any]) -> None:
        partitions = found["spec"]["partitions"] + self._random.choice((1, 1, -1))
        spec = self._random.choice(
            ({"partitions": partitions}, {"config": {"min.insync.replicas": self._random.choice(("1", "2", None))}})
        )
        if partitions < 8:
            self._ask("PATCH", "edit", {"spec": spec})

    def _delete(self, found: dict[str, Any]) -> None:
        del found
        self._ask("DELETE", "delete", {})

    def _delete_by_force(self, found: dict[str, Any]) -> None:
        self._ask("PATCH", "delete by force", {"metadata": {"finalizers": None}})
        self._delete(found)

    def _ask(self, method: str, verb: str, body: dict[str, Any]) -> None:
        self._world.note(f"people {verb} {body.get('spec', '')}")
        path = TOPIC.path(NAMESPACE, None if method == "POST" else NAME)
        self._server.request(method, path, json.dumps(body).encode())
