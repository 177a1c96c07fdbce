"""Puts the answers of Spark together into the report's data: one document, which `report.json` is and `report.html` shows.

Times in the document are seconds since the run began, unless a name ends in `_unix`; durations are seconds; offsets and
counts are whole numbers. Keys of `schemas.SCHEMA_VERSION` are only ever added to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from minikafka_analytics.judge import judgement
from minikafka_analytics.landing.run_folder import RunFolder
from minikafka_analytics.landing.schemas import SCHEMA_VERSION
from minikafka_analytics.report.journal import words
from minikafka_analytics.report.run import broken_lines, of_run
from minikafka_analytics.report.settings import differing

Record = dict[str, Any]


def report(
    runs: Sequence[RunFolder], answers: Mapping[str, list[Record]], version: str, asked: Sequence[Record] = ()
) -> Record:
    """The whole document: every run, in the order given, and, for several, in which settings they differ.

    `asked`: what Spark was asked (`Questions.asked`).
    """
    documents: list[Record] = []
    for number, run in enumerate(runs):
        found = {name: _of(rows, run.id) for name, rows in answers.items()}
        documents.append({"label": label(number), **of_run(run, found)})
    return {
        "schema": SCHEMA_VERSION,
        "generator": f"minikafka {version}",
        "generated_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": documents,
        "differing_settings": differing([document["settings"] for document in documents]),
        "asked": list(asked),
    }


def judged(runs: Sequence[RunFolder], answers: Mapping[str, list[Record]]) -> list[Record]:
    """Return for each run: id, verdict (both judges' words and whether they agree), counts and kinds; from `queries.judge`."""
    found = []
    for run in runs:
        rows = {name: _of(answer, run.id) for name, answer in answers.items()}
        own = judgement.judged(rows, broken_lines(run, rows["lines"]), run.has)
        lines = words(rows["journal"])
        verdict = judgement.verdict(lines[-1] if lines else None, own)
        found.append({"id": run.id, "verdict": verdict, "counts": own["counts"], "kinds": own["counts"]["anomalies"]})
    return found


def label(n: int) -> str:
    """A, B, ..., Z, A1, ...: what a run is called beside others."""
    return chr(ord("A") + n % 26) + (str(n // 26) if n >= 26 else "")


def _of(rows: Iterable[Record], run: str) -> list[Record]:
    return [{key: value for key, value in row.items() if key != "run"} for row in rows if row["run"] == run]


def series(answers: Mapping[str, list[Record]], run: Record) -> Record:
    """The points of the plots, which are no part of report.json: Parquet has them all."""
    began = run["began_unix"]
    return {
        name: [{**row, "time": row["time"] - began} for row in _of(answers[name], run["id"])]
        for name in ("series", "lag", "exposure")
    }
