"""What a MiniKafkaCluster says about who is let in and who may do what, and what a MiniKafkaUser shares with it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from minikafka_kube.api.part import LocalObject, Part, rule, rules
from pydantic import Field

SUPER_USERS_MAX: Final = 50

DAY_SECONDS: Final = 86_400


class AuthenticationType(StrEnum):
    """How a client shows who it is."""

    TLS = "tls"
    SCRAM_SHA_512 = "scram-sha-512"
    OAUTHBEARER = "oauthbearer"


class UserAuthentication(Part):
    """How a user shows who it is, with what the operator makes for it."""

    type: Annotated[
        Literal[AuthenticationType.TLS, AuthenticationType.SCRAM_SHA_512],
        Field(description="tls: by a certificate that the clients CA has signed; scram-sha-512: by a password."),
    ]


class TlsAuthentication(Part):
    """By a certificate that the clients CA has signed."""

    type: Literal[AuthenticationType.TLS]


class ScramAuthentication(Part):
    """By a password."""

    type: Literal[AuthenticationType.SCRAM_SHA_512]


ObjectKey = Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253, description="The key in it.")]


class KeyOfObject(LocalObject):
    """One key of a ConfigMap or a Secret."""

    key: ObjectKey


class TrustedCertificates(LocalObject):
    """Certificates in a Secret."""

    key: ObjectKey = "ca.crt"


Claim = Annotated[str, Field(pattern=r"^\S+$", max_length=256)]


class OAuthBearerAuthentication(Part):
    """By an access token that somebody else has issued."""

    type: Literal[AuthenticationType.OAUTHBEARER]
    jwks_endpoint_url: Annotated[
        str | None,
        Field(
            pattern=r"^https://[^/?#@\s]+(/[^#\s]*)?$",
            max_length=1024,
            description="Where brokers ask for the keys with which tokens are signed, an https address "
            "(sasl.oauthbearer.jwks.endpoint.url).",
        ),
    ] = None
    trusted_certificates_secret: Annotated[
        TrustedCertificates | None,
        Field(
            description="A Secret with the CA certificates, in PEM, that brokers trust at jwksEndpointUrl. Without it: those "
            "that their image trusts."
        ),
    ] = None
    jwks_config_map: Annotated[
        KeyOfObject | None,
        Field(description="Instead of jwksEndpointUrl: a ConfigMap with the keys, a JSON Web Key Set (RFC 7517)."),
    ] = None
    jwks_secret: Annotated[
        KeyOfObject | None,
        Field(description="Instead of jwksEndpointUrl: a Secret with the keys, a JSON Web Key Set (RFC 7517)."),
    ] = None
    expected_issuer: Annotated[
        str,
        Field(
            pattern=r"^\S+$",
            max_length=1024,
            description="Who has to have issued a token, as its claim iss says (sasl.oauthbearer.expected.issuer).",
        ),
    ]
    expected_audience: Annotated[
        list[Annotated[str, Field(pattern=r"^[^,\s]+$", max_length=1024)]] | None,
        Field(
            min_length=1,
            max_length=10,
            description="A token has to be for one of these, as its claim aud says (sasl.oauthbearer.expected.audience). Without "
            "it tokens for anybody else let in here, too.",
        ),
    ] = None
    sub_claim_name: Annotated[
        Claim | None,
        Field(
            description="The claim with the user's name (sasl.oauthbearer.sub.claim.name). Without it: sub. It has to be one "
            "that people cannot choose for themselves."
        ),
    ] = None
    scope_claim_name: Annotated[
        Claim | None,
        Field(
            description="The claim with the scope, which has to be text and decides nothing (sasl.oauthbearer.scope.claim.name). "
            "Without it: scope."
        ),
    ] = None


Authentication = Annotated[
    TlsAuthentication | ScramAuthentication | OAuthBearerAuthentication, Field(discriminator="type")
]
"""How clients show who they are."""


def authentication_rules(listener: str) -> list[dict[str, str]]:
    """What cannot be said of the authentication of a listener, for ``listener`` is the field that has it."""
    field, is_oauth = f"{listener}.authentication", f"self.authentication.type == '{AuthenticationType.OAUTHBEARER}'"
    keys = ("jwksEndpointUrl", "jwksConfigMap", "jwksSecret")
    given = ", ".join(f"has(self.authentication.{name})" for name in keys)
    return [
        rule(
            f"!has(self.authentication) || self.authentication.type != '{AuthenticationType.TLS}' || self.tls",
            f"{field}.type {AuthenticationType.TLS} needs {listener}.tls",
            ".authentication",
        ),
        rule(
            f"!has(self.authentication) || !({is_oauth}) || self.tls",
            f"{field}.type {AuthenticationType.OAUTHBEARER} needs {listener}.tls: whoever sees a token can use it",
            ".authentication",
        ),
        rule(
            f"!has(self.authentication) || !({is_oauth}) || [{given}].exists_one(each, each)",
            f"{field}.type {AuthenticationType.OAUTHBEARER} needs exactly one of {', '.join(keys[:-1])} and {keys[-1]}",
            ".authentication",
        ),
        rule(
            "!has(self.authentication) || !has(self.authentication.trustedCertificatesSecret) || "
            "has(self.authentication.jwksEndpointUrl)",
            f"{field}.trustedCertificatesSecret needs {field}.jwksEndpointUrl",
            ".authentication.trustedCertificatesSecret",
        ),
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
        list[
            Annotated[
                str,
                Field(
                    pattern=r"^[^;:\s][^;]*$",
                    max_length=256,
                    json_schema_extra=rules(
                        rule("!self.startsWith('User:')", "spec.authorization.superUsers: names only, without User:")
                    ),
                ),
            ]
        ]
        | None,
        Field(
            max_length=SUPER_USERS_MAX,
            description="Names of users who may do everything, whatever ACLs say: NAME of one with a password or a token, "
            "CN=NAME of one with a certificate.",
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
