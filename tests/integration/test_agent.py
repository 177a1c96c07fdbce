"""The agent and the gate with a real broker, and something that starts it again as the kubelet does."""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from minikafka.agent.power_loss import PowerLossMode
from minikafka.cli.main import main
from minikafka.local import process
from minikafka.local.cluster import is_ready
from minikafka.local.layout import ClusterRecord, new_cluster_id, properties, render, write_atomic
from minikafka.local.ports import free_base_port
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.record.observe import ReplicaStatus, scrape_status
from minikafka_chaos.record.replica_logs import ReplicaLog, read_replica_log

from tests.forms import in_full
from tests.waiting import until_now

WHERE = TopicPartition("torn", 0)
FAR = 600
"""Seconds of a fault that is ended by hand."""
SECONDS_MAX = 120


class Kubelet:
    """Runs the broker, and runs it again whenever it ends, until told otherwise. Counts the starts."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._stopping = False
        self.started: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._log.open("ab") as log:
            while not self._stopping:
                self.started.append(subprocess.Popen(self._command, stdout=log, stderr=log))
                self.started[-1].wait()
                time.sleep(0.1)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> None:
        self._stopping = True
        until_now(self._has_ended, what="the thread that starts brokers has ended", seconds=SECONDS_MAX)

    def _has_ended(self) -> bool:
        for number in (signal.SIGKILL, signal.SIGCONT):  # of the last one, which may have been starting a moment ago
            self.started[-1].send_signal(number)
        self._thread.join(0.1)
        return not self._thread.is_alive()


def answer(line: str) -> dict[str, Any]:
    """What a verb said."""
    assert line.count("\n") == 1, line
    found: dict[str, Any] = json.loads(line)
    return found


class Pod:
    """One broker with an unflushed volume, its kubelet, and the agent's verbs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.chaos = root / "chaos"
        self.gate = self.chaos / "gate.json"
        self.config = root / "broker.properties"
        record = ClusterRecord(new_cluster_id(), 1, free_base_port(1))
        (root / "broker-1").mkdir()
        self.config.write_text(render(properties(root, record, 1)))
        self.data, self.unflushed = root / "broker-1" / "data", root / "broker-1" / "unflushed"
        self.metrics_port = record.metrics_port(1)
        self.bootstrap = record.bootstrap
        command = [sys.executable, "-P", "-m", "minikafka.cli", "broker", "--config", str(self.config)]
        self.kubelet = Kubelet([*command, "--gate", str(self.gate)], root / "broker.log")
        self.options = ("--config", str(self.config), "--folder", str(self.chaos))
        self.others: list[subprocess.Popen[bytes]] = []

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-P", "-m", "minikafka.cli", "agent", *map(str, arguments), *self.options]

    def run(self, *arguments: object) -> tuple[int, dict[str, Any]]:
        """One verb, in this process: exit code and answer."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                code = main([str(argument) for argument in ("agent", *arguments, *self.options)])
            except SystemExit as end:  # of what the parser refuses
                code = int(end.code or 0)
        return code, answer(out.getvalue())

    def ask(self, *arguments: object) -> dict[str, Any]:
        """One verb that has to succeed."""
        code, found = self.run(*arguments)
        assert code == 0, found
        return found

    def refused(self, *arguments: object) -> tuple[int, str]:
        """One verb that must not succeed: exit code and reason."""
        code, found = self.run(*arguments)
        assert set(found) == {"error"}, found
        return code, found["error"]

    def serve(self) -> subprocess.Popen[bytes]:
        with (self.root / "agent.log").open("ab") as log:
            self.others.append(subprocess.Popen(self.command("serve"), stderr=log))
        return self.others[-1]

    @property
    def condition(self) -> str:
        return str(self.ask("state")["condition"])

    @property
    def is_ready(self) -> bool:
        return is_ready(self.metrics_port)

    @property
    def waits_at_gate(self) -> bool:
        """Whether the broker that was started last has told that it waits."""
        return self.kubelet.log.rstrip().endswith("nothing is opened before")

    @property
    def replica(self) -> ReplicaStatus:
        return scrape_status(f"http://127.0.0.1:{self.metrics_port}/metrics", WHERE)

    def ends_in(self, seconds: float) -> float:
        """Let the faults that go on end so soon: a machine may be too slow for faults that are short from the start."""
        ends = time.time() + seconds
        for path in (self.gate, self.chaos / "faults.json"):
            if path.exists():
                document = json.loads(path.read_text())
                for each in document.get("faults", [document]):
                    each["until"] = ends
                write_atomic(path, json.dumps(document))
        return ends

    def close(self) -> None:
        for other in self.others:
            other.kill()
            other.wait()
        self.kubelet.stop()


Until = Callable[..., Any]


@pytest.fixture
def pod(tmp_path: Path, until: Until) -> Iterator[Pod]:
    made = Pod(tmp_path)
    try:
        until(lambda: made.is_ready, seconds=SECONDS_MAX)
        yield made
    finally:
        made.close()


def test_killed_and_held_until_released(pod: Pod, until: Until) -> None:
    command = pod.command("kill", "--id", "k1", "--seconds", FAR)  # as the kubelet's exec starts it
    told = answer(subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True).stdout)
    assert (told["stage"], told["repeated"], told["pids"]) == ("active", False, [pod.kubelet.started[0].pid])
    assert pod.kubelet.started[0].wait() == -signal.SIGKILL
    until(lambda: pod.waits_at_gate, seconds=SECONDS_MAX)
    state = pod.ask("state")
    assert state["condition"] == "held"
    assert (state["gate"]["id"], [fault["id"] for fault in state["faults"]]) == ("k1", ["k1"])
    assert not pod.is_ready
    assert not (pod.root / "broker-1" / "events.jsonl").read_text().endswith("broker_starting"), "nothing was opened"

    assert pod.ask("kill", "--id", "k1", "--seconds", FAR)["repeated"], "the same id does it once"
    assert pod.refused("kill", "--id", "k2", "--seconds", FAR)[0] == 3, "who is held cannot be killed"
    assert pod.refused("pause", "--id", "p1", "--seconds", 45)[0] == 3
    assert len(pod.kubelet.started) == 2

    assert pod.ask("release") == {"recovered": ["k1"]}
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    assert len(pod.kubelet.started) == 2, "the one that waited went on"
    assert pod.condition == "running"
    repeated = pod.ask("kill", "--id", "k1", "--seconds", FAR)
    assert (repeated["stage"], repeated["ended_by"]) == ("over", "release"), "also not when it is over"
    assert (
        pod.ask("release")
        == pod.ask("release", "--id", "k1")
        == pod.ask("recover", "--id", "never")
        == {"recovered": []}
    )
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    assert pod.refused("pause", "--id", "k1", "--seconds", 45) == (
        2,
        "--id k1: it was a kill; allowed: an id of its own for each fault",
    )


@pytest.mark.full
def test_terminated_and_held(pod: Pod, until: Until) -> None:
    pod.ask("pause", "--id", "p1", "--seconds", 45)
    told = pod.ask("terminate", "--id", "t1", "--seconds", FAR)
    assert told["stage"] == "active"
    assert pod.kubelet.started[0].wait() == 0, "in good order, although it was paused"
    assert [fault["id"] for fault in pod.ask("state")["faults"]] == ["t1"], "the pause went with its process"
    until(lambda: pod.waits_at_gate, seconds=SECONDS_MAX)
    assert pod.ask("recover") == {"recovered": ["t1"]}
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)


@pytest.mark.full
def test_the_gate_opens_when_everybody_is_dead(pod: Pod, until: Until) -> None:
    agent = pod.serve()
    pod.ask("kill", "--id", "k1", "--seconds", FAR)
    agent.kill()
    agent.wait()
    until(lambda: pod.waits_at_gate, seconds=SECONDS_MAX)
    ends = pod.ends_in(2)
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    assert time.time() >= ends
    assert "its time has come" in pod.kubelet.log
    assert pod.gate.exists(), "nobody has removed it"
    pod.serve()
    until(lambda: pod.ask("state")["faults"] == [], seconds=SECONDS_MAX)
    assert not pod.gate.exists()
    assert pod.ask("kill", "--id", "k1", "--seconds", FAR)["ended_by"] == "expiry"


def test_a_pause_ends_by_itself(pod: Pod, until: Until) -> None:
    pod.serve()
    pod.ask("pause", "--id", "p1", "--seconds", 45)
    pod.ends_in(0)
    until(lambda: pod.condition == "running", seconds=SECONDS_MAX)
    assert pod.ask("pause", "--id", "p1", "--seconds", 45)["ended_by"] == "expiry"
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    assert len(pod.kubelet.started) == 1


@pytest.mark.full
def test_a_pause_ends_also_when_the_agent_was_killed(pod: Pod, until: Until) -> None:
    agent = pod.serve()
    pod.ask("pause", "--id", "p1", "--seconds", 45)
    agent.kill()
    agent.wait()
    assert pod.condition == "paused"
    assert pod.refused("pause", "--id", "p2", "--seconds", 45) == (3, "the broker is paused already")
    pod.ends_in(0)
    assert pod.condition == "paused", "only an agent can end a pause"
    pod.serve()
    until(lambda: pod.condition == "running", seconds=SECONDS_MAX)
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    assert len(pod.kubelet.started) == 1


@pytest.mark.full
def test_resumed_by_hand_and_when_the_pod_goes(pod: Pod, until: Until) -> None:
    agent = pod.serve()
    pod.ask("pause", "--id", "p1", "--seconds", 45)
    assert pod.ask("resume", "--id", "p1") == {"recovered": ["p1"]}
    assert pod.condition == "running"
    pod.ask("pause", "--id", "p2", "--seconds", 45)
    until(lambda: "faults in" in (pod.root / "agent.log").read_text(), seconds=SECONDS_MAX)
    agent.terminate()
    assert agent.wait(SECONDS_MAX) == 0
    assert pod.condition == "running", "a paused broker could not stop in order"


@pytest.mark.full
def test_sigterm_at_the_gate(pod: Pod, until: Until) -> None:
    pod.ask("kill", "--id", "k1", "--seconds", FAR)
    until(lambda: pod.waits_at_gate, seconds=SECONDS_MAX)
    waiting = pod.kubelet.started[1]
    waiting.terminate()
    assert waiting.wait(SECONDS_MAX) == 0
    assert pod.condition == "held"
    until(lambda: len(pod.kubelet.started) == 3 and pod.waits_at_gate, seconds=SECONDS_MAX)


@pytest.mark.full
def test_a_gate_that_does_not_hold(pod: Pod, until: Until) -> None:
    pod.chaos.mkdir(exist_ok=True)
    pod.gate.write_text('{"until": "tomorrow"}')
    pod.kubelet.started[0].kill()
    until(lambda: len(pod.kubelet.started) == 2 and pod.is_ready, seconds=SECONDS_MAX)
    assert "it does not hold" in pod.kubelet.log


@pytest.mark.full
def test_bad_requests(pod: Pod, until: Until) -> None:
    before = pod.ask("state")["pids"]
    for arguments, word in (
        (("kill", "--id", "a"), "--until"),
        (("kill", "--seconds", 5), "--id"),
        (("kill", "--id", "", "--seconds", 5), "--id"),
        (("kill", "--id", "a", "--seconds", 3601), "3600 s ahead"),
        (("kill", "--id", "a", "--until", "nan"), "--until"),
        (("pause", "--id", "a", "--seconds", 51), "50 s ahead"),
        (("wipe-unflushed", "--id", "a", "--mode", "some"), "--mode"),
        (("checkpoint", "../broker.properties"), "allowed"),
    ):
        code, error = pod.refused(*arguments)
        assert (code, word in error) == (2, True), (arguments, error)
    for arguments, word in (
        (("kill", "--id", "a", "--until", time.time() - 1), "expired"),
        (("wipe-unflushed", "--id", "a"), "kill or terminate it first"),
        (("wipe-volume", "--id", "a"), "kill or terminate it first"),
        (("logs",), "kill or terminate it first"),
    ):
        code, error = pod.refused(*arguments)
        assert (code, word in error) == (3, True), (arguments, error)
    assert pod.ask("state")["pids"] == before
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)


def test_nobody_else_is_killed(pod: Pod, tmp_path: Path) -> None:
    """Not the broker of another properties file, not what only looks like one, not the agent itself."""
    program = "import time; time.sleep(600)"
    for arguments in (
        ["broker", "--config", str(tmp_path / "other.properties")],
        ["broker", str(pod.config)],
        ["agent", "state", "--config", str(pod.config)],
        [f"broker --config {pod.config}"],
    ):
        pod.others.append(subprocess.Popen([sys.executable, "-c", program, *arguments]))
    agent = pod.serve()
    assert pod.ask("state")["pids"] == [pod.kubelet.started[0].pid]
    pod.ask("kill", "--id", "k1", "--seconds", FAR)
    assert all(other.poll() is None for other in (*pod.others, agent))


@pytest.mark.full
def test_faults_that_nobody_can_read(pod: Pod, until: Until) -> None:
    pod.ask("pause", "--id", "p1", "--seconds", 45)
    (pod.chaos / "faults.json").write_text("{")
    assert pod.refused("state")[0] == 3
    pod.serve()
    until((pod.chaos / "faults.json.unreadable").exists)
    until(lambda: pod.condition == "running", seconds=SECONDS_MAX)


@pytest.mark.full
@pytest.mark.parametrize("step", ["before the signal", "after the signal"])
def test_who_repeats_a_verb_finishes_it(pod: Pod, until: Until, step: str) -> None:
    """An agent that was killed in the middle of a verb has left the fault `intended`."""
    pod.ask("kill", "--id", "k0", "--seconds", FAR)
    pod.ask("release")
    until(lambda: len(pod.kubelet.started) == 2 and pod.is_ready, seconds=SECONDS_MAX)
    broker = pod.kubelet.started[1]
    path = pod.chaos / "faults.json"
    document = json.loads(path.read_text())
    ticks = process.start_ticks(broker.pid)
    intended = {
        **document["faults"][0],
        "id": "k1",
        "stage": "intended",
        "ended_by": None,
        "until": time.time() + FAR,
        "targets": [] if step == "before the signal" else [{"pid": broker.pid, "start_ticks": ticks}],
    }
    document["faults"].append(intended)
    path.write_text(json.dumps(document))
    if step == "after the signal":
        pod.gate.write_text(json.dumps({"until": intended["until"], "id": "k1"}))
        broker.kill()
    told = pod.ask("kill", "--id", "k1", "--seconds", FAR)
    assert (told["stage"], told["until"]) == ("active", intended["until"])
    assert broker.wait(SECONDS_MAX) == -signal.SIGKILL
    until(lambda: pod.waits_at_gate, seconds=SECONDS_MAX)


@pytest.mark.full
def test_two_verbs_at_once(pod: Pod) -> None:
    """One of them kills, the other is told so."""
    both = [
        subprocess.Popen(pod.command("kill", "--id", name, "--seconds", FAR), stdout=subprocess.PIPE)
        for name in ("a", "b")
    ]
    answers = [json.loads(each.communicate(timeout=SECONDS_MAX)[0]) for each in both]
    assert sorted(each.returncode for each in both) == [0, 3]
    assert any("held already" in str(answer.get("error")) for answer in answers)


# -- what a power loss takes ---------------------------------------------------------------------------------------------


def _send(pod: Pod, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": pod.bootstrap, "linger.ms": 0, "batch.num.messages": 1, "acks": 1})
    for number in range(first, last):
        producer.produce(WHERE.topic, str(number).encode() * 20, partition=0)
    assert producer.flush(SECONDS_MAX) == 0


@pytest.fixture
def with_records(pod: Pod, until: Until) -> Pod:
    """40 records are flushed, for the broker was killed since; 40 more are not."""
    _send(pod, 0, 40)
    until(lambda: pod.replica.log_end_offset == 40, seconds=SECONDS_MAX)
    pod.ask("kill", "--id", "first", "--seconds", FAR)
    pod.ask("release")
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    until(lambda: pod.replica.flushed_offset == 40, seconds=SECONDS_MAX)
    _send(pod, 40, 80)
    until(lambda: pod.replica.log_end_offset == 80, seconds=SECONDS_MAX)
    return pod


def _log(pod: Pod, folder: Path) -> ReplicaLog:
    """The replica's log as the agent hands it out."""
    told = pod.ask("logs", "--topic", WHERE.topic)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(told["tar"]))) as tar:
        tar.extractall(folder, filter="data")
    return read_replica_log(1, WHERE, folder / "data", folder / "unflushed")


