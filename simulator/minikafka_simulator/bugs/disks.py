"""Bugs in what a broker does when its disk refuses, and in what it deletes."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug

OFFLINE_LOGS = "replication/offline_logs.py"

DISKS = (
    Bug("ignore-failed-fsync", "a broker goes on after a failed fsync", "fsyncgate", OFFLINE_LOGS,
        '            self._shell.end(f"{failure}; what it held unflushed cannot be trusted")\n            return\n',
        "            return\n"),
    Bug("keep-role-offline", "a replica whose log is offline keeps its role", "KIP-112", OFFLINE_LOGS,
        "        self._shell.resign(topic_partition, failure)\n", ""),
    Bug("keep-closed-log", "a log is opened anew, and its replica goes on with the closed one", "KIP-112", OFFLINE_LOGS,
        "        partition.log = log\n        partition.set_high_watermark(partition.high_watermark)\n", ""),
    Bug("stay-offline", "a log is opened anew, and nobody has its replica follow again", "KIP-112", OFFLINE_LOGS,
        "        self._shell.settle(back)\n", ""),
    Bug("retain-to-log-end", "retention deletes what is not committed", "Kafka's UnifiedLog.deleteOldSegments",
        "replication/retention.py",
        "        log.delete_old_segments(now_ms, partition.high_watermark)\n",
        "        log.delete_old_segments(now_ms, log.log_end_offset)\n"),
    Bug("forget-unflushed-limit", "a broker does not know how much its unflushed volume takes", "MiniKafka",
        "log/manager.py",
        "                    self.unflushed_volume.limit = min(self.unflushed_volume.limit, there_is)\n",
        "                    self.unflushed_volume.limit = max(self.unflushed_volume.limit, there_is)\n"),
    Bug("ready-while-offline", "a broker with offline logs asks to be unfenced", "KIP-112", "membership/lifecycle.py",
        "        elif self.want_fence and not has_offline_logs:\n", "        elif self.want_fence:\n"),
)  # fmt: skip
