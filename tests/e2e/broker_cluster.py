"""A MiniKafkaCluster on Kubernetes, as the tests see it: its objects, its pods, and where clients reach it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.clients import PartitionView
from minikafka_chaos.load.cluster_view import ClusterView
from minikafka_chaos.record.observe import ReplicaStatus, parse_metrics, replica_status

from tests.e2e.kubectl import Kubectl, condition, eventually
from tests.e2e.node import Node, NodeError, Process, container_id
from tests.e2e.objects import Object

CONTAINER = "broker"
METRICS_PORT = 9404
REPLACE_SECONDS_MAX = 360
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
"""What brokers of a test reserve, so that several clusters fit on a node with two cores."""
UP_SECONDS_MAX = 600
"""For a cluster that a test needs, on a node where other tests, and builds of images, are at work: 60 s were seen."""
READY_SECONDS_MAX = 480


@dataclass(frozen=True)
class BrokerCluster:
    """One cluster in one namespace."""

    kubectl: Kubectl
    node: Node
    name: str
    views: list[ClusterView] = field(default_factory=list)

    # -- the object ----------------------------------------------------------------------------------------------------

    def manifest(self, spec: Mapping[str, Any]) -> Object:
        """The custom resource with this spec."""
        return {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaCluster",
            "metadata": {"name": self.name, "namespace": self.kubectl.namespace},
            "spec": dict(spec),
        }

    def up(self, spec: Mapping[str, Any], seconds: float = UP_SECONDS_MAX) -> float:
        """Apply, and wait for Ready; the seconds it took."""
        began = time.monotonic()
        self.kubectl.apply(self.manifest(spec))
        self.wait_ready(seconds)
        return time.monotonic() - began

    def wait_ready(self, seconds: float = READY_SECONDS_MAX) -> None:
        """Wait for Ready, of the generation that is there now."""

        def ready(found: Object | None) -> bool:
            told = condition(found, "Ready")
            return told.get("status") == "True" and told["observedGeneration"] == found["metadata"]["generation"]  # type: ignore[index]

        self.kubectl.objects.wait_for("mkc", self.name, ready, seconds=seconds, what=f"mkc/{self.name} is Ready")

    def get(self) -> Object | None:
        return self.kubectl.objects.get("mkc", self.name)

    @property
    def status(self) -> Object:
        return self.kubectl.objects.there("mkc", self.name).get("status") or {}

    def down(self, seconds: float = 280) -> None:
        """Delete it and wait until the finalizer is gone."""
        self.kubectl.delete("minikafkaclusters", self.name, f"--timeout={seconds:g}s")

    # -- clients -------------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Where clients outside Kubernetes start from: each broker's own address."""
        return ",".join(self.external().values())

    def external(self) -> dict[int, str]:
        """What clients outside are told to connect to, by broker id."""
        return {each["id"]: each["external"] for each in self.status["brokers"] if each.get("external")}

    @property
    def view(self) -> ClusterView:
        """Leaders, ISR and controller over the Kafka protocol."""
        if not self.views:
            bootstrap = self.bootstrap
            self.views.append(ClusterView(lambda: bootstrap))
        return self.views[0]

    def leader(self, topic: str, partition: int = 0, *, other_than: int | None = None, seconds: float = 240) -> int:
        """The leader of a partition, once there is one (and it is not that one)."""
        where = TopicPartition(topic, partition)

        def led(found: PartitionView | None) -> bool:
            return found is not None and found.leader >= 0 and found.leader != other_than

        found = eventually(lambda: self.view.partition(where), led, seconds=seconds, what=f"{where} has a leader")
        assert found is not None
        return found.leader

    def wait_full_isr(self, topic: str, seconds: float = 360, since: float | None = None) -> float:
        """Wait until every partition of a topic is led, with all its replicas in sync; the seconds since a moment.

        Right after a fault the ISR may still be the old one: wait for a sign of the fault first.
        """
        began = time.time() if since is None else since

        def full(found: Mapping[TopicPartition, PartitionView] | None) -> bool:
            return bool(found) and all(each.full for each in found.values())  # type: ignore[union-attr]

        eventually(lambda: self.view.partitions(topic), full, seconds=seconds, what=f"{topic} is in full ISR")
        return time.time() - began

    def replica(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        """One replica as its broker's metrics tell it now."""
        pod = f"/api/v1/namespaces/{self.kubectl.namespace}/pods/{self.pod_name(broker)}:{METRICS_PORT}"
        return replica_status(parse_metrics(self.kubectl.objects.raw(f"{pod}/proxy/metrics")), topic_partition)

    def events(self, broker: int) -> list[Object]:
        """A broker's event log, from its flight recorder's claim."""
        text = self.node.read(f"{self.volume_path('events', broker)}/broker-{broker}.jsonl") or ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    # -- pods ----------------------------------------------------------------------------------------------------------

    @property
    def selector(self) -> str:
        return f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component={CONTAINER}"

    def pod_name(self, broker: int) -> str:
        return f"{self.name}-broker-{broker}"

    def pod(self, broker: int) -> Object | None:
        return self.kubectl.objects.get("pod", self.pod_name(broker))

    def is_ready(self, broker: int) -> bool:
        return is_ready(self.pod(broker))

    def restarts(self, broker: int) -> int:
        """How often the container of a broker's pod was started again."""
        statuses = self.kubectl.objects.there("pod", self.pod_name(broker))["status"].get("containerStatuses") or []
        return sum(int(each["restartCount"]) for each in statuses)

    def wait_restarted(self, broker: int, before: int, seconds: float = 360) -> None:
        """Wait until the kubelet has started the container again, which had been started again `before` times.

        Until then its pod may still count as ready, and its replicas as in sync.
        """
        eventually(
            lambda: self.restarts(broker) > before,
            seconds=seconds,
            what=f"broker {broker} of {self.name} is started again",
        )

    def wait_broker_ready(self, broker: int, seconds: float = 360) -> None:
        """Wait until the pod counts as ready. Right after a fault it may still be so from before."""
        name = self.pod_name(broker)
        self.kubectl.objects.wait_for("pod", name, is_ready, seconds=seconds, what=f"{name} is ready")

    def process(self, broker: int) -> Process | None:
        """The broker's process in its node, or None when the container does not run."""
        found = container_id(self.pod(broker), CONTAINER)
        return self.node.process(found) if found else None

    def processes(self, brokers: Sequence[int]) -> list[Process]:
        """The processes of brokers that have to be running. Raises NodeError."""
        found = {broker: self.process(broker) for broker in brokers}
        if missing := [broker for broker, process in found.items() if process is None]:
            raise NodeError(f"brokers {missing} of {self.name} do not run")
        return [process for process in found.values() if process is not None]

    def kill_container(self, broker: int) -> float:
        """SIGKILL out of nowhere: a process crash. The kubelet starts the container again. Unix time of the kill."""
        (process,) = self.processes([broker])
        moment = time.time()
        self.node.signal("KILL", [process.pid])
        return moment

    def delete_pod(self, broker: int) -> float:
        """Delete a pod as anybody would: its broker is told to stop, and has time to. Unix time of the deletion."""
        moment = time.time()
        self.kubectl.delete("pod", self.pod_name(broker))
        return moment

    def lose_power(self, broker: int) -> float:
        """Crash the process and delete the pod before the kubelet starts it again: what was in memory is gone.

        A pod that is only deleted gets a SIGTERM first, however short its grace, and flushes. Unix time of the crash.
        """
        (process,) = self.processes([broker])
        moment = time.time()
        self.node.kill_and_hold([process])
        self.replace_held(broker, process)
        return moment

    def replace_held(self, broker: int, process: Process) -> None:
        """Delete the pod of a broker that was killed and is held, and wait for the new one."""
        uid = self.kubectl.objects.there("pod", self.pod_name(broker))["metadata"]["uid"]
        self.kubectl.objects.delete("pod", self.pod_name(broker))

        def is_being_stopped() -> bool:
            about = f"involvedObject.uid={uid},reason=Killing"
            found = self.kubectl.objects.list("event", fields=about)
            return any(each["message"].startswith("Stopping container") for each in found)

        # Not sooner: a kubelet that learns of the death before it learns of the deletion starts the container again.
        eventually(is_being_stopped, seconds=REPLACE_SECONDS_MAX, what=f"the kubelet stops the pod of broker {broker}")
        self.node.release(process)

        def is_replaced() -> bool:
            found = self.pod(broker)
            return found is not None and bool(found["metadata"]["uid"] != uid)

        eventually(is_replaced, seconds=REPLACE_SECONDS_MAX, what=f"the pod of broker {broker} is a new one")

    # -- volumes -------------------------------------------------------------------------------------------------------

    def volume_path(self, volume: str, broker: int) -> str | None:
        """The folder, in the node, of a broker's persistent volume."""
        claim = self.kubectl.objects.get("pvc", f"{volume}-{self.pod_name(broker)}")
        name = ((claim or {}).get("spec") or {}).get("volumeName")
        if not name:
            return None
        source = self.kubectl.objects.there("pv", name)["spec"]
        path = (source.get("hostPath") or source.get("local") or {}).get("path")
        return str(path) if path else None


def is_ready(pod: Object | None) -> bool:
    """Whether a pod counts as ready."""
    return condition(pod, "Ready").get("status") == "True"
