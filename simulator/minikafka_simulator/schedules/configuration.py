"""The settings of the brokers of a random schedule: what its seed has decided, as a broker's file says it."""

from __future__ import annotations

from random import Random
from typing import Protocol

from minikafka.config import BrokerConfig
from minikafka.groups.config import GroupConfig
from minikafka.log.config import LogConfig

from minikafka_simulator.cluster.listeners import listeners

SEGMENT_BYTES_MIN = 1024
"""What the configuration allows."""


class DrawnCluster(Protocol):
    """A cluster whose seed has decided the settings of its brokers. Times are virtual seconds."""

    server_random: Random
    data_dir: str
    unflushed_dir: str | None
    min_isr_of: dict[int, int]
    lag: float
    heartbeat: float
    session: float
    fetch_timeout: float
    fetch_backoff: float
    imbalance_check_seconds: int
    log_config: LogConfig
    group_config: GroupConfig
    offsets_partitions: int


def drawn(world: DrawnCluster, broker: int, patience: int) -> BrokerConfig:
    """Draw a broker's file; what only a server has anew at each start.

    Args:
        patience: how much more rarely than usual it flushes and writes checkpoints.
    """
    log = world.log_config
    settings: dict[str, object] = {
        "node.id": broker,
        **listeners(broker),
        "log.dirs": world.data_dir,
        "minikafka.metadata.store": "memory",
        "auto.create.topics.enable": "false",
        "min.insync.replicas": world.min_isr_of[broker],
        "replica.lag.time.max.ms": _ms(world.lag),
        "broker.heartbeat.interval.ms": _ms(world.heartbeat),
        "broker.session.timeout.ms": _ms(world.session),
        "request.timeout.ms": _ms(world.fetch_timeout),
        "replica.socket.timeout.ms": _ms(world.fetch_timeout),
        "replica.fetch.wait.max.ms": world.server_random.choice((100, 200, 300)),
        "replica.fetch.max.bytes": world.server_random.choice((200, 1000, 100_000)),
        "replica.fetch.backoff.ms": _ms(world.fetch_backoff),
        "replica.high.watermark.checkpoint.interval.ms": patience * world.server_random.choice((200, 400)),
        "log.flush.offset.checkpoint.interval.ms": patience * world.server_random.choice((200, 400)),
        "log.retention.check.interval.ms": world.server_random.choice((300, 600)),
        "unclean.leader.election.interval.ms": 1000,
        "leader.imbalance.check.interval.seconds": world.imbalance_check_seconds,
        "log.segment.bytes": max(log.segment_bytes, SEGMENT_BYTES_MIN),
        "log.index.interval.bytes": log.index_interval_bytes,
        "log.flush.interval.messages": log.flush_interval_messages,
        "log.flush.interval.ms": patience * world.server_random.choice((200, 1000)),
        "log.retention.ms": log.retention_ms,
        "log.retention.bytes": log.retention_bytes,
        "log.segment.delete.delay.ms": 100,
        "group.initial.rebalance.delay.ms": world.group_config.group_initial_rebalance_delay_ms,
        "group.min.session.timeout.ms": world.group_config.group_min_session_timeout_ms,
        "offsets.commit.timeout.ms": world.group_config.offsets_commit_timeout_ms,
        "offsets.topic.num.partitions": world.offsets_partitions,
    }
    if world.unflushed_dir is not None:
        settings["minikafka.unflushed.dir"] = world.unflushed_dir
    return BrokerConfig.from_properties({name: str(value) for name, value in settings.items()})


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
