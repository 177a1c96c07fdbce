"""The chaos controller as a process beside a real API server, with the rights that its chart gives it.

There are no kubelets: the test plays the brokers' pods, the Job controller and the runner, and no agent ever answers; what
the agents do is shown on kind.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient
from kubernetes.config import new_client_from_config
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.controller import credentials
from minikafka_chaos.controller.admission import scenario_of
from minikafka_chaos.controller.jobs import labels, owner
from minikafka_chaos.controller.ledger import FaultRefused, StatusLedger
from minikafka_chaos.controller.prometheus_urls import IN_CLUSTER
from minikafka_chaos.controller.runner import BrokerPods, ObjectStatus
from minikafka_chaos.grounds.kubernetes_api import Namespace
from minikafka_chaos.scenario.faults import Fault, Handle, Targets
from minikafka_kube.names import Names

from tests.apiserver.charts import check_values, lint, refused, rendered
from tests.apiserver.conftest import make_namespace
from tests.apiserver.control_plane import ControlPlane, free_port
from tests.apiserver.controller_word import ControllerWord
from tests.apiserver.operator_process import API, IMAGE, ROOT, apply, token_of
from tests.apiserver.test_chaos_crds import SPEC
from tests.apiserver.test_operator_permissions import Client, table
from tests.waiting import until_now

CHART = ROOT / "charts/minikafka-chaos"
PATIENCE = 180.0
"""A controller that was killed is followed by one that first has to see the Lease of the other end; and machines are busy."""
KILL = Fault("f1", Verb.KILL, step="kill")
SCRAM = {"tls": True, "authentication": {"type": "scram-sha-512"}}
LEADER = Targets((1,), role="Leader")


def template(namespace: str, *options: str) -> list[dict[str, Any]]:
    """The objects of the chart, as a release of the namespace's name."""
    return rendered(namespace, CHART, namespace, *options)


class Controller:
    """The process."""

    def __init__(self, plane: ControlPlane, folder: Path, namespace: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(plane.kubeconfig(token_of(plane, namespace, namespace))))
        self.port = free_port()
        self.log = folder / "controller.log"
        options = ["--runner-image=minikafka/chaos:test", f"--namespace={namespace}", "--host=127.0.0.1"]
        options += [f"--port={self.port}", f"--lease-namespace={namespace}", f"--lease-name={namespace}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "minikafka_chaos.controller", *options],
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=120)


