"""A roll takes one broker at a time while clients go on; and so do a drain of the node and a roll at once (B9)."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.broker_cluster import BrokerCluster, is_ready
from tests.e2e.kubectl import Kubectl, condition, eventually
from tests.e2e.load import under_load
from tests.e2e.machine import say
from tests.e2e.objects import Objects, ObjectsError

pytestmark = pytest.mark.journeys

DONE_SECONDS_MAX = 900
"""Six brokers come and go one after the other, each of which has to catch up before the next."""
LOOK_SECONDS = 0.2
PLACED = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


class Onlooker:
    """Looks at the brokers' pods all the time; ``fewest`` is the smallest number that was ready."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.fewest = 99
        self.looks = 0
        self.uids: set[str] = set()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with suppress(ObjectsError):
                pods = self._cluster.kubectl.objects.list("pod", self._cluster.selector)
                there = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
                self.fewest = min(self.fewest, len(there))
                self.uids |= {pod["metadata"]["uid"] for pod in pods}
                self.looks += 1

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@contextmanager
def drained(kubectl: Kubectl, cluster: BrokerCluster, node: str) -> Iterator[subprocess.Popen[str]]:
    """``kubectl drain`` of the brokers on a node, which takes pods again at once: there is no other one here."""
    options = ["--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector={cluster.selector}"]
    drain = kubectl.start("drain", node, *options, f"--timeout={DONE_SECONDS_MAX}s")
    try:
        objects = Objects(kubectl.kubeconfig, kubectl.namespace)
        eventually(
            lambda: objects.there("node", node)["spec"].get("unschedulable"), seconds=360, what=f"{node} is cordoned"
        )
        kubectl("uncordon", node)
        yield drain
    finally:
        drain.terminate()
        drain.wait(180)
        kubectl("uncordon", node)


def uids(cluster: BrokerCluster) -> set[str]:
    """Of the brokers' pods."""
    return {pod["metadata"]["uid"] for pod in cluster.kubectl.objects.list("pod", cluster.selector)}


def roll(cluster: BrokerCluster, retention_hours: int) -> None:
    """Change a setting that every broker has to be started anew for."""
    cluster.kubectl.patch("mkc", cluster.name, {"spec": {"config": {"log.retention.hours": str(retention_hours)}}})


def wait_rolled(cluster: BrokerCluster) -> None:
    """Wait until the operator says that the roll is over."""
    cluster.wait_ready(DONE_SECONDS_MAX)
    eventually(
        lambda: condition(cluster.get(), "Progressing").get("reason"),
        lambda reason: reason == "Settled",
        seconds=DONE_SECONDS_MAX,
        what="the roll is over",
    )


def test_a_roll_under_load(journeys: BrokerCluster, tmp_path: Path) -> None:
    before = uids(journeys)
    with under_load(journeys.bootstrap, "rolled", tmp_path, assignment=PLACED) as load, Onlooker(journeys) as seen:
        began = time.monotonic()
        roll(journeys, 166)
        eventually(
            lambda: uids(journeys),
            lambda found: len(found) == len(PLACED) and not found & before,
            seconds=DONE_SECONDS_MAX,
            what="every pod was replaced",
        )
        wait_rolled(journeys)
        took = time.monotonic() - began
        load.wait_for_acknowledged(300, seconds=DONE_SECONDS_MAX)
    say(
        f"roll under load: {took:.0f} s, never fewer than {seen.fewest} of 3 brokers ready in {seen.looks} looks; "
        f"{load.must_have_passed().summary}"
    )
    assert seen.looks and seen.fewest >= 2


@pytest.mark.full
@pytest.mark.alone
def test_a_drain_and_a_roll_at_once(journeys: BrokerCluster, kubectl: Kubectl, tmp_path: Path) -> None:
    before = uids(journeys)
    (node,) = {pod["spec"]["nodeName"] for pod in journeys.kubectl.objects.list("pod", journeys.selector)}
    with under_load(journeys.bootstrap, "drained", tmp_path, assignment=PLACED) as load, Onlooker(journeys) as seen:
        roll(journeys, 167)
        with drained(kubectl, journeys, node) as drain:
            began = time.monotonic()
            said, _ = drain.communicate(timeout=DONE_SECONDS_MAX)
            assert drain.returncode == 0, said
        wait_rolled(journeys)
        took = time.monotonic() - began
        load.wait_for_acknowledged(300, seconds=DONE_SECONDS_MAX)
    say(
        f"drain and roll at once: {len(seen.uids) - 3} pods replaced in {took:.0f} s, never fewer than "
        f"{seen.fewest} of 3 brokers ready in {seen.looks} looks; {load.must_have_passed().summary}"
    )
    assert not before & uids(journeys), "every pod was replaced"
    assert seen.fewest >= 2
