"""Ends a run from outside: its runner if it still lives, and every broker that it started, also after its death.

A runner writes down which process it is, next to its journal, as each broker is written down beside its data; a process
number alone means nothing, so the start time is compared before anything is signalled. A run that comes to no verdict of
its own gets the verdict Aborted.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minikafka.local import process
from minikafka.local.cluster import LocalCluster
from minikafka.local.errors import ClusterError
from minikafka.local.process import ProcessHandle, ProcessIdentity

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.record import journal as journal_file
from minikafka_chaos.record.journal import CLUSTER_FOLDER, Journal, read_journal
from minikafka_chaos.verdict.verdict import Outcome, Verdict

RUNNER_FILE = "runner.json"
RUNNER_S = 45.0
"""How long a runner may take to heal, stop its brokers and write its verdict, before it is killed."""
BROKERS_S = 10.0
"""How long brokers may take to stop, before they are killed."""


class AbortResult(NamedTuple):
    """What `abort` did to a run."""

    directory: Path
    runner: int | None
    """The process that was the runner; None when it was gone already."""
    brokers: tuple[int, ...]
    """Brokers that were stopped after the runner was gone."""
    left: int
    """Processes of the run that still live."""

    def __str__(self) -> str:
        did = [] if self.runner is None else [f"ended the runner (process {self.runner})"]
        did += [f"stopped broker {broker}" for broker in self.brokers]
        return f"{self.directory}: {', '.join(did) or 'nothing was running'}; {self.left} processes left"


@contextlib.contextmanager
def recorded_runner(directory: Path) -> Iterator[None]:
    """While the body runs, this process is on record as the runner of that run directory."""
    path, pid = directory / RUNNER_FILE, os.getpid()
    ticks = process.start_ticks(pid)
    argument = next(iter(process.command_line(pid)), "")
    path.write_text(json.dumps({"pid": pid, "start_ticks": ticks, "argument": argument}) + "\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def runs_going_on(out: Path) -> list[Path]:
    """The run directories below `out` whose runner or brokers live, oldest first."""
    if not out.is_dir():
        return []
    folders = sorted(path for path in out.iterdir() if path.is_dir())
    return [folder for folder in folders if _runner_lives(folder) or _living(folder)]


def abort(directory: Path) -> AbortResult:
    """End the run of this directory. Raises ToolTrouble when its brokers cannot be stopped."""
    runner = None
    with _runner(directory) as handle:
        if handle is not None and handle.identity.pid != os.getpid():
            runner = handle.identity.pid
            handle.signal(signal.SIGTERM)
            handle.signal(signal.SIGCONT)  # a stopped process takes no SIGTERM
            if not handle.wait(RUNNER_S):
                handle.signal(signal.SIGKILL)
                handle.wait(RUNNER_S)
    brokers = _living(directory)
    if brokers:
        try:
            LocalCluster(directory / CLUSTER_FOLDER).down(BROKERS_S)
        except (ClusterError, OSError) as error:
            raise ToolTrouble(f"{directory}: {error}") from error
    (directory / RUNNER_FILE).unlink(missing_ok=True)
    _close_journal(directory)
    return AbortResult(directory, runner, tuple(brokers), len(_living(directory)) + _runner_lives(directory))


@contextlib.contextmanager
def _runner(directory: Path) -> Iterator[ProcessHandle | None]:
    """The recorded runner, verified and held; None when it does not live."""
    try:
        recorded = json.loads((directory / RUNNER_FILE).read_text())
        identity, argument = (
            ProcessIdentity(int(recorded["pid"]), int(recorded["start_ticks"])),
            str(recorded["argument"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        yield None
        return
    handle = process.open_verified(identity, argument)
    if handle is None:
        yield None
        return
    with handle:
        yield handle


def _runner_lives(directory: Path) -> bool:
    with _runner(directory) as handle:
        return handle is not None


def _living(directory: Path) -> list[int]:
    """The brokers of the run that live, also one whose process the runner had no time to write down."""
    cluster = LocalCluster(directory / CLUSTER_FOLDER)
    return cluster.running() if cluster.exists else []


def _close_journal(directory: Path) -> None:
    path = directory / journal_file.FILE_NAME
    try:
        if not path.exists() or any(line.get("kind") == "verdict" for line in read_journal(path)):
            return
    except ValueError:
        return  # what is no journal gets no verdict
    with contextlib.closing(Journal(path)) as journal:
        journal.write("verdict", Verdict.without_judgement(Outcome.ABORTED, "aborted from outside").as_json())
