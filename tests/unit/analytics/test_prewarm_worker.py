"""The process in which Spark is warmed up: which Spark an analysis gets, and when it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from children import DEADLINE_S
from minikafka_analytics.commands import prewarm_worker, priority
from minikafka_analytics.commands.prewarm_worker import Order, WarmSpark
from minikafka_analytics.spark.jvm import SparkDidNotStart
from minikafka_analytics.spark.settings import SMALL_BYTES
from synthetic_run import write_run

from tests.waiting import until_now

KIB, MIB = 1 << 10, 1 << 20


def nothing(*_: object) -> None:
    pass


def order(text: bytes = b"") -> Order:
    """The line is there before it is asked for."""
    came = threading.Event()
    found = Order(io.BytesIO(text), nothing, came.set)
    assert came.wait(DEADLINE_S)
    return found


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
    monkeypatch.setattr(prewarm_worker, "spark_session", found.session)
    monkeypatch.setattr(prewarm_worker.jvm, "is_alive", lambda: True)
    return found


def test_the_spark_that_was_begun_is_lent_and_stopped(sparks: Sparks) -> None:
    warm = WarmSpark(30 * MIB, order(), nothing)
    with warm.session("local[*]", {}, 25 * MIB) as spark:
        assert (spark, sparks.running) == ("spark 1", ["spark 1"])
    assert (sparks.running, len(sparks.started)) == ([], 1)


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
    warm = WarmSpark(30 * MIB, order(), nothing)
    with warm.session(master, settings, size):
        assert sparks.running == ["spark 2"], "the first is stopped: a process has one context"
    assert (sparks.running, sparks.started[1]) == ([], (master, size))


@pytest.mark.parametrize("size", [KIB, SMALL_BYTES])
def test_one_that_did_not_start_ends_the_process(sparks: Sparks, size: int) -> None:
    sparks.failure = SparkDidNotStart("killed")
    warm = WarmSpark(KIB, order(), nothing)
    with pytest.raises(SystemExit, match="killed"), warm.session("local[*]", None, size):
        raise AssertionError("there is no Spark")


def test_one_that_did_not_answer_is_not_waited_for_again(sparks: Sparks) -> None:
    sparks.failure = SparkDidNotStart("no answer within 180 s")
    sparks.failure.__cause__ = TimeoutError()
    warm = WarmSpark(KIB, order(), nothing)
    with pytest.raises(SparkDidNotStart, match="no answer"), warm.session("local[*]", None, KIB):
        raise AssertionError("there is no Spark")


def test_it_is_stopped_when_its_analysis_fails(sparks: Sparks) -> None:
    warm = WarmSpark(KIB, order(), nothing)
    with pytest.raises(ValueError, match="no run"), warm.session("local[*]", None, KIB):
        raise ValueError("no run")
    assert sparks.running == []


def test_a_jvm_that_is_gone_ends_the_process(sparks: Sparks, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = WarmSpark(KIB, order(), nothing)
    monkeypatch.setattr(prewarm_worker.jvm, "is_alive", lambda: False)
    with pytest.raises(SystemExit, match="JVM ended"), warm.session("local[*]", None, KIB):
        raise AssertionError("there is no Spark")


def test_an_order_that_is_there_already_is_not_kept_waiting(sparks: Sparks) -> None:
    def warm(spark: object) -> None:
        raise AssertionError("nothing to warm up for")

    WarmSpark(KIB, order(b"go\n"), warm)


def test_what_could_not_warm_up_is_lent_all_the_same(sparks: Sparks) -> None:
    def warm(spark: object) -> None:
        raise OSError("no space left")

    with WarmSpark(KIB, order(), warm).session("local[*]", None, KIB) as spark:
        assert spark == "spark 1"


class Context:
    """Stands for a SparkContext: jobs run until they are cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancelAllJobs(self) -> None:
        self.cancelled.set()


class Session:
    def __init__(self) -> None:
        self.sparkContext = Context()


