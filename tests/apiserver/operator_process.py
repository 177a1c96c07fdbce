"""The operator as a process beside a real API server, with the permissions that the project's manifests give it.

There are no controllers and no kubelets here: :class:`Cluster` makes the pods that a StatefulSet would make, and says of
them what a kubelet would say.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from minikafka_kube.names import Names

from tests.apiserver.charts import rendered
from tests.apiserver.control_plane import ControlPlane, free_port
from tests.apiserver.controller_word import ControllerWord
from tests.waiting import until_now

ROOT = Path(__file__).parents[2]
IMAGE = "minikafka/broker:test"
API = "/apis/minikafka.dev/v1alpha1"
ACTS_SECONDS_MAX = 120.0
"""For one thing that the operator does, or says."""

LOOKS_SECONDS_MAX = 240.0
"""For several looks."""


class Operator:
    """One operator. ``stop`` before the test ends."""

    def __init__(self, plane: ControlPlane, folder: Path, token: str, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(plane.kubeconfig(token)))
        self.port = free_port()
        self.log = folder / "operator.log"
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "minikafka_operator", f"--broker-image={IMAGE}", "--host=127.0.0.1"]
            self.process = subprocess.Popen(
                [*command, f"--port={self.port}", *options],
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdout=log,
                stderr=log,
            )

    def wait_until_watching(self) -> None:
        until_now(lambda: self.process.poll() is not None or self._get("/readyz") == "ok\n", seconds=180)
        assert self.process.poll() is None, self.log.read_text()

    def stop(self) -> int:
        """End it with SIGTERM; its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all series of a metric with these labels."""
        total = 0.0
        for line in self._get("/metrics").splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name:
                found = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
                if labels.items() <= found.items():
                    total += float(match[3])
        return total

    def look_at(self, cluster: Cluster, times: int = 4) -> None:
        """Wait until it has looked at a cluster so many times, each from its beginning on.

        What was looked at when this was called does not count, nor do looks at what other tests have left.
        """
        names, moments = cluster.names, set()

        def ended() -> int:
            where = {"namespace": names.namespace, "cluster": names.cluster}
            moments.add(self.metric("minikafka_operator_last_success_timestamp_seconds", **where))
            return len(moments)

        until_now(ended, lambda count: count >= times + 2, seconds=LOOKS_SECONDS_MAX)

    def comes_to_rest(self, looks: int = 3) -> None:
        """Wait until it has looked so many times at each cluster that there is, and has applied no StatefulSet meanwhile.

        Fails when that never comes: then one is applied at every look, though nothing changes.
        """

        def applied_meanwhile() -> float:
            before, began = self._applied(), self.metric("minikafka_operator_reconciliations_total")
            wanted = looks * max(1.0, self.metric("minikafka_operator_clusters"))
            until_now(
                lambda: self.metric("minikafka_operator_reconciliations_total") - began,
                lambda count: count >= wanted,
                seconds=LOOKS_SECONDS_MAX,
            )
            return self._applied() - before

        until_now(applied_meanwhile, lambda count: count == 0, seconds=LOOKS_SECONDS_MAX)

    def _applied(self) -> int:
        return self.log.read_text().count("Applied StatefulSet")

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.read().decode())
        except OSError:
            return ""


def token_of(plane: ControlPlane, namespace: str, account: str, audience: str = "") -> str:
    """A token of a service account, for the API server or for somebody else."""
    spec = {"audiences": [audience]} if audience else {}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(plane.request("POST", path, asked)["status"]["token"])


def apply(plane: ControlPlane, documents: Sequence[Mapping[str, Any]]) -> None:
    """kubectl apply; fails when it does."""
    done = plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stderr


def manifest() -> list[dict[str, Any]]:
    """What ``kubectl apply -k deploy/all-namespaces`` makes, without the CRDs, which are there."""
    chart = ROOT / "charts/minikafka-operator"
    name = "minikafka-operator"
    documents = rendered(name, chart, name, "--set=watch.allNamespaces=true", "--set=crds.install=false")
    return [*yaml.safe_load_all((ROOT / "deploy/namespace.yaml").read_text()), *documents]


class Cluster:
    """A MiniKafkaCluster and what belongs to it, as a person, a StatefulSet controller and a kubelet would touch it."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str = "c") -> None:
        self.plane = plane
        self.names = Names(namespace, name)
        self.path = f"{API}/namespaces/{namespace}/minikafkaclusters/{name}"
        self.controller = ControllerWord(plane, self.names)

    # -- a person -------------------------------------------------------------------------------------------------------

    def create(self, **spec: Any) -> None:
        body = {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaCluster",
            "metadata": {"name": self.names.cluster},
            "spec": spec,
        }
        self.plane.request("POST", self.path.rpartition("/")[0], body)

    def edit(self, **spec: Any) -> None:
        self.plane.request("PATCH", self.path, {"spec": spec})

    def get(self) -> dict[str, Any]:
        found = self.plane.find(self.path)
        assert isinstance(found, dict), "there is no such cluster"
        return found

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get().get("status") or {}
        return found

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message; empty while there is none, or it speaks of an older spec."""
        thing = self.get()
        for condition in (thing.get("status") or {}).get("conditions") or ():
            if condition["type"] == kind and condition["observedGeneration"] == thing["metadata"]["generation"]:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def wait_for(self, kind: str, status: str, reason: str, *, seconds: float = ACTS_SECONDS_MAX) -> str:
        """Wait for a condition; its message."""
        wanted = (status, reason)
        return until_now(lambda: self.condition(kind), lambda found: found[:2] == wanted, seconds=seconds)[2]

    def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and note of the Events about the cluster."""
        listed = self.plane.request("GET", f"/apis/events.k8s.io/v1/namespaces/{self.names.namespace}/events")
        return [
            (event["type"], event["reason"], event["note"])
            for event in listed["items"]
            if event["regarding"]["kind"] == "MiniKafkaCluster" and event["regarding"]["name"] == self.names.cluster
        ]

    def abandon(self) -> None:
        """Let it go at once, so that nobody looks after it any more."""
        self.controller.fall_silent()
        if self.plane.find(self.path) is not None:
            self.plane.request("DELETE", self.path)
            if self.plane.find(self.path) is not None:
                self.plane.request("PATCH", self.path, {"metadata": {"finalizers": None}})

    # -- objects --------------------------------------------------------------------------------------------------------

    def url(self, plural: str, name: str = "") -> str:
        root = {
            "statefulsets": "/apis/apps/v1",
            "poddisruptionbudgets": "/apis/policy/v1",
            "roles": "/apis/rbac.authorization.k8s.io/v1",
            "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
            "leases": "/apis/coordination.k8s.io/v1",
            "networkpolicies": "/apis/networking.k8s.io/v1",
            "minikafkatopics": API,
            "minikafkausers": API,
            "chaosexperiments": API,
        }.get(plural, "/api/v1")
        return f"{root}/namespaces/{self.names.namespace}/{plural}" + (f"/{name}" if name else "")

    def find(self, plural: str, name: str) -> Any:
        return self.plane.find(self.url(plural, name))

    def versions(self) -> dict[str, str]:
        """The resource version of everything in the namespace that the operator could have touched."""
        kinds = ["configmaps", "services", "serviceaccounts", "pods", "persistentvolumeclaims", "statefulsets"]
        kinds += ["secrets", "minikafkausers"]
        kinds += [
            "poddisruptionbudgets",
            "networkpolicies",
            "roles",
            "rolebindings",
            "minikafkatopics",
            "leases",
            "events",
        ]
        found = {
            f"{kind}/{thing['metadata']['name']}": thing["metadata"]["resourceVersion"]
            for kind in kinds
            for thing in self.plane.request("GET", self.url(kind))["items"]
            if thing["metadata"]["name"] != self.names.controller  # it is being renewed
        }
        return {**found, "cluster": self.get()["metadata"]["resourceVersion"]}

    # -- a StatefulSet controller and a kubelet -------------------------------------------------------------------------

    def make_pods(self) -> list[str]:
        """Make the pods and claims that are missing, once the StatefulSet is there; the names of the new pods."""
        found = until_now(lambda: self.find("statefulsets", self.names.broker), seconds=ACTS_SECONDS_MAX)
        made = []
        for broker_id in range(found["spec"]["replicas"]):
            name = self.names.pod(broker_id)
            if self.find("pods", name) is None:
                self.plane.request("POST", self.url("pods"), self._pod(name, found))
                made.append(name)
            for claim in found["spec"].get("volumeClaimTemplates") or ():
                self._make_claim(f"{claim['metadata']['name']}-{name}", claim)
        return made

    def _pod(self, name: str, stateful_set: Mapping[str, Any]) -> dict[str, Any]:
        template = stateful_set["spec"]["template"]
        metadata = template["metadata"]
        labels = {**metadata["labels"], "statefulset.kubernetes.io/pod-name": name}
        owner = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": stateful_set["metadata"]["name"],
            "uid": stateful_set["metadata"]["uid"],
            "controller": True,
        }
        annotations = metadata.get("annotations") or {}
        made = {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [owner]}
        spec = {**template["spec"], "nodeName": "node-1"}
        there = {volume["name"] for volume in spec["volumes"]}
        mounted = {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
        spec["volumes"] = [*spec["volumes"], *({"name": claim, "emptyDir": {}} for claim in sorted(mounted - there))]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}

    def _make_claim(self, name: str, template: Mapping[str, Any]) -> None:
        """It is bound at once, unless its class is not there."""
        path = self.url("persistentvolumeclaims", name)
        if self.plane.find(path) is not None:
            return
        metadata = {"name": name, "labels": template["metadata"]["labels"]}
        self.plane.request("POST", path.rpartition("/")[0], {"metadata": metadata, "spec": template["spec"]})
        if self._has_class(template["spec"].get("storageClassName")):
            status = {"phase": "Bound", "capacity": template["spec"]["resources"]["requests"]}
            self.plane.request("PATCH", f"{path}/status", {"status": status})

    def _has_class(self, name: str | None) -> bool:
        return name is None or self.plane.find(f"/apis/storage.k8s.io/v1/storageclasses/{name}") is not None

    def end(self, pod: str) -> None:
        """The pod's kubelet says that it has ended."""
        self.plane.request("DELETE", self.url("pods", pod), {"gracePeriodSeconds": 0})
        self.count_disruptions()

    def tell(self, pod: str, **status: Any) -> None:
        """Set a pod's status, as its kubelet or the scheduler would."""
        self.plane.request("PATCH", f"{self.url('pods', pod)}/status", {"status": status})

    def start(self, *pods: str, seconds_ago: float = 60) -> None:
        """Broker is ready."""
        since = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for pod in pods or [self.names.pod(i) for i in range(3)]:
            running = {
                "name": "broker",
                "image": IMAGE,
                "imageID": "",
                "restartCount": 0,
                "ready": True,
                "state": {"running": {"startedAt": since}},
            }
            self.tell(
                pod,
                phase="Running",
                hostIP="10.1.0.1",
                conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": since}],
                containerStatuses=[running],
            )

        self.count_disruptions()

    def count_disruptions(self) -> None:
        """What the disruption controller says in the PodDisruptionBudget."""
        path = self.url("poddisruptionbudgets", self.names.broker)
        budget = self.plane.find(path)
        if budget is None or self.find("statefulsets", self.names.broker) is None:
            return
        pods = [self.find("pods", self.names.pod(i)) for i in range(self._replicas())]
        healthy = sum(1 for pod in pods if pod is not None and _is_ready(pod))
        desired = len(pods) - budget["spec"]["maxUnavailable"]
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": len(pods),
            "disruptionsAllowed": max(healthy - desired, 0),
            "disruptedPods": None,
        }
        self.plane.request("PATCH", f"{path}/status", {"status": status})

    def _replicas(self) -> int:
        return int(self.find("statefulsets", self.names.broker)["spec"]["replicas"])

    def run(self) -> None:
        """Make all pods and let them be ready; wait until the operator says so."""
        self.make_pods()
        self.controller.start()
        self.start(*(self.names.pod(i) for i in range(self._replicas())))
        self.wait_for("Ready", "True", "AllBrokersReady")

    # -- chaos ----------------------------------------------------------------------------------------------------------

    def experiment(self, name: str, cluster: str, **status: Any) -> str:
        """A ChaosExperiment on a cluster, as its controller would tell of it; its uid."""
        path = self.url("chaosexperiments")
        spec = {"clusterRef": {"name": cluster}, "topics": [{"name": "bank"}], "workload": {"topic": "bank"}}
        body = {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "ChaosExperiment",
            "metadata": {"name": name},
            "spec": spec,
        }
        made = self.plane.request("POST", path, body)
        self.plane.request("PATCH", f"{path}/{name}/status", {"status": {"phase": "Running", **status}})
        return str(made["metadata"]["uid"])

    def hold(self, identity: str) -> None:
        """Somebody takes the disruption Lease for an hour, or takes it over."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": identity, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
        path = self.url("leases", self.names.disruption)
        if self.plane.find(path) is not None:
            self.plane.request("PATCH", path, {"spec": spec})
            return
        body = {"metadata": {"name": self.names.disruption, "labels": self.names.labels()}, "spec": spec}
        self.plane.request("POST", self.url("leases"), body)

    # -- a broker -------------------------------------------------------------------------------------------------------

    def topic(self, name: str, *partitions: tuple[list[int], list[int]]) -> None:
        """A topic with these replicas and in-sync replicas, as the controller broker would have it."""
        path = self.url("minikafkatopics")
        if self.find("minikafkatopics", name) is None:
            body = {
                "apiVersion": "minikafka.dev/v1alpha1",
                "kind": "MiniKafkaTopic",
                "metadata": {"name": name, "finalizers": ["minikafka.dev/topic"]},
                "spec": {"clusterRef": {"name": self.names.cluster}},
            }
            self.plane.request("POST", path, body)
        states = [
            {"partition": i, "replicas": replicas, "isr": isr, "leader": isr[0], "leaderEpoch": 0, "partitionEpoch": 0}
            for i, (replicas, isr) in enumerate(partitions)
        ]
        revision = self.controller.commit(name, {"partitions": states, "configs": {}}, shown=True)
        status = {"topicName": name, "partitions": states, "configs": {}, "revision": revision}
        self.plane.request("PATCH", f"{path}/{name}/status", {"status": status})

    def metadata(self) -> None:
        """What brokers keep beside the topics."""
        self.controller.start()


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
