"""The unflushed volume: the tail of a segment that is not flushed yet lives in files of another directory.

With `minikafka.unflushed.dir`, appends go to *tail files*, named `<base offset>.log.<start position>`, in the directory
`<unflushed dir>/<topic-partition>/`. A flush closes the current tail file, copies it to the end of the data file,
fsyncs that, and removes the tail file. So what a power loss takes is exactly what a wipe of that directory takes,
without privileges:

* the process dies: both directories stay; opening copies the surviving tails into the data file; nothing is lost;
* the unflushed directory is wiped: exactly the bytes after the last flush are lost.

A crash in the middle of a copy leaves a data file that is longer than the tail's start; the tail is still whole, so
opening copies the rest of it.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple

from minikafka.log.checkpoints import parse_whole_number
from minikafka.log.errors import CopyRefused, FsyncFailed
from minikafka.log.filesystem import Buffer, File, FileSystem
from minikafka.log.unflushed_volume import PAGE_BYTES, UnflushedVolume

COPY_CHUNK_BYTES = 1 << 20


class FileRange(NamedTuple):
    """Bytes of one file, to be sent with sendfile or read with `file.pread`.

    Holding the range keeps the file open, even after the log has deleted it. A truncation of the log may shorten the
    file under a reader: a short read then means that the connection must be closed.
    """

    file: File
    position: int
    length: int


class _Tail:
    __slots__ = ("file", "path", "start")

    def __init__(self, file: File, path: str, start: int) -> None:
        self.file = file
        self.path = path
        self.start = start

    @property
    def end(self) -> int:
        return self.start + self.file.size

    @property
    def held(self) -> int:
        """What it counts for on the volume."""
        return self.file.size + PAGE_BYTES


class UnflushedFile:
    """A segment's bytes in one data file and any number of tail files, seen as one file.

    `prefix` is the path of the tail files without their start position; `volume` counts what is in them. All methods raise
    OSError.
    """

    __slots__ = ("_active", "_data", "_fs", "_prefix", "_tails", "_volume", "flushed_size", "size")

    def __init__(self, fs: FileSystem, data: File, prefix: str, volume: UnflushedVolume) -> None:
        self._fs = fs
        self._data = data
        self._prefix = prefix
        self._volume = volume
        self._tails: list[_Tail] = []
        self._active: File | None = None
        self.flushed_size = data.size
        self.size = data.size

    def append(self, *buffers: Buffer) -> None:
        active = self._active
        if active is None:
            path = f"{self._prefix}.{self.size}"
            active = self._active = self._fs.open_append(path)
            self._tails.append(_Tail(active, path, self.size))
            self._volume.grew(active.size + PAGE_BYTES)
        before = active.size
        active.append(*buffers)
        grown = active.size - before
        self.size += grown
        self._volume.grew(grown)

    @property
    def held(self) -> int:
        """What its tails count for on the volume."""
        return sum([tail.held for tail in self._tails])

    def ranges(self, position: int, length: int) -> list[FileRange]:
        """Where the bytes lie now."""
        found: list[FileRange] = []
        end = position + length
        if position < self.flushed_size:
            found.append(FileRange(self._data, position, min(end, self.flushed_size) - position))
        for tail in self._tails:
            first, last = max(position, tail.start), min(end, tail.end)
            if first < last:
                found.append(FileRange(tail.file, first - tail.start, last - first))
        return found

    def pread(self, n: int, position: int) -> bytes:
        n = min(n, self.size - position)
        if n <= 0:
            return b""
        return b"".join(part.file.pread(part.length, part.position) for part in self.ranges(position, n))

    def truncate(self, n: int) -> None:
        """Cut to `n` bytes. No flush may be under way."""
        held = self.held
        while self._tails and self._tails[-1].start >= n:
            self._fs.remove(self._tails[-1].path)
            self._tails.pop()
        if self._tails:
            self._tails[-1].file.truncate(n - self._tails[-1].start)
            self._active = self._tails[-1].file
        else:
            self._active = None
        self._volume.shrank(held - self.held)
        self._fs.fsync_dir(_directory_of(self._prefix))  # a removed tail must not come back after a power loss
        if n < self._data.size:
            self._data.truncate(max(n, 0))
        self.flushed_size = min(self.flushed_size, n)
        self.size = n

    def fsync(self) -> None:
        """Make the length durable, of the last tail, too (after a truncation): a disk may keep what is on the volume."""
        if self._tails:
            self._tails[-1].file.fsync()
        self._data.fsync()

    def begin_flush(self) -> list[_Tail]:
        """What is to be copied; later appends go to a new tail file."""
        self._active = None
        return list(self._tails)

    def copy(self, tails: Sequence[_Tail]) -> None:
        """Copy tails to the data file and fsync it. Runs on the flush thread; touches nothing that appends or reads
        touch. Raises CopyRefused when the data file takes no more, and other OSErrors."""
        data = self._data
        try:
            if data.size != self.flushed_size:
                data.truncate(self.flushed_size)  # what an earlier copy left that failed
            for tail in tails:
                for position in range(0, tail.file.size, COPY_CHUNK_BYTES):
                    data.append(tail.file.pread(COPY_CHUNK_BYTES, position))
        except OSError as error:
            raise CopyRefused(*error.args) from error
        data.fsync()

    def finish_flush(self, tails: Sequence[_Tail]) -> None:
        """The copy is durable: read from the data file from now on, and drop the tails."""
        for tail in tails:
            self._tails.remove(tail)
            self.flushed_size = tail.end
            self._fs.remove(tail.path)
            self._volume.shrank(tail.held)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a segment in several files has no single descriptor: use ranges()", self._prefix)

    def close(self) -> None:
        self._data.close()
        for tail in self._tails:
            tail.file.close()

    def remove(self, data_path: str) -> None:
        """Delete all files. A data file without its tails would be a segment that ends too early, and what follows it be dropped;
        tails without their data file are dropped by who opens the log."""
        self._fs.remove(data_path)
        while self._tails:
            self._fs.remove(self._tails[-1].path)
            self._volume.shrank(self._tails.pop().held)


def _directory_of(prefix: str) -> str:
    return prefix.rpartition("/")[0]


def parse_tail_name(name: str) -> tuple[int, int] | None:
    """(base offset, start position) of a tail file's name, or None."""
    base, dot, start = name.partition(".log.")
    offset, position = parse_whole_number(base), parse_whole_number(start)
    return None if not dot or offset is None or position is None else (offset, position)


