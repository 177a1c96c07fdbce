"""Runs and tables in stores: the names, and the same landing by Hadoop's FileSystem, here of `file://`, which needs no other jar.

With an object store: test_s3.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from minikafka_analytics.analyze import analyze
from minikafka_analytics.landing import landing as landing_module
from minikafka_analytics.landing import manifest as manifests
from minikafka_analytics.landing.landing import Landing
from minikafka_analytics.landing.pending import is_parent, runs_in, without_report
from minikafka_analytics.landing.run_folder import NoRun, open_runs
from minikafka_analytics.landing.schemas import TABLES
from minikafka_analytics.spark import session
from minikafka_analytics.storage import stores
from minikafka_analytics.storage.stores import Place, StoreFailed, StorePath, place
from synthetic_run import write_run

pytestmark = pytest.mark.timeout(900)

SEND = {"process": 1, "op": "send", "type": "invoke", "topic": "t", "partition": 0, "value": "a"}


def of(folder: Path) -> Place:
    """A folder of this machine as one in a store."""
    return place(folder.as_uri() if folder.as_uri() == f"file://{folder}" else f"file://{folder}")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("s3a://lab/runs/one", "s3a://lab/runs/one"),
        ("s3a://lab/runs//one/", "s3a://lab/runs/one"),
        ("S3A://lab/./a/../b [1] %41#?", "s3a://lab/b [1] %41#?"),
        ("s3a://lab", "s3a://lab/"),
        ("file:/tmp/a", "file:///tmp/a"),
        ("file:///tmp/a", "file:///tmp/a"),
        ("hdfs://name:8020/a", "hdfs://name:8020/a"),
    ],
)
def test_what_has_a_scheme_is_in_a_store(text: str, names: str) -> None:
    found = place(text)
    assert isinstance(found, StorePath)
    assert (str(found), place(names)) == (names, found)


@pytest.mark.parametrize("text", ["runs/one", "/runs/one", "a:b", "s3a:/lab", "://x", "."])
def test_all_else_is_here(text: str) -> None:
    assert place(text) == Path(text)


def test_names_in_a_store_are_those_of_paths() -> None:
    run = place("s3a://lab/runs/one")
    assert isinstance(run, StorePath)
    assert (run.name, str(run.parent), place("s3a://lab").name) == ("one", "s3a://lab/runs", "lab")
    assert [str(each) for each in run.parents] == ["s3a://lab/runs", "s3a://lab/"]
    assert str(run / "metrics/unanswered.json") == "s3a://lab/runs/one/metrics/unanswered.json"
    assert stores.below(run / "events" / "a.jsonl", run) == "events/a.jsonl"
    with pytest.raises(ValueError, match="is not in"):
        stores.below(place("s3a://lab/runs/two/a"), run)


def test_a_store_is_not_asked_for_without_a_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._jvm", None)
    with pytest.raises(StoreFailed, match="none runs"):
        place("s3a://lab/runs/one").exists()
    with session.reached([Path("here")], "local[2]"):  # where nothing is in a store none is started
        pass


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a history, and the events of two brokers, in a folder full of Hadoop's wildcards."""
    folder = tmp_path / "runs" / "a [1]"
    (folder / "events").mkdir(parents=True)
    write(folder / "history.jsonl", {"time": 1.0, **SEND}, {"time": 2.0, **SEND})
    for broker in (0, 1):
        event = {"time": 1.0, "broker": broker, "event": "broker_fenced", "fields": {"target": 1}}
        write(folder / "events" / f"broker-{broker}.jsonl", event)
    return folder


def write(path: Path, *each: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in each))


def land(spark: Any, out: Path, *runs: Path) -> tuple[list[tuple[str, str]], dict[str, list[Any]]]:
    """The files that were landed, by run, and the rows of each table: all of it by Hadoop's FileSystem."""
    landing = Landing(open_runs([of(run) for run in runs]), of(out))
    landed = {table.name: landing.land(spark, table) for table in TABLES}
    filled = {one.table for each in landing.manifests.values() for one in each}
    tables = {name: table.collect() if name in filled else [] for name, table in landed.items()}
    rows = {name: sorted(each, key=lambda row: (row["run"], row["seq"])) for name, each in tables.items()}
    return sorted((one.run, one.file) for one in landing.anew), rows


