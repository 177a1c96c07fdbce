"""A client that calls itself a broker: on the clients' listener it is not believed, on the brokers' its epochs are checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.protocol import produce as produce_codec
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FollowerData, decode_follower_response, encode_follower_fetch
from minikafka.server.broker import Broker
from minikafka.transport.peer import PeerClosed, PeerConnection

from tests.unit.replication.cluster import batch
from tests.unit.server.in_process import DEADLINE, Cluster, running
from tests.waiting import until

PRIVATE = {ApiKey.ALTER_PARTITION, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two brokers; the topic ``t`` has one record that only its leader has: the follower does not fetch."""
    async with running(tmp_path, 2, replica_lag_time_max_ms="600000") as cluster:
        await cluster.create("t")
        await until(lambda: leader(cluster).replicas.get("t", 0).leader is not None)  # type: ignore[union-attr]
        follower(cluster).fetchers.stop()
        appended(cluster)
        yield cluster


def leader(cluster: Cluster) -> Broker:
    return cluster.brokers[cluster.state("t").leader]


def follower(cluster: Cluster) -> Broker:
    return cluster.brokers[3 - cluster.state("t").leader]


def appended(cluster: Cluster) -> None:
    """A record on the leader alone, as with acks=1."""
    request = produce_codec.ProduceRequest(None, 1, 1000, [("t", [(0, batch("secret"))])])
    results: list[Any] = []
    leader(cluster).replicas.produce(request, results.append)
    assert results[0][0][1][0].error == 0
    assert offsets(cluster) == (0, 1)


def offsets(cluster: Cluster) -> tuple[int, int]:
    """High watermark and log end offset of the leader."""
    partition = leader(cluster).replicas.get("t", 0)
    assert partition is not None
    return partition.high_watermark, partition.log.log_end_offset


def fenced(cluster: Cluster) -> list[int]:
    role = cluster.controller.membership.role
    assert role is not None
    return [b.broker_id for b in role.controller.partitions.workspace.image.brokers.values() if b.fenced]


async def keys_on(connection: PeerConnection) -> set[int]:
    answer = await ask(connection, ApiKey.API_VERSIONS, 2, {})
    return {int(row.api_key) for row in answer.api_keys}


async def ask(connection: PeerConnection, api_key: int, version: int, values: Mapping[str, Any]) -> Any:
    async with asyncio.timeout(DEADLINE):
        return await connection.request(api_key, version, values)


def heartbeat(broker: Broker, epoch: int, *, fence: bool = True) -> dict[str, Any]:
    return {
        "broker_id": broker.broker_id,
        "broker_epoch": epoch,
        "current_metadata_offset": 0,
        "want_fence": fence,
        "want_shut_down": False,
    }


def alteration(cluster: Cluster, state: PartitionState) -> dict[str, Any]:
    """The leader's own wish, word for word, to be alone in the ISR."""
    broker = leader(cluster)
    part = {
        "partition_index": 0,
        "leader_epoch": state.leader_epoch,
        "new_isr_with_epochs": [{"broker_id": broker.broker_id, "broker_epoch": broker.broker_epoch}],
        "leader_recovery_state": 0,
        "partition_epoch": state.partition_epoch,
    }
    topic = {"topic_id": broker.metadata.image.topics["t"].topic_id, "partitions": [part]}
    return {"broker_id": broker.broker_id, "broker_epoch": broker.broker_epoch, "topics": [topic]}


def registration(broker: Broker) -> dict[str, Any]:
    return {
        "broker_id": broker.broker_id,
        "cluster_id": broker.metadata.image.cluster_id,
        "incarnation_id": uuid4(),
        "listeners": [{"name": "REPLICATION", "host": "127.0.0.1", "port": 1, "security_protocol": 0}],
        "rack": None,
        "previous_broker_epoch": -1,
    }


async def fetched_as(cluster: Cluster, replica: Broker, epoch: int, listener: str) -> FollowerData:
    """What a Fetch from the log's end by somebody who calls itself ``replica`` is answered; its records are read out."""
    broker = leader(cluster)
    connection = await cluster.connect(broker, listener)
    topic_id = broker.metadata.image.topics["t"].topic_id.bytes
    correlation = connection.next_correlation()
    answer: asyncio.Future[FollowerData] = asyncio.get_running_loop().create_future()

    def on_answer(frame: memoryview | None) -> None:
        assert frame is not None
        error, [data] = decode_follower_response(frame)
        assert error == 0
        answer.set_result(data._replace(records=memoryview(bytes(data.records))))

    part = (0, cluster.state("t").leader_epoch, 0, -1, 0, 1_000_000)
    frame = encode_follower_fetch(
        correlation, "forged", replica.broker_id, epoch, 0, 1, 1_000_000, [(topic_id, [part])]
    )
    connection.send_frame(correlation, frame, on_answer)
    async with asyncio.timeout(DEADLINE):
        data = await answer
    connection.close()
    return data


