"""What the checker remembers of a replica's log: the identity of each record, and each producer's batches.

A mirror is made from the bytes of the log and from nothing else that the broker believes, so that its beliefs (epoch cache,
producer state, indexes) can be compared with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from minikafka.log.log import Log
from minikafka.log.producer_state import BATCHES_RETAINED
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.protocol.records import RecordBatch, add_sequence

Identity = tuple[int, int, int]
"""(leader epoch, CRC of the batch, index in the batch) of one record."""

GONE: Identity = (-1, -1, -1)
"""Stands for a record below a replica's log start. It is like any other only where records were really deleted."""


@contextmanager
def unrefused(disk: MemoryFileSystem) -> Iterator[None]:
    """What the checker reads of a log is never refused, whatever the disk does to the broker."""
    hook, disk.fault_hook = disk.fault_hook, None
    try:
        yield
    finally:
        disk.fault_hook = hook


class ProducerBatch(NamedTuple):
    """A batch of an idempotent producer, as the log has it."""

    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


def first_difference(wanted: list[Identity], found: list[Identity], deleted: int, base: int = 0) -> int:
    """The first place at which two logs differ, one being shorter counted; the longer length when they do not.

    Both begin at offset ``base``. A record that is :data:`GONE` is like any other below ``deleted``, and only there.
    """
    if wanted == found:
        return len(wanted)
    for place, (a, b) in enumerate(zip(wanted, found, strict=False)):
        if a != b and not (GONE in (a, b) and base + place < deleted):
            return place
    return min(len(wanted), len(found)) if len(found) < len(wanted) else len(wanted)


class View:
    """What the checker remembers of one hosted replica."""

    __slots__ = (
        "agreed", "checked_start", "failed", "hw", "hw_epoch", "identities", "leads_in", "looked_at",
        "partition_epoch", "producer_batches", "recent_batches", "start", "term",
    )  # fmt: skip

    def __init__(self) -> None:
        self.identities: list[Identity] = []
        self.producer_batches: list[ProducerBatch] = []
        self.recent_batches: dict[int, deque[ProducerBatch]] = {}
        """By producer id, as many as a broker remembers."""
        self.agreed = 0
        """How many records from the start are known to be the committed ones; see :meth:`agrees_with`."""
        self.start = 0
        self.checked_start = 0
        """The log start at which what the broker remembers was last compared with the log."""
        self.failed = False
        """Its log has failed; one that is opened anew has another view."""
        self.hw = 0
        self.hw_epoch = -1
        self.partition_epoch = -1
        self.leads_in = -1
        """The partition epoch that it goes by as a leader."""
        self.term = object()
        self.looked_at: tuple[object, ...] | None = None
        """What the replica was like when it was last compared with all that must hold."""

    def cut(self, end: int) -> None:
        """The log ends at ``end`` now."""
        del self.identities[end:]
        self.agreed = min(self.agreed, end)
        batches = self.producer_batches
        while batches and batches[-1].last_offset >= end:
            batches.pop()
        self.recent_batches.clear()
        for batch in batches:
            self._remember(batch)

    def begin_at(self, start: int) -> None:
        """The log begins at ``start`` now: what is before it can no longer be read."""
        if start > self.start:
            stop = min(start, len(self.identities))
            self.identities[self.start : stop] = [GONE] * (stop - self.start)
        self.start = start

    def skip_to(self, offset: int) -> None:
        """What is mirrored next begins at ``offset``; there is nothing to see before it."""
        self.identities.extend([GONE] * (offset - len(self.identities)))

    def take(self, whole: RecordBatch, identities: list[Identity]) -> None:
        """The next batch, and the identities of its records."""
        header = whole.header
        del self.identities[header.base_offset :]
        self.agreed = min(self.agreed, header.base_offset)
        self.identities.extend(identities)
        if header.producer_id >= 0 and not header.control:
            last = add_sequence(header.base_sequence, header.last_offset_delta)
            batch = ProducerBatch(
                header.producer_id, header.producer_epoch, header.base_sequence, last,
                header.base_offset, header.last_offset, header.max_timestamp,
            )  # fmt: skip
            self.producer_batches.append(batch)
            self._remember(batch)

    def _remember(self, batch: ProducerBatch) -> None:
        self.recent_batches.setdefault(batch.producer_id, deque(maxlen=BATCHES_RETAINED)).append(batch)

    def agrees_with(self, truth: list[Identity], deleted: int) -> int:
        """How many of the committed records this replica has from the start without a difference, ``deleted`` ones counted.

        ``truth`` may only grow between two calls, or be told of by :meth:`disagree_from`.
        """
        mine, n = self.identities, self.agreed
        stop = min(len(mine), len(truth))
        while n < stop:
            a, b = mine[n], truth[n]
            if a is not b and a != b and not (GONE in (a, b) and n < deleted):
                break
            n += 1
        self.agreed = n
        return n

    def disagree_from(self, offset: int) -> None:
        """What is committed has changed from ``offset`` on."""
        self.agreed = min(self.agreed, offset)


