"""The rules a run plays by: production classes, or one of them with a bug (see :mod:`mutants`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.controller.controller import Controller
from minikafka.log.manager import LogManager
from minikafka.metadata.image import BrokerState, ClusterImage, TopicState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.fetch_loop import FetchLoop
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr_requests import IsrRequests
from minikafka.replication.replicas import ReplicaManager

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class Rules:
    """Production as it is."""

    partition: type[HostedPartition] = HostedPartition
    replica_manager: type[ReplicaManager] = ReplicaManager
    isr_requests: type[IsrRequests] = IsrRequests
    fetch_loop: type[FetchLoop[HostedPartition]] = FetchLoop
    controller: type[Controller] = Controller
    log_manager: type[LogManager] = LogManager

    def eligible(self, peer: BrokerState | None, broker_epoch: int) -> bool:
        """KIP-841, KIP-903: active, and of the incarnation that fetched (mirrors ``server.hosting``)."""
        return peer is not None and peer.active and broker_epoch in (-1, peer.epoch)

    def min_insync_replicas(self, image: ClusterImage, topic: TopicState, own: int) -> int:
        """What a leader goes by: the cluster's word, whatever its ``own`` file says."""
        return image.min_insync_replicas(topic, own)

    def checkpointed(self, broker: SimBroker) -> dict[TopicPartition, int]:
        """The high watermarks a broker checkpoints: of all its replicas, also of leaderless ones (KAFKA-1647)."""
        return {tp: p.high_watermark for tp, p in broker.partitions.items()}
