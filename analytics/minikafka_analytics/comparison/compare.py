"""Many runs compared: what their reports tell together, as data (`comparison.json`) and as text.

Each run is analysed alone, into its own folder; here only reports are read, so that one more run costs its own analysis.
Durations are seconds. `runs`, `recovery`, `outcomes` and `outliers` of the document are the rows that the
modules of these names give; each of these asks the tables that `reports` makes of reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka import __version__

from minikafka_analytics.comparison import outcomes, outliers, recovery, reports
from minikafka_analytics.formatting import count, seconds
from minikafka_analytics.landing.pending import HISTORY, REPORT
from minikafka_analytics.spark.failures import in_one_line
from minikafka_analytics.spark.on_kubernetes import executors_like_this_pod
from minikafka_analytics.spark.session import reached, spark_session, spilling_to
from minikafka_analytics.storage.stores import Place, absolute, make_folder, put_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Record = dict[str, Any]

SCHEMA = "minikafka.comparison/v1"
NAME = "comparison.json"


class Comparison(NamedTuple):
    """Where the document is, and what is in it."""

    path: Place
    document: Record


def compare(
    runs: Sequence[Place],
    out: Place,
    left_out: Mapping[Place, str] | None = None,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
) -> Comparison:
    """Compares the runs by the report.json in their folders, and writes `comparison.json` into `out`.

    `left_out`: what else is not in it, and why; a copy of a run that is in it is left out, too. Raises what `analyze` raises.
    """
    with reached([*runs, out], master, settings):
        return _compared(runs, out, left_out or {}, master, settings)


def _compared(
    runs: Sequence[Place], out: Place, left_out: Mapping[Place, str], master: str, settings: Mapping[str, str] | None
) -> Comparison:
    runs = [absolute(run) for run in runs]
    twins = copies(runs)
    kept = [run for run in runs if run not in twins]
    out = absolute(out)
    make_folder(out)
    paths = [run / REPORT for run in kept]
    with (
        executors_like_this_pod(master, settings, [out, *kept]) as (where, chosen),
        spark_session(where, chosen, sum(path.stat().st_size for path in paths)) as spark,
        in_one_line(out, partial(spilling_to, spark)),
    ):
        documents = reports.read(spark, paths)
        each, times = reports.runs(documents).cache(), reports.times(documents).cache()
        tables = {
            "runs": each.orderBy("began_unix", "run"),
            "recovery": recovery.by_kind(times),
            "outcomes": outcomes.by_scenario(each),
            "outliers": outliers.found(outliers.figures(each, times)),
        }
        rows = {name: _collected(table) for name, table in tables.items()}
        each.unpersist()
        times.unpersist()
    whole = {
        **{str(run): why for run, why in left_out.items()},
        **{str(run): why for run, why in twins.items()},
    }
    document = {
        "schema": SCHEMA,
        "generator": f"minikafka {__version__}",
        "left_out": [{"folder": run, "reason": why} for run, why in whole.items()],
        **rows,
    }
    return Comparison(_write(out / NAME, document), document)


def copies(runs: Sequence[Place]) -> dict[Place, str]:
    """The runs whose history is another's, by the digests in their reports, and whose: such a pair counts once."""
    first: dict[str, Place] = {}
    found = {}
    for run in runs:
        (reported,) = json.loads((run / REPORT).read_text(encoding="utf-8"))["runs"]
        digests = [each["sha256"] for each in reported["files"]["landed"] if each["file"] == HISTORY]
        for digest in digests:
            if digest in first:
                found[run] = f"a copy of {first[digest].name}: it has the same {HISTORY}"
            first.setdefault(digest, run)
    return found


def text(document: Record) -> list[str]:
    """The comparison for a terminal: a line each."""
    lines = ["", *_table(OUTCOMES, document["outcomes"]), "", *_table(RECOVERY, document["recovery"])]
    if document["outliers"]:
        lines += ["", "unlike the others:"]
    lines += [
        f"  {row['run']}: {row['measure']} {seconds(row['value'])}, where the median of {row['among']} is"
        f" {seconds(row['median'])} ({row['of']})"
        for row in document["outliers"]
    ]
    if untold := sum(row["untold_faults"] or 0 for row in document["runs"]):
        lines.append(
            f"not in the times: how partitions came through {count(untold, 'fault')}, for reports do not tell it"
        )
    return lines + [f"left out: {row['folder']}: {row['reason']}" for row in document["left_out"]]


OUTCOMES = {
    "scenario": "scenario", "version": "version", "runs": "runs", "passed": "passed", "failed": "failed",
    "could_not_tell": "?", "acknowledged": "acknowledged", "lost": "lost", "duplicated": "twice", "gap_p50": "gap p50",
    "gap_p95": "p95", "gap_longest": "longest",
}  # fmt: skip
RECOVERY = {
    "kind": "fault", "measure": "until", "runs": "runs", "faults": "faults", "times": "times", "never": "never", "p50": "p50",
    "p95": "p95", "longest": "longest",
}  # fmt: skip


def _table(columns: Mapping[str, str], rows: Sequence[Record]) -> list[str]:
    cells = [list(columns.values()), *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    texts = {name for row in rows for name in columns if isinstance(row[name], str)}
    aligned = [
        [
            cell.ljust(width) if name in texts else cell.rjust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        for row in cells
    ]
    return ["  ".join(row).rstrip() for row in aligned]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return seconds(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _collected(table: DataFrame) -> list[Record]:
    return [row.asDict(recursive=True) for row in table.collect()]


def _write(path: Place, document: Record) -> Place:
    put_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path
