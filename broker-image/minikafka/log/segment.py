"""One segment of a log: its bytes, its indexes, and where its most recent batches lie."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minikafka.log.config import FOREVER, LogConfig
from minikafka.log.errors import CorruptBatch, FsyncFailed
from minikafka.log.filesystem import Buffer, File, FileSystem
from minikafka.log.index import OffsetIndex, TimeIndex
from minikafka.log.unflushed import FileRange, UnflushedFile
from minikafka.log.unflushed_volume import UnflushedVolume
from minikafka.protocol.records import HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, BatchHeader

TAIL_CACHE_BATCHES = 8192
"""At least so many of the newest batches are found without I/O: 128 KiB of memory for each active segment that is
full of them, and at 16 KiB a batch the newest 128 MiB of the log."""
WALK_BYTES = 4096
"""Read-ahead of a walk over headers; batches are mostly larger, so a walk mostly reads headers only."""
SCAN_BYTES = 1 << 20
"""Read-ahead of a scan over whole batches."""
RELATIVE_OFFSET_MAX = 2**31 - 1
"""Index entries hold offsets relative to the segment's base as signed 32-bit numbers."""


class BatchAt(NamedTuple):
    """A batch and where it begins in its segment."""

    position: int
    header: BatchHeader


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Kafka's file name: the base offset with 20 digits."""
    return f"{directory}/{base_offset:020d}.{suffix}"


