"""Simulator bugs in what a broker makes durable, and when: `make crashes ARGS='--bug NAME'` looks for a prefix that shows one."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug, SourcePatch
from minikafka_simulator.bugs.writing import OFFSETS_BY_NAME

FILESYSTEM, MANAGER, RECOVERY, LOG = "log/filesystem.py", "log/manager.py", "log/recovery.py", "log/log.py"
SEGMENT, FLUSHING, RETENTION = "log/segment.py", "log/flushing.py", "log/retention.py"

CRASHES = (
    Bug("rename-unsynced-file", "a file is renamed over another before its bytes are fsynced", "R11", FILESYSTEM,
        "            if durable:\n                file.fsync()\n", ""),
    Bug("rename-unsynced-folder", "a file that was replaced may be the old one after a power loss", "R11", FILESYSTEM,
        "        if durable:\n            self.fsync_dir(self.system.path.dirname(path))\n", ""),
    Bug("folder-unsynced-parent", "a folder that was made is not durable in the one above it", "R17", FILESYSTEM,
        "        self.fsync_dir(parent)\n", ""),
    Bug("deletion-unsynced", "a deleted partition comes back", "KIP-516", FILESYSTEM,
        "        self.fsync_dir(self.system.path.dirname(new))\n", ""),
    Bug("segment-unsynced-folder", "a flush leaves out the names of new segments", "R17", FLUSHING,
        "            steps.append(partial(self._fs.fsync_dir, self._directory))\n", "            pass\n"),
    Bug("checkpoint-before-flush", "the recovery point is the log end, flushed or not", "R11, R17", MANAGER,
        "d.recovery_points, lambda log: log.recovery_point)", "d.recovery_points, lambda log: log.log_end_offset)"),
    Bug("marker-before-flush", "the clean shutdown marker is written before the logs are closed", "R11, KIP-966", MANAGER,
        "        problem: LogError | None = None\n        for log in self.logs.values():\n",
        "        problem: LogError | None = None\n"
        "        for directory in self._directories if clean else ():\n"
        "            directory.write_clean_marker(broker_epoch)\n"
        "        for log in self.logs.values():\n"),
    Bug("marker-stays", "the clean shutdown marker's removal is not durable", "KAFKA-10471", "log/data_directory.py",
        "            self.fs.remove(marker)\n            self.fs.fsync_dir(self.path)\n",
        "            self.fs.remove(marker)\n"),
    Bug("trust-index", "the indexes of a segment that ends at the recovery point are believed, fsynced or not", "R17", FLUSHING,
        "                if segment.index.path in waiting:\n", "                if False:\n",
        also=(SourcePatch(RECOVERY, "s.base_offset < self.recovery_point]", "s.base_offset <= self.recovery_point]"),)),
    Bug("trust-sealed", "recovery reads the last segment only", "R17", RECOVERY,
        "            first_unsafe = max([n for n, s in enumerate(segments) if s.base_offset < self.recovery_point], default=0)\n",
        "            first_unsafe = len(segments) - 1\n"),
    Bug("truncation-unsynced", "a truncation is not fsynced", "R17", SEGMENT,
        "            self.data.fsync()\n", "            pass\n"),
    Bug("recovery-point-stays", "a truncation leaves a recovery point above the end", "R11", MANAGER,
        "            _run([self._prepare(directory, points, point)], log)\n", "            pass\n"),
    Bug("start-unsynced", "a log start that moved is not written down", "R11", MANAGER,
        "            _run([self._prepare_log_starts(directory)], log)\n", "            pass\n"),
    Bug("restart-unnoted", "a log begins anew without a note of where", "R13", "log/truncation.py",
        '        self._fs.write_atomic(f"{self._directory}/{RESTART}", f"{offset}\\n".encode())\n', ""),
    OFFSETS_BY_NAME,
    Bug("commit-unsynced", "a commit of the cluster store is acknowledged before its fsync (--store)", "KIP-631",
        "metadata/database.py", '        synchronous = "FULL" if durable else "NORMAL"\n', '        synchronous = "NORMAL"\n'),
    Bug("epochs-before-indexes", "rebuilt epochs are on the disk before the indexes that are rebuilt with them", "R17",
        RECOVERY,
        "        self.epochs.truncate_from_start(log.log_start_offset)\n",
        "        self.epochs.truncate_from_start(log.log_start_offset)\n        self.epochs.release()\n"),
    Bug("tails-before-data", "a deleted segment's tails go before its data file", "MiniKafka", "log/unflushed.py",
        "        self._fs.remove(data_path)\n        while self._tails:\n",
        "        while self._tails:\n"
        "            self._fs.remove(self._tails.pop().path)\n"
        "        self._fs.remove(data_path)\n        while self._tails:\n"),
    Bug("tail-unsynced", "a truncation of a tail is not fsynced", "MiniKafka", "log/unflushed.py",
        "            self._tails[-1].file.fsync()\n", "            pass\n"),
    Bug("retention-before-names", "retention removes the only segment whose name is durable", "R17", RETENTION,
        "        if self._segments.take_new_files():\n", "        if False:\n"),
    Bug("retention-leaves-hole", "retention removes several segments, and nothing tells which", "R17", LOG,
        "        if gone > 1:  # a power", "        if False:  # a power"),
    Bug("pass-over-producers", "producers' batches between a snapshot and the log start are passed over", "KIP-98",
        "log/producer_state.py",
        "        self._replay(segments, start)\n", "        self._replay(segments, max(start, log_start_offset))\n"),
    Bug("start-above-end", "a truncation below the log start leaves that start in its checkpoint", "R11", LOG,
        "                if is_below_start and self._checkpoints is not None:\n", "                if False:\n"),
)  # fmt: skip
