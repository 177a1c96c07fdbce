"""What /proc says of processes that a test has started; one that ends while it is read has nothing more to say."""

from __future__ import annotations

from pathlib import Path


def command_line(pid: int) -> bytes:
    """Return the arguments of a process, each ended by a zero byte."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def processes_with(text: str) -> list[int]:
    """Return the processes whose command lines have this text: brokers' have their folder, in the path of their properties."""
    pids = (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return [pid for pid in pids if text.encode() in command_line(pid)]


def children(pid: int) -> list[int]:
    """Return the processes that any thread of a process has started, and that it has not yet waited for."""
    return [int(child) for told in _of_each_thread(pid, "children") for child in told.split()]


def thread_names(pid: int) -> list[str]:
    """Return the names of the threads of a process; librdkafka's begin with `rdk:`, a JVM has one named `java`."""
    return [name.strip() for name in _of_each_thread(pid, "comm")]


def has_ended(pid: int | str) -> bool:
    """Return whether a process is gone, or would be if whoever has adopted it waited for it: not every container's first does."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def _of_each_thread(pid: int, file: str) -> list[str]:
    found = []
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
    for thread in threads:
        try:
            found.append((thread / file).read_text())
        except OSError:  # a thread that has ended meanwhile
            continue
    return found
