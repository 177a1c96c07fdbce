"""The API server is the store's back, not the clients': while it is away, settled leaders go on taking records.

tests/apiserver/test_failover.py has the same on processes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import eventually
from tests.e2e.load import under_load
from tests.e2e.machine import image, say
from tests.e2e.manifest import manifest

pytestmark = [pytest.mark.journeys, pytest.mark.alone, pytest.mark.full]

AWAY_SECONDS = 30
MEANWHILE = 1000
"""Records that are acknowledged while it is away."""
HEAL_SECONDS_MAX = 280
WATCHERS = (
    ("kube-system", "deployment/coredns"),
    ("kube-system", "daemonset/kube-proxy"),
    ("local-path-storage", "deployment/local-path-provisioner"),
)
"""Who else has to hear of new objects before a new cluster of brokers can work: names, Services, volumes."""


@pytest.fixture
def others_are_spared(journeys: BrokerCluster) -> Iterator[None]:
    """Waits at the end until Kubernetes itself has got over it."""
    yield
    kubectl = journeys.kubectl
    journeys.node.restart_controllers()
    for within, what in WATCHERS:
        kubectl.within(within)("rollout", "restart", what)
    for within, what in WATCHERS:
        kubectl.within(within)(
            "rollout", "status", what, f"--timeout={HEAL_SECONDS_MAX}s", timeout=HEAL_SECONDS_MAX + 10
        )
    eventually(
        lambda: kubectl.apply(manifest("canary.yaml", image=image("chaos"))),
        seconds=HEAL_SECONDS_MAX,
        what="the API works",
    )
    eventually(
        lambda: kubectl("get", "pod", "canary-0", "--output", "jsonpath={.status.phase}"),
        lambda phase: phase == "Running",
        seconds=HEAL_SECONDS_MAX,
        what="a new StatefulSet gets its pod and its volume",
    )
    kubectl.delete("statefulset", "canary", wait=False)
    kubectl.delete("pvc", "data-canary-0", wait=False)


@pytest.mark.usefixtures("others_are_spared")
def test_clients_produce_while_the_api_server_is_away(journeys: BrokerCluster, tmp_path: Path) -> None:
    with under_load(journeys.bootstrap, "headless", tmp_path, assignment=[[0, 1, 2], [1, 2, 0], [2, 0, 1]]) as load:
        journeys.node.stop_api_server()
        stopped = time.time()
        before = load.acknowledged
        try:
            while time.time() < stopped + AWAY_SECONDS or load.acknowledged < before + MEANWHILE:
                load.wait_for_acknowledged(100, seconds=HEAL_SECONDS_MAX)
        finally:
            journeys.node.start_api_server()
        meanwhile = load.acknowledged - before
        eventually(
            lambda: journeys.kubectl("get", "--raw", "/readyz"), seconds=HEAL_SECONDS_MAX, what="the API server is back"
        )
        back = time.time() - stopped
        # It recovers: elections work again, which need the store.
        leader = journeys.leader("headless")
        moment = journeys.kill_container(leader)
        successor = journeys.leader("headless", other_than=leader, seconds=HEAL_SECONDS_MAX)
        load.wait_for_acknowledged(300, seconds=HEAL_SECONDS_MAX)
        healed = journeys.wait_full_isr("headless", HEAL_SECONDS_MAX, since=moment)
    say(
        f"API server away for {back:.0f} s: {meanwhile} records acknowledged meanwhile; then broker {leader} killed, "
        f"{successor} leads, full ISR after {healed:.1f} s; {load.must_have_passed().summary}"
    )
