"""Objects of a Kubernetes cluster, read and watched by the official client; what a person would type stays kubectl's."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kubernetes.client import ApiException
from kubernetes.config import new_client_from_config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError, ResourceNotFoundError
from urllib3.exceptions import HTTPError

Object = dict[str, Any]

REQUEST_SECONDS_MAX = 30
WATCH_SECONDS_MAX = 10
"""A watch is asked for anew this often: one over a connection that is half open would wait for ever."""

PAUSE_SECONDS = 0.2

KINDS = {
    "pod": ("v1", "Pod"),
    "configmap": ("v1", "ConfigMap"),
    "pvc": ("v1", "PersistentVolumeClaim"),
    "pv": ("v1", "PersistentVolume"),
    "node": ("v1", "Node"),
    "event": ("v1", "Event"),
    "namespace": ("v1", "Namespace"),
    "job": ("batch/v1", "Job"),
    "statefulset": ("apps/v1", "StatefulSet"),
    "deployment": ("apps/v1", "Deployment"),
    "role": ("rbac.authorization.k8s.io/v1", "Role"),
    "lease": ("coordination.k8s.io/v1", "Lease"),
    "poddisruptionbudget": ("policy/v1", "PodDisruptionBudget"),
    "mkc": ("minikafka.dev/v1alpha1", "MiniKafkaCluster"),
    "mkt": ("minikafka.dev/v1alpha1", "MiniKafkaTopic"),
    "mku": ("minikafka.dev/v1alpha1", "MiniKafkaUser"),
    "secret": ("v1", "Secret"),
    "mkx": ("minikafka.dev/v1alpha1", "ChaosExperiment"),
    "mkxs": ("minikafka.dev/v1alpha1", "ChaosSchedule"),
}


class ObjectsError(Exception):
    """A request failed, or was refused; the message is what the API server said."""


class NotInTime(AssertionError):
    """A condition did not come to hold before its deadline."""


@dataclass(frozen=True)
class Objects:
    """Those of one namespace, and those that belong to none."""

    kubeconfig: Path
    namespace: str

    def get(self, kind: str, name: str) -> Object | None:
        """One object, or None when it is not there."""
        try:
            return self._ask(kind, name=name)
        except NotFoundError:
            return None

    def there(self, kind: str, name: str) -> Object:
        """One object that has to be there."""
        found = self.get(kind, name)
        assert found is not None, f"no {kind} {name} in namespace {self.namespace}"
        return found

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[Object]:
        """All objects of a kind with these labels and fields."""
        return list(self._ask(kind, label_selector=labels or None, field_selector=fields or None)["items"])

    def raw(self, path: str) -> str:
        """What the API server answers to a GET of a path, such as one that it passes on to a pod."""
        client = _client(self.kubeconfig)
        answer = self._send(lambda: client.request("get", path, header_params={"Accept": "*/*"}, **_RAW))
        text: str = answer.data.decode()
        return text

    def delete(self, kind: str, name: str) -> None:
        """Ask for an object's deletion, and do not wait; nothing happens when it is not there."""
        try:
            self._send(lambda: _resource(self.kubeconfig, kind).delete(name, self.namespace, **_RAW))
        except NotFoundError:
            return

    def wait_for(
        self, kind: str, name: str, satisfied: Callable[[Object | None], object], *, seconds: float, what: str
    ) -> Object | None:
        """Watch an object until it is as wanted (None: not there), or fail with what was seen last.

        An API server that is away is waited for.
        """
        deadline = time.monotonic() + seconds
        seen: Object | ObjectsError | None = None
        while True:
            try:
                seen = self.get(kind, name)
                if satisfied(seen):
                    return seen
                version = seen["metadata"]["resourceVersion"] if seen else None
                left = min(WATCH_SECONDS_MAX, deadline - time.monotonic())
                if version is not None and left > 1:
                    for seen in self._changes(kind, name, version, int(left)):
                        if satisfied(seen):
                            return seen
            except ObjectsError as error:
                seen = error
            if time.monotonic() >= deadline:
                raise NotInTime(f"{what}: not in {seconds:g} s; seen last: {str(seen)[:2000]}")
            time.sleep(PAUSE_SECONDS)

    def _changes(self, kind: str, name: str, version: str, seconds: int) -> Iterator[Object | None]:
        resource = _resource(self.kubeconfig, kind)
        namespace = self.namespace if resource.namespaced else None
        try:
            for event in resource.watch(namespace=namespace, name=name, resource_version=version, timeout=seconds):
                yield None if event["type"] == "DELETED" else event["raw_object"]
        except (ApiException, HTTPError, OSError, ValueError) as error:
            raise ObjectsError(f"watching {kind} {name}: {error}") from error

    def _ask(self, kind: str, **query: Any) -> Object:
        resource = self._send(lambda: _resource(self.kubeconfig, kind))
        namespace = self.namespace if resource.namespaced else None
        answer = self._send(lambda: resource.get(namespace=namespace, **query, **_RAW))
        found: Object = json.loads(answer.data)
        return found

    def _send(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except NotFoundError:
            raise
        except DynamicApiError as error:
            raise ObjectsError(f"{error.status} {error.summary()}") from error
        except (HTTPError, OSError, ResourceNotFoundError) as error:
            raise ObjectsError(str(error)) from error


_RAW: dict[str, Any] = {"serialize": False, "_request_timeout": REQUEST_SECONDS_MAX}
_looking_up = threading.Lock()


@lru_cache
def _client(kubeconfig: Path) -> DynamicClient:
    client = new_client_from_config(str(kubeconfig))
    # What the API server serves is looked up once, and kept beside the kubeconfig: another cluster serves other things.
    return DynamicClient(client, cache_file=str(kubeconfig.with_suffix(f".api-{os.getpid()}.json")))


@lru_cache
def _resource(kubeconfig: Path, kind: str) -> Any:
    api_version, name = KINDS[kind]
    with _looking_up:
        return _client(kubeconfig).resources.get(api_version=api_version, kind=name)
