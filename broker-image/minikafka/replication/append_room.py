"""Keeps the unflushed volume of a broker from getting full, sans I/O: flushes ahead of the limit, and appends that wait for room.

Replicas take the same bytes, so their volumes fill at the same moment: a cluster whose brokers let them get full refuses
everything at once. So from half of the limit on the logs that hold most are flushed. Where appends come faster than the disk
takes them, they wait: a Produce within its time-out, in the order in which they came, a follower by asking again
(`fetch_loop.py`). A time-out before the append says REQUEST_TIMED_OUT like one after it, and nothing was appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Final, Protocol

from minikafka.log.record_validation import RecordsAhead
from minikafka.log.unflushed_volume import PAGE_BYTES, UnflushedVolume
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import PartitionResult
from minikafka.replication.clock import Clock
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.purgatory import DelayedProduce

AHEAD: Final = 2
"""The limit divided by this is what is flushed ahead of it."""

FOR_FOLLOWERS: Final = 4
"""The limit divided by this is left to followers: producers that wait take what they get at once, and those of other leaders wait
for this broker's followers."""

WELL_SECONDS: Final = 1.0
"""So long nobody had to wait before it is told that nobody has to: where much is written it comes and goes by the millisecond."""


class OnVolume(Protocol):
    """What is needed of :class:`~minikafka.replication.replicas.ReplicaManager`."""

    def get(self, topic: str, index: int) -> HostedPartition | None: ...

    def all(self) -> list[HostedPartition]: ...


class WaitingAppend:
    """One partition's batch of a :class:`DelayedProduce`, which is not appended yet. It has its own copy of the records."""

    __slots__ = ("acks", "ahead", "delayed", "index", "records", "result", "topic")

    def __init__(
        self,
        topic: str,
        index: int,
        records: memoryview,
        acks: int,
        delayed: DelayedProduce,
        ahead: RecordsAhead | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.records = memoryview(bytearray(records))
        self.acks = acks
        self.delayed = delayed
        self.ahead = ahead
        self.result = PartitionResult(index, ErrorCode.NONE)


class AppendRoom:
    """See the module. Of one broker.

    Args:
        volume: see there.
        replicas: those whose logs lie on it.
        clock: see there.
        append: appends what has waited, and settles it.
        flush_soon: begins a flush, unless one is under way.
        tell: told that appends wait, and that none do any more, with the seconds that it took.
    """

    def __init__(
        self,
        volume: UnflushedVolume,
        replicas: OnVolume,
        clock: Clock,
        append: Callable[[WaitingAppend], None],
        flush_soon: Callable[[HostedPartition], None],
        tell: Callable[[bool, float], None],
    ) -> None:
        self.volume = volume
        self._tell = tell
        self._replicas = replicas
        self._clock = clock
        self._append = append
        self._flush_soon = flush_soon
        self._waiting: deque[WaitingAppend] = deque()
        self._flushing: list[HostedPartition] = []
        self._short_since: float | None = None
        self._short_last = 0.0
        self._rearm()

    # -- appends that wait --------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many batches of producers wait."""
        return len(self._waiting)

    @property
    def is_short(self) -> bool:
        """Whether appends wait, or did just now."""
        return self._short_since is not None

    def must_wait(self, size: int) -> bool:
        """Whether a batch of this size cannot be appended now: others came before it, or there is no room."""
        return bool(self._waiting) or not self._has_room(size)

    def _has_room(self, size: int) -> bool:
        return self.volume.has_room(size + self.volume.limit // FOR_FOLLOWERS)

    @property
    def batch_bytes_max(self) -> int:
        """For a larger batch of a producer there is never room."""
        return max(0, self.volume.limit - self.volume.limit // FOR_FOLLOWERS - PAGE_BYTES)

    def wait(self, append: WaitingAppend) -> None:
        """Have it appended when there is room."""
        self._waiting.append(append)
        self._is_short()
        self.flush_ahead()

    def sweep(self, overdue: Collection[DelayedProduce]) -> None:
        """Now and again: the time of these requests is up, and nothing of what still waits is appended. What is led here no more
        has its answer, too."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, deque()
        over: list[WaitingAppend] = []
        for each in waiting:
            (over if each.delayed in overdue or not self._is_led(each) else self._waiting).append(each)
        for each in over:
            if each.delayed in overdue:
                each.delayed.settle(each.result, ErrorCode.REQUEST_TIMED_OUT)
            else:
                self._append(each)
        self.look()

    def _is_led(self, append: WaitingAppend) -> bool:
        partition = self._replicas.get(append.topic, append.index)
        return partition is not None and partition.leader is not None

    def look(self) -> None:
        """There may be room: a flush is over, a log was cut or deleted."""
        while self._waiting and self._has_room(len(self._waiting[0].records)):
            self._append(self._waiting.popleft())
        if self._waiting:
            self.flush_ahead()

    # -- flushing ahead -----------------------------------------------------------------------------------------------------

    def flushed(self) -> None:
        """A flush is over."""
        if self.volume.used > self._ahead:
            self.flush_ahead()
        else:
            self._rearm()
        self.look()

    def flush_ahead(self) -> None:
        """Flush what holds most, until half of what is there is on its way; unless such flushes are under way."""
        if any(partition.flushing for partition in self._flushing):
            return
        self._flushing = []
        online = [partition for partition in self._replicas.all() if partition.log.failure is None]
        held = sorted(((p.log.unflushed_bytes, n) for n, p in enumerate(online)), reverse=True)
        left = self.volume.used // 2
        for size, n in held:
            if left <= 0 or not size:
                break
            self._flushing.append(online[n])
            left -= size
        for partition in self._flushing:
            self._flush_soon(partition)

    @property
    def _ahead(self) -> int:
        return self.volume.limit // AHEAD

    def _rearm(self) -> None:
        self.volume.alarm(self._ahead, self._half_full)

    def _half_full(self) -> None:
        """Told by an append, which is in the middle of what a flush would begin with."""
        self._clock.later(0.0, self.flush_ahead)

    # -- telling ------------------------------------------------------------------------------------------------------------

    def follower_waits(self) -> None:
        """A follower could not append all that came."""
        self._is_short()
        self._clock.later(0.0, self.flush_ahead)

    def _is_short(self) -> None:
        self._short_last = self._clock.now()
        if self._short_since is None:
            self._short_since = self._short_last
            self._tell(True, 0.0)
            self._clock.later(WELL_SECONDS, self._look_whether_well)

    def _look_whether_well(self) -> None:
        now, since = self._clock.now(), self._short_since
        if self._waiting:
            self._short_last = now
        if since is not None and now - self._short_last >= WELL_SECONDS:
            self._short_since = None
            self._tell(False, self._short_last - since)
        else:
            self._clock.later(WELL_SECONDS, self._look_whether_well)
