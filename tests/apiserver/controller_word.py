"""What a controller broker would write, where there are no brokers: its Lease, and the metadata that names every topic."""

from __future__ import annotations

import threading
import urllib.error
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from minikafka.kubernetes.document import Document
from minikafka_kube.names import Names

from tests.apiserver.control_plane import ControlPlane

RENEW_SECONDS = 1.0
LEASE_SECONDS = 9


class ControllerWord:
    """``start`` renews the Lease until ``fall_silent``, as a thread."""

    def __init__(self, plane: ControlPlane, names: Names) -> None:
        self._plane = plane
        self._document_url = f"/api/v1/namespaces/{names.namespace}/configmaps"
        self._lease_url = f"/apis/coordination.k8s.io/v1/namespaces/{names.namespace}/leases"
        self._names = names
        self._silent = threading.Event()
        self._renewing: threading.Thread | None = None
        self._document = Document("id")

    def start(self) -> None:
        """Be the controller; nothing happens when it is there."""
        if self._renewing is not None:
            return
        lease = {
            "metadata": {"name": self._names.controller, "labels": self._names.labels()},
            "spec": {"holderIdentity": self._names.pod(2), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _now()},
        }
        if self._plane.find(f"{self._lease_url}/{self._names.controller}") is None:
            self._plane.request("POST", self._lease_url, lease)
        self._write()
        self._silent.clear()
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self._renewing.start()

    def fall_silent(self) -> None:
        """Renew the Lease no more."""
        self._silent.set()
        if self._renewing is not None:
            self._renewing.join()
            self._renewing = None

    def commit(self, topic: str, record: Mapping[str, Any], *, shown: bool) -> int:
        """A change of a topic; its revision. ``shown``: its status will say so, so the journal need not."""
        made = self._document.after({f"topic/{topic}": dict(record)})
        self._document = made.trimmed({topic: made.revision}) if shown else made
        self._write()
        return made.revision

    def remove(self, topic: str) -> None:
        """The topic is deleted."""
        self._document = self._document.after({f"topic/{topic}": None})
        self._write()

    def forget(self, topic: str) -> None:
        """A status that is lost: neither the journal nor the object has the topic's last change."""
        made = self._document.after({f"topic/{topic}": {}})
        self._document = made.trimmed({topic: made.revision})
        self._write()

    def _write(self) -> None:
        body = self._document.to_config_map(self._names.metadata, self._names.labels())
        if self._plane.find(f"{self._document_url}/{self._names.metadata}") is None:
            self._plane.request("POST", self._document_url, body)
        else:
            self._plane.request("PATCH", f"{self._document_url}/{self._names.metadata}", body)

    def _renew(self) -> None:
        while not self._silent.wait(RENEW_SECONDS):
            try:
                self._plane.request(
                    "PATCH", f"{self._lease_url}/{self._names.controller}", {"spec": {"renewTime": _now()}}
                )
            except (urllib.error.URLError, OSError):
                continue  # the API server is away, or the Lease was deleted with its cluster


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
