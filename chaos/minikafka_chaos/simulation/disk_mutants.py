"""Bug seeds in what a broker does when its disk refuses, and in what it deletes."""

from __future__ import annotations

import sys

from minikafka.log.errors import LogDirFailure
from minikafka.log.log import Log
from minikafka.log.manager import LogManager
from minikafka.membership.lifecycle import BrokerLifecycle
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offline_logs import OfflineLogs

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with


class _IgnoresAFailedFsync(OfflineLogs):
    def _take(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        if not failure.permanent:
            super()._take(topic_partition, failure)


class _KeepsItsRole(OfflineLogs):
    def _take(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        if failure.permanent:
            super()._take(topic_partition, failure)
        else:
            self._offline[topic_partition] = failure
            if not self._recovers:
                self._recovers = True
                self._again()


class _ForgetsTheReplica(OfflineLogs):
    """The log is back, and the replica goes on with the old one."""

    def _use(self, topic_partition: TopicPartition, log: Log) -> None:
        self.logs.replace(topic_partition, log)


class _StaysOffline(OfflineLogs):
    def _all_is_well(self) -> None:
        self._offline, self._recovers = {}, False


class _IsReadyWhileOffline(BrokerLifecycle):
    def replicas_settled(self, leads_in_name_only: bool, has_offline_logs: bool = False) -> None:
        del has_offline_logs
        super().replicas_settled(leads_in_name_only, False)


class _ForgetsTheLimit(LogManager):
    """What is on the unflushed volume is limited by its file system, and the broker does not know."""

    def _load(self, unflushed_dir: str | None, now_ms: int) -> None:
        super()._load(unflushed_dir, now_ms)
        if self.unflushed_volume is not None:
            self.unflushed_volume.limit = sys.maxsize


def _retains_up_to_the_end(partition: HostedPartition, now_ms: int) -> None:
    partition.log.delete_old_segments(now_ms, partition.log.log_end_offset)


DISK_SEEDS = (
    BugSeed("ignore-failed-fsync", "a broker goes on after a failed fsync", "fsyncgate",
            rules_with(offline=_IgnoresAFailedFsync)),
    BugSeed("keep-role-offline", "a replica whose log is offline keeps its role", "KIP-112", rules_with(offline=_KeepsItsRole)),
    BugSeed("keep-closed-log", "a log is opened anew, and its replica goes on with the closed one", "KIP-112",
            rules_with(offline=_ForgetsTheReplica)),
    BugSeed("stay-offline", "a log is opened anew, and nobody has its replica follow again", "KIP-112",
            rules_with(offline=_StaysOffline)),
    BugSeed("retain-to-log-end", "retention deletes what is not committed", "Kafka's UnifiedLog.deleteOldSegments",
            rules_with(retain=_retains_up_to_the_end)),
    BugSeed("forget-unflushed-limit", "a broker does not know how much its unflushed volume takes", "found with kubectl",
            rules_with(manager=_ForgetsTheLimit)),
    BugSeed("ready-while-offline", "a broker with offline logs asks to be unfenced", "KIP-112",
            rules_with(lifecycle=_IsReadyWhileOffline)),
)  # fmt: skip
