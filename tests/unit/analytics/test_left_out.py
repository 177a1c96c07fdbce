"""Of what there can be a million of, a report tells the first rows one by one, and figures of all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import VARIANTS, Analysed
from minikafka_analytics import queries
from synthetic_run import write_run

pytestmark = pytest.mark.timeout(900)

LOSSY = next(name for name in VARIANTS if name.startswith("lossy"))
LISTS = ("elections", "isr_changes", "truncations", "returns", "events")


def without_seq(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of lines are counted over the files of all runs that are read at once."""
    return [{key: value for key, value in row.items() if key != "seq"} for row in rows]


@pytest.mark.full
def test_the_first_rows_are_told_and_all_are_counted(
    analysed: Analysed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minikafka_analytics.analyze import analyze

    whole = analysed.run(LOSSY)
    assert whole["left_out"] == {}
    assert all(fault["told"] for fault in whole["faults"])
    monkeypatch.setattr(queries, "ROWS_MAX", 1)
    write_run(tmp_path / "run", **VARIANTS[LOSSY])
    paths = analyze([tmp_path / "run"], tmp_path / "out")
    (run,) = json.loads(paths.json.read_text(encoding="utf-8"))["runs"]

    long = [name for name in LISTS if len(whole[name]) > 1]
    assert {"elections", "isr_changes"} <= set(long)
    told = {name: rows for name, rows in run["left_out"].items() if name in LISTS}
    assert told == {name: {"among": len(whole[name]), "told": 1} for name in long}
    for name in LISTS:
        assert without_seq(run[name]) == without_seq(whole[name][:1]), name
    for figure in ("truncated_records", "unclean_elections", "lost"):
        assert run["figures"][figure] == whole["figures"][figure]
    untold = [fault for fault in run["faults"] if not fault["told"]]
    assert untold
    assert [fault["partitions"] for fault in untold] == [[]] * len(untold)
    assert (
        f"Of {len(whole['elections']):,} elections the first 1 are told; counts and figures are of all."
        in run["unknowns"]
    )
    assert any(line.startswith("How partitions came through") for line in run["unknowns"])


def test_what_is_told_first_passes_one_window(spark: Any) -> None:
    """Two windows on each other held all elections of a run twice, and the second spilled with each page: a driver of the default
    memory died of the buffers by which hundreds of such files are read back."""
    frame = spark.sql("SELECT 'a' AS run, id AS at, id % 3 AS n FROM range(50)")
    told = queries.first("at DESC", number="place", all_of_them="sum(n)")(frame)
    assert [(row.at, row.place, row.among, row.all_of_them) for row in told.limit(2).collect()] == [
        (49, 1, 50, 49),
        (48, 2, 50, 49),
    ]
    assert list(nodes(told._jdf.queryExecution().optimizedPlan())).count("Window") == 1


def nodes(plan: Any) -> Iterator[str]:
    """What a plan is made of, by name: its text is cut in the session of these tests."""
    yield plan.nodeName()
    children = plan.children()
    for n in range(children.size()):
        yield from nodes(children.apply(n))
