"""The Secrets of a secured cluster: its two CAs, and what brokers show and trust (docs/decisions/026).

Names of Secrets are Strimzi's. What is there and still serves stays, so a look at a settled cluster changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from minikafka.security.certificates import KeyPair, expiry, issued, serves
from minikafka.security.tls import TlsSettings, TlsSettingsError, server_context
from minikafka_kube.disruption_lease import hold_of, is_experiment
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import LEASE, SECRET, SERVICE, Object
from minikafka_kube.names import (
    MANAGER,
    RENEW_CLIENTS_CA_ANNOTATION,
    RENEW_CLUSTER_CA_ANNOTATION,
    RENEW_METRICS_TOKEN_ANNOTATION,
)
from minikafka_kube.observed import ObservedCluster, annotations_of
from minikafka_kube.ownership import Standing

from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.api.security import CertificateAuthority
from minikafka_operator.manifests.external import NODE_ADDRESS, Externals, bootstrap_external
from minikafka_operator.manifests.objects import ResourceBuilder
from minikafka_operator.manifests.token_issuers import issuer_files
from minikafka_operator.security.authorities import (
    CA_CERTIFICATE,
    Authority,
    Renewal,
    authority_in,
    authority_now,
    encoded,
    texts_in,
)
from minikafka_operator.security.broker_security import (
    CLIENTS_CA_FILE,
    CLUSTER_CA_FILE,
    FIELDS,
    METRICS_TOKENS_FILE,
    broker_file,
    broker_subject,
    listener_file,
    listener_of,
)
from minikafka_operator.security.metrics_tokens import MetricsTokens, tokens_now

TLS_CERTIFICATE, TLS_KEY = "tls.crt", "tls.key"
"""As Secrets of the type kubernetes.io/tls have them."""

_CERTIFICATES: Final = "certificates"


@dataclass(frozen=True)
class Authorities:
    """Both CAs of a cluster."""

    cluster: Authority
    clients: Authority

    @property
    def renewing(self) -> bool:
        """Return whether a renewal is under way."""
        return self.cluster.renewing or self.clients.renewing


def authorities_now(observed: ObservedCluster, spec: ClusterSpec) -> Authorities:
    """Both CAs as they have to be now."""
    names = observed.names
    trusted = texts_in(own_secret(observed, names.broker_certificates))
    hold = hold_of(observed.find(LEASE, names.disruption))
    experiment = is_experiment(hold) and hold.by_other(MANAGER, observed.now)

    def now(secret: str, file: str, terms: CertificateAuthority, annotation: str) -> Authority:
        asked = annotations_of(observed.cluster).get(annotation, "")
        wanted = Renewal(names.cluster, file.removesuffix(".crt"), terms, asked, waits=experiment)
        return authority_now(own_secret(observed, secret), trusted.get(file, ""), wanted, observed.now)

    return Authorities(
        now(names.cluster_ca, CLUSTER_CA_FILE, spec.cluster_ca, RENEW_CLUSTER_CA_ANNOTATION),
        now(names.clients_ca, CLIENTS_CA_FILE, spec.clients_ca, RENEW_CLIENTS_CA_ANNOTATION),
    )


def metrics_tokens_now(observed: ObservedCluster, spec: ClusterSpec) -> MetricsTokens:
    """The tokens of metrics as they have to be now."""
    asked = annotations_of(observed.cluster).get(RENEW_METRICS_TOKEN_ANNOTATION, "")
    secret = own_secret(observed, observed.names.metrics_access)
    return tokens_now(secret, asked, spec.cluster_ca.grace_seconds, observed.now)


def authorities_found(observed: ObservedCluster) -> Authorities | None:
    """Both CAs as their Secrets have them; None until both are there."""
    cluster = authority_in(own_secret(observed, observed.names.cluster_ca))
    clients = authority_in(own_secret(observed, observed.names.clients_ca))
    return Authorities(cluster, clients) if cluster and clients else None


def certificates_status(authorities: Authorities) -> dict[str, Any]:
    """What the cluster's status says of them."""
    made: dict[str, Any] = {"renewing": authorities.renewing}
    for name, authority in (("clusterCaExpires", authorities.cluster), ("clientsCaExpires", authorities.clients)):
        until = expiry(authority.signing.certificate)
        if until is not None:
            made[name] = time_text(until)
    return made


def own_secret(observed: ObservedCluster, name: str) -> Object | None:
    """A Secret of the cluster's own; one of somebody else is none."""
    found = observed.find(SECRET, name)
    return found if found is not None and observed.standing(found) is Standing.OURS else None


