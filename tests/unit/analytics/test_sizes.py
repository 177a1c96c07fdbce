"""However large a run is held to be, and so however Spark plans and runs it, the report is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from children import DEADLINE_S
from conftest import hold_to_schema
from minikafka_analytics.analyze import analyze
from minikafka_analytics.spark import settings
from synthetic_run import write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMO, SEVERAL, MANY = 25 << 20, 64 << 20, 600 << 20

ANALYSE = """
import sys
from pathlib import Path
from minikafka_analytics.spark import settings
from minikafka_analytics.analyze import analyze
from minikafka_analytics.analyze import analyze
settings.INTERPRETED_BYTES, settings.SMALL_BYTES = map(int, sys.argv[1:3])
analyze([Path(sys.argv[3])], Path(sys.argv[4]))
"""


def test_settings_follow_the_size() -> None:
    demo, several, many = (settings.settings_for(size) for size in (DEMO, SEVERAL, MANY))
    assert demo["spark.sql.codegen.factoryMode"] == "NO_CODEGEN"
    assert "spark.sql.codegen.factoryMode" not in several
    assert demo["spark.sql.adaptive.enabled"] == several["spark.sql.adaptive.enabled"] == "false"
    assert "spark.sql.adaptive.enabled" not in many


@pytest.mark.parametrize(("gigabytes", "partitions"), [(0.2, 4), (1.6, 25), (16, 256), (1_000, 1_000)])
def test_a_shuffle_of_much_has_many_partitions(gigabytes: float, partitions: int) -> None:
    """10 million rows (1.6 GB) in four partitions ran out of the driver's default memory."""
    assert settings.settings_for(int(gigabytes * (1 << 30)))["spark.sql.shuffle.partitions"] == str(partitions)


def test_a_window_leaves_memory_for_the_step_above_it() -> None:
    """One that took all of it failed that step when a second task began: 11 million rows ran out of memory now and then.

    Each of two tasks has half of the memory for execution: 60 % of the default heap without the 300 MB that Spark sets aside
    (https://spark.apache.org/docs/latest/tuning.html#memory-management-overview). The window's part of it is at most a half.
    """
    megabytes = int(settings.settings_for(MANY)["spark.sql.windowExec.buffer.spill.size.threshold"].removesuffix("m"))
    assert megabytes <= 0.6 * (1024 - 300) / 2 / 2


def test_shuffles_of_a_cluster_are_its_own() -> None:
    assert settings.settings_for(MANY, "k8s://https://cluster:6443") == {}


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("limits", [pytest.param((0, SEVERAL), id="generated"), pytest.param((0, 0), id="as large")])
def test_the_report_does_not_depend_on_it(spark: SparkSession, tmp_path: Path, limits: tuple[int, int]) -> None:
    """By a process in which a run has other limits of size, and by the session of these tests, which is a small run's."""
    write_run(tmp_path / "run", lose=True, duplicate=True, torn=True)
    assert spark.conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN"
    analyze([tmp_path / "run"], tmp_path / "interpreted")
    command = [sys.executable, "-c", ANALYSE, *map(str, limits), str(tmp_path / "run"), str(tmp_path / "other")]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    assert report(tmp_path / "other") == report(tmp_path / "interpreted")


def report(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    hold_to_schema(found)
    found.pop("generated_at")
    return found
