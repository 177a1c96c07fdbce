"""Fetch, from the frame to its answer. Sessions (KIP-227) are not kept: every Fetch is a full one.

It is handled where it is read, without a task. A Fetch that finds too little waits in the purgatory; of one connection
only one may wait, and one timer follows its deadline. Only the inter-broker listener believes that somebody is a replica.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from minikafka.protocol import fetch as codec
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FetchPartition, FetchRequest, PartitionData, TopicKey
from minikafka.protocol.wire import ROWS_MAX, MalformedRequest, RequestHeader, TooManyRows
from minikafka.replication.purgatory import FEW_ROWS, DelayedFetch, FetchDone, FetchTopics
from minikafka.security.acls import Operation, ResourceType
from minikafka.server.api.spec import NO_DIRECTORY_IDS, NO_TRANSACTIONS, ApiSpec

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection, Slot

Asked = list[tuple[TopicKey, list[FetchPartition]]]

NO_SESSIONS = "no fetch session is opened (KIP-227)"

SPEC = ApiSpec(
    ApiKey.FETCH,
    codec.MIN_SUPPORTED,
    codec.MAX_SUPPORTED,
    unread={
        "isolation_level": NO_TRANSACTIONS,
        "session_id": NO_SESSIONS,
        "session_epoch": NO_SESSIONS,
        "forgotten_topics_data": NO_SESSIONS,
        "rack_id": "consumers are served by the leader (no KIP-392)",
        "cluster_id": "who fetches has registered with this cluster, or is a client",
        "topics.partitions.replica_directory_id": NO_DIRECTORY_IDS,
    },
)

FOLLOWER_FETCH = 1001
"""A Fetch of a broker, where requests are counted: Kafka tells it from a client's, too. No such key on the wire."""

NEW_LEADER_VERSION = 16
"""The first version whose answer can name the leader that this broker is not (KIP-951)."""

KEPT_BACK_SECONDS = 10.0
"""For how long a Fetch waits for a quota. Then it gets nothing, as in Kafka at once: clients give up after 30 s by default."""

TIMER_SECONDS_MIN = 0.001
"""Timers of uvloop count milliseconds."""


