"""The log collector's configuration, as the chart renders it, with real rsyslogd processes on files that the test writes.

What a kubelet does to the logs of containers: rotation, restarts, removal with the pod; and what may happen to a collector:
killed at any moment, the store away. The reader is the analysis' own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from minikafka.local.ports import HOST, free_base_port
from minikafka_analytics.sources import pod_logs

from tests.apiserver.charts import rendered
from tests.apiserver.operator_process import ROOT
from tests.waiting import until_now

CHART = ROOT / "charts/minikafka-logs"
PATIENCE = 60.0
NAMESPACE = "lab"


class Rsyslog:
    """One rsyslogd, by a command line of the shell."""

    def __init__(self, command: str, libraries: Path, output: Path) -> None:
        self._command = ["sh", "-c", command]
        self._environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=output, stderr=output)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
        self._process = None

    def ended(self) -> int:
        """Wait until it has ended by itself; its exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def said(self) -> str:
        return self._output.read_text(errors="replace")


class Collector:
    """An agent, a store, and a kubelet's folder of logs between them and the test."""

    def __init__(self, folder: Path) -> None:
        made = subprocess.run([ROOT / "tests/e2e/cluster/rsyslog"], stdout=subprocess.PIPE, text=True, check=True)
        tree = Path(made.stdout.strip())
        libraries = next(tree.glob("usr/lib/*/rsyslog"))
        program = f"{tree}/usr/sbin/rsyslogd -M {libraries}"
        self.pods, self.kept, state, scratch = (folder / name for name in ("pods", "kept", "state", "scratch"))
        for each in (self.pods, self.kept, state, scratch):
            each.mkdir()
        self.port = free_base_port(1)
        port = str(self.port)
        chart = rendered("logs", CHART, NAMESPACE)
        agent, store = configurations(chart)
        agent = moved(
            agent,
            ("/var/log/pods", str(self.pods)),
            ("/state", str(state)),
            (f"logs-store.{NAMESPACE}.svc", HOST),
            ("2514", port),
        )
        deeper = len(self.pods.parts) - len(Path("/var/log/pods").parts)
        for part in (7, 6, 5):  # a path's parts are told by their numbers
            agent = moved(agent, (f'field.number="{part}"', f'field.number="{part + deeper}"'))
        store = moved(
            store, ("/logs/", f"{self.kept}/"), ('"/tmp"', f'"{scratch}"'), ('"2514"', f'"{port}" address="{HOST}"')
        )
        (folder / "agent.conf").write_text(agent)
        (folder / "store.conf").write_text(store)
        command = moved(
            shell_command(chart, "DaemonSet"),
            ("/state", str(state)),
            ("rsyslogd", program),
            ("/etc/minikafka-logs/rsyslog.conf", f"{folder}/agent.conf"),
        )
        self.agent = Rsyslog(command, libraries.parent, folder / "agent.out")
        self._readiness = moved(readiness(chart, "DaemonSet"), ("/var/log/pods", str(self.pods)))
        command = moved(
            shell_command(chart, "Deployment"),
            ("/logs", str(self.kept)),
            ("rsyslogd", program),
            ("/etc/minikafka-logs/rsyslog.conf", f"{folder}/store.conf"),
        )
        self.store = Rsyslog(command, libraries.parent, folder / "store.out")
        self.full_store = Rsyslog(moved(command, ("-ge 16 ", f"-ge {1 << 40} ")), libraries.parent, folder / "full.out")
        self.store.start()
        self.agent.start()

    def stop(self) -> None:
        for process in (self.agent, self.store, self.full_store):
            process.end()

    def agent_unready(self) -> str:
        """What the agent's readiness probe complains of; nothing where it is ready."""
        command = moved(self._readiness, ("/proc/1/", f"/proc/{self.agent.pid}/"))
        probe = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert bool(probe.returncode) == bool(probe.stderr), probe
        return probe.stderr

    def lines(self, log: Log) -> list[str]:
        """What the store has of a log."""
        path = self.kept / log.path.relative_to(self.pods)
        return path.read_text().splitlines() if path.exists() else []

    def files(self, folder: Path) -> set[Path]:
        """All files below a folder."""
        return {path for path in folder.rglob("*") if path.is_file()}

    def wait_for(self, *logs: Log) -> None:
        """Wait until every line of these logs is kept."""
        until_now(lambda: all(not set(log.lines) - set(self.lines(log)) for log in logs), what=self._missing(logs))

    def _missing(self, logs: tuple[Log, ...]) -> Callable[[], str]:
        def tell() -> str:
            missing = {str(log.path.parent.parent.name): len(set(log.lines) - set(self.lines(log))) for log in logs}
            return f"missing: {missing}\nagent: {self.agent.said[-2000:]}\nstore: {self.store.said[-2000:]}"

        return tell