# -- what a broker remembers beside its log, compared with the log ---------------------------------------------------------------


def epochs_differ(log: Log, view: View, led: set[int], disk_may_refuse: bool) -> str | None:
    """How the epoch cache differs from the epochs in the batches, or None.

    Its last entry may have no record yet: a leader notes its epoch before it appends (KIP-279). ``led`` are the epochs that
    this broker has led. A follower notes the epochs of what it was given before it appends, and the disk may refuse what comes
    then (``disk_may_refuse``), so that they stay until those records come again; or it refuses to forget what is before the log
    start. Neither misleads anybody.
    """
    start, end = log.log_start_offset, log.log_end_offset
    wanted: list[tuple[int, int]] = []
    for offset in range(start, end):
        epoch = view.identities[offset][0]
        if not wanted or wanted[-1][0] != epoch:
            wanted.append((epoch, offset))
    found = [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]
    shown = f"the epoch cache has {found}, the batches from {start} to {end} have {wanted}"
    if disk_may_refuse:  # the entry that covers the start begins there, whatever the disk has of it
        found = found[sum(offset <= start for _, offset in found[1:]) :]
        if found and found[0][1] < start:
            found[0] = (found[0][0], start)
    if found and found[-1][1] == end and (found[-1][0] in led or start == end):
        found.pop()
    while found and found[-1][1] >= end and disk_may_refuse:
        found.pop()
    if found and wanted and found[0][0] == wanted[0][0] and found[0][1] <= start:
        found[0] = wanted[0]
    return None if found == wanted else shown


def producers_differ(log: Log, view: View) -> str | None:
    """How what the log remembers of idempotent producers differs from the batches in it, or None (KIP-98).

    Of a producer all of whose records are deleted, it may remember something or nothing; of the batches before the last one
    what it has is right, and it may have fewer than it once had.
    """
    for producer_id, recent in view.recent_batches.items():
        batch, state = recent[-1], log.producers.get(producer_id)
        if batch.last_offset < log.log_start_offset:
            continue
        remembered = None if state is None or not state.batches else state.batches[-1]
        if state is None or remembered is None or state.epoch != batch.epoch or tuple(remembered) != batch[2:]:
            held = None if state is None else (state.epoch, remembered)
            return f"of producer {producer_id} it remembers {held}, the last batch is {batch}"
        start = log.log_start_offset
        known = [tuple(each) for each in state.batches if each.last_offset >= start]
        there = [tuple(each[2:]) for each in recent if each.epoch == state.epoch and each.last_offset >= start]
        if known != there[-len(known) :]:
            return f"of producer {producer_id} it remembers {state.batches}, the last batches are {list(recent)}"
    for producer_id, state in log.producers:
        beyond = state.batches and state.batches[-1].last_offset >= log.log_start_offset
        if beyond and producer_id not in view.recent_batches:
            return f"of producer {producer_id} it remembers {state.batches[-1]}, which is not in the log"
    return None


def indexes_differ(log: Log) -> str | None:
    """Where an index of a segment points to something else than its batches, or None."""
    for segment in log.segments:
        ends: dict[int, int] = {}
        newest: dict[int, int] = {}
        """Last offset of each first batch with a larger timestamp than all before it -> that timestamp."""
        latest = -1
        for position, header in segment.walk(0):
            ends[position] = header.last_offset
            if header.max_timestamp > latest:
                latest = newest[header.last_offset] = header.max_timestamp
        base = segment.base_offset
        for n in range(len(segment.index)):
            relative, position = segment.index.entry(n)
            if ends.get(position) != base + relative:
                return (
                    f"{segment.index.path}: entry {n} says that the batch at byte {position} ends at {base + relative}"
                )
        for n in range(len(segment.time_index)):
            timestamp, relative = segment.time_index.entry(n)
            if newest.get(base + relative) != timestamp:
                return f"{segment.time_index.path}: entry {n} says that {timestamp} comes first at {base + relative}"
    return None
