"""A disk in memory whose unflushed bytes can be lost, torn or refused, for the simulator and the tests.

The model, which is as unkind as POSIX allows:

* appended bytes survive the process, but a power loss only when they were fsynced;
* a truncation that was not fsynced is undone by a power loss;
* a created, renamed or removed name survives a power loss only after `fsync_dir` of its directory;
* after a failed fsync the kernel forgets that the pages were dirty: a later fsync succeeds, yet these bytes are gone
  after a power loss ("fsyncgate"). So a log must never trust a file again after one failed fsync.
"""

from __future__ import annotations

import errno
import posixpath
import random
import re
from collections.abc import Callable, Iterable, Iterator

Buffer = bytes | bytearray | memoryview

PAGE_BYTES = 4096
TORN_SECTOR_BYTES = 512
"""A torn write garbles at most its last sector: disks write whole sectors."""
RANDOM_IN_A_NAME = re.compile(r"[0-9a-f]{32}(?=-delete)")
"""In the name of a folder that is being deleted."""


class _Inode:
    __slots__ = ("data", "durable_size", "lost", "modified_ms", "undo")

    def __init__(self, now_ms: int) -> None:
        self.data = bytearray()
        self.durable_size = 0
        self.undo: bytes | None = None  # durable contents before a truncation that was not fsynced yet
        self.lost: list[tuple[int, int]] = []  # byte ranges whose fsync failed
        self.modified_ms = now_ms

    def durable(self) -> bytearray:
        kept = bytearray(self.data[: self.durable_size] if self.undo is None else self.undo)
        for start, end in self.lost:
            end = min(end, len(kept))
            kept[start:end] = bytes(max(0, end - start))
        return kept


class _Handle:
    """An open simulated file. It stops working when the process that opened it dies."""

    __slots__ = ("_fs", "_generation", "_inode", "_path")

    def __init__(self, fs: MemoryFileSystem, inode: _Inode, path: str) -> None:
        self._fs = fs
        self._inode = inode
        self._path = path
        self._generation = fs.generation

    @property
    def size(self) -> int:
        return len(self._inode.data)

    def _check(self) -> None:
        if self._generation != self._fs.generation:
            raise OSError(errno.EBADF, "handle of a process that is dead or file that is closed", self._path)

    def append(self, *buffers: Buffer) -> None:
        self._check()
        fs = self._fs
        fs.fault("append", self._path)
        size = sum(map(len, buffers))
        room = fs.room(self._path)
        for buffer in buffers:
            if room is not None and len(buffer) > room:
                self._inode.data += buffer[:room]  # the kernel takes what fits: a short write, then ENOSPC
                raise OSError(errno.ENOSPC, "No space left on device", self._path)
            self._inode.data += buffer
            if room is not None:
                room -= len(buffer)
        self._inode.modified_ms = fs.now_ms
        fs.bytes_written += size

    def pread(self, n: int, position: int) -> bytes:
        self._check()
        self._fs.fault("pread", self._path)
        return bytes(self._inode.data[position : position + n])

    def truncate(self, n: int) -> None:
        self._check()
        self._fs.fault("truncate", self._path)
        inode = self._inode
        if n > len(inode.data):
            inode.data += bytes(n - len(inode.data))
            return
        if n < inode.durable_size:
            if inode.undo is None:
                inode.undo = bytes(inode.durable())
            inode.durable_size = n
        inode.lost = [(start, min(end, n)) for start, end in inode.lost if start < n]
        del inode.data[n:]

    def fsync(self) -> None:
        self._check()
        self._fs.sync(self._inode, self._path)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self._path)

    def close(self) -> None:
        self._generation = -1


class _Lock:
    __slots__ = ("_fs", "_path")

    def __init__(self, fs: MemoryFileSystem, path: str) -> None:
        self._fs = fs
        self._path = path

    def release(self) -> None:
        self._fs.locks.discard(self._path)