class Log:
    """The log of one life of a container, as a container runtime writes it."""

    def __init__(self, collector: Collector, broker: int = 0, restart: int = 0, namespace: str = NAMESPACE) -> None:
        self.broker = broker
        self.path = collector.pods / f"{namespace}_shop-broker-{broker}_uid-{broker}" / "broker" / f"{restart}.log"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self._file = self._open()

    def write(self, count: int) -> None:
        for _ in range(count):
            number = len(self.lines)
            record = {
                "time": number,
                "broker": self.broker,
                "event": "isr_shrunk",
                "fields": {"reason": f'\t"ä {self.path}'},
            }
            self.raw(f"2026-01-01T00:00:00.{number:09d}Z stdout F {json.dumps(record, ensure_ascii=False)}")

    def raw(self, line: str) -> None:
        self.lines.append(line)
        os.write(self._file, line.encode() + b"\n")

    def half(self, text: str) -> None:
        """A line that has no end yet."""
        os.write(self._file, text.encode())

    def rotate(self, late: int) -> None:
        """Rename the file; some lines still go into it until the runtime has opened a new one."""
        self.path.rename(self.path.with_name(f"{self.path.name}.20260101-{len(self.lines):06d}"))
        self.write(late)
        os.close(self._file)
        self._file = self._open()

    def remove(self) -> None:
        """With its pod."""
        shutil.rmtree(self.path.parent.parent)

    def _open(self) -> int:
        return os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)


def configurations(chart: list[dict[str, Any]]) -> tuple[str, str]:
    """Of agent and store, as the chart renders them."""
    found = {each["metadata"]["name"]: each["data"]["rsyslog.conf"] for each in chart if each["kind"] == "ConfigMap"}
    return found["logs-agents"], found["logs-store"]


def shell_command(chart: list[dict[str, Any]], kind: str) -> str:
    """What the shell of a container is told."""
    return _script_of(_container(chart, kind)["command"])


def readiness(chart: list[dict[str, Any]], kind: str) -> str:
    """What the shell of a readiness probe is told."""
    return _script_of(_container(chart, kind)["readinessProbe"]["exec"]["command"])


def _container(chart: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in chart if each["kind"] == kind]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _script_of(command: list[str]) -> str:
    shell, option, script = command
    assert (shell, option) == ("sh", "-c")
    return script


