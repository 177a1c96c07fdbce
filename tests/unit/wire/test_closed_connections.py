"""What comes over a connection before, and behind, a request for which the broker closes it."""

from __future__ import annotations

import struct

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.protocol.records import Codec

from tests.interop.raw_client import RawConnection, produce_request, record_batch, seal_batch
from tests.unit.wire.client import LEADER, fetched
from tests.unit.wire.peer import TOPIC_ID
from tests.unit.wire.stage import Stage

ALONE = PartitionState((1,), (1,), 1, leader_epoch=3, partition_epoch=5)
GOOD = produce_request("t", 0, record_batch([b"x"]), acks=LEADER)
NO_GZIP = seal_batch(b"no gzip", 1, 0, attributes=Codec.GZIP)


@pytest.mark.parametrize(
    "bad",
    [struct.pack(">i", -5), struct.pack(">i3s", 3, b"xyz"), produce_request("t", 0, NO_GZIP, acks=0)],
    ids=["no length", "no request", "acks=0, refused"],
)
async def test_what_comes_before_counts_and_what_comes_behind_does_not(stage: Stage, bad: bytes) -> None:
    """All in one read. As in Kafka, which reads the next request of a connection when the one before it is answered."""
    await stage.start()
    await stage.partition(ALONE)
    consumer = await stage.client()
    found = consumer.fetch(TOPIC_ID, 0, wait=True)
    await stage.still_waits(found)
    host, port = next((host, port) for name, host, port in stage.broker.listeners.advertised() if name == "CLIENTS")
    with RawConnection(f"{host}:{port}") as connection:
        connection.send(GOOD + bad + GOOD)
        assert (await fetched(found)).end_offset == 1
    partition = stage.broker.replicas.get("t", 0)
    assert partition is not None and partition.log.log_end_offset == 1
