"""What a power loss takes: the bytes behind each log's last flush, all of them or as a disk does that was writing.

With the unflushed volume these bytes are tail files (`minikafka.log.unflushed`), and the data file may hold a part of them
already: of a copy that was under way. So a power loss is to cut the data file where its first tail starts, to put back what
is to have reached the disk, and to empty the unflushed volume. What was flushed is not touched, whatever the mode.

The work is planned first and written down, so that an agent which dies in the middle is finished by who repeats the verb.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from minikafka.log.unflushed import COPY_CHUNK_BYTES, parse_tail_name


class PowerLossMode(StrEnum):
    """How much of what was not flushed is gone."""

    ALL = "all"
    TORN = "torn"
    """Each log ends at a byte that the seed chooses."""
    GARBAGE = "garbage"
    """The same, and garbage follows, for at most as long as the log was."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What becomes of one data file. Sizes in bytes."""

    data: str
    start: int
    """Where its unflushed part begins."""
    tails: list[tuple[int, str]]
    """Position and path of each tail file."""
    unflushed: int
    kept: int
    """How much of it has reached the disk."""
    garbage: int
    """What follows, from the seed."""
    seed: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def plan(data: Sequence[Path], unflushed: Path, mode: PowerLossMode, seed: int) -> list[Cut]:
    """Return what a power loss now does to each log, a line for each data file that has an unflushed part. Raises OSError."""
    cuts: list[Cut] = []
    for folder in sorted(unflushed.iterdir()) if unflushed.is_dir() else ():
        home = next((each / folder.name for each in data if (each / folder.name).is_dir()), None)
        if home is not None and folder.is_dir():
            cuts += _plan_log(home, folder, mode, f"{seed}:{folder.name}")
    return cuts


def _plan_log(home: Path, folder: Path, mode: PowerLossMode, seed: str) -> Iterator[Cut]:
    parts = list(_unflushed_parts(home, folder))
    rng = random.Random(seed)
    total = sum(size for _, _, _, size in parts)
    # Below the whole: a loss that loses nothing is none.
    left = 0 if mode is PowerLossMode.ALL or not total else rng.randrange(total)
    torn = False
    for data, start, tails, size in parts:
        kept = min(left, size)
        left -= kept
        garbage = 0
        if mode is PowerLossMode.GARBAGE and kept < size and not torn:
            garbage = rng.randint(1, size - kept)
        torn = torn or kept < size
        yield Cut(str(data), start, tails, size, kept, garbage, f"{seed}:{data.name}")


def _unflushed_parts(home: Path, folder: Path) -> Iterator[tuple[Path, int, list[tuple[int, str]], int]]:
    """(data file, where its unflushed part starts, its tails, its size), in the order of the log."""
    found: dict[int, list[tuple[int, str]]] = {}
    for path in folder.iterdir():
        if (parsed := parse_tail_name(path.name)) is not None:
            found.setdefault(parsed[0], []).append((parsed[1], str(path)))
    for base in sorted(found):
        data = home / f"{base:020d}.log"
        tails = sorted(found[base])
        start = tails[0][0]
        if not data.is_file() or data.stat().st_size < start:
            continue  # of another life of the volume: opening the log drops it
        end = start
        for position, tail in tails:
            if position > end:
                break  # a hole: what lies beyond it was never reachable
            end = max(end, position + os.stat(tail).st_size)
        yield data, start, tails, end - start


def carry_out(cuts: Sequence[Cut]) -> None:
    """Make the data files what they are after the power loss; the tails stay. Safe to repeat. Raises OSError."""
    for cut in cuts:
        with open(cut.data, "r+b") as data:
            data.truncate(cut.start)
            data.seek(cut.start)
            left = cut.kept
            for position, path in cut.tails:
                with open(path, "rb") as tail:
                    tail.seek(cut.start + cut.kept - left - position)
                    while left and (chunk := tail.read(min(left, COPY_CHUNK_BYTES))):
                        data.write(chunk)
                        left -= len(chunk)
            data.write(random.Random(cut.seed).randbytes(cut.garbage))
            data.flush()
            os.fsync(data.fileno())


def lost_bytes(cuts: Sequence[Cut]) -> int:
    """Return how many bytes of records are gone."""
    return sum(cut.unflushed - cut.kept for cut in cuts)


def empty(folder: Path, keep: Sequence[str] = ()) -> None:
    """Remove all that is in a folder, other than these names. Safe to repeat. Raises OSError."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.name in keep:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