async def test_clients_are_not_told_of_the_apis_of_brokers(cluster: Cluster) -> None:
    for_clients = await keys_on(await cluster.connect(leader(cluster), "CLIENT"))
    for_brokers = await keys_on(await cluster.connect(leader(cluster), "REPLICATION"))
    assert for_brokers - for_clients == PRIVATE
    assert for_clients < for_brokers


@pytest.mark.slow
async def test_a_client_can_fence_nobody_and_shrink_no_isr(cluster: Cluster) -> None:
    """Kafka closes the connection of who asks a broker's listener for an API of controllers."""
    controller, victim = cluster.controller, follower(cluster)
    before = cluster.state("t")
    epochs = {b.broker_id: b.epoch for b in controller.metadata.image.brokers.values()}
    for api_key, version, values in (
        (ApiKey.BROKER_HEARTBEAT, 1, heartbeat(victim, victim.broker_epoch)),
        (ApiKey.ALTER_PARTITION, 3, alteration(cluster, before)),
        (ApiKey.BROKER_REGISTRATION, 3, registration(victim)),
    ):
        connection = await cluster.connect(controller, "CLIENT")
        with pytest.raises(PeerClosed):
            await ask(connection, api_key, version, values)
    assert await keys_on(await cluster.connect(controller, "CLIENT")), "others are served as ever"
    assert fenced(cluster) == []
    assert cluster.state("t") == before
    assert {b.broker_id: b.epoch for b in controller.metadata.image.brokers.values()} == epochs


@pytest.mark.slow
async def test_a_client_reads_nothing_above_the_high_watermark_as_a_replica(cluster: Cluster) -> None:
    """TOPIC_AUTHORIZATION_FAILED, as in Kafka without CLUSTER_ACTION; and the high watermark does not move for it."""
    replica = follower(cluster)
    data = await fetched_as(cluster, replica, replica.broker_epoch, "CLIENT")
    assert (data.error, len(data.records)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
    assert offsets(cluster) == (0, 1)
    connection = await cluster.connect(leader(cluster), "CLIENT")
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    wish = {"isolation_level": 0, "topics": [{"name": "t", "partitions": [part]}]}
    for who in (replica.broker_id, 0, -1):  # kafka-python sends 0; Kafka tells whoever asks of the log's end
        row = (await ask(connection, ApiKey.LIST_OFFSETS, 7, {"replica_id": who, **wish})).topics[0].partitions[0]
        assert (int(row.error_code), row.offset) == (0, 0)


async def test_the_same_is_served_to_replicas(cluster: Cluster) -> None:
    """The counterpart: what the test above asks for is there to be had."""
    replica = follower(cluster)
    data = await fetched_as(cluster, replica, replica.broker_epoch, "REPLICATION")
    assert data.error == 0
    assert b"secret" in bytes(data.records)


@pytest.mark.slow
@pytest.mark.parametrize("off", [-1, 7])
async def test_a_heartbeat_of_another_epoch_moves_nothing(cluster: Cluster, off: int) -> None:
    """Neither the session, nor which connection's end is the broker's death."""
    controller = cluster.controller
    victim = next(b for b in cluster.brokers.values() if b is not controller)
    counts = controller.connections.heard_over(victim.broker_id)
    connection = await cluster.connect(controller, "REPLICATION")
    answer = await ask(connection, ApiKey.BROKER_HEARTBEAT, 1, heartbeat(victim, victim.broker_epoch + off))
    assert int(answer.error_code) == ErrorCode.STALE_BROKER_EPOCH
    assert controller.connections.heard_over(victim.broker_id) is counts
    connection.close()
    await until(lambda: not connection.is_open)
    await keys_on(await cluster.connect(controller, "REPLICATION"))  # the end of the other one has been seen by now
    assert fenced(cluster) == []


@pytest.mark.slow
async def test_a_fetch_of_an_earlier_incarnation_moves_nothing(cluster: Cluster) -> None:
    """KIP-903. A later one may be known to the controller, and not yet to this leader."""
    replica = follower(cluster)
    data = await fetched_as(cluster, replica, replica.broker_epoch - 1, "REPLICATION")
    assert data.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(data.records) == 0
    assert offsets(cluster) == (0, 1)
