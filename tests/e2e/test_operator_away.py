"""The operator is no part of failover, and a healthy cluster gives it nothing to do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.conftest import OPERATOR_NAMESPACE, OPERATOR_SECONDS_MAX, RELEASE, rollout
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.load import under_load

HEAL_SECONDS_MAX = 90
WATCH_SECONDS = 20
"""How long nothing may be written for. The brokers' controller renews its lease within this, which is seen to happen."""
KINDS = (
    "minikafkaclusters,minikafkatopics,configmaps,statefulsets,pods,services,endpointslices,persistentvolumeclaims,"
    "poddisruptionbudgets,serviceaccounts,roles,rolebindings"
)
AUDIT = "/var/log/kubernetes/audit.log"
WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))


@pytest.fixture
def no_operator(operator: Kubectl) -> Iterator[Kubectl]:
    """The operator scaled to zero, and back to one afterwards."""
    operator("scale", f"deployment/{RELEASE}", "--replicas=0")
    eventually(lambda: operator.list("pods"), lambda pods: not pods, seconds=60, what="no operator runs")
    yield operator
    operator("scale", f"deployment/{RELEASE}", "--replicas=1")
    rollout(operator, OPERATOR_SECONDS_MAX)


def _versions(kubectl: Kubectl) -> dict[str, str]:
    """The resourceVersion of everything in the namespace that belongs to the cluster."""
    found = json.loads(kubectl("get", KINDS, "--output", "json"))["items"]
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in found}


def _writes_since(cluster: BrokerCluster, lines_before: int) -> list[str]:
    """Who wrote what in the cluster's namespace, by the API server's audit log."""
    text = cluster.node.run("tail", "-n", f"+{lines_before + 1}", AUDIT)
    entries = [json.loads(line) for line in text.splitlines()]
    return [
        f"{each['user']['username']} {each['verb']} {each['objectRef']['resource']}/{each['objectRef'].get('name')}"
        for each in entries
        if each["verb"] in WRITES and (each.get("objectRef") or {}).get("namespace") in _namespaces(cluster)
    ]


def _namespaces(cluster: BrokerCluster) -> tuple[str, str]:
    return cluster.kubectl.namespace, OPERATOR_NAMESPACE


def _audit_lines(cluster: BrokerCluster) -> int:
    return int(cluster.node.run("wc", "-l", AUDIT).split()[0])


def test_failover_without_an_operator_and_it_changes_nothing_when_it_is_back(
    journeys: BrokerCluster, no_operator: Kubectl, tmp_path: Path
) -> None:
    with under_load(journeys.bootstrap, "alone", tmp_path, assignment=[[0, 1, 2]]) as load:
        leader = journeys.leader("alone")
        moment = journeys.kill_container(leader)
        successor = journeys.leader("alone", other_than=leader)
        load.wait_for_acknowledged(300)
        healed = journeys.wait_full_isr("alone", HEAL_SECONDS_MAX, since=moment)
    (gap,) = load.gaps([moment])
    print(
        f"no operator: broker {leader} killed, {successor} leads after {gap:.2f} s, full ISR after {healed:.1f} s; "
        f"{load.must_have_passed().summary}"
    )
    _settled(journeys)
    before = _versions(journeys.kubectl)
    no_operator("scale", f"deployment/{RELEASE}", "--replicas=1")
    rollout(no_operator, OPERATOR_SECONDS_MAX)
    time.sleep(WATCH_SECONDS)
    after = _versions(journeys.kubectl)
    # Its own status may have to tell what happened meanwhile; nothing else may differ.
    own = f"MiniKafkaCluster/{journeys.name}"
    assert {name: version for name, version in after.items() if name != own} == {
        name: version for name, version in before.items() if name != own
    }


def test_nobody_writes_while_nothing_happens(journeys: BrokerCluster, operator: Kubectl) -> None:
    _settled(journeys)
    before, lines = _versions(journeys.kubectl), _audit_lines(journeys)
    lease = _lease(journeys)
    time.sleep(WATCH_SECONDS)
    assert _versions(journeys.kubectl) == before
    assert _lease(journeys) != lease, "the controller's lease is not being renewed"
    writes = _writes_since(journeys, lines)
    renewals = [each for each in writes if f" leases/{journeys.name}-controller" in each]
    assert renewals, "the audit log is blind"
    assert len(renewals) == len(writes), [each for each in writes if each not in renewals]
    print(
        f"{len(before)} objects unchanged for {WATCH_SECONDS} s; the only writes: {len(renewals)} renewals of the lease"
    )


def _lease(cluster: BrokerCluster) -> str:
    return str(cluster.kubectl.there("lease", f"{cluster.name}-controller")["spec"]["renewTime"])


def _settled(cluster: BrokerCluster) -> None:
    """Wait until two looks, some seconds apart, see the same."""
    seen: list[dict[str, str]] = [{}]

    def unchanged() -> bool:
        seen.append(_versions(cluster.kubectl))
        time.sleep(3)
        return seen[-1] == seen[-2]

    eventually(unchanged, seconds=60, what="nothing changes any more")
