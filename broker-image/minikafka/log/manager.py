"""All logs of one broker: opening and recovering them, creating and deleting them, and their checkpoints.

Single-threaded like `Log`, except that what the `prepare_*` methods return may run on any thread: it only writes files.
"""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from minikafka.log.availability import SCARCE
from minikafka.log.checkpoints import (
    PARTITION_METADATA,
    MetaProperties,
    format_partition_metadata,
    parse_partition_metadata,
)
from minikafka.log.config import LogConfig
from minikafka.log.data_directory import DELETED_SUFFIX, DataDirectory, OffsetCheckpoint, read_owner
from minikafka.log.errors import DataDirRefused, InconsistentTopicId, LogDirFailure, LogError, MalformedCheckpoint
from minikafka.log.filesystem import FileSystem
from minikafka.log.log import Log
from minikafka.log.truncation import interrupted_restart
from minikafka.log.unflushed import is_tail_directory
from minikafka.log.unflushed_volume import UnflushedVolume, usable_bytes
from minikafka.protocol.types import TopicPartition

NAME_BYTES_MAX = 255
"""Linux's NAME_MAX. The longest name of a topic, 249, leaves room for "-" and a partition of five digits."""

ConfigFor = Callable[[str], LogConfig]
"""The settings of a topic's logs, by topic name."""


