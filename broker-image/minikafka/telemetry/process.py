"""The usual ``process_*`` metrics, read from /proc; names and meaning are those of every Prometheus client library."""

import os
import resource
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = resource.getpagesize()


class ProcessSample(NamedTuple):
    """One metric of the running process."""

    name: str
    kind: str
    help: str
    value: float


def _boot_time() -> float:
    with open("/proc/stat", "rb") as file:
        for line in file:
            if line.startswith(b"btime "):
                return float(line.split()[1])
    return 0.0


def disk_bytes() -> tuple[int, int]:
    """(read, written) by this process so far, as storage sees it: what the page cache served is not in it.

    Zeros where the kernel does not say.
    """
    try:
        with open("/proc/self/io", "rb") as file:
            found = dict(line.split(b":", 1) for line in file)
        return int(found[b"read_bytes"]), int(found[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        return 0, 0


def process_samples() -> list[ProcessSample]:
    """The samples of this process; empty where there is no /proc."""
    try:
        with open("/proc/self/stat", "rb") as file:
            # The second field is the program's name in brackets, which may itself hold brackets and spaces.
            fields = file.read().rpartition(b")")[2].split()
        descriptors = len(os.listdir("/proc/self/fd"))
        started = _boot_time() + int(fields[19]) / _TICKS
    except OSError:
        return []
    busy = (int(fields[11]) + int(fields[12])) / _TICKS
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return [
        ProcessSample("process_cpu_seconds_total", "counter", "User and system CPU time spent in seconds.", busy),
        ProcessSample("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", int(fields[20])),
        ProcessSample("process_resident_memory_bytes", "gauge", "Resident memory in bytes.", int(fields[21]) * _PAGE),
        ProcessSample("process_start_time_seconds", "gauge", "Start time in unix seconds.", started),
        ProcessSample("process_open_fds", "gauge", "Open file descriptors.", descriptors),
        ProcessSample("process_max_fds", "gauge", "Most file descriptors it may open.", limit),
    ]
