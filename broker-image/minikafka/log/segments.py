"""The segments of a log in order: which one holds an offset, where the next begins, what is cut off at either end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from minikafka.log.config import LogConfig
from minikafka.log.errors import CorruptBatch
from minikafka.log.filesystem import File, FileSystem
from minikafka.log.segment import Segment, segment_path
from minikafka.log.unflushed_volume import UnflushedVolume
from minikafka.protocol.records import RecordBatch


class Boundary(NamedTuple):
    """A place between two batches: in which segment, at which byte of it, and the offset where a log ends that is cut there."""

    segment: Segment
    position: int
    offset: int


class SegmentList(Sequence[Segment]):
    """Oldest first. The last one is `active`: the only one that is written to.

    Empty only until a log is opened, and while it begins anew. `tail_directory` is the one on the unflushed volume, if there is
    one, and `volume` counts what is there. Methods raise OSError when the disk refuses.
    """

    __slots__ = ("_config", "_directory", "_fs", "_new_files", "_segments", "active", "tail_directory", "volume")

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        tail_directory: str | None = None,
        volume: UnflushedVolume | None = None,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._config = config
        self._segments: list[Segment] = []
        self.active: Segment
        self._new_files = False
        self.tail_directory = tail_directory
        self.volume = volume

    def configure(self, config: LogConfig) -> None:
        """Settings of segments that are made from now on."""
        self._config = config

    # -- looking

    def __str__(self) -> str:
        """The partition: its directory is named after it."""
        return self._directory.rpartition("/")[2]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, n: int) -> Segment: ...
    @overload
    def __getitem__(self, n: slice) -> list[Segment]: ...
    def __getitem__(self, n: int | slice) -> Segment | list[Segment]:
        return self._segments[n]

    @property
    def size_bytes(self) -> int:
        """Bytes of records, of all segments."""
        return sum([segment.size for segment in self._segments])

    def held(self, offset: int) -> int:
        """What the segments from the one that holds `offset` on count for on the unflushed volume."""
        return sum([segment.unflushed.held for segment in self.since(offset) if segment.unflushed is not None])

    def number(self, offset: int) -> int:
        """Which segment holds `offset`."""
        return max(0, bisect_right(self._segments, offset, key=_base_offset) - 1)

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one that holds `offset` on."""
        return self._segments[self.number(offset) :]

    def batches(self, offset: int, upper_bound: int) -> Iterator[RecordBatch]:
        """The batches from the one that holds `offset` on, up to those that end below `upper_bound`, one read after the other.

        Raises CorruptBatch where a segment goes on with something else.
        """
        for segment in self.since(offset):
            size = segment.size  # of now: others may append between two batches
            end = segment.locate(offset)
            for position, header, data in segment.scan(end):
                if header.last_offset >= upper_bound:
                    return
                yield RecordBatch(header, position, data)
                end = position + header.size
            if end < size:
                raise CorruptBatch(f"{segment.path}: no batch at byte {end}")

    def boundary(self, offset: int) -> Boundary:
        """Where to cut so that nothing at or above `offset` is left. Inside a batch: before the whole batch."""
        segment = self._segments[self.number(offset)]
        position = segment.locate(offset)
        for found in segment.walk(position):
            return Boundary(segment, position, min(offset, found.header.base_offset))
        return Boundary(segment, position, offset)

    def reads_from(self, file: File) -> bool:
        """Whether this file is one of theirs, as a range names it."""
        return any(part.file is file for segment in self._segments for part in segment.ranges(0, segment.size))

    # -- growing

    def open(self, base_offsets: Iterable[int]) -> None:
        """Take the segments that lie in the directory, as they are: what is in them, recovery has to find out."""
        self._segments = [self._at(base) for base in base_offsets]
        if self._segments:
            self.active = self._segments[-1]

    def add(self, base_offset: int) -> Segment:
        """A new, empty segment at the end."""
        segment = self._at(base_offset)
        segment.create_index_files()
        self._new_files = True
        if len(self._segments) > 1:
            self._segments[-2].forget_positions()
        self._segments.append(segment)
        self.active = segment
        return segment

    def discard(self, base_offset: int) -> None:
        """Remove what there is of a segment that could not be added."""
        self._new_files = True
        for suffix in ("log", "index", "timeindex"):
            self._fs.remove(segment_path(self._directory, base_offset, suffix))

    def _at(self, base_offset: int) -> Segment:
        return Segment(self._fs, self._directory, base_offset, self._config, self.tail_directory, self.volume)

    def take_new_files(self) -> bool:
        """Whether the directory has to be fsynced, for somebody who will do it."""
        taken, self._new_files = self._new_files, False
        return taken

    def mark_new_files(self) -> None:
        """The directory has to be fsynced (again)."""
        self._new_files = True

    # -- shrinking

    def cut(self, boundary: Boundary) -> None:
        """Remove what lies behind a boundary, newest segment first: what is left is always a prefix. Durable but for names."""
        while self._segments[-1] is not boundary.segment:
            self.remove_last()
        boundary.segment.truncate(boundary.position, boundary.offset)

    def remove_last(self) -> Segment:
        """Delete the newest segment; the one before it is then the active one."""
        last = self._segments[-1]
        last.remove()
        self._segments.pop()
        if self._segments:
            self.active = self._segments[-1]
        return last

    def remove_first(self, count: int) -> None:
        """Delete the oldest segments, oldest first."""
        for _ in range(count):
            self._segments[0].remove()
            del self._segments[0]

    def close(self) -> None:
        """Close the files without flushing."""
        for segment in self._segments:
            segment.close()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
