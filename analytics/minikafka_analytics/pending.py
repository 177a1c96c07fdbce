"""The runs below a folder that have ended and have no report yet: what a CronJob looks for."""

from __future__ import annotations

import json
from pathlib import Path

from minikafka_analytics.run_folder import NoRun

REPORT = "report.json"
JOURNAL = "journal.jsonl"


def without_report(parent: Path) -> list[Path]:
    """The folders in `parent` whose journal has a verdict and that hold no report, in the order of their names.

    Raises NoRun when there is no such folder. A run that goes on has no verdict; it is for a later time.
    """
    if not parent.is_dir():
        raise NoRun(f"{parent}: no such folder")
    journals = sorted(parent.glob(f"*/{JOURNAL}"))
    return [path.parent for path in journals if not (path.parent / REPORT).exists() and _has_ended(path)]


def _has_ended(journal: Path) -> bool:
    with journal.open(encoding="utf-8", errors="replace") as lines:
        return any('"verdict"' in line and _kind(line) == "verdict" for line in lines)


def _kind(line: str) -> object:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found.get("kind") if isinstance(found, dict) else None
