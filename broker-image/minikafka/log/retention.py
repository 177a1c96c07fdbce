"""What goes at the old end of a log: retention by time, by size, and by the log start offset."""

from __future__ import annotations

from minikafka.log.config import LogConfig
from minikafka.log.filesystem import FileSystem
from minikafka.log.producer_state import ProducerStateManager
from minikafka.log.segment import Segment
from minikafka.log.segments import SegmentList


class Retention:
    """Says which of a log's oldest segments go, and deletes them. Methods raise OSError."""

    __slots__ = ("_config", "_directory", "_fs", "_producers", "_segments")

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        segments: SegmentList,
        producers: ProducerStateManager,
        config: LogConfig,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._segments = segments
        self._producers = producers
        self._config = config

    def configure(self, config: LogConfig) -> None:
        """Apply changed retention.ms, retention.bytes and cleanup.policy."""
        self._config = config

    def deletable(self, now_ms: int, high_watermark: int, log_start_offset: int) -> int:
        """How many of the oldest segments go. Never one that holds something at or above the high watermark."""
        config, segments = self._config, self._segments
        excess = segments.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else -1
        for n, segment in enumerate(segments):
            end = segment.next_offset if segment is segments.active else segments[n + 1].base_offset
            if end > high_watermark or not segment.size:
                return n
            excess -= segment.size
            below_start = end <= log_start_offset and segment is not segments.active
            too_much = config.delete and excess >= 0
            if not (below_start or too_much or (config.delete and self._is_too_old(segment, now_ms))):
                return n
        return len(segments)

    def _is_too_old(self, segment: Segment, now_ms: int) -> bool:
        return 0 <= self._config.retention_ms < now_ms - segment.largest_timestamp_ms

    def delete(self, count: int) -> None:
        """Delete so many of the oldest segments, durably; one at least is left. A failure leaves some of them."""
        # Else a power loss might take what is left, and the log begin elsewhere.
        if self._segments.take_new_files():
            self._fs.fsync_dir(self._directory)
        self._segments.remove_first(count)
        self._producers.remove_snapshots(below=self._segments[0].base_offset)
        self._fs.fsync_dir(self._directory)  # some of them coming back after a power loss would leave a hole
