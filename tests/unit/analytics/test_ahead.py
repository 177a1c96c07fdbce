"""Spark that is started ahead of its analysis: who takes it, and that nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from children import DEADLINE_S
from minikafka_analytics import ahead, priority
from minikafka_analytics.spark_settings import SMALL_BYTES
from synthetic_run import write_run

KIB, MIB = 1 << 10, 1 << 20


class Sparks:
    """Stands for `spark_session`: names its sessions in the order of their start, and notes which are running."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int]] = []
        self.running: list[str] = []
        self.failure: Exception | None = None

    @contextmanager
    def session(self, master: str, settings: Mapping[str, str] | None, size: int) -> Iterator[Any]:
        del settings
        if self.failure is not None:
            raise self.failure
        self.started.append((master, size))
        name = f"spark {len(self.started)}"
        self.running.append(name)
        try:
            yield name
        finally:
            self.running.remove(name)


@pytest.fixture
def sparks(monkeypatch: pytest.MonkeyPatch) -> Sparks:
    found = Sparks()
    monkeypatch.setattr(ahead, "spark_session", found.session)
    return found


def test_the_spark_that_was_begun_is_taken_and_stopped_once(sparks: Sparks) -> None:
    with ahead.Ahead(warm=None) as one:
        one.begin(30 * MIB)
        with one.session("local[*]", {}, 25 * MIB) as spark:
            assert (spark, sparks.running) == ("spark 1", ["spark 1"])
        assert sparks.running == [], "stopped with its analysis, not with the block"
    assert len(sparks.started) == 1


@pytest.mark.parametrize(
    ("master", "settings", "size"),
    [
        ("local[*]", None, SMALL_BYTES),  # planned in another way
        ("local[1]", None, 30 * MIB),
        ("local[*]", {"spark.sql.ansi.enabled": "false"}, 30 * MIB),
    ],
    ids=["more bytes", "another master", "settings"],
)
def test_another_spark_is_started_where_another_is_asked_for(
    sparks: Sparks, master: str, settings: dict[str, str] | None, size: int
) -> None:
    with ahead.Ahead(warm=None) as one:
        one.begin(30 * MIB)
        with one.session(master, settings, size):
            assert sparks.running == ["spark 2"], "the first is stopped: a process has one context"
        assert (sparks.running, sparks.started[1]) == ([], (master, size))


def test_without_a_beginning_spark_is_started_by_its_analysis(sparks: Sparks) -> None:
    with ahead.Ahead(warm=None) as one, one.session("local[*]", None, KIB):
        assert sparks.started == [("local[*]", KIB)]
    assert sparks.running == []


def test_what_nobody_takes_is_stopped(sparks: Sparks) -> None:
    with ahead.Ahead(warm=None) as one:
        one.begin(KIB)
    assert (len(sparks.started), sparks.running) == (1, [])


def test_why_it_did_not_start_is_told_to_who_takes_it(sparks: Sparks) -> None:
    sparks.failure = OSError("no space left")
    with ahead.Ahead(warm=None) as one:
        one.begin(KIB)  # raises nothing: whoever judges meanwhile has no use for Spark
        with pytest.raises(OSError, match="no space left"), one.session("local[*]", None, KIB):
            raise AssertionError("there is no Spark")


def test_spark_ahead_is_stopped_when_its_analysis_fails(sparks: Sparks) -> None:
    with ahead.Ahead(warm=None) as one:
        one.begin(KIB)
        with pytest.raises(ValueError, match="no run"), one.session("local[*]", None, KIB):
            raise ValueError("no run")
        assert sparks.running == []


class Context:
    """Stands for a SparkContext: jobs run until they are cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancelAllJobs(self) -> None:
        self.cancelled.set()


class Session:
    def __init__(self) -> None:
        self.sparkContext = Context()


def test_warming_up_is_cut_off_by_who_wants_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    session, warming, how = Session(), threading.Event(), []

    @contextmanager
    def started(*_: object) -> Iterator[Any]:
        yield session

    def warm(spark: Any) -> None:
        warming.set()
        how.append(spark.sparkContext.cancelled.wait(60))
        raise RuntimeError("Job 1 cancelled as part of cancellation of all jobs")

    monkeypatch.setattr(ahead, "spark_session", started)
    with ahead.Ahead(warm) as one:
        one.begin(KIB)
        assert warming.wait(60)
        with one.session("local[*]", None, KIB) as spark:
            assert (spark, how) == (session, [True])


def test_spark_that_could_not_warm_up_is_taken_all_the_same(sparks: Sparks) -> None:
    def warm(spark: object) -> None:
        raise OSError("no space left")

    with ahead.Ahead(warm) as one:
        one.begin(KIB)
        with one.session("local[*]", None, KIB) as spark:
            assert spark == "spark 1"


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities of their own")
def test_what_a_thread_of_low_priority_starts_can_be_raised() -> None:
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    started: list[subprocess.Popen[bytes]] = []
    low: list[int] = []

    def start() -> None:
        priority.lower()
        low.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    (child,) = started
    try:
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == low[0]
        assert low[0] in {priority.LOWEST, mine, mine + 1}, (
            "the lowest where it can be given back, else next to nothing"
        )
        priority.raise_to_mine(None, child.pid)
        if low[0] == priority.LOWEST:
            assert os.getpriority(os.PRIO_PROCESS, child.pid) == mine
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine
    finally:
        child.communicate(b"\n", timeout=60)
    priority.raise_to_mine(thread, child.pid)  # both have ended: nothing happens


BESIDE = """
import os, sys
from pathlib import Path
from minikafka_analytics.ahead import Ahead
from minikafka_analytics.analyze import analyze, told
with Ahead() as ahead:
    ahead.begin(1 << 20)
    for number in range(200):  # whoever judges meanwhile goes on telling, and none of it is lost
        print("judging", number, flush=True)
    run = Path(sys.argv[1])
    paths = analyze([run], run, start=ahead.session)
    print(told(paths)[0].verdict)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    print("children", len(children))
"""


@pytest.mark.xdist_group("spark")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_one_beside_a_program_that_writes(java: None, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", BESIDE, str(tmp_path / "run")],
        check=True,
        timeout=DEADLINE_S,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    told = done.stdout.splitlines()
    assert told[:200] == [f"judging {number}" for number in range(200)]
    assert told[201:] == ["children 0"], done.stderr
    assert (tmp_path / "run" / "report.html").is_file()
    deadline = time.monotonic() + DEADLINE_S
    while left := list(scratch.glob("*minikafka-spark-*")):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
