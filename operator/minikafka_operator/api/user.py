"""MiniKafkaUser (``mku``): who may log in at a cluster, and what that user may do there. The operator makes it so."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from minikafka.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from minikafka_kube.api.part import Conditions, Part, rule, rules
from pydantic import ConfigDict, Field

from minikafka_operator.api.security import AuthenticationType, AuthorizationType, UserAuthentication
from minikafka_operator.api.topic import ClusterReference

USER_NAME_MAX: Final = 64
"""Of the common name of a certificate (RFC 5280)."""

TOKEN_NAME_MAX: Final = 256
"""Of a user for whom the operator makes nothing to log in with: others give it its name."""

ACLS_MAX: Final = 200

RATE_MAX: Final = 2**53
"""Brokers are told of quotas in floating point numbers, which are exact up to here."""


class AclResourceType(StrEnum):
    """What an ACL is about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactionalId"


class AclPatternType(StrEnum):
    """How a resource's name is read."""

    LITERAL = "literal"
    PREFIX = "prefix"


class AclResource(Part):
    """What an ACL is about."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"(self.type == '{AclResourceType.CLUSTER}') != has(self.name)",
                "spec.authorization.acls.resource.name is needed, but with type cluster, which has none",
                ".name",
            ),
            rule(
                f"self.type != '{AclResourceType.CLUSTER}' || self.patternType == '{AclPatternType.LITERAL}'",
                "spec.authorization.acls.resource.patternType is for types other than cluster",
                ".patternType",
            ),
        )
    )

    type: Annotated[AclResourceType, Field(description="topic, group, cluster, or transactionalId.")]
    name: Annotated[
        str | None,
        Field(min_length=1, max_length=249, description="Its name, or what names begin with; * stands for all."),
    ] = None
    pattern_type: Annotated[
        AclPatternType, Field(description="literal: of this very name; prefix: whose names begin with it.")
    ] = AclPatternType.LITERAL


class AclOperation(StrEnum):
    """What is done with a resource."""

    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class AclPermission(StrEnum):
    """Whether it may be done."""

    ALLOW = "allow"
    DENY = "deny"


class AclRule(Part):
    """What a user may, or may not, do with some resources."""

    resource: Annotated[AclResource, Field(description="With what.")]
    operations: Annotated[
        list[AclOperation], Field(min_length=1, max_length=len(AclOperation), description="What is done with it.")
    ]
    host: Annotated[
        str, Field(min_length=1, max_length=253, description="From which address; * stands for every one.")
    ] = "*"
    type: Annotated[AclPermission, Field(description="allow, or deny, which beats all that allow.")] = (
        AclPermission.ALLOW
    )


class UserAuthorization(Part):
    """What the user may do."""

    type: Annotated[AuthorizationType, Field(description="simple: by ACLs.")]
    acls: Annotated[list[AclRule], Field(max_length=ACLS_MAX, description="All ACLs of the user; others are removed.")]


class UserQuotas(Part):
    """How much the user may use of each broker, all its clients together."""

    producer_byte_rate: Annotated[
        int | None, Field(ge=1, le=RATE_MAX, description="Bytes that it may produce in a second.")
    ] = None
    consumer_byte_rate: Annotated[
        int | None, Field(ge=1, le=RATE_MAX, description="Bytes that it may fetch in a second.")
    ] = None
    request_percentage: Annotated[
        int | None, Field(ge=1, le=RATE_MAX, description="Share of the time of one thread that its requests may take.")
    ] = None
    controller_mutation_rate: Annotated[
        int | None,
        Field(
            ge=1, le=RATE_MAX, description="Partitions that it may create and delete in a second, in the whole cluster."
        ),
    ] = None

    @property
    def by_name(self) -> dict[str, float]:
        """Those that are set, by Kafka's names."""
        found = {
            PRODUCER_BYTE_RATE: self.producer_byte_rate,
            CONSUMER_BYTE_RATE: self.consumer_byte_rate,
            REQUEST_PERCENTAGE: self.request_percentage,
            CONTROLLER_MUTATION_RATE: self.controller_mutation_rate,
        }
        return {name: float(value) for name, value in found.items() if value is not None}


