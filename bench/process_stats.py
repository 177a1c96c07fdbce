"""What processes cost, read from /proc: CPU seconds, memory; and whether the rest of the machine is quiet."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
QUIET_CORES = 0.35
"""The rest of the machine counts as quiet while it uses less than this."""


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes so far, all threads; one that has ended counts nothing."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def machine_cpu_seconds() -> float:
    """User, nice, system and interrupt time of the whole machine so far."""
    with Path("/proc/stat").open() as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields[:3]) + fields[5] + fields[6]) / _TICKS


class Memory(NamedTuple):
    """In MB, summed over processes: resident now, resident at most, and shared pages counted by share (PSS)."""

    resident: float
    peak: float
    proportional: float


def memory(pids: Iterable[int]) -> Memory:
    """The memory of these processes."""
    resident = peak = proportional = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        resident += _kilobytes(status, "VmRSS")
        peak += _kilobytes(status, "VmHWM")
        proportional += _kilobytes(Path(f"/proc/{pid}/smaps_rollup").read_text(), "Pss")
    return Memory(*(round(total / 1024, 1) for total in (resident, peak, proportional)))


def _kilobytes(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


def wait_until_quiet(own_pids: Iterable[int], limit_s: float) -> float:
    """Write back dirty pages, then wait until others leave the machine alone, ``limit_s`` at most; seconds waited."""
    own = list(own_pids)
    started = time.monotonic()
    os.sync()
    while time.monotonic() - started < limit_s:
        machine, ours, at = machine_cpu_seconds(), cpu_seconds(own), time.monotonic()
        time.sleep(0.5)
        others = machine_cpu_seconds() - machine - (cpu_seconds(own) - ours)
        if others / (time.monotonic() - at) < QUIET_CORES:
            break
    return time.monotonic() - started


def machine_facts() -> dict[str, str | int | float]:
    """Return what a reader of figures has to know of the machine; nothing that names it."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    total = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cores": os.cpu_count() or 0,
        "cpu": cpu[1] if cpu else "unknown",
        "memory_gib": round(int(total[1]) / 2**20, 1) if total else 0,
        "kernel": os.uname().release.split("-")[0],
        "load_average_1m": round(os.getloadavg()[0], 2),
    }
