"""`minikafka analyze s3a://...` on a real S3 server: what users type, in processes of their own."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import Ended, analyse
from s3_store import CREDENTIALS, Store, serving
from synthetic_run import write_run

from tests.interop.conftest import need_kafka_jars

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | CREDENTIALS


@pytest.fixture(scope="module")
def store(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An S3 server with the bucket `lab`."""
    started: list[Store] = []
    server = serving(tmp_path_factory.mktemp("s3") / "log")
    need_kafka_jars(lambda: started.append(server.__enter__()))
    try:
        started[0].make_bucket("lab")
        yield started[0]
    finally:
        server.__exit__(None, None, None)


def analysed(store: Store, what: str, *more: str, env: dict[str, str] = ENVIRONMENT, **settings: str) -> Ended:
    return analyse(what, *store.options(**settings), *more, env=env)


def of_a_run(report: str | bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report)
    assert found["runs"][0].pop("path") and found.pop("generated_at")
    return found


def test_a_folder_of_runs_in_a_bucket(store: Store, tmp_path: Path) -> None:
    for name, options in {"a": {}, "b [1] %41": {"lose": True, "torn": True}}.items():
        write_run(tmp_path / "runs" / name, **options)
        store.upload(tmp_path / "runs" / name, f"lab/runs/{name.replace(' ', '%20').replace('%41', '%2541')}")
    first = analysed(store, "s3a://lab/runs")
    assert (first.code, first.err) == (1, ""), first
    assert first.out.count("landed: ") == 2 and "comparison: s3a://lab/runs/comparison/comparison.json" in first.out
    before = store.keys("lab")
    assert "runs/b [1] %41/report.html" in before

    second = analysed(store, "s3a://lab/runs")
    assert (second.code, second.err) == (1, "")
    assert "landed: 0 bytes; every run in s3a://lab/runs has its report" in second.out
    after = store.keys("lab")
    comparison = "runs/comparison/comparison.json"
    assert {key: tag for key, tag in after.items() if key != comparison} == {
        key: tag for key, tag in before.items() if key != comparison
    }
    assert {row["run"] for row in json.loads(store.get(f"lab/{comparison}"))["runs"]} == {"a", "b [1] %41"}


def test_one_more_run_in_a_bucket(store: Store, tmp_path: Path) -> None:
    """It alone is landed and analysed; `test_comparison.py` has the same in a folder."""
    for name, options in {"a": {}, "c": {"duplicate": True}}.items():
        write_run(tmp_path / name, **options)
        store.upload(tmp_path / name, f"lab/more/{name}")
        said = analysed(store, "s3a://lab/more").out
        assert said.count("landed: ") == 1 and f"{name}: is analysed (1 of 1)" in said


def test_what_is_landed_here_of_a_bucket(store: Store, tmp_path: Path) -> None:
    """First all, then only the object that has other bytes; the report is that of the same run on this machine."""
    write_run(tmp_path / "a")
    store.upload(tmp_path / "a", "lab/single/a")
    assert analyse(tmp_path / "a", "--out", str(tmp_path / "out")).code == 0
    local = of_a_run((tmp_path / "out" / "report.json").read_text())
    assert analysed(store, "s3a://lab/single/a").code == 0
    assert of_a_run(store.get("lab/single/a/report.json")) == local

    mixed = analysed(store, "s3a://lab/single/a", "--out", str(tmp_path / "mixed"))
    assert mixed.code == 0 and "had been before" not in mixed.out
    assert of_a_run((tmp_path / "mixed" / "report.json").read_text()) == local

    events = "events/broker-1.jsonl"
    store.put(f"lab/single/a/{events}", (tmp_path / "a" / events).read_bytes())  # with another time
    again = analysed(store, "s3a://lab/single/a", "--out", str(tmp_path / "mixed"))
    assert "landed: 0 bytes of 0 files" in again.out
    assert of_a_run((tmp_path / "mixed" / "report.json").read_text()) == local


def refused(ended: Ended, line: str, code: int = 3) -> None:
    """One line, and nothing else."""
    assert (ended.code, ended.out) == (code, ""), ended
    assert ended.err.count("\n") == 1 and line in ended.err, ended.err


def test_what_cannot_be_read_is_told_in_one_line(store: Store) -> None:
    refused(analysed(store, "s3a://nowhere/runs/one"), "s3a://nowhere/runs/one: there is no bucket nowhere")
    refused(analysed(store, "s3a://lab/none"), "s3a://lab/none: no such run folder", code=2)
    store.put("lab/other/readme", b"no run")
    refused(analysed(store, "s3a://lab/other"), "s3a://lab/other: not a run folder", code=2)
    with store.refusing():
        refused(analysed(store, "s3a://lab/other"), "s3a://lab/other: access denied: ")
    anonymous = {name: value for name, value in ENVIRONMENT.items() if not name.endswith(("_ID", "_KEY"))}
    refused(analysed(store, "s3a://lab/other", env=anonymous), "s3a://lab/other: no credentials: set AWS_ACCESS_KEY_ID")
    refused(analyse("s3a://lab/other", env=ENVIRONMENT), "Spark lacks the jar for s3a://")


@pytest.mark.parametrize("listens", [False, True], ids=["nobody there", "never answers"])
def test_a_store_that_does_not_answer_is_told_of_soon(store: Store, listens: bool) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        if listens:
            deaf.listen(64)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        settings = {"connection_timeout": "5s"} if listens else {}
        refused(
            analysed(store, "s3a://lab/runs/a", endpoint=url, **settings),
            "s3a://lab/runs/a: the store is not reached: ",
        )
