"""The chart minikafka-logs: what brokers tell on standard output is there when their pods and claims are gone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from minikafka_analytics.sources import collect, pod_logs
from minikafka_chaos.record.journal import FILE_NAME as JOURNAL
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.verdict.claims import LINE_KIND as CLAIMS
from minikafka_chaos.verdict.claims import Terms

from tests.e2e import charts, diagnostics, spark_jobs
from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.conftest import JOURNEYS
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.load import under_load
from tests.e2e.machine import image, say

pytestmark = pytest.mark.full

RELEASE, CHART = "logs", "minikafka-logs"
TOPIC = "told"
BROKERS = range(3)
READY_SECONDS_MAX = 280
HEAL_SECONDS_MAX = 480
TOLD = {**JOURNEYS, "config": {"auto.leader.rebalance.enable": "false", "minikafka.events.stdout": "true"}}


@dataclass(frozen=True)
class Collector:
    """A release of the chart: the store beside the brokers, the agents in a namespace that may have them."""

    kubectl: Kubectl
    agents: Kubectl

    def wait_ready(self) -> None:
        patience = f"--timeout={READY_SECONDS_MAX}s"
        self.kubectl("rollout", "status", f"deployment/{RELEASE}-store", patience)
        self.agents("rollout", "status", f"daemonset/{RELEASE}-agents", patience)

    def lose(self, component: str) -> None:
        """Delete the pod of a component, with no time to end in good order."""
        where = self.agents if component == "log-agent" else self.kubectl
        chosen = f"app.kubernetes.io/component={component}"
        where("delete", "pods", "--selector", chosen, "--grace-period=1", "--wait=false")

    def replace_agent(self) -> None:
        """The same with the agent, and wait for its successor: of a pod that goes while there is none the end is lost."""
        before = self._ready_agents()
        self.lose("log-agent")
        eventually(
            self._ready_agents,
            lambda ready: bool(ready) and not ready & before,
            seconds=READY_SECONDS_MAX,
            what="another agent is there",
        )

    def _ready_agents(self) -> set[str]:
        """By uid."""
        chosen = "app.kubernetes.io/component=log-agent"
        pods = json.loads(self.agents("get", "pods", "--selector", chosen, "--output", "json"))["items"]
        return {
            pod["metadata"]["uid"]
            for pod in pods
            if any(c["ready"] for c in pod["status"].get("containerStatuses", ()))
            and "deletionTimestamp" not in pod["metadata"]
        }

    def copied(self, folder: Path) -> Path:
        """What the store has, copied out of it."""
        chosen = "app.kubernetes.io/component=log-store"
        (pod,) = self.kubectl("get", "pods", "--selector", chosen, "--output", "name").split()
        self.kubectl("cp", f"{pod.removeprefix('pod/')}:/logs", str(folder))
        return folder


@pytest.fixture
def collector(namespace: Kubectl, programs: Path) -> Iterator[Collector]:
    """Installed as docs/guide/logs.md says."""
    with charts.privileged(namespace) as agents:
        values = {
            "image": charts.image(image("log-collector")),
            "agents": {"namespace": agents.namespace},
            "store": {"size": "200Mi"},
        }
        charts.install(programs, namespace, RELEASE, CHART, values)
        try:
            found = Collector(namespace, agents)
            found.wait_ready()
            yield found
        finally:
            charts.uninstall(programs, namespace, RELEASE)


def test_every_event_outlives_pods_and_claims(
    broker_cluster: Callable[[str], BrokerCluster],
    collector: Collector,
    programs: Path,
    tmp_path: Path,
) -> None:
    """Brokers are killed and replaced, and so are the collector's own pods; then the cluster goes, and its claims.

    What is left is read twice: on this machine, and by a Job of Spark, which tells of the kill from it.
    """
    cluster = broker_cluster("shop")
    run = tmp_path / "run"
    journal = Journal(run / JOURNAL)
    journal.note("began")
    cluster.up(TOLD)
    with under_load(cluster.bootstrap, TOPIC, run, assignment=[[0, 1, 2]] * 3) as load:
        load.wait_for_acknowledged(300)
        leader = cluster.leader(TOPIC)
        before = cluster.restarts(leader)
        with journal.action("kill", "Kill", f"broker-{leader}", f"leader of {TOPIC}-0"):
            cluster.kill_container(leader)
        with journal.action("the-kubelet-starts-it", "Start", f"broker-{leader}"):
            cluster.wait_restarted(leader, before, HEAL_SECONDS_MAX)
            collector.lose("log-store")
            cluster.wait_broker_ready(leader, HEAL_SECONDS_MAX)
        cluster.wait_full_isr(TOPIC, HEAL_SECONDS_MAX)
        follower = next(each for each in BROKERS if each != cluster.leader(TOPIC))
        uid = cluster.kubectl.objects.there("pod", cluster.pod_name(follower))["metadata"]["uid"]
        collector.replace_agent()
        cluster.delete_pod(follower)
        cluster.wait_broker_ready(follower, HEAL_SECONDS_MAX)
        assert cluster.kubectl.objects.there("pod", cluster.pod_name(follower))["metadata"]["uid"] != uid
        cluster.wait_full_isr(TOPIC, HEAL_SECONDS_MAX)
    journal.write(CLAIMS, Terms().as_json())  # nothing beyond what is always judged
    journal.write("verdict", load.must_have_passed().as_json())
    collector.wait_ready()
    folders = {broker: cluster.volume_path("events", broker) for broker in BROKERS}
    recorded = _recorded(cluster, folders)

    def missing() -> list[str]:
        found = pod_logs.read([collector.copied(tmp_path / "logs")])
        return sorted(recorded - found.events.keys())

    # An agent that has just started sends all that its node has; what it has not opened goes with its pod (docs/guide/logs.md).
    eventually(missing, lambda lost: not lost, seconds=HEAL_SECONDS_MAX, what="the agents have caught up")
    cluster.down()
    recorded = _recorded(cluster, folders)
    cluster.kubectl("delete", "pvc", "--selector", f"app.kubernetes.io/instance={cluster.name}")
    journal.note("the brokers, their pods and their claims are gone")
    journal.close()
    diagnostics_folder = diagnostics.folder_for("logs")
    try:
        eventually(
            missing,
            lambda lost: not lost,
            seconds=HEAL_SECONDS_MAX,
            what="the store has every event that the volumes had",
        )
    finally:
        collector.copied(diagnostics_folder / "logs")
    pods, logs, by_spark = f"{cluster.kubectl.namespace}/shop-broker-*", tmp_path / "logs", tmp_path / "by-spark"
    shutil.copytree(run, by_spark)
    assert collect.main([str(run), "--pod-logs", str(logs), "--pods", pods]) == 0
    written = [json.loads(line) for path in (run / "events").iterdir() for line in path.read_text().splitlines()]
    by_identity = Counter(map(pod_logs.identity, written))
    assert by_identity.keys() == recorded and set(by_identity.values()) == {1}
    assert {event["broker"] for event in written if event["event"] == "broker_stopped"} == set(BROKERS)
    found = pod_logs.read([logs])
    assert not found.damaged and not found.unfinished
    say(f"{len(written)} events of {found.logs} lives of containers, none lost; {found.summary()}")

    of_claim = {"podLogs": {"claim": "minikafka-logs", "pods": pods}}
    reported = spark_jobs.report(cluster.kubectl, programs, image("analytics"), by_spark, of_claim)
    assert f"events: {len(written)} from {found.logs} logs of pods" in reported.said
    (told,) = reported.report["runs"]
    (fault,) = told["faults"]
    led = [each for each in fault["partitions"] if each["led"]]
    assert told["verdict"]["verdict"] == "Passed" and fault["kinds"] == ["kill"]
    assert led and all(0 <= each["re_elected"] < each["full_isr"] for each in led)


def _recorded(cluster: BrokerCluster, folders: dict[int, str | None]) -> set[str]:
    """The identities of all events in the brokers' flight recorders."""
    found: set[str] = set()
    for broker, folder in folders.items():
        lines = (cluster.node.read(f"{folder}/broker-{broker}.jsonl") or "").splitlines()
        assert len(lines) > 5, f"broker {broker} has recorded {lines}"
        found |= {pod_logs.identity(json.loads(line)) for line in lines}
    return found
