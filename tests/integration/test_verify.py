"""`minikafka verify` against a running cluster: a load over the Kafka protocol, and a verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from minikafka.cli.main import main
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import free_base_port


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "cluster")
    cluster.up(3, free_base_port(3))
    yield cluster
    cluster.down()


def topics(bootstrap: str) -> set[str]:
    from confluent_kafka.admin import AdminClient

    names = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    return {name for name in names if not name.startswith("__")}


def test_a_healthy_cluster_passes_and_is_left_as_it_was(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["verify", "--bootstrap", cluster.bootstrap, "--seconds", "2", "--idempotence", "--json"]
    assert main([*arguments, "--out", str(out)]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["verdict"] == "Passed"
    assert verdict["counts"]["acknowledged"] > 500
    assert verdict["counts"]["duplicated"] == 0
    assert json.loads((out / "verdict.json").read_text()) == verdict
    assert topics(cluster.bootstrap) == set()
    assert main(["verify", "--history", str(out / "history.jsonl")]) == 0
    assert main([*arguments, "--out", str(out)]) == 2  # never two runs in one history


def test_acks_0_proves_nothing(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["verify", "--bootstrap", cluster.bootstrap, "--acks", "0", "--seconds", "1", "--json"]
    assert main(arguments) == 3
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["verdict"] == "Inconclusive"
    assert verdict["counts"]["unknown_but_there"] > 0
