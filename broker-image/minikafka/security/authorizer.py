"""Who may do what: super users, ACLs, and what holds where there are none (Kafka's ``StandardAuthorizer``)."""

from __future__ import annotations

from collections.abc import Mapping, Set

from minikafka.security.acls import AclSet, Operation, ResourceType

KAFKAS_NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NAMES = ("", KAFKAS_NAME, "StandardAuthorizer")
"""Values of ``authorizer.class.name``: none, Kafka's, and a short one."""

_A_RESOURCE = "hardcode"
"""Kafka's name for a resource that no ACL is about."""

_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
SUPPORTED: Mapping[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER, *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE, *_CONFIGS),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, *_CONFIGS, Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
}  # fmt: skip
"""What can be done with a resource of a type: the operations that answers tell of (Kafka's ``AclEntry``)."""


def bits(operations: Set[Operation]) -> int:
    """Operations as a field of an answer has them: one bit for each."""
    return sum(1 << operation for operation in operations)


class Authorizer:
    """Decides by ACLs that are handed to it.

    Args:
        super_users: principals that may do everything, whatever ACLs say.
        everyone_if_no_acl: ``allow.everyone.if.no.acl.found``.
    """

    def __init__(self, super_users: Set[str], everyone_if_no_acl: bool) -> None:
        self._super_users = super_users
        self._default = everyone_if_no_acl

    def allows(
        self, acls: AclSet, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether somebody may do something with a resource."""
        if principal in self._super_users:
            return True
        decided = acls.decide(principal, host, operation, kind, name)
        return self._default if decided is None else decided

    def allows_any(self, acls: AclSet, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is a resource of this type with which somebody may do it."""
        return self.allows(acls, principal, host, operation, kind, _A_RESOURCE) or acls.allow_any(
            principal, host, operation, kind
        )
