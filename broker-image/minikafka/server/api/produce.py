"""Produce, from the frame to its answer. Transactions are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: a request with a
transactional id, and one with a batch that says it belongs to a transaction (`KafkaApis.handleProduceRequest`).

It is handled where it is read, without a task: the records stay views into the receive buffer, which are valid only until
`serve` returns (`replication/replicas.py` appends them before that). Compressed batches that hold much are decompressed and
walked in a thread first, for that takes milliseconds in which every other client would wait; the connection holds its frames
meanwhile, as Kafka mutes it. With acks=0 nothing is answered; after an error Kafka closes the connection then, so that the
client looks for a new leader.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from minikafka.log.config import LogConfig
from minikafka.log.record_validation import RecordsAhead, walk_ahead
from minikafka.protocol import produce as codec
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.compression import DecompressedTooLarge
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.records import COMPRESSION_MASK, TRANSACTIONAL_FLAG
from minikafka.protocol.wire import MalformedRequest, RequestHeader, TooManyRows
from minikafka.security.acls import Operation, ResourceType
from minikafka.server.api.spec import ApiSpec
from minikafka.server.walkers import WALKED_BYTES_MAX, WALKERS
from minikafka.transport.framing import IN_USE
from minikafka.transport.turn import Turn

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection, Slot

SPEC = ApiSpec(ApiKey.PRODUCE, codec.MIN_SUPPORTED, codec.MAX_SUPPORTED)

ACKS = (-1, 0, 1)
NEW_LEADER_VERSION = 10
"""The first version whose answer can name the leader that this broker is not (KIP-951)."""

Batches = list[tuple[memoryview, LogConfig]]
Results = list[tuple[str, list[PartitionResult]]]


def serve(connection: ClientConnection, frame: memoryview, header: RequestHeader, slot: Slot) -> bool:
    """Append what is in the frame; the slot is filled now, or when enough replicas have it.

    False: not before it has a turn, and a quota allows it.

    Raises MalformedRequest.
    """
    version = header.api_version
    if version > codec.MAX_SUPPORTED:
        raise MalformedRequest(f"Produce v{version} is not supported")
    rows_max = connection.rows_max(codec.BATCHES_MAX)
    try:
        request = codec.decode_produce(frame, header.end, version, rows_max)
    except TooManyRows:
        connection.wait_for_turn(rows_max)
        return False
    if connection.services.metadata.image.quotas.is_set:
        client = connection.client(header)
        if request.acks:
            connection.metered = client
        if not connection.may_go_on(client, SPEC.key):
            return False
        connection.services.quotas.produces(client, slot.size)
    _serve(connection, header, slot, request)
    return True


def _serve(connection: ClientConnection, header: RequestHeader, slot: Slot, request: ProduceRequest) -> None:
    version = header.api_version
    attributes = codec.attributes_of_any(request)
    refused = ErrorCode.NONE
    if request.acks not in ACKS:
        refused = ErrorCode.INVALID_REQUIRED_ACKS
    elif request.transactional_id is not None or attributes & TRANSACTIONAL_FLAG:
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif version < codec.ZSTD_VERSION_MIN and codec.has_zstd_records(request):
        refused = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if refused:
        connection.stats.rejected_bytes += sum(len(records or b"") for _, row in request.topics for _, records in row)
        _answer(connection, slot, header, request, codec.errors_for(request, refused))
        return
    denied = denied_topics(connection, request) if connection.services.authorization.enabled else []
    if denied and not request.topics:
        _answer(connection, slot, header, request, denied)
        return
    append = partial(_append, connection, slot, header, request, denied)
    if not attributes & COMPRESSION_MASK:
        append({})
        return
    now_ms = connection.services.context.clock.unix_ms()
    batches = _batches_to_walk(connection, request)
    ahead, large = _walk_small(batches, now_ms)
    if large:
        connection.hold_frames(IN_USE)
        _LargeBatches(connection, append, request, batches, large, ahead, now_ms).walk()
    else:
        append(ahead)


def denied_topics(connection: ClientConnection, request: ProduceRequest) -> Results:
    """Take topics out of a request that its client may not write to; the answers for them."""
    authorization, needed = connection.services.authorization, (Operation.WRITE, ResourceType.TOPIC)
    denied: Results = []
    allowed = []
    for name, row in request.topics:
        if authorization.allows(connection, *needed, name):
            allowed.append((name, row))
            continue
        authorization.denied(connection, SPEC.key, *needed, name)
        connection.stats.rejected_bytes += sum(len(records or b"") for _, records in row)
        denied.append((name, [PartitionResult(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index, _ in row]))
    request.topics = allowed
    return denied


def _append(
    connection: ClientConnection,
    slot: Slot,
    header: RequestHeader,
    request: ProduceRequest,
    denied: Results,
    ahead: dict[int, RecordsAhead],
) -> None:
    replicas = connection.services.replicas
    replicas.produce(request, lambda results: _answer(connection, slot, header, request, results + denied), ahead=ahead)
    if replicas.room is not None and replicas.room.waiting and slot.out is None:
        connection.pause()  # what is read meanwhile would wait in memory


def _batches_to_walk(connection: ClientConnection, request: ProduceRequest) -> Batches:
    """The compressed batches for partitions that are led here, each with its topic's settings."""
    found = []
    for topic, index, records in codec.compressed_batches(request):
        partition = connection.services.replicas.get(topic, index)
        if partition is not None and partition.leader is not None:
            found.append((records, partition.log.config))
    return found


