"""`minikafka up --control`, broken by hand from another program, and judged."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from minikafka.cli.main import main
from minikafka.local.ports import free_base_port
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.watch.live import LiveCluster
from minikafka_chaos.watch.recording import Recording

SECONDS = 120.0
Until = Callable[..., Any]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[str]:
    """Bootstrap addresses of a cluster with a control port."""
    command = (
        sys.executable,
        "-m",
        "minikafka.cli",
        "up",
        "--data",
        str(tmp_path),
        "--base-port",
        str(free_base_port(3)),
        "--control",
        "0",
        "--json",
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            line = program.stdout.readline()
            assert line, "it has ended"
            yield json.loads(line)["bootstrap"]
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(SECONDS)


def chaos(data: Path, *arguments: str) -> int:
    return main(["chaos", *arguments, "--data", str(data)])


def see_what_is_broken(data: Path, until: Until) -> None:
    """`minikafka watch` finds the brokers' files and metrics, and what was done to them."""
    cluster, watched = LiveCluster(data), Recording()

    def first_answers() -> bool:
        watched.take_all([*cluster.read_files(), *cluster.ask_brokers()])
        first = watched.newest.broker(1)
        return first.condition.value == "up" and not first.silent

    try:
        until(first_answers, lambda answers: answers)
    finally:
        cluster.close()
    brokers = {broker: watched.newest.broker(broker) for broker in watched.newest.brokers}
    assert {broker: each.condition.value for broker, each in brokers.items()} == {1: "up", 2: "dead", 3: "paused"}
    assert (brokers[1].faults, brokers[1].silent, brokers[2].silent) == (("Cut",), False, True)
    orders = TopicPartition("orders", 0)
    assert watched.newest.partition(orders).leader in (1, 2, 3)
    assert [each.log_end for _, each in watched.newest.replicas(orders)] == [1, 1, 1]


def test_a_session_that_a_person_has_broken_is_judged(
    up: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], until: Until
) -> None:
    assert main(["topic", "create", "orders", "--bootstrap", up]) == 0
    producer = Producer({"bootstrap.servers": up, "log_level": 0})
    producer.produce("orders", "a")
    assert producer.flush(SECONDS) == 0
    assert chaos(tmp_path, "cut", "1", "2") == 0
    assert chaos(tmp_path, "pause", "3") == 0
    assert chaos(tmp_path, "kill", "2") == 0
    capsys.readouterr()
    assert chaos(tmp_path, "status", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["condition"] for each in told] == ["running", "dead", "paused"]
    see_what_is_broken(tmp_path, until)
    assert chaos(tmp_path, "kill", "2") == 2
    assert "broker 2 is dead" in capsys.readouterr().err
    assert main(["verify", "--data", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["acknowledged"] == 1
    journal = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    done = [line["fault"] for line in journal if line["kind"] == "action" and line["phase"] == "end"]
    assert done[:3] == ["Cut", "Pause", "Kill"]


def test_data_without_a_cluster_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos(tmp_path, "kill", "1") == 2
    assert main(["verify", "--data", str(tmp_path)]) == 2
    assert "has no cluster" in capsys.readouterr().err