class Lab:
    """A namespace with the chart in it, a cluster of three brokers that allows chaos, and its experiments."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.namespace = make_namespace(plane)
        self.names = Names(self.namespace, "shop")
        apply(plane, template(self.namespace, "--set=crds.install=false", "--set=replicas=0"))
        self.controller = Controller(plane, folder / "controller", self.namespace)
        self.word = ControllerWord(plane, self.names)
        self._cluster()
        file = folder / "admin"
        file.write_text(json.dumps(plane.kubeconfig("admin-of-the-tests")))
        client: ApiClient = new_client_from_config(str(file))
        self.api = Namespace(client, self.namespace)

    def restart(self) -> None:
        """The controller is killed, and started again."""
        self.controller.kill()
        self.controller = Controller(self.plane, self.folder / "controller", self.namespace)

    def close(self) -> None:
        self.word.fall_silent()
        self.controller.stop()

    def url(self, plural: str, name: str = "") -> str:
        root = {
            "statefulsets": "/apis/apps/v1",
            "jobs": "/apis/batch/v1",
            "leases": "/apis/coordination.k8s.io/v1",
            "events": "/apis/events.k8s.io/v1",
            "pods": "/api/v1",
        }.get(plural, API)
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def find(self, plural: str, name: str) -> Any:
        return self.plane.find(self.url(plural, name))

    def _cluster(self) -> None:
        spec = {"brokers": {"replicas": 3}, "chaos": {"allowed": True}, "unflushedVolume": {}}
        made = self.plane.request(
            "POST",
            self.url("minikafkaclusters"),
            {
                "apiVersion": "minikafka.dev/v1alpha1",
                "kind": "MiniKafkaCluster",
                "metadata": {"name": "shop"},
                "spec": spec,
            },
        )
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "AllBrokersReady",
            "message": "",
            "lastTransitionTime": since,
            "observedGeneration": 1,
        }
        self.plane.request(
            "PATCH", self.url("minikafkaclusters", "shop") + "/status", {"status": {"conditions": [ready]}}
        )
        owner = {**_reference(made), "controller": True}
        labels = self.names.labels("broker")
        pod_spec = {"containers": [{"name": "broker", "image": IMAGE}, {"name": "chaos-agent", "image": IMAGE}]}
        stateful_set = self.plane.request(
            "POST",
            self.url("statefulsets"),
            {
                "metadata": {"name": self.names.broker, "labels": labels, "ownerReferences": [owner]},
                "spec": {
                    "serviceName": self.names.brokers,
                    "selector": {"matchLabels": self.names.selector()},
                    "template": {"metadata": {"labels": labels}, "spec": pod_spec},
                },
            },
        )
        for broker in range(3):
            metadata = {
                "name": self.names.pod(broker),
                "labels": labels,
                "ownerReferences": [{**_reference(stateful_set), "controller": True}],
            }
            self.plane.request("POST", self.url("pods"), {"metadata": metadata, "spec": {**pod_spec, "nodeName": "n"}})
            running = {
                "name": "broker",
                "image": IMAGE,
                "imageID": "",
                "containerID": f"containerd://{broker}",
                "restartCount": 0,
                "ready": True,
                "state": {"running": {"startedAt": since}},
            }
            status = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
                "containerStatuses": [running],
            }
            self.plane.request("PATCH", self.url("pods", self.names.pod(broker)) + "/status", {"status": status})
        self.word.start()

    def start_anew(self, broker: int) -> None:
        """As the kubelet does, and tells: the broker runs in another container, and is ready."""
        path = self.url("pods", self.names.pod(broker)) + "/status"
        (prometheus_urls,) = self.find("pods", self.names.pod(broker))["status"]["containerStatuses"]
        prometheus_urls["restartCount"] += 1
        prometheus_urls["containerID"] = f"containerd://{broker}-{prometheus_urls['restartCount']}"
        self.plane.request("PATCH", path, {"status": {"containerStatuses": [prometheus_urls]}})

    # -- experiments ----------------------------------------------------------------------------------------------------

    def create(self, name: str, **change: Any) -> None:
        document = {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "ChaosExperiment",
            "metadata": {"name": name},
            "spec": {**copy.deepcopy(SPEC), **change},
        }
        self.plane.request("POST", self.url("chaosexperiments"), document)

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = (self.find("chaosexperiments", name) or {}).get("status") or {}
        return found

    def wait_for(self, name: str, phase: str, seconds: float = PATIENCE) -> dict[str, Any]:
        found: dict[str, Any] = until_now(
            lambda: self.status(name), lambda seen: seen.get("phase") == phase, seconds=seconds
        )
        return found

    def running(self, name: str) -> None:
        """Wait until its Job is there, and make the Job's pod."""
        self.wait_for(name, "Running")
        job = until_now(lambda: self.find("jobs", f"{name}-run"), seconds=PATIENCE)
        pod = job["spec"]["template"]
        owner = {**_reference(job), "controller": True}
        metadata = {"name": f"{name}-run-abcde", "labels": pod["metadata"]["labels"], "ownerReferences": [owner]}
        made = self.plane.request("POST", self.url("pods"), {"metadata": metadata, "spec": pod["spec"]})
        assert made["spec"]["serviceAccountName"] == "minikafka-chaos-runner"

    def ledger(self, name: str, expiry_s: float = 1800.0) -> StatusLedger:
        brokers = BrokerPods(self.api, "shop")
        return StatusLedger(ObjectStatus(self.api, name), f"{name}-run-abcde", brokers.locate, expiry_s=expiry_s)

    def job_ends(self, name: str) -> None:
        """As the Job controller and the garbage collector would have it."""
        path = self.url("pods", f"{name}-run-abcde")
        if self.plane.find(path) is not None:
            self.plane.request("PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}})
        job = self.find("jobs", f"{name}-run")
        if job is not None:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            done = [
                {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
                for kind in ("SuccessCriteriaMet", "Complete")
            ]
            ended = {"startTime": job["metadata"]["creationTimestamp"], "completionTime": now, "succeeded": 1}
            self.plane.request(
                "PATCH", f"{self.url('jobs', f'{name}-run')}/status", {"status": {**ended, "conditions": done}}
            )

    def pod_ends(self, name: str) -> None:
        self.plane.request("DELETE", self.url("pods", f"{name}-run-abcde"), {"gracePeriodSeconds": 0})

    def events(self, name: str) -> list[str]:
        listed = self.plane.request("GET", self.url("events"))["items"]
        return [event["reason"] for event in listed if event["regarding"]["name"] == name]

    def wait_reported(self, name: str, *reasons: str) -> None:
        """Wait for Events with these reasons: the controller writes them after what they are about, also after a status."""
        until_now(
            lambda: set(self.events(name)),
            lambda prometheus_urls: prometheus_urls.issuperset(reasons),
            seconds=PATIENCE,
        )

    def lease_holder(self) -> str:
        lease = self.find("leases", self.names.disruption)
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")


def _reference(thing: dict[str, Any]) -> dict[str, Any]:
    metadata = thing["metadata"]
    return {"apiVersion": thing["apiVersion"], "kind": thing["kind"], "name": metadata["name"], "uid": metadata["uid"]}


@pytest.fixture(scope="module")
def lab(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(plane, tmp_path_factory.mktemp("chaos"))
    try:
        yield made
    finally:
        made.close()


def test_a_verdict(lab: Lab) -> None:
    """From nothing to the verdict; what the runner writes, and what the controller makes of it."""
    lab.create("passes")
    lab.running("passes")
    ledger = lab.ledger("passes")
    ledger.take()
    ledger.intend(KILL, LEADER, None)
    ledger.injected(Handle(KILL, LEADER))
    assert lab.status("passes")["faultNow"] == "Kill broker 1"
    until_now(lambda: 'minikafka_chaos_fault_active{experiment="passes",fault="Kill"' in _page(lab), seconds=PATIENCE)
    ledger.recovered(Handle(KILL, LEADER), "step back")
    lab.start_anew(1)
    ledger.judging()
    ledger.set_fields(verdict="Passed", summary="nothing lost", lost=0, worstGap="0.31 s", asExpected="as expected")
    lab.job_ends("passes")
    found = lab.wait_for("passes", "Completed")
    assert [fault["state"] for fault in found["faults"]] == ["Recovered"]
    until_now(lambda: not lab.find("chaosexperiments", "passes")["metadata"].get("finalizers"), seconds=PATIENCE)
    assert lab.lease_holder() == ""
    lab.wait_reported("passes", "Started", "Verdict", "Completed")
    assert 'minikafka_chaos_fault_active{experiment="passes"' not in _page(lab)


def _page(lab: Lab) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{lab.controller.port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_refused_with_the_reason(lab: Lab) -> None:
    lab.create("nowhere", clusterRef={"name": "nowhere"})
    found = lab.wait_for("nowhere", "Refused")
    assert found["conditions"][0]["reason"] == "ClusterNotFound"
    lab.wait_reported("nowhere", "ClusterNotFound")
    assert lab.find("jobs", "nowhere-run") is None


@pytest.mark.full
def test_deleted_while_a_fault_is_on_and_the_controller_dies(lab: Lab) -> None:
    """No agent answers here, so the fault has to expire; then the object goes, with a controller that was killed meanwhile."""
    lab.create("goes")
    lab.running("goes")
    ledger = lab.ledger("goes", expiry_s=15)
    ledger.take()
    ledger.intend(KILL, LEADER, None)
    ledger.injected(Handle(KILL, LEADER))
    lab.restart()
    lab.plane.request("DELETE", lab.url("chaosexperiments", "goes"))
    lab.wait_for("goes", "Healing")
    with pytest.raises(FaultRefused):
        ledger.intend(Fault("f2", Verb.PAUSE, step="next"), Targets((2,)), None)
    lab.restart()
    lab.start_anew(1)
    until_now(lambda: lab.find("jobs", "goes-run") is None, seconds=PATIENCE)
    lab.pod_ends("goes")
    until_now(lambda: lab.find("chaosexperiments", "goes") is None, seconds=PATIENCE)
    assert lab.lease_holder() == ""


@pytest.mark.full
def test_a_fault_that_cannot_be_undone_is_told_and_let_go(lab: Lab) -> None:
    """No agent answers here. An annotation that is not understood is told, too."""
    lab.create("stuck")
    lab.running("stuck")
    ledger = lab.ledger("stuck", expiry_s=900)
    ledger.take()
    ledger.intend(KILL, LEADER, None)
    ledger.injected(Handle(KILL, LEADER))
    url = lab.url("chaosexperiments", "stuck")
    lab.plane.request("DELETE", url)
    until_now(lambda: lab.find("jobs", "stuck-run") is None, seconds=PATIENCE)
    lab.pod_ends("stuck")
    until_now(lambda: bool(lab.status("stuck").get("recoveryFailing")), seconds=PATIENCE)
    status = lab.status("stuck")
    (healed,) = [one for one in status["conditions"] if one["type"] == "Healed"]
    assert (healed["status"], healed["reason"]) == ("False", "RecoveryFailing")
    assert f"cannot be undone in {lab.names.pod(1)} since {status['recoveryFailing'][0]['since']}" in healed["message"]
    lab.plane.request("PATCH", url, {"metadata": {"annotations": {"minikafka.dev/force-delete": "yes"}}})
    lab.wait_reported("stuck", "AnnotationUnread")
    assert lab.find("chaosexperiments", "stuck") is not None
    lab.plane.request("PATCH", url, {"metadata": {"annotations": {"minikafka.dev/force-delete": "True"}}})
    until_now(lambda: lab.find("chaosexperiments", "stuck") is None, seconds=PATIENCE)
    assert lab.lease_holder() == "" and lab.events("stuck").count("RecoveryFailing") == 1


@pytest.mark.full
def test_a_lease_that_is_deleted_meanwhile(lab: Lab) -> None:
    """By an admin, say; the chart's Role lets the controller take it again."""
    lab.create("goes-on")
    lab.running("goes-on")
    holder = lab.lease_holder()
    assert holder.startswith("experiment/goes-on/")
    lab.plane.request("DELETE", lab.url("leases", lab.names.disruption))
    until_now(lambda: lab.find("leases", lab.names.disruption) is not None, seconds=PATIENCE)
    assert lab.lease_holder() == holder and lab.status("goes-on")["phase"] == "Running"
    lab.wait_reported("goes-on", "LeaseTakenAgain")
    lab.plane.request("DELETE", lab.url("chaosexperiments", "goes-on"))
    until_now(lambda: lab.find("jobs", "goes-on-run") is None, seconds=PATIENCE)
    lab.pod_ends("goes-on")
    until_now(lambda: lab.find("chaosexperiments", "goes-on") is None, seconds=PATIENCE)
    assert lab.lease_holder() == ""


@pytest.mark.full
def test_a_second_experiment_on_the_same_cluster(lab: Lab) -> None:
    lab.create("first")
    lab.running("first")
    lab.create("second")
    found = lab.wait_for("second", "Refused")
    assert found["conditions"][0]["message"] == "experiment first goes on with cluster shop; one at a time"
    lab.plane.request(
        "PATCH", lab.url("chaosexperiments", "first"), {"metadata": {"annotations": {"minikafka.dev/abort": "true"}}}
    )
    until_now(lambda: lab.find("jobs", "first-run") is None, seconds=PATIENCE)
    lab.pod_ends("first")
    assert lab.wait_for("first", "Aborted")["verdict"] == "Aborted"


def make_topic(lab: Lab, name: str, topic_id: str) -> None:
    """As brokers do: in the metadata, and shown by an object of theirs."""
    row = {"replicas": [0, 1, 2], "isr": [0, 1, 2], "leader": 0, "leaderEpoch": 0, "partitionEpoch": 0}
    record = {"topicId": topic_id, "partitions": [row], "configs": {}}
    revision = lab.word.commit(name, record, shown=True)
    metadata = {
        "name": name,
        "finalizers": ["minikafka.dev/topic"],
        "annotations": {"minikafka.dev/topic-id": topic_id},
    }
    body = {"apiVersion": "minikafka.dev/v1alpha1", "kind": "MiniKafkaTopic", "metadata": metadata}
    lab.plane.request("POST", lab.url("minikafkatopics"), {**body, "spec": {"clusterRef": {"name": "shop"}}})
    status = {"topicId": topic_id, "topicName": name, "revision": revision, "partitions": [{"partition": 0, **row}]}
    lab.plane.request("PATCH", lab.url("minikafkatopics", name) + "/status", {"status": status})


@pytest.mark.full
def test_topics_that_it_made_go_and_others_stay(lab: Lab) -> None:
    """One is removed by its id, though the controller dies; one of its name was made anew by somebody else, and stays."""
    ours, before, theirs = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(3))
    lab.create("topics", topics=[{"name": "bank"}, {"name": "audit"}])
    lab.running("topics")
    ledger = lab.ledger("topics")
    ledger.take()
    for name, topic_id in (("bank", ours), ("audit", before)):
        ledger.intend_topic(name)
        assert lab.status("topics")["topics"][-1]["state"] == "Intended"
        ledger.topic_made(name, topic_id)
    make_topic(lab, "bank", ours)
    make_topic(lab, "audit", theirs)
    lab.plane.request("DELETE", lab.url("jobs", "topics-run"), {"propagationPolicy": "Background"})
    lab.pod_ends("topics")
    bank = until_now(
        lambda: lab.find("minikafkatopics", "bank"), lambda it: "deletionTimestamp" in it["metadata"], seconds=PATIENCE
    )
    assert bank["status"]["topicId"] == ours
    lab.restart()
    lab.word.remove("bank")
    lab.plane.request("PATCH", lab.url("minikafkatopics", "bank"), {"metadata": {"finalizers": []}})
    found = lab.wait_for("topics", "Error")
    assert [(one["name"], one["state"]) for one in found["topics"]] == [("bank", "Removed"), ("audit", "Removed")]
    assert "deletionTimestamp" not in lab.find("minikafkatopics", "audit")["metadata"]
    lab.wait_reported("topics", "TopicsRemoved")
    assert lab.lease_holder() == ""
    lab.word.remove("audit")
    lab.plane.request("PATCH", lab.url("minikafkatopics", "audit"), {"metadata": {"finalizers": []}})
    lab.plane.request("DELETE", lab.url("minikafkatopics", "audit"))


@pytest.mark.full
def test_a_schedule_makes_experiments(lab: Lab) -> None:
    template = {"name": "nowhere", "spec": {**SPEC, "clusterRef": {"name": "nowhere"}}}
    spec = {"interval": {"seconds": 10}, "failedHistoryLimit": 1, "templates": [template]}
    metadata = {"name": "often"}
    body = {"apiVersion": "minikafka.dev/v1alpha1", "kind": "ChaosSchedule", "metadata": metadata, "spec": spec}
    lab.plane.request("POST", lab.url("chaosschedules"), body)
    found = until_now(
        lambda: lab.find("chaosschedules", "often").get("status") or {},
        lambda seen: (seen.get("made") or 0) >= 2,
        seconds=PATIENCE,
    )
    assert found["lastVerdict"] == "Refused"
    lab.plane.request("PATCH", lab.url("chaosschedules", "often"), {"spec": {"suspend": True}})

    def kept() -> list[str]:
        listed = lab.plane.request("GET", lab.url("chaosexperiments"))["items"]
        return [one["metadata"]["name"] for one in listed if one["metadata"]["name"].startswith("often-")]

    until_now(kept, lambda names: len(names) == 1, seconds=PATIENCE)


class TestRights:
    """A Role in the namespace, and what a Role cannot say."""

    NEVER = (
        ("get", "secrets"),
        ("create", "pods"),
        ("delete", "pods"),
        ("patch", "pods"),
        ("create", "pods:eviction"),
        ("delete", "persistentvolumeclaims"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
        ("patch", "minikafkaclusters.minikafka.dev"),
        ("patch", "minikafkausers.minikafka.dev"),
        ("delete", "nodes"),
    )

    @pytest.mark.parametrize("account", ["controller", "runner"])
    def test_the_tables(self, lab: Lab, account: str) -> None:
        name = lab.namespace if account == "controller" else "minikafka-chaos-runner"
        user = f"{lab.namespace}:{name}"
        may = [("create", "pods:exec"), ("update", "chaosexperiments.minikafka.dev:status")]
        more = [
            ("create", "jobs.batch"),
            ("update", "leases.coordination.k8s.io"),
            ("delete", "minikafkatopics.minikafka.dev"),
            ("create", "minikafkausers.minikafka.dev"),
        ]
        may += more if account == "controller" else []
        assert set(table(lab.plane, user, lab.namespace, may).values()) == {True}
        never = [*self.NEVER, *(more if account == "runner" else ())]
        prometheus_urls = table(lab.plane, user, lab.namespace, never)
        assert not [question for question, answer in prometheus_urls.items() if answer]
        elsewhere = table(lab.plane, user, "default", may)
        assert not [question for question, answer in elsewhere.items() if answer]

    @pytest.mark.parametrize("account", ["controller", "runner"])
    def test_no_other_container_may_be_entered(self, lab: Lab, tmp_path: Path, account: str) -> None:
        name = lab.namespace if account == "controller" else "minikafka-chaos-runner"
        client = Client(lab.plane, token_of(lab.plane, lab.namespace, name), tmp_path)
        pod = lab.names.pod(0)

        def enter(container: str) -> str:
            words = ("minikafka", "agent", "recover")
            return client.kubectl("-n", lab.namespace, "exec", pod, "-c", container, "--", *words)

        says = "may run commands in the container chaos-agent only"
        until_now(lambda: enter("broker"), lambda said: says in said, seconds=PATIENCE)
        said = enter("chaos-agent")
        assert said and says not in said, "it is let through, to a node that is not there"

    ALLOWED = (
        "kill --id f1 --seconds 1800.0",
        "wipe-unflushed --id f1 --mode torn --seed 7",
        "logs --topic bank --topic audit",
        "checkpoint replication-offset-checkpoint",
        "recover",
    )
    REFUSED = (
        "minikafka agent serve",
        "minikafka agent wipe-volume --id f1 --config /tmp/mine.properties",
        "minikafka agent wipe-volume --id f1 --conf=/tmp/mine.properties",
        "minikafka agent state --folder /data",
        "minikafka agent",
        "minikafka topic list",
        "sh -c true",
        "rm -r /data",
    )

    def test_no_other_words_may_be_said(self, lab: Lab, tmp_path: Path) -> None:
        """Commands in the right container: verbs of faults by the runner, and no file of its own; `recover` by the controller."""
        pod, says = lab.names.pod(0), "with the verbs and options of faults"
        clients = {}
        for name in ("minikafka-chaos-runner", lab.namespace):
            (tmp_path / name).mkdir()
            clients[name] = Client(lab.plane, token_of(lab.plane, lab.namespace, name), tmp_path / name)

        def said(who: str, words: str) -> str:
            return clients[who].kubectl("-n", lab.namespace, "exec", pod, "-c", "chaos-agent", "--", *words.split())

        until_now(lambda: said("minikafka-chaos-runner", "sh"), lambda answer: says in answer, seconds=PATIENCE)
        prometheus_urls = {words: said("minikafka-chaos-runner", words) for words in self.REFUSED}
        assert not [words for words, answer in prometheus_urls.items() if says not in answer]
        prometheus_urls = {words: said("minikafka-chaos-runner", f"minikafka agent {words}") for words in self.ALLOWED}
        assert not [words for words, answer in prometheus_urls.items() if not answer or says in answer], (
            "to a node that is not there"
        )
        assert says in said(lab.namespace, "minikafka agent kill --id f1 --seconds 9")
        assert says not in said(lab.namespace, "minikafka agent recover")

    def test_no_other_users_may_be_made(self, lab: Lab, tmp_path: Path) -> None:
        """Who makes a MiniKafkaUser can be anybody in a cluster: the controller makes and removes those of experiments."""
        client = Client(lab.plane, token_of(lab.plane, lab.namespace, lab.namespace), tmp_path)
        spec = {**SPEC, "workload": {"topic": "bank", "groupMembers": 1}}
        experiment = {"metadata": {"name": "secret", "namespace": lab.namespace, "uid": "u"}, "spec": spec}
        cluster = {
            "metadata": {"name": "safe"},
            "spec": {"listeners": {"internal": SCRAM}, "authorization": {"type": "simple"}},
        }
        metadata = {"labels": labels(experiment), "ownerReferences": [owner(experiment)]}
        made = credentials.user(experiment, cluster, scenario_of(experiment), metadata)
        assert made is not None
        name = made["metadata"]["name"]
        everything = {"resource": {"type": "topic", "name": "*"}, "operations": ["All"]}
        admin = {"resource": {"type": "cluster"}, "operations": ["Alter"]}
        wrong = {
            "only": [
                {**made, "metadata": {**made["metadata"], "labels": {}}},
                {**made, "metadata": {**made["metadata"], "ownerReferences": []}},
            ],
            "called after it": [
                {**made, "metadata": {**made["metadata"], "name": "root"}},
                {**made, "spec": {**made["spec"], "userName": "root"}},
                *(
                    {**made, "spec": {**made["spec"], "authorization": {"type": "simple", "acls": [rule]}}}
                    for rule in (everything, admin)
                ),
            ],
        }
        until_now(lambda: client.create(lab.namespace, wrong["only"][0]), lambda said: "only" in said, seconds=PATIENCE)
        for says, documents in wrong.items():
            assert not [one for one in documents if says not in client.create(lab.namespace, one)]
        assert client.create(lab.namespace, made) == "", (
            "what the controller makes is what it may make, and the CRD takes it"
        )
        assert client.kubectl("-n", lab.namespace, "delete", "minikafkauser", name, "--wait=false") == ""
        others = {**made, "metadata": {"name": "alice"}}
        lab.plane.request("POST", lab.url("minikafkausers"), others)
        said = client.kubectl("-n", lab.namespace, "delete", "minikafkauser", "alice", "--wait=false")
        assert "of experiments only" in said

    def test_everybody_else_is_not_asked(self, lab: Lab) -> None:
        done = lab.plane.kubectl("-n", lab.namespace, "exec", lab.names.pod(0), "-c", "broker", "--", "true")
        assert done.returncode != 0 and "chaos-agent only" not in done.stderr


class TestChart:
    def test_lint(self) -> None:
        lint(CHART)

    def test_every_value_is_documented_and_in_the_schema(self) -> None:
        check_values(CHART)

    def test_which_prometheus_may_be_asked(self) -> None:
        def prometheus_urls(*options: str) -> list[str]:
            deployment = next(one for one in template("op", *options) if one["kind"] == "Deployment")
            words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
            return [word.partition("=")[2] for word in words if word.startswith("--prometheus-url=")]

        assert tuple(prometheus_urls()) == IN_CLUSTER
        assert prometheus_urls("--set-json=prometheusUrls=[]") == [""]
        assert prometheus_urls("--set=prometheusUrls={http://prometheus.example:9090/team}") == [
            "http://prometheus.example:9090/team"
        ]
        assert "prometheusUrls" in refused("op", CHART, "prometheusUrls={file:///etc/passwd}")

    def test_roles_in_each_namespace_and_nothing_for_the_whole_cluster(self) -> None:
        made = template("op", "--set=watch.namespaces={a,b}", "--set=rbac.aggregate=false")
        roles = sorted((one["metadata"]["namespace"], one["metadata"]["name"]) for one in made if one["kind"] == "Role")
        assert roles == [("a", "op"), ("a", "op-runner"), ("b", "op"), ("b", "op-runner"), ("op", "op-leader")]
        assert not [one for one in made if one["kind"].startswith("ClusterRole")]

    def test_the_pods_satisfy_the_restricted_standard(self, plane: ControlPlane, lab: Lab) -> None:
        """The Job's pod template, and the controller's."""
        name = make_namespace(plane)
        label = {"pod-security.kubernetes.io/enforce": "restricted"}
        plane.request("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": label}})
        lab.create("strict", ttlSecondsAfterFinished=0)
        lab.wait_for("strict", "Running")
        job = until_now(lambda: lab.find("jobs", "strict-run"), seconds=PATIENCE)
        deployment = next(one for one in template("op") if one["kind"] == "Deployment")
        for number, pod in enumerate((job["spec"]["template"], deployment["spec"]["template"])):
            body = {"metadata": {"name": f"p{number}"}, "spec": {**pod["spec"], "serviceAccountName": "default"}}
            plane.request("POST", f"/api/v1/namespaces/{name}/pods", body)
        lab.plane.request("DELETE", lab.url("chaosexperiments", "strict"))
        until_now(lambda: lab.find("chaosexperiments", "strict") is None, seconds=PATIENCE)
        bad = {"containers": [{"name": "x", "image": "x"}]}
        with pytest.raises(urllib.error.HTTPError):
            plane.request("POST", f"/api/v1/namespaces/{name}/pods", {"metadata": {"name": "bad"}, "spec": bad})
