"""The classes without I/O that a broker is made of. A simulation brings its own list, to watch them or with a mistake in one."""

from __future__ import annotations

from minikafka.controller.controller import Controller
from minikafka.controller.term import ControllerTerm
from minikafka.groups.host import GroupHost
from minikafka.log.manager import LogManager
from minikafka.membership.lifecycle import BrokerLifecycle
from minikafka.replication.fetch_loop import FetchLoop
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.internal_log import InternalLog
from minikafka.replication.isr_requests import IsrRequests
from minikafka.replication.offline_logs import OfflineLogs
from minikafka.replication.replica_host import ReplicaHost
from minikafka.replication.replicas import ReplicaManager
from minikafka.replication.retention import retain


class Parts:
    """Production as it is."""

    partition: type[HostedPartition] = HostedPartition
    replica_manager: type[ReplicaManager] = ReplicaManager
    isr_requests: type[IsrRequests] = IsrRequests
    fetch_loop: type[FetchLoop[HostedPartition]] = FetchLoop
    replica_host: type[ReplicaHost] = ReplicaHost
    controller: type[Controller] = Controller
    controller_term: type[ControllerTerm] = ControllerTerm
    broker_lifecycle: type[BrokerLifecycle] = BrokerLifecycle
    log_manager: type[LogManager] = LogManager
    group_host: type[GroupHost] = GroupHost
    internal_log: type[InternalLog] = InternalLog
    offline_logs: type[OfflineLogs] = OfflineLogs

    def retain(self, partition: HostedPartition, now_ms: int) -> None:
        """See :func:`minikafka.replication.retention.retain`."""
        retain(partition, now_ms)
