"""`minikafka up` and `minikafka down` with real brokers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import free_base_port

from tests.forms import in_full
from tests.waiting import until_now

READY = ("--timeout", "120")


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data directory; what runs on it at the end is brought down."""
    folder = tmp_path / "data"
    yield folder
    cluster = LocalCluster(folder)
    if cluster.exists:
        cluster.down(timeout=5)


def up(cli: Any, data: Path, *arguments: object) -> dict[str, Any]:
    done = cli("up", "--data", data, "--detach", "--json", *READY, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    return dict(json.loads(done.stdout))


def test_up_down_and_up_again(run_cli: Any, call_cli: Any, data: Path) -> None:
    base = free_base_port(3)
    shown = up(run_cli, data, "--base-port", base)
    assert shown["bootstrap"] == ",".join(f"127.0.0.1:{base + n}" for n in range(3))
    assert [(b["id"], b["port"], b["metrics_port"]) for b in shown["brokers"]] == [
        (n + 1, base + n, base + 1000 + n) for n in range(3)
    ]
    assert all(Path(broker["data_dir"]).is_dir() for broker in shown["brokers"])
    at = ("--bootstrap", shown["bootstrap"])
    call_cli("topic", "create", "bank", *at)
    assert call_cli("produce", "bank", "--data", data, stdin="a\nb\n").returncode == 0
    status = call_cli("status", "--data", data, "--json")
    assert (status.returncode, json.loads(status.stdout)["cluster_id"]) == (0, shown["cluster_id"])

    assert up(call_cli, data) == shown  # already up: the same, and nothing was started
    os.kill(shown["brokers"][1]["pid"], signal.SIGKILL)
    until_now(lambda: LocalCluster(data).state(2) == "down")
    again = up(call_cli, data)
    assert [again["brokers"][n]["pid"] == shown["brokers"][n]["pid"] for n in range(3)] == [True, False, True]

    down = run_cli("down", "--data", data, "--json", "--timeout", 120)
    assert (down.returncode, down.stderr) == (0, "")
    assert json.loads(down.stdout) == {"stopped": [1, 2, 3], "killed": []}
    assert call_cli("status", *at).returncode == 3
    twice = call_cli("down", "--data", data)
    assert (twice.returncode, twice.stdout) == (0, "no broker was running\n")

    up(call_cli, data)
    assert call_cli("consume", "bank", "--from-beginning", "--until-end", *at).stdout == "a\nb\n"


def test_clients_need_tls_and_a_login(call_cli: Any, data: Path) -> None:
    """Commands on the folder, and the verbs, are let in."""
    base = free_base_port(1)
    shown = up(call_cli, data, "--brokers", 1, "--base-port", base, "--tls", "--user", "alice=secret")
    assert (shown["security_protocol"], shown["ca_path"]) == ("SASL_SSL", str(data / "ca.pem"))
    assert call_cli("topic", "create", "bank", "--data", data).returncode == 0
    login = {
        "bootstrap.servers": shown["bootstrap"],
        "security.protocol": shown["security_protocol"],
        "ssl.ca.location": shown["ca_path"],
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
        "log_level": 0,
    }
    producer = Producer(login)
    producer.produce("bank", "a")
    assert producer.flush(60) == 0
    for verb in (("kill", 1), ("heal",)):
        assert call_cli("chaos", *verb, "--data", data).returncode == 0
    assert call_cli("consume", "bank", "--from-beginning", "--until-end", "--data", data).stdout == "a\n"
    judged = call_cli("verify", "--data", data)
    assert (judged.returncode, judged.stdout[:7]) == (0, "Passed:")
    stranger = call_cli("status", "--bootstrap", shown["bootstrap"])
    assert (stranger.returncode, stranger.stderr.count("\n")) == (3, 1)


def test_up_refuses_in_one_line(call_cli: Any, data: Path) -> None:
    base = free_base_port(2)
    up(call_cli, data, "--brokers", 1, "--base-port", base)
    for arguments, line in (
        (("--brokers", 2), f"brokers: {data} was made with 1, not 2"),
        (("--base-port", base + 1), f"base port: {data} was made with {base}, not {base + 1}"),
        (("--config", "num.partitions=4"), "brokers are running with another configuration"),
        (("--racks", "a"), "racks"),
        (("--no-unflushed-dir",), "unflushed directory"),
        (("--tls",), f"--tls: {data} has a cluster already: use a new --data"),
    ):
        done = call_cli("up", "--data", data, "--detach", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert line in done.stderr
    other = call_cli("up", "--data", data.with_name("other"), "--detach", "--base-port", base)
    assert other.returncode == 1
    assert f"port {base} is in use by process {LocalCluster(data).pid(1)} (" in other.stderr


@pytest.mark.full
def test_config_and_racks_reach_the_brokers(run_cli: Any, data: Path) -> None:
    shown = up(
        run_cli,
        data,
        "--base-port",
        free_base_port(3),
        "--config",
        "num.partitions=5",
        "--racks",
        "a,b,c",
        "--brokers",
        3,
    )
    at = ("--bootstrap", shown["bootstrap"])
    run_cli("topic", "create", "t", *at)
    status = json.loads(run_cli("status", "--json", *at).stdout)
    assert len(status["partitions"]) == 5
    assert [broker["rack"] for broker in status["brokers"]] == ["a", "b", "c"]


def foreground(data: Path, *arguments: object) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """`up` in the foreground, and what it printed when all were ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "minikafka.cli", "up", "--data", str(data), "--json", *READY, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGINT, *in_full([signal.SIGTERM, signal.SIGHUP])])
def test_the_foreground_brings_them_down_at_the_end(data: Path, number: signal.Signals) -> None:
    process, shown = foreground(data, "--brokers", 1, "--base-port", free_base_port(1))
    assert LocalCluster(data).pid(1) == shown["brokers"][0]["pid"]
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert LocalCluster(data).pid(1) is None


def test_the_foreground_also_brings_down_what_ran_before(call_cli: Any, data: Path) -> None:
    before = up(call_cli, data, "--brokers", 1, "--base-port", free_base_port(1))
    process, shown = foreground(data)
    assert shown == before
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert LocalCluster(data).pid(1) is None


def test_the_foreground_ends_when_down_has_stopped_its_brokers(call_cli: Any, data: Path) -> None:
    """With its proxy and its control port; brokers that die otherwise may come back."""
    process, shown = foreground(data, "--brokers", 1, "--base-port", free_base_port(1), "--control", 0)
    assert (data / "control.json").exists()
    os.kill(shown["brokers"][0]["pid"], signal.SIGKILL)
    call_cli("chaos", "heal", "--data", data)
    assert process.poll() is None
    assert call_cli("down", "--data", data).stdout == "stopped 1 broker(s)\n"
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert not (data / "control.json").exists()


def test_nobody_heals_brokers_whose_proxy_was_killed(call_cli: Any, data: Path) -> None:
    """They look ready for a moment again and again, and hear nothing of each other."""
    process, _ = foreground(data, "--brokers", 1, "--base-port", free_base_port(1), "--control", 0)
    process.kill()
    process.communicate(timeout=120)
    healed = call_cli("chaos", "heal", "--data", data)
    assert (healed.returncode, healed.stdout, healed.stderr.count("\n")) == (3, "", 1)
    assert "the proxy between the brokers has ended" in healed.stderr
    judged = call_cli("verify", "--data", data)
    assert (judged.returncode, judged.stdout[:44]) == (3, "Error: the proxy between the brokers has end")
    call_cli("down", "--data", data)


def test_an_interrupted_start_leaves_nothing_behind(data: Path, until: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "minikafka.cli", "up", "--data", str(data), "--base-port", str(free_base_port(3))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until((data / "broker-1" / "pid").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode in (0, 130)  # 0 when they were ready by then
    assert [broker.pid for broker in LocalCluster(data).info().brokers] == [None, None, None]


def test_a_broker_refuses_a_bad_file_in_one_line(call_cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("node.id=1\nno.such.key=1\n")
    done = call_cli("broker", "--config", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no.such.key" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_in_the_foreground_ends_cleanly(tmp_path: Path, until: Any) -> None:
    port = free_base_port(1)
    file = tmp_path / "broker.properties"
    file.write_text(
        f"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path}/data\n"
        f"minikafka.metadata.store=sqlite:{tmp_path}/metadata.sqlite\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "minikafka.cli", "broker", "--config", str(file), "--override", "num.partitions=2"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def accepts() -> bool:
        assert process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(accepts)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0
        assert "Traceback" not in err
    finally:
        process.kill()