@pytest.mark.full
def test_the_second_landing_in_a_store_lands_nothing(spark: Any, run: Path, tmp_path: Path) -> None:
    first, rows = land(spark, tmp_path / "out", run)
    assert [file for _, file in first] == ["events/broker-0.jsonl", "events/broker-1.jsonl", "history.jsonl"]
    assert {(row["run"], row["file"], row["broker"]) for row in rows["events"]} == {
        ("a [1]", "events/broker-0.jsonl", 0),
        ("a [1]", "events/broker-1.jsonl", 1),
    }
    assert land(spark, tmp_path / "out", run) == ([], rows)
    other = tmp_path / "runs" / "b"
    other.mkdir()
    write(other / "history.jsonl", {"time": 9.0, **SEND})
    more, rows = land(
        spark, tmp_path / "out", run, other
    )  # two runs in one read: what Spark calls their files tells them apart
    assert more == [("b", "history.jsonl")]
    assert [(row["run"], row["time"]) for row in rows["history"]] == [("a [1]", 1.0), ("a [1]", 2.0), ("b", 9.0)]


@pytest.mark.full
def test_what_is_in_a_store_is_what_is_landed_here(spark: Any, run: Path, tmp_path: Path) -> None:
    landing = Landing(open_runs([run]), tmp_path / "here")
    here = {table.name: landing.land(spark, table).collect() for table in TABLES}
    _, there = land(spark, tmp_path / "there", run)
    assert {name: sorted(map(str, rows)) for name, rows in there.items()} == {
        name: sorted(map(str, rows)) for name, rows in here.items()
    }


@pytest.mark.full
def test_only_what_has_changed_is_landed_anew_in_a_store(spark: Any, run: Path, tmp_path: Path) -> None:
    land(spark, tmp_path / "out", run)
    with (run / "history.jsonl").open("a") as file:
        file.write(json.dumps({"time": 3.0, **SEND}) + '\n{"torn')
    grown, rows = land(spark, tmp_path / "out", run)
    assert (grown, len(rows["history"])) == ([("a [1]", "history.jsonl")], 3)
    assert [row["reason"] for row in spark.read.parquet(str(tmp_path / "out" / "quarantine")).collect()] == [
        "truncated"
    ]
    (run / "events" / "broker-0.jsonl").unlink()
    gone, rows = land(spark, tmp_path / "out", run)
    assert (gone, [row["broker"] for row in rows["events"]]) == ([], [1])
    assert len(list((tmp_path / "out" / "events").rglob("*.parquet"))) == 1


