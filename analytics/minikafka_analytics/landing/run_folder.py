"""A run's folder: which of its files are there, and what it is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minikafka_analytics.storage.stores import Place, absolute, tail

UNANSWERED = Path("metrics/unanswered.json")
"""What a Prometheus was asked for and did not answer (`sources.put_metrics`): no table, but the report tells it."""

LONGEST_LINE_BYTES = 4 << 20
"""Of a line that was cut off: a line of the history has one record's value at most."""


class NoRun(ValueError):
    """A folder that holds no run; the message is one line that says what was looked for."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run lies and what is in it. Files that are not there are left out, never invented."""

    id: str
    path: Place
    journal: tuple[Place, ...]
    history: tuple[Place, ...]
    events: tuple[Place, ...]
    samples: tuple[Place, ...]
    replicas: tuple[Place, ...]

    def files(self, table: str) -> tuple[Place, ...]:
        """The files that are landed as `table`."""
        found: tuple[Place, ...] = getattr(self, table)
        return found

    def torn_ends(self, table: str) -> int:
        """Return how many of the table's files end in the middle of a line: their writer died."""
        return sum(_is_torn(path) for path in self.files(table))

    def has(self, name: str) -> bool:
        """Return whether there is such a file, be it empty."""
        return (self.path / name).is_file()

    @property
    def missing(self) -> list[str]:
        """Return what the contract names and this folder does not have, in the contract's words."""
        names = {
            "journal.jsonl": self.journal,
            "history.jsonl": self.history,
            "events/broker-N.jsonl": self.events,
            "metrics/samples.jsonl": self.samples,
            "replicas.jsonl": self.replicas,
        }
        return [name for name, files in names.items() if not files]


def open_runs(paths: Sequence[Place]) -> list[RunFolder]:
    """Opens each folder as a run. Raises NoRun when one is missing or holds neither a journal nor a history.

    One in a store is asked for by Spark's JVM (`session.reached`); StoreFailed is raised when that does not answer for it.
    """
    if not paths:
        raise NoRun("no run given: name at least one folder, such as runs/20260101-120000")
    resolved = list(dict.fromkeys(absolute(path) for path in paths))
    names = _names(resolved)
    return [_open(path, name) for path, name in zip(resolved, names, strict=True)]


def _open(path: Place, name: str) -> RunFolder:
    if not path.is_dir():
        raise NoRun(f"{path}: no such run folder")
    run = RunFolder(
        id=name,
        path=path,
        journal=_there(path / "journal.jsonl"),
        history=_there(path / "history.jsonl"),
        events=_logs(path / "events"),
        samples=_logs(path / "metrics"),
        replicas=_there(path / "replicas.jsonl"),
    )
    for file in (path, *run.events, *run.samples):
        if _is_no_text(str(file)):
            raise NoRun(f"{str(file)!r}: its name is no UTF-8, and Spark cannot open it: rename it")
    if not run.journal and not run.history:
        raise NoRun(f"{path}: not a run folder, it has neither journal.jsonl nor history.jsonl, or both are empty")
    return run


def _is_no_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False


def unanswered(run: Place) -> list[dict[str, Any]]:
    """Return what a Prometheus did not answer for: metric, began and ended (unix seconds), reason."""
    try:
        found = json.loads((run / UNANSWERED).read_text(encoding="utf-8"))
        return [
            {
                **{name: str(each[name]) for name in ("metric", "reason")},
                "began": _time(each["began"]),
                "ended": _time(each["ended"]),
            }
            for each in found
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return [{"metric": "", "began": 0.0, "ended": 0.0, "reason": f"{UNANSWERED} cannot be read: {error}"}]


def _time(value: Any) -> float:
    if not 0 <= float(value) < 1e11:
        raise ValueError(f"{value} is no time")
    return float(value)


def _is_torn(path: Place) -> bool:
    last = tail(path, LONGEST_LINE_BYTES).rpartition(b"\n")[2]
    try:
        json.loads(last or b"0")
    except (ValueError, RecursionError):
        return True
    return False


def _logs(folder: Place) -> tuple[Place, ...]:
    found: list[Place] = [file for file in folder.glob("*.jsonl") if _there(file)]
    return tuple(sorted(found, key=lambda file: file.name))


def _there(path: Place) -> tuple[Place, ...]:
    return (path,) if path.is_file() and path.stat().st_size else ()


def _names(paths: list[Place]) -> list[str]:
    """Folder names; where two are equal, as many of the folders above them as it takes to tell them apart."""
    depth = 1
    while True:
        names = ["-".join(part.strip("/") for part in path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(paths) or depth > max(len(path.parts) for path in paths):
            return names
        depth += 1
