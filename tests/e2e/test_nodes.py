"""Three nodes: brokers in racks, an experiment, Prometheus, logs, and Spark whose executors are on different nodes.

The claims are ReadWriteOnce on a node's own disk, so nothing but the driver's node can mount the run. Then the brokers go, with
their pods and claims, and the report is made again of what Prometheus and the log collector have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import charts, spark_jobs
from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.chaos_lab import A_LEADER_DIES, ENDED, document
from tests.e2e.conftest import new_namespace
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.machine import image, say
from tests.e2e.node import Node
from tests.e2e.objects import Object

pytestmark = pytest.mark.nodes

RACK = "minikafka.dev/e2e-rack"
READY_SECONDS_MAX = 480
RUN_SECONDS_MAX = 1200
GONE_SECONDS_MAX = 360
NAME = "shop"
BROKERS = 3
CLUSTER: dict[str, Any] = {
    "brokers": {"replicas": BROKERS, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "storage": {"size": "500Mi"},
    "rack": {"topologyKey": RACK},
    "chaos": {"allowed": True},
    "config": {"minikafka.events.stdout": "true"},
}
EXPERIMENT: dict[str, Any] = {"clusterRef": {"name": NAME}, **A_LEADER_DIES}


@dataclass(frozen=True)
class Ground:
    """A namespace with brokers on all nodes, and the charts."""

    kubectl: Kubectl
    brokers: BrokerCluster
    spark: dict[str, Any]
    """The values of the analysis, without a run."""


@pytest.fixture(scope="module")
def nodes(kubectl: Kubectl) -> list[str]:
    """The nodes' names; each is a rack."""
    found = [each.removeprefix("node/") for each in kubectl("get", "nodes", "--output", "name").split()]
    assert len(found) >= BROKERS, f"{len(found)} nodes, where these tests need {BROKERS}: make e2e-nodes"
    for number, name in enumerate(found):
        kubectl("label", "node", name, f"{RACK}=rack-{number}", "--overwrite")
    return found


@pytest.fixture(scope="module")
def ground(
    operator: Kubectl,
    kubectl: Kubectl,
    node: Node,
    nodes: list[str],
    programs: Path,
) -> Iterator[Ground]:
    """As docs/guide/spark-on-kubernetes.md says for several nodes; claims are of the cluster's own class, ReadWriteOnce."""
    with new_namespace(kubectl, node, "nodes") as within, charts.privileged(within) as agents:
        spark = {
            **spark_jobs.SMALL,
            "image": charts.image(image("analytics")),
            "executors": {"instances": 2, "spread": "required"},
        }
        desk = spark_jobs.installed(within, programs, spark)
        logs = {
            "image": charts.image(image("log-collector")),
            "agents": {"namespace": agents.namespace},
            # One pod reads both claims: they have to be on one node.
            "store": {"size": "200Mi", "nodeSelector": {"kubernetes.io/hostname": desk["spec"]["nodeName"]}},
        }
        charts.install(programs, within, "logs", "minikafka-logs", logs)
        chaos = {"image": charts.image(image("chaos")), "runs": {"claim": "minikafka-runs"}}
        charts.install(programs, within, within.namespace, "minikafka-chaos", chaos)
        monitoring = {
            "mode": "plain",
            "clusters": [{"name": NAME, "namespace": within.namespace}],
            "scrapeInterval": "1s",
            "prometheus": {"image": charts.image(image("prometheus"))},
        }
        charts.install(programs, within, "prometheus", "minikafka-monitoring", monitoring)
        brokers = BrokerCluster(within, node, NAME)
        brokers.up(CLUSTER, READY_SECONDS_MAX)
        patience = f"--timeout={READY_SECONDS_MAX}s"
        agents("rollout", "status", "daemonset/logs-agents", patience, timeout=READY_SECONDS_MAX + 10)
        for name in ("logs-store", within.namespace, "prometheus"):
            within("rollout", "status", f"deployment/{name}", patience, timeout=READY_SECONDS_MAX + 10)
        yield Ground(within, brokers, spark)
        for release in (within.namespace, "logs"):  # what they have outside of the namespace
            charts.uninstall(programs, within, release)


