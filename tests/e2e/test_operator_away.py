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
from tests.e2e.machine import say

pytestmark = [pytest.mark.journeys, pytest.mark.alone, pytest.mark.full]

HEAL_SECONDS_MAX = 480
OPERATORS = 2
"""The chart's default."""
WATCHES_MAX = 3
WATCH_SECONDS = 20
"""How long nothing may be written for, in one of `WATCHES_MAX` looks. The brokers' controller renews its lease within this, which
is seen to happen."""
MADE_BY_THE_OPERATOR = (
    "statefulsets,pods,services,persistentvolumeclaims,poddisruptionbudgets,serviceaccounts,roles,rolebindings"
)
WRITTEN_BY_BROKERS = "minikafkatopics"
AUDIT = "/var/log/kubernetes/audit.log"
WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))
OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"


@pytest.fixture
def no_operator(operator: Kubectl) -> Iterator[Kubectl]:
    """No operator, and as many as before afterwards."""
    operator("scale", f"deployment/{RELEASE}", "--replicas=0")
    eventually(
        lambda: operator.objects.list("pod"), lambda pods: not pods, seconds=HEAL_SECONDS_MAX, what="no operator runs"
    )
    yield operator
    operator("scale", f"deployment/{RELEASE}", f"--replicas={OPERATORS}")
    rollout(operator, OPERATOR_SECONDS_MAX)


def _versions(kubectl: Kubectl, kinds: str) -> dict[str, str]:
    """The resourceVersion of everything in the namespace of these kinds."""
    found = json.loads(kubectl("get", kinds, "--output", "json"))["items"]
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in found}


def _everything(cluster: BrokerCluster) -> dict[str, str]:
    return _versions(cluster.kubectl, f"{MADE_BY_THE_OPERATOR},{WRITTEN_BY_BROKERS},minikafkaclusters,configmaps")


def _writes_since(cluster: BrokerCluster, lines_before: int) -> list[tuple[str, str]]:
    """Who wrote what in the cluster's namespace and the operator's, by the API server's audit log."""
    text = cluster.node.run("tail", "-n", f"+{lines_before + 1}", AUDIT)
    written = []
    for entry in map(json.loads, text.splitlines()):
        about = entry.get("objectRef") or {}
        if entry["verb"] in WRITES and about.get("namespace") in _namespaces(cluster):
            what = "/".join(filter(None, (about["resource"], about.get("name"), about.get("subresource"))))
            written.append((entry["user"]["username"], f"{entry['verb']} {what}"))
    return written


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
    say(
        f"no operator: broker {leader} killed, {successor} leads after {gap:.2f} s, full ISR after {healed:.1f} s; "
        f"{load.must_have_passed().summary}"
    )
    journeys.wait_broker_ready(leader, HEAL_SECONDS_MAX)
    _settled(journeys)
    before, lines = _versions(journeys.kubectl, MADE_BY_THE_OPERATOR), _audit_lines(journeys)
    no_operator("scale", f"deployment/{RELEASE}", f"--replicas={OPERATORS}")
    rollout(no_operator, OPERATOR_SECONDS_MAX)
    time.sleep(WATCH_SECONDS)
    assert _versions(journeys.kubectl, MADE_BY_THE_OPERATOR) == before
    # It may tell what happened meanwhile: in the cluster's status and in Events. It does nothing else.
    told = (f"patch minikafkaclusters/{journeys.name}/status", "create events", "patch events", "update events")
    writes = [what for who, what in _writes_since(journeys, lines) if who == OPERATOR_USER]
    writes = [what for what in writes if f"leases/{RELEASE}" not in what and what != "create leases"]
    assert not [what for what in writes if not what.startswith(told)], writes
    say(f"the operator is back: {len(before)} objects unchanged; all it wrote within {WATCH_SECONDS} s: {writes}")


def test_nobody_writes_while_nothing_happens(journeys: BrokerCluster, operator: Kubectl) -> None:
    """What the tests before have caused may still be told of, and a machine that stood still is something that happened."""
    told = []
    while (said := _written_while_watched(journeys)) is not None:
        say(said)
        told.append(said)
        assert len(told) < WATCHES_MAX, told


def _written_while_watched(cluster: BrokerCluster) -> str | None:
    """What was written beside the leases, or None."""
    _settled(cluster)
    before, lines = _everything(cluster), _audit_lines(cluster)
    lease = _lease(cluster)
    time.sleep(WATCH_SECONDS)
    if (after := _everything(cluster)) != before:
        return f"changed within {WATCH_SECONDS} s: {sorted(dict(before.items() ^ after.items()))}"
    assert _lease(cluster) != lease, "the controller's lease is not being renewed"
    # Those of the operator and the brokers: what Kubernetes notes by itself, late Events for one, is not theirs.
    ours = tuple(f"system:serviceaccount:{namespace}:" for namespace in _namespaces(cluster))
    writes = [(who, what) for who, what in _writes_since(cluster, lines) if who.startswith(ours)]
    leases = (f"leases/{cluster.name}-controller", f"leases/{RELEASE}")
    renewals = [each for each in writes if each[1].endswith(leases)]
    assert len({each[1] for each in renewals}) == 2, f"the controller's and the operators': {renewals}"
    if len(renewals) != len(writes):
        return f"written within {WATCH_SECONDS} s: {[each for each in writes if each not in renewals]}"
    say(
        f"{len(before)} objects unchanged for {WATCH_SECONDS} s; the only writes: {len(renewals)} renewals of the lease"
    )
    return None


def _lease(cluster: BrokerCluster) -> str:
    return str(cluster.kubectl.objects.there("lease", f"{cluster.name}-controller")["spec"]["renewTime"])


def _settled(cluster: BrokerCluster) -> None:
    """Wait until two looks, some seconds apart, see the same."""
    seen: list[dict[str, str]] = [{}]

    def unchanged() -> bool:
        seen.append(_everything(cluster))
        time.sleep(3)
        return seen[-1] == seen[-2]

    eventually(unchanged, seconds=HEAL_SECONDS_MAX, what="nothing changes any more")
