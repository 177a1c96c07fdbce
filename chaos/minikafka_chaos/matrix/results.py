"""The results of trials on disk: one line each, so that a matrix that was ended at any moment goes on where it was.

A results file belongs to one document, one ground and one state of the code: its first line says which. Trials of another
would be counted as what they are not.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import minikafka

import minikafka_chaos
from minikafka_chaos.errors import BadScenario, ToolTrouble
from minikafka_chaos.matrix.trials import Trial, TrialTask, as_line, ground_class

FILE_NAME = "trials.jsonl"


def code_digest(ground: str) -> str:
    """Digest the code that decides what a trial finds: the broker's, this package's, and the ground's where another brings it.

    Raises NotSupported, ToolTrouble.
    """
    found = hashlib.sha256()
    of_ground = ground_class(ground).__module__.partition(".")[0]
    for package in dict.fromkeys((minikafka.__name__, minikafka_chaos.__name__, of_ground)):
        root = Path(str(sys.modules[package].__file__)).parent
        for path in sorted(root.rglob("*.py")):
            found.update(f"{package}/{path.relative_to(root)}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def document_digest(document: dict[str, Any]) -> str:
    """Digest a document as it is understood; how many seeds are asked for does not matter, nor what is said about it."""
    spec = {
        name: value for name, value in document["spec"].items() if name not in ("seeds", "firstSeed", "description")
    }
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


class Results:
    """The results file of one matrix; use it as a context manager, for nobody else may write it meanwhile."""

    def __init__(self, path: Path, header: dict[str, Any], say: Callable[[str], None] = lambda _: None) -> None:
        self.path = path
        self.trials: dict[TrialTask, Trial] = {}
        self._say = say
        self._header = {"kind": "matrix", **header}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise ToolTrouble(f"{path}: {error.strerror}") from error

    def __enter__(self) -> Results:
        """Take what is there. Raises BadScenario for results of something else, ToolTrouble when another run writes them."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ToolTrouble(f"{self.path}: another run of this matrix goes on") from None
        try:
            self._take()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _take(self) -> None:
        self._file.seek(0)
        text = self._file.read()
        whole, _, torn = text.rpartition("\n")
        if torn:  # the writer died in the middle of a line
            self._file.truncate(len(text.encode()) - len(torn.encode()))
        lines = whole.split("\n") if whole else []
        if not lines:
            self._write(self._header)
            return
        try:
            header, *rest = [json.loads(line) for line in lines]
            trials = [Trial(**line) for line in rest]
        except (ValueError, TypeError, RecursionError) as error:
            raise BadScenario(f"{self.path}: not the results of a matrix: {error}") from error
        for name, value in self._header.items():
            if header.get(name) != value:
                theirs, ours = header.get(name), value
                what = f"{name} {theirs}, not {ours}"
                raise BadScenario(f"{self.path}: results of another matrix ({what}); give another --out")
        self.trials = {TrialTask(trial.cell, trial.seed): trial for trial in trials}

    def add(self, trial: Trial) -> None:
        """Keep a trial: it is in the file when this returns, so that the death of this process does not lose it."""
        self.trials[TrialTask(trial.cell, trial.seed)] = trial
        self._write(as_line(trial))

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