def _walk_small(batches: Batches, now_ms: int) -> tuple[dict[int, RecordsAhead], Batches]:
    """What is known of the batches that hold little, and the others."""
    ahead: dict[int, RecordsAhead] = {}
    large = []
    for records, config in batches:
        bytes_max = WALKED_BYTES_MAX // len(batches)
        if len(records) > bytes_max:
            large.append((records, config))
            continue
        try:
            known = walk_ahead(records, config, now_ms, bytes_max)
        except DecompressedTooLarge:
            large.append((records, config))
        else:
            if known is not None:
                ahead[id(records)] = known
    return ahead, large


class _LargeBatches:
    """Those of one request. Threads walk over some at a time, so that others' batches have their turns between them."""

    __slots__ = ("_ahead", "_append", "_client", "_connection", "_left", "_now_ms", "_request", "_seen")

    def __init__(
        self,
        connection: ClientConnection,
        append: Callable[[dict[int, RecordsAhead]], None],
        request: ProduceRequest,
        seen: Batches,
        large: Batches,
        ahead: dict[int, RecordsAhead],
        now_ms: int,
    ) -> None:
        self._connection = connection
        self._append = append
        self._request = request
        self._seen = {id(records) for records, _ in seen}
        self._left = deque(large)
        self._ahead = ahead
        self._now_ms = now_ms
        self._client = connection.metered

    def walk(self) -> None:
        """Have those that are left walked over; then append all, and go on with the connection."""
        connection = self._connection
        threads = WALKERS.of(connection.asked_by)
        asyncio.get_running_loop().run_in_executor(threads, self._walk_some).add_done_callback(self._walked)

    @property
    def _is_in_vain(self) -> bool:
        """Whether the broker ends, or the client has gone and waited for an answer: it does not know what became of it."""
        connection = self._connection
        return connection.services.connections.ended or (self._request.acks != 0 and connection.has_hung_up)

    def _walk_some(self) -> float:
        """Walk over one batch, and over more while there is time; the seconds that it took."""
        began = time.thread_time()
        turn = Turn(self._connection.services.context.clock.now)
        while self._left and not self._is_in_vain:
            records, config = self._left.popleft()
            known = walk_ahead(records, config, self._now_ms)
            if known is not None:
                self._ahead[id(records)] = known
            if turn.is_over:
                break
        return time.thread_time() - began

    def _look_again(self) -> None:
        """Add those for partitions that are led here only now: else they would be walked over where they are appended."""
        for records, config in _batches_to_walk(self._connection, self._request):
            if id(records) not in self._seen:
                self._seen.add(id(records))
                self._left.append((records, config))

    def _walked(self, walk: asyncio.Future[float]) -> None:
        """Also of a client that has gone meanwhile: it may have asked for no answer."""
        connection = self._connection
        if walk.cancelled() or connection.services.connections.ended:
            return
        try:
            seconds = walk.result()
            if self._client is not None:
                connection.services.quotas.spent(self._client, seconds)
            if self._left and self._is_in_vain:
                connection.close()  # nothing of what it has sent behind this is appended without this
                return
            if not self._left:
                self._look_again()
            if self._left:
                self.walk()
                return
            connection.begin_round(time.perf_counter())
            connection.metered = self._client
            self._append(self._ahead)
        except Exception as error:  # a mistake of ours, as in `ClientConnection.frame_received`
            connection.services.context.handler_failed(error)
            connection.close()
        connection.release_frames(IN_USE)
        connection.batch_received()  # a connection that has gone has no end of a round any more


def _answer(
    connection: ClientConnection, slot: Slot, header: RequestHeader, request: ProduceRequest, results: Results
) -> None:
    failed = [result for _, row in results for result in row if result.error]
    if failed:
        stats = connection.stats
        stats.failed_produce += 1
        connection.count_errors(SPEC.key, [result.error for result in failed])
        for name, row in results:
            if name in stats.topics and any(result.error for result in row):
                stats.topics[name].failed_produce += 1
    throttle_ms, client = 0, None
    if connection.services.metadata.image.quotas.is_set:
        client = connection.client(header)
        seconds = slot.uncharged_seconds if request.acks else None
        throttle_ms = connection.services.quotas.produced(client, seconds)
        connection.muting.mute(throttle_ms)
    if request.acks == 0:
        connection.answer(slot, [])
        if failed:
            connection.close()
        return
    began = 0.0 if client is None else time.perf_counter()
    endpoints = connection.new_leaders(failed) if failed and header.api_version >= NEW_LEADER_VERSION else None
    answer = codec.encode_produce_response(header.api_version, header.correlation_id, results, endpoints, throttle_ms)
    connection.answer(slot, [answer])
    if client is not None:
        connection.services.quotas.spent(client, time.perf_counter() - began)
