"""Fixtures of the analytics tests: synthetic runs, and one analysis of all of them, because starting Spark takes seconds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode does not make siblings importable

from synthetic_run import Expected, write_run

from tests.demo import Demo, demo_run
from tests.spark import java, spark

__all__ = ["demo_run", "java", "spark"]

VARIANTS: dict[str, dict[str, Any]] = {
    "good": {},
    "lossy [1] {a}": {"lose": True, "duplicate": True, "torn": True},  # a name full of Hadoop's wildcards
    "unjudged": {"verdict": "", "final_read": False},
    "hidden-loss": {"lose": True, "verdict": "Passed"},
    "foreign-lines": {"foreign": True},
    "history-only": {},
}
BESIDE = ("metrics/samples.jsonl", *(f"events/broker-{n}.jsonl" for n in (1, 2, 3)))
LEFT_OUT = {"history-only": ("journal.jsonl", *BESIDE), "unjudged": BESIDE, "hidden-loss": BESIDE}
"""Files that a run does not have: each is landed by itself, and no verdict follows from samples and events."""


@pytest.fixture(scope="session", autouse=True)
def published() -> Iterator[None]:
    """Holds every report that these tests make to its schema."""
    from minikafka_analytics.report import document

    report = document.report

    def checked(*arguments: Any) -> dict[str, Any]:
        made = report(*arguments)
        hold_to_schema(json.loads(json.dumps(made)))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "report", checked)
        yield


def hold_to_schema(report: dict[str, Any]) -> None:
    """Raises what is wrong first with a report: also a key that the schema does not name."""
    import jsonschema
    from minikafka_analytics.report.schema import schema

    jsonschema.Draft202012Validator(schema(closed=True)).validate(report)


@dataclass(frozen=True)
class Analysed:
    """The report of all variants and of a demo, what is known of them, and where everything lies."""

    report: dict[str, Any]
    expected: dict[str, Expected]
    html: str
    points: Mapping[str, Any]
    """What the page's plots were drawn of, by run."""
    parquet: Path
    demo: Demo

    def run(self, name: str) -> dict[str, Any]:
        """The part of the report about one run."""
        found: dict[str, Any] = next(run for run in self.report["runs"] if run["id"] == name)
        return found


@pytest.fixture(scope="session")
def analysed(spark: object, demo_run: Demo, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """Every variant and the run of a demo, analysed together."""
    from minikafka_analytics import analyze as analyze_module

    drawn: list[Mapping[str, Any]] = []

    def page(report: dict[str, Any], points: Mapping[str, Any]) -> str:
        drawn.append(points)
        return page_of(report, points)

    page_of = analyze_module.page
    root = tmp_path_factory.mktemp("runs")
    expected = {name: write_run(root / name, **options) for name, options in VARIANTS.items()}
    for name, files in LEFT_OUT.items():
        for file in files:
            (root / name / file).unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyze_module, "page", page)
        paths = analyze_module.analyze([*(root / name for name in VARIANTS), demo_run.folder], root / "comparison")
    report = json.loads(paths.json.read_text(encoding="utf-8"))
    return Analysed(report, expected, paths.html.read_text(encoding="utf-8"), *drawn, paths.parquet, demo_run)
