"""DescribeLogDirs over a connection."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.unit.wire.stage import Stage

LED = PartitionState((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=5)


async def test_a_directory_and_what_is_in_it(stage: Stage) -> None:
    await stage.start()
    await stage.partition(LED)
    client = await stage.client()
    (found,) = (await client.ask(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, 4)).results
    assert ErrorCode(int(found.error_code)) is ErrorCode.NONE
    assert [topic.name for topic in found.topics] == ["t"]
    assert 0 < found.usable_bytes <= found.total_bytes


async def test_a_directory_that_cannot_be_looked_at(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's answer for it; the connection stays."""
    await stage.start()
    client = await stage.client()

    def refuse(path: str | Path) -> os.statvfs_result:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(os, "statvfs", refuse)
    (found,) = (await client.ask(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, 4)).results
    assert ErrorCode(int(found.error_code)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert found.topics == () and found.total_bytes == -1
