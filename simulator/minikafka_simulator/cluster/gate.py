"""How the simulation's clients reach a broker: their requests, in Kafka's bytes, over connections without a network.

The way there is the simulated network's, which loses and delays whole requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.replicas import ReplicaManager
from minikafka.server.broker import Broker
from minikafka.server.connection import ClientConnection

from minikafka_simulator.cluster import frames
from minikafka_simulator.cluster.listeners import CLIENT_LISTENER
from minikafka_simulator.cluster.waiting import Waiting
from minikafka_simulator.machine.network import Reply
from minikafka_simulator.machine.transport import MemoryTransport, feed

PRODUCE, LIST_OFFSETS = (ApiKey.PRODUCE, frames.PRODUCE_VERSION), (ApiKey.LIST_OFFSETS, frames.LIST_OFFSETS_VERSION)
FETCH = ApiKey.FETCH, 12
"""API keys and the versions that are asked in."""
EARLIEST, LATEST = -2, -1

FETCH_BYTES_MAX = 1 << 30
Produced = tuple[ErrorCode, int]
"""Of a partition in a produce: the error, and the offset of the batch's first record."""

Answered = Callable[[messages.Entity], None]


class ClientTimes(Protocol):
    """How long clients are waited for, in virtual seconds, and the trace."""

    produce_timeout: float

    @property
    def now(self) -> float: ...

    def reader_wait(self) -> float:
        """How long a leader keeps a reader's fetch when there is nothing to send."""

    def note(self, line: str) -> None:
        """Write a line of the trace."""


class ServedBroker(Protocol):
    """The broker that clients reach."""

    @property
    def id(self) -> int: ...
    @property
    def world(self) -> ClientTimes: ...
    @property
    def server(self) -> Broker | None: ...
    @property
    def partitions(self) -> dict[TopicPartition, HostedPartition]: ...


