"""How much of a processor Spark gets beside others: little until it is wanted, then as much as who wants it.

Linux has a niceness for each thread, and what a thread starts begins with its own (sched(7), setpriority(2)). Elsewhere nothing
changes.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

LOWEST = 19


def lower() -> None:
    """Give this thread, and all that it starts from now on, the lowest priority, where `raise_to_mine` can give it back: that
    takes a right (CAP_SYS_NICE, RLIMIT_NICE)."""
    mine = _mine()
    try:
        _set(threading.get_native_id(), min(mine + 1, LOWEST))
        _set(threading.get_native_id(), mine)
    except OSError:
        return
    _set(threading.get_native_id(), LOWEST)


def raise_to_mine(thread: threading.Thread | None, process: int | None) -> None:
    """Give a thread of this process, and all of another process, the priority of who asks."""
    threads = [thread.native_id] if thread is not None else []
    if process is not None:
        threads += [int(each.name) for each in Path(f"/proc/{process}/task").glob("*")]
    for each in threads:
        if each is not None:
            with suppress(OSError):  # it has ended
                _set(each, _mine())


def _mine() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _set(thread: int, niceness: int) -> None:
    os.setpriority(os.PRIO_PROCESS, thread, niceness)
