"""The chart minikafka-monitoring: Prometheus scrapes the brokers, an alert fires and clears, dashboards have data.

And Spark on the cluster makes the report of a killed leader from it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from minikafka_chaos.record.journal import FILE_NAME as JOURNAL
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.verdict.claims import LINE_KIND as CLAIMS
from minikafka_chaos.verdict.claims import Terms

from tests.e2e import charts, spark_jobs
from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.load import under_load
from tests.e2e.machine import image, say
from tests.e2e.objects import Object
from tests.e2e.prometheus import BROKERS_UP, SEEN_SECONDS_MAX, ask, firing_alerts, scraping
from tests.integration.monitoring.prometheus import expressions, filled_in

pytestmark = pytest.mark.journeys

CHART = charts.ROOT / "charts/minikafka-monitoring"
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(CHART.glob("files/dashboards/*.json"))}
UNDER_REPLICATED = "MinikafkaUnderReplicatedPartitions"
TOPIC, WATCHED = "measured", "watched"
PARTITIONS = 3
HEAL_SECONDS_MAX = 360
SCRAPED_AFTER_SECONDS = 3
"""The last state is in Prometheus once two more scrapes have been made."""


@pytest.fixture(scope="module")
def prometheus(shared_cluster: BrokerCluster, programs: Path) -> Iterator[Kubectl]:
    """The chart minikafka-monitoring beside the shared cluster; kubectl on its namespace."""
    with scraping(programs, shared_cluster.kubectl, shared_cluster.name):
        yield shared_cluster.kubectl


@pytest.fixture(scope="module")
def run(shared_cluster: BrokerCluster, prometheus: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in which the leader's container was killed: journal and history, as a client knows them."""
    shared_cluster.wait_ready()
    folder = tmp_path_factory.mktemp("runs") / "killed-on-kubernetes"
    journal = Journal(folder / JOURNAL)
    placed = [[0, 1, 2]] * PARTITIONS
    with under_load(shared_cluster.bootstrap, TOPIC, folder, assignment=placed) as load:
        load.wait_for_acknowledged(1000)
        leader = shared_cluster.leader(TOPIC)
        before = shared_cluster.restarts(leader)
        with journal.action("kill", "Kill", f"broker-{leader}", f"leader of {TOPIC}-0"):
            shared_cluster.kill_container(leader)
        with journal.action("the-kubelet-starts-it", "Start", f"broker-{leader}"):
            shared_cluster.wait_restarted(leader, before, HEAL_SECONDS_MAX)
            shared_cluster.wait_broker_ready(leader, HEAL_SECONDS_MAX)
        shared_cluster.wait_full_isr(TOPIC, HEAL_SECONDS_MAX)
        load.wait_for_acknowledged(500)
    journal.write(CLAIMS, Terms().as_json())  # nothing beyond what is always judged
    journal.write("verdict", load.must_have_passed().as_json())
    journal.close()
    time.sleep(SCRAPED_AFTER_SECONDS)
    return folder


@pytest.mark.full
def test_prometheus_has_every_replica_of_every_partition(prometheus: Kubectl, run: Path) -> None:
    def by_partition() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for series in ask(prometheus, f'minikafka_high_watermark{{topic="{TOPIC}"}}'):
            found.setdefault(series["metric"]["partition"], []).append(series["value"][1])
        return found

    values = eventually(
        by_partition,
        lambda seen: (
            len(seen) == PARTITIONS
            and all(len(each) == 3 and len(set(each)) == 1 and "0" not in each for each in seen.values())
        ),
        seconds=SEEN_SECONDS_MAX,
        what=f"three replicas of each of {PARTITIONS} partitions, which agree at rest",
    )
    say(f"minikafka_high_watermark, by partition, on three replicas each: {values}")
    assert len(ask(prometheus, BROKERS_UP)) == 3


@pytest.mark.full
def test_spark_on_the_cluster_tells_what_happened(
    shared_cluster: BrokerCluster, prometheus: Kubectl, run: Path, programs: Path
) -> None:
    """A run whose load was outside of Kubernetes: its metrics come from Prometheus, its events from the brokers' claims."""
    sources = {
        "prometheus": "http://prometheus:9090",
        "eventClaims": [f"events-{shared_cluster.name}-broker-{broker}" for broker in range(3)],
    }
    made = spark_jobs.report(prometheus, programs, image("analytics"), run, sources)
    _tells_of_the_kill(made.report["runs"][0])


