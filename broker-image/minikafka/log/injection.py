"""Faults of disk and clock that are injected from outside: a small file that the broker maps into its memory.

Named by `minikafka.test.faults.path`, for tests and chaos experiments; without it nothing here is used, and the real file
system is. Looking at the file costs no system call: another process writes it, and what it wrote is seen at the next write
or fsync.

Layout (little endian, 64 bytes, the rest zero): milliseconds that an fsync takes longer (u32), errno of an fsync (u32), errno
of a write (u32), unused (u32), milliseconds that the clock is off (i64). Zero is no fault.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from minikafka.log.filesystem import Buffer, RealFile, RealFileSystem

BYTES = 64
LOOK_SECONDS = 0.02
"""How often a slow fsync looks whether it still is one."""

_LAYOUT = struct.Struct("<IIIIq")


class InjectedFaults(NamedTuple):
    """What is wrong now."""

    fsync_millis: int = 0
    fsync_errno: int = 0
    write_errno: int = 0
    clock_millis: int = 0

    def write(self, path: Path) -> None:
        """Put it into force; in place, for whoever has mapped the file."""
        content = _LAYOUT.pack(self.fsync_millis, self.fsync_errno, self.write_errno, 0, self.clock_millis)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(fd, BYTES)
            os.pwrite(fd, content, 0)
        finally:
            os.close(fd)


class FaultFile:
    """The broker's side. Raises OSError when there is no such file."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < BYTES:
                os.ftruncate(fd, BYTES)
            self._map = mmap.mmap(fd, BYTES, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(fd)

    @property
    def now(self) -> InjectedFaults:
        fsync_millis, fsync_errno, write_errno, _, clock_millis = _LAYOUT.unpack_from(self._map)
        return InjectedFaults(fsync_millis, fsync_errno, write_errno, clock_millis)

    def before_fsync(self, path: str) -> None:
        """Wait as long as it takes, or until the disk is well again; raises OSError when it fails.

        Called where fsync blocks anyway.
        """
        began = time.monotonic()
        while (left := began + self.now.fsync_millis / 1000 - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))
        if errno := self.now.fsync_errno:
            raise injected_error(errno, path)

    def before_write(self, path: str) -> None:
        """Raises OSError when the disk takes nothing."""
        if errno := self.now.write_errno:
            raise injected_error(errno, path)

    def clock(self, true: Callable[[], float]) -> Callable[[], float]:
        """A clock that is off by what the file says."""
        return lambda: true() + self.now.clock_millis / 1000


def injected_error(number: int, path: str) -> OSError:
    """What a disk says that a fault has refuse: an error of this number."""
    return OSError(number, f"{os.strerror(number)} (injected)", path)


class FaultyFile(RealFile):
    """A file whose writes and fsyncs may fail."""

    __slots__ = ("_faults",)

    def __init__(self, path: str, flags: int, faults: FaultFile) -> None:
        self._faults = faults
        super().__init__(path, flags)

    def append(self, *buffers: Buffer) -> None:
        self._faults.before_write(self._path)
        super().append(*buffers)

    def fsync(self) -> None:
        self._faults.before_fsync(self._path)
        super().fsync()


class FaultyFileSystem(RealFileSystem):
    """The disk of this machine, and what is injected."""

    def __init__(self, faults: FaultFile) -> None:
        self._faults = faults

    def _open(self, path: str, flags: int) -> RealFile:
        if flags & os.O_CREAT and not os.path.exists(path):
            self._faults.before_write(path)
        return FaultyFile(path, flags, self._faults)

    def fsync_path(self, path: str) -> None:
        self._faults.before_fsync(path)
        super().fsync_path(path)

    def write_again(self, path: str) -> None:
        self._faults.before_write(path)
        self._faults.before_fsync(path)
        super().write_again(path)

    def makedirs(self, path: str) -> None:
        if not os.path.isdir(path):
            self._faults.before_write(path)
        super().makedirs(path)


def step_clock(faults: FaultFile) -> None:
    """Make this process see the wall clock that the file says, and the monotonic one as it is.

    Every module asks `time.time`, so that is replaced. Event logs keep the clock that they were given: a run whose events were
    out of order could not be read.
    """
    off = faults.clock(time.time)
    time.time = off
    time.time_ns = lambda: int(off() * 1e9)
