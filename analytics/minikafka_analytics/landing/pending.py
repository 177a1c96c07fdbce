"""The runs below a folder: which of them have ended, and which have no report of what is in their files now."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from minikafka_analytics.landing import manifest as manifests
from minikafka_analytics.landing.parsing import sources
from minikafka_analytics.landing.run_folder import NoRun, open_runs
from minikafka_analytics.landing.schemas import TABLES
from minikafka_analytics.storage.stores import Place, lines

REPORT = "report.json"
JOURNAL = "journal.jsonl"
HISTORY = "history.jsonl"


class Runs(NamedTuple):
    """The runs in a folder, by name. `missing` are those of `ended` whose report is none of what is in their files now;
    `left_out` says of the others why.
    """

    ended: tuple[Place, ...]
    missing: tuple[Place, ...]
    left_out: dict[Place, str]


def is_parent(folder: Place) -> bool:
    """Return whether a folder is no run and holds runs."""
    return folder.is_dir() and not _is_run(folder) and any(_is_run(child) for child in folder.iterdir())


def runs_in(parent: Place) -> Runs:
    """The runs in a folder. A run without a verdict goes on or was cut short: it is left out, unless somebody had it analysed."""
    ended, missing, left_out = [], [], {}
    for run in _by_name([child for child in parent.iterdir() if _is_run(child)]):
        reported = (run / REPORT).is_file()
        journal = run / JOURNAL
        if not reported and journal.is_file() and not _has_ended(journal):
            left_out[run] = (
                f"its journal has no verdict: it goes on, or was cut short (minikafka analyze {run} all the same)"
            )
            continue
        ended.append(run)
        if not reported or not _is_current(run):
            missing.append(run)
    return Runs(tuple(ended), tuple(missing), left_out)


def _is_run(folder: Place) -> bool:
    return folder.is_dir() and any((folder / name).is_file() for name in (JOURNAL, HISTORY))


def _is_current(run: Place) -> bool:
    """Return whether the report is of what is in the run's files: by their manifests, so that none of them is read."""
    try:
        (document,) = json.loads((run / REPORT).read_text(encoding="utf-8"))["runs"]
        reported = {(each["table"], each["file"]): each["sha256"] for each in document["files"]["landed"]}
        (folder,) = open_runs([run])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    landed: dict[tuple[str, str], str] = {}
    for table in TABLES:
        for source in sources(folder, table):
            where = manifests.folder_of(run / "parquet", table.name, folder.id, source.name)
            found = manifests.current(source, table, where)
            landed[table.name, source.name] = "" if found is None else found.sha256
    return landed == reported


def without_report(parent: Place) -> list[Place]:
    """The folders in `parent` whose journal has a verdict and that hold no report, in the order of their names.

    Raises NoRun when there is no such folder. A run that goes on has no verdict; it is for a later time.
    """
    if not parent.is_dir():
        raise NoRun(f"{parent}: no such folder")
    journals = {run: run / JOURNAL for run in _by_name(parent.iterdir())}
    there = {run: journal for run, journal in journals.items() if journal.exists()}
    return [run for run, journal in there.items() if not (run / REPORT).exists() and _has_ended(journal)]


def _has_ended(journal: Place) -> bool:
    return any('"verdict"' in line and _kind(line) == "verdict" for line in lines(journal))


def _by_name(folders: Iterable[Place]) -> list[Place]:
    return sorted(folders, key=lambda folder: folder.name)


def _kind(line: str) -> object:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found.get("kind") if isinstance(found, dict) else None
