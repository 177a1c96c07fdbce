"""Analyses runs: lands their files as Parquet, asks Spark, and writes the report as a page and as data."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka import __version__

from minikafka_analytics import queries
from minikafka_analytics.landing.landing import Landing
from minikafka_analytics.landing.landing import answers as landing_answers
from minikafka_analytics.landing.manifest import Manifest
from minikafka_analytics.landing.parsing import sources, typed
from minikafka_analytics.landing.run_folder import RunFolder, open_runs
from minikafka_analytics.landing.schemas import HISTORY, JOURNAL, REPLICAS, TABLES, Landed
from minikafka_analytics.report import document
from minikafka_analytics.report.page import page
from minikafka_analytics.spark.failures import in_one_line
from minikafka_analytics.spark.on_kubernetes import executors_like_this_pod
from minikafka_analytics.spark.questions import Questions, Record
from minikafka_analytics.spark.session import cancelling, reached, spark_session, spilling_to
from minikafka_analytics.spark.settings import is_local, of_few_bytes
from minikafka_analytics.spark.sql import query
from minikafka_analytics.spark.steps import Steps
from minikafka_analytics.storage.stores import Place, absolute, make_folder, put_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JUDGED = (HISTORY, JOURNAL, REPLICAS)
"""The evidence that a verdict follows from."""


class ReportPaths(NamedTuple):
    """What an analysis leaves: the page, its data, and the folder of Parquet tables; and what it landed for that.

    `landed`: the files that were landed; `kept`: how many others had been landed before, and have not changed since.
    """

    html: Place
    json: Place
    parquet: Place
    landed: tuple[Manifest, ...] = ()
    kept: int = 0


Start = Callable[[str, Mapping[str, str] | None, int], "AbstractContextManager[SparkSession]"]
"""What gives a Spark session for a master, settings, and so many bytes of files: `spark_session`, or `WarmSpark.session`."""


def analyze(
    run_dirs: Sequence[Place],
    out: Place,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    start: Start = spark_session,
) -> ReportPaths:
    """Writes `report.html`, `report.json` and `parquet/` of one or more runs into `out`, and says where they are.

    `master` and `settings` go to Spark, which `start` gives. Raises NoRun for a folder that is no run, JavaMissing without a Java
    that Spark can run on, SparkDidNotStart when Spark cannot start there, SparkFailed when it cannot finish, StoreFailed when a
    store cannot be read or written, BadMaster for executors that are pods where they cannot be had, and OSError when `out`
    cannot be written. A report that is in `out` already is replaced; what was landed there is landed anew where a run's file
    has changed since.
    """
    with reached([*run_dirs, out], master, settings):
        return _analyze(run_dirs, out, master, settings, start)


def _analyze(
    run_dirs: Sequence[Place], out: Place, master: str, settings: Mapping[str, str] | None, start: Start
) -> ReportPaths:
    runs = open_runs(run_dirs)
    out = absolute(out)
    paths = ReportPaths(out / "report.html", out / "report.json", out / "parquet")
    landing = Landing(runs, paths.parquet)
    make_folder(paths.parquet)
    size = sum(path.stat().st_size for run in runs for table in TABLES for path in run.files(table.name))
    small = of_few_bytes(size)
    with (
        ThreadPoolExecutor(1) as beside,
        executors_like_this_pod(master, settings, [paths.parquet, *(run.path for run in runs)]) as (where, chosen),
        start(where, chosen, size) as spark,
        in_one_line(out, partial(spilling_to, spark)),
        _for_steps(paths.parquet, master) as folder,
        Steps(folder, small) as steps,
        Questions(steps) as ask,
        cancelling(spark),
    ):
        for table in (
            *JUDGED,
            *(table for table in TABLES if table not in JUDGED),
        ):  # what takes longest waits for these
            ask.add_table(table.name, partial(_land, steps, spark, landing, table))
        answers = queries.answer_all(ask) | landing_answers(landing.manifests)
        # Stopping Spark is waiting. A store is written by way of Spark's own JVM, so not while it stops.
        writing = beside.submit(_write, runs, answers, ask.asked(), paths) if isinstance(out, Path) else None
    if writing is not None:
        writing.result()
    else:
        _write(runs, answers, ask.asked(), paths)
    kept = sum(map(len, landing.manifests.values())) - len(landing.anew)
    return paths._replace(landed=tuple(landing.anew), kept=kept)


def _write(
    runs: Sequence[RunFolder], answers: Mapping[str, list[Record]], asked: Sequence[Record], paths: ReportPaths
) -> None:
    report = document.report(runs, answers, __version__, asked)
    points = {run["id"]: document.series(answers, run) for run in report["runs"]}
    put_text(paths.json, json.dumps(report, indent=1, ensure_ascii=False, default=_jsonable) + "\n")
    put_text(paths.html, page(report, points))


def judge(
    run_dirs: Sequence[Place], scratch: Path, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> list[Any]:
    """The verdict of each run, without a report: a record with id, verdict, counts and kinds; any number of runs at once.

    `scratch`: a folder for what Spark puts down meanwhile. Raises what `analyze` raises.
    """
    with reached(run_dirs, master, settings):
        return _judge(run_dirs, scratch, master, settings)


def _judge(run_dirs: Sequence[Place], scratch: Path, master: str, settings: Mapping[str, str] | None) -> list[Any]:
    runs = open_runs(run_dirs)
    size = sum(path.stat().st_size for run in runs for table in JUDGED for path in run.files(table.name))
    small = of_few_bytes(size)
    with (
        spark_session(master, settings, size) as spark,
        in_one_line(scratch, partial(spilling_to, spark)),
        Steps(scratch, small) as steps,
        Questions(steps) as ask,
        cancelling(spark),
    ):
        for table in JUDGED:
            files = [source for run in runs for source in sources(run, table)]
            ask.step(f"all of {table.name}", partial(typed, spark, files, table))
            ask.view(table.name, lambda rows: rows.where("NOT bad"), f"all of {table.name}")
            ask.answer(f"bad {table.name}", partial(_bad_lines, table), f"all of {table.name}")
        answers = queries.judge(ask)
    answers["lines"] = [row for table in JUDGED for row in answers.pop(f"bad {table.name}")]
    return document.judged(runs, answers)


@contextmanager
def _for_steps(parquet: Place, master: str) -> Iterator[Place]:
    """A folder that all executors reach: where the tables are, or a local one when these are in a store and Spark is local."""
    if isinstance(parquet, Path) or not is_local(master):
        yield parquet
        return
    with tempfile.TemporaryDirectory(prefix="minikafka-steps-") as folder:
        yield Path(folder)


def _land(steps: Steps, spark: SparkSession, landing: Landing, table: Landed) -> DataFrame:
    return steps.whole(landing.land(spark, table))


def _bad_lines(table: Landed, rows: DataFrame) -> DataFrame:
    """By run: how many lines of a table are no such lines."""
    return query(
        "SELECT run, {table} AS `table`, count(*) AS malformed FROM {rows} WHERE bad GROUP BY run",
        rows=rows,
        table=table.name,
    )


class ReportedRun(NamedTuple):
    """What a report says of one run. `agree`: whether both judges do; None where one has not judged."""

    id: str
    verdict: str
    sentence: str
    agree: bool | None


def reported_runs(paths: ReportPaths) -> list[ReportedRun]:
    """Return what a report says of each of its runs."""
    return reported_runs_in(paths.json)


def reported_runs_in(path: Place) -> list[ReportedRun]:
    """Return what a `report.json` says of each of its runs."""
    report = json.loads(path.read_text(encoding="utf-8"))
    said = [(run["id"], run["verdict"]) for run in report["runs"]]
    return [ReportedRun(name, verdict["verdict"], verdict["sentence"], verdict["agree"]) for name, verdict in said]


def _jsonable(value: object) -> Any:
    raise TypeError(f"report.json cannot hold {type(value).__name__}")
