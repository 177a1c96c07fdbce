"""Enumerates what a crash may leave of a disk, at each prefix of its record.

What was fsynced is there. Of the rest each change may be there or not, apart from all others, and a write may be there in part:
its beginning, its length with zeros for its bytes, garbage in its last sector, or without one of its sectors. The order in which
the changes were made says nothing about which are there (Pillai and others, ALICE, OSDI 2014).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minikafka_simulator.crashes.operations import (
    Change,
    Contents,
    Made,
    Operation,
    Removed,
    Renamed,
    Synced,
    Truncated,
    Written,
    owner,
)  # fmt: skip

SECTOR_BYTES = 512


class CrashState(NamedTuple):
    """A disk after a crash, and how it came about."""

    contents: Contents
    choice: str
    is_power_loss: bool


class Prefix:
    """What is durable, and what is not, after the first operations of a record."""

    def __init__(self, start: Contents) -> None:
        self._durable = start.copy()
        self._pending: list[Change] = []
        self.length = 0

    def add(self, operation: Operation) -> None:
        """The next operation has been carried out."""
        self.length += 1
        if not isinstance(operation, Synced):
            self._pending.append(operation)
            return
        left = []
        for change in self._pending:
            if owner(change) == operation.node:
                self._durable.apply(change)
            else:
                left.append(change)
        self._pending = left

    def everything(self) -> CrashState:
        """The process dies, and the machine does not."""
        return CrashState(self._with(self._pending), "everything survives", False)

    def states(self, rng: random.Random, most: int) -> Iterator[CrashState]:
        """At most so many power losses: that nothing survives that need not, then one change alone there or missing, then chance.

        Where there are fewer they are fewer.
        """
        pending = self._pending
        yield CrashState(self._durable.copy(), "nothing survives that was not fsynced", True)
        if not pending or most < 2:
            return
        yield CrashState(self._with(pending), "everything survives a power loss", True)
        for number in range(most - 2):
            if number < len(pending) and number % 2:
                chosen = rng.randrange(len(pending))
                kept = pending[:chosen] + pending[chosen + 1 :]
                yield CrashState(self._with(kept), f"all but {_shown(pending[chosen])}", True)
            else:
                yield self._by_chance(rng)

    def _with(self, changes: Iterable[Change]) -> Contents:
        contents = self._durable.copy()
        for change in changes:
            contents.apply(change)
        return contents

    def _by_chance(self, rng: random.Random) -> CrashState:
        share = rng.choice((0.1, 0.5, 0.9))
        tears = rng.choice((0.0, 0.3, 1.0))
        kept: list[Change] = []
        missing: list[str] = []
        for change in self._pending:
            if rng.random() > share:
                missing.append(_shown(change))
            elif isinstance(change, Written) and len(change.data) > 1 and rng.random() < tears:
                torn, how = _torn(change, rng)
                kept.append(torn)
                missing.append(f"{how} of {_shown(change)}")
            else:
                kept.append(change)
        return CrashState(self._with(kept), f"without {', '.join(missing) or 'nothing'}", True)


def _torn(change: Written, rng: random.Random) -> tuple[Written, str]:
    data = change.data
    size = len(data)
    match rng.randrange(4):
        case 0:
            kept = rng.randrange(1, size)
            return change._replace(data=data[:kept]), f"all but {kept} bytes"
        case 1:
            return change._replace(data=bytes(size)), "the bytes"
        case 2:
            last = rng.randint(1, min(size, SECTOR_BYTES))
            return change._replace(data=data[:-last] + rng.randbytes(last)), f"the last {last} bytes"
        case _:
            start = rng.randrange(0, size, SECTOR_BYTES)
            hole = min(SECTOR_BYTES, size - start)
            return change._replace(data=data[:start] + bytes(hole) + data[start + hole :]), f"a sector at {start}"


def _shown(change: Change) -> str:
    match change:
        case Made(_, name) | Removed(_, name):
            return f"{type(change).__name__.lower()} {name}"
        case Renamed(_, name, new):
            return f"renamed {name} to {new}"
        case Written(node, position):
            return f"written {node}@{position}"
        case Truncated(node, size):
            return f"truncated {node}@{size}"