def moved(text: str, *places: tuple[str, str]) -> str:
    """The text with what it names elsewhere; it has to name it."""
    for old, new in places:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    made = Collector(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def test_lines_are_kept_as_they_are(collector: Collector) -> None:
    """Time stamps, streams, tabs, umlauts and spaces; in the kubelet's folders, so that the analysis reads both alike."""
    logs = [Log(collector, broker, restart) for broker in range(2) for restart in range(2)]
    for log in logs:
        log.write(20)
        log.raw("2026-01-01T00:00:01Z stderr F   two spaces\tand a tab ")
        log.raw(f"2026-01-01T00:00:01.5Z stdout P {'x' * 16384}")
        log.raw("2026-01-01T00:00:01.6Z stdout F y")
    collector.wait_for(*logs)
    for log in logs:
        assert collector.lines(log) == log.lines
    assert pod_logs.read([collector.kept]) == pod_logs.read([collector.pods])
    assert len(pod_logs.read([collector.kept]).events) == 80


def test_half_a_line_waits_for_its_end(collector: Collector) -> None:
    """And is lost without one: docs/guide/logs.md says so."""
    log, other = Log(collector, 0), Log(collector, 1)
    log.raw("2026-01-01T00:00:00Z stdout F whole")
    log.half("2026-01-01T00:00:01Z stdout F half ")
    collector.wait_for(log)
    other.write(5)
    collector.wait_for(other)
    assert collector.lines(log) == log.lines
    log.raw("a line")
    log.lines[-1] = "2026-01-01T00:00:01Z stdout F half a line"
    collector.wait_for(log)
    log.half("2026-01-01T00:00:02Z stdout F the end is mis")
    log.remove()
    other.write(5)
    collector.wait_for(other)
    assert collector.lines(log) == log.lines


@pytest.mark.full
def test_of_chosen_namespaces_only(collector: Collector) -> None:
    other, log = Log(collector, 0, namespace="lab-2"), Log(collector, 1)
    other.write(5)
    log.write(5)
    collector.wait_for(log)
    assert collector.lines(other) == []


def test_rotation_loses_nothing(collector: Collector) -> None:
    log = Log(collector)
    for _ in range(3):
        log.write(10)
        collector.wait_for(log)
        log.write(500)
        log.rotate(late=7)
        collector.wait_for(log)  # a kubelet rotates what is full, and looks every ten seconds
    log.write(10)
    collector.wait_for(log)
    assert collector.lines(log) == log.lines


@pytest.mark.full
def test_what_is_removed_with_its_pod_is_read_to_its_end(collector: Collector) -> None:
    """The broker's last words come right before the pod is gone."""
    logs = [Log(collector, broker) for broker in range(10)]
    for log in logs:
        log.write(50)
    collector.wait_for(*logs)
    for log in logs:
        log.write(300)
        log.remove()
    collector.wait_for(*logs)


def test_while_the_store_is_away_nothing_that_was_there_before_is_lost(collector: Collector) -> None:
    log = Log(collector)
    log.write(10)
    collector.wait_for(log)
    collector.store.end(signal.SIGKILL)
    log.write(5000)
    log.remove()
    collector.store.start()
    collector.wait_for(log)


@pytest.mark.full
def test_an_agent_is_ready_when_every_log_of_its_node_is_open(collector: Collector) -> None:
    """From then on a pod may go with its logs at any moment, and nothing of them is lost."""
    log, other, strange = Log(collector, 0), Log(collector, 1), Log(collector, 2, namespace="strange")
    for each in (log, other, strange):
        each.write(50)
    collector.wait_for(log, other)
    until_now(lambda: not collector.agent_unready(), what=collector.agent_unready)
    log.rotate(late=3)
    until_now(lambda: not collector.agent_unready(), what=collector.agent_unready)
    for process in (collector.store, collector.agent):
        process.end(signal.SIGKILL)
    collector.agent.start()
    new = Log(collector, 3)
    new.write(5)
    # Without a store it does not come beyond the first log that has a line.
    assert "is not open yet" in collector.agent_unready()
    collector.store.start()
    until_now(lambda: not collector.agent_unready(), what=collector.agent_unready)
    for each in (log, other, new):
        each.write(300)
        each.remove()
    collector.wait_for(log, other, new)


@pytest.mark.full
def test_a_store_whose_volume_is_full_does_not_start(collector: Collector) -> None:
    """It would confirm what it cannot write."""
    collector.store.end()
    log = Log(collector)
    log.write(100)
    collector.full_store.start()
    assert collector.full_store.ended() == 1
    assert "less than 16 MiB are free" in collector.full_store.said
    assert collector.lines(log) == []
    collector.store.start()
    collector.wait_for(log)


@pytest.mark.full
def test_whoever_is_killed_repeats_lines_and_loses_none(collector: Collector) -> None:
    logs = [Log(collector, broker) for broker in range(3)]
    for process in (collector.agent, collector.store) * 3:
        for _ in range(20):
            for log in logs:
                log.write(10)
        process.end(signal.SIGKILL)
        for log in logs:
            log.write(50)
        process.start()
    collector.wait_for(*logs)
    found = pod_logs.read([collector.kept])
    assert len(found.events) == sum(len(log.lines) for log in logs)
    assert not found.damaged


@pytest.mark.full
def test_an_agent_that_comes_back_sends_all_that_is_still_there(collector: Collector) -> None:
    log = Log(collector)
    log.write(100)
    collector.wait_for(log)
    collector.agent.end()
    log.write(100)
    log.rotate(late=0)
    log.write(100)
    collector.agent.start()
    log.write(1)
    until_now(lambda: log.lines[-1] in collector.lines(log), what="the newest line is there")
    # Rotated while nobody looked: docs/guide/logs.md says so.
    assert set(log.lines) - set(collector.lines(log)) == set(log.lines[100:200])
    collector.agent.end()
    collector.agent.start()
    again = log.lines[200:]
    until_now(lambda: all(collector.lines(log).count(line) == 2 for line in again), what="they are sent again")
    found = pod_logs.read([collector.kept])
    assert (len(found.events), found.repeated, found.damaged) == (201, len(again), 0)


@pytest.mark.full
@pytest.mark.parametrize(
    ("names", "where"),
    [
        ((b"..", b"..", b"out"), ("_.", "_.", "out")),
        ((b"../../out", b"a/b", b"/c"), (".._.._out", "a_b", "_c")),
        ((b".", b"-", b"x"), ("_", "-", "x")),
    ],
)
def test_nobody_writes_outside_of_the_logs(
    collector: Collector, names: tuple[bytes, bytes, bytes], where: tuple[str, str, str]
) -> None:
    """Whoever reaches the store names the folders; none leads out of it."""
    log = Log(collector)
    log.write(1)
    collector.wait_for(log)
    outside = collector.files(collector.kept.parent) - collector.files(collector.kept)
    inside = collector.files(collector.kept)
    send(collector.port, b"<14>1 - - " + b" ".join(names) + b" - a stranger's line")
    until_now(lambda: collector.files(collector.kept) - inside, what=lambda: collector.store.said)
    (new,) = collector.files(collector.kept) - inside
    assert new.relative_to(collector.kept).parts == where
    assert collector.files(collector.kept.parent) - collector.files(collector.kept) == outside


def send(port: int, message: bytes) -> None:
    """One message by RELP (https://github.com/rsyslog/librelp/blob/master/doc/relp.html), until it is confirmed."""
    offers = b"relp_version=0\nrelp_software=test\ncommands=syslog"
    with socket.create_connection((HOST, port), PATIENCE) as connection:
        for number, (command, data) in enumerate([(b"open", offers), (b"syslog", message)], start=1):
            connection.sendall(b"%d %s %d %s\n" % (number, command, len(data), data))
            answer = connection.recv(4096)
            assert b"rsp" in answer and b"200 OK" in answer, answer