def test_warming_up_is_cut_off_by_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    session, how = Session(), []
    reading, writing = os.pipe()

    @contextmanager
    def started(*_: object) -> Iterator[Any]:
        yield session

    def warm(spark: Any) -> None:
        os.write(writing, b"go\n")
        how.append(spark.sparkContext.cancelled.wait(DEADLINE_S))
        raise RuntimeError("Job 1 cancelled as part of cancellation of all jobs")

    monkeypatch.setattr(prewarm_worker, "spark_session", started)
    monkeypatch.setattr(prewarm_worker.jvm, "is_alive", lambda: True)
    came, gone = threading.Event(), threading.Event()
    with open(reading, "rb", buffering=0) as stream:
        orders = Order(stream, came.set, gone.set)
        with WarmSpark(KIB, orders, warm).session("local[*]", None, KIB) as spark:
            assert (spark, how, orders.wait()) == (session, [True], b"go\n")
        assert came.is_set() and not gone.is_set()
        os.close(writing)
        assert gone.wait(DEADLINE_S), "who asked has ended"


def test_a_priority_is_given_back_to_all_of_the_process() -> None:
    code = (
        "import os, threading, time\n"
        "from minikafka_analytics.commands import priority\n"
        "before, usual = os.nice(0), priority.lower()\n"
        "low = os.nice(0)\n"
        "seen = []\n"
        "def look():\n"
        "    while given.is_set() is False: time.sleep(0.01)\n"
        "    seen.append(os.nice(0))\n"
        "given = threading.Event(); thread = threading.Thread(target=look); thread.start()\n"
        "priority.give_back(usual); given.set(); thread.join()\n"
        "print(before, usual, low, os.nice(0), *seen)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60, start_new_session=True
    )
    before, usual, low, after, thread = map(int, done.stdout.split())
    if usual == before:
        assert (low, after, thread) == (priority.LOWEST, before, before)
    else:
        assert low == usual == after == thread, "it could not be given back: next to nothing was taken"


BESIDE = """
import sys
from pathlib import Path
from minikafka_analytics.commands.prewarm import PrewarmedAnalysis
with PrewarmedAnalysis() as analysis:
    analysis.begin(1 << 20)
    for number in range(200):  # whoever judges meanwhile goes on telling, and none of it is lost
        print("judging", number, flush=True)
    sys.stdin.readline()
    run, before = Path(sys.argv[1]), analysis._process.pid
    found = analysis.analyze(run, run)
    print(found.html.name, found.json.name, found.differ, analysis._process.pid == before)
"""


@pytest.mark.full  # tests/integration/test_demo.py has it at work
@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed", [False, True], ids=["well", "its JVM is killed while it warms up"])
def test_a_real_one(java: None, tmp_path: Path, killed: bool) -> None:
    write_run(tmp_path / "run")
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", BESIDE, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    try:
        if killed:
            os.kill(until_warming(scratch), signal.SIGKILL)
        said, errors = process.communicate("\n", timeout=DEADLINE_S)
    finally:
        process.kill()
    told = said.splitlines()
    assert told[:200] == [f"judging {number}" for number in range(200)]
    assert told[200:] == [f"report.html report.json None {not killed}"], errors
    assert errors == "", "no traceback of what was only warming up"
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert len(report["runs"]) == 1
    assert list(scratch.iterdir()) == []
    assert processes_with(scratch) == []


def until_warming(scratch: Path) -> int:
    """The process id of the JVM, once the run of a few lines is there that it is warmed up with."""
    until_now(lambda: list(scratch.glob("minikafka-prewarm-*/minikafka-warm-up-*/run")), seconds=DEADLINE_S)
    (found,) = [pid for pid in processes_with(scratch) if (Path("/proc") / str(pid) / "comm").read_text() == "java\n"]
    return found


def processes_with(scratch: Path) -> list[int]:
    """Processes whose folder for temporary files is within this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={scratch}" in (entry / "environ").read_text(errors="replace"):
                found.append(int(entry.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found
