"""Decides for one broker, by the ACLs in its image; counts and tells what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from minikafka.config import BrokerConfig
from minikafka.config.listener_security import super_users
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.acls import CLUSTER_NAME, Operation, ResourceType, address
from minikafka.security.authorizer import SUPPORTED, Authorizer, bits
from minikafka.telemetry.event_limit import EventLimit
from minikafka.telemetry.stats import BrokerStats

NAME_MAX = 249
"""What is told of a resource's name: as much as a topic's may have. Others may have any."""


class Caller(Protocol):
    """Who asks."""

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener(self) -> str: ...


class TopicsAndAcls(Protocol):
    """What is known of the cluster."""

    image: ClusterImage

    def name_of(self, topic_id: UUID | None) -> str | None: ...

    def id_of(self, name: str) -> UUID | None: ...


class Authorization:
    """Of one broker.

    Args:
        config: the authorizer, super users, and who is a broker.
        metadata: has the ACLs.
        stats: counts what is refused.
        emit: takes an event.
        now: seconds.
    """

    def __init__(
        self,
        config: BrokerConfig,
        metadata: TopicsAndAcls,
        stats: BrokerStats,
        emit: Callable[..., None],
        now: Callable[[], float],
    ) -> None:
        self.enabled = bool(config.authorizer_class_name)
        supers = super_users(config.super_users)
        self._of_acls = Authorizer(supers, config.allow_everyone_if_no_acl_found)
        self._by_acls_only = Authorizer(supers, everyone_if_no_acl=False)
        self._config = config
        self._metadata = metadata
        self._stats = stats
        self._emit = emit
        self._limit = EventLimit(now)

    @property
    def creates_on_demand(self) -> bool:
        """Whether asking for a topic that is not there makes it."""
        return self._config.auto_create_topics_enable

    @property
    def _authorizer(self) -> Authorizer:
        """Listeners are open before the image is read: that no ACL is known then does not mean that there is none."""
        return self._of_acls if self._metadata.image.revision else self._by_acls_only

    def allows(self, client: Caller, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a client may do something; nobody is told when not."""
        return not self.enabled or self._authorizer.allows(
            self._metadata.image.acls, client.principal, address(client.client_host), operation, kind, name
        )

    def allows_any(self, client: Caller, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is a resource of this type with which a client may do it."""
        return not self.enabled or self._authorizer.allows_any(
            self._metadata.image.acls, client.principal, address(client.client_host), operation, kind
        )

    def is_broker(self, client: Caller) -> bool:
        """Whether who came to the inter-broker listener is a broker: one of those that are set, or by an ACL.

        Where some are set ``allow.everyone.if.no.acl.found`` makes nobody one: no ACL counts for what brokers ask.
        """
        brokers = self._config.security(client.listener).brokers
        if brokers is None:
            return self.allows(client, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return client.principal in brokers or self._by_acls_only.allows(
            self._metadata.image.acls,
            client.principal,
            address(client.client_host),
            Operation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
        )

    def operations(self, client: Caller, kind: ResourceType, name: str) -> int:
        """What a client may do with a resource, as answers tell it; everything without an authorizer."""
        return bits({operation for operation in SUPPORTED[kind] if self.allows(client, operation, kind, name)})

    def cluster_operations(self, client: Caller) -> int:
        """What a client may do with the cluster: nothing, to whom may not even have it described."""
        if not self.allows(client, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            return 0
        return self.operations(client, ResourceType.CLUSTER, CLUSTER_NAME)

    def denied(self, client: Caller, api_key: int, operation: Operation, kind: ResourceType, name: str) -> None:
        """Count a refusal, and tell of it."""
        self._stats.authorizations_denied += 1
        resource = f"{kind.name}:{name[:NAME_MAX]}"
        who = (client.principal, client.client_host, operation.name, resource, ApiKey(api_key).api_name)
        if self._limit.takes(who):
            fields = ("principal", "address", "operation", "resource", "request")
            self._emit("authorization_denied", **dict(zip(fields, who, strict=True)))
