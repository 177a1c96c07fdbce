"""Names the changes of a disk that system calls make, and replays them.

A node is a file or a directory, by number; `ROOT` is the directory above all others. A file's change is durable after an fsync
of the file, a name's after an fsync of its directory, and nothing else makes anything durable.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

ROOT = 0


class Made(NamedTuple):
    """A name for a node that is new, or that was made durable under another."""

    directory: int
    name: str
    node: int


class Removed(NamedTuple):
    """A name is gone (unlink, rmdir)."""

    directory: int
    name: str


class Renamed(NamedTuple):
    """A node has another name in the same directory; one that had this name has none any more."""

    directory: int
    name: str
    new: str
    node: int


class Written(NamedTuple):
    """Bytes of a file."""

    node: int
    position: int
    data: bytes


class Truncated(NamedTuple):
    """The length of a file (ftruncate, O_TRUNC)."""

    node: int
    size: int


class Synced(NamedTuple):
    """An fsync of a file or a directory has returned."""

    node: int


Change = Made | Removed | Renamed | Written | Truncated
Operation = Change | Synced


def owner(operation: Operation) -> int:
    """The node whose fsync makes it durable."""
    return operation.directory if isinstance(operation, Made | Removed | Renamed) else operation.node


class Contents:
    """What is in files and directories, by node."""

    __slots__ = ("directories", "files")

    def __init__(self, files: dict[int, bytes], directories: dict[int, dict[str, int]]) -> None:
        self.files = files
        self.directories = directories

    @classmethod
    def empty(cls) -> Contents:
        """A disk with nothing on it."""
        return cls({}, {ROOT: {}})

    def copy(self) -> Contents:
        """One that can be changed apart from this."""
        return Contents(dict(self.files), {node: dict(names) for node, names in self.directories.items()})

    def apply(self, change: Change) -> None:
        """Carry out a change, whatever was left out before it."""
        match change:
            case Made(directory, name, node):
                self.directories.setdefault(directory, {})[name] = node
            case Removed(directory, name):
                self.directories.setdefault(directory, {}).pop(name, None)
            case Renamed(directory, name, new, node):
                names = self.directories.setdefault(directory, {})
                if names.get(name) == node:
                    del names[name]
                names[new] = node
            case Written(node, position, data):
                old = self.files.get(node, b"")
                if len(old) < position:
                    old = old.ljust(position, b"\0")
                self.files[node] = old[:position] + data + old[position + len(data) :]
            case Truncated(node, size):
                self.files[node] = self.files.get(node, b"")[:size].ljust(size, b"\0")

    def digest(self, is_directory: set[int]) -> bytes:
        """A hash of all that can be reached by a name."""
        found = hashlib.blake2b(digest_size=16)
        waiting = [("", ROOT)]
        while waiting:
            path, node = waiting.pop()
            for name, child in sorted(self.directories.get(node, {}).items()):
                found.update(f"{path}/{name}\0".encode())
                if child in is_directory:
                    waiting.append((f"{path}/{name}", child))
                else:
                    data = self.files.get(child, b"")
                    found.update(f"{len(data)}\0".encode() + data)
        return found.digest()
