"""The file system as the log sees it: a small protocol, and its real implementation.

The log never calls `os` itself. It is given a `FileSystem`, so that recovery, truncation and checkpoints run
unchanged on a real disk (`RealFileSystem`) and on a simulated one whose unflushed pages can be lost
(`MemoryFileSystem`).

Every method raises OSError on failure, as the operating system does; the callers turn it into typed errors.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
from typing import Protocol

from minikafka.log.simulated_disk import MemoryFileSystem

__all__ = ["Buffer", "File", "FileLock", "FileSystem", "MemoryFileSystem", "RealFileSystem"]

Buffer = bytes | bytearray | memoryview
REWRITE_CHUNK_BYTES = 1 << 20


class File(Protocol):
    """One open file. Appends go to its end; reads name their position, so many readers can share it."""

    @property
    def size(self) -> int:
        """Length in bytes, counting what is appended but not yet flushed."""

    def append(self, *buffers: Buffer) -> None:
        """Write all buffers at the end, in one system call where the kernel takes them whole.

        Raises OSError after a failed or partial write; `size` is then unchanged and the caller truncates back to it.
        """

    def pread(self, n: int, position: int) -> bytes:
        """Up to `n` bytes at `position`; shorter only at the end of the file."""

    def truncate(self, n: int) -> None:
        """Cut the file to `n` bytes."""

    def fsync(self) -> None:
        """Return once all that was appended is durable. Safe to call from another thread."""

    def fileno(self) -> int:
        """The descriptor for sendfile. Raises OSError on a simulated file."""

    def close(self) -> None:
        """Release the descriptor. A file that is only dropped is closed when its last reader drops it, too."""


class FileLock(Protocol):
    """A held lock file."""

    def release(self) -> None:
        """Give the lock up."""


class FileSystem(Protocol):
    """What the log needs of a disk."""

    def open_append(self, path: str) -> File:
        """Open for appending and reading; created when absent (durable only after `fsync_dir` of its directory)."""

    def open_read(self, path: str) -> File:
        """Open an existing file for reading."""

    def listdir(self, path: str) -> list[str]:
        """Sorted names in a directory."""

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Time of the last change, unix milliseconds."""

    def makedirs(self, path: str) -> None:
        """Make a directory and its parents, durably; no error when it is there."""

    def rename(self, old: str, new: str) -> None:
        """Move, replacing `new`, durably (the directory is fsynced)."""

    def remove(self, path: str) -> None:
        """Delete one file; no error when it is gone already."""

    def rmtree(self, path: str) -> None:
        """Delete a directory and all in it; no error when it is gone already."""

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace a whole file: readers see the old or the new contents, never a mixture.

        With `durable=False` nothing is fsynced: after a power loss the file may be old, new, or damaged, and the caller
        must be able to rebuild it or fsync it later (`fsync_path`).
        """

    def fsync_path(self, path: str) -> None:
        """Make a closed file durable; no error when it is gone."""

    def write_again(self, path: str) -> None:
        """Write all bytes of a closed file once more, in place, and make them durable: some may be in memory only, and taken for
        written. Needs no room on the disk."""

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""

    def disk_free(self, path: str) -> int:
        """Bytes left for an unprivileged user."""

    def disk_size(self, path: str) -> int:
        """Bytes of the whole file system."""

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock that ends with the process. Raises BlockingIOError when another process holds it."""

    @property
    def descriptors_are_scarce(self) -> bool:
        """Whether half of what this process may have open was open when the last file was opened."""


