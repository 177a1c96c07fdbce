"""Chaos by kubectl alone: an experiment is applied, and its verdict read; deleting one heals the cluster within seconds.

The namespace has the restricted Pod Security Standard, and the controller rights in it and nowhere else.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.kubectl import Kubectl, KubectlError, eventually
from tests.e2e.machine import say
from tests.e2e.node import Node
from tests.e2e.objects import Object

ROOT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 420
HEAL_SECONDS_MAX = 30
BACK_SECONDS_MAX = 120

SHARED = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "storage": {"size": "500Mi"},
    "chaos": {"allowed": True},
    "listeners": {"external": {"type": "NodePort"}},
}
LONG: dict[str, Any] = {
    "clusterRef": {"name": "shared"},
    "topics": [{"name": "bank", "partitions": 1, "replicationFactor": 3}],
    "workload": {"topic": "bank", "ratePerSecond": 50},
    "steps": [
        {"name": "warm-up", "wait": {"conditions": [{"type": "Acked", "atLeast": 20}]}},
        {"name": "kill", "fault": {"verb": "Kill", "target": {"type": "Leader", "topic": "bank"}}},
        {"name": "for-long", "wait": {"conditions": [{"type": "Elapsed", "seconds": 900}], "deadlineSeconds": 1000}},
    ],
}


@pytest.fixture(scope="module")
def chaos(operator: Kubectl, module_namespace: Kubectl, programs: Path, images: dict[str, str]) -> Iterator[Kubectl]:
    """kubectl on a namespace where the chart is installed."""
    kubectl, release = module_namespace, module_namespace.namespace
    repository, _, tag = images["chaos"].rpartition(":")
    kubectl("apply", "--server-side", "--filename", str(ROOT / "charts/minikafka-chaos/files/crds"))
    command = [str(programs / "helm"), "--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace]
    values = [f"image.repository={repository}", f"image.tag={tag}", "image.pullPolicy=Never", "crds.install=false"]
    chart = str(ROOT / "charts/minikafka-chaos")
    given = [word for value in values for word in ("--set-string" if "tag" in value else "--set", value)]
    done = subprocess.run([*command, "install", release, chart, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kubectl("rollout", "status", f"deployment/{release}", "--timeout=90s")
    yield kubectl
    for name in kubectl("get", "mkx", "--output", "name").split():
        kubectl("annotate", name, "minikafka.dev/force-delete=true", "--overwrite")
    kubectl("delete", "mkx,mkxs", "--all", "--timeout=60s")
    subprocess.run([*command, "uninstall", release], capture_output=True, check=False)


def status(kubectl: Kubectl, name: str) -> Object:
    found: Object = kubectl.objects.there("mkx", name).get("status") or {}
    return found


def experiment(name: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": "minikafka.dev/v1alpha1", "kind": "ChaosExperiment", "metadata": {"name": name}, "spec": spec}


def test_the_demo_passes(chaos: Kubectl) -> None:
    began = time.monotonic()
    chaos("apply", "--filename", str(ROOT / "chaos/scenarios/demo.yaml"))
    over = ("Completed", "Refused", "Aborted", "Error")
    found = eventually(
        lambda: status(chaos, "demo"),
        lambda seen: seen.get("phase") in over,
        seconds=RUN_SECONDS_MAX,
        what="the demo has ended",
    )
    say(f"{time.monotonic() - began:6.1f} s  kubectl apply of the demo to its verdict")
    say(chaos("get", "mkx"))
    told = chaos("describe", "mkx", "demo")
    assert (found["phase"], found["verdict"], found["lost"]) == ("Completed", "Passed", 0), told
    assert found["acknowledged"] > 1500 and found["faultNow"] == ""
    assert [(fault["verb"], fault["state"]) for fault in found["faults"]] == [
        ("Kill", "Recovered"),
        ("PowerLoss", "Recovered"),
    ]
    for word in ("Started", "FaultInjected", "FaultRecovered", "Completed"):
        assert f" {word} " in told, told
    assert "minikafka.dev/chaos" not in str(chaos.objects.there("mkx", "demo")["metadata"].get("finalizers"))
    eventually(
        lambda: chaos("get", "mkc", "--output", "name").split(),
        lambda names: f"minikafkacluster.minikafka.dev/{found['cluster']}" not in names,
        seconds=60,
        what="its own cluster is gone",
    )


def test_deleting_heals(chaos: Kubectl, node: Node) -> None:
    cluster = BrokerCluster(chaos, node, "shared")
    cluster.up(SHARED)
    chaos.apply(experiment("long", LONG))
    found = eventually(
        lambda: status(chaos, "long"),
        lambda seen: any(fault["state"] == "Injected" for fault in seen.get("faults") or ()),
        seconds=120,
        what="a broker is killed",
    )
    broker = int(found["faults"][0]["broker"])
    assert found["faultNow"] == f"Kill broker {broker}"
    with pytest.raises(KubectlError, match=r"spec cannot be changed|denied"):
        chaos.patch("mkx", "long", {"spec": {"seed": 7}})
    chaos.apply(experiment("second", LONG))
    eventually(
        lambda: status(chaos, "second"),
        lambda seen: seen.get("phase") == "Refused" and "ClusterBusy" in str(seen["conditions"]),
        seconds=30,
        what="a second experiment is refused",
    )
    began = time.monotonic()
    chaos("delete", "mkx", "long", f"--timeout={HEAL_SECONDS_MAX + 60}s")
    took = time.monotonic() - began
    state = chaos("exec", cluster.pod_name(broker), "--container", "chaos-agent", "--", "minikafka", "agent", "state")
    say(f"{took:6.1f} s  kubectl delete mkx until it was gone, its fault undone")
    assert '"faults": []' in state or '"faults":[]' in state or '"faults": {}' in state, state
    cluster.wait_broker_ready(broker, BACK_SECONDS_MAX)
    assert chaos.objects.there("lease", "shared-disruption")["spec"].get("holderIdentity", "") == ""