class _Connection(MemoryTransport):
    """A client's, with one request under way at most."""

    def __init__(self, broker: ServedBroker) -> None:
        super().__init__()
        self.open = True
        self._came = bytearray()
        self._answered: Callable[[bytes], None] | None = None
        self._lost: Callable[[], None] | None = None
        assert broker.server is not None
        self._served = ClientConnection(broker.server.services, CLIENT_LISTENER)
        self._served.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("client", 0) if name == "peername" else default

    def ask(self, frame: bytes, answered: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        """``lost``: the broker has closed the connection instead."""
        if not self.open:
            lost()
            return
        self._answered, self._lost = answered, lost
        self.tell(frame)

    def tell(self, frame: bytes) -> None:
        """Send a request that has no answer."""
        feed(self._served, frame, lambda: self.open)

    @property
    def idle(self) -> bool:
        return self.open and self._answered is None

    def send(self, data: bytes | bytearray | memoryview[Any], flags: int = 0) -> int:
        del flags
        self._came += data
        if len(self._came) >= 4:
            size = 4 + int.from_bytes(self._came[:4], "big")
            if len(self._came) >= size:
                frame = bytes(self._came[4:size])
                del self._came[:size]
                answered, self._answered = self._answered, None
                assert answered is not None
                answered(frame)
        return len(data)

    def pause_reading(self) -> None:
        """One request at a time is never too much."""

    def resume_reading(self) -> None:
        """See above."""

    def abort(self) -> None:
        if self.open:
            self.open = False
            self._served.connection_lost(None)
            if self._answered is not None and self._lost is not None:
                self._lost()


class Gate:
    """Of one incarnation."""

    def __init__(self, broker: ServedBroker) -> None:
        self.broker = broker
        self._connections: list[_Connection] = []
        self._waiting: list[Waiting] = []
        self._nothing = ReplicaManager.__new__(ReplicaManager)
        self._nothing.by_name = {}

    @property
    def replicas(self) -> ReplicaManager:
        server = self.broker.server
        return self._nothing if server is None else server.replicas

    def overdue(self, awake_since: float) -> str | None:
        """A request that should have been answered by now; ``awake_since``: the broker ran without a pause."""
        if not self._waiting:
            return None
        self._waiting = [waiting for waiting in self._waiting if not waiting.answered]
        now = self.broker.world.now
        return next(filter(None, (waiting.overdue(now, awake_since) for waiting in self._waiting)), None)

    def ask(
        self, api: tuple[int, int], values: dict[str, Any], answered: Answered, waiting: Waiting | None = None
    ) -> None:
        """One request of a client, and its answer if there is one."""
        self.send(api, frames.frame(api, values), answered, waiting)

    def send(self, api: tuple[int, int], frame: bytes, answered: Answered, waiting: Waiting | None = None) -> None:
        """The same of a request that is a frame already."""

        def came(raw: bytes) -> None:
            answered(messages.decode_response(*api, messages.answer_body(*api, raw)))

        def lost() -> None:
            if waiting is not None:
                waiting.answered = True

        self._idle_connection().ask(frame, came, lost)

    def _idle_connection(self) -> _Connection:
        self._connections = [connection for connection in self._connections if connection.open]
        connection = next((one for one in self._connections if one.idle), None)
        if connection is None:
            connection = _Connection(self.broker)
            self._connections.append(connection)
        return connection

    # -- what clients ask -----------------------------------------------------------------------------------------------

    def produce(self, parts: Sequence[tuple[TopicPartition, bytes]], acks: int, reply: Reply) -> None:
        """A client's batches; ``reply`` gets a list of :data:`Produced`, an empty one when nothing is answered (acks=0)."""
        timeout_ms = int(self.broker.world.produce_timeout * 1000)
        frame = frames.produce(parts, acks, timeout_ms)
        if not acks:
            self._idle_connection().tell(frame)
            reply([])
            return
        world, hosted = self.broker.world, self.broker.partitions
        asked = [partition for tp in dict.fromkeys(tp for tp, _ in parts) if (partition := hosted.get(tp)) is not None]
        before = [(partition, partition.log.log_end_offset) for partition in asked]
        waiting = Waiting(world.now + world.produce_timeout)

        def answered(answer: messages.Entity) -> None:
            waiting.answered = True
            rows = [row for topic in answer.responses for row in topic.partition_responses]
            reply([(ErrorCode(int(row.error_code)), row.base_offset) for row in rows])

        self.send(PRODUCE, frame, answered, waiting)
        for partition, end in before:
            if (now := partition.log.log_end_offset) > end:
                world.note(f"b{self.broker.id} {partition.topic_partition} leads append {end}..{now}")
        if waiting.answered or not before:
            return
        room = self.replicas.room
        if room is None or not room.waiting:  # else it may not be appended yet
            waiting.parts = [(partition, partition.log.log_end_offset) for partition in asked]
        self._waiting.append(waiting)

    def serve_reader(
        self, tp: TopicPartition, leader_epoch: int, position: int, last_epoch: int, limit: int, reply: Reply
    ) -> None:
        """A client's fetch; ``reply`` gets (error, records below the high watermark, where the log parts or None)."""
        world = self.broker.world
        waiting = Waiting(world.now + (wait := world.reader_wait()))
        asked = {
            "partition": tp.partition,
            "current_leader_epoch": leader_epoch,
            "fetch_offset": position,
            "last_fetched_epoch": last_epoch,
            "log_start_offset": -1,
            "partition_max_bytes": limit,
        }

        def answered(answer: messages.Entity) -> None:
            waiting.answered = True
            part = answer.responses[0].partitions[0]
            parts = part.diverging_epoch
            diverging = None if parts is None or parts.end_offset < 0 else (parts.epoch, parts.end_offset)
            reply((ErrorCode(int(part.error_code)), part.records or b"", diverging))

        values = {
            "replica_id": -1,
            "max_wait": int(wait * 1000),
            "min_bytes": 1,
            "max_bytes": FETCH_BYTES_MAX,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": tp.topic, "partitions": [asked]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        self.ask(FETCH, values, answered, waiting)
        if not waiting.answered:
            self._waiting.append(waiting)

    def serve_bounds(self, tp: TopicPartition, leader_epoch: int, reply: Reply) -> None:
        """ListOffsets, earliest and latest; ``reply`` gets (start, end, leader epoch) when this leader knows them."""
        self._bound(
            tp,
            leader_epoch,
            EARLIEST,
            lambda start, _: self.serve_end(tp, leader_epoch, lambda end: reply((start, *end))),
        )

    def serve_end(self, tp: TopicPartition, leader_epoch: int, reply: Reply) -> None:
        """ListOffsets, latest; ``reply`` gets (end, leader epoch) when this leader knows them."""
        self._bound(tp, leader_epoch, LATEST, lambda end, epoch: reply((end, epoch)))

    def _bound(self, tp: TopicPartition, leader_epoch: int, timestamp: int, known: Callable[[int, int], None]) -> None:
        def answered(answer: messages.Entity) -> None:
            part = answer.topics[0].partitions[0]
            if not int(part.error_code):
                known(part.offset, part.leader_epoch)

        self.send(LIST_OFFSETS, frames.list_offsets(*tp, leader_epoch, timestamp), answered)
