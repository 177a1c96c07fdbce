"""Names, labels, ports and paths that the operator, the brokers and their images agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from minikafka_kube.api import GROUP

MANAGER: Final = "minikafka-operator"
"""Field manager of every write, and value of the label ``app.kubernetes.io/managed-by``."""

CLUSTER_LABEL: Final = f"{GROUP}/cluster"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"

APPLIED_ANNOTATION: Final = f"{GROUP}/applied"
"""On every object: digest of what was applied, so that a field that is no longer desired is noticed too."""
TEMPLATE_ANNOTATION: Final = f"{GROUP}/template"
"""On pods: digest of the template they were made from, without the brokers' settings."""
CONFIG_ANNOTATION: Final = f"{GROUP}/config"
"""On pods: digests of the settings of all brokers, as ``0=ab12,1=cd34``; a pod looks at its own."""
ACCOUNT_ANNOTATION: Final = f"{GROUP}/service-account"
"""On pods: uid of the ServiceAccount they were made with. Their token is of that one, and refused when it is gone."""
RACK_ANNOTATION: Final = f"{GROUP}/rack"
"""On pods: the rack, put there by the operator once the pod's node is known."""
RENEW_CLUSTER_CA_ANNOTATION: Final = f"{GROUP}/renew-cluster-ca"
"""On a MiniKafkaCluster: any value that is not the last one asks for a new cluster CA."""
RENEW_CLIENTS_CA_ANNOTATION: Final = f"{GROUP}/renew-clients-ca"
"""On a MiniKafkaCluster: the same for the clients CA."""
RENEW_METRICS_TOKEN_ANNOTATION: Final = f"{GROUP}/renew-metrics-token"
"""On a MiniKafkaCluster: the same for the token by which metrics are read."""
RENEW_ANNOTATION: Final = f"{GROUP}/renew"
"""On a MiniKafkaUser: the same for a new password or certificate."""
RENEWED_ANNOTATION: Final = f"{GROUP}/renewed"
"""On a Secret: the value of the annotation that asked for what is in it."""
SINCE_ANNOTATION: Final = f"{GROUP}/since"
"""On the Secret of a CA, or of the metrics' token: since when its renewal is where it is."""

CLUSTER_FINALIZER: Final = f"{GROUP}/cluster"
TOPIC_FINALIZER: Final = f"{GROUP}/topic"
USER_FINALIZER: Final = f"{GROUP}/user"

CLIENT_PORT: Final = 9092
REPLICATION_PORT: Final = 9091
EXTERNAL_PORT: Final = 9094
METRICS_PORT: Final = 9404
"""Of brokers, and of the operator."""

METRICS_TOKEN_FILE: Final = "token"
"""In the Secret of those who read metrics."""
CA_FILE: Final = "ca.crt"
"""In Secrets: what is trusted."""

USER_ID: Final = 65532
CONTAINER: Final = "broker"
RACK_CONTAINER: Final = "rack"
AGENT_CONTAINER: Final = "chaos-agent"

CONFIG_PATH: Final = "/etc/minikafka"
CERTIFICATES_PATH: Final = "/etc/minikafka-certificates"
POD_PATH: Final = "/etc/minikafka-pod"
DATA_PATH: Final = "/var/lib/minikafka/data"
LOG_PATH: Final = f"{DATA_PATH}/log"
UNFLUSHED_PATH: Final = "/var/lib/minikafka/unflushed"
EVENTS_PATH: Final = "/var/lib/minikafka/events"
CHAOS_PATH: Final = "/var/lib/minikafka/chaos"