class MemoryFileSystem:
    """A simulated disk (see the module). Implements the `FileSystem` protocol; paths are absolute POSIX paths.

    Faults: set `capacity` (bytes, None = endless) for ENOSPC, in `volumes` that of directories with a file system of their
    own, and `fault_hook(operation, path)` to raise an OSError from any of `append`, `pread`, `truncate`, `fsync`, `fsync_dir`,
    `rename`, `remove`, `open`, `write_atomic`, `write_again`.
    """

    def __init__(self, *, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.volumes: dict[str, int] = {}
        self.fault_hook: Callable[[str, str], None] | None = None
        self.now_ms = 0
        self.generation = 0
        self.bytes_written = 0
        self.fsyncs = 0
        self.locks: set[str] = set()
        self.descriptors_are_scarce = False
        self._files: dict[str, _Inode] = {}
        self._durable_files: dict[str, _Inode] = {}
        self._dirs: set[str] = {"/"}

    # -- what happens to the machine

    def kill(self) -> None:
        """The process dies (kill -9): nothing is lost, open handles and locks end."""
        self.generation += 1
        self.locks.clear()

    def power_loss(self) -> None:
        """All that was not fsynced is gone."""
        self.kill()
        self._files = dict(self._durable_files)
        for inode in self._files.values():
            self._settle(inode, inode.durable())

    def crash(self, rng: random.Random, tear: bool = True) -> None:
        """Power loss in the middle of writeback: a random part of what was not fsynced has reached the disk.

        With `tear`, the end of what survived may be a torn or garbage sector.
        """
        self.kill()
        files: dict[str, _Inode] = {}
        for path in _in_order((*self._files, *self._durable_files)):
            now, durable = self._files.get(path), self._durable_files.get(path)
            kept = now if now is durable or rng.random() < 0.5 else durable
            if kept is not None:
                files[path] = kept
        self._files = files
        for path in _in_order(files):
            inode = files[path]
            data = inode.durable()
            if inode.undo is None or rng.random() < 0.5:
                base = inode.durable_size if inode.undo is None else min(inode.durable_size, len(inode.data))
                survived = bytearray(inode.data[base : base + rng.randint(0, len(inode.data) - base)])
                if tear and survived and rng.random() < 0.5:
                    torn = rng.randint(1, min(len(survived), TORN_SECTOR_BYTES))
                    survived[-torn:] = rng.randbytes(torn) if rng.random() < 0.5 else bytes(torn)
                data = data[:base] + survived
            self._settle(inode, data)
        self._durable_files = dict(files)

    @staticmethod
    def _settle(inode: _Inode, data: bytearray) -> None:
        inode.data = data
        inode.durable_size = len(data)
        inode.undo = None
        inode.lost = []

    def sync(self, inode: _Inode, path: str) -> None:
        self.fsyncs += 1
        try:
            self.fault("fsync", path)
        except OSError:
            if inode.durable_size < len(inode.data):
                inode.lost.append((inode.durable_size, len(inode.data)))
            raise
        inode.durable_size = len(inode.data)
        inode.undo = None

    def fault(self, operation: str, path: str) -> None:
        if self.fault_hook is not None:
            self.fault_hook(operation, path)

    def room(self, path: str) -> int | None:
        volume = self._volume(path)
        if volume is not None:
            own = self._files.get(path)
            slack = 0 if own is None else -len(own.data) % PAGE_BYTES
            return max(0, (self.volumes[volume] - self.used(volume)) // PAGE_BYTES * PAGE_BYTES) + slack
        return None if self.capacity is None else max(0, self.capacity - self.used())

    def _volume(self, path: str) -> str | None:
        return next((volume for volume in self.volumes if path == volume or path.startswith(volume + "/")), None)

    def used(self, volume: str | None = None) -> int:
        """Bytes in all files, but for those of `volumes`; on one of these files take whole pages, as in a tmpfs."""
        there = {inode for path, inode in self._files.items() if not self.volumes or self._volume(path) == volume}
        page = 1 if volume is None else PAGE_BYTES
        return sum(-(-len(inode.data) // page) * page for inode in there)

    def corrupt(self, path: str, position: int, mask: int) -> None:
        """Flip bits of one byte on the disk."""
        self._files[path].data[position] ^= mask

    # -- the FileSystem protocol

    def open_append(self, path: str) -> _Handle:
        self.fault("open", path)
        if path not in self._files:
            self._need_dir(posixpath.dirname(path))
            self._files[path] = _Inode(self.now_ms)
        return _Handle(self, self._files[path], path)

    def open_read(self, path: str) -> _Handle:
        self.fault("open", path)
        return _Handle(self, self._inode(path), path)

    def listdir(self, path: str) -> list[str]:
        self._need_dir(path)
        prefix = path.rstrip("/") + "/"
        return sorted({name[len(prefix) :].split("/", 1)[0] for name in self._below(prefix)})

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._dirs

    def is_dir(self, path: str) -> bool:
        return path in self._dirs

    def file_size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def makedirs(self, path: str) -> None:
        while path not in self._dirs:
            self._dirs.add(path)
            path = posixpath.dirname(path)

    def rename(self, old: str, new: str) -> None:
        self.fault("rename", old)
        if old in self._dirs:
            for files in (self._files, self._durable_files):
                for path in [path for path in tuple(files) if path.startswith(old + "/")]:
                    files[new + path[len(old) :]] = files.pop(path)
            moved = {path for path in tuple(self._dirs) if path == old or path.startswith(old + "/")}
            self._dirs -= moved
            self._dirs |= {new + path[len(old) :] for path in moved}
            return
        self._files[new] = self._inode(old)
        del self._files[old]
        self.fsync_dir(posixpath.dirname(new))

    def remove(self, path: str) -> None:
        self.fault("remove", path)
        self._files.pop(path, None)

    def rmtree(self, path: str) -> None:
        self.fault("remove", path)
        for files in (self._files, self._durable_files):
            for name in [name for name in tuple(files) if name.startswith(path + "/")]:
                del files[name]
        self._dirs -= {name for name in tuple(self._dirs) if name == path or name.startswith(path + "/")}

    def read_bytes(self, path: str) -> bytes:
        self.fault("pread", path)
        return bytes(self._inode(path).data)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.fault("write_atomic", path)
        self._need_dir(posixpath.dirname(path))
        room = self.room(path)
        if room is not None and len(data) > room:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        inode = _Inode(self.now_ms)
        inode.data += data
        if durable:
            self.sync(inode, path)
        self._files[path] = inode
        if durable:
            self.fsync_dir(posixpath.dirname(path))

    def fsync_path(self, path: str) -> None:
        if path in self._files:
            self.sync(self._files[path], path)

    def write_again(self, path: str) -> None:
        inode = self._inode(path)
        self.fault("write_again", path)
        lost, inode.lost = inode.lost, []
        try:
            self.sync(inode, path)
        except OSError:
            inode.lost = lost
            raise

    def fsync_dir(self, path: str) -> None:
        self.fault("fsync_dir", path)
        prefix = path.rstrip("/") + "/"
        here = {
            name
            for name in self._files.keys() | self._durable_files.keys()
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        }
        for name in here:
            if name in self._files:
                self._durable_files[name] = self._files[name]
            else:
                del self._durable_files[name]

    def disk_free(self, path: str) -> int:
        room = self.room(path)
        return 1 << 40 if room is None else room

    def disk_size(self, path: str) -> int:
        volume = self._volume(path)
        capacity = self.capacity if volume is None else self.volumes[volume]
        return 1 << 40 if capacity is None else capacity

    def lock(self, path: str) -> _Lock:
        if path in self.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        self._need_dir(posixpath.dirname(path))
        if path not in self._files:
            self._files[path] = _Inode(self.now_ms)
        self.locks.add(path)
        return _Lock(self, path)

    def _inode(self, path: str) -> _Inode:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file", path) from None

    def _need_dir(self, path: str) -> None:
        if path not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)

    def _below(self, prefix: str) -> Iterator[str]:
        for names in (self._files, self._dirs):
            for name in tuple(names):  # at once: housekeeping of a broker in a thread makes and deletes files meanwhile
                if name.startswith(prefix) and name != prefix:
                    yield name


def _in_order(paths: Iterable[str]) -> list[str]:
    """By name, but for what is random in the name of a folder that is being deleted: a seed is to be a run."""
    return sorted(dict.fromkeys(paths), key=lambda path: RANDOM_IN_A_NAME.sub("", path))