def _tells_of_the_kill(told: Object) -> None:
    """Kill, election and time to full ISR, from scraped metrics and event logs."""
    assert told["verdict"]["verdict"] == "Passed"
    (fault,) = told["faults"]
    assert fault["kinds"] == ["kill"]
    led = [each for each in fault["partitions"] if each["led"]]
    assert len(led) == PARTITIONS, "the killed broker led every partition"
    for each in led:
        assert each["new_leader"] != each["old_leader"]
        assert 0 <= each["re_elected"] < each["full_isr"]
    worst = fault["worst"]
    longest = max(gap["seconds"] for gap in told["gaps"])
    if worst["gap"] is None:
        paused = f"no pause of acknowledgements that a client would notice (longest {longest:.2f} s)"
    else:
        paused = f"acknowledgements paused for {worst['gap']:.2f} s"
        assert worst["gap"] <= longest
    say(
        f"{fault['title']}: new leaders after {worst['re_elected']:.2f} s, {paused}, "
        f"full ISR after {worst['full_isr']:.1f} s"
    )


def test_an_alert_fires_and_clears(shared_cluster: BrokerCluster, prometheus: Kubectl) -> None:
    """A follower is killed and held, so that the kubelet does not start it at once; then it is let go."""
    shared_cluster.wait_ready()
    _create_topic(shared_cluster, "alarmed")
    _wait_for_alert(prometheus, firing=False)
    follower = next(each for each in range(3) if each != shared_cluster.leader("alarmed"))
    (process,) = shared_cluster.processes([follower])
    began = time.monotonic()
    shared_cluster.node.kill_and_hold([process])
    try:
        _wait_for_alert(prometheus, firing=True)
        fired = time.monotonic() - began
    finally:
        shared_cluster.node.release(process)
    _wait_for_alert(prometheus, firing=False)
    shared_cluster.wait_ready(HEAL_SECONDS_MAX)
    say(f"{UNDER_REPLICATED} fired {fired:.0f} s after the kill and was gone {time.monotonic() - began:.0f} s after it")


def _create_topic(cluster: BrokerCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "broker.address.family": "v4"})
    admin.create_topics([NewTopic(name, 1, 3)])[name].result(SEEN_SECONDS_MAX)
    cluster.wait_full_isr(name, HEAL_SECONDS_MAX)


def _wait_for_alert(prometheus: Kubectl, *, firing: bool) -> None:
    eventually(
        lambda: UNDER_REPLICATED in firing_alerts(prometheus),
        lambda found: found == firing,
        seconds=SEEN_SECONDS_MAX,
        what=f"{UNDER_REPLICATED} {'fires' if firing else 'is quiet'}",
    )


@pytest.mark.full
def test_dashboards_have_data_under_load(shared_cluster: BrokerCluster, prometheus: Kubectl, tmp_path: Path) -> None:
    shared_cluster.wait_ready()
    asked = _expressions(shared_cluster)
    with under_load(shared_cluster.bootstrap, WATCHED, tmp_path / "watched") as load:
        load.wait_for_acknowledged(500, seconds=SEEN_SECONDS_MAX)
        eventually(
            lambda: [each for each in asked if not ask(prometheus, each)],
            lambda missing: not missing,
            seconds=SEEN_SECONDS_MAX,
            what=f"all of {len(asked)} expressions have data",
        )
        say(f"{len(asked)} expressions of {len(DASHBOARDS)} dashboards have data on Kubernetes")
    load.must_have_passed()


def _expressions(shared_cluster: BrokerCluster) -> list[str]:
    """As Grafana sends them. Chaos controllers and consumer groups are not here, but in tests/integration."""
    chosen = {
        "namespace": shared_cluster.kubectl.namespace,
        "cluster": shared_cluster.name,
        "topic": WATCHED,
        "partition": "0",
    }
    found = [filled_in(each, **chosen) for page in DASHBOARDS.values() for each in expressions(page)]
    absent = ("minikafka_chaos_", "minikafka:group_lag", "minikafka_group_members")
    return sorted({each for each in found if not any(name in each for name in absent)})