DATA_VOLUME: Final = "data"
EVENTS_VOLUME: Final = "events"
CHAOS_VOLUME: Final = "chaos"
CERTIFICATES_VOLUME: Final = "certificates"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of everything that belongs to one cluster."""

    namespace: str
    cluster: str

    @property
    def broker(self) -> str:
        """StatefulSet, ServiceAccount, Role, RoleBinding, PodDisruptionBudget and NetworkPolicy."""
        return f"{self.cluster}-broker"

    def pod(self, broker_id: int) -> str:
        """The pod of a broker."""
        return f"{self.broker}-{broker_id}"

    def broker_id(self, pod: str) -> int | None:
        """The id of the broker in a pod, or None when the pod is none of the brokers'."""
        prefix, _, ordinal = pod.rpartition("-")
        return int(ordinal) if prefix == self.broker and ordinal.isdecimal() else None

    def claim(self, volume: str, broker_id: int) -> str:
        """The PersistentVolumeClaim of a broker, as a StatefulSet names it."""
        return f"{volume}-{self.pod(broker_id)}"

    def is_claim(self, name: str) -> bool:
        """Return whether a PersistentVolumeClaim has the name of one of the brokers'."""
        return any(
            name.startswith(f"{volume}-") and self.broker_id(name.removeprefix(f"{volume}-")) is not None
            for volume in (DATA_VOLUME, EVENTS_VOLUME)
        )

    @property
    def brokers(self) -> str:
        """The headless Service."""
        return f"{self.cluster}-brokers"

    @property
    def bootstrap(self) -> str:
        """The Service that clients inside start from."""
        return f"{self.cluster}-bootstrap"

    @property
    def bootstrap_external(self) -> str:
        """The Service that clients outside start from."""
        return f"{self.cluster}-bootstrap-external"

    def external(self, broker_id: int) -> str:
        """The Service by which clients outside reach one broker."""
        return f"{self.pod(broker_id)}-external"

    @property
    def config(self) -> str:
        """The ConfigMap with the brokers' settings."""
        return f"{self.cluster}-config"

    def properties_file(self, broker_id: int) -> str:
        """The key in it of one broker's settings."""
        return f"{self.pod(broker_id)}.properties"

    @property
    def cluster_ca(self) -> str:
        """The Secret with the keys of the CA that signs brokers' certificates."""
        return f"{self.cluster}-cluster-ca"

    @property
    def cluster_ca_cert(self) -> str:
        """The Secret with its certificates: what clients trust."""
        return f"{self.cluster}-cluster-ca-cert"

    @property
    def clients_ca(self) -> str:
        """The Secret with the keys of the CA that signs clients' certificates."""
        return f"{self.cluster}-clients-ca"

    @property
    def clients_ca_cert(self) -> str:
        """The Secret with its certificates: what brokers trust."""
        return f"{self.cluster}-clients-ca-cert"

    @property
    def broker_certificates(self) -> str:
        """The Secret with the brokers' keys and certificates, and with what they trust."""
        return f"{self.cluster}-broker-certs"

    @property
    def metrics_access(self) -> str:
        """The Secret with what one needs to read the brokers' metrics: the token, and what to trust."""
        return f"{self.cluster}-metrics-access"

    @property
    def secrets(self) -> tuple[str, ...]:
        """All Secrets that the operator makes for a cluster."""
        return (
            self.cluster_ca,
            self.cluster_ca_cert,
            self.clients_ca,
            self.clients_ca_cert,
            self.broker_certificates,
            self.metrics_access,
        )

    @property
    def metadata(self) -> str:
        """The ConfigMap in which brokers keep the cluster's metadata. Theirs, not the operator's."""
        return f"{self.cluster}-metadata"

    @property
    def controller(self) -> str:
        """The Lease of the controller. The brokers'."""
        return f"{self.cluster}-controller"

    @property
    def disruption(self) -> str:
        """The Lease of who takes brokers away on purpose: the operator for its rolls, or an experiment."""
        return f"{self.cluster}-disruption"

    @property
    def bootstrap_internal_address(self) -> str:
        """``bootstrap.servers`` inside the Kubernetes cluster."""
        return f"{self.bootstrap_host}:{CLIENT_PORT}"

    @property
    def bootstrap_host(self) -> str:
        """The DNS name of the Service that clients inside start from."""
        return f"{self.bootstrap}.{self.namespace}.svc"

    def pod_host(self, broker_id: int) -> str:
        """The DNS name of a broker's pod."""
        return f"{self.pod(broker_id)}.{self.brokers}.{self.namespace}.svc"

    def selector(self) -> dict[str, str]:
        """Labels that exactly the brokers' pods have."""
        return {
            "app.kubernetes.io/name": "minikafka",
            "app.kubernetes.io/instance": self.cluster,
            COMPONENT_LABEL: CONTAINER,
        }

    def labels(self, component: str = "") -> dict[str, str]:
        """Labels of an object of the cluster."""
        made = {
            "app.kubernetes.io/name": "minikafka",
            "app.kubernetes.io/instance": self.cluster,
            MANAGED_BY_LABEL: MANAGER,
            CLUSTER_LABEL: self.cluster,
        }
        if component:
            made[COMPONENT_LABEL] = component
        return made


def config_annotation(digests: Mapping[int, str]) -> str:
    """The digests of all brokers' settings in one annotation, for all pods are made from one template."""
    return ",".join(f"{broker_id}={value}" for broker_id, value in sorted(digests.items()))


def config_digest(annotation: str, broker_id: int) -> str:
    """The digest of one broker's settings in such an annotation; empty when it is not there."""
    for entry in annotation.split(","):
        key, _, value = entry.partition("=")
        if key == str(broker_id):
            return value
    return ""
