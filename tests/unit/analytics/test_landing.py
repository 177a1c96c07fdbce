"""Landing by manifest: what is landed again and what is not, what a half-written landing is worth, where bad lines go."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minikafka_analytics.landing import landing as landing_module
from minikafka_analytics.landing import manifest as manifests
from minikafka_analytics.landing import parsing
from minikafka_analytics.landing.landing import Landing, answers
from minikafka_analytics.landing.run_folder import NoRun, open_runs
from minikafka_analytics.landing.schemas import EVENTS, HISTORY, JOURNAL, REPLICAS, SAMPLES, TABLES, Reason

from tests.forms import in_full

pytestmark = pytest.mark.timeout(900)

SEND = {"process": 1, "op": "send", "type": "invoke", "topic": "t", "partition": 0, "value": "a"}


def lines(*each: dict[str, Any] | bytes) -> bytes:
    return b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in each)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return written(tmp_path / "runs" / "a [1]")


def written(folder: Path) -> Path:
    """A run with a history, and the events of two brokers."""
    (folder / "events").mkdir(parents=True)
    (folder / "history.jsonl").write_bytes(lines({"time": 1.0, **SEND}, {"time": 2.0, **SEND}))
    for broker in (0, 1):
        event = {"time": 1.0, "broker": broker, "event": "broker_fenced", "fields": {"target": 1}}
        (folder / "events" / f"broker-{broker}.jsonl").write_bytes(lines(event))
    return folder


def land(spark: Any, *runs: Path, out: Path) -> tuple[list[str], dict[str, list[Any]], Landing]:
    """The files that were landed, the rows of each table in the order of their lines, and the landing itself."""
    landing = Landing(open_runs(runs), out)
    landed = {table.name: landing.land(spark, table) for table in TABLES}
    filled = {one.table for each in landing.manifests.values() for one in each}
    tables = {name: table.collect() if name in filled else [] for name, table in landed.items()}
    rows = {name: sorted(each, key=lambda row: (row["run"], row["seq"])) for name, each in tables.items()}
    return sorted(one.file for one in landing.anew), rows, landing


@pytest.fixture(scope="module")
def landed_once(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landed")
    land(spark, written(root / "used" / "runs" / "a [1]"), out=root / "used" / "out")
    return root


@pytest.fixture
def landed(landed_once: Path) -> Iterator[tuple[Path, Path]]:
    """A run, and where it has been landed: always the same folders, for manifests name them."""
    used, whole = landed_once / "used", landed_once / "whole"
    shutil.copytree(used, whole)
    yield used / "runs" / "a [1]", used / "out"
    shutil.rmtree(used)
    whole.rename(used)


@pytest.mark.full
def test_a_colon_and_a_letter_of_patterns_in_the_name_of_a_folder(spark: Any, run: Path, tmp_path: Path) -> None:
    """HADOOP-14217: where Hadoop looks for patterns it takes what stands before a colon for a scheme."""
    dated = run.rename(run.with_name("run [1] 19:32"))
    another = shutil.copytree(dated, run.with_name("run {2}"))
    out = tmp_path / "out: [x]"
    for _ in ("landed", "read again"):
        _, rows, _ = land(spark, dated, another, out=out)
        assert {name: len(each) for name, each in rows.items() if each} == {"history": 4, "events": 4}
        assert {row["run"] for row in rows["events"]} == {dated.name, another.name}


@pytest.mark.full
def test_the_second_landing_lands_nothing(spark: Any, run: Path, tmp_path: Path) -> None:
    first, rows, _ = land(spark, run, out=tmp_path / "out")
    assert first == ["events/broker-0.jsonl", "events/broker-1.jsonl", "history.jsonl"]
    assert {(row["run"], row["file"], row["broker"]) for row in rows["events"]} == {
        ("a [1]", "events/broker-0.jsonl", 0),
        ("a [1]", "events/broker-1.jsonl", 1),
    }
    second, again, landing = land(spark, run, out=tmp_path / "out")
    assert (second, again) == ([], rows)
    assert [(one.file, one.rows, one.bad) for one in landing.manifests["a [1]"] if one.table == "history"] == [
        ("history.jsonl", 2, 0)
    ]


def test_only_a_file_that_has_grown_or_changed_is_landed_anew(spark: Any, landed: tuple[Path, Path]) -> None:
    run, out = landed
    history = run / "history.jsonl"
    before = history.stat().st_mtime_ns
    with history.open("ab") as file:
        file.write(lines({"time": 3.0, **SEND}))
    os.utime(history, ns=(before, before))  # clocks of file systems are coarse
    grown, rows, _ = land(spark, run, out=out)
    assert grown == ["history.jsonl"]
    assert [row["time"] for row in rows["history"]] == [1.0, 2.0, 3.0]
    broker = run / "events" / "broker-1.jsonl"
    broker.write_bytes(broker.read_bytes().replace(b'"broker": 1', b'"broker": 7'))
    os.utime(broker, ns=(1, 1))
    changed, rows, _ = land(spark, run, out=out)
    assert changed == ["events/broker-1.jsonl"]
    assert {row["broker"] for row in rows["events"]} == {0, 7}


@pytest.mark.full
def test_a_copy_of_a_run_is_not_landed_again(spark: Any, run: Path, tmp_path: Path) -> None:
    land(spark, run, out=run / "parquet")
    shutil.copytree(run, tmp_path / "elsewhere" / run.name, copy_function=shutil.copy)  # with other times of change
    copied, rows, _ = land(spark, tmp_path / "elsewhere" / run.name, out=tmp_path / "elsewhere" / run.name / "parquet")
    assert (copied, len(rows["history"])) == ([], 2)


@pytest.mark.full
def test_a_file_that_is_gone_is_gone_from_the_tables(spark: Any, landed: tuple[Path, Path]) -> None:
    run, out = landed
    (run / "events" / "broker-0.jsonl").unlink()
    anew, rows, _ = land(spark, run, out=out)
    assert (anew, [row["broker"] for row in rows["events"]]) == ([], [1])
    assert len(list((out / "events").rglob("*.parquet"))) == 1


@pytest.mark.full
def test_another_version_of_the_landing_is_landed_anew(
    spark: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out" / "history" / "run=a %5B1%5D").mkdir(parents=True)
    old = tmp_path / "out" / "history" / "run=a %5B1%5D" / "part-00000.parquet"  # as versions before manifests wrote it
    old.write_bytes(b"PAR1")
    land(spark, run, out=tmp_path / "out")
    assert not old.exists()
    monkeypatch.setattr(manifests, "VERSION", manifests.VERSION + 1)
    assert len(land(spark, run, out=tmp_path / "out")[0]) == 3


@pytest.mark.parametrize("moment", ["half put", *in_full(["writing", "before the manifest", "putting"])])
def test_who_dies_while_landing_leaves_nothing_that_is_read(
    spark: Any, landed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    class Died(Exception):
        pass

    def die(*_: Any) -> Any:
        raise Died

    def half_put(new: Path, folder: Path) -> None:
        if folder.exists():
            os.replace(folder, folder.with_name(f".{folder.name}.old"))
        raise Died

    run, out = landed
    with (run / "history.jsonl").open("ab") as file:
        file.write(lines({"time": 3.0, **SEND}))
    target, name, does = {
        "writing": (landing_module, "uri", die),
        "before the manifest": (manifests, "write", die),
        "putting": (manifests, "put", die),
        "half put": (manifests, "put", half_put),
    }[moment]
    with monkeypatch.context() as patched:
        patched.setattr(target, name, does)
        with pytest.raises(Died):
            land(spark, run, out=out)
    anew, rows, _ = land(spark, run, out=out)
    assert (anew, len(rows["history"])) == (["history.jsonl"], 3)
    assert [path.name for path in (out / "history" / "run=a %5B1%5D").iterdir()] == ["file=history.jsonl"]


@pytest.mark.full
def test_rows_without_a_manifest_are_not_read(spark: Any, landed: tuple[Path, Path]) -> None:
    run, out = landed
    (out / "history" / "run=a %5B1%5D" / "file=history.jsonl" / manifests.NAME).unlink()
    assert land(spark, run, out=out)[0] == ["history.jsonl"]


@pytest.mark.full
@pytest.mark.parametrize("cut", [True, False])
def test_rows_that_somebody_took_away_are_landed_anew(spark: Any, run: Path, tmp_path: Path, cut: bool) -> None:
    """A copy that left the large files out, a disk that was full: the manifest alone is worth nothing."""
    _, rows, _ = land(spark, run, out=tmp_path / "out")
    for path in (tmp_path / "out" / "history").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100]) if cut else path.unlink()
    landed, again, _ = land(spark, run, out=tmp_path / "out")
    assert (landed, again["history"]) == (["history.jsonl"], rows["history"])


@pytest.mark.parametrize(
    "forged",
    [
        {"rows": "2"},
        {"rows": -1},
        {"bad": None},
        {"quarantined": None},
        {"quarantined": {"foreign": 5}},
        {"quarantined": {"foreign": {"lines": 1, "first": 1}}},
        {"parts": []},
        {"table": "journal"},
        {"run": "another"},
        {"more": 1},
        "[" * 100_000,
    ],
    ids=str,
)
def test_a_manifest_that_no_landing_wrote_is_none(run: Path, tmp_path: Path, forged: Any) -> None:
    (source,) = parsing.sources(open_runs([run])[0], HISTORY)
    told = manifests.of_file(source, HISTORY, run)
    manifests.write(told, tmp_path)
    assert manifests.current(source, HISTORY, tmp_path) == told
    whole = json.loads((tmp_path / manifests.NAME).read_text())
    (tmp_path / manifests.NAME).write_text(forged if isinstance(forged, str) else json.dumps(whole | forged))
    assert manifests.current(source, HISTORY, tmp_path) is None


@pytest.mark.full
def test_one_more_run_is_landed_alone(spark: Any, landed: tuple[Path, Path], tmp_path: Path) -> None:
    run, out = landed
    other = tmp_path / "runs" / "b"
    other.mkdir(parents=True)
    (other / "history.jsonl").write_bytes(lines({"time": 9.0, **SEND}))
    _, rows, landing = land(spark, run, other, out=out)
    assert [(one.run, one.file) for one in landing.anew] == [("b", "history.jsonl")]
    assert sorted((row["run"], row["time"]) for row in rows["history"]) == [("a [1]", 1.0), ("a [1]", 2.0), ("b", 9.0)]


def test_two_runs_of_one_id_are_never_taken_for_one(spark: Any, landed: tuple[Path, Path], tmp_path: Path) -> None:
    run, out = landed
    twin = tmp_path / "other" / run.name
    twin.mkdir(parents=True)
    (twin / "history.jsonl").write_bytes(lines({"time": 9.0, **SEND}))
    with pytest.raises(NoRun, match=r"holds another run of the id a \[1\] .*: give it another --out"):
        land(spark, twin, out=out)
    (twin / "history.jsonl").rename(twin / "journal.jsonl")  # nor is one that has none of the other's files
    with pytest.raises(NoRun, match="holds another run"):
        land(spark, twin, out=out)
    (twin / "journal.jsonl").rename(twin / "history.jsonl")
    _, rows, _ = land(spark, run, twin, out=tmp_path / "both")
    assert sorted((row["run"], row["time"]) for row in rows["history"]) == [
        ("other-a [1]", 9.0),
        ("runs-a [1]", 1.0),
        ("runs-a [1]", 2.0),
    ]


DAMAGED = (
    ({"time": 1.0, **SEND}, None),
    (b"\n", None),  # blank lines are no lines, and are counted
    (b"Traceback (most recent call last):\n", Reason.FOREIGN),
    (b"[]\n", Reason.FOREIGN),
    (b'{"time": 2.0} {"time": 3.0}\n', Reason.FOREIGN),
    (b"\xff\xfe\x00\n", Reason.NOT_TEXT),
    ({"time": "soon", **SEND}, Reason.WRONG_TYPE),
    ({"time": 4.0, **SEND, "value": 5}, Reason.WRONG_TYPE),
    ({"time": 1e12, **SEND}, Reason.OUT_OF_BOUNDS),
    ({"time": 5.0, **SEND, "partition": -1}, Reason.OUT_OF_BOUNDS),
    ({"time": 6.0, **SEND}, None),
    (b'{"time": 7.0, "process": 1, "op": "se', Reason.TRUNCATED),
)


@pytest.mark.parametrize("split_bytes", [None, *in_full([200])])
def test_a_bad_line_is_in_quarantine_with_its_number_and_its_reason(
    spark: Any, run: Path, tmp_path: Path, split_bytes: int | None
) -> None:
    """Also where Spark reads a file in several parts."""
    (run / "history.jsonl").write_bytes(lines(*(line for line, _ in DAMAGED)))
    try:
        if split_bytes is not None:
            spark.conf.set("spark.sql.files.maxPartitionBytes", split_bytes)
        landed, rows, landing = land(spark, run, out=tmp_path / "out")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert "history.jsonl" in landed
    assert [row["time"] for row in rows["history"]] == [1.0, 6.0]
    table = spark.read.parquet(str(tmp_path / "out" / "quarantine"))
    found = {(row["run"], row["file"], row["line"], row["reason"]) for row in table.collect()}
    expected = {("a [1]", "history.jsonl", n, why.value) for n, (_, why) in enumerate(DAMAGED, 1) if why is not None}
    assert found == expected
    (history,) = [one for one in landing.manifests["a [1]"] if one.table == "history"]
    assert (history.rows, history.bad) == (2, len(expected))
    told = {row["reason"]: (row["lines"], row["first"]) for row in answers(landing.manifests)["quarantined"]}
    assert told == {
        "foreign": (3, 3),
        "not text": (1, 6),
        "wrong type": (2, 7),
        "out of bounds": (2, 9),
        "truncated": (1, 12),
    }


EVENT = {"time": 1.0, "broker": 0, "event": "isr_shrunk", "fields": {"isr": [0]}}
SCRAPE = {"time": 1.0, "broker": 0, "samples": [["minikafka_leader_epoch", {"topic": "t", "partition": "0"}, 1]]}


@pytest.mark.parametrize(
    ("file", "whole", "bad"),
    [
        ("events/broker-0.jsonl", EVENT, {"time": 2.0, "broker": 0, "note": "no event"}),
        pytest.param(
            "metrics/samples.jsonl", SCRAPE, {"time": 2.0, "broker": 0, "note": "no scrape"}, marks=pytest.mark.full
        ),
    ],
)
def test_no_line_loses_a_part_without_a_word(
    spark: Any, run: Path, tmp_path: Path, file: str, whole: dict[str, Any], bad: dict[str, Any]
) -> None:
    """Two objects in a line, words behind one, bytes that are no text, another program's object: also of events and scrapes."""
    text = json.dumps(whole).encode()
    (run / file).parent.mkdir(exist_ok=True)
    twice, more = text + b" " + text + b"\n", text + b" and more\n"
    no_text = text[:-1] + b', "x": "\xff"}\n'
    (run / file).write_bytes(lines(whole, twice, more, no_text, bad, text + b" \r\n", {**whole, "time": 3.0}))
    _, _, landing = land(spark, run, out=tmp_path / "out")
    (landed,) = [one for one in landing.anew if one.file == file]
    told = {reason: (found["lines"], found["first"]) for reason, found in landed.quarantined.items()}
    assert told == {"foreign": (2, 2), "not text": (1, 4), "out of bounds": (1, 5)}


@pytest.mark.full
def test_lines_that_were_mended_leave_quarantine(spark: Any, run: Path, tmp_path: Path) -> None:
    whole = (run / "history.jsonl").read_bytes()
    (run / "history.jsonl").write_bytes(whole + b'{"torn')
    assert land(spark, run, out=tmp_path / "out")[2].anew[-1].bad == 1
    (run / "history.jsonl").write_bytes(whole)
    assert land(spark, run, out=tmp_path / "out")[2].anew[-1].bad == 0
    assert not list((tmp_path / "out" / "quarantine").rglob("*.parquet"))


def test_each_table_has_a_version_of_its_own() -> None:
    versions = {manifests.schema_version(table) for table in (EVENTS, HISTORY, JOURNAL, REPLICAS, SAMPLES)}
    assert len(versions) == len(TABLES)


def test_files_of_a_table_keep_an_order(run: Path) -> None:
    found = parsing.sources(open_runs([run])[0], EVENTS)
    assert [(each.name, each.place) for each in found] == [("events/broker-0.jsonl", 0), ("events/broker-1.jsonl", 1)]