def security_objects(
    observed: ObservedCluster,
    builder: ResourceBuilder,
    authorities: Authorities,
    tokens: MetricsTokens,
    replicas: int,
    found: Externals,
) -> list[Object]:
    """The Secrets as they have to be."""
    names, now = builder.names, observed.now
    made = []
    for authority, keys, certificates in (
        (authorities.cluster, names.cluster_ca, names.cluster_ca_cert),
        (authorities.clients, names.clients_ca, names.clients_ca_cert),
    ):
        secret = _secret(builder, keys, authority.data())
        secret["metadata"]["annotations"] = authority.annotations()
        made += [secret, _secret(builder, certificates, {CA_CERTIFICATE: authority.trusted(now)})]
    files = {CLUSTER_CA_FILE: authorities.cluster.trusted(now), CLIENTS_CA_FILE: authorities.clients.trusted(now)}
    there = texts_in(own_secret(observed, names.broker_certificates))
    for broker_id in range(replicas):
        file = broker_file(broker_id)
        files[file] = _brokers_pair(observed, builder.spec, authorities.cluster, broker_id, found, there.get(file, ""))
    if builder.spec.metrics.secured:
        files[METRICS_TOKENS_FILE] = tokens.accepted
        access = {**tokens.data(), CA_CERTIFICATE: authorities.cluster.trusted(now)}
        made.append(_secret(builder, names.metrics_access, access))
        made[-1]["metadata"]["annotations"] = tokens.annotations()
    files |= {listener_file(field): pair.bundle for field, pair in given_pairs(observed, builder.spec).items()}
    files |= issuer_files(observed, builder.spec)
    return [*made, _secret(builder, names.broker_certificates, files)]


def given_pairs(observed: ObservedCluster, spec: ClusterSpec) -> dict[str, KeyPair]:
    """Keys and certificates that the spec names, by field of the listener; those that can be used."""
    made = {}
    for listener, field in FIELDS.items():
        given = listener_of(spec, listener).certificate_secret
        if given is not None:
            data = texts_in(observed.find(SECRET, given.name))
            pair = KeyPair(data.get(TLS_CERTIFICATE, ""), data.get(TLS_KEY, ""))
            if _can_be_shown(pair):
                made[field] = pair
    return made


def _can_be_shown(pair: KeyPair) -> bool:
    """Return whether a broker takes them, by trying: the whole chain has to be readable, and no key too short."""
    try:
        server_context(TlsSettings(keystore_key=pair.key, keystore_certificate_chain=pair.certificate))
    except TlsSettingsError:
        return False
    return True


def unusable_certificates(observed: ObservedCluster, spec: ClusterSpec) -> str:
    """One line about certificates that the spec names and that cannot be used; empty when there are none."""
    usable = given_pairs(observed, spec)
    lines = []
    for listener, field in FIELDS.items():
        given = listener_of(spec, listener).certificate_secret
        if given is not None and field not in usable:
            what = "is not there" if observed.find(SECRET, given.name) is None else "cannot be used"
            lines.append(
                f"spec.listeners.{field}.certificateSecret: Secret {given.name} {what}; allowed: one with {TLS_CERTIFICATE} "
                f"and {TLS_KEY} that belong together, in PEM"
            )
    return "; ".join(lines)


def _brokers_pair(
    observed: ObservedCluster, spec: ClusterSpec, authority: Authority, broker_id: int, found: Externals, there: str
) -> str:
    subject = broker_subject(observed.names, _hosts(observed, spec, broker_id, found))
    terms = spec.cluster_ca
    key, _, certificate = there.partition("-----BEGIN CERTIFICATE-----")
    pair = KeyPair(f"-----BEGIN CERTIFICATE-----{certificate}", key)
    if serves(pair, authority.signing, subject, observed.now, terms.validity_days, terms.renewal_days):
        return there
    return issued(authority.signing, subject, observed.now, terms.validity_days).bundle


def _hosts(observed: ObservedCluster, spec: ClusterSpec, broker_id: int, found: Externals) -> frozenset[str]:
    """Names and addresses at which clients find a broker."""
    names = observed.names
    inside = (names.pod_host(broker_id), names.bootstrap_host)
    made = {names.bootstrap, f"{names.bootstrap}.{names.namespace}"}
    made |= {f"{host}{domain}" for host in inside for domain in ("", ".cluster.local")}
    if spec.listeners.external is None or observed.find(SERVICE, names.bootstrap_external) is None:
        return frozenset(made)
    address = found.addresses.get(broker_id)
    if address is not None and address.host != NODE_ADDRESS:
        made.add(address.host)
    outside = bootstrap_external(spec, observed) or ""
    made |= {one.rpartition(":")[0].strip("[]") for one in outside.split(",") if one}
    # A node port is there on every node, and a pod may come to any of those where brokers are.
    made |= {pod.host_ip for pod in observed.brokers.values() if pod.host_ip}
    return frozenset(made)


def _secret(builder: ResourceBuilder, name: str, texts: dict[str, str]) -> Object:
    return builder.object(SECRET, name, _CERTIFICATES, type="Opaque", data=encoded(texts))
