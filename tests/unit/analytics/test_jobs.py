"""What is asked of many runs, on tables small enough to be counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frames import frame, shape
from minikafka_analytics.comparison import outcomes, outliers, recovery, reports

pytestmark = pytest.mark.timeout(900)


def rows_of(table: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]


def time_of(run: str, number: int, measure: str, seconds: float | None, kind: str = "kill -9") -> dict[str, Any]:
    return {"run": run, "number": number, "kind": kind, "measure": measure, "seconds": seconds}


def partition(**given: Any) -> dict[str, Any]:
    nothing = {"re_elected": None, "gap": None, "re_acknowledged": None, "shrunk": None, "full_isr": None}
    return {"topic": "t", "partition": 0, "led": False, "never_again": False, **nothing, **given}


def report(**run: Any) -> dict[str, Any]:
    scenario = {"name": "demo", "version": "0.1.0", "ground": "processes"}
    counts = {"sent": 10, "acknowledged": 9, "lost": 1, "duplicated": 2, "reordered": 0, "longest_ack_gap_s": 0.5}
    whole = {
        "id": "a", "path": "/runs/a", "began_unix": 1.0, "seconds": 2.0, "scenario": scenario, "counts": counts,
        "verdict": {"verdict": "Failed", "agree": True}, "figures": {"latency_p99": 0.02}, "faults": [],
    }  # fmt: skip
    return {"schema": "minikafka.report/v1", "something": ["else"], "runs": [whole | run]}


class TestReports:
    def read(self, spark: Any, folder: Path, *documents: dict[str, Any]) -> Any:
        paths = []
        for number, document in enumerate(documents):
            path = folder / f"run [{number}]" / "report.json"
            path.parent.mkdir()
            path.write_text(json.dumps(document, indent=1))
            paths.append(path)
        return reports.read(spark, paths)

    def test_a_row_for_each_run(self, spark: Any, tmp_path: Path) -> None:
        old = report(id="b", faults=[{"number": 1, "told": False}, {"number": 2, "told": True}])
        del old["runs"][0]["scenario"]  # as reports of earlier versions
        table = reports.runs(self.read(spark, tmp_path, report(), old))
        assert table.dtypes == shape(spark, reports.RUNS)
        first, second = sorted(rows_of(table), key=lambda row: row["run"])
        assert first == {
            "run": "a", "scenario": "demo", "version": "0.1.0", "ground": "processes", "verdict": "Failed", "agree": True,
            "began_unix": 1.0, "seconds": 2.0, "sent": 10, "acknowledged": 9, "lost": 1, "duplicated": 2, "reordered": 0,
            "longest_gap": 0.5, "latency_p99": 0.02, "faults": 0, "untold_faults": 0,
        }  # fmt: skip
        assert (second["scenario"], second["version"], second["faults"], second["untold_faults"]) == (None, None, 2, 1)

    def test_a_row_for_each_time(self, spark: Any, tmp_path: Path) -> None:
        kill = {"number": 1, "name": "kill -9", "told": True, "noticed": 0.25, "brokers": [1]}
        kill["partitions"] = [
            partition(led=True, re_elected=0.3, gap=0.6, re_acknowledged=0.5, shrunk=0.1, full_isr=4.0),
            partition(partition=1, led=True, shrunk=0.1, gap=9.0, never_again=True, re_acknowledged=9.0),
            partition(partition=2),
        ]
        outage = {"number": 2, "name": "store outage", "told": True, "brokers": [], "partitions": []}
        table = reports.times(self.read(spark, tmp_path, report(faults=[kill, outage])))
        assert table.dtypes == shape(spark, reports.TIMES)
        found = {(row["number"], row["measure"], row["partition"]): row["seconds"] for row in rows_of(table)}
        assert found == {
            (1, "noticed", None): 0.25,
            (1, "elected", 0): 0.3,
            (1, "elected", 1): None,
            (1, "acknowledged", 0): 0.5,
            (1, "acknowledged", 1): None,
            (1, "full ISR", 0): 4.0,
            (1, "full ISR", 1): None,
        }


def test_times_by_kind_of_fault(spark: Any) -> None:
    times = [time_of("a", n, "elected", n / 10) for n in range(1, 21)]  # 0.1 to 2.0 s
    times += [time_of("b", 1, "elected", 7.0), time_of("b", 1, "elected", None), time_of("b", 2, "elected", None)]
    times += [time_of("b", 3, "noticed", None, kind="pause")]
    table = recovery.by_kind(frame(spark, reports.TIMES, *times))
    assert table.dtypes == shape(spark, recovery.BY_KIND)
    assert rows_of(table) == [
        {
            "kind": "kill -9", "measure": "elected", "runs": 2, "faults": 22, "times": 23, "never": 2, "p50": 1.1, "p95": 2.0,
            "longest": 7.0,
        },
        {
            "kind": "pause", "measure": "noticed", "runs": 1, "faults": 1, "times": 1, "never": 1, "p50": None, "p95": None,
            "longest": None,
        },
    ]  # fmt: skip


def test_outcomes_by_scenario_and_version(spark: Any) -> None:
    def run(name: str, verdict: str, lost: int, gap: float | None, **more: Any) -> dict[str, Any]:
        about = {
            "run": name,
            "scenario": "demo",
            "version": "0.1.0",
            "verdict": verdict,
            "lost": lost,
            "longest_gap": gap,
        }
        return {**about, "acknowledged": 100, "duplicated": 1, "reordered": 0, **more}

    runs = [
        run("a", "Passed", 0, 0.2),
        run("b", "Failed", 3, 0.4),
        run("c", "Inconclusive", 1, None),
        run("d", "Passed", 0, 0.9, version="0.2.0"),
        run("e", "Passed", 0, 0.1, scenario=None, version=None),
    ]
    table = outcomes.by_scenario(frame(spark, reports.RUNS, *runs))
    assert table.dtypes == shape(spark, outcomes.BY_SCENARIO)
    found = {(row["scenario"], row["version"]): row for row in rows_of(table)}
    assert {key: row["runs"] for key, row in found.items()} == {
        ("demo", "0.1.0"): 3,
        ("demo", "0.2.0"): 1,
        (None, None): 1,
    }
    first = found["demo", "0.1.0"]
    assert (first["passed"], first["failed"], first["could_not_tell"]) == (1, 1, 1)
    assert (first["acknowledged"], first["lost"], first["runs_with_loss"], first["duplicated"]) == (300, 4, 2, 3)
    assert (first["gap_p50"], first["gap_p95"], first["gap_longest"]) == (0.2, 0.4, 0.4)


OF_VALUES = {
    "too few": ((1.0, 1.1, 1.2, 9.0), []),
    "nothing differs": ((1.0, 1.0, 1.0, 1.0, 1.0), []),
    "a MAD of 0": ((1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0), ["r6"]),
    "far off by its score, and nobody would care": ((1.0, 1.001, 1.002, 1.001, 1.0, 1.05), []),
    "below the others": ((5.0, 5.2, 5.1, 5.0, 5.1, 0.1), ["r5"]),
    # The mean of these is 3.5, their standard deviation 4.5: by those 10 would be none. Median 1.1, MAD 0.1.
    "it does not hide itself": ((1.0, 1.1, 1.2, 1.1, 1.3, 0.9, 10.0), ["r6"]),
}


def test_outliers_of_each_figure_by_itself(spark: Any) -> None:
    rows = [
        {"of": of, "measure": "m", "run": f"r{n}", "value": value}
        for of, (values, _) in OF_VALUES.items()
        for n, value in enumerate(values)
    ]
    table = outliers.found(frame(spark, "of STRING, measure STRING, run STRING, value DOUBLE", *rows))
    assert table.dtypes == shape(spark, outliers.OUTLIERS)
    found = rows_of(table)
    for of, (_, runs) in OF_VALUES.items():
        assert [row["run"] for row in found if row["of"] == of] == runs, of
    (row,) = [row for row in found if row["of"] == "it does not hide itself"]
    assert (row["value"], row["median"], row["among"]) == (10.0, 1.1, 7)
    assert (row["mad"], row["score"]) == (pytest.approx(0.1), pytest.approx(0.6745 * 8.9 / 0.1))


def test_runs_are_compared_with_their_like(spark: Any) -> None:
    runs = [
        {"run": "a", "scenario": "demo", "version": "1", "longest_gap": 0.5, "latency_p99": None},
        {"run": "b", "scenario": None, "version": None, "longest_gap": 0.7, "latency_p99": 0.1},
    ]
    times = [time_of("a", 1, "elected", 0.3), time_of("a", 2, "elected", 0.9), time_of("b", 1, "elected", None)]
    table = outliers.figures(frame(spark, reports.RUNS, *runs), frame(spark, reports.TIMES, *times))
    assert sorted(tuple(row) for row in table.collect()) == [
        ("fault kill -9", "elected", "a", 0.9),
        ("scenario ?, version ?", "latency p99", "b", 0.1),
        ("scenario ?, version ?", "longest gap", "b", 0.7),
        ("scenario demo, version 1", "longest gap", "a", 0.5),
    ]
