"""How the clients of an experiment log in at a secured cluster: as a MiniKafkaUser that is made for the experiment. No I/O.

The operator makes the user's Secret, and nobody but the runner's pod mounts it: neither controller nor runner can read Secrets
from the API server. The user may do what load, readers and verifier do, with the topics and the group of the experiment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from minikafka_kube.conditions import condition
from minikafka_kube.kinds import USER, Object
from minikafka_kube.names import CA_FILE, METRICS_TOKEN_FILE, Names
from minikafka_kube.security import is_secured

from minikafka_chaos.experiment.kinds import TEMPLATE_ANNOTATION, user_name
from minikafka_chaos.load.load import GROUP
from minikafka_chaos.scenario.scenario import Scenario

CREDENTIALS_PATH: Final = "/credentials"
CREDENTIALS_VOLUME: Final = "credentials"
PASSWORD_FILE: Final = "sasl.jaas.config"
CERTIFICATE_FILE: Final = "user.pem"
METRICS_FOLDER: Final = "metrics"
"""Where what metrics are read with is."""
_FILES: Final = {"scram-sha-512": PASSWORD_FILE, "tls": CERTIFICATE_FILE}
"""What of a user's Secret a client needs, for each way to log in."""
_READABLE_BY_GROUP: Final = 0o440


@dataclass(frozen=True)
class InternalListener:
    """The listener inside the Kubernetes cluster, of a cluster that is secured."""

    tls: bool
    authentication: str
    """How clients log in there; empty: they do not."""
    authorization: bool
    certificate_secret: str
    """The Secret whose certificate brokers show there; empty: certificates of the cluster CA."""
    lets_anonymous: bool = False
    """Whether who has not logged in is a super user."""
    secured_metrics: bool = False
    """Whether brokers' metrics are read by TLS and with a token."""

    @property
    def protocol(self) -> str:
        """Kafka's name of it."""
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.authentication == "scram-sha-512" else transport


def secured_listener(cluster: Object | None) -> InternalListener | None:
    """The listener that the clients of experiments use; None where the cluster is not secured."""
    spec: Mapping[str, Any] = (cluster or {}).get("spec") or {}
    if not is_secured(spec):
        return None
    listener = (spec.get("listeners") or {}).get("internal") or {}
    authorization = spec.get("authorization") or {}
    return InternalListener(
        bool(listener.get("tls")),
        str((listener.get("authentication") or {}).get("type") or ""),
        bool(authorization),
        str((listener.get("certificateSecret") or {}).get("name") or ""),
        "ANONYMOUS" in (authorization.get("superUsers") or ()),
        bool((spec.get("metrics") or {}).get("secured")),
    )


def refusal(cluster: Object) -> str:
    """Why no client of an experiment could do anything there; empty when it could."""
    listener, name = secured_listener(cluster), cluster["metadata"]["name"]
    if listener is None or listener.authentication in _FILES:
        return ""
    if listener.authentication:
        return (
            f"MiniKafkaCluster {name}: spec.listeners.internal.authentication.type {listener.authentication}: the clients of "
            f"experiments log in there, and have no token; allowed: {', '.join(_FILES)}"
        )
    if not listener.authorization or listener.lets_anonymous:
        return ""
    return (
        f"MiniKafkaCluster {name}: spec.authorization without spec.listeners.internal.authentication: "
        "the clients of experiments could not log in there, and who has not may do nothing"
    )


def user(experiment: Object, cluster: Object, scenario: Scenario, metadata: Mapping[str, Any]) -> Object | None:
    """The MiniKafkaUser of an experiment, with this metadata as well; None where its clients need not log in."""
    listener = secured_listener(cluster)
    if listener is None or listener.authentication not in _FILES:
        return None
    spec: dict[str, Any] = {
        "clusterRef": {"name": cluster["metadata"]["name"]},
        "authentication": {"type": listener.authentication},
    }
    if listener.authorization:
        spec["authorization"] = {"type": "simple", "acls": acls_of_experiment(scenario, group_of(experiment))}
    made = {
        **metadata,
        "name": user_name(experiment["metadata"]["name"]),
        "annotations": {TEMPLATE_ANNOTATION: _digest(spec)},
    }
    return {"apiVersion": USER.api_version, "kind": USER.name, "metadata": made, "spec": spec}


def acls_of_experiment(scenario: Scenario, group: str) -> list[dict[str, Any]]:
    """What the load, the readers and the verifier need; nothing of other topics and groups, nor of the cluster."""
    made = [_acl("topic", topic.name, "Create", "Read", "Write") for topic in scenario.spec.topics]
    if scenario.spec.workload.group_members:
        made.append(_acl("group", group, "Read"))
    return made


def _acl(kind: str, name: str, *operations: str) -> dict[str, Any]:
    return {"resource": {"type": kind, "name": name, "patternType": "literal"}, "operations": list(operations)}


def group_of(experiment: Object) -> str:
    """The consumer group of its load in a cluster that stays: nobody else has it, and committed offsets outlive a topic."""
    return f"{GROUP}-{experiment['metadata']['uid']}"


def is_made_as(there: Object, wanted: Object) -> bool:
    """Whether a user was made for what the experiment and the cluster say now, and not for what they said before an edit."""
    digests = [(one["metadata"].get("annotations") or {}).get(TEMPLATE_ANNOTATION) for one in (there, wanted)]
    return digests[0] == digests[1]


def not_in_force(there: Object) -> str:
    """Why brokers do not know the user yet; empty when they do."""
    ready = condition(there.get("status") or {}, "Ready")
    if not ready:
        return "the operator has said nothing of it"
    if ready.get("observedGeneration") not in (None, there["metadata"].get("generation")):
        return "it is changing"
    return "" if ready["status"] == "True" else str(ready.get("message") or ready.get("reason") or "not ready")


def mounted(experiment: Object, cluster: Object | None) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The volume with what the runner's clients need, and where it is mounted; None where they need nothing.

    One volume, of which the kubelet brings all files at one stroke. A certificate of the user's own may be of a CA that everybody
    knows; then its Secret has no ca.crt.
    """
    listener = secured_listener(cluster)
    if cluster is None or listener is None:
        return None
    sources = []
    names = Names(experiment["metadata"]["namespace"], cluster["metadata"]["name"])
    if listener.authentication in _FILES:
        name = user_name(experiment["metadata"]["name"])
        sources.append(_source(name, _FILES[listener.authentication]))
    if listener.tls and listener.certificate_secret:
        sources.append(_source(listener.certificate_secret, CA_FILE, optional=True))
    elif listener.tls:
        sources.append(_source(names.cluster_ca_cert, CA_FILE))
    if listener.secured_metrics:
        items = [{"key": file, "path": f"{METRICS_FOLDER}/{file}"} for file in (METRICS_TOKEN_FILE, CA_FILE)]
        sources.append({"secret": {"name": names.metrics_access, "items": items}})
    if not sources:
        return None
    volume = {"name": CREDENTIALS_VOLUME, "projected": {"defaultMode": _READABLE_BY_GROUP, "sources": sources}}
    return volume, {"name": CREDENTIALS_VOLUME, "mountPath": CREDENTIALS_PATH, "readOnly": True}


def _source(secret: str, file: str, *, optional: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"name": secret, "items": [{"key": file, "path": file}]}
    return {"secret": {**made, "optional": True} if optional else made}


def _digest(spec: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
