"""`minikafka produce` and `minikafka consume` on three brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from minikafka.local.cluster import LocalCluster

from tests.forms import in_full
from tests.processes import thread_names


class Client:
    """The two commands against one topic of one cluster."""

    def __init__(self, cluster: LocalCluster, call_cli: Any, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self._call_cli = call_cli

    def cli(self, command: str, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        at = ("--bootstrap", self.cluster.bootstrap)
        return self._call_cli(command, *arguments, *at, stdin=stdin)  # type: ignore[no-any-return]

    def produce(self, lines: str, *arguments: object) -> dict[str, Any]:
        done = self.cli("produce", self.topic, "--json", *arguments, stdin=lines)
        assert (done.returncode, done.stderr) == (0, "")
        return dict(json.loads(done.stdout))

    def consume(self, *arguments: object) -> str:
        done = self.cli("consume", self.topic, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def records(self, *arguments: object) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.consume("--json", *arguments).splitlines()]


@pytest.fixture
def client(shared_cluster: LocalCluster, call_cli: Any) -> Client:
    """A fresh topic with two partitions."""
    made = Client(shared_cluster, call_cli, f"r-{uuid.uuid4().hex[:8]}")
    assert made.cli("topic", "create", made.topic, "--partitions", 2).returncode == 0
    return made


ALL = ("--from-beginning", "--until-end")


def test_lines_in_lines_out(client: Client) -> None:
    report = client.produce("a\nb\n\nlast without newline", "--partition", 1)
    assert report | {"seconds": 0} == {
        "topic": client.topic,
        "acks": "all",
        "sent": 4,
        "acknowledged": 4,
        "failed": 0,
        "unknown": 0,
        "errors": {},
        "partitions": [{"partition": 1, "records": 4, "first_offset": 0, "last_offset": 3}],
        "seconds": 0,
    }
    assert client.consume(*ALL) == "a\nb\n\nlast without newline\n"


def test_keys_headers_nulls_and_their_place(client: Client) -> None:
    before = time.time() * 1000
    options = ("--key-separator", ":", "--header", "h=1", "--header", "h=ä", "--null-marker", "NULL")
    client.produce("k1:v1\nk2:x:y\nk1:NULL\n", *options)
    records = {(record["key"], record["value"]): record for record in client.records(*ALL)}
    assert records.keys() == {("k1", "v1"), ("k2", "x:y"), ("k1", None)}
    first, tombstone = records["k1", "v1"], records["k1", None]
    assert first["headers"] == [{"key": "h", "value": "1"}, {"key": "h", "value": "ä"}]
    assert first["partition"] == tombstone["partition"]  # one key, one partition
    assert tombstone["offset"] > first["offset"]
    assert first["leader_epoch"] == 0
    assert first["timestamp_type"] == "CreateTime"
    assert before - 1000 < first["timestamp"] < time.time() * 1000 + 1000
    text = client.consume(*ALL, "--key-separator", "=", "--null-marker", "(null)").splitlines()
    assert sorted(text) == ["k1=(null)", "k1=v1", "k2=x:y"]


@pytest.mark.parametrize("compression", ["none", *in_full(["gzip", "snappy", "lz4"]), "zstd"])
def test_compression(client: Client, compression: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(200))
    client.produce(lines, "--compression", compression, "--partition", 0)
    assert client.consume(*ALL) == lines


@pytest.mark.parametrize("acks", ["0", *in_full(["1", "-1"]), "all"])
def test_acks(client: Client, acks: str, until: Any) -> None:
    report = client.produce("a\nb\n", "--acks", acks)
    assert report["acknowledged"] == (0 if acks == "0" else 2)
    assert until(lambda: sorted(client.consume(*ALL).split()), lambda lines: lines == ["a", "b"])


def test_where_to_start(client: Client) -> None:
    client.produce("0\n1\n2\n3\n4\n", "--partition", 0)
    one = ("--partition", 0, "--until-end")
    assert client.consume(*one, "--offset", 3) == "3\n4\n"
    assert client.consume(*one, "--offset", "-2") == "3\n4\n"
    assert client.consume(*one, "--offset", "-99") == "0\n1\n2\n3\n4\n"
    assert client.consume(*one, "--offset", "earliest", "--max-messages", 2) == "0\n1\n"
    assert client.consume(*one, "--offset", "latest") == ""
    assert client.consume(*one) == ""  # the end, as kafka-console-consumer
    assert client.consume("--partition", 1, "--from-beginning", "--timeout", 0.5) == ""
    beyond = client.cli("consume", client.topic, "--offset", "6", "--partition", 0)
    assert beyond.returncode == 1
    assert f"{client.topic}-0 has offsets 0 to 5, not 6" in beyond.stderr


def test_from_a_time(client: Client) -> None:
    client.produce("old\n", "--partition", 0)
    (old,) = client.records(*ALL)
    client.produce("new\n", "--partition", 0)
    after = old["timestamp"] + 1
    new = client.records(*ALL)[1]
    if new["timestamp"] >= after:
        assert client.consume("--timestamp", after, "--until-end") == "new\n"
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(old["timestamp"] / 1000 - 1))
    assert client.consume("--from-time", moment, "--until-end") == "old\nnew\n"
    assert client.consume("--from-time", "2099-01-01", "--until-end") == ""


def test_what_is_not_there(client: Client) -> None:
    absent = f"{client.topic}-absent"
    done = client.cli("consume", absent)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"minikafka consume: no such topic: {absent}\n")
    for name in ("produce", "consume"):
        done = client.cli(name, client.topic, "--partition", 2, stdin="x\n")
        assert done.returncode == 2
        assert f"topic {client.topic} has partitions 0 to 1, not 2" in done.stderr


def test_produce_makes_the_topic_only_where_brokers_do(client: Client, make_cluster: Any, call_cli: Any) -> None:
    made = client.cli("produce", f"{client.topic}-new", stdin="x\n")  # auto.create.topics.enable is true in Kafka
    assert made.returncode == 0, made.stderr
    strict: LocalCluster = make_cluster(brokers=1, config={"auto.create.topics.enable": "false"})
    done = call_cli("produce", "absent", "--bootstrap", strict.bootstrap, stdin="x\n")
    assert (done.returncode, done.stderr) == (1, "minikafka produce: no such topic: absent\n")


def test_a_line_without_key_stops_there(client: Client) -> None:
    done = client.cli("produce", client.topic, "--key-separator", ":", "--json", stdin="a:1\nb\nc:3\n")
    assert done.returncode == 2
    assert "line 2 has no key separator ':'" in done.stderr
    assert json.loads(done.stdout)["acknowledged"] == 1
    assert client.consume(*ALL) == "1\n"


def test_a_record_that_is_too_large_is_not_written(client: Client) -> None:
    done = client.cli(
        "produce",
        client.topic,
        "--json",
        "--client-config",
        "message.max.bytes=4000000",
        stdin="x" * 3_000_000 + "\n",
    )
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert (report["acknowledged"], report["failed"], report["errors"]) == (0, 1, {"MSG_SIZE_TOO_LARGE": 1})
    assert done.stderr.count("\n") == 1


def test_bad_client_configuration_is_bad_input(client: Client) -> None:
    for command in ("produce", "consume"):
        done = client.cli(command, client.topic, "--client-config", "no.such=1")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "no.such" in done.stderr


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_ctrl_c_is_quiet(client: Client, command: str, until: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "minikafka.cli", command, client.topic, "--bootstrap", client.cluster.bootstrap],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: any(name.startswith("rdk:") for name in thread_names(process.pid)))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert out == ""
    assert err == ("" if command == "consume" else err)
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_ctrl_c_in_code_that_an_import_generates(client: Client, command: str, tmp_path: Path) -> None:
    """What named tuples and dataclasses do as they are imported; CPython would end by the signal instead of with 130."""
    (tmp_path / "confluent_kafka.py").write_text("exec('raise KeyboardInterrupt')")
    at = ("--bootstrap", client.cluster.bootstrap)
    done = subprocess.run(
        [sys.executable, "-m", "minikafka.cli", command, client.topic, *at],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_reader_may_go_away(client: Client) -> None:
    client.produce("".join(f"{number}\n" for number in range(5000)))
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "minikafka.cli", "consume", client.topic, "--bootstrap", client.cluster.bootstrap, *ALL],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    os.close(reading)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (141, "")


@pytest.mark.full
def test_not_enough_replicas_is_told(make_cluster: Any, call_cli: Any, until: Any) -> None:
    client = Client(make_cluster(brokers=3), call_cli, "bank")
    created = client.cli(
        "topic", "create", "bank", "--replica-assignment", "1:2:3", "--config", "min.insync.replicas=2"
    )
    assert created.returncode == 0
    client.cluster.kill(2)
    client.cluster.kill(3)

    def alone(done: subprocess.CompletedProcess[str]) -> bool:
        return done.returncode == 0 and json.loads(done.stdout)[0]["partitions"][0]["isr"] == [1]

    until(lambda: client.cli("topic", "describe", "bank", "--json"), alone)
    done = client.cli("produce", "bank", "--json", "--timeout", 2, stdin="a\n")
    report = json.loads(done.stdout)
    assert done.returncode in (1, 3)
    assert (report["acknowledged"], report["failed"] + report["unknown"]) == (0, 1)
    assert done.stderr.count("\n") == 1
    client.cluster.up(timeout=120)
    assert client.produce("b\n")["acknowledged"] == 1
    assert client.consume(*ALL) == "b\n"
