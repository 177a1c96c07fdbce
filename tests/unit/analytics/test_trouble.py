"""Every failure of Spark is one line that says what to do, and exit code 3."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import pytest
from children import analyse, java_of, write_small_run
from minikafka_analytics import cli_analyze, trouble
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

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
        ("Answer from Java side is empty", "Spark's JVM ended"),
        ("java.nio.file.AccessDeniedException: /out/parquet", "may not write in /out"),
        ("Aborted.\n\tat x\nCaused by: a.B: outer\n\tat y\nCaused by: c.D: why\n\tat z", "Spark failed: c.D: why"),
    ],
)  # fmt: skip
def test_each_failure_has_its_line(said: str, told: str) -> None:
    line = trouble.advice(said, OUT)
    assert told in line
    assert "\n" not in line


@pytest.mark.parametrize("error", [PySparkException, Py4JError, ConnectionRefusedError])
def test_what_spark_raises_becomes_a_line(error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(trouble.SparkFailed, match="maxResultSize=4g"), trouble.in_one_line(tmp_path):
        raise error("bigger than spark.driver.maxResultSize")


@pytest.mark.full
def test_an_answer_that_is_too_large(java: None, tmp_path: Path) -> None:
    ended = analyse(write_small_run(tmp_path / "run"), "--conf", "spark.driver.maxResultSize=1k")
    assert (ended.code, ended.err) == (3, f"minikafka analyze: {trouble.RESULT_TOO_LARGE}\n")


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
    assert (ended.code, ended.err) == (3, f"minikafka analyze: {trouble.JVM_GONE}\n")


@pytest.mark.full
def test_a_full_disk(spark: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The report's own file is /dev/full, which refuses every write as a full disk does."""
    run = write_small_run(tmp_path / "run")
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    (run / ".report.json.new").symlink_to(full)
    parser = argparse.ArgumentParser()
    cli_analyze.add_arguments(parser)
    assert cli_analyze.run(parser.parse_args([str(run)])) == 3
    assert capfd.readouterr().err == f"minikafka analyze: {run}: No space left on device\n"
