"""Whom the agent may touch, by what the API server itself says: nothing that a caller tells of a pod is believed.

A pod is touched only if it belongs, by owner references with uids, to a StatefulSet of a MiniKafkaCluster whose
`spec.chaos.allowed` is true now. What undoes something asks for less: that the pod is the one that was meant.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from minikafka.kubernetes.connection import HttpClient, HttpResponse
from minikafka.kubernetes.credentials import find_access
from minikafka.metadata.store import StoreError

from minikafka_chaos.network.errors import BadRequest, NotNow
from minikafka_chaos.network.permission import HOW_TO_ALLOW, allows_chaos
from minikafka_chaos.network.rules import CLIENTS, Peer

BROKER_CONTAINER = "broker"
CLIENT_PORTS = ("client", "external")
"""Names of the broker's ports that clients use; the operator declares them (`minikafka_kube.names`)."""
BROKER_PORT = "replication"

REQUEST_SECONDS_MAX = 5.0
PATIENCE_SECONDS = 8.0
"""An API server that does not answer is asked again for so long: less than the controller waits for an agent."""
RETRY_SECONDS = 0.2
_CORE, _APPS, _OURS = "/api/v1", "/apis/apps/v1", "/apis/minikafka.dev/v1alpha1"

Object = dict[str, Any]
Get = Callable[[str], Awaitable[Object | None]]
"""The object at a path of the API server, None for 404. Raises NotNow."""


@dataclass(frozen=True)
class Pod:
    """What matters of a broker's pod."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    on_host: bool
    """Whether it shares the node's network namespace."""
    addresses: tuple[str, ...]
    ports: dict[str, int]
    owner: tuple[str, str]
    """Name and uid of its StatefulSet; empty where there is none."""


def pod_of(found: Object) -> Pod:
    """From an object of the API server."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    addresses = [each["ip"] for each in status.get("podIPs") or () if each.get("ip")]
    container: Object = next((each for each in spec.get("containers") or () if each["name"] == BROKER_CONTAINER), {})
    ports = {each.get("name", ""): int(each["containerPort"]) for each in container.get("ports") or ()}
    return Pod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        str(spec.get("nodeName") or ""),
        str(status.get("phase") or ""),
        bool(spec.get("hostNetwork")),
        tuple(addresses),
        ports,
        _controller(found, "apps/v1", "StatefulSet"),
    )


def _controller(found: Object, version: str, kind: str) -> tuple[str, str]:
    for each in found["metadata"].get("ownerReferences") or ():
        if each.get("controller") and (each.get("apiVersion"), each.get("kind")) == (version, kind):
            return str(each["name"]), str(each["uid"])
    return "", ""


class PodLookup:
    """Looks at the pods of one namespace. `get` asks the API server; `node` is the one that this agent is on."""

    def __init__(self, get: Get, namespace: str, node: str) -> None:
        self._get = get
        self.namespace = namespace
        self.node = node

    async def there(self, name: str, uid: str) -> Pod | None:
        """The pod, if it is there and has this uid. Raises NotNow, and BadRequest when it is on another node."""
        found = await self._find(_CORE, "pods", name)
        if found is None or found["metadata"]["uid"] != uid:
            return None
        pod = pod_of(found)
        if pod.node != self.node:
            raise BadRequest(f"--pod {name}: it is on node {pod.node or '(none yet)'}; this agent's is {self.node}")
        return pod

    async def target(self, name: str, uid: str) -> Pod:
        """The pod, if a fault may be made in it. Raises BadRequest, NotNow."""
        pod = await self.there(name, uid)
        if pod is None:
            raise NotNow(f"pod {name} is not there any more, or is another one now (uid)")
        if pod.on_host:
            raise BadRequest(f"--pod {name}: it shares its node's network (hostNetwork): all of the node would be hit")
        await self._must_allow(pod)
        if pod.phase != "Running":
            raise NotNow(f"pod {name} is not running: {pod.phase or 'no phase'}")
        return pod

    async def _must_allow(self, pod: Pod) -> None:
        name, uid = pod.owner
        owner = await self._find(_APPS, "statefulsets", name) if name else None
        if owner is None or owner["metadata"]["uid"] != uid:
            raise BadRequest(f"--pod {pod.name}: no StatefulSet of a MiniKafkaCluster controls it")
        cluster_name, cluster_uid = _controller(owner, "minikafka.dev/v1alpha1", "MiniKafkaCluster")
        cluster = await self._find(_OURS, "minikafkaclusters", cluster_name) if cluster_name else None
        if cluster is None or cluster["metadata"]["uid"] != cluster_uid:
            raise BadRequest(f"--pod {pod.name}: it belongs to no MiniKafkaCluster")
        if not allows_chaos(cluster):
            raise BadRequest(f"--pod {pod.name}: MiniKafkaCluster {cluster_name} does not allow chaos: {HOW_TO_ALLOW}")

    async def peers(self, target: Pod, names: Sequence[str], clients: bool) -> tuple[Peer, ...]:
        """The other ends of its links, by their addresses now: brokers of the same cluster. Raises BadRequest, NotNow."""
        made = [await self._peer(target, name) for name in dict.fromkeys(names)]
        if clients:
            ports = tuple(target.ports[name] for name in CLIENT_PORTS if name in target.ports)
            made.append(Peer(CLIENTS, (), ports))
        if not made:
            raise BadRequest("--peer, --clients: at least one of them is needed")
        return tuple(made)

    async def _peer(self, target: Pod, name: str) -> Peer:
        if name == target.name:
            raise BadRequest(f"--peer {name}: that is the pod itself")
        found = await self._find(_CORE, "pods", name)
        if found is None:
            raise NotNow(f"--peer {name}: there is no such pod")
        pod = pod_of(found)
        if pod.owner != target.owner:
            raise BadRequest(f"--peer {name}: it is of another cluster than {target.name}")
        if pod.on_host or not pod.addresses:
            raise NotNow(f"--peer {name}: it has no address of its own")
        ports = {ports[BROKER_PORT] for ports in (pod.ports, target.ports) if BROKER_PORT in ports}
        return Peer(name, pod.addresses, tuple(sorted(ports)))

    async def _find(self, root: str, plural: str, name: str) -> Object | None:
        return await self._get(f"{root}/namespaces/{quote(self.namespace, safe='')}/{plural}/{quote(name, safe='')}")


class ApiReader:
    """GETs with this pod's own credentials. Used for one verb: `run` makes the connection and drops it."""

    async def get(self, path: str) -> Object | None:
        """Read an object, as `Get` says."""
        answer = await self._answer(path)
        if answer.status == 404:
            return None
        try:
            document: Object = json.loads(answer.body)
        except ValueError:
            document = {}
        if answer.status != 200:
            message = document.get("message") if isinstance(document, dict) else ""
            raise NotNow(f"the API server: {answer.status}: {message or path}")
        return document

    async def _answer(self, path: str) -> HttpResponse:
        """On a node that is very busy the first connection may not come about in time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return await self._client.request("GET", path, [], b"", REQUEST_SECONDS_MAX)
            except StoreError as error:
                if time.monotonic() > deadline:
                    raise NotNow(str(error)) from error
                await asyncio.sleep(RETRY_SECONDS)

    def run(self, work: Callable[[Get], Awaitable[Any]]) -> Any:
        """Run what asks the API server. Raises NotNow, and what the work raises."""

        async def with_client() -> Any:
            try:
                self._client = HttpClient(find_access())
            except StoreError as error:
                raise NotNow(str(error)) from error
            try:
                return await work(self.get)
            finally:
                self._client.close()

        return asyncio.run(with_client())
