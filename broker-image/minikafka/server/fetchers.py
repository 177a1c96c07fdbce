"""Carries the fetches of a follower (R2): the connection to one leader, and what :class:`FetchLoop` wants asked over it.

An answer is appended inside the receive callback, straight from the receive buffer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.fetch import decode_follower_response, encode_follower_fetch
from minikafka.protocol.wire import MalformedRequest
from minikafka.replication.fetch_loop import BACKOFF_SECONDS_FIRST, FetchLoop, Key, Taken
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server.context import BrokerContext
from minikafka.server.metadata_cache import MetadataCache
from minikafka.transport.peer import PeerClosed, PeerConnection

CONNECT_SECONDS_MAX = 1.0

WAIT_MS_OF_MANY = 10
"""How long a leader may wait with its answer while others that follow it are not asked for."""

LIST_OFFSETS_VERSION = 7
LATEST, EARLIEST = -1, -2


class ReplicaFetcher:
    """Fetches everything we follow from one leader.

    Args:
        context: see there.
        metadata: where the leader is; told when its connection closes.
        reporter: told of what answers bring.
        broker_epoch: that of this broker's registration now.
        flush: begins a flush of a replica that may not be counted before it.
        no_room: see :class:`FetchLoop`.
        leader_id: see above.
    """

    def __init__(
        self,
        context: BrokerContext,
        metadata: MetadataCache,
        reporter: ReplicaReporter,
        broker_epoch: Callable[[], int],
        flush: Callable[[HostedPartition], None],
        no_room: Callable[[], None],
        leader_id: int,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._reporter = reporter
        self._broker_epoch = broker_epoch
        self._flush = flush
        self.leader_id = leader_id
        self._loop = FetchLoop[HostedPartition](leader_id, context.config.replica_fetch_backoff_ms / 1000, no_room)
        self._connection: PeerConnection | None = None
        self._running: asyncio.AbstractEventLoop | None = None
        """The loop of the connection. `asyncio.get_running_loop` asks the kernel for the process's id, which shows in a fetch."""
        self._connecting: asyncio.Task[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ends = 0.0
        """Kept here, for uvloop gives a handle that does not know it where the time is over in less than a millisecond."""
        self._stopped = False
        self._tasks: dict[asyncio.Task[bool], None] = {}

    # -- membership -----------------------------------------------------------------------------------------------------

    def add(self, partition: HostedPartition) -> None:
        """Follow a partition, in a new term of its leader. A fetch that is parked there is overtaken, not awaited."""
        self._loop.follow(partition)
        self._kick(overtake=True)

    def remove(self, partition: HostedPartition) -> None:
        if self._loop.unfollow(partition):
            self._context.supervisor.clear(f"replica {partition.topic_partition}")

    def flushed(self, partition: HostedPartition) -> None:
        """More of its log is on disk. If it was held back, it may be asked for now; a fetch that is parked without it is
        overtaken."""
        if self._loop.flushed(partition):
            self._kick(overtake=True)

    def _flush_soon(self) -> None:
        for partition in self._loop.owe_flush():
            self._flush(partition)

    @property
    def is_idle(self) -> bool:
        return self._loop.is_idle

    def stop(self) -> None:
        """Close the connection; nothing is applied after this."""
        self._stopped = True
        self._loop.clear()
        self._context.supervisor.clear(self._component)
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
        if self._stopped or self._loop.is_idle:
            return
        connection = self._connection
        if connection is None or not connection.is_open:
            if self._connecting is None:
                self._connecting = self._context.supervisor.once(self._component, self._connect)
                self._connecting.add_done_callback(self._connected)
            return
        running = self._running
        assert running is not None, "who has connected has run in a loop"
        asked = self._loop.next_fetch(running.time(), overtake)
        self._flush_soon()
        self._set_timer(running)
        if asked:
            self._fetch(connection, asked)

    def _set_timer(self, running: asyncio.AbstractEventLoop) -> None:
        """For the first of the partitions that back off: one that began later may be over sooner."""
        wake_at, timer = self._loop.wake_at, self._timer
        if wake_at is None or (timer is not None and self._timer_ends <= wake_at):
            return
        if timer is not None:
            timer.cancel()
        self._timer, self._timer_ends = running.call_at(wake_at, self._backed_off), wake_at

    async def _connect(self) -> None:
        self._running = asyncio.get_running_loop()
        delay = BACKOFF_SECONDS_FIRST
        config = self._context.config
        limit = config.replica_fetch_backoff_ms / 1000
        try:
            while not self._stopped and not self._loop.is_idle:
                address = self._metadata.address_of(self.leader_id)
                if address is not None:
                    try:
                        self._connection = await self._context.channels.connect(
                            *address,
                            self._context.client_id("fetcher"),
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
        self._loop.disconnected()

    def _connected(self, connecting: asyncio.Task[bool]) -> None:
        if not self._stopped:
            self._later(0.0 if not connecting.cancelled() and connecting.result() else CONNECT_SECONDS_MAX)

    def _later(self, seconds: float, overtake: bool = False) -> None:
        """Look again, until that goes well: a fetcher that nobody kicks would stand still for ever."""

        def look() -> None:
            if not self._context.supervisor.call(self._component, lambda: self._kick(overtake)):
                self._later(CONNECT_SECONDS_MAX, overtake)

        asyncio.get_running_loop().call_later(seconds, look)

    @property
    def _component(self) -> str:
        return f"fetcher of leader {self.leader_id}"

    def _disconnected(self) -> None:
        address = self._metadata.address_of(self.leader_id)
        if self._connection is not None and self._connection.timed_out and address is not None:
            self._context.heard_nothing_from(f"leader {self.leader_id}", *address)
        self._connection = None
        self._loop.disconnected()
        if not self._stopped:
            self._metadata.suspect(self.leader_id)
            self._later(BACKOFF_SECONDS_FIRST)

    def _fetch(self, connection: PeerConnection, asked: dict[Key, FetchPosition]) -> None:
        topics: dict[bytes, list[tuple[int, int, int, int, int, int]]] = {}
        config, room = self._context.config, max(1, self._loop.room)
        wait_ms = config.replica_fetch_wait_max_ms
        max_part = min(config.replica_fetch_max_bytes, room)
        for (topic_id, index), position in asked.items():
            topics.setdefault(topic_id, []).append(
                (
                    index,
                    position.leader_epoch,
                    position.offset,
                    position.last_fetched_epoch,
                    position.log_start_offset,
                    max_part,
                )
            )
        correlation = connection.next_correlation()
        frame = encode_follower_fetch(
            correlation,
            self._context.client_id("fetcher"),
            self._context.broker_id,
            self._broker_epoch(),
            min(wait_ms, WAIT_MS_OF_MANY) if self._loop.has_more else wait_ms,
            config.replica_fetch_min_bytes,
            min(config.replica_fetch_response_max_bytes, room),
            list(topics.items()),
        )
        connection.send_frame(correlation, frame, self._answer_to(connection, asked))

    def _backed_off(self) -> None:
        self._timer = None
        self._later(0.0, overtake=True)

    def _answer_to(
        self, connection: PeerConnection, asked: dict[Key, FetchPosition]
    ) -> Callable[[memoryview | None], None]:
        running = self._running
        assert running is not None

        def on_answer(frame: memoryview | None) -> None:
            if frame is None or self._stopped or connection is not self._connection:
                return
            try:
                error, partitions = decode_follower_response(frame)
            except MalformedRequest:
                connection.close()
                return
            for taken in self._loop.answered(asked, error, partitions, running.time()):
                try:
                    self._took(taken)
                except Exception as error:  # to report it failed; the loop goes on
                    self._context.supervisor.report(f"replica {taken.partition.topic_partition}", error)
            self._flush_soon()
            if self._loop.may_fetch_on:
                self._kick(overtake=True)

        return on_answer

    # -- what came of answers -------------------------------------------------------------------------------------------

    def _took(self, taken: Taken[HostedPartition]) -> None:
        partition, context = taken.partition, self._context
        context.stats.replication_bytes_in += taken.size
        if taken.broke is not None:
            context.supervisor.report(f"replica {partition.topic_partition}", taken.broke)
        if taken.recovered:
            context.supervisor.clear(f"replica {partition.topic_partition}")
        if taken.outcome is FetchOutcome.OUT_OF_RANGE:
            task = context.supervisor.once(self._component, self._ask_offsets, partition, taken.position)
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)
        self._report(taken)

    def _report(self, taken: Taken[HostedPartition]) -> None:
        if taken.failure is not None:
            self._reporter.log_failed(taken.partition, taken.failure)
        self._reporter.fetched(taken, self.leader_id)

    async def _ask_offsets(self, partition: HostedPartition, position: FetchPosition) -> None:
        """KAFKA-7414: what range does the leader hold?"""
        connection = self._connection
        if connection is None:
            return
        topic, index = partition.topic_partition
        found = []
        try:
            for timestamp in (EARLIEST, LATEST):
                answer = await connection.request(
                    ApiKey.LIST_OFFSETS,
                    LIST_OFFSETS_VERSION,
                    {
                        "replica_id": self._context.broker_id,
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
        earliest, latest = found
        taken = self._loop.leader_range(partition, position, earliest, latest, asyncio.get_running_loop().time())
        if taken is not None:
            self._report(taken)
            self._kick(overtake=True)
