"""Real clusters for integration tests: broker processes on free ports of this machine, gone when the test is."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from minikafka.cli.main import main
from minikafka.local.cluster import LocalCluster
from minikafka.local.errors import PortInUse
from minikafka.local.ports import free_base_port

from tests.clusters import tied_cluster
from tests.waiting import until_now

MakeCluster = Callable[..., LocalCluster]
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]

_LOG_LINES_SHOWN = 25
READY_SECONDS_MAX = 120.0
"""For brokers to get ready: a slow machine starts three interpreters at once."""

_running: list[LocalCluster] = []


@contextmanager
def clusters(folder: Callable[[], Path]) -> Iterator[MakeCluster]:
    """A factory of clusters that are brought down at the end, whatever happens."""
    mine: list[LocalCluster] = []

    def make(
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        *,
        racks: Sequence[str] | None = None,
        unflushed: bool | None = None,
    ) -> LocalCluster:
        for attempt in range(5):
            cluster = tied_cluster(folder())
            mine.append(cluster)
            _running.append(cluster)
            try:
                base = free_base_port(brokers)
                cluster.up(brokers, base, config, racks=racks, unflushed=unflushed, timeout=READY_SECONDS_MAX)
            except PortInUse:  # another test's process was quicker
                if attempt == 4:
                    raise
            else:
                return cluster
        raise AssertionError("unreachable")

    try:
        yield make
    finally:
        for cluster in mine:
            _running.remove(cluster)
            if cluster.exists:
                cluster.down(timeout=5)


@pytest.fixture
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeCluster]:
    """``make_cluster(brokers=3, config={...}, racks=[...], unflushed=True)`` for one test."""
    with clusters(lambda: tmp_path_factory.mktemp("cluster")) as make:
        yield make


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers that a whole module shares; a test that breaks one puts it right again.

    A module may name settings for them: ``CLUSTER_CONFIG``.
    """
    with clusters(lambda: tmp_path_factory.mktemp("cluster")) as make:
        yield make(brokers=3, config=getattr(request.module, "CLUSTER_CONFIG", None))


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers for all files whose tests break none, and whose topics and groups have names of their own."""
    with clusters(lambda: tmp_path_factory.mktemp("cluster")) as make:
        yield make(brokers=3)


@pytest.fixture(scope="session")
def run_cli() -> RunCli:
    """``run_cli("topic", "list", ..., stdin="...")``: the command as a user runs it; output as text."""

    def run(*arguments: object, stdin: str = "", timeout: float = 180) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "minikafka.cli", *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)

    return run


@pytest.fixture(scope="session")
def call_cli() -> RunCli:
    """The same without a process, which is a second of processor for each; what needs no shell and no signal asks for this."""

    def call(*arguments: object, stdin: str = "", timeout: float = 0) -> subprocess.CompletedProcess[str]:
        del timeout  # pytest's holds
        command = [str(argument) for argument in arguments]
        streams = [io.TextIOWrapper(io.BytesIO(text), encoding="utf-8") for text in (stdin.encode(), b"", b"")]
        with pytest.MonkeyPatch.context() as patch:
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            try:
                code = main(command)
            except SystemExit as end:  # of --help
                code = int(end.code or 0)
        told = []
        for stream in streams[1:]:
            stream.flush()
            told.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(command, code, *told)

    return call


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    """``until(look, satisfied, seconds)``: look again until satisfied; what was seen. Fails with what was seen last."""
    return until_now


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the ends of the brokers' logs to the report of a failed test."""
    report = yield
    if report.failed:
        for running in _running:
            for log in sorted(running.data.glob("broker-*/broker.log")):
                lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
                report.sections.append((f"end of {log}", "\n".join(lines)))
    return report
