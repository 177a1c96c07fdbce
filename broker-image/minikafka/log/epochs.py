"""The leader epoch cache: which leader epoch begins at which offset (R11, R12, KIP-101, KIP-279).

Entries are strictly increasing in both epoch and start offset. They live in memory, and in `leader-epoch-checkpoint`
in Kafka's text format. A new entry is written when it is assigned, but fsynced together with the next flush of the
log: the records of that epoch are not durable before either, and recovery finds the epoch again in the records
(KAFKA-15046). Truncations are fsynced at once: a power loss must not bring back an epoch whose records were cut off.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from minikafka.log.checkpoints import format_checkpoint, parse_checkpoint
from minikafka.log.errors import MalformedCheckpoint
from minikafka.log.filesystem import FileSystem
from minikafka.protocol.records import OFFSET_MAX, BatchHeader

UNDEFINED_EPOCH = -1
EPOCH_MAX = 2**31 - 1
UNDEFINED_OFFSET = -1
CHECKPOINT_NAME = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The answer to "where does this epoch end": both fields -1 when it is not known."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class LeaderEpochCache:
    """See the module. Every change is on disk when the method returns.

    Raises OSError when the disk refuses; nothing has changed then.
    """

    __slots__ = ("_epochs", "_fs", "_held", "_path", "_starts", "dirty", "latest")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._path = f"{directory}/{CHECKPOINT_NAME}"
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._held = False
        self.latest = UNDEFINED_EPOCH
        """The latest epoch, or -1. A plain attribute: every append compares with it."""
        self.dirty = False
        """Written but not fsynced; the next flush of the log does it."""

    @classmethod
    def load(cls, fs: FileSystem, directory: str) -> LeaderEpochCache:
        """Read the checkpoint. An absent file is an empty cache.

        Raises MalformedCheckpoint when the file is damaged (the log then rebuilds it from its records), OSError.
        """
        cache = cls(fs, directory)
        if not fs.exists(cache._path):
            return cache
        for fields in parse_checkpoint(fs.read_bytes(cache._path), 2, cache._path):
            try:
                epoch, start = int(fields[0]), int(fields[1])
            except ValueError:
                raise MalformedCheckpoint(f"{cache._path}: {' '.join(fields)!r} is not EPOCH OFFSET") from None
            if (
                not 0 <= epoch <= EPOCH_MAX
                or not 0 <= start <= OFFSET_MAX
                or (cache._epochs and (epoch <= cache._epochs[-1] or start <= cache._starts[-1]))
            ):
                raise MalformedCheckpoint(f"{cache._path}: entry ({epoch}, {start}) does not increase, or is too large")
            cache._epochs.append(epoch)
            cache._starts.append(start)
            cache.latest = epoch
        return cache

    @property
    def latest_entry(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    @property
    def entries(self) -> list[EpochEntry]:
        return list(map(EpochEntry, self._epochs, self._starts))

    def __len__(self) -> int:
        return len(self._epochs)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin `epoch` at `start_offset`. A new leader does this with its log end offset before any append (KIP-279).

        Entries that contradict it (same or later epoch, same or later start) are dropped, as Kafka does. Returns
        whether anything changed. Raises ValueError for negative arguments.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} at offset {start_offset}: neither may be negative")
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return False
        keep = min(bisect_left(epochs, epoch), bisect_left(starts, start_offset))
        self._replace([*epochs[:keep], epoch], [*starts[:keep], start_offset], durable=False)
        return True

    def assign_batches(self, headers: Sequence[BatchHeader]) -> None:
        """Begin the epochs of a leader's batches at their offsets, before the batches are written: recovery relies on the
        checkpoint knowing every epoch that the records have.

        When that write then fails, the entries stay, and fit the same batches of the next fetch.
        """
        first, last = headers[0], headers[-1]
        if first[2] == last[2] == self.epoch_for_offset(first[0]) == self.epoch_for_offset(last[0]):
            return  # epochs never decrease along a log
        for header in headers:
            epoch, offset = header.partition_leader_epoch, header.base_offset
            if epoch >= 0 and self.epoch_for_offset(offset) != epoch:
                self.truncate_from_end(offset, durable=False)
                self.assign(epoch, offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest known epoch that is not above `epoch`, and where it ends (R13; `LeaderEpochFileCache.endOffsetFor`).

        Undefined for an epoch above the latest or an empty cache. For an epoch below the first one, that epoch itself
        with the start of the first entry: the records before it are gone.
        """
        epochs = self._epochs
        if epoch < 0 or not epochs or epoch > epochs[-1]:
            return UNDEFINED
        if epoch == epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(epochs, epoch)
        return EpochEndOffset(epoch if above == 0 else epochs[above - 1], self._starts[above])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that a record at `offset` was written in, or -1 when it is before the first entry."""
        i = bisect_right(self._starts, offset) - 1
        return self._epochs[i] if i >= 0 else UNDEFINED_EPOCH

    def start_offset_of(self, epoch: int) -> int:
        """The first offset of exactly this epoch, or -1."""
        i = bisect_left(self._epochs, epoch)
        return self._starts[i] if i < len(self._epochs) and self._epochs[i] == epoch else UNDEFINED_OFFSET

    def truncate_from_end(self, end_offset: int, *, durable: bool = True) -> None:
        """Forget epochs that begin at or after `end_offset`.

        `durable=False` leaves the fsync to the next flush: enough when only unflushed records were cut off.
        """
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            self._replace(self._epochs[:keep], self._starts[:keep], durable=durable)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before `start_offset`; the epoch that covers it stays and now begins there."""
        covering = bisect_right(self._starts, start_offset) - 1
        if covering > 0 or (covering == 0 and self._starts[0] < start_offset):
            starts = [start_offset, *self._starts[covering + 1 :]]
            self._replace(self._epochs[covering:], starts, durable=False)

    def clear(self) -> None:
        """Forget everything."""
        self._replace([], [], durable=True)

    def take_dirty(self) -> bool:
        """Whether the checkpoint has to be fsynced, for somebody who will do it."""
        taken, self.dirty = self.dirty, False
        return taken

    def mark_dirty(self) -> None:
        """The checkpoint has to be fsynced (again)."""
        self.dirty = True

    def fsync(self) -> None:
        """Make the checkpoint durable. Called by flush jobs on their thread; touches no state but the file."""
        self._fs.fsync_path(self._path)
        self._fs.fsync_dir(self._path.rpartition("/")[0])

    def hold(self) -> None:
        """Begin anew, in memory only: the file stays as it is until :meth:`release`."""
        self._held = True
        self._replace([], [], durable=True)

    def release(self) -> None:
        """Write down what there is, if it was held back."""
        if self._held:
            self._held = False
            self._replace(self._epochs, self._starts, durable=True)

    def _replace(self, epochs: list[int], starts: list[int], *, durable: bool) -> None:
        """Disk first: when it refuses, memory still says what the disk says."""
        if not self._held:
            self._fs.write_atomic(self._path, format_checkpoint(zip(epochs, starts, strict=True)), durable=durable)
        self._epochs, self._starts = epochs, starts
        self.latest = epochs[-1] if epochs else UNDEFINED_EPOCH
        self.dirty = not durable