def is_tail_directory(fs: FileSystem, path: str) -> bool:
    """Whether this is a directory with nothing but tail files in it."""
    return fs.is_dir(path) and all(parse_tail_name(name) is not None for name in fs.listdir(path))


def restore_tails(fs: FileSystem, tail_directory: str, data_directory: str) -> int:
    """Move surviving tail files into their data files, before a log is opened; returns how many bytes were restored.

    A tail that does not continue its data file is stale (its copy had been completed, or the data volume is another
    one) and is dropped. Raises OSError, FsyncFailed; nothing is removed before its copy is durable.
    """
    if not fs.is_dir(tail_directory):
        return 0
    found = sorted((parsed, name) for name in fs.listdir(tail_directory) if (parsed := parse_tail_name(name)))
    restored = 0
    for (base, start), name in found:
        tail_path, data_path = f"{tail_directory}/{name}", f"{data_directory}/{base:020d}.log"
        if fs.exists(data_path):
            restored += _restore_tail(fs, tail_path, data_path, start)
        fs.remove(tail_path)
    return restored


def _restore_tail(fs: FileSystem, tail_path: str, data_path: str, start: int) -> int:
    tail, data = fs.open_read(tail_path), fs.open_append(data_path)
    try:
        copied = data.size - start
        if copied < 0 or copied >= tail.size:
            return 0
        for position in range(0, copied, COPY_CHUNK_BYTES):
            n = min(COPY_CHUNK_BYTES, copied - position)
            if data.pread(n, start + position) != tail.pread(n, position):
                return 0  # only a power loss does this; what the data volume says then counts
        for position in range(copied, tail.size, COPY_CHUNK_BYTES):
            data.append(tail.pread(COPY_CHUNK_BYTES, position))
        try:
            data.fsync()
        except OSError as error:
            raise FsyncFailed(*error.args) from error
        return tail.size - copied
    finally:
        tail.close()
        data.close()
