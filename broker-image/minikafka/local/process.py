"""Processes of this machine that are signalled only when they are surely the ones that were started.

A pid on disk outlives its process, and the kernel hands the number out again. So a process is known by its pid *and*
its start time *and* an argument of its command line, and signals go through a pidfd (Linux 5.3), which cannot come to
mean another process between the check and the signal.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_EXEC_TIMEOUT = 5.0
_END_TIMEOUT = 10.0

STOPPED = ("T", "t")
"""States of a process that SIGSTOP, or a debugger, holds."""


class ProcessIdentity(NamedTuple):
    """A process for ever: the number, and when it started (clock ticks since boot, field 22 of ``/proc/PID/stat``)."""

    pid: int
    start_ticks: int


class ExitStatus(NamedTuple):
    """How a child ended: exactly one of the two is set."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was killed by {signal.Signals(self.signal).name}"
        return f"exited with code {self.code}"


class ProcessHandle:
    """An open pidfd of a verified process. Close it, or use it as a context manager."""

    def __init__(self, identity: ProcessIdentity, pidfd: int) -> None:
        self.identity = identity
        self._pidfd = pidfd

    def __enter__(self) -> ProcessHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._pidfd)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; a process that has ended meanwhile is not an error."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the process, whoever its parent is, to end; whether it has."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(max(0, round(timeout * 1000))))


def spawn(argv: Sequence[str], log_path: Path, lifeline: int | None = None) -> ProcessIdentity:
    """Start a process in a session of its own (no terminal's Ctrl-C reaches it), its output appended to ``log_path``.

    With ``lifeline``, the reading end of a pipe, it becomes the process's standard input, by which it knows that whoever holds
    the other end is there. It stays in the session then, in a process group of its own: where the one who started it dies, the
    kernel ends the group's stopped processes (POSIX: SIGHUP to an orphaned process group), which look at no pipe.

    Raises:
        OSError: the program or the log file cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    standard_input: tuple[Any, ...] = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    apart: dict[str, Any] = {"setsid": True}
    if lifeline is not None:
        standard_input, apart = (os.POSIX_SPAWN_DUP2, lifeline, 0), {"setpgroup": 0}
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        os.environ,
        file_actions=[
            standard_input,
            (os.POSIX_SPAWN_OPEN, 1, str(log_path), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        **apart,
        # A shell starts background jobs with SIGINT ignored, and ignored signals are inherited through exec.
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )
    ticks = start_ticks(pid)
    assert ticks is not None, "a child that was not waited for keeps its entry in /proc, even when it has ended"
    # posix_spawn returns at a moment within exec when the command line, by which the process is known, is still empty
    deadline = time.monotonic() + _EXEC_TIMEOUT
    while not command_line(pid) and state(pid) != "Z" and time.monotonic() < deadline:
        time.sleep(0.001)
    return ProcessIdentity(pid, ticks)


def open_verified(identity: ProcessIdentity, argument: str) -> ProcessHandle | None:
    """The process, when it still runs, started when the identity says, and has ``argument`` in its command line.

    One that is ending is waited for: its first thread has ended, or has no command line any more, while others, until they end,
    too, hold its files and ports, which whoever starts another in its place will want.
    """
    try:
        pidfd = os.pidfd_open(identity.pid)
    except (OSError, OverflowError):  # no such process, or not the number of any
        return None
    # From here on the pidfd pins the process; what /proc says now is about it, or it has ended and every look fails.
    handle = ProcessHandle(identity, pidfd)
    if start_ticks(identity.pid) == identity.start_ticks:
        arguments = command_line(identity.pid)
        if argument in arguments and state(identity.pid) not in (None, "Z", "X"):
            return handle
        if not arguments:
            handle.wait(_END_TIMEOUT)
    os.close(pidfd)
    return None


def reap(pid: int, timeout: float = 0.0) -> ExitStatus | None:
    """Collect the exit status of a child that ends within ``timeout`` seconds; None for somebody else's child."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if done:
            code = os.waitstatus_to_exitcode(status)
            return ExitStatus(None, -code) if code < 0 else ExitStatus(code, None)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.001)


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None when there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def state(pid: int) -> str | None:
    """The kernel's one-letter state (R, S, T stopped, Z zombie, ...); None when there is no such process."""
    fields = _stat(pid)
    return None if fields is None else fields[0]


def has_stopped(pid: int) -> bool:
    """Whether every thread of a process stands still. One after the other does, and until the last the kernel does not count
    the process as stopped: not when its process group is orphaned either."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    states = (_stat(pid, thread) for thread in threads)
    return all(fields is None or fields[0] in STOPPED for fields in states)


def _stat(pid: int, thread: str | None = None) -> list[str] | None:
    where = f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"
    try:
        text = Path(where).read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return text[text.rindex(")") + 2 :].split()  # the command name, in parentheses, may hold anything


def command_line(pid: int) -> list[str]:
    """The arguments of a process; empty when there is none, or it is not ours to read."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return [os.fsdecode(part) for part in raw.split(b"\0")[:-1]]


def running() -> Iterator[int]:
    """The pids of every process that this user can see."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)
