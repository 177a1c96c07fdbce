"""Files of a broker as a tar, compressed and in base64, inside one line of JSON on standard output.

Written as it is read: an agent has little memory, and logs may be long.
"""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple, TextIO

COMPRESSION_LEVEL = 1
"""The reader waits, the broker beside it needs the CPU."""


class ArchiveEntry(NamedTuple):
    """A file or folder, and its name in the tar."""

    path: Path
    name: str


class _Base64:
    """A file for writing whose bytes go on as text."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._left = b""

    def write(self, data: bytes) -> int:
        buffered = self._left + bytes(data)
        whole = len(buffered) - len(buffered) % 3
        self._out.write(base64.b64encode(buffered[:whole]).decode())
        self._left = buffered[whole:]
        return len(data)

    def flush(self) -> None:
        """What is no whole group of base64 yet waits for more."""

    def close(self) -> None:
        self._out.write(base64.b64encode(self._left).decode())
        self._left = b""


def write_archive(members: Iterable[ArchiveEntry], out: TextIO) -> str | None:
    """Write ``{"tar": "..."}``; with a field `error` when not all could be read, which is then returned."""
    out.write('{"tar":"')
    encoded = _Base64(out)
    error: str | None = None
    sink: IO[bytes] = encoded  # type: ignore[assignment]
    try:
        with (
            gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=COMPRESSION_LEVEL) as packed,
            tarfile.open(fileobj=packed, mode="w|") as tar,
        ):
            for member in members:
                tar.add(member.path, member.name)
    except OSError as failure:
        error = str(failure)
    encoded.close()
    out.write('"' + (f',"error":{json.dumps(error)}' if error is not None else "") + "}\n")
    return error


def log_members(data: Iterable[Path], unflushed: Path | None, topics: Iterable[str]) -> list[ArchiveEntry]:
    """Partition folders of these topics (none: of all), `data/NAME-N` and `unflushed/NAME-N`, and what lies beside them."""
    wanted = frozenset(topics)
    found = []
    for folder in data:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file() or not wanted or path.name.rpartition("-")[0] in wanted:
                found.append(ArchiveEntry(path, f"data/{path.name}"))
    if unflushed is not None and unflushed.is_dir():
        for path in sorted(unflushed.iterdir()):
            if path.is_dir() and (not wanted or path.name.rpartition("-")[0] in wanted):
                found.append(ArchiveEntry(path, f"unflushed/{path.name}"))
    return [member for member in found if not member.path.is_symlink()]
