"""Whose access tokens a listener believes: keys and CAs out of objects that the spec names, as files for the brokers.

They are copied into the brokers' own Secret, and only when they can be used: a broker would not start with others, and what it
has already stays. The kubelet brings a new one, and brokers look at the file with the next token, or the next request for keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from minikafka.security.access_tokens import KeysRefused, read_keys
from minikafka.security.tls import TlsSettings, TlsSettingsError, client_context
from minikafka_kube.kinds import CONFIG_MAP, SECRET, Kind
from minikafka_kube.observed import ObservedCluster

from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.api.security import KeyOfObject, OAuthBearerAuthentication, TrustedCertificates
from minikafka_operator.conditions import ClusterReason
from minikafka_operator.security.authorities import texts_in
from minikafka_operator.security.broker_security import FIELDS, issuer_ca_file, keys_file, listener_of


@dataclass(frozen=True)
class _Source:
    """One key of an object that the spec names."""

    field: str
    """Of the spec."""
    kind: Kind
    given: KeyOfObject | TrustedCertificates
    file: str
    reason: ClusterReason
    """Where it cannot be used."""
    refusal: Callable[[str], str]
    """Why brokers do not take a text; empty when they do."""
    allowed: str

    def text(self, observed: ObservedCluster) -> str | None:
        """What is in it; None where there is none."""
        thing = observed.find(self.kind, self.given.name)
        found = texts_in(thing) if self.kind is SECRET else (thing or {}).get("data") or {}
        return found.get(self.given.key)

    def problem(self, observed: ObservedCluster) -> str:
        """One line about what is wrong with it; empty when it can be used."""
        text = self.text(observed)
        if observed.find(self.kind, self.given.name) is None:
            what = "is not there"
        elif text is None:
            what = f"has no {self.given.key}"
        elif refused := self.refusal(text):
            what = f"cannot be used: {self.given.key}: {refused}"
        else:
            return ""
        return f"{self.field}: {self.kind.name} {self.given.name} {what}; allowed: {self.allowed}"


def issuer_files(observed: ObservedCluster, spec: ClusterSpec) -> dict[str, str]:
    """The files that the brokers' settings name, by name; of those that can be used."""
    return {one.file: one.text(observed) or "" for one in _sources(spec) if not one.problem(observed)}


def unusable_of_issuers(observed: ObservedCluster, spec: ClusterSpec) -> tuple[ClusterReason, str] | None:
    """What cannot be used, with the reason of the first; None when all can."""
    found = [(one.reason, says) for one in _sources(spec) if (says := one.problem(observed))]
    return (found[0][0], "; ".join(says for _, says in found)) if found else None


def _sources(spec: ClusterSpec) -> Iterator[_Source]:
    for listener, name in FIELDS.items():
        given, field = listener_of(spec, listener).authentication, f"spec.listeners.{name}.authentication"
        if not isinstance(given, OAuthBearerAuthentication):
            continue
        for kind, keys, of in (
            (CONFIG_MAP, given.jwks_config_map, "jwksConfigMap"),
            (SECRET, given.jwks_secret, "jwksSecret"),
        ):
            if keys is not None:
                yield _Source(
                    f"{field}.{of}", kind, keys, keys_file(name), ClusterReason.TOKEN_KEYS_UNUSABLE, _refusal_of_keys,
                    "one with a JSON Web Key Set (RFC 7517) under that key",
                )  # fmt: skip
        if given.trusted_certificates_secret is not None:
            yield _Source(
                f"{field}.trustedCertificatesSecret", SECRET, given.trusted_certificates_secret, issuer_ca_file(name),
                ClusterReason.CERTIFICATE_UNUSABLE, _refusal_of_certificates, "one with CA certificates in PEM under that key",
            )  # fmt: skip


def _refusal_of_keys(text: str) -> str:
    try:
        read_keys(text.encode())
    except KeysRefused as error:
        return str(error)
    return ""


def _refusal_of_certificates(text: str) -> str:
    if not text.strip():  # brokers would trust whom their image trusts
        return "nothing in it"
    try:
        client_context(TlsSettings(truststore_certificates=text))
    except TlsSettingsError:
        return "no certificates in PEM"
    return ""
