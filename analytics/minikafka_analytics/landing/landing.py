"""Lands the files of runs as Parquet, one at a time, and reads them back; a file that is landed already is not read again.

Bad lines go to the table `quarantine`. What is landed, and what was before, is in manifests (`manifest.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minikafka_analytics.landing import manifest as manifests
from minikafka_analytics.landing.manifest import Manifest
from minikafka_analytics.landing.parsing import Source, columns_of, refused, sources, typed
from minikafka_analytics.landing.run_folder import NoRun, RunFolder
from minikafka_analytics.landing.schemas import QUARANTINE, QUARANTINED, TABLES, Landed
from minikafka_analytics.spark.session import generating
from minikafka_analytics.spark.settings import GENERATED_BYTES
from minikafka_analytics.storage.paths import reader, uri, with_names
from minikafka_analytics.storage.stores import Place, remove

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Record = dict[str, Any]

LONGEST_EXAMPLE = 200  # characters of the first bad line in a manifest and the report; quarantine has more


class Landing:
    """The landing of these runs in `out`. Raises NoRun where `out` has another run of the same id.

    `anew`: the manifests of what this landing landed; `manifests`: of all that is there of the runs, by run. Tables may be landed
    from several threads.
    """

    def __init__(self, runs: Sequence[RunFolder], out: Place) -> None:
        self._runs = runs
        self._out = out
        self._lock = threading.Lock()
        self._beside: SparkSession | None = None
        self.anew: list[Manifest] = []
        self.manifests: dict[str, list[Manifest]] = {run.id: [] for run in runs}
        for run in runs:
            self._must_be_of(run)

    def land(self, spark: SparkSession, table: Landed) -> DataFrame:
        """Lands the files of one table that have changed since or were never landed; the whole table of these runs, read back."""
        folders = []
        for run in self._runs:
            files = sources(run, table)
            self._forget_others(table, run, {each.name for each in files})
            for source in files:
                folder = manifests.folder_of(self._out, table.name, run.id, source.name)
                found = manifests.current(source, table, folder)
                if found is None:
                    found = self._land(spark, run, source, table, folder)
                    self.anew.append(found)
                self.manifests[run.id].append(found)
                folders.append(folder)
        return load(spark, table, self._out, folders)

    def _land(self, spark: SparkSession, run: RunFolder, source: Source, table: Landed, folder: Place) -> Manifest:
        manifest = manifests.of_file(source, table, run.path)
        if manifest.bytes >= GENERATED_BYTES:
            spark = self._generating(spark)
        new = manifests.being_written(folder)
        frame, counted = _counted(typed(spark, [source], table))
        frame.where("NOT bad").select(*columns_of(table)).write.parquet(uri(spark, new))
        found: Mapping[str, Any] = counted.get
        manifest = replace(manifest, rows=found["rows"], bad=found["bad"], parts=manifests.parts_of(new))
        quarantine = manifests.folder_of(self._out, QUARANTINE, run.id, source.name)
        if manifest.bad:
            kept = manifests.being_written(quarantine)
            refused(spark, source, table, (found["first_bad"], found["last_bad"])).write.parquet(uri(spark, kept))
            manifest = replace(manifest, quarantined=_by_reason(spark, kept))
            manifests.write(manifest, new)
            manifests.put(kept, quarantine)
        else:
            remove(quarantine)
            manifests.write(manifest, new)
        manifests.put(new, folder)
        return manifest

    def _generating(self, spark: SparkSession) -> SparkSession:
        with self._lock:
            if self._beside is None:
                self._beside = generating(spark)
            return self._beside

    def _must_be_of(self, run: RunFolder) -> None:
        """Two runs of one id in one `out` would be taken for one. One that was copied or moved has a file that is landed so."""
        if run.path in self._out.parents:
            return
        others = {there.folder for there in self._there(run) if there.folder != str(run.path)}
        if not others:
            return
        for table in TABLES:
            for source in sources(run, table):
                if manifests.current(source, table, manifests.folder_of(self._out, table.name, run.id, source.name)):
                    return
        raise NoRun(
            f"{run.path}: {self._out} holds another run of the id {run.id} ({min(others)}): give it another --out"
        )

    def _there(self, run: RunFolder) -> Iterator[Manifest]:
        for table in TABLES:
            whole = manifests.folder_of(self._out, table.name, run.id)
            for folder in whole.iterdir() if whole.is_dir() else ():
                if found := manifests.read(folder):
                    yield found

    def _forget_others(self, table: Landed, run: RunFolder, names: set[str]) -> None:
        """Rows of files that the run no longer has, and what earlier versions landed, are not to be read by anybody."""
        whole = manifests.folder_of(self._out, table.name, run.id)
        kept = {manifests.folder_of(self._out, table.name, run.id, name).name for name in names}
        for path in whole.iterdir() if whole.is_dir() else ():
            if path.name in kept:
                continue
            if path.is_dir():
                manifests.forget(path)
                remove(manifests.folder_of(self._out, QUARANTINE, run.id) / path.name)
            else:
                remove(path)


def load(spark: SparkSession, table: Landed, out: Place, folders: Sequence[Place]) -> DataFrame:
    """The rows in these folders of a landed table, with the schema declared rather than guessed from the files."""
    columns = {**columns_of(table), "run": "STRING", "file": "STRING"}
    if not folders:
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in columns.items())
        return spark.sql(f"SELECT {nothing} WHERE false")
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    read, names = reader(spark, folders)
    rows = read.schema(schema).option("basePath", uri(spark, out / table.name)).parquet(*names)
    return with_names(rows, out, "run", "file")


def answers(landed: Mapping[str, Sequence[Manifest]]) -> dict[str, list[Record]]:
    """Return what the manifests of runs tell a report, by name, each with its `run`.

    - lines: of each table the lines or rows there are, how many lines could not be read, and the text of one of those;
    - landed: of each file its bytes, SHA-256, rows and bad lines;
    - quarantined: of each file and reason how many lines, the first of them (from 1), and its text.
    """
    files = [one for each in landed.values() for one in each]
    return {
        "lines": [_lines(run, table.name, each) for run, each in landed.items() for table in TABLES],
        "landed": [
            {
                **{"run": one.run, "table": one.table, "file": one.file, "bytes": one.bytes, "sha256": one.sha256},
                **{"rows": one.rows, "bad": one.bad},
            }
            for one in files
        ],
        "quarantined": [
            {"run": one.run, "table": one.table, "file": one.file, "reason": reason, **found}
            for one in files
            for reason, found in one.quarantined.items()
        ],
    }


def _lines(run: str, table: str, landed: Sequence[Manifest]) -> Record:
    files = [one for one in landed if one.table == table]
    bad = sum(one.bad for one in files)
    examples = [found["example"] for one in files for found in one.quarantined.values()]
    rows = sum(one.rows for one in files) + bad
    return {"run": run, "table": table, "rows": rows, "malformed": bad, "example": min(examples, default=None)}


def _counted(frame: DataFrame) -> tuple[DataFrame, Any]:
    """The frame, and what is counted while its rows go by: rows that are fit, those that are bad, the first and last of these."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    place = "IF(bad, place, NULL)"
    figures = {
        "rows": "count_if(NOT bad)",
        "bad": "count_if(bad)",
        "first_bad": f"min({place})",
        "last_bad": f"max({place})",
    }
    return frame.observe(seen, *(F.expr(text).alias(name) for name, text in figures.items())), seen


def _by_reason(spark: SparkSession, quarantine: Place) -> dict[str, dict[str, Any]]:
    from pyspark.sql import functions as F

    figures = ("count(*) AS lines", "min(line) AS first", f"left(min_by(text, line), {LONGEST_EXAMPLE}) AS example")
    read, names = reader(spark, [quarantine])
    rows = read.schema(QUARANTINED).parquet(*names).groupBy("reason")
    found = rows.agg(*map(F.expr, figures)).orderBy("reason").collect()
    return {row["reason"]: {name: row[name] for name in ("lines", "first", "example")} for row in found}
