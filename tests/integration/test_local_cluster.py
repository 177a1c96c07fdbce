"""LocalCluster: processes are started, known again, broken and stopped. With stub brokers, which start quickly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from minikafka.local import process
from minikafka.local.cluster import LocalCluster
from minikafka.local.errors import BadRequest, BrokerFailed, ClusterError, PortInUse
from minikafka.local.ports import free_base_port

from tests.waiting import until_now

STUB = (sys.executable, "-IS", str(Path(__file__).with_name("stub_broker.py")), "broker", "--config")


@pytest.fixture(autouse=True)
def _any_config() -> Iterator[None]:
    """The stub has settings that a broker does not know."""
    with patch.object(LocalCluster, "_check_config"):
        yield


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "data", STUB)
    yield cluster
    if cluster.exists:
        cluster.down(timeout=1)


def up(cluster: LocalCluster, brokers: int = 2, **config: str) -> int:
    base = free_base_port(brokers)
    cluster.up(brokers, base, {key.replace("_", "."): value for key, value in config.items()}, timeout=60)
    return base


def alive(pid: int) -> bool:
    return process.state(pid) not in (None, "Z", "X")


def test_up_starts_all_and_tells_where(cluster: LocalCluster) -> None:
    base = up(cluster)
    info = cluster.info()
    assert info.bootstrap == f"127.0.0.1:{base},127.0.0.1:{base + 1}"
    assert [(b.id, b.port, b.metrics_port) for b in info.brokers] == [
        (1, base, base + 1000),
        (2, base + 1, base + 1001),
    ]
    assert all(b.pid and alive(b.pid) for b in info.brokers)
    assert info.as_json()["brokers"][0].keys() == {
        "id",
        "pid",
        "port",
        "replication_port",
        "metrics_port",
        "data_dir",
    }
    assert (cluster.data / "broker-1" / "pid").read_text() == f"{info.brokers[0].pid}\n"
    assert cluster.state(1) == "up"


def test_up_again_starts_only_the_dead(cluster: LocalCluster) -> None:
    up(cluster)
    before = cluster.info()
    cluster.kill(2)
    assert cluster.pid(2) is None
    assert cluster.state(2) == "down"
    after = LocalCluster(cluster.data, STUB).up()
    assert after.brokers[0] == before.brokers[0]
    assert after.brokers[1].pid not in (None, before.brokers[1].pid)
    assert after.cluster_id == before.cluster_id


def test_up_refuses_what_contradicts_the_record(cluster: LocalCluster) -> None:
    up(cluster)
    record = (cluster.data / "cluster.json").read_text()
    contradictions: list[tuple[dict[str, Any], str]] = [
        ({"brokers": 5}, "brokers: .* was made with 2, not 5"),
        ({"base_port": 1234}, "base port: .* was made with .*, not 1234"),
        ({"racks": ["a", "b"]}, "racks: .* was made with none, not a,b"),
        ({"unflushed": False}, "unflushed directory: .* was made with one, not none"),
        ({"proxied": ["REPLICATION"]}, "proxied listeners: .* was made with none, not REPLICATION"),
        ({"config": {"num.partitions": "7"}}, "brokers are running with another configuration"),
        ({"config": {"node.id": "7"}}, "node.id differs between the brokers"),
    ]
    for asked, line in contradictions:
        with pytest.raises(BadRequest, match=line):
            cluster.up(**asked)
        assert (cluster.data / "cluster.json").read_text() == record


def test_config_can_change_while_down_and_is_remembered(cluster: LocalCluster) -> None:
    up(cluster, num_partitions="3")
    cluster.down()
    cluster.up(config={"min.insync.replicas": "1"})
    properties = (cluster.data / "broker-1" / "broker.properties").read_text()
    assert "num.partitions=3\n" in properties
    assert "min.insync.replicas=1\n" in properties


@pytest.mark.parametrize("arguments", [{"brokers": 0}, {"brokers": 1000}, {"base_port": 0}, {"base_port": 65000}])
def test_bad_numbers_leave_no_trace(cluster: LocalCluster, arguments: dict[str, int]) -> None:
    with pytest.raises(BadRequest):
        cluster.up(**arguments)  # type: ignore[arg-type]
    assert not cluster.data.exists()


def test_a_directory_of_something_else_is_left_alone(cluster: LocalCluster) -> None:
    (cluster.data / "broker-1").mkdir(parents=True)
    with pytest.raises(BadRequest, match=r"no cluster\.json"):
        cluster.up(1)
    with pytest.raises(BadRequest, match="has no cluster"):
        cluster.down()


@pytest.mark.parametrize("offset", [0, 1000, 1])
def test_a_port_in_use_is_named_with_its_process_and_nothing_is_started(cluster: LocalCluster, offset: int) -> None:
    base = free_base_port(2)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", base + offset))
        taken.listen()
        with pytest.raises(PortInUse, match=rf"port {base + offset} is in use by process {os.getpid()} \("):
            cluster.up(2, base)
    assert not cluster.exists


def test_a_broker_that_ends_at_once_is_reported_with_its_last_words(cluster: LocalCluster) -> None:
    with pytest.raises(BrokerFailed, match=r"exited with code 7: the stub was told to end .*broker\.log"):
        up(cluster, stub_exit="7")
    assert [broker.pid for broker in cluster.info().brokers] == [None, None]


def test_a_stale_pid_gets_no_signal(cluster: LocalCluster) -> None:
    """The kernel gave the number to another process: it must live, and count as no broker."""
    up(cluster, 1)
    cluster.kill(1)
    with subprocess.Popen(["sleep", "60"]) as other:
        record = cluster.data / "broker-1" / "process.json"
        try:
            record.write_text(json.dumps({"pid": other.pid, "start_ticks": process.start_ticks(other.pid)}))
            assert cluster.pid(1) is None
            assert cluster.down() == []
            with pytest.raises(ClusterError, match="does not run"):
                cluster.kill(1)
            assert other.poll() is None
        finally:
            other.kill()


def test_a_reused_pid_of_the_same_command_is_told_by_its_start_time(cluster: LocalCluster) -> None:
    up(cluster, 1)
    pid = cluster.pid(1)
    assert pid is not None
    record = cluster.data / "broker-1" / "process.json"
    ticks = json.loads(record.read_text())["start_ticks"]
    record.write_text(json.dumps({"pid": pid, "start_ticks": ticks - 1}))
    assert cluster.pid(1) is None
    assert alive(pid)
    cluster.up()  # finds the broker that runs on this data by its command line, and starts no second one
    assert cluster.pid(1) == pid


def test_a_garbage_pid_file_is_no_process(cluster: LocalCluster) -> None:
    up(cluster, 1)
    for garbage in ("", "{", '{"pid": "x"}', "[]", '{"pid": -5, "start_ticks": 1}'):
        (cluster.data / "broker-1" / "process.json").write_text(garbage)
        assert cluster.pid(1) is None, garbage


def test_down_kills_what_does_not_go(cluster: LocalCluster) -> None:
    up(cluster, stub_stubborn="true")
    pids = [broker.pid for broker in cluster.info().brokers]
    started = time.monotonic()
    assert cluster.down(timeout=0.3) == [1, 2]
    assert time.monotonic() - started < 30
    assert not any(alive(pid) for pid in pids if pid)
    assert not (cluster.data / "broker-1" / "pid").exists()
    assert cluster.down() == []


def test_pause_resume_and_clean_end_of_a_paused_broker(cluster: LocalCluster) -> None:
    up(cluster, 1)
    cluster.pause(1)
    assert cluster.state(1) == "paused"
    cluster.resume(1)
    cluster.wait_ready(60)
    cluster.pause(1)
    cluster.terminate(1, timeout=60)
    assert cluster.state(1) == "down"
    for verb in (cluster.kill, cluster.pause, cluster.resume, cluster.terminate):
        with pytest.raises(ClusterError, match="broker 1 does not run"):
            verb(1)


def test_unknown_brokers_are_named(cluster: LocalCluster) -> None:
    up(cluster)
    for verb in (cluster.kill, cluster.start, cluster.broker, cluster.wipe_volume):
        with pytest.raises(BadRequest, match="broker 3 does not exist: this cluster has brokers 1 to 2"):
            verb(3)


def test_wiping_needs_a_dead_broker_and_keeps_the_flight_recorder(cluster: LocalCluster) -> None:
    up(cluster, 1)
    info = cluster.broker(1)
    assert info.unflushed_dir is not None
    data, unflushed, events = Path(info.data_dir), Path(info.unflushed_dir), Path(info.events_path)
    for folder in (data, unflushed):
        (folder / "t-0").mkdir()
        (folder / "t-0" / "file").write_text("x")
    events.write_text("{}\n")
    with pytest.raises(ClusterError, match="only while it is down"):
        cluster.wipe_unflushed(1)
    cluster.kill(1)
    cluster.wipe_unflushed(1)
    assert not list(unflushed.iterdir())
    assert list(data.iterdir())
    cluster.wipe_volume(1)
    assert not list(data.iterdir())
    assert events.exists()
    cluster.start(1)
    cluster.wait_ready(60, [1])


def test_without_an_unflushed_dir_its_loss_is_refused(cluster: LocalCluster) -> None:
    cluster.up(1, free_base_port(1), unflushed=False)
    cluster.kill(1)
    with pytest.raises(ClusterError, match="no unflushed directory"):
        cluster.wipe_unflushed(1)


def test_racks_are_dealt_round(cluster: LocalCluster) -> None:
    cluster.up(3, free_base_port(3), racks=["a", "b"])
    assert [broker.rack for broker in cluster.info().brokers] == ["a", "b", "a"]
    assert "broker.rack=b\n" in (cluster.data / "broker-2" / "broker.properties").read_text()


def test_brokers_survive_ctrl_c_of_the_terminal_that_started_them(cluster: LocalCluster) -> None:
    up(cluster, 1)
    pid = cluster.pid(1)
    assert pid is not None
    assert os.getsid(pid) == pid
    assert os.getpgid(pid) != os.getpgid(0)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_paused_broker_is_left_alone_and_told(cluster: LocalCluster) -> None:
    up(cluster)
    cluster.pause(2)
    with pytest.raises(BrokerFailed, match=rf"broker 2 is paused \(kill -CONT {cluster.pid(2)} resumes it\)"):
        cluster.up()
    assert cluster.state(1) == "up"
    assert cluster.state(2) == "paused"
    cluster.resume(2)
    cluster.up()


def test_ports_are_given_once_while_their_holder_lives() -> None:
    """Two runs of tests side by side: the ports of a broker that is down for the moment belong to its cluster still."""
    ask = "import random, sys; from minikafka.local.ports import free_base_port as f; print(f(3, random.Random(7)), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{ask}; sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        first = holder.stdout.readline()
        twice = [subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout for _ in range(2)]
        holder.communicate("")
    assert first.strip().isdigit()
    assert first not in twice
    assert twice[0] == twice[1], "and are free again when it is gone"


WORKER = """
import sys, time
from pathlib import Path
from minikafka.local.ports import free_base_port
from tests.clusters import tied_cluster
cluster = tied_cluster(Path(sys.argv[1]))
cluster.up(1, free_base_port(1), timeout=120)
print(cluster.pid(1), flush=True)
time.sleep(600)
"""
"""What a worker of pytest-xdist does, as far as its clusters go."""


def test_the_clusters_of_tests_end_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", WORKER, str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as worker:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        worker.kill()
    until_now(lambda: not alive(int(line)), what=f"broker {line} has ended")


def test_the_shared_clusters_brokers_end_with_the_tests(shared_cluster: LocalCluster) -> None:
    pids = [broker.pid for broker in shared_cluster.info().brokers]
    assert ["--while-stdin" in process.command_line(pid or 0) for pid in pids] == [True] * 3