def _end_of_what_is_sound(log: ReplicaLog) -> int:
    sound = itertools.takewhile(lambda batch: batch.crc_right, log.batches)
    return max((batch.last_offset + 1 for batch in sound), default=0)


@pytest.mark.parametrize(
    "mode", [PowerLossMode.ALL, *in_full(mode for mode in PowerLossMode if mode is not PowerLossMode.ALL)]
)
def test_exactly_what_was_not_flushed(with_records: Pod, until: Until, tmp_path: Path, mode: PowerLossMode) -> None:
    pod = with_records
    flushed = until(lambda: pod.replica.flushed_offset, lambda found: found is not None, seconds=SECONDS_MAX)
    assert flushed == 40
    pod.ask("kill", "--id", "k1", "--seconds", FAR)
    assert _log(pod, tmp_path / "before").end_offset == 80
    told = pod.ask("wipe-unflushed", "--id", "w1", "--mode", mode, "--seed", 5)
    assert told["stage"] == "over" and told["lost_bytes"] > 0
    repeated = pod.ask("wipe-unflushed", "--id", "w1", "--mode", mode, "--seed", 5)
    assert (repeated["repeated"], repeated["lost_bytes"]) == (True, told["lost_bytes"])
    assert list(pod.unflushed.iterdir()) == []
    left = _end_of_what_is_sound(_log(pod, tmp_path / "after"))
    assert left == flushed if mode is PowerLossMode.ALL else flushed <= left < 80
    assert "cluster.id" in pod.ask("checkpoint", "meta.properties")["content"]
    assert pod.ask("checkpoint", "no-such-checkpoint")["content"] is None

    pod.ask("release", "--id", "k1")
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    goes_on = until(lambda: pod.replica.log_end_offset, lambda found: found is not None, seconds=SECONDS_MAX)
    assert goes_on == left, "what the files say is what the broker goes on with"
    _send(pod, 80, 81)
    until(lambda: pod.replica.log_end_offset == left + 1, seconds=SECONDS_MAX)