@pytest.mark.full
@pytest.mark.parametrize("moment", ["before the manifest", "writing", "removing"])
def test_who_dies_while_landing_in_a_store_leaves_nothing_that_counts(
    spark: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    class Died(Exception):
        pass

    def die(*_: Any) -> Any:
        raise Died

    land(spark, tmp_path / "out", run)
    with (run / "history.jsonl").open("a") as file:
        file.write(json.dumps({"time": 3.0, **SEND}) + "\n")
    folder = tmp_path / "out" / "history" / "run=a %5B1%5D" / "file=history.jsonl"
    remove = manifests.remove

    def remove_one(path: Place) -> None:
        if path.name == folder.name:
            raise Died
        remove(path)

    target, name, does = {
        "writing": (landing_module, "_counted", die),
        "before the manifest": (manifests, "write", die),
        "removing": (manifests, "remove", remove_one),
    }[moment]
    with monkeypatch.context() as patched:
        patched.setattr(target, name, does)
        with pytest.raises(Died):
            land(spark, tmp_path / "out", run)
    assert not (folder / manifests.NAME).exists()
    landed, rows = land(spark, tmp_path / "out", run)
    assert (landed, len(rows["history"])) == ([("a [1]", "history.jsonl")], 3)


def test_an_object_is_known_by_its_entity_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has another time; what was overwritten with as many bytes has another tag, be its time what it may."""
    of_one = manifests.Manifest("", "", "", "", "", bytes=5, mtime_ns=1, sha256="", etag='"a"')
    assert manifests._unchanged(of_one, stores.FileStamp(5, 2, '"a"'))
    assert not manifests._unchanged(of_one, stores.FileStamp(5, 1, '"b"'))
    assert manifests._unchanged(of_one, stores.FileStamp(5, 1))
    assert not manifests._unchanged(of_one, stores.FileStamp(5, 2))


def test_reading_and_writing_in_a_store(spark: Any, tmp_path: Path) -> None:
    file = of(tmp_path) / "new/a [1] %41.txt"
    stores.put_text(file, "one\ntwo\n")
    stores.put_text(file, "ä\nthree")
    assert (tmp_path / "new" / "a [1] %41.txt").read_text() == "ä\nthree"
    assert (list(stores.lines(file)), stores.tail(file, 4), stores.tail(file, 99)) == (
        ["ä", "three"],
        b"hree",
        "ä\nthree".encode(),
    )
    assert stores.digest(file) == stores.digest(tmp_path / "new" / "a [1] %41.txt")
    assert (file.is_file(), file.is_dir(), file.parent.is_dir(), file.stat().st_size) == (True, False, True, 8)
    assert [each.name for each in file.parent.iterdir()] == ["a [1] %41.txt"]
    assert list((of(tmp_path) / "none").glob("*")) == []
    with pytest.raises(FileNotFoundError):
        (of(tmp_path) / "none").stat()
    stores.remove(file.parent)
    stores.remove(file.parent)
    assert not file.parent.exists()


def test_a_folder_in_a_store_that_is_no_run(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NoRun, match=r"file://.*/nowhere: no such run folder"):
        open_runs([of(tmp_path / "nowhere")])
    with pytest.raises(NoRun, match="not a run folder"):
        open_runs([of(tmp_path)])


def test_a_scheme_that_nobody_knows_is_told_in_a_line(spark: Any) -> None:
    with pytest.raises(
        StoreFailed, match=r"^nfs4://x/y: Hadoop knows no nfs4://; give its jar with --packages, or --conf spark.jars$"
    ):
        place("nfs4://x/y").exists()
    with pytest.raises(StoreFailed, match=r"^s3://lab/y: Hadoop reads S3 as s3a://lab/\.\.\.$"):
        place("s3://lab/y").exists()
    with pytest.raises(StoreFailed, match=r"lacks the jar for s3a:// .*--packages org.apache.hadoop:hadoop-aws:\d"):
        place("s3a://lab/y").exists()


def test_the_runs_of_a_folder_in_a_store(spark: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "b")
    write_run(tmp_path / "runs" / "a", verdict="")
    (tmp_path / "runs" / "file").write_text("")
    parent = of(tmp_path / "runs")
    assert is_parent(parent) and not is_parent(parent / "b")
    found = runs_in(parent)
    assert ([run.name for run in found.missing], [run.name for run in found.left_out]) == (["b"], ["a"])
    assert [run.name for run in without_report(parent)] == ["b"]


@pytest.mark.full
def test_the_report_of_a_run_in_a_store_is_that_of_a_local_one(spark: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one", lose=True, torn=True)
    here = analyze([tmp_path / "runs" / "one"], tmp_path / "here")
    there = analyze([of(tmp_path / "runs" / "one")], of(tmp_path / "there"))
    reports = [json.loads(paths.json.read_text(encoding="utf-8")) for paths in (here, there)]
    for report in reports:
        assert report["runs"][0].pop("path").endswith("runs/one")
        del report["generated_at"]
    assert reports[0] == reports[1]
    assert {(one.file, one.sha256) for one in there.landed} == {(one.file, one.sha256) for one in here.landed}
    assert not list((tmp_path / "there" / "parquet").glob("steps-*"))
    again = analyze(
        [of(tmp_path / "runs" / "one")], tmp_path / "here"
    )  # a mixture; what is landed is known by its digest
    assert (again.landed, again.kept) == ((), here.kept + len(here.landed))
    assert runs_in(of(tmp_path / "runs")).missing  # its report is elsewhere
