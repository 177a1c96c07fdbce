"""What a bug seed is: production's rules with something of them replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minikafka.controller.brokers import BrokerRegistry
from minikafka.controller.controller import Controller
from minikafka.controller.partitions import PartitionRegistry
from minikafka.controller.term import ControllerTerm
from minikafka.controller.topics import TopicRegistry
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.host import GroupHost
from minikafka.kubernetes.store import KubernetesStore
from minikafka.kubernetes.topic_reconciler import TopicReconciler
from minikafka.log.manager import LogManager
from minikafka.membership.lifecycle import BrokerLifecycle
from minikafka.metadata.database import Database
from minikafka.replication.fetch_loop import FetchLoop
from minikafka.replication.follower import FollowerState
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.internal_log import InternalLog
from minikafka.replication.isr_requests import IsrRequests
from minikafka.replication.leader import LeaderState
from minikafka.replication.offline_logs import OfflineLogs
from minikafka.replication.replica_host import ReplicaHost
from minikafka.replication.replicas import ReplicaManager

from minikafka_chaos.simulation.processes.watched import WatchedBroker
from minikafka_chaos.simulation.rules import Rules


class BugSeed(NamedTuple):
    """A mistake, where it was made, and what it does to the rules."""

    name: str
    mistake: str
    source: str
    rules: Callable[[], Rules]


def rules_with(
    leader: type[LeaderState] | None = None,
    follower: type[FollowerState] | None = None,
    partition: type[HostedPartition] | None = None,
    partitions: type[PartitionRegistry] | None = None,
    brokers: type[BrokerRegistry] | None = None,
    topics: type[TopicRegistry] | None = None,
    manager: type[LogManager] | None = None,
    host: type[ReplicaHost] | None = None,
    replicas: type[ReplicaManager] | None = None,
    fetch_loop: type[FetchLoop[HostedPartition]] | None = None,
    isr_requests: type[IsrRequests] | None = None,
    term: type[ControllerTerm] | None = None,
    lifecycle: type[BrokerLifecycle] | None = None,
    groups: type[GroupHost] | None = None,
    coordinator: type[GroupCoordinator] | None = None,
    internal_log: type[InternalLog] | None = None,
    offline: type[OfflineLogs] | None = None,
    retain: Callable[[HostedPartition, int], None] | None = None,
    database: type[Database] | None = None,
    kubernetes_store: type[KubernetesStore] | None = None,
    topic_reconciler: type[TopicReconciler] | None = None,
    process: type[WatchedBroker] | None = None,
) -> Callable[[], Rules]:
    """What makes the rules with these classes and functions in the place of production's."""

    def make() -> Rules:
        rules = Rules()
        base = partition or HostedPartition
        if leader or follower:
            members: dict[str, Any] = {"__slots__": ()}
            if leader:
                members["leader_class"] = leader
            if follower:
                members["follower_class"] = follower
            base = type("MutantPartition", (base,), members)
        rules.partition = base
        if partitions or brokers or topics:
            books = {
                "partition_registry": partitions or PartitionRegistry,
                "broker_registry": brokers or BrokerRegistry,
                "topic_registry": topics or TopicRegistry,
            }
            rules.controller = type("MutantController", (Controller,), books)
        if replicas:
            rules.replica_manager = replicas
        if fetch_loop:
            rules.fetch_loop = fetch_loop
        if isr_requests:
            rules.isr_requests = isr_requests
        if term:
            rules.controller_term = term
        if lifecycle:
            rules.broker_lifecycle = lifecycle
        if groups:
            rules.group_host = groups
        if coordinator:
            rules.group_host = type("MutantHost", (GroupHost,), {"coordinator_class": coordinator})
        if internal_log:
            rules.internal_log = internal_log
        if retain:
            rules.retain = retain  # type: ignore[method-assign, assignment]
        if offline:
            rules.offline_logs = offline
        if database:
            rules.database = database
        if kubernetes_store:
            rules.kubernetes_store = kubernetes_store
        if topic_reconciler:
            rules.topic_reconciler = topic_reconciler
        if process:
            rules.process = process
        if manager:
            rules.log_manager = manager
        if host:
            rules.replica_host = host
        return rules

    return make
