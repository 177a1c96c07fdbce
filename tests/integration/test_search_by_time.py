"""ListOffsets by timestamp looks into batches: of every codec, of one whose package is missing, of one that is nonsense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from minikafka.client.connection import BrokerConnection
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST
from minikafka.protocol.api_keys import ApiKey

from tests.interop.raw_client import seal_batch

MAX_TIMESTAMP = -3
CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE = 2, 76
CODECS = ("gzip", "snappy", "lz4", "zstd")
GZIP = 1
SECONDS_MAX = 60
EARLY, LATE = 1_600_000_000_000, 1_700_000_000_000


def produce_each(cluster: LocalCluster) -> None:
    """One compressed batch of two records in a topic for each codec."""
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "compression.codec": codec, "linger.ms": 60_000, "acks": "all"}
        )
        for timestamp in (EARLY, LATE):
            producer.produce(codec, b"compressible" * 100, partition=0, timestamp=timestamp)
        assert producer.flush(60) == 0


def search(connection: BrokerConnection, topic: str, timestamp: int) -> tuple[int, int]:
    """(error code, offset)."""
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    wanted = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [partition]}]}
    row = connection.request(ApiKey.LIST_OFFSETS, 7, wanted).topics[0].partitions[0]
    return int(row.error_code), row.offset


def test_every_codec_can_be_searched(make_cluster: Callable[..., LocalCluster]) -> None:
    cluster = make_cluster(brokers=1, config={"auto.create.topics.enable": "true"})
    produce_each(cluster)
    with BrokerConnection(HOST, cluster.broker(1).port, 60) as connection:
        for codec in CODECS:
            assert [search(connection, codec, t) for t in (EARLY + 1, MAX_TIMESTAMP)] == [(0, 1), (0, 1)], codec


def test_what_cannot_be_read_is_an_error_and_no_closed_connection(
    make_cluster: Callable[..., LocalCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error for the partition; the connection goes on, and the operator is told.

    A leader refuses nonsense, so it comes from the disk, as an earlier release wrote it.
    """
    cluster = make_cluster(brokers=1, config={"auto.create.topics.enable": "true"})
    produce_each(cluster)
    cluster.terminate(1, SECONDS_MAX)
    nonsense = bytearray(seal_batch(b"nonsense", 1, LATE + 1, attributes=GZIP))
    nonsense[:8] = (2).to_bytes(8, "big")
    segment = max(Path(cluster.broker(1).data_dir, "gzip-0").glob("*.log"))  # two, where each record was a batch
    segment.write_bytes(segment.read_bytes() + nonsense)
    (tmp_path / "cramjam.py").write_text("raise ModuleNotFoundError('hidden by a test', name='cramjam')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    cluster.start(1)
    cluster.wait_ready(SECONDS_MAX)
    with BrokerConnection(HOST, cluster.broker(1).port, SECONDS_MAX) as connection:
        for codec in CODECS[1:]:
            for timestamp in (EARLY + 1, MAX_TIMESTAMP):
                assert search(connection, codec, timestamp)[0] == UNSUPPORTED_COMPRESSION_TYPE
        assert search(connection, "gzip", EARLY + 1) == (0, 1), "gzip comes with Python"
        assert search(connection, "gzip", LATE + 1)[0] == CORRUPT_MESSAGE
    told = Path(cluster.broker(1).log_path).read_text()
    assert "lz4 needs cramjam: pip install cramjam" in told
