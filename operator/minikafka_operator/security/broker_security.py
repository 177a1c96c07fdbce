"""The brokers' settings about TLS, logins and authorization, as the rest of the spec asks for them.

Brokers know each other by certificates of the cluster CA, which signs for nobody else; so on the replication listener it is
the certificate that counts, and not the address that it was shown at, which changes with every start of a pod. Users'
certificates are of another CA, so none of them gets in there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from minikafka.config.oauth_settings import JWKS_URL
from minikafka.security.authorizer import KAFKAS_NAME
from minikafka.security.certificates import Subject
from minikafka.security.jaas import OAUTHBEARER_MODULE
from minikafka_kube.names import CERTIFICATES_PATH, Names

from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.api.listeners import SecuredListener
from minikafka_operator.api.security import Authentication, AuthenticationType, OAuthBearerAuthentication

REPLICATION: Final = "REPLICATION"
FIELDS: Final = {"CLIENT": "internal", "EXTERNAL": "external"}
"""The field of ``spec.listeners`` for each listener that clients use."""

CLUSTER_CA_FILE: Final = "cluster-ca.crt"
CLIENTS_CA_FILE: Final = "clients-ca.crt"
METRICS_TOKENS_FILE: Final = "metrics.tokens"

_ISSUER, _AUDIENCE = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
_SUBJECT, _SCOPE = "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name"
_MECHANISMS: Final = {
    AuthenticationType.SCRAM_SHA_512: "SCRAM-SHA-512",
    AuthenticationType.OAUTHBEARER: "OAUTHBEARER",
}
"""Of SASL, for each type that logs in by it."""

RESERVED: Final = (
    "authorizer.class.name", "super.users", "ssl.client.auth", "sasl.enabled.mechanisms",
    JWKS_URL, _ISSUER, _AUDIENCE, _SUBJECT, _SCOPE,
)  # fmt: skip
RESERVED_PREFIXES: Final = ("listener.name.", "ssl.keystore.", "ssl.truststore.", "ssl.key.", "ssl.principal.")
"""Settings that a secured cluster's spec says in other fields."""


def broker_subject(names: Names, hosts: frozenset[str] = frozenset()) -> Subject:
    """As whom a broker shows itself; to each other all are the same."""
    return Subject(names.broker, is_ours=True, hosts=hosts)


def operator_subject(names: Names) -> Subject:
    """As whom the operator makes users and ACLs."""
    return Subject(f"{names.cluster}-operator", is_ours=True)


def broker_file(broker_id: int) -> str:
    """The file with the key and the certificate of one broker."""
    return f"broker-{broker_id}.pem"


def listener_file(field: str) -> str:
    """The file with a key and a certificate that the spec names for a listener."""
    return f"{field}.pem"


def keys_file(field: str) -> str:
    """The file with the keys that sign the tokens which a listener believes."""
    return f"{field}-jwks.json"


def issuer_ca_file(field: str) -> str:
    """The file with the CAs that brokers trust where they ask for these keys."""
    return f"{field}-jwks-ca.crt"


def listener_of(spec: ClusterSpec, listener: str) -> SecuredListener:
    """What the spec says of one of the clients' listeners."""
    found: SecuredListener | None = getattr(spec.listeners, FIELDS[listener])
    return found or SecuredListener()


def takes(spec: ClusterSpec, kind: AuthenticationType) -> bool:
    """Return whether users of this kind can log in at any listener."""
    listeners = [listener_of(spec, name).authentication for name in FIELDS]
    return any(one is not None and one.type is kind for one in listeners)


