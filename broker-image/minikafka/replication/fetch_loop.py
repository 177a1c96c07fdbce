"""A broker's fetches from one leader, sans I/O: what is asked for, when, and what comes of the answers (R2, R6).

The positions of all partitions that follow the leader, up to PARTITIONS_MAX, go out in one Fetch; the next leaves as soon as
the answer is taken in, for it is also the acknowledgement. A partition that was refused is left out for a while. One that
follows in a new term does not wait for a fetch that is parked at the leader: a second one overtakes it.

Whoever drives the loop carries the requests, and says when a connection is gone. An answer of a connection that is gone is not
to be given to :meth:`FetchLoop.answered`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from minikafka.log.errors import CorruptBatch, LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FollowerData
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.replication.partition import Partition

BACKOFF_SECONDS_FIRST = 0.02
"""The first wait after a refusal. Most at a failover are a race of milliseconds; ``replica.fetch.backoff.ms`` caps it."""

PARTITIONS_MAX = 10_000
"""Of one fetch. Each may be of another topic, so that its request has twice as many rows: a leader takes
:data:`~minikafka.protocol.wire.ROWS_MAX`."""

IN_FLIGHT_MAX = 2
"""A fetch that is parked at the leader, and one that overtakes it."""

ROOM_SECONDS = 0.02
"""How soon a partition is asked for again that had no room for all that came."""

Key = tuple[bytes, int]
"""Topic id and partition, as in a Fetch."""

P = TypeVar("P", bound=Partition)
P_contra = TypeVar("P_contra", bound=Partition, contravariant=True)


class FetchFailure(NamedTuple):
    """What keeps a partition from following: a refusal of the leader, or of its own log."""

    error: str
    offset: int
    is_corrupt: bool


class Taken(NamedTuple, Generic[P]):
    """What came of the answer for one partition."""

    partition: P
    outcome: FetchOutcome
    position: FetchPosition
    """Where it had asked."""
    log_start_before: int
    size: int = 0
    """Bytes of records that were appended."""
    failure: LogError | None = None
    """Its own log refused the answer."""
    to_report: FetchFailure | None = None
    """What is to be reported of it: once, and not when it was over at the next try."""
    recovered: bool = False
    """It went well again after :attr:`broke`."""
    broke: Exception | None = None
    """Nobody expected this; it is forgiven with the next records that the replica takes."""


class _Followed(Generic[P]):
    """One partition in a loop, with its back-off."""

    __slots__ = ("backoff", "broken", "held", "not_before", "partition", "reported")

    def __init__(self, partition: P) -> None:
        self.partition = partition
        self.reported: tuple[str, int] | None = None
        """The error that was reported last, and at which offset."""
        self.backoff = BACKOFF_SECONDS_FIRST
        self.broken = False
        self.held = False
        """Left out of fetches until a flush is done."""
        self.not_before = 0.0


def key_of(partition: Partition) -> Key:
    return partition.topic_id, partition.topic_partition.partition


class FetchLoop(Generic[P]):
    """See the module. Times are seconds of one clock that only grows.

    Args:
        leader_id: whom it asks.
        backoff_max: ``replica.fetch.backoff.ms``, in seconds.
        no_room: called when a replica cannot append all that came: there is no room for it on the unflushed volume.
    """

    def __init__(self, leader_id: int, backoff_max: float, no_room: Callable[[], None]) -> None:
        self.leader_id = leader_id
        self._no_room = no_room
        self.in_flight = 0
        self.wake_at: float | None = None
        """When the first of the partitions that back off may be asked for again, as :meth:`next_fetch` found it last."""
        self._backoff_max = max(backoff_max, BACKOFF_SECONDS_FIRST)
        self._followed: dict[Key, _Followed[P]] = {}
        self.has_more = False
        """The last fetch had no place for all partitions: a leader is not to wait long before it answers."""
        self._wanted = False
        """A partition is to be asked for at once, and as many fetches as may be were under way."""
        self._owe_flush: list[P] = []

    # -- what is followed -------------------------------------------------------------------------------------------------

    def follow(self, partition: P) -> None:
        """Ask for a partition from now on, in a new term of its leader: from the beginning, whatever was wrong before."""
        self._followed[key_of(partition)] = _Followed(partition)

    def flushed(self, partition: P) -> bool:
        """More of its log is on disk. True when it was held back for that, and may be asked for now."""
        followed = self._followed.get(key_of(partition))
        if followed is None or not followed.held:
            return False
        followed.held = False
        return True

    def owe_flush(self) -> list[P]:
        """What was held back since the last call: flush.messages wants a flush first (R17)."""
        found, self._owe_flush = self._owe_flush, []
        return found

    def unfollow(self, partition: P) -> bool:
        """Ask for it no more; answers that are under way say nothing to it. True when it had broken, and nothing came since."""
        followed = self._followed.pop(key_of(partition), None)
        return followed is not None and followed.broken

    @property
    def is_idle(self) -> bool:
        return not self._followed

    def clear(self) -> None:
        """Follow nothing any more."""
        self._followed.clear()

    # -- requests -----------------------------------------------------------------------------------------------------------

    def next_fetch(self, now: float, overtake: bool = False) -> dict[Key, FetchPosition]:
        """What to ask for now, in this order; empty when there is nothing, or a fetch is in flight already.

        Where it cannot be all, those that are asked for now are the last to be asked for again.

        ``overtake``: something has changed that a fetch in flight does not know of.
        """
        self.wake_at = None
        if self.in_flight >= (IN_FLIGHT_MAX if overtake else 1):
            self._wanted = self._wanted or overtake
            return {}
        self._wanted = self.has_more = False
        asked: dict[Key, FetchPosition] = {}
        for key, followed in self._followed.items():
            if len(asked) == PARTITIONS_MAX:
                self.has_more = True
                break
            if followed.not_before > now:
                if self.wake_at is None or followed.not_before < self.wake_at:
                    self.wake_at = followed.not_before
                continue
            follower = followed.partition.follower
            if follower is None or follower.failed or follower.leader_id != self.leader_id:
                continue
            if not follower.may_ask():
                self._hold(followed)
                continue
            asked[key] = follower.position()
        if self.has_more:
            for key in asked:
                self._to_the_end(key)
        if asked:
            self.in_flight += 1
        return asked

    @property
    def may_fetch_on(self) -> bool:
        """After an answer: whether the next fetch may leave at once."""
        return self.in_flight == 0 or self._wanted

    def _hold(self, followed: _Followed[P]) -> None:
        followed.held = True
        self._owe_flush.append(followed.partition)

    def disconnected(self) -> None:
        """The connection is gone, and with it whatever was in flight."""
        self.in_flight = 0

    # -- answers --------------------------------------------------------------------------------------------------------

    def answered(
        self, asked: dict[Key, FetchPosition], error: int, answers: Iterable[FollowerData], now: float
    ) -> list[Taken[P]]:
        """Take in the answer to a fetch. What is wrong with one partition does not keep the others from theirs."""
        self.in_flight -= 1
        if error:
            for key in asked:
                self._back_off(key, now)
        came = []
        for data in answers:
            taken = self._take(data, asked, now)
            if taken is not None:
                came.append(taken)
        return came

    def _take(self, data: FollowerData, asked: dict[Key, FetchPosition], now: float) -> Taken[P] | None:
        key = (data.topic_id, data.partition)
        followed, position = self._followed.get(key), asked.get(key)
        follower = None if followed is None else followed.partition.follower
        if followed is None or position is None or follower is None:
            return None
        partition = followed.partition
        start = partition.log.log_start_offset
        error, failure = ErrorCode(data.error), None
        records = self._that_fit(partition, data.records)
        if len(records) < len(data.records):
            self._no_room()
            followed.not_before = now + ROOM_SECONDS
        try:
            outcome = follower.answered(
                position, error, data.diverging, data.high_watermark, data.log_start_offset, records
            )
        except LogError as refusal:
            outcome, failure = FetchOutcome.BACK_OFF, refusal
        except Exception as broke:
            followed.broken = True
            self._back_off(key, now)
            return Taken(partition, FetchOutcome.BACK_OFF, position, start, broke=broke)
        if records:
            self._to_the_end(key)
        if outcome is FetchOutcome.APPENDED:
            followed.backoff, followed.reported = BACKOFF_SECONDS_FIRST, None
            recovered, followed.broken = followed.broken, False
            if not follower.may_ask():
                self._hold(followed)
            return Taken(partition, outcome, position, start, len(records), recovered=recovered)
        to_report = None
        if outcome in (FetchOutcome.BACK_OFF, FetchOutcome.OUT_OF_RANGE):
            self._back_off(key, now)
        if outcome is FetchOutcome.BACK_OFF:
            text = error.name if failure is None else str(failure)
            to_report = self._news(followed, FetchFailure(text, position.offset, isinstance(failure, CorruptBatch)))
        return Taken(partition, outcome, position, start, failure=failure, to_report=to_report)

    @staticmethod
    def _that_fit(partition: P, records: memoryview) -> memoryview:
        """What of it there is room for on the unflushed volume; the rest is asked for again."""
        volume = partition.log.unflushed_volume
        return records if volume is None else volume.fitting(records)

    @property
    def room(self) -> int:
        """Bytes that there is room for, of all that is followed."""
        for followed in self._followed.values():
            volume = followed.partition.log.unflushed_volume
            return sys.maxsize if volume is None else volume.room
        return sys.maxsize

    def leader_range(
        self, partition: P, position: FetchPosition, earliest: int, latest: int, now: float
    ) -> Taken[P] | None:
        """After OUT_OF_RANGE: what the leader holds (KAFKA-7414). None when nobody here wants to know any more."""
        followed = self._followed.get(key_of(partition))
        follower = partition.follower
        if followed is None or followed.partition is not partition or follower is None:
            return None
        start, failure = partition.log.log_start_offset, None
        try:
            outcome = follower.leader_offsets(position, earliest, latest)
        except LogError as refusal:
            outcome, failure = FetchOutcome.BACK_OFF, refusal
        followed.not_before = now
        return Taken(partition, outcome, position, start, failure=failure)

    def _to_the_end(self, key: Key) -> None:
        """Whoever got records is asked for last: a leader fills its answers in the order of the request, and those at its
        end would get nothing for as long as the first ones have a backlog (Kafka's ``updateAndMoveToEnd``)."""
        self._followed[key] = self._followed.pop(key)

    @staticmethod
    def _news(followed: _Followed[P], failed: FetchFailure) -> FetchFailure | None:
        """A follower asks again and again. What is over at the next try was only a race."""
        passing = not failed.is_corrupt and followed.backoff <= 2 * BACKOFF_SECONDS_FIRST
        seen = (failed.error, failed.offset)
        if passing or followed.reported == seen:
            return None
        followed.reported = seen
        return failed

    def _back_off(self, key: Key, now: float) -> None:
        followed = self._followed.get(key)
        if followed is not None:
            followed.not_before = now + followed.backoff
            followed.backoff = min(followed.backoff * 2, self._backoff_max)


class Fetcher(Protocol[P_contra]):
    """Drives the loop of one leader."""

    @property
    def is_idle(self) -> bool: ...

    def add(self, partition: P_contra) -> None: ...

    def remove(self, partition: P_contra) -> None: ...

    def flushed(self, partition: P_contra) -> None: ...

    def stop(self) -> None: ...


class FetcherPool(Generic[P]):
    """The fetchers by leader (``num.replica.fetchers`` = 1 for each source broker)."""

    def __init__(self, start: Callable[[int], Fetcher[P]]) -> None:
        self._start = start
        self._fetchers: dict[int, Fetcher[P]] = {}
        self._where: dict[P, int] = {}

    def leader_of(self, partition: P) -> int | None:
        """Whom a partition is fetched from."""
        return self._where.get(partition)

    def follow(self, partition: P, leader_id: int) -> None:
        """(Re)start fetching: first out of the old fetcher, then into the new one, also when the leader is the same."""
        self.unfollow(partition)
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = self._start(leader_id)
        self._where[partition] = leader_id
        fetcher.add(partition)

    def unfollow(self, partition: P) -> None:
        leader_id = self._where.pop(partition, None)
        if leader_id is None:
            return
        fetcher = self._fetchers[leader_id]
        fetcher.remove(partition)
        if fetcher.is_idle:
            del self._fetchers[leader_id]
            fetcher.stop()

    def flushed(self, partition: P) -> None:
        """More of its log is on disk: it may be fetched for again, where flush.messages made it wait (R17)."""
        leader_id = self._where.get(partition)
        if leader_id is not None:
            self._fetchers[leader_id].flushed(partition)

    def stop(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._where.clear()
