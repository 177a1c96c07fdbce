"""A client's connection: requests in, answers out in the order of the requests.

Produce and Fetch are handled where they are read, without a task. Every other request becomes a task; those of one
connection run one after the other, as a client that pipelines them expects (Kafka mutes a connection meanwhile; here the
hot requests behind a slow one are worked on, and only their answers wait).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from minikafka.controller.heartbeats import Heartbeats
from minikafka.protocol import fetch as fetch_codec
from minikafka.protocol import messages, wire
from minikafka.protocol import produce as produce_codec
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.fetch import FetchRequest, PartitionData
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.wire import MalformedRequest, RequestHeader
from minikafka.replication.purgatory import DelayedFetch, FetchTopics
from minikafka.server.framing import FrameProtocol

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18

FETCH_FOLLOWER = 1001
"""A Fetch of a broker, where requests are counted: Kafka tells it from a client's, too. No such key on the wire."""

FORWARDED = frozenset({19, 20, 33, 37, 43, 44, 45, 46})
"""Requests that only the controller can carry out; any broker takes them and passes them on, as in KRaft."""

NodeEndpoints = list[tuple[int, str, int, str | None]]
"""(id, host, port, rack) of each broker that an answer names."""

PIPELINE_MAX = 1000
"""Requests of one connection that may be unanswered; over it nothing more is read until some are."""


class Slot:
    """The place of one answer in the order of a connection."""

    __slots__ = ("api_key", "out", "parked", "ready", "size", "started")

    def __init__(self, api_key: int, started: float, size: int) -> None:
        self.api_key = api_key
        self.started = started
        self.size = size
        self.out: list[Any] | None = None
        self.parked = 0.0
        """When its handler had done what it could, and the answer began to wait (for others, for those before it); 0: never."""
        self.ready: float
        """When the answer was there, but not its turn; 0: it never waited for that. Set where ``parked`` is."""


class RequestContext:
    """What a cold handler may know of its request."""

    __slots__ = ("api_version", "client_host", "client_id", "connection", "header", "inter_broker", "listener")

    def __init__(self, connection: ClientConnection, header: RequestHeader) -> None:
        self.connection = connection
        self.header = header
        self.api_version = header.api_version
        self.client_id = header.client_id or ""
        self.client_host = connection.client_host
        self.listener = connection.listener
        self.inter_broker = connection.inter_broker


TIMER_SECONDS_MIN = 0.001
"""Timers of uvloop count milliseconds."""


def _refused(request: FetchRequest) -> FetchTopics:
    """A Fetch by somebody who calls itself a replica, and may not: Kafka's answer to a lack of CLUSTER_ACTION.

    Served, it would read above the high watermark, move it, and hold a dead follower in the ISR.
    """
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [(key, [PartitionData(asked.partition, code) for asked in partitions]) for key, partitions in request.topics]


def error_codes(answer: Any) -> Iterator[int]:
    """Every error code in the values of an answer, at whatever depth; NONE is none."""
    if isinstance(answer, Mapping):
        code = answer.get("error_code")
        if code:
            yield code
        answer = answer.values()
    elif not isinstance(answer, list | tuple):
        return
    for value in answer:
        if isinstance(value, Mapping | list | tuple):
            yield from error_codes(value)


