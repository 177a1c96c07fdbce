"""`minikafka verify` against a running cluster: a load over the Kafka protocol, and a verdict."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from minikafka.cli.main import main
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import free_base_port

from tests.clusters import tied_cluster

READ_DEADLINE = ("--read-deadline", "300")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = tied_cluster(tmp_path / "cluster")
    cluster.up(3, free_base_port(3), timeout=120)
    yield cluster
    cluster.down()


def topics(bootstrap: str) -> set[str]:
    names = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    return {name for name in names if not name.startswith("__")}


def test_a_healthy_cluster_passes_and_is_left_as_it_was(
    shared_cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, bootstrap = tmp_path / "out", shared_cluster.bootstrap
    before = topics(bootstrap)  # of other tests, of which some may be on their way out
    arguments = ["verify", "--bootstrap", bootstrap, "--seconds", "2", "--idempotence", "--json"]
    arguments += READ_DEADLINE
    assert main([*arguments, "--out", str(out)]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["verdict"] == "Passed"
    assert verdict["counts"]["acknowledged"] > 100
    assert verdict["counts"]["duplicated"] == 0
    assert json.loads((out / "verdict.json").read_text()) == verdict
    assert topics(bootstrap) <= before
    assert main(["verify", "--history", str(out / "history.jsonl")]) == 0
    assert main([*arguments, "--out", str(out)]) == 2  # never two runs in one history


@pytest.mark.full
def test_acks_0_proves_nothing(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["verify", "--bootstrap", cluster.bootstrap, "--acks", "0", "--seconds", "2", "--json"]
    assert main([*arguments, *READ_DEADLINE]) == 3
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["verdict"] == "Inconclusive"
    assert verdict["counts"]["unknown_but_there"] > 0


def delete_some_records(bootstrap: str, deleted: list[int], over: threading.Event) -> None:
    """As soon as a verify topic holds records, delete the first ones of a partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "deleter"})
    while not deleted and not over.wait(0.05):
        try:
            for name in topics(bootstrap):
                end = consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=10)[1]
                if end > 50:
                    partition = TopicPartition(name, 0, end // 2)
                    deleted.append(admin.delete_records([partition])[partition].result(120).low_watermark)
        except KafkaException:  # the topic has no leader yet, or nobody answered in time
            continue
    consumer.close()


@pytest.mark.full
def test_records_that_somebody_deletes_meanwhile_are_not_passed_over(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The audit: DeleteRecords took 1,114 of 2,423 acknowledged records, and the verdict was Passed, all read back."""
    deleted: list[int] = []
    over = threading.Event()
    deleter = threading.Thread(target=delete_some_records, args=(cluster.bootstrap, deleted, over))
    deleter.start()
    try:
        code = main(["verify", "--bootstrap", cluster.bootstrap, "--seconds", "12", "--json", *READ_DEADLINE])
    finally:
        over.set()
        deleter.join()
    verdict = json.loads(capsys.readouterr().out)
    assert deleted and deleted[0] > 0
    assert (code, verdict["verdict"]) == (3, "Inconclusive"), verdict["summary"]
    assert verdict["counts"]["undecided"] == deleted[0]
    assert "lie below its log start, and nothing tells who moved it" in verdict["summary"]
