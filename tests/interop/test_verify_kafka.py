"""`minikafka verify` judges a cluster that is not ours: three brokers of Apache Kafka (KRaft), one of which is killed.

What it finds is true of Kafka, or the verifier is wrong: with ``acks=all`` a leader that is killed costs nothing; with
``acks=1`` what the leader acknowledged before anybody had copied it is gone.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from minikafka.local.ports import free_base_port

from bench.apache_kafka import NODES, ApacheKafka
from tests.waiting import until_now

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("kafka_tools"), pytest.mark.timeout(1200)]

SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""A dead broker is fenced after three seconds, not nine: what is told here is the same, and sooner."""
SECONDS_MIN, SECONDS_MAX = 30.0, 240.0
"""How long verify sends: a leader dies within the first few, and the next one has to take over in what is left. On a slow
machine that is longer than here, and so is the start of Kafka's three nodes, which is measured."""
STARTS = 3
"""As many times as long as that start it sends."""
ENDS_SECONDS_MAX = 600
SOON_S = 180.0


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    cluster = ApacheKafka(tmp_path / "kafka", free_base_port(NODES), SETTINGS)
    try:
        yield cluster
    finally:
        for node in cluster.ids:
            cluster.resume(node)
        cluster.destroy()


@pytest.fixture
def seconds(kafka: ApacheKafka) -> float:
    """Kafka is up; how long verify is to send on this machine."""
    return min(SECONDS_MAX, max(SECONDS_MIN, STARTS * kafka.up()))


class Verify:
    """`minikafka verify` at work, and what its history has by now."""

    def __init__(self, process: subprocess.Popen[str], out: Path, bootstrap: str) -> None:
        self._process = process
        self._history = out / "history.jsonl"
        self._read_bytes = 0
        self._acknowledged: Counter[int] = Counter()
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 20_000})

    def acknowledged(self, partition: int) -> int:
        """The history's own figure, of the partition; it lags by what its writer has not flushed yet."""
        if self._history.exists():
            with self._history.open("rb") as file:
                file.seek(self._read_bytes)
                for line in itertools.takewhile(lambda line: line.endswith(b"\n"), file):
                    self._read_bytes += len(line)
                    if b'"ok"' in line and (told := json.loads(line))["op"] == "send":
                        self._acknowledged[told["partition"]] += 1
        return self._acknowledged[partition]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            assert self._process.poll() is None, f"verify ended before {what}: {self._process.communicate()}"
            return condition()

        until_now(holds, what=what, seconds=SOON_S)

    def until_acknowledged(self, more: int, partition: int = 0) -> None:
        wanted = self.acknowledged(partition) + more
        self.until(lambda: self.acknowledged(partition) >= wanted, f"{more} more are acknowledged")

    def leader(self) -> int:
        """Of partition 0 of its topic, as some broker tells; -1 while there is none."""
        return int(self._topic().partitions[0].leader)

    def replicas(self) -> list[int]:
        return list(self._topic().partitions[0].replicas)

    def _topic(self) -> Any:
        topics = self._admin.list_topics(timeout=60).topics
        return next(topic for name, topic in topics.items() if name.startswith("minikafka-verify-"))

    def ended(self) -> tuple[int, dict[str, Any]]:
        """The exit code and the verdict."""
        printed, complained = self._process.communicate(timeout=ENDS_SECONDS_MAX)
        assert printed, complained
        return self._process.returncode, json.loads(printed)

    def topics_left(self) -> list[str]:
        return [name for name in self._admin.list_topics(timeout=60).topics if name.startswith("minikafka-verify-")]


def minikafka(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "minikafka.cli", "verify", *arguments]


@contextmanager
def verify(kafka: ApacheKafka, seconds: float, out: Path, *options: str) -> Iterator[Verify]:
    command = minikafka(
        *("--bootstrap", kafka.bootstrap, "--seconds", str(seconds), "--read-deadline", "300"),
        *("--json", "--out", str(out), *options),
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield Verify(process, out, kafka.bootstrap)
    finally:
        process.kill()
        process.wait()


def judged_again(out: Path) -> tuple[int, dict[str, Any]]:
    """By the history alone: no cluster is asked."""
    command = minikafka("--history", str(out / "history.jsonl"), "--json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_SECONDS_MAX, check=False)
    return done.returncode, json.loads(done.stdout)


def test_a_leader_that_is_killed_costs_nothing_with_acks_all(
    kafka: ApacheKafka, seconds: float, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with verify(kafka, seconds, out, "--topic-config", "min.insync.replicas=2") as run:
        run.until_acknowledged(500)
        killed = run.leader()
        kafka.kill(killed)
        run.until(lambda: run.leader() not in (-1, killed), "another broker leads")
        run.until_acknowledged(500)
        kafka.start(killed)
        code, verdict = run.ended()
        until_now(lambda: not run.topics_left(), what="the topic that verify made is gone", seconds=SOON_S)
    assert (code, verdict["verdict"]) == (0, "Passed"), verdict["summary"]
    counts = verdict["counts"]
    assert counts["lost"] == 0 and counts["read"] >= counts["acknowledged"] >= 1000
    # It sees a cluster from outside only, and says so.
    assert counts["replicas_compared"] is None
    replicas = {
        "claim": "in-sync replicas are whole and alike",
        "held": None,
        "detail": "no access to the replicas' logs",
    }
    assert replicas in verdict["claims"]
    assert judged_again(out) == (0, verdict)


def test_what_only_the_leader_had_is_lost_with_acks_1(kafka: ApacheKafka, seconds: float, tmp_path: Path) -> None:
    """Both followers stand still while the leader acknowledges. As they are the other two controllers, nobody can be fenced
    meanwhile: they are in sync by the metadata when the leader is killed, and one of them leads without these records."""
    out = tmp_path / "out"
    with verify(kafka, seconds, out, "--acks", "1", "--partitions", "1") as run:
        run.until_acknowledged(500)
        killed = run.leader()
        followers = [node for node in run.replicas() if node != killed]
        for node in followers:
            kafka.pause(node)
        run.until_acknowledged(1000)
        kafka.kill(killed)
        for node in followers:
            kafka.resume(node)
        run.until(lambda: run.leader() in followers, "a follower leads")
        run.until_acknowledged(500)
        code, verdict = run.ended()
    assert (code, verdict["verdict"]) == (1, "Failed"), verdict["summary"]
    assert verdict["counts"]["lost"] >= 500
    assert judged_again(out) == (1, verdict)