class LogManager:
    """See the module. Made by `LogManager.open`.

    `high_watermarks` are those of the checkpoint: what a replica starts from. `clean`: the broker was stopped cleanly, and
    everything is there that it had flushed then. `previous_broker_epoch` comes from the clean shutdown marker, -1 when the
    start is not a clean one; it is what KIP-966 wants at registration.
    """

    def __init__(self, fs: FileSystem, directories: list[DataDirectory], config_for: ConfigFor) -> None:
        self._fs = fs
        self._directories = directories
        self._config_for = config_for
        self._home: dict[TopicPartition, DataDirectory] = {}
        self._logs_in: Counter[str] = Counter()
        """How many have their home in each directory, by its path."""
        self._doomed: dict[str, int] = {}
        self._being_opened: set[TopicPartition] = set()
        self._unflushed_dir: str | None = None
        self._left_behind: dict[TopicPartition, int] = {}
        """What counts of deleted logs whose tails could not be removed."""
        self.unflushed_volume: UnflushedVolume | None = None
        self.logs: dict[TopicPartition, Log] = {}
        self._of_topics: dict[str, set[int]] = {}
        self.topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.clean = all(directory.clean for directory in directories)
        self.previous_broker_epoch = -1

    @classmethod
    def open(
        cls,
        log_dirs: Sequence[str],
        fs: FileSystem,
        *,
        cluster_id: str,
        node_id: int,
        config_for: ConfigFor,
        now_ms: int,
        unflushed_dir: str | None = None,
        unflushed_max_bytes: int = sys.maxsize,
    ) -> LogManager:
        """Open every log in the data directories, recovering those that were not closed cleanly.

        `unflushed_dir` is the root of the unflushed volume (`minikafka.unflushed.dir`), on which there may be
        `unflushed_max_bytes`, or what its file system has room for. Raises DataDirRefused (one
        clear line, nothing was changed) for a directory of another cluster or node, with foreign files, or locked by
        a live process; LogDirFailure.
        """
        directories: list[DataDirectory] = []
        try:
            for path in log_dirs:
                directories.append(DataDirectory.open(fs, path.rstrip("/"), MetaProperties(cluster_id, node_id)))
            manager = cls(fs, directories, config_for)
            if unflushed_dir:
                manager.unflushed_volume = UnflushedVolume(unflushed_max_bytes)
            manager._load(unflushed_dir, now_ms)
        except BaseException:
            for directory in directories:
                directory.unlock()
            raise
        return manager

    @staticmethod
    def cluster_id_on_disk(log_dirs: Sequence[str], fs: FileSystem) -> str | None:
        """The cluster these directories belong to, or None when they are new. Raises DataDirRefused."""
        owners = [owner for path in log_dirs if (owner := read_owner(fs, path.rstrip("/"))) is not None]
        return owners[0].cluster_id if owners else None

    def _load(self, unflushed_dir: str | None, now_ms: int) -> None:
        self._unflushed_dir = unflushed_dir.rstrip("/") if unflushed_dir else None
        try:
            if self._unflushed_dir is not None:
                self._fs.makedirs(self._unflushed_dir)
                if self.unflushed_volume is not None:
                    there_is = usable_bytes(self._fs.disk_size(self._unflushed_dir))
                    self.unflushed_volume.limit = min(self.unflushed_volume.limit, there_is)
            for directory in self._directories:
                directory.take_clean_marker()
                directory.remove_deleted()
                for topic_partition in directory.partitions():
                    self._open(directory, topic_partition, now_ms, directory.clean)
                self.high_watermarks.update(directory.high_watermarks.offsets)
            self._remove_strange_tails()
            self.clean = all(d.clean and not self._lacks(d) for d in self._directories)
            if self.clean:
                self.previous_broker_epoch = min(directory.previous_broker_epoch for directory in self._directories)
        except OSError as error:
            raise LogDirFailure(f"cannot load the logs: {error}", permanent=False) from error

    def _remove_strange_tails(self) -> None:
        """Those of logs whose data volume is gone: nobody reads them, and no flush would make room of them."""
        root = self._unflushed_dir
        if root is None:
            return
        known = {str(topic_partition) for topic_partition in self.logs}
        for name in self._fs.listdir(root):
            if name not in known and is_tail_directory(self._fs, f"{root}/{name}"):
                self._fs.rmtree(f"{root}/{name}")

    def _lacks(self, directory: DataDirectory) -> bool:
        """Whether something that was flushed is not there. Then no marker makes it a clean stop: who trusted it would let
        this broker lead with less than it acknowledged (KIP-966)."""
        found = {tp for tp, log in self.logs.items() if self._home[tp] is directory and not log.recovery.lost}
        return not found.issuperset(tp for tp, flushed in directory.recovery_points.offsets.items() if flushed > 0)

    def _open(self, directory: DataDirectory, topic_partition: TopicPartition, now_ms: int, clean: bool) -> Log:
        if topic_partition in self._home:
            other = self._home[topic_partition].path
            raise DataDirRefused(f"{topic_partition} is in both {other} and {directory.path}; remove the older one")
        metadata = f"{directory.path}/{topic_partition}/{PARTITION_METADATA}"
        if self._fs.exists(metadata):
            try:
                self.topic_ids[topic_partition] = parse_partition_metadata(self._fs.read_bytes(metadata), metadata)
            except MalformedCheckpoint as error:
                raise DataDirRefused(str(error)) from error
        self._forget_start_of_restart(directory, topic_partition)
        points = directory.recovery_points.offsets
        log = self._opened(directory, topic_partition, now_ms, clean, points.get(topic_partition, 0))
        self._home[topic_partition] = directory
        self._logs_in[directory.path] += 1
        self.logs[topic_partition] = log
        self._of_topics.setdefault(topic_partition.topic, set()).add(topic_partition.partition)
        return log

    def of_topic(self, name: str) -> Collection[int]:
        """The partitions of a topic that have a log here."""
        return self._of_topics.get(name, ())

    def _opened(
        self, directory: DataDirectory, topic_partition: TopicPartition, now_ms: int, clean: bool, recovery_point: int
    ) -> Log:
        return Log.open(
            f"{directory.path}/{topic_partition}",
            topic_partition,
            self._config_for(topic_partition.topic),
            self._fs,
            clean=clean,
            recovery_point=recovery_point,
            now_ms=now_ms,
            checkpoints=self,
            unflushed_dir=self._unflushed_dir,
            volume=self.unflushed_volume,
            log_start_offset=directory.log_starts.offsets.get(topic_partition, 0),
        )

    def _forget_start_of_restart(self, directory: DataDirectory, topic_partition: TopicPartition) -> None:
        """A log that is to begin anew begins where it was told, not where the checkpoint says that it did before. On disk before
        the restart is finished: after that nothing would tell."""
        starts = directory.log_starts.offsets
        if topic_partition not in starts:
            return
        try:
            restart = interrupted_restart(self._fs, f"{directory.path}/{topic_partition}")
        except OSError as error:
            raise LogDirFailure(f"{topic_partition}: cannot be opened: {error}", permanent=False) from error
        if restart is not None:
            _run([directory.log_starts.prepare({tp: start for tp, start in starts.items() if tp != topic_partition})])

    def prepare_reopen(self, topic_partition: TopicPartition, now_ms: int) -> Callable[[], Log]:
        """The opening anew of a log that is offline from what is on the disk, as after a crash of the process; to be run on
        any thread, and followed by `replace`. Until then the log cannot be deleted.

        What was written and not flushed is still there, unless `fsync` has failed: the kernel may then have dropped it, and
        would not say so again. Both steps raise LogDirFailure: the log stays offline, and it may be tried again; with
        `permanent`, only a restart of the broker, as one that has lost records, is safe.
        """
        old, directory = self.logs[topic_partition], self._home[topic_partition]
        if old.failure is None:
            raise ValueError(f"{topic_partition} is not offline")
        old.settle_flush()
        if old.failure.permanent:
            old.check_online()
        self._forget_start_of_restart(directory, topic_partition)
        point = min(directory.recovery_points.offsets.get(topic_partition, 0), old.flushed_offset)
        old.release()
        self._being_opened.add(topic_partition)

        def opened() -> Log:
            try:
                log = self._opened(directory, topic_partition, now_ms, False, point)
                log.configure(old.config)
                if log.recovery.lost:
                    log.release()
                    problem = f"{topic_partition}: ends at {log.log_end_offset}, and was flushed up to {point}"
                    raise LogDirFailure(problem, permanent=True, topic_partition=topic_partition)
            except BaseException:
                self._being_opened.discard(topic_partition)
                raise
            return log

        return opened

    def replace(self, topic_partition: TopicPartition, log: Log) -> None:
        """Use a log that was opened anew."""
        self._being_opened.discard(topic_partition)
        if self.unflushed_volume is not None:
            self.unflushed_volume.shrank(self.logs[topic_partition].unflushed_bytes)  # it is in the data file by now
        self.logs[topic_partition] = log

    def reopen(self, topic_partition: TopicPartition, *, now_ms: int) -> Log:
        """Both steps at once, for tests. Raises LogDirFailure."""
        log = self.prepare_reopen(topic_partition, now_ms)()
        self.replace(topic_partition, log)
        return log

    # -- partitions come and go

    def create(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, config: LogConfig | None = None, *, now_ms: int = 0
    ) -> Log:
        """The log of a partition, made in the directory with the fewest logs when it is not there yet.

        Raises InconsistentTopicId when the log on disk is of another topic with this name: delete that first.
        LogDirFailure.
        """
        existing = self.logs.get(topic_partition)
        if existing is not None:
            known = self.topic_ids.get(topic_partition)
            if known is not None and known != topic_id:
                raise InconsistentTopicId(f"{topic_partition} on disk is of topic id {known}, not {topic_id}")
            if (
                known is None
            ):  # the process died while it made the folder: a later topic of this name must know it from its own
                self._write_topic_id(topic_partition, existing.directory, topic_id)
            return existing
        directory = min(self._directories, key=lambda d: self._logs_in[d.path])
        path = f"{directory.path}/{topic_partition}"
        # Before there is a folder: entries are by name, and a crash in between would give an earlier topic's to this one.
        self._forget_offsets(topic_partition)
        try:
            self._remove_tails(topic_partition)  # of a log whose data volume is gone
            self._fs.makedirs(path)
        except OSError as error:
            raise _not_created(topic_partition, error) from error
        self._write_topic_id(topic_partition, path, topic_id)
        log = self._open(directory, topic_partition, now_ms, clean=True)
        if config is not None:
            log.configure(config)
        return log

    def _write_topic_id(self, topic_partition: TopicPartition, path: str, topic_id: uuid.UUID) -> None:
        try:
            self._fs.write_atomic(f"{path}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
        except OSError as error:
            raise _not_created(topic_partition, error) from error
        self.topic_ids[topic_partition] = topic_id

    def delete(self, topic_partition: TopicPartition, *, now_ms: int = 0) -> None:
        """Delete a partition: out of sight at once, its bytes after `file.delete.delay.ms` (`prepare_purge`).

        Readers that hold file ranges keep them. Nothing happens when it is not here. Raises LogDirFailure; then it is still
        here, unless only its unflushed files could not be removed, which `create` does before the name is used again.
        """
        log = self.logs.get(topic_partition)
        if log is None:
            return
        if topic_partition in self._being_opened:  # it would make the folder again, or read a later topic's
            raise LogDirFailure(f"{topic_partition}: cannot be deleted while it is opened anew", permanent=False)
        directory = self._home[topic_partition]
        doomed = f"{directory.path}/{_doomed_name(topic_partition)}"
        try:
            log.settle_flush()
        except LogDirFailure:
            pass  # it is being deleted
        try:
            self._fs.rename(log.directory, doomed)
        except OSError as error:
            raise LogDirFailure(f"{topic_partition}: cannot be deleted: {error}", permanent=False) from error
        del self.logs[topic_partition], self._home[topic_partition]
        partitions = self._of_topics[topic_partition.topic]
        partitions.remove(topic_partition.partition)
        if not partitions:
            del self._of_topics[topic_partition.topic]
        self._logs_in[directory.path] -= 1
        self.topic_ids.pop(topic_partition, None)
        self._left_behind[topic_partition] = log.unflushed_bytes
        log.release()
        # The checkpoints on disk forget it with their next write, and `create` sees to it before the name is used again:
        # three files, each fsynced, for each partition of a topic would hold up all others.
        self.high_watermarks.pop(topic_partition, None)
        self._doomed[doomed] = now_ms + log.config.file_delete_delay_ms
        try:
            self._remove_tails(topic_partition)
        except OSError as error:
            raise LogDirFailure(
                f"{log.segments.tail_directory}: cannot be removed: {error}", permanent=False
            ) from error

    def _remove_tails(self, topic_partition: TopicPartition) -> None:
        if self._unflushed_dir is not None:
            self._fs.rmtree(f"{self._unflushed_dir}/{topic_partition}")
        held = self._left_behind.pop(topic_partition, 0)
        if self.unflushed_volume is not None:
            self.unflushed_volume.shrank(held)

    def _forget_offsets(self, topic_partition: TopicPartition) -> None:
        """Durably: a later topic of the same name must not start from these, for recovery would trust what was never flushed."""
        self.high_watermarks.pop(topic_partition, None)
        for directory in self._directories:
            for checkpoint in (directory.recovery_points, directory.log_starts, directory.high_watermarks):
                if topic_partition in checkpoint.offsets or not checkpoint.is_on_disk:
                    kept = {tp: offset for tp, offset in checkpoint.offsets.items() if tp != topic_partition}
                    _run([checkpoint.prepare(kept)])

    def prepare_purge(self, now_ms: int) -> list[Callable[[], None]]:
        """Removals of partitions deleted long enough ago, to be run on any thread: gigabytes take a file system seconds.

        Each raises LogDirFailure, and is among them again the next time then.
        """

        def removal(path: str) -> Callable[[], None]:
            def remove() -> None:
                try:
                    self._fs.rmtree(path)
                except OSError as error:
                    raise LogDirFailure(f"{path}: cannot be removed: {error}", permanent=False) from error
                self._doomed.pop(path, None)

            return remove

        return [removal(path) for path, when in self._doomed.items() if when <= now_ms]

    # -- checkpoints

    def prepare_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> list[Callable[[], None]]:
        """Writes of `replication-offset-checkpoint` (R11), to be run on any thread.

        Logs that are not in the mapping keep what was checkpointed last: a partition without a leader must not lose
        its high watermark (KAFKA-1647).
        """
        self.high_watermarks.update((tp, hw) for tp, hw in high_watermarks.items() if tp in self.logs)
        return [
            d.high_watermarks.prepare({tp: hw for tp, hw in self.high_watermarks.items() if self._home.get(tp) is d})
            for d in self._directories
        ]

    def prepare_recovery_points(self) -> list[Callable[[], None]]:
        """Writes of `recovery-point-offset-checkpoint` (R11), to be run on any thread."""
        return [self._prepare(d, d.recovery_points, lambda log: log.recovery_point) for d in self._directories]

    def prepare_log_start_offsets(self) -> list[Callable[[], None]]:
        """Writes of `log-start-offset-checkpoint`, to be run on any thread. Starts that segment names tell are left
        out."""
        return [self._prepare_log_starts(d) for d in self._directories]

    def _prepare_log_starts(self, directory: DataDirectory) -> Callable[[], None]:
        noted = directory.log_starts.offsets

        def start(log: Log) -> int:
            """Of a log that is offline, memory and disk may differ; it may not have a segment."""
            return _hidden_start(log) if log.failure is None else noted.get(log.topic_partition, 0)

        return self._prepare(directory, directory.log_starts, start)

    def _prepare(
        self, directory: DataDirectory, checkpoint: OffsetCheckpoint, offset: Callable[[Log], int]
    ) -> Callable[[], None]:
        values = {tp: offset(log) for tp, log in self.logs.items() if self._home[tp] is directory}
        return checkpoint.prepare({tp: value for tp, value in values.items() if value > 0})

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write them now. Raises LogDirFailure."""
        _run(self.prepare_high_watermarks(high_watermarks))

    def checkpoint_recovery_points(self) -> None:
        """Write them now. Raises LogDirFailure."""
        _run(self.prepare_recovery_points())

    def checkpoint_log_start_offsets(self) -> None:
        """Write them now. Raises LogDirFailure."""
        _run(self.prepare_log_start_offsets())

    def lower_recovery_point(self, log: Log, offset: int) -> None:
        directory = self._home[log.topic_partition]
        points = directory.recovery_points
        if points.offsets.get(log.topic_partition, 0) > offset or not points.is_on_disk:

            def point(each: Log) -> int:
                return min(each.recovery_point, offset) if each is log else each.recovery_point

            _run([self._prepare(directory, points, point)], log)

    def log_start_moved(self, log: Log) -> None:
        directory = self._home.get(log.topic_partition)
        if directory is None:
            return
        starts = directory.log_starts
        if starts.offsets.get(log.topic_partition, 0) != _hidden_start(log) or not starts.is_on_disk:
            _run([self._prepare_log_starts(directory)], log)

    # -- the end

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Flush and close every log; when all went well, leave the marker that spares recovery.

        With `clean=False` files are only released, as if the process had died. Raises LogDirFailure after everything
        is closed: the marker is then missing, and the next start recovers.
        """
        problem: LogError | None = None
        for log in self.logs.values():
            try:
                if clean and log.failure is None:
                    log.close()
                else:
                    log.release()
                    problem = problem or (log.failure if clean else None)
            except LogError as error:
                problem = problem or error
        try:
            if clean:
                self.checkpoint_recovery_points()
                self.checkpoint_log_start_offsets()
                if problem is None:
                    for directory in self._directories:
                        directory.write_clean_marker(broker_epoch)
        except OSError as error:
            raise LogDirFailure(f"cannot write the clean shutdown marker: {error}", permanent=False) from error
        finally:
            for directory in self._directories:
                directory.unlock()
        if problem is not None:
            raise problem


def _not_created(topic_partition: TopicPartition, error: OSError) -> LogDirFailure:
    failure = LogDirFailure(f"{topic_partition}: cannot be created: {error}", permanent=False)
    failure.is_of_disk = error.errno not in SCARCE
    return failure


def _doomed_name(topic_partition: TopicPartition) -> str:
    """The folder's name while it is being deleted: as long as a file's name may be, which costs the end of a long topic name.

    As Kafka's ``LocalLog.logDirNameWithSuffixCappedLength`` (KAFKA-4893).
    """
    suffix = f"-{topic_partition.partition}.{uuid.uuid4().hex}{DELETED_SUFFIX}"
    return topic_partition.topic[: NAME_BYTES_MAX - len(suffix)] + suffix


def _hidden_start(log: Log) -> int:
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else 0


def _run(writes: Sequence[Callable[[], None]], log: Log | None = None) -> None:
    try:
        for write in writes:
            write()
    except OSError as error:
        if log is not None:
            raise log.refused("cannot write a checkpoint", error) from error
        raise LogDirFailure(f"cannot write a checkpoint: {error}", permanent=False) from error
