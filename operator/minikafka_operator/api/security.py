"""What a MiniKafkaCluster says about who is let in and who may do what, and what a MiniKafkaUser shares with it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from minikafka_kube.api.part import Part, rule
from pydantic import Field

SUPER_USERS_MAX: Final = 50

DAY_SECONDS: Final = 86_400


class AuthenticationType(StrEnum):
    """How a client shows who it is."""

    TLS = "tls"
    SCRAM_SHA_512 = "scram-sha-512"


class Authentication(Part):
    """How clients show who they are."""

    type: Annotated[
        AuthenticationType,
        Field(description="tls: by a certificate that the clients CA has signed; scram-sha-512: by a password."),
    ]


class AuthorizationType(StrEnum):
    """Who decides what somebody may do."""

    SIMPLE = "simple"


class AuthorizationSpec(Part):
    """Who may do what."""

    type: Annotated[
        AuthorizationType, Field(description="simple: the ACLs of MiniKafkaUsers, as Kafka's authorizer reads them.")
    ]
    super_users: Annotated[
        list[Annotated[str, Field(pattern=r"^[^;:\s][^;:]*$", max_length=256)]] | None,
        Field(
            max_length=SUPER_USERS_MAX,
            description="Names of users who may do everything, whatever ACLs say: NAME of one with a password, CN=NAME of one "
            "with a certificate.",
        ),
    ] = None


class CertificateAuthority(Part):
    """How long certificates are valid, and when and how fast they are renewed."""

    validity_days: Annotated[
        int,
        Field(ge=2, le=3650, description="For how many days the CA's certificate, and those that it signs, are valid."),
    ] = 365
    renewal_days: Annotated[
        int, Field(ge=1, le=3649, description="How many days before they expire they are renewed.")
    ] = 30
    grace_seconds: Annotated[
        int,
        Field(
            ge=60,
            le=30 * DAY_SECONDS,
            description="How long a new CA is trusted before it signs anything, and the one before it after that: the time that "
            "brokers and clients have to read the new certificates. The kubelet takes some two minutes.",
        ),
    ] = DAY_SECONDS


def authority_rules(name: str) -> list[dict[str, str]]:
    """What cannot be said of the CA of this name."""
    field = f"spec.{name}"
    return [
        rule(
            "self.renewalDays < self.validityDays",
            f"{field}.renewalDays must be less than {field}.validityDays",
            ".renewalDays",
        ),
        rule(
            f"2 * self.graceSeconds < self.renewalDays * {DAY_SECONDS}",
            f"{field}.graceSeconds must be less than half of {field}.renewalDays: a renewal takes twice the one",
            ".graceSeconds",
        ),
    ]
