"""A log manager over a disk in memory, with two logs."""

from __future__ import annotations

import uuid

from minikafka.log.filesystem import FileSystem, MemoryFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition

from tests.unit.log.build import NOW_MS, UNFLUSHED, batch

DATA = "/data"
A, B = TopicPartition("a", 0), TopicPartition("b-with-dash", 12)
ID_A, ID_B = uuid.UUID(int=1), uuid.UUID(int=2)


def open_manager(
    fs: FileSystem,
    *,
    dirs: tuple[str, ...] = (DATA,),
    cluster_id: str = "cluster",
    node_id: int = 1,
    config: LogConfig | None = None,
    unflushed: bool = False,
) -> LogManager:
    return LogManager.open(
        dirs,
        fs,
        cluster_id=cluster_id,
        node_id=node_id,
        config_for=lambda topic: config or LogConfig(),
        now_ms=NOW_MS,
        unflushed_dir=UNFLUSHED if unflushed else None,
    )


def two_logs(*, unflushed: bool = False, config: LogConfig | None = None) -> tuple[MemoryFileSystem, LogManager]:
    fs = MemoryFileSystem()
    manager = open_manager(fs, unflushed=unflushed, config=config)
    fill(manager.create(A, ID_A), 5)
    fill(manager.create(B, ID_B), 2)
    return fs, manager


def fill(log: Log, batches: int) -> None:
    for _ in range(batches):
        log.append_as_leader(batch(3), 0, NOW_MS)
