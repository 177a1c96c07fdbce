"""What a connection, and whoever answers a request, may reach of its broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from minikafka.authorization.service import Authorization
from minikafka.replication.replicas import ReplicaManager
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server.connections import ConnectionRegistry
from minikafka.server.context import BrokerContext
from minikafka.server.group_service import GroupService
from minikafka.server.membership import Membership
from minikafka.server.metadata_cache import MetadataCache
from minikafka.server.producer_ids import ProducerIds
from minikafka.server.quotas import ClientQuotas
from minikafka.server.topic_requests import TopicRequests
from minikafka.transport.request_memory import RequestMemory
from minikafka.transport.turn import TurnQueue, yielding

if TYPE_CHECKING:
    from minikafka.server.api.spec import Handlers

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Parts of one broker; its life, its disk and what follows the image are not among them."""

    context: BrokerContext
    handlers: Handlers
    metadata: MetadataCache
    authorization: Authorization
    quotas: ClientQuotas
    request_memory: RequestMemory | None
    membership: Membership
    connections: ConnectionRegistry
    topics: TopicRequests
    producer_ids: ProducerIds
    replicas: ReplicaManager
    reporter: ReplicaReporter
    groups: GroupService
    turn_queue: TurnQueue
    searches: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Held by whoever searches by time, by whose work it is (`ClientConnection.asked_by`)."""

    def yielding(self, rows: Iterable[T]) -> AsyncIterator[T]:
        """Give each of the rows that one client has asked for, and serve others between them."""
        return yielding(rows, self.context.clock.now, self.turn_queue)
