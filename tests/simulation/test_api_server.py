"""The simulated API server does what the real one does with the requests of the cluster store."""

from __future__ import annotations

import json
from typing import Any

import pytest
from minikafka.kubernetes.api import CONFIG_MAP, TOPIC, Kind
from minikafka_simulator.stores.api_server import NAMESPACE, SimApiError, SimApiServer, SimWatchEvent


class Server:
    """An API server, and what it told."""

    def __init__(self) -> None:
        self.told: list[SimWatchEvent] = []
        self.api = SimApiServer(self.told.append)

    def ask(self, method: str, kind: Kind, name: str | None = None, body: Any = None, **more: str) -> Any:
        target = kind.path(NAMESPACE, name, more.get("subresource"))
        if "selector" in more:
            target += f"?limit=500&fieldSelector={more['selector']}"
        return self.api.request(method, target, b"" if body is None else json.dumps(body).encode())

    def make(self, kind: Kind, name: str, **content: Any) -> Any:
        metadata = {"name": name} | content.pop("metadata", {})
        return self.ask("POST", kind, None, {"metadata": metadata, **content})


@pytest.fixture
def server() -> Server:
    return Server()


def refused(status: int, reason: str) -> Any:
    return pytest.raises(SimApiError, check=lambda refusal: (refusal.status, refusal.reason) == (status, reason))


def test_a_write_names_what_it_replaces(server: Server) -> None:
    made = server.make(CONFIG_MAP, "m", data={"k": "1"})
    newer = server.ask("PUT", CONFIG_MAP, "m", made | {"data": {"k": "2"}})
    assert int(newer["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert newer["metadata"]["uid"] == made["metadata"]["uid"]
    with refused(409, "Conflict"):
        server.ask("PUT", CONFIG_MAP, "m", made | {"data": {"k": "3"}})
    with refused(409, "AlreadyExists"):
        server.make(CONFIG_MAP, "m")
    with refused(404, "NotFound"):
        server.ask("PUT", CONFIG_MAP, "other", made)
    assert server.ask("GET", CONFIG_MAP, "m")["data"] == {"k": "2"}


def test_a_write_of_the_same_changes_nothing(server: Server) -> None:
    made = server.make(CONFIG_MAP, "m", data={"k": "1"})
    assert server.ask("PUT", CONFIG_MAP, "m", made) == made
    assert [change.type for change in server.told] == ["ADDED"]


def test_a_status_has_a_way_of_its_own(server: Server) -> None:
    """API Conventions: spec and status are each written without touching the other; the generation counts specs."""
    made = server.make(TOPIC, "t", spec={"partitions": 1}, status={"phase": "forged"})
    assert "status" not in made and made["metadata"]["generation"] == 1
    told = server.ask(
        "PUT", TOPIC, "t", made | {"status": {"phase": "Ready"}, "spec": {"partitions": 9}}, subresource="status"
    )
    assert (told["status"], told["spec"], told["metadata"]["generation"]) == ({"phase": "Ready"}, {"partitions": 1}, 1)
    grown = server.ask("PUT", TOPIC, "t", told | {"spec": {"partitions": 2}, "status": {}})
    assert (grown["status"], grown["metadata"]["generation"]) == ({"phase": "Ready"}, 2)


def test_a_merge_patch(server: Server) -> None:
    """RFC 7386."""
    made = server.make(TOPIC, "t", spec={"partitions": 1, "config": {"a": "1", "b": "2"}})
    patched = server.ask("PATCH", TOPIC, "t", {"spec": {"config": {"a": None, "c": "3"}}})
    assert patched["spec"] == {"partitions": 1, "config": {"b": "2", "c": "3"}}
    version = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    with refused(409, "Conflict"):
        server.ask("PATCH", TOPIC, "t", version | {"spec": {"partitions": 2}})


def test_a_deletion_waits_for_finalizers(server: Server) -> None:
    made = server.make(TOPIC, "t", metadata={"finalizers": ["minikafka.dev/topic"]})
    with refused(409, "Conflict"):
        server.ask("DELETE", TOPIC, "t", {"preconditions": {"uid": "another's"}})
    going = server.ask("DELETE", TOPIC, "t", {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert "deletionTimestamp" in going["metadata"] or "deletionTimestamp" in server.ask("GET", TOPIC, "t")["metadata"]
    server.ask("PATCH", TOPIC, "t", {"metadata": {"finalizers": None}})
    with refused(404, "NotFound"):
        server.ask("GET", TOPIC, "t")
    assert [change.type for change in server.told] == ["ADDED", "MODIFIED", "DELETED"]
    assert server.make(TOPIC, "t")["metadata"]["uid"] != made["metadata"]["uid"]


def test_lists_and_watches_select(server: Server) -> None:
    for name, cluster in (("a", "one"), ("b", "two"), ("c", "one")):
        server.make(TOPIC, name, spec={"clusterRef": {"name": cluster}})
    server.make(CONFIG_MAP, "m")
    mine = "spec.clusterRef.name=one"
    listing = server.ask("GET", TOPIC, selector=mine)
    assert [value["metadata"]["name"] for value in listing["items"]] == ["a", "c"]
    version = int(listing["metadata"]["resourceVersion"])
    assert server.api.after(version, "minikafkatopics", mine) == []
    server.ask("PATCH", TOPIC, "c", {"spec": {"partitions": 2}})
    server.ask("DELETE", TOPIC, "b", {})
    server.ask("DELETE", TOPIC, "a", {})
    told = [
        (change.type, change.object["metadata"]["name"]) for change in server.api.after(version, TOPIC.plural, mine)
    ]
    assert told == [("MODIFIED", "c"), ("DELETED", "a")]
    assert [change.type for change in server.api.after(0, TOPIC.plural, "metadata.name=a")] == ["ADDED", "DELETED"]
