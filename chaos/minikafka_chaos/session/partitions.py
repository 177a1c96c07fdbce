"""What librdkafka does not do: to move leadership to a chosen broker, and to read committed batches as they lie in the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from minikafka.client.connection import BrokerConnection, NoAnswer, endpoints
from minikafka.client.security import ClientSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import BatchHeader, MalformedRecords, iterate_batches
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.session.deadline import Deadline

TIMEOUT_S = 10.0
RETRY_S = 0.05
FETCH_VERSION = 11
FETCH_BYTES = 8 << 20
ELECTED = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


def ask(
    bootstrap: str,
    security: ClientSecurity,
    api: ApiKey,
    newest: int,
    values: Mapping[str, Any],
    deadline: Deadline | None = None,
) -> Any:
    """Ask the first broker that answers. Raises ToolTrouble when none does."""
    seen = "no address"
    for host, port in endpoints(bootstrap):
        timeout = TIMEOUT_S if deadline is None else deadline.at_most(TIMEOUT_S)
        try:
            with BrokerConnection(host, port, timeout, security) as connection:
                return connection.request(api, newest, values)
        except NoAnswer as error:
            seen = f"{host}:{port}: {error}"
    raise ToolTrouble(f"{api.api_name}: nobody answers ({seen})")


def prefer(
    bootstrap: str, security: ClientSecurity, where: TopicPartition, replicas: tuple[int, ...], deadline: Deadline
) -> None:
    """Put a partition's replicas into this order, and have the first lead; again while there is no controller.

    Raises ToolTrouble with what a broker refuses.
    """
    partition = {"partition_index": where.partition, "replicas": replicas}
    topics = [{"name": where.topic, "partitions": [partition]}]
    wanted = [{"topic": where.topic, "partitions": [where.partition]}]

    def reorder() -> list[int]:
        values = {"topics": topics, "timeout": 10_000}
        answer = ask(bootstrap, security, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, values, deadline)
        return [answer.error_code, *(p.error_code for topic in answer.responses for p in topic.partitions)]

    def elect() -> list[int]:
        values = {"election_type": 0, "topic_partitions": wanted, "timeout": 10_000}
        answer = ask(bootstrap, security, ApiKey.ELECT_LEADERS, 2, values, deadline)
        rows = [row for topic in answer.replica_election_results for row in topic.partition_result]
        return [answer.error_code, *(row.error_code for row in rows)]

    _carry_out(reorder, f"{where}: its replicas cannot be put into another order", deadline)
    _carry_out(elect, f"{where}: broker {replicas[0]} was not elected", deadline)


def _carry_out(request: Callable[[], list[int]], problem: str, deadline: Deadline) -> None:
    while True:
        refused = [code for code in map(ErrorCode, request()) if code not in ELECTED]
        if not refused:
            return
        if refused[0] is not ErrorCode.NOT_CONTROLLER or deadline.is_over:
            raise ToolTrouble(f"{problem}: {refused[0].name}")
        time.sleep(RETRY_S)


def committed_batches(
    leader: str, security: ClientSecurity, where: TopicPartition, deadline_s: float
) -> tuple[int, int, list[BatchHeader]]:
    """(log start, high watermark, the headers of all batches between) as the leader at that address has them.

    Raises ToolTrouble when they cannot be read in time.
    """
    deadline = time.monotonic() + deadline_s
    ((host, port),) = endpoints(leader)
    found: list[BatchHeader] = []
    start, offset = 0, 0
    try:
        with BrokerConnection(host, port, deadline_s, security) as connection:
            start = offset = _earliest(connection, where)
            while True:
                high_watermark, records = _fetch(connection, where, offset)
                if high_watermark < 0:  # the log start has moved beyond it meanwhile
                    found.clear()
                    start = offset = _earliest(connection, where)
                headers = [batch.header for batch in iterate_batches(records)]
                found += [header for header in headers if offset <= header.last_offset < high_watermark]
                offset = found[-1].next_offset if found else offset
                if 0 <= high_watermark <= offset:
                    return start, high_watermark, found
                if time.monotonic() > deadline:
                    raise ToolTrouble(f"{where}: read up to {offset} of {high_watermark} in {deadline_s:g} s")
    except (NoAnswer, MalformedRecords) as error:
        raise ToolTrouble(f"{where}: {leader}: {error}") from error


def _earliest(connection: BrokerConnection, where: TopicPartition) -> int:
    partition = {"partition_index": where.partition, "current_leader_epoch": -1, "timestamp": -2}
    topics = [{"name": where.topic, "partitions": [partition]}]
    answer = connection.request(ApiKey.LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": topics})
    listed = answer.topics[0].partitions[0]
    _check(where, listed.error_code)
    return int(listed.offset)


def _fetch(connection: BrokerConnection, where: TopicPartition, offset: int) -> tuple[int, bytes]:
    """(high watermark, whole batches from an offset on); the first is -1 where the log does not have the offset."""
    partition = {
        "partition": where.partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": FETCH_BYTES,
    }
    values = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": FETCH_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": where.topic, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    fetched = connection.request(ApiKey.FETCH, FETCH_VERSION, values).responses[0].partitions[0]
    if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return -1, b""
    _check(where, fetched.error_code)
    return int(fetched.high_watermark), bytes(fetched.records or b"")


def _check(where: TopicPartition, code: int) -> None:
    if code:
        raise ToolTrouble(f"{where}: {ErrorCode(code).name}")
