"""What a broker does when its disk refuses: one policy for every log and every operation.

Kafka takes the whole log directory offline and never back (``ReplicaManager.handleLogDirFailure``, KIP-112). Here:

1. The replica resigns at once: it leads and follows nothing, so that nobody reads or writes what may not be true.
2. The broker asks the controller to fence it, so that others lead, and says so in ``/healthz``, a metric and an event.
3. Once it is fenced it tries again and again: it opens what was left half done anew, as after a crash of the process, and
   writes its checkpoints to see whether the disk takes them. When all of it works the replicas follow again, and the broker
   is unfenced.
4. After a failed ``fsync``, or when a log comes back with less than was committed (and was not about to be cut to that by
   its leader's word), nothing of that is safe: the process ends
   with exit code 3 and without the marker of a clean shutdown, so that the controller counts it as one that has lost records
   (KIP-966) when its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from minikafka.log.errors import LogDirFailure, LogError
from minikafka.protocol.types import TopicPartition

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

COMPONENT = "log directory"
RECOVERY = COMPONENT + " recovery"

RETRY_SECONDS_FIRST, RETRY_SECONDS_MAX = 0.5, 30.0
"""Between tries; doubled after each that failed, and after each log that is refused again soon after it came back."""

WELL_SECONDS = 60.0
"""A disk that refused nothing for so long is taken for well: the next failure is retried soon again."""


class OfflineLogs:
    """The replicas of one broker whose logs the disk refused."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._offline: dict[TopicPartition, LogDirFailure] = {}
        self._retry = RETRY_SECONDS_FIRST
        self._well_since = float("-inf")
        self._task: asyncio.Task[bool] | None = None

    def __len__(self) -> int:
        return len(self._offline)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offline

    def failed(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        """The disk refused something of this log. May be called from anywhere: what follows happens in the next round of
        events, for the caller may be in the middle of this very partition."""
        asyncio.get_running_loop().call_soon(
            self.broker.supervisor.call, COMPONENT + " policy", partial(self._take, topic_partition, failure)
        )

    def _take(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        broker = self.broker
        if broker.failed.is_set() or broker.stopping:
            return
        if failure.permanent:
            broker.fail(f"{failure}; what it held unflushed cannot be trusted")
            return
        known = topic_partition in self._offline
        self._offline[topic_partition] = failure
        broker.stats.offline_logs = len(self._offline)
        broker.health.report(COMPONENT, self._line())
        if known:
            return
        broker.stats.log_dir_failures += 1
        topic, index = topic_partition
        broker.events.emit("log_offline", topic=topic, partition=index, error=str(failure))
        broker.host.resign(topic_partition)
        broker.membership.fence()
        if self._task is None:
            if time.monotonic() - self._well_since > WELL_SECONDS:
                self._retry = RETRY_SECONDS_FIRST
            self._task = broker.supervisor.once(RECOVERY, self._recover)

    def _line(self) -> str:
        count, last = len(self._offline), next(reversed(self._offline.values()))
        return f"{count} log{'s' if count > 1 else ''} offline: {last}"

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition is deleted, or is somebody else's now."""
        if self._offline.pop(topic_partition, None) is not None:
            self.broker.stats.offline_logs = len(self._offline)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # -- the way back -----------------------------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Try until all is well, or the process has to end."""
        broker = self.broker
        try:
            while True:
                await asyncio.sleep(self._retry)
                if self._offline and not broker.is_fenced:
                    continue  # until then the controller takes this broker for the leader that it no longer is
                try:
                    await self._reopen_all()
                    await broker.housekeeping.write_checkpoints()
                except Exception as failure:  # whatever it is: who gave up here would be fenced for ever
                    if isinstance(failure, LogDirFailure) and failure.permanent:
                        broker.fail(str(failure))
                        return
                    if not isinstance(failure, (LogError, OSError)):
                        broker.supervisor.report(RECOVERY, failure)
                    self._retry = min(self._retry * 2, RETRY_SECONDS_MAX)
                    if self._offline:
                        broker.health.report(COMPONENT, f"{self._line()}; tried again: {failure}")
                    continue
                if not any(self._is_closed(tp) for tp in self._offline):
                    break
        finally:
            self._task = None
        self._all_is_well()

    def _is_closed(self, topic_partition: TopicPartition) -> bool:
        log = self.broker.logs.logs.get(topic_partition)
        return log is not None and log.failure is not None

    async def _reopen_all(self) -> None:
        """Raises LogDirFailure for the first that cannot be opened."""
        broker = self.broker
        for topic_partition in list(self._offline):
            if not self._is_closed(topic_partition):
                continue
            log = await broker.housekeeping.on_disk_thread(broker.logs.prepare_reopen(topic_partition, time_ms()))
            broker.logs.replace(topic_partition, log)
            partition = broker.replicas.get(*topic_partition)
            if partition is None:
                continue
            if log.log_end_offset < partition.high_watermark and not log.recovery.restarted:
                problem = f"{log} ends at {log.log_end_offset}, and was committed up to {partition.high_watermark}"
                raise LogDirFailure(problem, permanent=True, topic_partition=topic_partition)
            partition.log = log
            partition.set_high_watermark(partition.high_watermark)

    def _all_is_well(self) -> None:
        broker = self.broker
        back, self._offline = list(self._offline), {}
        self._well_since = time.monotonic()
        self._retry = min(self._retry * 2, RETRY_SECONDS_MAX)
        broker.stats.offline_logs = 0
        broker.health.clear(COMPONENT)
        for topic, index in back:
            broker.events.emit("log_online", topic=topic, partition=index)
        broker.host.settle({topic for topic, _ in back})


def time_ms() -> int:
    return int(time.time() * 1000)
