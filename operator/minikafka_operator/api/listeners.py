"""How clients reach the brokers of a MiniKafkaCluster, and how they show who they are."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from minikafka_kube.api.part import Labels, LocalObject, Part, Port, rule, rules
from pydantic import ConfigDict, Field

from minikafka_operator.api.security import Authentication, authentication_rules

BROKERS_MAX: Final = 100
"""Names of objects leave room for two digits; larger clusters have not been tried."""


class SecuredListener(Part):
    """What every listener for clients has."""

    tls: Annotated[bool, Field(description="Whether connections are encrypted, and brokers show a certificate.")] = (
        False
    )
    certificate_secret: Annotated[
        LocalObject | None,
        Field(
            description="A Secret with tls.crt and tls.key, as cert-manager makes them, that brokers show on this listener. "
            "Without it: certificates of the cluster CA, whose own is in the Secret CLUSTER-cluster-ca-cert."
        ),
    ] = None
    authentication: Annotated[
        Authentication | None,
        Field(description="How clients show who they are. Without it: everybody is let in, as User:ANONYMOUS."),
    ] = None


def listener_rules(name: str) -> list[dict[str, str]]:
    """What cannot be said of the listener of this name."""
    field = f"spec.listeners.{name}"
    return [
        *authentication_rules(field),
        rule(
            "!has(self.certificateSecret) || self.tls",
            f"{field}.certificateSecret needs {field}.tls",
            ".certificateSecret",
        ),
    ]


class ExternalType(StrEnum):
    """How brokers are reached from outside the Kubernetes cluster."""

    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class External(SecuredListener):
    """A listener for clients outside the Kubernetes cluster; each broker has an address of its own."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *listener_rules("external"),
            rule(
                "self.type == 'NodePort' || !(has(self.bootstrapNodePort) || has(self.firstBrokerNodePort))",
                "spec.listeners.external.bootstrapNodePort and firstBrokerNodePort need type NodePort",
                ".type",
            ),
            rule(
                f"!has(self.bootstrapNodePort) || !has(self.firstBrokerNodePort) || "
                f"self.bootstrapNodePort < self.firstBrokerNodePort || "
                f"self.bootstrapNodePort >= self.firstBrokerNodePort + {BROKERS_MAX}",
                "spec.listeners.external.bootstrapNodePort must not be one of the brokers' ports "
                f"(firstBrokerNodePort to firstBrokerNodePort+{BROKERS_MAX - 1})",
                ".bootstrapNodePort",
            ),
        )
    )

    type: Annotated[
        ExternalType, Field(description="NodePort, or LoadBalancer (one for each broker, and one to bootstrap).")
    ]
    advertised_host: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9.{}:-]+$",
            max_length=253,
            description="What clients are told to connect to; {id} stands for the broker's id. Without it: the address of the "
            "broker's node (NodePort), or of its load balancer.",
        ),
    ] = None
    bootstrap_node_port: Annotated[
        Port | None, Field(description="Node port to bootstrap. Without it: any free one.")
    ] = None
    first_broker_node_port: Annotated[
        Port | None, Field(description="Node port of broker 0; broker N has this plus N. Without it: any free ones.")
    ] = None
    annotations: Annotated[
        Labels | None, Field(description="Annotations for the Services, as load balancers want them.")
    ] = None


class Internal(SecuredListener):
    """The listener for clients inside the Kubernetes cluster, which is always there."""

    model_config = ConfigDict(json_schema_extra=rules(*listener_rules("internal")))


class Listeners(Part):
    """How clients reach the brokers, and how they show who they are."""

    internal: Annotated[
        Internal | None,
        Field(description="For clients inside the Kubernetes cluster. Without it: neither TLS nor login."),
    ] = None
    external: Annotated[External | None, Field(description="For clients outside the Kubernetes cluster.")] = None
