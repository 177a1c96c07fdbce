"""What chance has to know of a cluster that it breaks."""

from __future__ import annotations

from minikafka.log.config import LogConfig

from minikafka_simulator.checks.checker import CheckedCluster
from minikafka_simulator.clients.producer import Producer
from minikafka_simulator.faults.plan import Plan


class FaultyCluster(CheckedCluster):
    """A cluster in which things go wrong. Times are virtual seconds."""

    plan: Plan
    heartbeat: float
    """broker.heartbeat.interval.ms"""
    log_config: LogConfig
    min_isr_of: dict[int, int]
    """min.insync.replicas by each broker's own file, of which an admin changes one after the other."""
    pipelined: bool
    """Whether one of the producers has several batches in flight."""
    pipelining: Producer | None
    """That one, once it is there."""
    served_one_batch: set[int]
    """Followers that are given one batch at a time."""
