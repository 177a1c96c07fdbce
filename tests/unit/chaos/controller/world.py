"""A namespace in memory: an API server, a cluster with brokers, Jobs that run, agents that answer.

The controller under test runs against it unchanged; so does the ledger of the runner.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from minikafka.kubernetes.document import Document
from minikafka.kubernetes.topics import FINALIZER as TOPIC_FINALIZER
from minikafka.kubernetes.topics import TOPIC_ID
from minikafka_chaos.controller.agents import CommandResult
from minikafka_chaos.controller.jobs import JobSettings
from minikafka_chaos.controller.ledger import ExperimentChanged, StatusLedger
from minikafka_chaos.controller.reconciler import ExperimentReconciler
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_chaos.experiment.kinds import AGENT_CONTAINER, EXPERIMENT, FINALIZER, JOB
from minikafka_chaos.experiment.record import Whereabouts
from minikafka_kube.api_server import ApiError
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import CLUSTER, CONFIG_MAP, LEASE, POD, STATEFUL_SET, TOPIC, USER, Object
from minikafka_kube.leadership import Alone
from minikafka_kube.loops import ReconcileResult
from minikafka_kube.names import Names

from tests.copies import copied
from tests.unit.kube.fake_api_server import FakeApiServer, Killed

BEGIN = datetime(2026, 11, 22, 9, 0, 0, tzinfo=UTC)
NAMESPACE = "lab"
NAMES = Names(NAMESPACE, "shop")

SCENARIO: dict[str, Any] = {
    "clusterRef": {"name": "shop"},
    "topics": [{"name": "bank"}],
    "workload": {"topic": "bank"},
    "steps": [
        {"name": "kill", "fault": {"verb": "Kill", "target": {"type": "Leader", "topic": "bank"}}},
        {"name": "back", "fault": {"verb": "Start", "target": {"type": "SameAs", "step": "kill"}}},
    ],
}


class World:
    """One cluster of three brokers that allows chaos, an experiment, and everybody who has to do with them."""

    def __init__(
        self, spec: Mapping[str, Any] | None = None, name: str = "try", settings: JobSettings | None = None
    ) -> None:
        self.server = FakeApiServer(NAMESPACE, BEGIN)
        self.name = name
        self.settings = settings or JobSettings(image="minikafka/chaos:1")
        self.telemetry = ControllerTelemetry()
        self.mute: set[str] = set()
        """Pods whose agents do not answer."""
        self.on: dict[str, set[str]] = {}
        """Faults that are really on, by pod: what the agents know."""
        self.cut: set[str] = set()
        """Pods with a fault of the network, which only a network agent ends."""
        self.asked: list[str] = []
        self.slow: set[str] = set()
        """Pods of which the kubelet has not noticed yet that their brokers ended."""
        self._containers = itertools.count(100)
        self._renewed = 0
        self._topic_ids = itertools.count(1)
        self.brokers_away = False
        self.operator_away = False
        self._cluster()
        self.server.put(EXPERIMENT, name, {"spec": copied(dict(spec or SCENARIO)), "metadata": {}})
        self.reconciler = self.new_reconciler()

    def new_reconciler(self) -> ExperimentReconciler:
        """The controller, started anew."""
        self.reconciler = ExperimentReconciler(
            self.server,  # type: ignore[arg-type]
            self,
            self.settings,
            self.telemetry,
            lambda: self.server.now,
            "controller-0",
            Alone(),
        )
        return self.reconciler

    # -- the cluster ----------------------------------------------------------------------------------------------------

    def _cluster(self) -> None:
        spec = {"brokers": {"replicas": 3}, "chaos": {"allowed": True}, "unflushedVolume": {"sizeLimit": "64Mi"}}
        self.server.put(CLUSTER, "shop", {"spec": spec, "metadata": {}})
        self.make_ready("shop")
        self.brokers("shop")
        self.partitions({"bank-of-others": [([0, 1, 2], [0, 1, 2])]})

    def make_ready(self, name: str) -> None:
        ready = [
            {"type": "Ready", "status": "True", "reason": "AllBrokersReady", "message": "", "observedGeneration": 1}
        ]
        self.server.objects[CLUSTER.name, name]["status"] = {"conditions": ready}

    def brokers(self, cluster: str, count: int = 3) -> None:
        names = Names(NAMESPACE, cluster)
        uid = self.server.objects[CLUSTER.name, cluster]["metadata"]["uid"]
        owner = [{"kind": CLUSTER.name, "name": cluster, "uid": uid, "controller": True}]
        labels = names.labels("broker")
        stateful_set = self.server.put(
            STATEFUL_SET, names.broker, {"metadata": {"labels": labels, "ownerReferences": owner}, "spec": {}}
        )
        for broker in range(count):
            self.pod(names, broker, stateful_set["metadata"]["uid"])

    def pod(self, names: Names, broker: int, owner_uid: str) -> None:
        owner = [{"kind": "StatefulSet", "name": names.broker, "uid": owner_uid, "controller": True}]
        containers = [{"name": "broker", "image": "b"}, {"name": AGENT_CONTAINER, "image": "b"}]
        made = {
            "metadata": {"labels": names.labels("broker"), "ownerReferences": owner},
            "spec": {"containers": containers, "nodeName": "n"},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time_text(self.server.now)}],
                "containerStatuses": [
                    {"name": "broker", "containerID": f"containerd://{broker}", "state": {"running": {}}}
                ],
            },
        }
        self.server.put(POD, names.pod(broker), made)

    def replace_pod(self, broker: int) -> None:
        """It was deleted; the StatefulSet made it again."""
        self.server.objects.pop((POD.name, NAMES.pod(broker)))
        self.on.pop(NAMES.pod(broker), None)
        self.pod(NAMES, broker, self.server.objects[STATEFUL_SET.name, NAMES.broker]["metadata"]["uid"])

    def partitions(self, topics: Mapping[str, list[tuple[list[int], list[int]]]]) -> None:
        """What the brokers know: replicas and in-sync replicas of each partition."""
        for name, states in topics.items():
            told = [
                {
                    "partition": i,
                    "replicas": replicas,
                    "isr": isr,
                    "leader": isr[0],
                    "leaderEpoch": 0,
                    "partitionEpoch": 0,
                }
                for i, (replicas, isr) in enumerate(states)
            ]
            status = {"topicName": name, "revision": 7, "partitions": told, "configs": {}}
            self.server.put(TOPIC, name, {"spec": {"clusterRef": {"name": "shop"}}, "status": status, "metadata": {}})
        document = Document("id", topics=dict.fromkeys(topics, 7), resource_version="1", uid="1")
        self.server.put(CONFIG_MAP, NAMES.metadata, {**document.to_config_map(NAMES.metadata, {}), "metadata": {}})
        self.renew()

    def renew(self) -> None:
        """The controller broker renews its Lease."""
        self._renewed += 1
        spec = {"holderIdentity": NAMES.pod(0), "leaseDurationSeconds": 9, "renewTime": str(self._renewed)}
        self.server.put(LEASE, NAMES.controller, {"spec": spec, "metadata": {"labels": NAMES.labels()}})

    def make_topic(self, name: str, *, object_name: str = "", shown: bool = True) -> str:
        """Somebody creates a topic; its id. Unless ``shown`` its object has no status yet; without a name there is no object."""
        topic_id = str(uuid.UUID(int=next(self._topic_ids)))
        record = {
            "topicId": topic_id,
            "partitions": [{"replicas": [0, 1, 2], "isr": [0, 1, 2], "leader": 0}],
            "configs": {},
        }
        self._change_document(lambda document: document.after({f"topic/{name}": record}))
        if object_name != "-":
            self.show_topic(name, topic_id, object_name or name, with_status=shown)
        return topic_id

    def show_topic(self, name: str, topic_id: str, object_name: str, *, with_status: bool = True) -> None:
        """The brokers show a topic: the object is theirs, and what it shows is in the journal no more."""
        document = self.document
        record = document.journal[name]
        rows = [{"partition": n, **row} for n, row in enumerate(record["partitions"])]
        status = {"topicId": topic_id, "topicName": name, "revision": document.topics[name], "partitions": rows}
        metadata = {"finalizers": [TOPIC_FINALIZER], "annotations": {TOPIC_ID: topic_id}}
        spec = {"clusterRef": {"name": "shop"}, "topicName": name}
        made = {"spec": spec, "metadata": metadata, **({"status": status} if with_status else {})}
        self.server.put(TOPIC, object_name, made)
        if with_status:
            self._change_document(lambda before: before.trimmed({name: before.topics[name]}))

    def delete_topic(self, name: str) -> None:
        """A client deletes a topic; brokers take its object away."""
        self._change_document(lambda document: document.after({f"topic/{name}": None}))
        for (kind, held), thing in list(self.server.objects.items()):
            if kind == TOPIC.name and thing["spec"].get("topicName", held) == name:
                self.server.objects.pop((kind, held))

    @property
    def document(self) -> Document:
        return Document.from_config_map(self.server.objects[CONFIG_MAP.name, NAMES.metadata])

    @property
    def topics(self) -> list[str]:
        """What the brokers have."""
        return sorted(self.document.topics)

    def _change_document(self, change: Callable[[Document], Document]) -> None:
        made = change(self.document).to_config_map(NAMES.metadata, {})
        self.server.put(CONFIG_MAP, NAMES.metadata, {**made, "metadata": {"uid": "1"}})

    def _brokers_delete(self) -> bool:
        """The brokers do what is wished: the topic that a MiniKafkaTopic shows goes, and then the object."""
        moved = False
        for (kind, held), thing in list(self.server.objects.items()):
            if kind == TOPIC.name and "deletionTimestamp" in thing["metadata"] and not self.brokers_away:
                name, topic_id = thing["spec"].get("topicName", held), thing["metadata"]["annotations"][TOPIC_ID]
                if self.id_of(name) == topic_id:
                    self._change_document(lambda document, name=name: document.after({f"topic/{name}": None}))
                self.server.objects.pop((kind, held))
                moved = True
        return moved

    def id_of(self, name: str) -> str | None:
        """The id of the topic of a name, as brokers know it."""
        if name not in self.document.topics:
            return None
        if name in self.document.journal:
            return str(self.document.journal[name]["topicId"])
        objects = [thing for (kind, _), thing in self.server.objects.items() if kind == TOPIC.name]
        return next(
            (
                thing["status"].get("topicId")
                for thing in objects
                if (thing.get("status") or {}).get("topicName") == name
            ),
            None,
        )

    # -- the experiment -------------------------------------------------------------------------------------------------

    @property
    def experiment(self) -> Object:
        return self.server.objects[EXPERIMENT.name, self.name]

    @property
    def there(self) -> bool:
        return (EXPERIMENT.name, self.name) in self.server.objects

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.experiment.get("status") or {})

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    def condition(self, kind: str) -> tuple[str, str, str]:
        for one in self.status.get("conditions") or ():
            if one["type"] == kind:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def annotate(self, name: str, value: str = "true") -> None:
        self.experiment["metadata"].setdefault("annotations", {})[name] = value
        self.server.touch(EXPERIMENT, self.name)

    def delete(self) -> None:
        self.server.remove(EXPERIMENT, self.name)

    def lease_holder(self, cluster: str = "shop") -> str:
        lease = self.server.objects.get((LEASE.name, Names(NAMESPACE, cluster).disruption))
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")

    def pass_time(self, seconds: float) -> None:
        self.server.now += timedelta(seconds=seconds)

    # -- the controller -------------------------------------------------------------------------------------------------

    async def look(self) -> ReconcileResult:
        """One look of the controller, with a controller broker that lives."""
        self.renew()
        return await self.reconciler.reconcile(NAMESPACE, self.name)

    async def settle(self, *, seconds: float = 2, looks: int = 200) -> None:
        """Look again and again, with everybody else at work, until only the controller's patience is asked for."""
        for _ in range(looks):
            outcome = await self.look()
            moved = self.kubernetes()
            self.pass_time(seconds)
            looked_after = ("Running", "Refused")  # its Job, or what it was refused for
            patience = 60 if self.there and self.phase not in looked_after else 4
            if outcome.gone or (outcome.name == "steady" and not moved and (outcome.retry_seconds or 1e9) > patience):
                return
        raise AssertionError(f"not settled: {self.status}")

    def network_agent(self, node: str = "n", ready: str = "True") -> None:
        """There is a network agent on a node; the API server shows one namespace as it shows the other."""
        labels = {"app.kubernetes.io/name": "minikafka-chaos-network"}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        made = {"metadata": {"labels": labels}, "spec": {"nodeName": node}, "status": status}
        self.server.put(POD, f"network-{node}", made)

    async def run(self, namespace: str, pod: str, command: Sequence[str], container: str) -> CommandResult:
        """A command in a network agent, which has no rights but to run its own."""
        assert (namespace, container, command[0]) == ("net", "network-agent", "minikafka-network")
        self.asked.append(f"{pod} {' '.join(command[1:])}")
        if pod in self.mute:
            raise OSError("nobody is there")
        name = command[command.index("--pod") + 1]
        self.cut.discard(name)
        return CommandResult(0, '{"recovered": []}', "")

    async def recover(self, namespace: str, pod: str) -> str:
        """The agent of a pod."""
        self.asked.append(pod)
        if pod in self.mute:
            return "no agent answers"
        if self.on.pop(pod, None) and pod not in self.slow:
            self.start_anew(pod)
        return ""

    def start_anew(self, pod: str, *, ready: bool = True) -> None:
        """The kubelet tells of a new container of the broker."""
        status = self.server.objects[POD.name, pod]["status"]
        status["containerStatuses"][0]["containerID"] = f"containerd://{next(self._containers)}"
        status["conditions"][0]["status"] = str(ready)

    # -- Kubernetes -----------------------------------------------------------------------------------------------------

    def kubernetes(self) -> bool:
        """Garbage and Jobs: a Job gets its pod; a pod whose Job is gone ends."""
        moved = self._brokers_delete() or self._operator_makes_users()
        for (kind, name), thing in list(self.server.objects.items()):
            if kind == JOB.name and not self.runner_pods():
                owner = [{"kind": "Job", "name": name, "uid": thing["metadata"]["uid"], "controller": True}]
                labels = thing["spec"]["template"]["metadata"]["labels"]
                made = {
                    "metadata": {"labels": labels, "ownerReferences": owner},
                    "spec": {},
                    "status": {"phase": "Running"},
                }
                self.server.put(POD, f"{name}-abcde", made)
                moved = True
        return moved

    def _operator_makes_users(self) -> bool:
        """The operator makes their Secrets, and brokers know them."""
        moved = False
        for (kind, _), thing in self.server.objects.items():
            if kind == USER.name and "status" not in thing and not self.operator_away:
                thing["status"] = {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}
                moved = True
        return moved

    def runner_pods(self) -> list[Object]:
        return [
            thing for (kind, name), thing in self.server.objects.items() if kind == POD.name and name.endswith("-abcde")
        ]

    def job_ends(self, how: str = "Complete", message: str = "") -> None:
        name = f"{self.name}-run"
        self.server.objects[JOB.name, name]["status"] = {
            "conditions": [{"type": how, "status": "True", "message": message}]
        }
        for pod in self.runner_pods():
            pod["status"] = {"phase": "Succeeded" if how == "Complete" else "Failed"}

    # -- the runner -----------------------------------------------------------------------------------------------------

    def ledger(self, runner: str = "try-run-abcde", **more: Any) -> StatusLedger:
        return StatusLedger(Store(self.server, self.name), runner, self.locate, now=lambda: self.server.now, **more)

    def locate(self, brokers: Collection[int]) -> dict[int, Whereabouts]:
        found = {}
        for broker in brokers:
            pod = self.server.objects[POD.name, NAMES.pod(broker)]
            container = pod["status"]["containerStatuses"][0]["containerID"]
            found[broker] = Whereabouts(pod["metadata"]["name"], pod["metadata"]["uid"], container)
        return found


class Store:
    """The runner's way to the same server."""

    def __init__(self, server: FakeApiServer, name: str) -> None:
        self.server = server
        self.name = name
        self.before_write: Callable[[], None] = lambda: None

    def read(self) -> Object | None:
        return copied(self.server.objects.get((EXPERIMENT.name, self.name)))

    def write_status(self, thing: Object) -> None:
        self.before_write()
        try:
            self.server._write("runner", lambda: self.server._replaced(EXPERIMENT, thing, "status"))
        except ApiError as error:
            raise ExperimentChanged from error


__all__ = ["FINALIZER", "NAMES", "NAMESPACE", "SCENARIO", "Killed", "Store", "World"]
