"""A replica manager whose broker is not there: what it would tell or ask the rest is heard by nobody."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.replication.clock import Clock
from minikafka.replication.isr import IsrProposal
from minikafka.replication.replicas import ReplicaManager
from minikafka.telemetry.stats import BrokerStats


def replica_manager(clock: Clock, propose: Callable[[IsrProposal], None] = lambda _: None) -> ReplicaManager:
    return ReplicaManager(
        BrokerStats(),
        propose,
        clock,
        exists=lambda _key, _index: False,
        hint=lambda _key, _index: None,
        log_failed=lambda _partition, _error: None,
        flush_soon=lambda _partition: None,
    )