class UserSpec(Part):
    """The desired user."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.userName) == has(oldSelf.userName)",
                "spec.userName cannot be added or removed: a user cannot be renamed",
                ".userName",
            ),
            rule(
                "has(self.authentication) == has(oldSelf.authentication)",
                "spec.authentication cannot be added or removed: make another user",
                ".authentication",
            ),
            rule(
                "!has(self.authentication) || !has(self.userName) || "
                f"self.userName.matches('^[A-Za-z0-9][A-Za-z0-9._@-]{{0,{USER_NAME_MAX - 1}}}$')",
                f"spec.userName of a user with spec.authentication has at most {USER_NAME_MAX} characters: letters and digits, "
                "and after the first one also . _ @ -",
                ".userName",
            ),
            rule(
                "has(self.authentication) || !has(self.userName) || !self.userName.startsWith('CN=')",
                "spec.userName without spec.authentication cannot begin with CN=: brokers refuse tokens of such a name",
                ".userName",
            ),
        )
    )

    cluster_ref: Annotated[ClusterReference, Field(description="The cluster that the user belongs to.")]
    user_name: Annotated[
        str | None,
        Field(
            pattern=r"^[!-~]+$",
            max_length=TOKEN_NAME_MAX,
            description="Name of the user where it cannot be the object's (capitals, underscores, a subject of tokens). Without "
            "it: metadata.name.",
            json_schema_extra=rules(
                rule("self == oldSelf", "spec.userName cannot be changed: a user cannot be renamed"),
                rule("self != 'ANONYMOUS'", "spec.userName cannot be ANONYMOUS: that is whoever has not logged in"),
            ),
        ),
    ] = None
    authentication: Annotated[
        UserAuthentication | None,
        Field(
            description="How the user logs in. The Secret of the object's name has what it takes. Without it: by a token of "
            "somebody else's, at a listener with authentication of type oauthbearer. It cannot be changed.",
            json_schema_extra=rules(
                rule(
                    "self.type == oldSelf.type",
                    "spec.authentication.type cannot be changed: make another user",
                    ".type",
                )
            ),
        ),
    ] = None
    authorization: Annotated[
        UserAuthorization | None, Field(description="What the user may do. Without it: nothing that needs an ACL.")
    ] = None
    quotas: Annotated[
        UserQuotas | None,
        Field(description="How much the user may use. All quotas of the user alone; others are removed."),
    ] = None


class UserStatus(Part):
    """The user as it is."""

    observed_generation: Annotated[
        int | None,
        Field(json_schema_extra={"format": "int64"}, description="The generation of the spec this speaks of."),
    ] = None
    conditions: Conditions | None = None
    user_name: Annotated[
        str | None, Field(description="As whom brokers know the user: what ACLs and super users name, after User:.")
    ] = None
    secret: Annotated[str | None, Field(description="The Secret with what it takes to log in.")] = None
    secret_version: Annotated[
        str | None, Field(description="Of which uid and resource version of it the cluster has the password.")
    ] = None


class User(Part):
    """MiniKafkaUser is a user of a MiniKafkaCluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"has(self.spec.userName) || !has(self.spec.authentication) || size(self.metadata.name) <= {USER_NAME_MAX}",
                f"metadata.name: the name of a user has at most {USER_NAME_MAX} characters",
            )
        )
    )

    spec: Annotated[UserSpec, Field(description="The desired user.")]
    status: Annotated[UserStatus | None, Field(description="The user as it is.")] = None


def principal_name(name: str, kind: AuthenticationType | None) -> str:
    """As whom brokers know a user of this name."""
    return f"CN={name}" if kind is AuthenticationType.TLS else name