@pytest.mark.full
def test_a_lost_disk(with_records: Pod, until: Until) -> None:
    pod = with_records
    pod.ask("terminate", "--id", "t1", "--seconds", FAR)
    assert pod.ask("wipe-volume", "--id", "v1")["stage"] == "over"
    assert [path.name for path in pod.data.iterdir()] == [".lock"]
    assert list(pod.unflushed.iterdir()) == []
    assert pod.ask("wipe-volume", "--id", "v1")["repeated"]
    events = io.BytesIO(base64.b64decode(pod.ask("events")["tar"]))
    with tarfile.open(fileobj=events) as tar:
        assert tar.getnames() == ["events.jsonl"], "the flight recorder has survived"


@pytest.mark.full
def test_a_broker_without_an_unflushed_volume(pod: Pod) -> None:
    lines = pod.config.read_text().splitlines()
    pod.config.write_text("\n".join(line for line in lines if not line.startswith("minikafka.unflushed.dir")))
    pod.ask("kill", "--id", "k1", "--seconds", FAR)
    code, error = pod.refused("wipe-unflushed", "--id", "w1")
    assert (code, "no unflushed volume" in error) == (2, True)


@pytest.mark.full
def test_what_expires_before_it_is_wiped_is_left_alone(with_records: Pod, until: Until) -> None:
    pod = with_records
    pod.ask("kill", "--id", "k1", "--seconds", FAR)
    pod.ends_in(0)
    until(lambda: pod.is_ready, seconds=SECONDS_MAX)
    assert pod.refused("wipe-unflushed", "--id", "w1")[0] == 3
    until(lambda: pod.replica.log_end_offset == 80, seconds=SECONDS_MAX)


def test_a_verb_starts_fast() -> None:
    """No client, no server, nothing from beyond the standard library: it runs in the pod of a broker under load."""
    program = (
        "import sys, minikafka.agent.command, minikafka.agent.service, minikafka.agent.archive; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    assert not modules & {"confluent_kafka", "prometheus_client", "rich", "kio", "uvloop", "asyncio", "pydantic", "h11"}