class RealFile:
    """A file of the operating system.

    `system` has the system calls; a subclass that records them, or runs them on a disk in memory, has others.
    """

    __slots__ = ("_fd", "_path", "size")

    system = os

    def __init__(self, path: str, flags: int) -> None:
        self._fd = -1  # before open: __del__ runs even when open fails
        self._path = path
        self._fd = self.system.open(path, flags | os.O_CLOEXEC, 0o644)
        self.size = self.system.fstat(self._fd).st_size

    def append(self, *buffers: Buffer) -> None:
        if len(buffers) == 1:
            size = len(buffers[0])
            written = self.system.write(self._fd, buffers[0])
        else:
            size = sum(map(len, buffers))
            written = self.system.writev(self._fd, buffers)
        if written != size:
            self._append_rest(buffers, written)
        self.size += size

    def _append_rest(self, buffers: tuple[Buffer, ...], written: int) -> None:
        """The kernel took only a part: more than 2 GiB at once, a signal, or a disk that is nearly full."""
        for buffer in buffers:
            view = memoryview(buffer)
            skip = min(written, len(view))
            written -= skip
            view = view[skip:]
            while view:
                n = self.system.write(self._fd, view)
                if n == 0:
                    raise OSError(errno.EIO, "the disk takes no more bytes", self._path)
                view = view[n:]

    def pread(self, n: int, position: int) -> bytes:
        return self.system.pread(self._fd, n, position)

    def truncate(self, n: int) -> None:
        self.system.ftruncate(self._fd, n)
        self.size = n

    def fsync(self) -> None:
        self.system.fdatasync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self.system.close(fd)

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RealFile({self._path!r}, size={self.size})"


class _RealLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class RealFileSystem:
    """The disk of this machine. `system` as in RealFile."""

    system = os
    _last_descriptor = 0

    def _open(self, path: str, flags: int) -> RealFile:
        return RealFile(path, flags)

    def _noted(self, file: RealFile) -> RealFile:
        self._last_descriptor = file.fileno()
        return file

    @property
    def descriptors_are_scarce(self) -> bool:
        """The kernel gives the lowest number that is free, so it is known how many are open, connections as well."""
        return self.system is os and self._last_descriptor > resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2

    def open_append(self, path: str) -> File:
        return self._noted(self._open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT))

    def open_read(self, path: str) -> File:
        return self._noted(self._open(path, os.O_RDONLY))

    def listdir(self, path: str) -> list[str]:
        return sorted(self.system.listdir(path))

    def exists(self, path: str) -> bool:
        return self.system.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return self.system.path.isdir(path)

    def file_size(self, path: str) -> int:
        return self.system.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return self.system.stat(path).st_mtime_ns // 1_000_000

    def makedirs(self, path: str) -> None:
        if self.system.path.isdir(path):
            return
        parent = self.system.path.dirname(self.system.path.abspath(path))
        self.makedirs(parent)
        try:
            self.system.mkdir(path)
        except FileExistsError:
            if not self.system.path.isdir(path):
                raise
        self.fsync_dir(parent)

    def rename(self, old: str, new: str) -> None:
        self.system.replace(old, new)
        self.fsync_dir(self.system.path.dirname(new))

    def remove(self, path: str) -> None:
        try:
            self.system.unlink(path)
        except FileNotFoundError:
            pass

    def rmtree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass

    def read_bytes(self, path: str) -> bytes:
        file = self.open_read(path)
        try:
            return file.pread(file.size, 0)
        finally:
            file.close()

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        file = self._noted(self._open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        try:
            file.append(data)
            if durable:
                file.fsync()
        finally:
            file.close()
        self.system.replace(temporary, path)
        if durable:
            self.fsync_dir(self.system.path.dirname(path))

    def fsync_path(self, path: str) -> None:
        try:
            fd = self.system.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            self.system.fsync(fd)
        finally:
            self.system.close(fd)

    def write_again(self, path: str) -> None:
        fd = self.system.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            position = 0
            while chunk := self.system.pread(fd, REWRITE_CHUNK_BYTES, position):
                position += self.system.pwrite(fd, chunk, position)
            self.system.fsync(fd)
        finally:
            self.system.close(fd)

    def fsync_dir(self, path: str) -> None:
        self.fsync_path(path or ".")

    def disk_free(self, path: str) -> int:
        stat = self.system.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def disk_size(self, path: str) -> int:
        stat = self.system.statvfs(path)
        return stat.f_blocks * stat.f_frsize

    def lock(self, path: str) -> FileLock:
        import fcntl

        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(fd)
            raise
        return _RealLock(fd)
