"""Three brokers whose unflushed volumes take much less than is produced: all of it is acknowledged (27 D28)."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest
from minikafka.log.filesystem import Buffer, RealFile, RealFileSystem
from minikafka.log.unflushed_volume import PAGE_BYTES
from minikafka.protocol import produce as codec
from minikafka.protocol.errors import ErrorCode

from tests.unit.log.build import batch
from tests.unit.server.in_process import Cluster, get
from tests.waiting import until

LIMIT = 3 << 20
VOLUME = LIMIT * 16 // 15
BATCH_BYTES = 100_000
BATCHES = 5 * LIMIT // BATCH_BYTES
PARTITIONS = 3


class Volumes:
    """Directories `unflushed-N` with a file system of their own each, as far as room goes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[str, int] = {}
        append, remove = RealFile.append, RealFileSystem.remove

        def limited(file: RealFile, *buffers: Buffer) -> None:
            _, unflushed, rest = file._path.partition("/unflushed-")
            if unflushed:
                size = file.size + sum(map(len, buffers))
                if self.used(rest[0]) - self.sizes.get(file._path, 0) + size > VOLUME - PAGE_BYTES:
                    raise OSError(errno.ENOSPC, "No space left on device", file._path)
                self.sizes[file._path] = size
            append(file, *buffers)

        def removed(disk: RealFileSystem, path: str) -> None:
            self.sizes.pop(path, None)
            remove(disk, path)

        monkeypatch.setattr(RealFile, "append", limited)
        monkeypatch.setattr(RealFileSystem, "remove", removed)

    def used(self, broker: str) -> int:
        mine = [size for path, size in self.sizes.items() if f"/unflushed-{broker}/" in path]
        return sum(-(-size // PAGE_BYTES) * PAGE_BYTES for size in mine)


@pytest.mark.slow
async def test_five_times_the_limit_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Volumes(monkeypatch)
    cluster = Cluster(tmp_path, {})
    try:
        for broker_id in (1, 2, 3):
            cluster.settings = {
                "minikafka.unflushed.dir": str(tmp_path / f"unflushed-{broker_id}"),
                "minikafka.unflushed.max.bytes": str(LIMIT),
            }
            await cluster.start(broker_id)
        await cluster.create("t", PARTITIONS)
        led = {n: cluster.brokers[cluster.state("t", n).leader].replicas for n in range(PARTITIONS)}
        await until(lambda: all(replicas.get("t", n).leader is not None for n, replicas in led.items()))  # type: ignore[union-attr]
        answers = [_produce(led[n % PARTITIONS], n % PARTITIONS) for n in range(BATCHES * PARTITIONS)]
        assert {await answer for answer in answers} == {ErrorCode.NONE}
        for broker in cluster.brokers.values():
            assert [partition.log.log_end_offset for partition in broker.replicas.all()] == [BATCHES] * PARTITIONS
            _, metrics = await get(broker, "/metrics")
            assert f"minikafka_unflushed_limit_bytes {LIMIT}" in metrics
            events = (tmp_path / f"events-{broker.broker_id}.jsonl").read_text()
            assert '"unflushed_volume_full"' in events and '"log_offline"' not in events
    finally:
        for broker in cluster.brokers.values():
            await broker.abort()
            broker.events.close()


def _produce(replicas: Any, partition: int) -> asyncio.Future[ErrorCode]:
    answered: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    records = memoryview(batch(size=BATCH_BYTES - 100))
    request = codec.ProduceRequest(None, -1, 600_000, [("t", [(partition, records)])])
    replicas.produce(request, lambda results: answered.set_result(ErrorCode(results[0][1][0].error)))
    replicas.flush_ready()
    return answered
