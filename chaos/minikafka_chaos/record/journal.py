"""The journal of a run: one file from which the whole run can be replayed by reading.

`journal.jsonl` is written ahead: the line that says what is about to be done, and to whom, is on disk (fsynced) before
it is done. So a run that dies leaves behind what it may have broken. Kinds of line:

- `scenario`  the scenario as it was run, the ground, the seed;
- `action`    phase `begin` (written ahead) and phase `end` (with `ok` and a detail) of every fault, send and heal;
- `recovered` a fault (by its id) of which nothing is left, and what undid it;
- `check`     a condition that was waited for, or a claim that was judged, with what was seen;
- `note`      anything else a reader will want to know;
- `claims`   what the run is judged by, and what kept it from showing more (docs/reference/verdicts.md);
- `verdict`   the last line of every run that ended.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minikafka_chaos.clock import MACHINE_CLOCK
from minikafka_chaos.scenario.faults import Fault, Handle, Targets

FILE_NAME = "journal.jsonl"
CLUSTER_FOLDER = "cluster"
"""Beside it: the brokers' data while the run goes on, and afterwards where there is something to look into."""


class Action:
    """What the body of `Journal.action` fills in for the action's closing line."""

    def __init__(self) -> None:
        self.detail: str | None = None
        self.fields: dict[str, Any] = {}


class Journal:
    """Appends to a run's journal; every line is durable before the call returns, unless `durable` is false.

    Lines may come from several threads. It is the ledger of a run on one machine (`minikafka_chaos.scenario.faults.Ledger`).
    """

    def __init__(self, path: Path, clock: Callable[[], float] = MACHINE_CLOCK.time, durable: bool = True) -> None:
        self.path = path
        self._clock = clock
        self._durable = durable
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_cut_off_line(path)
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, fields: Mapping[str, Any]) -> float:
        """Append one line; returns its time in unix seconds."""
        with self._lock:
            now = self._clock()
            line = {"time": round(now, 6), "kind": kind, **fields}
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()
            if self._durable:
                os.fsync(self._file.fileno())
        return now

    def note(self, text: str, **fields: Any) -> None:
        self.write("note", {"text": text, **fields})

    @contextmanager
    def action(self, step: str, fault: str, target: str, role: str | None = None, **more: Any) -> Iterator[Action]:
        """Write the begin line, run the body, write the end line, also when the body raises (then with ok=false)."""
        about = {"step": step, "fault": fault, "target": target, "role": role, **more}
        self.write("action", {"phase": "begin", **about})
        action = Action()
        try:
            yield action
        except BaseException as error:
            self.write("action", {"phase": "end", **about, "ok": False, "detail": _one_line(error)})
            raise
        self.write("action", {"phase": "end", **about, **action.fields, "ok": True, "detail": action.detail})

    # -- the ledger of faults ---------------------------------------------------------------------------------------------

    def intend(self, fault: Fault, targets: Targets, expires: float | None) -> None:
        more: dict[str, Any] = {"id": fault.id}
        if parameters := fault.parameters.given():
            more["parameters"] = parameters
        if targets.peers:
            more["peers"] = list(targets.peers)
        if expires is not None:
            more["expires"] = round(expires, 6)
        self._fault("begin", fault, targets, **more)

    def injected(self, handle: Handle) -> None:
        self._fault("end", handle.fault, handle.targets, ok=True, detail=None)

    def failed(self, fault: Fault, targets: Targets, error: BaseException) -> None:
        self._fault("end", fault, targets, ok=False, detail=_one_line(error))

    def recovered(self, handle: Handle, how: str) -> None:
        fault = handle.fault
        about = {"id": fault.id, "step": fault.step, "fault": fault.verb.value, "targets": handle.targets.names}
        self.write("recovered", {**about, "by": how})

    def _fault(self, phase: str, fault: Fault, targets: Targets, **more: Any) -> None:
        """A line for each broker: a reader of the journal follows brokers."""
        for name in targets.names:
            about = {"step": fault.step, "fault": fault.verb.value, "target": name, "role": targets.role}
            self.write("action", {"phase": phase, **about, **more})

    def close(self) -> None:
        self._file.close()


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The journal's lines; a last line that was cut off is left out.

    Raises OSError when there is no such file, and ValueError for a line that is no JSON object.
    """
    lines: list[dict[str, Any]] = []
    whole, _, rest = path.read_bytes().rpartition(b"\n")
    for number, raw in enumerate([*whole.split(b"\n"), rest], 1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError) as error:
            if raw is rest:
                break
            raise ValueError(f"line {number} is no JSON: {error}") from error
        if not isinstance(line, dict) or not isinstance(line.get("time"), int | float):
            raise ValueError(f"line {number} is no JSON object with a time")
        lines.append(line)
    return lines


def _drop_cut_off_line(path: Path) -> None:
    """Whatever is written behind a line that was cut off by its writer's death would be lost with it."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        text = file.read()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            file.truncate(whole)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