class WaitingFetch:
    """The one Fetch of a connection that waits in the purgatory. One timer, which follows the deadline of whatever waits."""

    __slots__ = ("_fetch", "_now", "_timer", "_timer_ends")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._fetch: DelayedFetch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ends = 0.0

    @property
    def is_waiting(self) -> bool:
        return self._fetch is not None and not self._fetch.is_over

    def overtaken(self) -> None:
        """A client that pipelines fetches has the one before answered with what there is: the next answer comes after it."""
        if self._fetch is not None:
            self._fetch.retry(True)

    def wait(self, fetch: DelayedFetch, max_wait_ms: int, loop: asyncio.AbstractEventLoop | None) -> None:
        self._fetch = fetch
        if loop is None:
            return
        if self._timer is not None:
            if self._timer_ends <= fetch.deadline:
                return  # it looks at the deadline then
            self._timer.cancel()  # of one that would have waited for longer
        self._set(max_wait_ms / 1000, fetch.deadline, loop)

    def _set(self, seconds: float, ends: float, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._timer_ends = loop.call_later(seconds, self._due, loop), ends

    def _due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        fetch = self._fetch
        if fetch is None or fetch.is_over:
            return
        left = fetch.deadline - self._now()
        if left <= TIMER_SECONDS_MIN:
            fetch.end()
        else:
            self._set(left, fetch.deadline, loop)

    def give_up(self) -> None:
        """The connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
        if self._fetch is not None:
            self._fetch.give_up()


def serve(connection: ClientConnection, frame: memoryview, header: RequestHeader, slot: Slot) -> bool:
    """Read what is asked for; the slot is filled now, or when there is enough, or in time.

    False: not before it has a turn, and a quota allows it.

    Raises MalformedRequest.
    """
    version = header.api_version
    if not codec.MIN_SUPPORTED <= version <= codec.MAX_SUPPORTED:
        raise MalformedRequest(f"Fetch v{version} is not supported")
    rows_max = connection.rows_max(ROWS_MAX)
    try:
        request = codec.decode_fetch(frame, header.end, version, rows_max)
    except TooManyRows:
        connection.wait_for_turn(rows_max)
        return False
    request.max_bytes = min(request.max_bytes, connection.services.context.config.fetch_max_bytes)
    if connection.services.metadata.image.quotas.is_set and request.replica_id < 0:
        client = connection.metered = connection.client(header)
        if not connection.may_go_on(client, SPEC.key, KEPT_BACK_SECONDS):
            return False
        if connection.muting.left_ms:
            _answer(connection, header, request, slot, [], [], 0)
            return True
        allowed = connection.services.quotas.fetch_bytes_max(client)
        request.max_bytes = request.max_bytes if allowed is None else min(request.max_bytes, allowed)
    request.min_bytes = min(request.min_bytes, request.max_bytes)
    _serve(connection, header, slot, request)
    return True


def _serve(connection: ClientConnection, header: RequestHeader, slot: Slot, request: FetchRequest) -> None:
    if request.replica_id >= 0:
        slot.api_key = FOLLOWER_FETCH
    elif sum([len(row) for _, row in request.topics]) > FEW_ROWS:
        request.topics = _each_once(request.topics)
    denied: FetchTopics = []
    if request.replica_id >= 0 and not connection.is_broker:
        _answer(connection, header, request, slot, [], _refused(request.topics), 0)
        return
    if connection.services.authorization.enabled and request.replica_id < 0:
        denied = denied_topics(connection, request)
        if denied and not request.topics:
            _answer(connection, header, request, slot, [], denied, 0)
            return
    connection.waiting_fetch.overtaken()
    respond: FetchDone = partial(_answer, connection, header, request, slot, denied)
    if request.replica_id >= 0:
        respond = connection.services.context.observer.follower_asked(request, respond)
    waiting = connection.services.replicas.fetch(request, respond, connection)
    if waiting is not None:
        connection.waiting_fetch.wait(waiting, request.max_wait_ms, connection.loop)


def _each_once(topics: Asked) -> Asked:
    """As in Kafka, the last row of a partition counts: one that is named 49,000 times would be read as often at each record."""
    found: dict[TopicKey, dict[int, FetchPartition]] = {}
    for key, row in topics:
        found.setdefault(key, {}).update((asked.partition, asked) for asked in row)
    return [(key, list(row.values())) for key, row in found.items()]


def denied_topics(connection: ClientConnection, request: FetchRequest) -> FetchTopics:
    """Take topics out of a request that its client may not read; the answers for them. One that is not there is no secret."""
    authorization, needed = connection.services.authorization, (Operation.READ, ResourceType.TOPIC)
    allowed, denied = [], []
    for key, row in request.topics:
        name = connection.services.metadata.name_of(UUID(bytes=key)) if isinstance(key, bytes) else key
        if name is None or authorization.allows(connection, *needed, name):
            allowed.append((key, row))
        else:
            authorization.denied(connection, SPEC.key, *needed, name)
            denied.append((key, row))
    request.topics = allowed
    return _refused(denied)


def _refused(topics: Asked) -> FetchTopics:
    """A Fetch by somebody who calls itself a replica, and may not: Kafka's answer to a lack of CLUSTER_ACTION.

    Served, it would read above the high watermark, move it, and hold a dead follower in the ISR.
    """
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [(key, [PartitionData(asked.partition, code) for asked in partitions]) for key, partitions in topics]


def _answer(
    connection: ClientConnection,
    header: RequestHeader,
    request: FetchRequest,
    slot: Slot,
    denied: FetchTopics,
    topics: FetchTopics,
    total: int,
) -> None:
    """`total`: bytes of records in the answer."""
    if denied:
        topics = [*topics, *denied]
    throttle_ms, client = 0, None
    if connection.services.metadata.image.quotas.is_set and request.replica_id < 0:
        client = connection.client(header)
        throttle_ms, goes_out = connection.services.quotas.fetched(client, total, slot.uncharged_seconds)
        connection.muting.mute(throttle_ms)
        throttle_ms = connection.muting.left_ms
        if not goes_out:
            topics, total = [], 0
    stats = connection.stats
    if request.replica_id >= 0:
        stats.replication_bytes_out += total
    failed = connection.services.replicas.answered(topics, total > 0 > request.replica_id)
    if failed:
        stats.failed_fetch += 1
        connection.count_errors(SPEC.key, [data.error for data in failed])
    endpoints = connection.new_leaders(failed) if failed and header.api_version >= NEW_LEADER_VERSION else None
    began = 0.0 if client is None else time.perf_counter()
    connection.answer(
        slot,
        codec.encode_fetch_response(header.api_version, header.correlation_id, topics, 0, endpoints, throttle_ms),
    )
    if client is not None:
        connection.services.quotas.spent(client, time.perf_counter() - began)
