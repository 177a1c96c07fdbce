"""Produce, from the frame to its answer. Transactions are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: a request with a
transactional id, and one with a batch that says it belongs to a transaction (`KafkaApis.handleProduceRequest`).

It is handled where it is read, without a task: the records stay views into the receive buffer, which are valid only until
`serve` returns (`replication/replicas.py` appends them before that). Large compressed batches are decompressed and walked in a
thread first, for that takes milliseconds in which every other client would wait; the connection holds its frames meanwhile, as
Kafka mutes it. With acks=0 nothing is answered; after an error Kafka closes the connection then, so that the client looks for a
new leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from minikafka.log.config import LogConfig
from minikafka.log.record_validation import RecordsAhead, walk_ahead
from minikafka.protocol import produce as codec
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.wire import MalformedRequest, RequestHeader
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection, Slot

SPEC = ApiSpec(ApiKey.PRODUCE, codec.MIN_SUPPORTED, codec.MAX_SUPPORTED)

ACKS = (-1, 0, 1)
LARGE_BATCH_BYTES = 32 * 1024
"""A compressed batch of so many bytes is decompressed in a thread: it takes 0.1 (lz4) to 0.4 ms (gzip), a thread's answer 0.1."""
NEW_LEADER_VERSION = 10
"""The first version whose answer can name the leader that this broker is not (KIP-951)."""

Results = list[tuple[str, list[PartitionResult]]]


def serve(connection: ClientConnection, frame: memoryview, header: RequestHeader, slot: Slot) -> None:
    """Append what is in the frame; the slot is filled now, or when enough replicas have it. Raises MalformedRequest."""
    version = header.api_version
    if version > codec.MAX_SUPPORTED:
        raise MalformedRequest(f"Produce v{version} is not supported")
    request = codec.decode_produce(frame, header.end, version)
    refused = ErrorCode.NONE
    if request.acks not in ACKS:
        refused = ErrorCode.INVALID_REQUIRED_ACKS
    elif request.transactional_id is not None or codec.has_transactional_records(request):
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif version < codec.ZSTD_VERSION_MIN and codec.has_zstd_records(request):
        refused = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if refused:
        connection.stats.rejected_bytes += sum(len(records or b"") for _, row in request.topics for _, records in row)
        _answer(connection, slot, header, request, codec.errors_for(request, refused))
        return
    append = partial(_append, connection, slot, header, request)
    if len(frame) >= LARGE_BATCH_BYTES and (batches := _batches_to_walk(connection, request)):
        connection.hold_frames()
        _walk(batches).add_done_callback(partial(_walked, connection, append))
    else:
        append({})


def _append(
    connection: ClientConnection,
    slot: Slot,
    header: RequestHeader,
    request: ProduceRequest,
    ahead: dict[int, RecordsAhead],
) -> None:
    replicas = connection.broker.replicas
    replicas.produce(request, lambda results: _answer(connection, slot, header, request, results), ahead=ahead)
    if replicas.room is not None and replicas.room.waiting and slot.out is None:
        connection.pause()  # what is read meanwhile would wait in memory


def _batches_to_walk(connection: ClientConnection, request: ProduceRequest) -> list[tuple[memoryview, LogConfig]]:
    """The large compressed batches for partitions that are led here, each with its topic's settings."""
    found = []
    for topic, index, records in codec.large_compressed_batches(request, LARGE_BATCH_BYTES):
        partition = connection.broker.replicas.get(topic, index)
        if partition is not None and partition.leader is not None:
            found.append((records, partition.log.config))
    return found


def _walk(batches: list[tuple[memoryview, LogConfig]]) -> asyncio.Future[dict[int, RecordsAhead]]:
    def walk() -> dict[int, RecordsAhead]:
        found = ((id(records), walk_ahead(records, config)) for records, config in batches)
        return {key: known for key, known in found if known is not None}

    return asyncio.get_running_loop().run_in_executor(None, walk)


def _walked(
    connection: ClientConnection,
    append: Callable[[dict[int, RecordsAhead]], None],
    walk: asyncio.Future[dict[int, RecordsAhead]],
) -> None:
    """Append, and go on with the connection. Also of a client that has gone meanwhile: it may have asked for no answer."""
    if walk.cancelled() or connection.broker.connections.ended:
        return
    try:
        append(walk.result())
    except Exception as error:  # a mistake of ours, as in `ClientConnection.frame_received`
        connection.broker.context.handler_failed(error)
        connection.close()
    connection.release_frames()
    connection.broker.replicas.flush_ready()  # a connection that has gone has no end of a round any more


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
    if request.acks == 0:
        connection.answer(slot, [])
        if failed:
            connection.close()
        return
    endpoints = connection.new_leaders(failed) if failed and header.api_version >= NEW_LEADER_VERSION else None
    connection.answer(
        slot, [codec.encode_produce_response(header.api_version, header.correlation_id, results, endpoints)]
    )
