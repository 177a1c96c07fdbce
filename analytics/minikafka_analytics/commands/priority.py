"""How much of a processor Spark gets beside others: little until it is wanted, then as much as who wants it.

What a thread starts begins with its niceness, on Linux (sched(7)) as elsewhere, so a process that is lowered before it has
threads is lowered as a whole, with all that it starts. Linux by default compares niceness within a session only (autogroups).
"""

from __future__ import annotations

import os
from contextlib import suppress

LOWEST = 19


def lower() -> int:
    """Give this process, which has no other thread yet, the lowest priority, where it can be given back: that takes a right
    (CAP_SYS_NICE, RLIMIT_NICE). The niceness to give back."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    if usual >= LOWEST:
        return usual
    try:
        os.setpriority(os.PRIO_PROCESS, 0, usual + 1)
        os.setpriority(os.PRIO_PROCESS, 0, usual)
    except OSError:
        return usual + 1
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    return usual


def give_back(usual: int) -> None:
    """Give this process's group, all processes with all of their threads, a niceness that `lower` returned."""
    with suppress(OSError):  # as good as it gets
        os.setpriority(os.PRIO_PGRP, 0, usual)
