"""A cluster as the API server tells of it, for tests of the network agent: paths to objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from minikafka_chaos.network.pods import Get, Object

from tests.copies import copied

NODE, HOME = "node-1", "lab"
UIDS = [f"0000000{number}-aaaa-bbbb-cccc-00000000000{number}" for number in range(3)]


def addresses(number: int) -> list[str]:
    """Those of the pod of broker 0, 1 or 2."""
    return [f"10.77.0.{number + 1}", f"fd77::{number + 1}"]


class ApiPaths:
    """Three brokers of a cluster that allows chaos, all on one node."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.asked: list[str] = []
        self.put("apis/minikafka.dev/v1alpha1", "minikafkaclusters", "shop", "c-1", {"chaos": {"allowed": True}})
        owner = self._reference("minikafka.dev/v1alpha1", "MiniKafkaCluster", "shop", "c-1")
        self.put("apis/apps/v1", "statefulsets", "shop-broker", "s-1", {}, owner)
        for number in range(3):
            self.pod(number)

    @staticmethod
    def _reference(version: str, kind: str, name: str, uid: str) -> Object:
        return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}

    def put(self, root: str, plural: str, name: str, uid: str, spec: Object, owner: Object | None = None) -> Object:
        """Make an object."""
        metadata = {"namespace": HOME, "name": name, "uid": uid, "ownerReferences": [owner] if owner else []}
        made = {"metadata": metadata, "spec": copied(spec)}
        self.objects[f"/{root}/namespaces/{HOME}/{plural}/{name}"] = made
        return made

    def pod(self, number: int, **spec: Any) -> Object:
        """Make a broker's pod anew, as it should be but for `spec`."""
        ports = [{"name": name, "containerPort": port} for name, port in (("client", 9092), ("replication", 9093))]
        whole = {"nodeName": NODE, "containers": [{"name": "broker", "ports": ports}], **spec}
        owner = self._reference("apps/v1", "StatefulSet", "shop-broker", "s-1")
        made = self.put("api/v1", "pods", f"shop-broker-{number}", UIDS[number], whole, owner)
        made["status"] = {"phase": "Running", "podIPs": [{"ip": each} for each in addresses(number)]}
        return made

    def there(self, plural: str, name: str) -> Object:
        """An object, to be changed."""
        return next(made for path, made in self.objects.items() if path.endswith(f"/{plural}/{name}"))

    def run(self, work: Callable[[Get], Awaitable[Any]]) -> Any:
        """As `ApiReader.run`, without a loop: nothing waits."""

        async def get(path: str) -> Object | None:
            self.asked.append(path)
            return copied(self.objects.get(path))

        running = work(get).__await__()
        try:
            next(running)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("it waits for something")