class ClientConnection(FrameProtocol):
    """One accepted connection."""

    def __init__(self, broker: Broker, listener: str) -> None:
        super().__init__()
        self.broker = broker
        self.stats = broker.stats
        self.listener = listener
        self.inter_broker = listener == broker.config.inter_broker_listener
        """Whether brokers talk to each other here. Elsewhere nobody is believed to be one."""
        self.max_frame_bytes = broker.config.socket_request_max_bytes
        self.client_host = ""
        self.slots: deque[Slot] = deque()
        self._cold: deque[tuple[Slot, RequestHeader, bytes]] = deque()
        self._cold_task: asyncio.Task[None] | None = None
        self._parked: DelayedFetch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._last_request = time.perf_counter()
        self._busy_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self.heartbeats_of: Heartbeats | None = None
        """Set when a broker's heartbeats come over this connection."""

    # -- life -----------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if isinstance(peer, tuple) else ""
        if not self.broker.connections.opened(self):
            transport.close()
            return
        super().connection_made(transport)
        self._watch_idleness()

    def _watch_idleness(self) -> None:
        """``connections.max.idle.ms``: one timer a connection, which follows its last request."""
        config = self.broker.config
        allowed = config.connections_max_idle_ms / 1000
        if allowed < 0 or self.loop is None:
            return
        if self.heartbeats_of is not None:  # their end looks like a death, so not before the session is over
            allowed = max(allowed, config.broker_session_timeout_ms / 1000)
        left = allowed - (time.perf_counter() - self._last_request)
        if left <= 0 and not self.slots:
            self.close()
            return
        self._idle_timer = self.loop.call_later(left if left > 0 else allowed, self._watch_idleness)

    def closed(self) -> None:
        if self._cold_task is not None:
            self._cold_task.cancel()
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        if self._parked is not None:
            self._parked.give_up()
        self.slots.clear()
        self.broker.connections.closed(self)

    def unreadable(self, file: Any, error: OSError) -> None:
        self.broker.file_failed(file, error)

    def bad_frame(self, size: int) -> None:
        self.broker.bad_request(
            self, f"a request of {size} bytes; socket.request.max.bytes allows 0 to {self.max_frame_bytes}"
        )

    # -- requests ---------------------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview) -> None:
        started = self._last_request = time.perf_counter()
        if not self._busy_since:
            self._busy_since = started
        try:
            header = wire.read_header(frame)
            slot = Slot(header.api_key, started, len(frame))
            self.slots.append(slot)
            if header.api_key == PRODUCE and header.api_version >= produce_codec.MIN_SUPPORTED:
                self._produce(frame, header, slot)
            elif header.api_key == FETCH:
                self._fetch(frame, header, slot)
            else:
                self._cold_request(frame, header, slot)
            if slot.out is None:
                slot.parked, slot.ready = time.perf_counter(), 0.0
        except MalformedRequest as error:
            self.broker.bad_request(self, str(error))
            self.close()
            return
        except Exception as error:  # a mistake of ours: the client sees a closed connection, the operator a line
            self.broker.handler_failed(error)
            self.close()
            return
        if len(self.slots) > PIPELINE_MAX and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    @property
    def is_waiting(self) -> bool:
        """Whether a Fetch is parked here."""
        return self._parked is not None and not self._parked.is_over

    def batch_received(self) -> None:
        self.broker.replicas.flush_ready()
        if self._busy_since:
            self.stats.handler_seconds += time.perf_counter() - self._busy_since
            self._busy_since = 0.0

    @property
    def queued_requests(self) -> int:
        """Requests that wait for the one that is worked on."""
        return len(self._cold)

    def answer(self, slot: Slot, out: list[Any]) -> None:
        """Fill a slot; send every answer at the front of the line that is ready. An empty list answers nothing."""
        slot.out = out
        slots = self.slots
        if not slots or slots[0].out is None:
            slot.ready = time.perf_counter()
            slot.parked = slot.parked or slot.ready
            return
        parts: list[Any] = []
        now = time.perf_counter()
        stats = self.stats
        while slots and slots[0].out is not None:
            first = slots.popleft()
            assert first.out is not None
            parts += first.out
            times = stats.observe_request(first.api_key, now - first.started, first.size)
            if first.parked:
                ready = first.ready or now
                times.response_queued += now - ready
                times.remote += ready - first.parked
        if self._paused and len(slots) <= PIPELINE_MAX // 2 and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
        if parts:
            self.send(parts)

    # -- Produce --------------------------------------------------------------------------------------------------------

    def _produce(self, frame: memoryview, header: RequestHeader, slot: Slot) -> None:
        version = header.api_version
        if version > produce_codec.MAX_SUPPORTED:
            raise MalformedRequest(f"Produce v{version} is not supported")
        request = produce_codec.decode_produce(frame, header.end, version)
        refused = ErrorCode.NONE
        if request.acks not in (-1, 0, 1):
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        elif request.transactional_id is not None:
            refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if refused:
            self.broker.stats.rejected_bytes += sum(
                len(records or b"") for _, row in request.topics for _, records in row
            )
            self._produced(slot, header, request, produce_codec.errors_for(request, refused))
            return
        self.broker.replicas.produce(request, lambda results: self._produced(slot, header, request, results))

    def _produced(
        self,
        slot: Slot,
        header: RequestHeader,
        request: ProduceRequest,
        results: list[tuple[str, list[PartitionResult]]],
    ) -> None:
        failed = [result for _, row in results for result in row if result.error]
        if failed:
            stats = self.broker.stats
            stats.failed_produce += 1
            self._count_errors(PRODUCE, [result.error for result in failed])
            for name, row in results:
                if name in stats.topics and any(result.error for result in row):
                    stats.topics[name].failed_produce += 1
        if request.acks == 0:
            self._unacknowledged(slot, bool(failed))
            return
        endpoints = self._new_leaders(failed) if failed and header.api_version >= 10 else None
        self.answer(
            slot,
            [produce_codec.encode_produce_response(header.api_version, header.correlation_id, results, endpoints)],
        )

    def _unacknowledged(self, slot: Slot, failed: bool) -> None:
        """acks=0 gets no answer; after an error Kafka closes the connection, so that the client looks for a new leader."""
        self.answer(slot, [])
        if failed:
            self.close()

    def _new_leaders(self, failed: Iterable[PartitionResult | PartitionData]) -> NodeEndpoints | None:
        """KIP-951: where the leaders are that this broker is not."""
        leaders = {part.current_leader[0] for part in failed if part.current_leader is not None}
        return self.broker.endpoints_of(leaders, self.listener) if leaders else None

    def _count_errors(self, api_key: int, codes: Iterable[int]) -> None:
        for code in codes:
            self.broker.stats.count_error(api_key, code)

    # -- Fetch ----------------------------------------------------------------------------------------------------------

    def _fetch(self, frame: memoryview, header: RequestHeader, slot: Slot) -> None:
        version = header.api_version
        if not fetch_codec.MIN_SUPPORTED <= version <= fetch_codec.MAX_SUPPORTED:
            raise MalformedRequest(f"Fetch v{version} is not supported")
        request = fetch_codec.decode_fetch(frame, header.end, version)
        request.max_bytes = min(request.max_bytes, self.broker.config.fetch_max_bytes)
        request.min_bytes = min(request.min_bytes, request.max_bytes)
        if request.replica_id >= 0:
            slot.api_key = FETCH_FOLLOWER
        if request.replica_id >= 0 and not self.inter_broker:
            self._fetched(header, request, slot, _refused(request), 0)
            return
        parked = self.broker.replicas.fetch(request, partial(self._fetched, header, request, slot))
        if parked is None:
            return
        if self._parked is not None:  # a client that pipelines fetches: only one may wait
            self._parked.retry(True)
        self._parked = parked
        if self._timer is None and self.loop is not None:
            self._timer = self.loop.call_later(request.max_wait_ms / 1000, self._fetch_due)

    def _fetch_due(self) -> None:
        """One timer a connection: it follows the deadline of whatever is parked, instead of one timer a fetch."""
        self._timer = None
        parked = self._parked
        if parked is None or parked.is_over or self.loop is None:
            return
        left = parked.deadline - time.monotonic()
        if left <= TIMER_SECONDS_MIN:
            parked.retry(True)
        else:
            self._timer = self.loop.call_later(left, self._fetch_due)

    def _fetched(self, header: RequestHeader, request: FetchRequest, slot: Slot, topics: Any, total: int) -> None:
        stats = self.broker.stats
        if request.replica_id >= 0:
            stats.replication_bytes_out += total
        failed = self.broker.replicas.answered(topics, total > 0 > request.replica_id)
        if failed:
            stats.failed_fetch += 1
            self._count_errors(FETCH, [data.error for data in failed])
        endpoints = self._new_leaders(failed) if failed and header.api_version >= 16 else None
        self.answer(
            slot,
            fetch_codec.encode_fetch_response(header.api_version, header.correlation_id, topics, 0, endpoints),
        )

    # -- everything else ------------------------------------------------------------------------------------------------

    def _cold_request(self, frame: memoryview, header: RequestHeader, slot: Slot) -> None:
        self._cold.append((slot, header, bytes(frame[header.end :])))
        if self._cold_task is None:
            self._cold_task = asyncio.ensure_future(self._run_cold())

    async def _run_cold(self) -> None:
        try:
            while self._cold:
                slot, header, body = self._cold.popleft()
                self.broker.stats.times_of(slot.api_key).queued += time.perf_counter() - slot.started
                slot.parked = 0.0
                self.answer(slot, [await self._answer_cold(header, body)])
        except MalformedRequest as error:
            self.broker.bad_request(self, str(error))
            self.close()
        except Exception as error:  # a mistake of ours: the client sees a closed connection, the operator a line
            self.broker.handler_failed(error)
            self.close()
        finally:
            self._cold_task = None

    async def _answer_cold(self, header: RequestHeader, body: bytes) -> bytes:
        """The frame of the answer; raises MalformedRequest when only closing the connection is left."""
        key, version = header.api_key, header.api_version
        handler = self.broker.handlers.get(key)
        if handler is None:
            raise MalformedRequest(f"API key {key} v{version} is unknown or not supported")
        spec, handle = handler
        if spec.inter_broker and not self.inter_broker:
            raise MalformedRequest(f"{spec.name} is for brokers; it is not served on listener {self.listener}")
        if not spec.min_version <= version <= spec.max_version:
            if key == API_VERSIONS:  # KIP-511: answered in version 0, so that the client learns what it may ask
                self._count_errors(key, (ErrorCode.UNSUPPORTED_VERSION,))
                answer = messages.encode_response(
                    key, 0, self.broker.api_versions(self.inter_broker, ErrorCode.UNSUPPORTED_VERSION)
                )
                return wire.response_frame(header.correlation_id, answer, False)
            raise MalformedRequest(
                f"{spec.name} v{version} is not supported ({spec.min_version} to {spec.max_version} are)"
            )
        flexible = messages.is_flexible(key, version)
        if flexible:
            try:
                body = body[wire.skip_tags(body, 0) :]
            except IndexError as error:
                raise MalformedRequest(f"{spec.name} v{version} ends in its header") from error
        if key in FORWARDED and not self.broker.membership.leads:
            try:
                answer = await self.broker.membership.forward(key, version, body)
                await self.broker.image_caught_up()
                return wire.response_frame(header.correlation_id, answer, flexible)
            except KafkaError:
                pass  # no controller to be reached: the handler says NOT_CONTROLLER in the words of its API
        request = messages.decode_request(key, version, body)
        values = await handle(self.broker, RequestContext(self, header), request)
        self._count_errors(key, error_codes(values))
        answer = messages.encode_response(key, version, values)
        return wire.response_frame(header.correlation_id, answer, flexible and key != API_VERSIONS)