@pytest.fixture(scope="module")
def experiment(ground: Ground) -> Object:
    """The status of an experiment that was applied, while Prometheus scraped three brokers."""
    path = f"/api/v1/namespaces/{ground.kubectl.namespace}/services/prometheus:http/proxy/api/v1/query?query=up"
    eventually(
        lambda: [each["value"][1] for each in json.loads(ground.kubectl("get", "--raw", path))["data"]["result"]],
        lambda seen: seen.count("1") >= BROKERS,
        seconds=READY_SECONDS_MAX,
        what="Prometheus scrapes three brokers",
    )
    ground.kubectl.apply(document("killed", EXPERIMENT))
    status: Object = eventually(
        lambda: ground.kubectl.objects.there("mkx", "killed").get("status") or {},
        lambda found: found.get("phase") in ENDED,
        seconds=RUN_SECONDS_MAX,
        what="the experiment has ended",
    )
    assert (status["phase"], status["verdict"], status["lost"]) == ("Completed", "Passed", 0), status
    return status


def test_brokers_are_in_racks_of_their_own(ground: Ground, nodes: list[str]) -> None:
    pods = [ground.brokers.pod(broker) for broker in range(BROKERS)]
    on = {each["spec"]["nodeName"] for each in pods if each is not None}
    assert on == set(nodes), "one broker on each node"
    told = {each["id"]: each["rack"] for each in ground.brokers.status["brokers"]}
    assert set(told.values()) == {f"rack-{number}" for number in range(BROKERS)}, told
    for broker, rack in told.items():
        pod = ground.brokers.pod(broker)
        assert pod is not None and rack == f"rack-{nodes.index(pod['spec']['nodeName'])}"


def test_executors_on_different_nodes_judge_as_the_verifier(
    ground: Ground, nodes: list[str], experiment: Object, programs: Path
) -> None:
    reported = spark_jobs.job(ground.kubectl, programs, ground.spark, {"name": experiment["run"]})
    _as_the_verifier_says(reported, experiment)
    claim = ground.kubectl.objects.there("pvc", "minikafka-runs")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_the_same_when_the_brokers_are_gone(ground: Ground, experiment: Object, programs: Path) -> None:
    """The run's own metrics and events are taken away too: they come from Prometheus and the log collector."""
    kubectl, run = ground.kubectl, experiment["run"]
    ground.brokers.down()
    kubectl("delete", "pvc", "--selector", f"app.kubernetes.io/instance={NAME}")
    eventually(
        lambda: kubectl.objects.list("pod", ground.brokers.selector),
        lambda found: not found,
        seconds=GONE_SECONDS_MAX,
        what="the brokers' pods are gone",
    )
    own = [f"/runs/{run}/{name}" for name in ("metrics", "events", "parquet", "report.html", "report.json")]
    kubectl("exec", "deploy/analytics-desk", "--", "rm", "-r", *own)
    sources = {
        "prometheus": "http://prometheus:9090",
        "podLogs": {"claim": "minikafka-logs", "pods": f"{kubectl.namespace}/{NAME}-broker-*"},
    }
    reported = spark_jobs.job(kubectl, programs, ground.spark, {"name": run, **sources})
    _as_the_verifier_says(reported, experiment)
    lines = {each["table"]: each["rows"] for each in reported.report["runs"][0]["files"]["lines"]}
    assert lines["samples"] > 0 and lines["events"] > 0, lines


def _as_the_verifier_says(reported: spark_jobs.Reported, experiment: Object) -> None:
    (told,) = reported.report["runs"]
    verdict = told["verdict"]
    assert (verdict["verdict"], verdict["agree"]) == (experiment["verdict"], True)
    assert (told["counts"]["acknowledged"], told["counts"]["lost"]) == (experiment["acknowledged"], experiment["lost"])
    (fault,) = told["faults"]
    led = [each for each in fault["partitions"] if each["led"]]
    assert fault["kinds"] == ["kill"] and led and all(0 <= each["re_elected"] < each["full_isr"] for each in led)
    assert len(reported.executors) == 2, reported.executors
    assert len(set(reported.executors.values())) == 2, f"executors on one node: {reported.executors}"
    say(f"{verdict['verdict']}, as the verifier says, by executors on {sorted(reported.executors.values())}")
