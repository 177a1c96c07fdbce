"""`minikafka topic` and `minikafka status` on three brokers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest
from minikafka.local.cluster import LocalCluster

Topic = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def topic(shared_cluster: LocalCluster, call_cli: Any) -> Topic:
    """``topic("create", "name", ...)``"""
    return lambda action, *arguments: call_cli("topic", action, *arguments, "--bootstrap", shared_cluster.bootstrap)


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def described(topic: Topic, name: str) -> dict[str, Any]:
    done = topic("describe", name, "--json")
    assert done.returncode == 0, done.stderr
    (value,) = json.loads(done.stdout)
    return dict(value)


def test_create_describe_list_delete(topic: Topic, name: str) -> None:
    created = topic("create", name, "--partitions", 3, "--replication-factor", 3, "--config", "retention.ms=60000")
    assert (created.returncode, created.stderr) == (0, "")
    assert created.stdout == f"created topic {name}: 3 partition(s), 3 replica(s) each\n"
    value = described(topic, name)
    assert value["config"] == {"retention.ms": "60000"}
    assert [partition["partition"] for partition in value["partitions"]] == [0, 1, 2]
    assert {partition["leader"] for partition in value["partitions"]} == {1, 2, 3}  # R1: leaders spread evenly
    assert all(sorted(partition["replicas"]) == [1, 2, 3] for partition in value["partitions"])
    assert name in topic("list").stdout.splitlines()
    assert "retention.ms=60000" in topic("describe", name).stdout
    deleted = topic("delete", "--topic", name)
    assert (deleted.returncode, deleted.stdout) == (0, f"deleted topic {name}\n")
    assert name not in topic("list").stdout.splitlines()


def test_what_exists_or_not_decides(topic: Topic, name: str) -> None:
    assert topic("create", name).returncode == 0
    again = topic("create", name)
    assert (again.returncode, again.stderr) == (1, f"minikafka topic: topic {name} already exists\n")
    kept = topic("create", name, "--if-not-exists", "--json")
    assert kept.returncode == 0
    assert json.loads(kept.stdout)["created"] is False
    absent = f"{name}-absent"
    for action in ("describe", "delete"):
        done = topic(action, absent)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"minikafka topic: no such topic: {absent}")
    both = topic("delete", name, absent)
    assert both.returncode == 1
    assert name in topic("list").stdout.splitlines()  # nothing is half-done
    assert topic("delete", absent, "--if-exists").returncode == 0


def test_a_given_assignment_is_kept_and_its_first_broker_leads(topic: Topic, name: str) -> None:
    assert topic("create", name, "--replica-assignment", "3:1,2:3,1:2").returncode == 0
    partitions = described(topic, name)["partitions"]
    assert [partition["replicas"] for partition in partitions] == [[3, 1], [2, 3], [1, 2]]
    assert [partition["leader"] for partition in partitions] == [3, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--replication-factor", 4), "INVALID_REPLICATION_FACTOR"),
        (("--replica-assignment", "1:9"), "INVALID_REPLICA_ASSIGNMENT"),
        (("--config", "no.such.setting=1"), "INVALID_CONFIG"),
        (("--config", "min.insync.replicas=none"), "INVALID_CONFIG"),
    ],
)
def test_what_the_brokers_refuse_is_one_line(topic: Topic, name: str, arguments: tuple[Any, ...], error: str) -> None:
    done = topic("create", name, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"minikafka topic: {error}: ")
    assert done.stderr.count("\n") == 1
    assert name not in topic("list").stdout.splitlines()


def test_alter_adds_partitions_and_changes_settings(topic: Topic, name: str) -> None:
    topic("create", name, "--partitions", 1, "--config", "retention.ms=1000", "--config", "min.insync.replicas=1")
    done = topic(
        "alter", name, "--partitions", 3, "--config", "retention.ms=2000", "--delete-config", "min.insync.replicas"
    )
    assert (done.returncode, done.stderr) == (0, "")
    value = described(topic, name)
    assert len(value["partitions"]) == 3
    assert value["config"] == {"retention.ms": "2000"}
    fewer = topic("alter", name, "--partitions", 2)
    assert fewer.returncode == 2
    assert f"{name} has 3 already; partitions can only be added" in fewer.stderr
    assert topic("alter", f"{name}-absent", "--partitions", 2).returncode == 1


def test_status_shows_every_replica(
    shared_cluster: LocalCluster, topic: Topic, call_cli: Any, until: Any, name: str
) -> None:
    topic("create", name, "--partitions", 2)
    call_cli("produce", name, "--partition", 1, "--bootstrap", shared_cluster.bootstrap, stdin="a\nb\nc\n")

    def whole(done: CompletedProcess[str]) -> bool:
        """Every replica is in sync, and every broker answered in time."""
        return done.returncode == 0 and all(broker["error"] is None for broker in json.loads(done.stdout)["brokers"])

    done = until(lambda: call_cli("status", name, "--json", "--check", "--bootstrap", shared_cluster.bootstrap), whole)
    value = json.loads(done.stdout)
    info = shared_cluster.info()
    assert value["cluster_id"] == info.cluster_id
    assert value["healthy"] is True
    assert value["controller"] in (1, 2, 3)
    assert [(b["id"], b["alive"], b["metrics_port"], b["error"]) for b in value["brokers"]] == [
        (broker.id, True, broker.metrics_port, None) for broker in info.brokers
    ]
    empty, written = value["partitions"]
    assert [replica["leo"] for replica in empty["replicas"]] == [0, 0, 0]
    assert [replica["leo"] for replica in written["replicas"]] == [3, 3, 3]
    assert written["leader_epoch"] == 0
    leader = next(replica for replica in written["replicas"] if replica["role"] == "leader")
    assert (leader["broker"], leader["hw"]) == (written["leader"], 3)
    text = until(
        lambda: call_cli("status", name, "--bootstrap", shared_cluster.bootstrap).stdout,
        lambda shown: "\nhealthy: 2 partition(s), all in sync" in shown,
    )
    assert f"{name}-1" in text


def test_status_of_a_cluster_with_a_dead_broker(make_cluster: Any, call_cli: Any, until: Any, name: str) -> None:
    cluster: LocalCluster = make_cluster(brokers=2)
    at = ("--bootstrap", cluster.bootstrap)
    call_cli("topic", "create", f"{name}-a", "--replica-assignment", "1:2", *at)
    call_cli("topic", "create", f"{name}-b", "--replica-assignment", "2", *at)
    cluster.kill(2)

    def look() -> CompletedProcess[str]:
        return call_cli("status", "--json", "--check", *at)  # type: ignore[no-any-return]

    def noticed(done: CompletedProcess[str]) -> bool:
        if not done.stdout:  # nobody answered: not yet
            return False
        replicated, alone = json.loads(done.stdout)["partitions"]
        return bool(replicated["under_replicated"] and alone["offline"])

    done = until(look, noticed)
    assert done.returncode == 1
    value = json.loads(done.stdout)
    assert value["healthy"] is False
    assert {broker["id"]: broker["alive"] for broker in value["brokers"]} == {1: True, 2: False}
    assert (value["brokers"][1]["fenced"], value["brokers"][1]["port"]) == (False, cluster.broker(2).port)
    assert [partition["leader"] for partition in value["partitions"]] == [1, None]
    text = call_cli("status", *at)
    assert text.returncode == 0
    assert "unhealthy: 1 offline" in text.stdout
    for option, ill in (("--unavailable-partitions", f"{name}-b"), ("--under-replicated-partitions", f"{name}-a")):
        found = call_cli("topic", "describe", option, "--json", *at)
        assert ill in [topic["topic"] for topic in json.loads(found.stdout)]
