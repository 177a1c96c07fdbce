"""Followers' side of replication on the wire: one fetcher for each broker that leads something we follow (R2).

The position of every partition goes out in one Fetch; its answer is appended inside the receive callback, straight from the
receive buffer, and the next Fetch leaves at once: it is also the acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from minikafka.log.errors import CorruptBatch, LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FollowerData, decode_follower_response, encode_follower_fetch
from minikafka.protocol.wire import MalformedRequest
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.server.hosted import HostedPartition
from minikafka.server.peer import PeerClosed, PeerConnection, connect

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

IN_FLIGHT_MAX = 2
"""One that the leader has parked, and one that overtakes it."""

BACKOFF_SECONDS_FIRST = 0.02
"""The first wait after a refusal. Most at a failover are a race of milliseconds; ``replica.fetch.backoff.ms`` caps it."""

CONNECT_SECONDS_MAX = 1.0

LIST_OFFSETS, LIST_OFFSETS_VERSION = 2, 7
LATEST, EARLIEST = -1, -2

Key = tuple[bytes, int]


class _Followed:
    """One partition in a fetcher, with its back-off."""

    __slots__ = ("backoff", "broken", "held", "not_before", "partition", "trouble")

    def __init__(self, partition: HostedPartition) -> None:
        self.partition = partition
        self.trouble: tuple[str, int] | None = None
        """The error told last, and at which offset."""
        self.backoff = BACKOFF_SECONDS_FIRST
        self.broken = False
        self.held = False
        """Left out of fetches until a flush is done."""
        self.not_before = 0.0


class ReplicaFetcher:
    """Fetches everything we follow from one leader."""

    def __init__(self, broker: Broker, leader_id: int) -> None:
        self.broker = broker
        self.leader_id = leader_id
        self._followed: dict[Key, _Followed] = {}
        self._connection: PeerConnection | None = None
        self._in_flight = 0
        self._wanted = False
        """A partition is to be asked for at once, and as many fetches as may be were under way."""
        self._connecting: asyncio.Task[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._tasks: set[asyncio.Task[bool]] = set()

    # -- membership -----------------------------------------------------------------------------------------------------

    def add(self, partition: HostedPartition) -> None:
        """Follow a partition, in a new term of its leader. A fetch that is parked there is overtaken, not awaited."""
        self._followed[partition.topic_id, partition.topic_partition.partition] = _Followed(partition)
        self._kick(overtake=True)

    def flushed(self, partition: HostedPartition) -> None:
        """More of its log is on disk. If it was held back, it may be asked for now; a fetch that is parked without it is
        overtaken."""
        followed = self._followed.get((partition.topic_id, partition.topic_partition.partition))
        if followed is not None and followed.held:
            followed.held = False
            self._kick(overtake=True)

    def _hold(self, followed: _Followed) -> None:
        """Ask for it again when flush.messages has its flush (R17)."""
        followed.held = True
        self.broker.housekeeping.flush_soon(followed.partition)

    def remove(self, partition: HostedPartition) -> None:
        followed = self._followed.pop((partition.topic_id, partition.topic_partition.partition), None)
        if followed is not None and followed.broken:
            self.broker.supervisor.clear(f"replica {partition.topic_partition}")

    @property
    def is_idle(self) -> bool:
        return not self._followed

    def stop(self) -> None:
        """Close the connection; nothing is applied after this."""
        self._stopped = True
        self._followed.clear()
        self.broker.supervisor.clear(self._component)
        if self._timer is not None:
            self._timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        for task in self._tasks:
            task.cancel()
        if self._connection is not None:
            self._connection.close()

    # -- the loop -------------------------------------------------------------------------------------------------------

    def _kick(self, overtake: bool = False) -> None:
        if self._stopped or not self._followed:
            return
        connection = self._connection
        if connection is None or not connection.is_open:
            if self._connecting is None:
                self._connecting = self.broker.supervisor.once(self._component, self._connect)
                self._connecting.add_done_callback(self._connected)
            return
        if self._in_flight == 0 or (overtake and self._in_flight < IN_FLIGHT_MAX):
            self._wanted = False
            self._fetch(connection)
        else:
            self._wanted = self._wanted or overtake

    async def _connect(self) -> None:
        delay = BACKOFF_SECONDS_FIRST
        config = self.broker.config
        limit = config.replica_fetch_backoff_ms / 1000
        try:
            while not self._stopped and self._followed:
                address = self.broker.address_of(self.leader_id)
                if address is not None:
                    try:
                        self._connection = await connect(
                            *address,
                            self.broker.client_id("fetcher"),
                            CONNECT_SECONDS_MAX,
                            config.replica_socket_timeout_ms / 1000,
                            self._disconnected,
                        )
                        break
                    except (OSError, TimeoutError):
                        pass
                await asyncio.sleep(delay)
                delay = min(delay * 2, max(limit, BACKOFF_SECONDS_FIRST))
        finally:
            self._connecting = None
        self._in_flight = 0

    def _connected(self, connecting: asyncio.Task[bool]) -> None:
        if not self._stopped:
            self._later(0.0 if not connecting.cancelled() and connecting.result() else CONNECT_SECONDS_MAX)

    def _later(self, seconds: float, overtake: bool = False) -> None:
        """Look again, until that goes well: a fetcher that nobody kicks would stand still for ever."""

        def look() -> None:
            if not self.broker.supervisor.call(self._component, lambda: self._kick(overtake)):
                self._later(CONNECT_SECONDS_MAX, overtake)

        asyncio.get_running_loop().call_later(seconds, look)

    @property
    def _component(self) -> str:
        return f"fetcher of leader {self.leader_id}"

    def _disconnected(self) -> None:
        address = self.broker.address_of(self.leader_id)
        if self._connection is not None and self._connection.timed_out and address is not None:
            self.broker.told_nothing(f"leader {self.leader_id}", *address)
        self._connection = None
        self._in_flight = 0
        if not self._stopped:
            self.broker.suspect(self.leader_id)
            self._later(BACKOFF_SECONDS_FIRST)

    def _fetch(self, connection: PeerConnection) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        asked: dict[Key, FetchPosition] = {}
        topics: dict[bytes, list[tuple[int, int, int, int, int, int]]] = {}
        soonest = 0.0
        max_part = self.broker.config.replica_fetch_max_bytes
        for key, followed in self._followed.items():
            if followed.not_before > now:
                soonest = min(soonest or followed.not_before, followed.not_before)
                continue
            follower = followed.partition.follower
            if follower is None or follower.failed or follower.leader_id != self.leader_id:
                continue
            if not follower.may_ask():
                self._hold(followed)
                continue
            position = follower.position()
            asked[key] = position
            topics.setdefault(key[0], []).append(
                (
                    key[1],
                    position.leader_epoch,
                    position.offset,
                    position.last_fetched_epoch,
                    position.log_start_offset,
                    max_part,
                )
            )
        if soonest and self._timer is None:
            self._timer = loop.call_at(soonest, self._backed_off)
        if not asked:
            return
        config = self.broker.config
        correlation = connection.next_correlation()
        frame = encode_follower_fetch(
            correlation,
            self.broker.client_id("fetcher"),
            self.broker.broker_id,
            self.broker.broker_epoch,
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            list(topics.items()),
        )
        self._in_flight += 1
        connection.send_frame(correlation, frame, self._answer_to(connection, asked))

    def _backed_off(self) -> None:
        self._timer = None
        self._later(0.0, overtake=True)

    def _answer_to(
        self, connection: PeerConnection, asked: dict[Key, FetchPosition]
    ) -> Callable[[memoryview | None], None]:
        def on_answer(frame: memoryview | None) -> None:
            if frame is None or self._stopped or connection is not self._connection:
                return
            self._in_flight -= 1
            try:
                error, partitions = decode_follower_response(frame)
            except MalformedRequest:
                connection.close()
                return
            if error:
                for key in asked:
                    self._back_off(key)
            for data in partitions:
                try:
                    self._apply(data, asked)
                except Exception as error:  # the other partitions have records, too
                    self._broke((data.topic_id, data.partition), error)
            if self._in_flight == 0 or self._wanted:
                self._kick(overtake=True)

        return on_answer

    # -- answers --------------------------------------------------------------------------------------------------------

    def _apply(self, data: FollowerData, asked: dict[Key, FetchPosition]) -> None:
        key = (data.topic_id, data.partition)
        followed = self._followed.get(key)
        position = asked.get(key)
        if followed is None or position is None:
            return
        partition = followed.partition
        follower = partition.follower
        if follower is None:
            return
        start = partition.log.log_start_offset
        error = ErrorCode(data.error)
        failure: LogError | None = None
        try:
            outcome = follower.answered(
                position,
                error,
                data.diverging,
                data.high_watermark,
                data.log_start_offset,
                data.records,
            )
        except LogError as refusal:
            self.broker.log_failed(partition, refusal)
            outcome, failure = FetchOutcome.BACK_OFF, refusal
        if data.records:
            self._to_the_end(key)
        if outcome is FetchOutcome.APPENDED:
            followed.backoff = BACKOFF_SECONDS_FIRST
            followed.trouble = None
            if followed.broken:
                followed.broken = False
                self.broker.supervisor.clear(f"replica {partition.topic_partition}")
            self.broker.stats.replication_bytes_in += len(data.records)
            if not follower.may_ask():
                self._hold(followed)
        elif outcome is FetchOutcome.BACK_OFF:
            self._back_off(key)
        elif outcome is FetchOutcome.OUT_OF_RANGE:
            self._back_off(key)
            task = self.broker.supervisor.once(self._component, self._ask_offsets, key, position)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if outcome is FetchOutcome.BACK_OFF:
            trouble = error.name if failure is None else str(failure)
            self._tell(followed, (trouble, position.offset), isinstance(failure, CorruptBatch))
        if follower.truncations:
            self.broker.note_truncations(partition)
        if partition.log.log_start_offset != start:
            self.broker.host.note_log_start(partition, start, f"leader {self.leader_id} deleted them")

    def _to_the_end(self, key: Key) -> None:
        """Whoever got records is asked for last: a leader fills its answers in the order of the request, and those at its
        end would get nothing for as long as the first ones have a backlog (Kafka's ``updateAndMoveToEnd``)."""
        self._followed[key] = self._followed.pop(key)

    def _tell(self, followed: _Followed, trouble: tuple[str, int], is_corrupt: bool) -> None:
        """Say what is wrong, once: a follower asks again and again. What is over at the next try was only a race."""
        passing = not is_corrupt and followed.backoff <= 2 * BACKOFF_SECONDS_FIRST
        if passing or followed.trouble == trouble:
            return
        followed.trouble = trouble
        (topic, index), (error, offset) = followed.partition.topic_partition, trouble
        events = self.broker.events
        if is_corrupt:
            events.emit("corrupt_batch", topic=topic, partition=index, offset=offset, error=error)
        else:
            events.emit("replica_fetch_failed", topic=topic, partition=index, leader=self.leader_id, error=error)

    def _broke(self, key: Key, error: Exception) -> None:
        """Nobody expected this; it is forgiven with the next records that the replica takes."""
        followed = self._followed.get(key)
        if followed is not None:
            followed.broken = True
            self.broker.supervisor.report(f"replica {followed.partition.topic_partition}", error)
        self._back_off(key)

    def _back_off(self, key: Key) -> None:
        followed = self._followed.get(key)
        if followed is not None:
            followed.not_before = asyncio.get_running_loop().time() + followed.backoff
            followed.backoff = min(followed.backoff * 2, self.broker.config.replica_fetch_backoff_ms / 1000)

    async def _ask_offsets(self, key: Key, position: FetchPosition) -> None:
        """KAFKA-7414: what range does the leader hold?"""
        followed = self._followed.get(key)
        connection = self._connection
        if followed is None or connection is None:
            return
        topic, index = followed.partition.topic_partition
        found = []
        try:
            for timestamp in (EARLIEST, LATEST):
                answer = await connection.request(
                    LIST_OFFSETS,
                    LIST_OFFSETS_VERSION,
                    {
                        "replica_id": self.broker.broker_id,
                        "isolation_level": 0,
                        "topics": [
                            {
                                "name": topic,
                                "partitions": [
                                    {
                                        "partition_index": index,
                                        "current_leader_epoch": position.leader_epoch,
                                        "timestamp": timestamp,
                                    }
                                ],
                            }
                        ],
                    },
                )
                part = answer.topics[0].partitions[0]
                if int(part.error_code) != 0:
                    return
                found.append(part.offset)
        except PeerClosed:
            return
        follower = followed.partition.follower
        if self._followed.get(key) is followed and follower is not None:
            try:
                follower.leader_offsets(position, found[0], found[1])
            except LogError as refusal:
                self.broker.log_failed(followed.partition, refusal)
            self.broker.note_truncations(followed.partition)
            followed.not_before = 0.0
            self._kick(overtake=True)


class FetcherPool:
    """The fetchers by leader (``num.replica.fetchers`` = 1 for each source broker)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._where: dict[HostedPartition, int] = {}

    def follow(self, partition: HostedPartition, leader_id: int) -> None:
        """(Re)start fetching: first out of the old fetcher, then into the new one, also when the leader is the same."""
        self.unfollow(partition)
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(self._broker, leader_id)
        self._where[partition] = leader_id
        fetcher.add(partition)

    def unfollow(self, partition: HostedPartition) -> None:
        leader_id = self._where.pop(partition, None)
        if leader_id is None:
            return
        fetcher = self._fetchers[leader_id]
        fetcher.remove(partition)
        if fetcher.is_idle:
            del self._fetchers[leader_id]
            fetcher.stop()

    def flushed(self, partition: HostedPartition) -> None:
        """More of its log is on disk: it may be fetched for again, where flush.messages made it wait (R17)."""
        leader_id = self._where.get(partition)
        if leader_id is not None:
            self._fetchers[leader_id].flushed(partition)

    def stop(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._where.clear()
