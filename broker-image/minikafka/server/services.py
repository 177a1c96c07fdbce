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
from minikafka.server.unsent import UnsentAnswers
from minikafka.transport.request_memory import RequestMemory
from minikafka.transport.turn import TurnQueue, yielding

if TYPE_CHECKING:
    from minikafka.server.api.spec import Handlers

T = TypeVar("T")

MUCH_MAX = 1_000


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
    unsent: UnsentAnswers = field(default_factory=UnsentAnswers)
    _much: dict[tuple[str, int], None] = field(default_factory=dict)
    """Users and APIs, of whom an answer had many rows: the last :data:`MUCH_MAX` of them."""
    _at_work: WeakValueDictionary[tuple[str, int], asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def has_much(self, user: str, api_key: int) -> None:
        """Remember that a user's request of an API, which may be small, had a large answer."""
        self._much.pop((user, api_key), None)
        self._much[user, api_key] = None
        if len(self._much) > MUCH_MAX:
            del self._much[next(iter(self._much))]

    def had_much(self, user: str, api_key: int) -> bool:
        """Whether a user's requests of an API wait for turns, over whatever connections they come."""
        return (user, api_key) in self._much

    def one_at_a_time(self, user: str, api_key: int) -> asyncio.Lock:
        """Return what a user's requests of an API hold that may take much memory (`ClientConnection.asked_by`)."""
        return self._at_work.setdefault((user, api_key), asyncio.Lock())

    def yielding(self, rows: Iterable[T]) -> AsyncIterator[T]:
        """Give each of the rows that one client has asked for, and serve others between them."""
        return yielding(rows, self.context.clock.now, self.turn_queue)