def security_properties(spec: ClusterSpec, names: Names, broker_id: int, listeners: Collection[str]) -> dict[str, str]:
    """The settings, for the listeners that there are. Without anything to secure it is what it always was."""
    if not spec.secured:
        return {"listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners)}
    protocols: dict[str, str] = {}
    made: dict[str, str] = {}
    for name in listeners:
        if name == REPLICATION:
            protocols[name] = "SSL"
            made |= _replication(broker_id)
        else:
            listener = listener_of(spec, name)
            protocols[name] = _protocol(listener)
            made |= _for_clients(name, listener, broker_id)
    ours = [broker_subject(names).principal, operator_subject(names).principal]
    others = (spec.authorization.super_users or ()) if spec.authorization else ()
    made["super.users"] = ";".join(f"User:{name}" for name in [*ours, *others])
    if spec.metrics.secured:
        made["minikafka.metrics.ssl.keystore.location"] = f"{CERTIFICATES_PATH}/{broker_file(broker_id)}"
        made["minikafka.metrics.tokens.path"] = f"{CERTIFICATES_PATH}/{METRICS_TOKENS_FILE}"
    if spec.authorization is not None:
        made["authorizer.class.name"] = KAFKAS_NAME
    return {"listener.security.protocol.map": ",".join(f"{name}:{one}" for name, one in protocols.items()), **made}


def reserved_problems(spec: ClusterSpec) -> tuple[str, ...]:
    """One line for each setting in ``spec.config`` that would be at odds with these."""
    if not spec.secured:
        return ()
    found = [key for key in spec.config or {} if key in RESERVED or key.startswith(RESERVED_PREFIXES)]
    where = "made by the operator from spec.listeners and spec.authorization"
    return tuple(f"spec.config: {key} is {where}" for key in found)


def _protocol(listener: SecuredListener) -> str:
    logs_in = listener.authentication is not None and listener.authentication.type in _MECHANISMS
    transport = "SSL" if listener.tls else "PLAINTEXT"
    return f"SASL_{transport}" if logs_in else transport


def _replication(broker_id: int) -> dict[str, str]:
    return _prefixed(
        REPLICATION,
        {
            **_shown(broker_file(broker_id)),
            **_trusted(CLUSTER_CA_FILE),
            "ssl.endpoint.identification.algorithm": "",
            "ssl.principal.mapping.rules": "DEFAULT",
        },
    )


def _for_clients(name: str, listener: SecuredListener, broker_id: int) -> dict[str, str]:
    made: dict[str, str] = {}
    if listener.tls:
        given = listener.certificate_secret is not None
        made |= _shown(listener_file(FIELDS[name]) if given else broker_file(broker_id))
    if listener.authentication is not None:
        made |= _logins(FIELDS[name], listener.authentication)
    return _prefixed(name, made)


def _logins(field: str, authentication: Authentication) -> dict[str, str]:
    if authentication.type is AuthenticationType.TLS:
        return {**_trusted(CLIENTS_CA_FILE), "ssl.principal.mapping.rules": "DEFAULT"}
    made = {"sasl.enabled.mechanisms": _MECHANISMS[authentication.type]}
    if isinstance(authentication, OAuthBearerAuthentication):
        made |= _tokens(field, authentication)
    return made


def _tokens(field: str, given: OAuthBearerAuthentication) -> dict[str, str]:
    said = {
        JWKS_URL: given.jwks_endpoint_url or f"file://{CERTIFICATES_PATH}/{keys_file(field)}",
        _ISSUER: given.expected_issuer,
        _AUDIENCE: ",".join(given.expected_audience or ()),
        _SUBJECT: given.sub_claim_name or "",
        _SCOPE: given.scope_claim_name or "",
    }
    made = {key: value for key, value in said.items() if value}
    if given.trusted_certificates_secret is not None:
        where = f"{CERTIFICATES_PATH}/{issuer_ca_file(field)}"
        made["oauthbearer.sasl.jaas.config"] = (
            f'{OAUTHBEARER_MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="{where}";'
        )
    return made


def _shown(file: str) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{CERTIFICATES_PATH}/{file}"}


def _trusted(file: str) -> dict[str, str]:
    return {
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{CERTIFICATES_PATH}/{file}",
    }


def _prefixed(listener: str, settings: dict[str, str]) -> dict[str, str]:
    return {f"listener.name.{listener.lower()}.{key}": value for key, value in settings.items()}
