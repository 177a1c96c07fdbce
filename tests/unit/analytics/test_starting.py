"""Spark on this machine with a user's own settings, and an analysis that is ended from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from children import DEADLINE_S
from synthetic_run import write_run

from tests.waiting import until_now

pytestmark = pytest.mark.timeout(600)

MINIKAFKA = (sys.executable, "-m", "minikafka.cli", "analyze")
SESSION = """
import sys
from minikafka_analytics.spark.session import generating, spark_session
settings = dict(each.split("=") for each in sys.argv[1:])
with spark_session(settings=settings) as spark:
    print(spark.range(3).count(), generating(spark) is spark)
"""


def in_a_session(*settings: str) -> str:
    command = [sys.executable, "-c", SESSION, *settings]
    done = subprocess.run(command, check=True, timeout=DEADLINE_S, capture_output=True, text=True)
    return done.stdout.strip()


def test_why_a_jvm_cannot_start_is_told_and_not_on_standard_output(java: None, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    conf = "spark.driver.extraJavaOptions=-Xms2g"
    command = [*MINIKAFKA, str(tmp_path / "run"), "--json", "--conf", conf]
    done = subprocess.run(command, check=False, timeout=DEADLINE_S, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert "Initial heap size set to a larger value" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.full
def test_less_memory_than_the_default(java: None) -> None:
    assert in_a_session("spark.driver.memory=700m") == "3 False"


@pytest.mark.full
def test_code_is_not_generated_where_the_user_has_it_interpreted(java: None) -> None:
    assert in_a_session("spark.sql.codegen.factoryMode=NO_CODEGEN") == "3 True"


@pytest.mark.full
def test_a_terminated_analysis_leaves_no_scratch_files(java: None, tmp_path: Path) -> None:
    """As at a Job's deadline, or when its pod is deleted."""
    write_run(tmp_path / "run")
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    child = subprocess.Popen(
        [*MINIKAFKA, str(tmp_path / "run"), "--out", str(tmp_path / "out")],
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    history = "parquet/history/*"
    until_now(lambda: list((tmp_path / "out").glob(history)) or child.poll() is not None, seconds=DEADLINE_S)
    child.send_signal(signal.SIGTERM)
    assert child.wait(DEADLINE_S) == 128 + signal.SIGTERM
    assert not list((tmp_path / "out" / "parquet").glob("*steps-*"))
    assert not list(scratch.glob("*minikafka-spark-*"))