class Segment:
    """See the module. `next_offset` is the offset after the last batch. Methods raise OSError when the disk refuses."""

    __slots__ = (
        "_cache_floor", "_directory", "_fs", "_index_interval", "_lasts", "_positions", "_since_index",
        "base_offset", "data", "first_timestamp", "index", "max_timestamp", "max_timestamp_offset",
        "next_offset", "size", "time_index", "unflushed",
    )  # fmt: skip

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        tail_directory: str | None = None,
        volume: UnflushedVolume | None = None,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset
        data: File = fs.open_append(segment_path(directory, base_offset, "log"))
        self.unflushed: UnflushedFile | None = None
        if tail_directory is not None:
            prefix = f"{tail_directory}/{base_offset:020d}.log"
            data = self.unflushed = UnflushedFile(fs, data, prefix, volume or UnflushedVolume())
        self.data = data
        self.size = data.size
        index_bytes = config.segment_index_bytes
        self.index = OffsetIndex(fs, segment_path(directory, base_offset, "index"), base_offset, index_bytes)
        self.time_index = TimeIndex(fs, segment_path(directory, base_offset, "timeindex"), base_offset, index_bytes)
        self._index_interval = config.index_interval_bytes
        self._since_index = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp = FOREVER
        self.forget_positions()

    def create_index_files(self) -> None:
        """Kafka expects both index files beside each segment, even when they are empty."""
        for index in (self.index, self.time_index):
            if not self._fs.exists(index.path):
                self._fs.open_append(index.path).close()

    # -- writing

    def append(self, records: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Append one batch of `size` bytes."""
        self.data.append(records)
        self.note(size, last_offset, max_timestamp)

    def append_batches(self, records: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Append several whole batches with one write."""
        self.data.append(records)
        for header in headers:
            self.note(header[1] + LOG_OVERHEAD_BYTES, header[0] + header[6], header[8])

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Account for one batch that now lies at the end of the file."""
        position = self.size
        lasts = self._lasts
        if len(lasts) >= 2 * TAIL_CACHE_BATCHES:
            self._shrink_cache()
        lasts.append(last_offset)
        self._positions.append(position)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0 and max_timestamp >= 0:
            self.first_timestamp = max_timestamp
        if self._since_index > self._index_interval:
            self.index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self._since_index = 0
        self._since_index += size
        self.size = position + size
        self.next_offset = last_offset + 1

    def _shrink_cache(self) -> None:
        self._cache_floor = self._lasts[TAIL_CACHE_BATCHES - 1] + 1
        del self._lasts[:TAIL_CACHE_BATCHES]
        del self._positions[:TAIL_CACHE_BATCHES]

    def forget_positions(self) -> None:
        """Give the memory of the tail cache back, when the segment is no longer the tail."""
        self._lasts = array("q")
        self._positions = array("q")
        self._cache_floor = self.next_offset

    def has_room(self, size: int, last_offset: int, max_timestamp: int, segment_bytes: int, segment_ms: int) -> bool:
        """Whether a batch may still go here: size, age by record time, 32-bit relative offsets and positions, index
        space.

        `segment_bytes` is below 2 GiB (Kafka's limit), so positions fit their 32 bits.
        """
        return (
            self.size + size <= segment_bytes
            and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
            and max_timestamp - self.first_timestamp <= segment_ms
            and not self.index.full
            and not self.time_index.full
        )

    def fitting(self, headers: Sequence[BatchHeader], segment_bytes: int, segment_ms: int) -> tuple[int, int]:
        """How many of these batches still go here, and their bytes. An empty segment takes one always."""
        last = headers[-1]
        size = sum([header[1] for header in headers]) + LOG_OVERHEAD_BYTES * len(headers)
        if self.has_room(size, last.last_offset, last.max_timestamp, segment_bytes, segment_ms):
            return len(headers), size
        n = size = 0
        for header in headers:
            size_with = size + header.size
            room = self.has_room(size_with, header.last_offset, header.max_timestamp, segment_bytes, segment_ms)
            if not room and (self.size or n):
                break
            n, size = n + 1, size_with
        return n, size

    def cut_back(self) -> None:
        """After an append that failed: the file is no longer than what is whole."""
        self.data.truncate(self.size)

    def seal(self) -> None:
        """No more appends: close the time index with the largest timestamp, and write both indexes."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.index.drain()
        self.time_index.drain()

    # -- reading

    def ranges(self, position: int, length: int) -> list[FileRange]:
        """Where these bytes lie."""
        if self.unflushed is not None:
            return self.unflushed.ranges(position, length)
        return [FileRange(self.data, position, length)]

    def locate(self, offset: int) -> int:
        """Position of the first batch that ends at or after `offset`, or the size when there is none."""
        if offset >= self.next_offset:
            return self.size
        if offset >= self._cache_floor:
            n = bisect_left(self._lasts, offset)
            return self._positions[n] if n < len(self._positions) else self.size  # a gap may end the segment
        for found in self.walk(self.index.position_before(offset)):
            if found.header.last_offset >= offset:
                return found.position
        return self.size

    def slice(self, offset: int, upper_bound: int, max_bytes: int, min_one: bool) -> tuple[int, int]:
        """(position, length) of whole batches from the one that holds `offset`, all of which end below `upper_bound`.

        At most `max_bytes`, except that one batch is always returned with `min_one`.
        """
        if offset >= self._cache_floor:
            lasts, positions = self._lasts, self._positions
            first = bisect_left(lasts, offset)
            if first == len(lasts):
                return self.size, 0
            start = positions[first]
            stop = self.size
            if upper_bound < self.next_offset:
                beyond = bisect_left(lasts, upper_bound, first)
                if beyond < len(positions):
                    stop = positions[beyond]
            if stop - start <= max_bytes:
                return start, stop - start
            cut = bisect_right(positions, start + max_bytes, first) - 1
            if cut == first:
                if not min_one:
                    return start, 0
                cut += 1
                return start, (positions[cut] if cut < len(positions) else self.size) - start
            return start, positions[cut] - start
        start = self.locate(offset)
        stop = self.locate(upper_bound)
        if stop - start <= max_bytes:
            return start, max(0, stop - start)
        return start, self._cut(start, max_bytes, min_one) - start

    def _cut(self, start: int, max_bytes: int, min_one: bool) -> int:
        """The largest batch boundary within `max_bytes` of `start`."""
        end = start
        for found in self.walk(max(start, self.index.position_at_or_below(start + max_bytes))):
            after = found.position + found.header.size
            if found.position - start <= max_bytes:
                end = found.position
            if after - start > max_bytes:
                if found.position == start and min_one:
                    end = after
                break
        return end

    def walk(self, position: int = 0, read_ahead: int = WALK_BYTES) -> Iterator[BatchAt]:
        """The headers of the batches from `position` on. Raises CorruptBatch where the bytes are no batch."""
        chunk, chunk_at = b"", position
        while position + HEADER_BYTES <= self.size:
            if position + HEADER_BYTES > chunk_at + len(chunk):
                chunk, chunk_at = self.data.pread(read_ahead, position), position
                if len(chunk) < HEADER_BYTES:
                    return  # truncated by someone else meanwhile
            header = BatchHeader._make(HEADER.unpack_from(chunk, position - chunk_at))
            if header.magic != MAGIC or header.size < HEADER_BYTES:
                raise CorruptBatch(f"{self.path}: no batch at byte {position}")
            if position + header.size > self.size:
                return
            yield BatchAt(position, header)
            position += header.size

    def scan(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Whole batches from `position` on, until the first bytes that cannot be one; CRCs are the caller's
        business."""
        chunk, chunk_at = memoryview(b""), position
        end = self.data.size
        while position + HEADER_BYTES <= end:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk, chunk_at, at = memoryview(self.data.pread(SCAN_BYTES, position)), position, 0
            header = BatchHeader._make(HEADER.unpack_from(chunk, at))
            size = header.size
            if header.magic != MAGIC or size < HEADER_BYTES or position + size > end:
                return
            if at + size > len(chunk):
                chunk, chunk_at, at = memoryview(self.data.pread(max(SCAN_BYTES, size), position)), position, 0
            yield position, header, chunk[at : at + size]
            position += size

    def read_batch(self, found: BatchAt) -> bytes:
        """The bytes of a batch that `walk` found."""
        return self.data.pread(found.header.size, found.position)

    @property
    def largest_timestamp_ms(self) -> int:
        """Of its records, or when it was last written where they have none (`LogSegment.largestTimestamp`)."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._fs.modified_ms(self.path)

    @property
    def path(self) -> str:
        return segment_path(self._directory, self.base_offset, "log")

    # -- opening, cutting, deleting

    def load(self) -> None:
        """Find the end of a segment that was closed cleanly: from the last index entry on.

        Raises CorruptIndex (recover the segment instead), CorruptBatch.
        """
        self.index.sanity_check(self.size)
        last = len(self.index) - 1
        start = self.index.entry(last)[1] if last >= 0 else 0
        end = start
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        for found in self.walk(start):
            header = found.header
            if (
                not self.base_offset
                <= header.base_offset
                <= header.last_offset
                <= self.base_offset + RELATIVE_OFFSET_MAX
            ):
                raise CorruptBatch(f"{self.path}: offset {header.base_offset} at byte {found.position} is not of it")
            self.next_offset = header.next_offset
            end = found.position + header.size
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        if end != self.size:
            raise CorruptBatch(f"{self.path}: {self.size - end} bytes after byte {end} are no batch")
        self.time_index.sanity_check(self.next_offset)
        self._since_index = end - start
        self._cache_floor = self.next_offset
        for found in self.walk(0):
            if found.header.max_timestamp >= 0:
                self.first_timestamp = found.header.max_timestamp
            break

    def reset(self) -> None:
        """Empty both indexes and all that is known of the contents; `note` each batch again."""
        self.index.clear()
        self.time_index.clear()
        self._since_index = 0
        self.size = 0
        self.next_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset, self.first_timestamp = -1, self.base_offset, FOREVER
        self.forget_positions()

    def truncate(self, position: int, next_offset: int) -> None:
        """Cut at a batch boundary, durably. Raises FsyncFailed, and other OSErrors."""
        self.data.truncate(position)
        try:
            self.data.fsync()
        except OSError as error:
            raise FsyncFailed(*error.args) from error
        self.size = position
        self.next_offset = next_offset
        self.index.truncate_to(next_offset)
        self.time_index.truncate_to(next_offset)
        keep = bisect_left(self._positions, position)
        del self._positions[keep:], self._lasts[keep:]
        self._cache_floor = min(self._cache_floor, next_offset)
        last = len(self.index) - 1
        start = self.index.entry(last)[1] if last >= 0 else 0
        self._since_index = position - start
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        for found in self.walk(start):
            if found.header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = found.header.max_timestamp, found.header.last_offset

    def remove(self) -> None:
        """Delete the files. Readers that hold a range of them keep their data."""
        for index in (self.index, self.time_index):
            index.close()
            self._fs.remove(index.path)
        if self.unflushed is not None:
            self.unflushed.remove(self.path)
        else:
            self._fs.remove(self.path)

    def close(self) -> None:
        self.index.close()
        self.time_index.close()
        self.data.close()
