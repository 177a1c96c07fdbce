"""Runs the broker's own file system code on a disk in memory that writes down each system call that changes it.

`RecordedFileSystem` is `RealFileSystem` with other system calls: which of them it makes, and in which order, is the broker's
own code. Who opens the disk that a crash has left (`RecordedDisk(contents)`) writes a record of its own.
"""

from __future__ import annotations

import errno
import functools
import os
import posixpath
from types import SimpleNamespace
from typing import Any

from minikafka.log.filesystem import RealFile, RealFileSystem
from minikafka.log.simulated_disk import Buffer

from minikafka_simulator.crashes.operations import (
    ROOT,
    Contents,
    Made,
    Operation,
    Removed,
    Renamed,
    Synced,
    Truncated,
    Written,
)


@functools.lru_cache(maxsize=4096)
def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


class RecordedDisk:
    """The system calls that `RealFileSystem` makes, on a disk in memory, and the record of them."""

    def __init__(self, contents: Contents | None = None, is_directory: set[int] | None = None) -> None:
        self._directories: dict[int, dict[str, int]] = {ROOT: {}}
        self._files: dict[int, bytearray] = {}
        self._open: dict[int, tuple[int, str]] = {}
        self._next = ROOT + 1
        self._next_descriptor = 1
        self.operations: list[Operation] = []
        self.is_directory = {ROOT} | (is_directory or set())
        if contents is not None:
            self._take(contents)
        self.start = Contents({n: bytes(data) for n, data in self._files.items()}, dict(self._directories)).copy()
        """What was on it, durably, before the first operation."""
        self.path = SimpleNamespace(
            exists=lambda path: self._find(path) is not None,
            isdir=lambda path: self._find(path) in self._directories,
            dirname=posixpath.dirname,
            abspath=posixpath.normpath,
        )

    def _take(self, contents: Contents) -> None:
        """Copy what can be reached by a name."""
        waiting = [ROOT]
        while waiting:
            node = waiting.pop()
            names = self._directories[node] = dict(contents.directories.get(node, {}))
            for child in names.values():
                if child in self.is_directory:
                    waiting.append(child)
                else:
                    self._files[child] = bytearray(contents.files.get(child, b""))
        self._next = max(*self.is_directory, *self._files) + 1

    # -- names

    def _find(self, path: str) -> int | None:
        node = ROOT
        for name in _names(path):
            names = self._directories.get(node)
            if names is None or name not in names:
                return None
            node = names[name]
        return node

    def _node(self, path: str) -> int:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return node

    def _place(self, path: str) -> tuple[int, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        directory = self._node(parent)
        if directory not in self._directories:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return directory, name

    def _new(self, directory: int, name: str) -> int:
        node, self._next = self._next, self._next + 1
        self._directories[directory][name] = node
        self.operations.append(Made(directory, name, node))
        return node

    def mkdir(self, path: str) -> None:
        directory, name = self._place(path)
        if name in self._directories[directory]:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        node = self._new(directory, name)
        self._directories[node] = {}
        self.is_directory.add(node)

    def replace(self, old: str, new: str) -> None:
        directory, name = self._place(old)
        other, target = self._place(new)
        if directory != other:
            raise OSError(errno.EXDEV, "the record knows no renames between directories", new)
        node = self._node(old)
        names = self._directories[directory]
        del names[name]
        names[target] = node
        self.operations.append(Renamed(directory, name, target, node))

    def unlink(self, path: str) -> None:
        self._node(path)
        directory, name = self._place(path)
        del self._directories[directory][name]
        self.operations.append(Removed(directory, name))

    def listdir(self, path: str) -> list[str]:
        return list(self._directories[self._node(path)])

    def stat(self, path: str) -> SimpleNamespace:
        return SimpleNamespace(st_size=len(self._files.get(self._node(path), b"")), st_mtime_ns=0)

    def statvfs(self, path: str) -> SimpleNamespace:
        del path
        return SimpleNamespace(f_bavail=1 << 28, f_frsize=4096, f_blocks=1 << 28)

    # -- files

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        del mode
        node = self._find(path)
        if node is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            node = self._new(*self._place(path))
            self._files[node] = bytearray()
        elif flags & os.O_TRUNC and self._files[node]:
            self._files[node].clear()
            self.operations.append(Truncated(node, 0))
        descriptor, self._next_descriptor = self._next_descriptor, self._next_descriptor + 1
        self._open[descriptor] = node, path
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)

    def fstat(self, descriptor: int) -> SimpleNamespace:
        return SimpleNamespace(st_size=len(self._data(descriptor)))

    def _data(self, descriptor: int) -> bytearray:
        return self._files[self._open[descriptor][0]]

    def write(self, descriptor: int, data: Buffer) -> int:
        """At the end: the log opens what it writes to for appending, or has just emptied it."""
        return self.pwrite(descriptor, data, len(self._data(descriptor)))

    def writev(self, descriptor: int, buffers: tuple[Buffer, ...]) -> int:
        return self.write(descriptor, b"".join(buffers))

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        file = self._data(descriptor)
        file[position : position + len(data)] = data
        self.operations.append(Written(self._open[descriptor][0], position, bytes(data)))
        return len(data)

    def pread(self, descriptor: int, n: int, position: int) -> bytes:
        return bytes(self._data(descriptor)[position : position + n])

    def ftruncate(self, descriptor: int, size: int) -> None:
        file = self._data(descriptor)
        del file[size:]
        file.extend(bytes(size - len(file)))
        self.operations.append(Truncated(self._open[descriptor][0], size))

    def fsync(self, descriptor: int) -> None:
        self.operations.append(Synced(self._open[descriptor][0]))

    fdatasync = fsync

    # -- for people

    def describe(self, operation: Operation, paths: dict[int, str]) -> str:
        """One line for an operation; `paths` has the paths of all nodes so far, and learns of new ones."""
        match operation:
            case Made(directory, name, node):
                paths[node] = f"{paths.get(directory, '')}/{name}"
                return f"{'mkdir' if node in self.is_directory else 'create'} {paths[node]}"
            case Removed(directory, name):
                return f"unlink {paths.get(directory, '')}/{name}"
            case Renamed(directory, name, new, node):
                paths[node] = f"{paths.get(directory, '')}/{new}"
                return f"rename {paths.get(directory, '')}/{name} to {new}"
            case Written(node, position, data):
                return f"write {paths.get(node, node)} {len(data)} bytes at {position}"
            case Truncated(node, size):
                return f"truncate {paths.get(node, node)} to {size}"
            case Synced(node):
                return f"fsync {paths.get(node, node) or '/'}"


class _RecordedFile(RealFile):
    __slots__ = ("system",)

    def __init__(self, system: RecordedDisk, path: str, flags: int) -> None:
        self.system: Any = system
        super().__init__(path, flags)


class _Lock:
    def release(self) -> None:
        """Nobody else wants it."""


class RecordedFileSystem(RealFileSystem):
    """The broker's file system code, on a disk that is recorded."""

    def __init__(self, system: RecordedDisk) -> None:
        self.system: Any = system

    def _open(self, path: str, flags: int) -> RealFile:
        return _RecordedFile(self.system, path, flags)

    def rmtree(self, path: str) -> None:
        """As shutil's does: what is inside first."""
        if not self.system.path.isdir(path):
            return
        for name in self.listdir(path):
            inner = f"{path}/{name}"
            if self.system.path.isdir(inner):
                self.rmtree(inner)
            else:
                self.system.unlink(inner)
        self.system.unlink(path)

    def lock(self, path: str) -> _Lock:
        """Makes the file, as the real one does."""
        self.system.close(self.system.open(path, os.O_RDWR | os.O_CREAT))
        return _Lock()
