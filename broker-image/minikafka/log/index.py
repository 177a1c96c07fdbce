"""The sparse indexes of a segment: `.index` (offset to file position) and `.timeindex` (timestamp to offset).

Formats are Kafka's (`OffsetIndex`, `TimeIndex`): fixed-size big-endian entries, offsets relative to the segment's
base. Unlike Kafka's they are never preallocated; a file ends after its last entry. Fresh entries wait in memory and
are written a few at a time: an index is only a hint, rebuilt from the segment after an unclean shutdown.
"""

from __future__ import annotations

import struct

from minikafka.log.filesystem import File, FileSystem

PENDING_ENTRIES_MAX = 64
"""Entries written at once: one system call for each 256 KiB of log instead of each 4 KiB."""

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


class CorruptIndex(ValueError):
    """The file cannot be an index of this segment; the segment must be recovered."""


class _Index:
    """Entries of two columns, both non-decreasing. Raises OSError when the disk refuses."""

    __slots__ = (
        "_entry",
        "_file",
        "_flushed",
        "_fs",
        "_pending",
        "_pending_bytes_max",
        "base_offset",
        "max_entries",
        "path",
    )

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int, entry: struct.Struct) -> None:
        self._fs = fs
        self.path = path
        self.base_offset = base_offset
        self._entry = entry
        self.max_entries = max_bytes // entry.size
        self._file: File | None = None
        self._pending = bytearray()
        self._pending_bytes_max = PENDING_ENTRIES_MAX * entry.size
        size = fs.file_size(path) if fs.exists(path) else 0
        self._flushed = size // entry.size

    def __len__(self) -> int:
        return self._flushed + len(self._pending) // self._entry.size

    @property
    def full(self) -> bool:
        """One place is kept free for the entry that closes a time index."""
        return len(self) >= self.max_entries - 1

    def entry(self, n: int) -> tuple[int, int]:
        """The two columns of entry `n`, as stored (offsets relative)."""
        first, second = self._unpack(n)
        return first, second

    def _unpack(self, n: int) -> tuple[int, ...]:
        if n >= self._flushed:
            return self._entry.unpack_from(self._pending, (n - self._flushed) * self._entry.size)
        file = self._file
        if file is None:
            file = self._fs.open_read(self.path)
            if self._fs.descriptors_are_scarce:
                try:
                    return self._entry.unpack(file.pread(self._entry.size, n * self._entry.size))
                finally:
                    file.close()
            self._file = file
        return self._entry.unpack(file.pread(self._entry.size, n * self._entry.size))

    def last_at_or_below(self, column: int, target: int) -> int:
        """Number of the last entry whose `column` is at or below `target`, or -1."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._unpack(middle)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _put(self, first: int, second: int) -> None:
        self._pending += self._entry.pack(first, second)
        if len(self._pending) >= self._pending_bytes_max:
            try:
                self.drain()
            except OSError:
                pass  # the entries stay in memory: the data they point to is appended, and that counts

    def drain(self) -> None:
        """Write the pending entries."""
        if not self._pending:
            return
        file = self._fs.open_append(self.path)
        try:
            if file.size != self._flushed * self._entry.size:
                file.truncate(self._flushed * self._entry.size)  # half an entry, from an append that failed before
            file.append(self._pending)
        finally:
            file.close()
        self._flushed += len(self._pending) // self._entry.size
        self._pending.clear()

    def truncate_entries(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count >= self._flushed:
            del self._pending[(count - self._flushed) * self._entry.size :]
            return
        self._pending.clear()
        self._cut_file(count)

    def _cut_file(self, count: int) -> None:
        self.close()
        file = self._fs.open_append(self.path)
        try:
            file.truncate(count * self._entry.size)
        finally:
            file.close()
        self._flushed = count

    def clear(self) -> None:
        """Forget every entry, and whatever else a crash has left in the file; makes the file when it is missing."""
        self._pending.clear()
        self._cut_file(0)

    def _check(self) -> None:
        """Kafka's sanity checks, shared part."""
        if not self._fs.exists(self.path):
            raise CorruptIndex(f"{self.path} is missing")
        size = self._fs.file_size(self.path)
        if size % self._entry.size:
            raise CorruptIndex(f"{self.path}: {size} bytes are not a multiple of {self._entry.size}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class OffsetIndex(_Index):
    """Last offset of a batch -> file position of that batch."""

    __slots__ = ()

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(fs, path, base_offset, max_bytes, OFFSET_ENTRY)

    def append(self, last_offset: int, position: int) -> None:
        self._put(last_offset - self.base_offset, position)

    def position_before(self, offset: int) -> int:
        """A file position at or before the batch that holds `offset`: where a scan for it starts."""
        n = self.last_at_or_below(0, offset - self.base_offset)
        return self.entry(n)[1] if n >= 0 else 0

    def position_at_or_below(self, position: int) -> int:
        """The last indexed batch position that is not above `position`, or 0."""
        n = self.last_at_or_below(1, position)
        return self.entry(n)[1] if n >= 0 else 0

    def truncate_to(self, offset: int) -> None:
        """Forget batches that end at or after `offset`."""
        self.truncate_entries(self.last_at_or_below(0, offset - 1 - self.base_offset) + 1)

    def sanity_check(self, log_size: int) -> None:
        """Raises CorruptIndex when the file cannot belong to a segment of `log_size` bytes."""
        self._check()
        if not len(self):
            return
        (first, _), (last, position) = self.entry(0), self.entry(len(self) - 1)
        if first < 0 or last < first or not 0 <= position < log_size:
            raise CorruptIndex(
                f"{self.path}: last entry {last} -> {position} does not fit a segment of {log_size} bytes"
            )


class TimeIndex(_Index):
    """Largest timestamp so far (unix ms) -> last offset of the first batch that has it."""

    __slots__ = ("_last_timestamp",)

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(fs, path, base_offset, max_bytes, TIME_ENTRY)
        self._load_last()

    def _load_last(self) -> None:
        self._last_timestamp = self.entry(len(self) - 1)[0] if len(self) else -1

    def append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry when the timestamp grew."""
        if timestamp > self._last_timestamp:
            self._put(timestamp, last_offset - self.base_offset)
            self._last_timestamp = timestamp

    def last(self) -> tuple[int, int]:
        """(largest timestamp, its offset), or (-1, base offset) when empty."""
        if not len(self):
            return -1, self.base_offset
        timestamp, relative = self.entry(len(self) - 1)
        return timestamp, self.base_offset + relative

    def offset_before(self, timestamp: int) -> int:
        """An offset such that every batch that ends before it is older than `timestamp`."""
        n = self.last_at_or_below(0, timestamp - 1)
        return self.base_offset + self.entry(n)[1] if n >= 0 else self.base_offset

    def truncate_to(self, offset: int) -> None:
        """Forget entries at or after `offset`."""
        self.truncate_entries(self.last_at_or_below(1, offset - 1 - self.base_offset) + 1)
        self._load_last()

    def clear(self) -> None:
        super().clear()
        self._last_timestamp = -1

    def sanity_check(self, next_offset: int) -> None:
        """Raises CorruptIndex when the file cannot belong to a segment that ends before `next_offset`."""
        self._check()
        if not len(self):
            return
        (first, _), (last, relative) = self.entry(0), self.entry(len(self) - 1)
        if last < first or not 0 <= relative < next_offset - self.base_offset:
            raise CorruptIndex(f"{self.path}: last entry {last} -> {relative} does not fit its segment")
