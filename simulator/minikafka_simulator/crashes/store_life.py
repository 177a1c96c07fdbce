"""Lives a life of the cluster store of one machine, whose SQLite file strace records.

SQLite makes its own system calls, so a process of its own does (`python -m minikafka_simulator.crashes.store_life PATH`): the
production code's transactions, and a line on standard output after each that has returned. The shared memory file is left out:
SQLite makes it anew when nobody has the database open.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from minikafka.metadata.database import Database

from minikafka_simulator.bugs.catalogue import CRASH_BUGS
from minikafka_simulator.bugs.in_process import planted
from minikafka_simulator.crashes.operations import ROOT, Contents, Made, Operation, Removed, Synced, Truncated, Written

STORE = "cluster.db"
COMMITS = 40
CALLS = "openat,close,pwrite64,write,ftruncate,fsync,fdatasync,unlink,rename"
TRACE = ["strace", "-f", "-xx", "-s", "2000000", "-e", f"trace={CALLS}", "-e", "signal=none"]
_CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)\)\s+= (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class StoreUnderTrace(Exception):
    """strace is not here, or may not trace."""


class Acknowledged(NamedTuple):
    """What the store had answered by then."""

    revision: int = 0
    allocated: int = 0
    epoch: int = 0


def records_at(revision: int) -> dict[str, int]:
    """What the commits up to a revision have left."""
    return {f"topic-{n % 5}": n for n in range(max(1, revision - 4), revision + 1)}


def live(path: Path) -> None:
    """Commit, renew, allocate and be started anew, with a line after each."""
    database = Database(path)
    database.open("crashes")
    answered, lease = Acknowledged(), None
    for n in range(1, COMMITS + 1):
        if n % 8 == 1:
            lease = database.acquire(1, "localhost", 9092, answered.epoch)
            assert lease is not None
            answered = answered._replace(epoch=lease.epoch)
            _tell(answered)
        if n % 3 == 0 and lease is not None:
            database.renew(lease)
        if n % 4 == 0:
            answered = answered._replace(allocated=database.allocate("producer.id", 10) + 10)
            _tell(answered)
        padding = "x" * 30_000 if n % 7 == 0 else ""
        revision = database.commit(answered.epoch, {f"topic-{n % 5}": n, "padding": padding})
        answered = answered._replace(revision=revision)
        _tell(answered)
        if n % 15 == 0:  # its end is a checkpoint of the write-ahead log
            database.close()
            database.open("crashes")
    database.close()


def _tell(answered: Acknowledged) -> None:
    os.write(1, " ".join(map(str, answered)).encode())  # one system call, for the record


class StoreRecord(NamedTuple):
    """The system calls of a life, and from which of them on what was acknowledged."""

    operations: list[Operation]
    acknowledged: list[tuple[int, Acknowledged]]


def recorded(bug: str | None) -> StoreRecord:
    """Live it under strace, with a mistake in its process where one is named. Raises StoreUnderTrace."""
    if shutil.which(TRACE[0]) is None:
        raise StoreUnderTrace("strace is not here: apt-get install strace")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        home = Path(folder) / "store"
        home.mkdir()
        command = [
            *TRACE,
            "-o",
            str(trace),
            sys.executable,
            "-m",
            __spec__.name,
            str(home / STORE),
            *([bug] if bug else []),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StoreUnderTrace(f"strace ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return _parsed(trace.read_text().splitlines(), str(home))


def _parsed(lines: list[str], home: str) -> StoreRecord:
    operations: list[Operation] = []
    acknowledged: list[tuple[int, Acknowledged]] = [(0, Acknowledged())]
    names: dict[str, int] = {}
    open_files: dict[int, int] = {}
    made = 0
    for call, arguments, result in _calls(lines):
        descriptor = int(arguments.partition(",")[0]) if arguments[:1].isdigit() else -1
        node = open_files.get(descriptor)
        match call:
            case "openat":
                path = _text(arguments).decode()
                name = path.removeprefix(f"{home}/")
                if path == home:
                    open_files[result] = ROOT
                elif path.startswith(f"{home}/") and not name.endswith("-shm"):
                    if name not in names:
                        made += 1
                        names[name] = made
                        operations.append(Made(ROOT, name, made))
                    open_files[result] = names[name]
            case "close":
                open_files.pop(descriptor, None)
            case "write" if descriptor == 1:
                acknowledged.append((len(operations), Acknowledged(*map(int, _text(arguments).split()))))
            case "pwrite64" if node is not None:
                operations.append(Written(node, int(arguments.rpartition(",")[2]), _text(arguments)))
            case "ftruncate" if node is not None:
                operations.append(Truncated(node, int(arguments.rpartition(",")[2])))
            case "fsync" | "fdatasync" if node is not None:
                operations.append(Synced(node))
            case "unlink":
                name = _text(arguments).decode().removeprefix(f"{home}/")
                if names.pop(name, None) is not None:
                    operations.append(Removed(ROOT, name))
            case "write" | "rename" if node is not None:
                raise StoreUnderTrace(f"{call} of the store's files is not known here")
    return StoreRecord(operations, acknowledged)


def _calls(lines: list[str]) -> Iterator[tuple[str, str, int]]:
    for line in lines:
        found = _CALL.match(line)
        if found is not None and int(found[3]) >= 0:
            yield found[1], found[2], int(found[3])


def _text(arguments: str) -> bytes:
    found = _TEXT.search(arguments)
    assert found is not None, arguments[:100]
    return bytes.fromhex(found[1].replace("\\x", ""))


def problem_of(contents: Contents, answered: Acknowledged, folder: Path) -> str | None:
    """Open the store that a crash has left in a folder. What is wrong with it, None when nothing is."""
    for path in folder.iterdir():
        path.unlink()
    for name, node in contents.directories[ROOT].items():
        (folder / name).write_bytes(contents.files.get(node, b""))
    database = Database(folder / STORE)
    try:
        database.open("crashes")
        snapshot = database.snapshot()
        lease = database.lease()
        allocated = database.allocate("producer.id", 1)
        there = {key: value for key, value in snapshot.records.items() if key != "padding"}
        if not answered.revision <= snapshot.revision <= answered.revision + 1:
            return f"revision {snapshot.revision}, acknowledged was {answered.revision}"
        if there != records_at(snapshot.revision):
            return f"the records of revision {snapshot.revision} are {there}"
        if allocated < answered.allocated:
            return f"producer ids from {allocated} on would be given away again, {answered.allocated} is the next"
        if (0 if lease is None else lease.epoch) < answered.epoch:
            return f"the lease of controller epoch {answered.epoch} is forgotten"
    except Exception as error:
        return f"the store does not open: {type(error).__name__}: {error}"
    finally:
        database.close()
    return None


if __name__ == "__main__":
    with planted(CRASH_BUGS[sys.argv[2]]) if sys.argv[2:] else nullcontext():
        live(Path(sys.argv[1]))
