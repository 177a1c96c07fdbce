"""An analysis whose executors read and write nothing but what the driver serves: exactly the tables of one that has the files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from golden_runs import GOLDEN as RECORDED
from golden_runs import expected, foreign, tables
from minikafka_analytics.analyze import analyze
from minikafka_analytics.landing.landing import load
from minikafka_analytics.landing.schemas import EVENTS
from minikafka_analytics.spark import file_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

NAME = "data-loss foreign"
ODD = "data-loss 50%+;~41 größe [a]{b}"
"""Of what Hadoop, WebHDFS or an address makes something else."""


def test_the_report_is_that_of_the_files_themselves(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [tmp_path / name for name in (NAME, ODD)]
    for run in runs:
        shutil.copytree(RECORDED / "data-loss", run)
        foreign(run)
    out = tmp_path / "out %41"
    asked: list[str] = []
    answer = file_server._Handler._answer

    def counted(handler: file_server._Handler, known: dict[str, object]) -> None:
        asked.append(handler.path)
        answer(handler, known)

    monkeypatch.setattr(file_server._Handler, "_answer", counted)
    with file_server.serving("127.0.0.1", runs, [out / "parquet"]) as settings:
        # The session is lent: what comes with a session's making is said to it now.
        said = {name.removeprefix("spark.hadoop."): value for name, value in settings.items()}
        for name, value in said.items():
            spark.conf.set(name, value)
        try:
            paths = analyze(runs, out)
            landed = sorted((out / "parquet" / EVENTS.name).glob("run=*/file=*"))
            names = {
                (row.run, row.file)
                for row in load(spark, EVENTS, out / "parquet", landed).select("run", "file").collect()
            }
        finally:
            for name in said:
                spark.conf.unset(name)
    found = {run["id"]: run for run in json.loads(paths.json.read_text())["runs"]}
    assert found.keys() == {NAME, ODD}
    for run in found.values():
        given, wanted = tables(run), expected()[NAME]
        assert {table for table in wanted if given.get(table) != wanted[table]} == set()
    assert {run for run, _ in names} == {NAME, ODD}
    assert {file for _, file in names} == {f"events/broker-{broker}.jsonl" for broker in range(2)}
    assert any("op=OPEN" in each for each in asked) and any("op=CREATE" in each for each in asked)
    folders = {path.name for path in (out / "parquet" / EVENTS.name).iterdir()}
    assert folders == {f"run={NAME}", "run=data-loss 50%25+;~41 größe %5Ba%5D%7Bb%7D"}, "names on the disk are as ever"
