"""Every failure of Spark is one line that says what to do, and exit code 3."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from children import analyse, java_of, write_small_run
from minikafka_analytics.commands import analyze as analyze_command
from minikafka_analytics.spark import failures, jvm
from minikafka_analytics.spark.java import Java
from minikafka_analytics.storage.stores import StoreFailed
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError

pytestmark = pytest.mark.timeout(900)
OUT = Path("/out")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Total size of serialized results is bigger than spark.driver.maxResultSize", "maxResultSize=4g"),
        ("Caused by: java.io.IOException: No space left on device", "the disk is full: free some space in /out"),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory=4g"),
        ("ExecutorLostFailure (executor 3 exited caused by one of the running tasks)", "see the cluster's logs"),
        ("org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location", "shuffle files"),
        ("Caused by: java.net.ConnectException: s3: Connection refused", "ConnectException: s3: Connection refused"),
        ("java.nio.file.AccessDeniedException: /out/parquet", "may not write in /out"),
        ("Aborted.\n\tat x\nCaused by: a.B: outer\n\tat y\nCaused by: c.D: why\n\tat z", "Spark failed: c.D: why"),
    ],
)  # fmt: skip
def test_each_failure_has_its_line(said: str, told: str) -> None:
    line = failures.advice(said, OUT)
    assert told in line
    assert "\n" not in line


@pytest.mark.parametrize("error", [PySparkException, Py4JError, ConnectionRefusedError])
def test_what_spark_raises_becomes_a_line(error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(failures.SparkFailed, match="maxResultSize=4g"), failures.in_one_line(tmp_path):
        raise error("bigger than spark.driver.maxResultSize")


class Process:
    """The JVM's process as PySpark's gateway knows it: it ends by this code when it is waited for."""

    def __init__(self, code: int | None, *, lingers: bool = False) -> None:
        self._code, self._lingers = code, lingers

    def poll(self) -> int | None:
        return None if self._lingers else self._code

    def wait(self, seconds: float) -> int:
        if self._code is None:
            raise subprocess.TimeoutExpired("java", seconds)
        self._lingers = False
        return self._code


def use(monkeypatch: pytest.MonkeyPatch, process: Process | None, *, answers: bool) -> None:
    """Have PySpark use a JVM of this process, which answers or does not."""
    gateway = SimpleNamespace(proc=process)
    system = SimpleNamespace(nanoTime=lambda: 1 if answers else gateway.no_such_attribute)
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_jvm", SimpleNamespace(System=system))


ENDS = {
    "killed by SIGKILL": Process(-signal.SIGKILL),
    "as the kernel does where memory is short": Process(-signal.SIGKILL, lingers=True),
    "killed by SIGSEGV": Process(-signal.SIGSEGV),
    "killed by SIGTERM": Process(128 + signal.SIGTERM),
    "exit code 3": Process(3),
    "it does not answer": Process(None),
}
MET = [
    Py4JError("An error occurred while calling o113.read"),
    Py4JNetworkError("Answer from Java side is empty"),
    PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"),
    ConnectionRefusedError(111, "Connection refused"),
    BrokenPipeError(32, "Broken pipe"),
    AttributeError("'NoneType' object has no attribute 'sc'"),
    TypeError("'JavaPackage' object is not callable"),
    AssertionError(),
    EOFError(),
    StoreFailed("s3a://runs: Spark's JVM ended while it was asked"),
]
"""What a call may raise that meets a JVM which has ended: it depends on which call it is, and on how far the end has come."""


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("error", MET, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "guard", [lambda: failures.in_one_line(OUT), failures.while_it_lives], ids=["in_one_line", "lives"]
)
def test_a_jvm_that_has_ended_is_told_whatever_met_it(
    monkeypatch: pytest.MonkeyPatch, guard: Any, error: Exception, how: str
) -> None:
    use(monkeypatch, ENDS[how], answers=False)
    with pytest.raises(failures.SparkFailed) as told, guard():
        raise error
    assert str(told.value).startswith("Spark's JVM ended while it worked (") and how in str(told.value)


def test_it_is_told_where_the_first_question_of_a_session_meets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Process(-signal.SIGKILL), answers=False)

    def spilling() -> None:
        raise Py4JError("An error occurred while calling o20.getConf")

    with pytest.raises(failures.SparkFailed, match="killed by SIGKILL"), failures.in_one_line(OUT, spilling):
        pass


@pytest.mark.parametrize(
    "guard", [lambda: failures.in_one_line(OUT), failures.while_it_lives], ids=["in_one_line", "lives"]
)
def test_of_a_jvm_that_lives_nothing_is_said(monkeypatch: pytest.MonkeyPatch, guard: Any) -> None:
    use(monkeypatch, Process(None, lingers=True), answers=True)
    for error in (StoreFailed("s3a://runs: access denied"), OSError(28, "No space left on device"), AssertionError()):
        with pytest.raises(type(error)), guard():
            raise error
    with pytest.raises(failures.SparkFailed, match=r"Spark failed: Py4JError: .*o113\.read"), failures.in_one_line(OUT):
        raise Py4JError("An error occurred while calling o113.read")
    with pytest.raises(failures.SparkFailed, match="a result of the verdict"), failures.while_it_lives():
        raise failures.SparkFailed("a result of the verdict")


def test_why_it_ended_is_told_where_spark_has_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Process(-signal.SIGABRT), answers=False)
    with pytest.raises(failures.SparkFailed, match="the disk is full"), failures.in_one_line(OUT):
        raise Py4JError("java.io.IOException: No space left on device")


def test_one_that_is_killed_while_spark_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, Process(-signal.SIGKILL), answers=False)
    told = pytest.raises(jvm.SparkDidNotStart, match="its JVM ended: killed by SIGKILL")
    with told, jvm.starting(Java(Path("/opt/java"), 17), tmp_path / "said"):
        raise Py4JError("An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ("kill -9 $$", "killed by SIGKILL, as the kernel"),
        ("exit 137", "killed by SIGKILL"),
        ("exit 0", "exit code 0"),
    ],
)
def test_one_that_ends_before_it_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: str, reason: str
) -> None:
    """By the kernel in a small container, say. The second is what Spark's script ends with whose first JVM was killed; PySpark
    would wait for the third for ever, which a JVM does that is asked for its version alone."""
    (tmp_path / "bin").mkdir()
    submit = tmp_path / "bin/spark-submit"
    submit.write_text(f"#!/bin/sh\n{ends}\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(jvm, "LOOKS_FOR_PROCESS", 5)
    said = tmp_path / "said"
    with (
        pytest.raises(jvm.SparkDidNotStart, match=f"its JVM ended: {reason}"),
        jvm.starting(Java(Path("/opt/java"), 17), said),
    ):
        jvm.launch({"spark.master": "local[1]"}, said)


@pytest.mark.full
def test_an_answer_that_is_too_large(java: None, tmp_path: Path) -> None:
    ended = analyse(write_small_run(tmp_path / "run"), "--conf", "spark.driver.maxResultSize=1k")
    assert (ended.code, ended.err) == (3, f"minikafka analyze: {failures.RESULT_TOO_LARGE}\n")


@pytest.mark.full
def test_a_jvm_that_is_killed(java: None, tmp_path: Path) -> None:
    run = write_small_run(tmp_path / "run")

    def kill_the_jvm(pid: int) -> bool:
        found = java_of(pid)
        ready = bool(found) and any((run / "parquet").glob("history/*"))
        if ready:
            os.kill(found[0], signal.SIGKILL)
        return ready

    ended = analyse(run, meanwhile=kill_the_jvm)
    killed = failures.JVM_GONE.format("killed by SIGKILL, as the kernel does where memory is short")
    assert (ended.code, ended.err) == (3, f"minikafka analyze: {killed}\n")


@pytest.mark.full
def test_a_full_disk(spark: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The report's own file is /dev/full, which refuses every write as a full disk does."""
    run = write_small_run(tmp_path / "run")
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    (run / ".report.json.new").symlink_to(full)
    parser = argparse.ArgumentParser()
    analyze_command.add_arguments(parser)
    assert analyze_command.run(parser.parse_args([str(run)])) == 3
    assert capfd.readouterr().err == f"minikafka analyze: {run}: No space left on device\n"
