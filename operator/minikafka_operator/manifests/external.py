"""Where clients outside the Kubernetes cluster reach each broker, as far as it is known yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minikafka_kube.kinds import SERVICE, Object
from minikafka_kube.names import EXTERNAL_PORT
from minikafka_kube.observed import ObservedCluster

from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.api.listeners import External, ExternalType
from minikafka_operator.manifests.properties import Address

NODE_ADDRESS = "${env:HOST_IP}"
"""The address of the pod's own node, which the kubelet tells the broker."""

_BOOTSTRAP_ADDRESSES_MAX = 3


@dataclass(frozen=True)
class Externals:
    """Addresses by broker id, and the brokers whose address is not known yet."""

    addresses: Mapping[int, Address]
    unknown: tuple[int, ...] = ()


def externals(spec: ClusterSpec, observed: ObservedCluster, brokers: int) -> Externals:
    """Return what brokers are to advertise outside. Node ports and load balancers have to be there first."""
    external = spec.listeners.external
    if external is None:
        return Externals({})
    found = {}
    for broker_id in range(brokers):
        service = observed.find(SERVICE, observed.names.external(broker_id))
        address = _address(external, service, broker_id)
        if address is not None:
            found[broker_id] = address
    return Externals(found, tuple(i for i in range(brokers) if i not in found))


def bootstrap_external(spec: ClusterSpec, observed: ObservedCluster) -> str | None:
    """``bootstrap.servers`` outside, as far as it is known."""
    external = spec.listeners.external
    service = observed.find(SERVICE, observed.names.bootstrap_external)
    if external is None or service is None:
        return None
    if external.type is ExternalType.LOAD_BALANCER:
        host = _balancer(service)
        return None if host is None else str(Address(host, EXTERNAL_PORT))
    port = _node_port(service)
    hosts = sorted({pod.host_ip for pod in observed.brokers.values() if pod.host_ip})
    if port is None or not hosts:
        return None
    return ",".join(str(Address(host, port)) for host in hosts[:_BOOTSTRAP_ADDRESSES_MAX])


def shown(address: Address | None, host_ip: str) -> str | None:
    """An address as a person would write it; None while it is not known."""
    if address is None:
        return None
    host = host_ip if address.host == NODE_ADDRESS else address.host
    return str(Address(host, address.port)) if host else None


def _address(external: External, service: Object | None, broker_id: int) -> Address | None:
    if service is None:
        return None
    given = external.advertised_host
    host = given.replace("{id}", str(broker_id)) if given else None
    if external.type is ExternalType.NODE_PORT:
        port = _node_port(service)
        return None if port is None else Address(host or NODE_ADDRESS, port)
    host = host or _balancer(service)
    return None if host is None else Address(host, EXTERNAL_PORT)


def _node_port(service: Object) -> int | None:
    ports = service["spec"].get("ports") or [{}]
    port = ports[0].get("nodePort")
    return None if port is None else int(port)


def _balancer(service: Object) -> str | None:
    ingress = (service.get("status", {}).get("loadBalancer") or {}).get("ingress") or [{}]
    host = ingress[0].get("hostname") or ingress[0].get("ip")
    return str(host) if host else None
