"""Experiments in a row on one cluster: at no moment are two brokers out, and none is when an experiment has ended.

Five of them, or MINIKAFKA_E2E_ROUNDS times as many. Each kills a leader, and has all logs read at the end, so the kubelet waits
longer and longer before it starts a broker again; every third time the pods are replaced, which begins that anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.broker_cluster import CONTAINER, SMALL, BrokerCluster, is_ready
from tests.e2e.chaos_lab import A_LEADER_DIES, ENDED, Lab, conditions
from tests.e2e.kubectl import KubectlError, eventually
from tests.e2e.machine import say
from tests.e2e.node import Node
from tests.e2e.objects import Object, ObjectsError

pytestmark = pytest.mark.full

CLUSTER = "row"
ENDINGS = ("verdict", "verdict", "verdict", "runner", "delete") * int(os.environ.get("MINIKAFKA_E2E_ROUNDS", "1"))
"""How each ends: by itself; or in the middle of a fault, by a runner that is deleted by force, or by `kubectl delete mkx`."""
PODS_EVERY = 3
ONE_SECONDS_MAX = 2400
"""For one experiment: the kubelet waits up to five minutes with each of three brokers, at worst."""
LOOK_SECONDS = 0.3
QUIET_LOOKS = 30
"""So often it is looked after an end: a kubelet was seen to tell old things for a second."""
SPEC: dict[str, Any] = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "storage": {"size": "500Mi"},
    "unflushedVolume": {"sizeLimit": "64Mi"},
    "chaos": {"allowed": True},
}
KILL, BACK = A_LEADER_DIES["steps"][1], A_LEADER_DIES["steps"][3]
STORY: dict[str, Any] = {
    **A_LEADER_DIES,
    "clusterRef": {"name": CLUSTER},
    "steps": [
        *A_LEADER_DIES["steps"][:3],
        {**BACK, "fault": {**BACK["fault"], "deadlineSeconds": 600}},
        *A_LEADER_DIES["steps"][4:],
    ],
    "recovery": {"fullIsrDeadlineSeconds": 300},
}
LONG: dict[str, Any] = {
    **STORY,
    "steps": [
        A_LEADER_DIES["steps"][0],
        KILL,
        {"name": "for-long", "wait": {"conditions": [{"type": "Elapsed", "seconds": 900}], "deadlineSeconds": 1000}},
    ],
}


class Watch:
    """Looks at the pods and at the Lease all the time, and takes down what should not be."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._ready_once: set[tuple[str, int]] = set()
        """Containers that were seen ready, by their pod and number: one that is slow to answer its probe is not down."""
        self.wrong: list[str] = []
        self.looks = 0
        self.spared = threading.Event()
        """While the test itself replaces pods."""
        self._stopped = threading.Event()

    def out(self) -> list[str]:
        """The brokers whose container does not run, or has not been ready yet since it was started."""
        pods = self._cluster.kubectl.objects.list("pod", labels=self._cluster.selector)
        there = [each["metadata"]["name"] for each in pods if self._serves(each)]
        return sorted({self._cluster.pod_name(broker) for broker in range(3)} - set(there))

    def _serves(self, pod: Object) -> bool:
        statuses = pod["status"].get("containerStatuses") or ()
        broker = next((each for each in statuses if each["name"] == CONTAINER), None)
        if broker is None or "running" not in broker["state"]:
            return False
        container = (pod["metadata"]["uid"], broker["restartCount"])
        if is_ready(pod):
            self._ready_once.add(container)
        return container in self._ready_once

    def holder(self) -> str:
        """Who holds the Lease."""
        lease: Object = self._cluster.kubectl.objects.get("lease", f"{CLUSTER}-disruption") or {}
        return str(lease.get("spec", {}).get("holderIdentity") or "")

    def look(self) -> None:
        """Look once. Who takes the Lease takes a broker after that: under a Lease that is free before and after none is out."""
        spared = self.spared.is_set()
        before = self.holder()
        out = self.out()
        after = self.holder()
        self.looks += 1
        if spared or self.spared.is_set():
            return
        if len(out) > 1:
            self.wrong.append(f"{time.strftime('%X')}: out at once: {', '.join(out)} (Lease: {before or 'free'})")
        if out and not before and not after:
            self.wrong.append(f"{time.strftime('%X')}: {', '.join(out)} is out, and nobody holds the Lease")

    @contextmanager
    def on(self) -> Iterator[None]:
        """Look while the body runs."""

        def run() -> None:
            while not self._stopped.wait(LOOK_SECONDS):
                try:
                    self.look()
                except (KubectlError, ObjectsError) as error:
                    say(f"a look failed: {error}")

        thread = threading.Thread(target=run, name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(60)


def carried_through(lab: Lab, name: str, ending: str) -> Object:
    """Carry one experiment through; its status at the end, of a deleted one as it was last seen."""
    lab.apply(name, STORY if ending == "verdict" else LONG)
    if ending == "verdict":
        return lab.wait_for_end(name, seconds=ONE_SECONDS_MAX)[0]
    found = lab.wait_for(
        name,
        lambda seen: any(fault["state"] == "Injected" for fault in seen.get("faults") or ()),
        ONE_SECONDS_MAX,
        f"mkx/{name} has killed a broker",
    )
    if ending == "delete":
        lab.kubectl("delete", "mkx", name, f"--timeout={ONE_SECONDS_MAX}s", timeout=ONE_SECONDS_MAX + 10)
        return found
    lab.kubectl("delete", "job", f"{name}-run", "--cascade=orphan", "--wait=false")
    lab.kubectl("delete", "pod", found["runner"], "--force", "--grace-period=0")
    return lab.wait_for_end(name, seconds=ONE_SECONDS_MAX)[0]


@pytest.mark.timeout(len(ENDINGS) * ONE_SECONDS_MAX)
def test_no_broker_is_out_when_an_experiment_has_ended(lab: Lab, node: Node) -> None:
    cluster = BrokerCluster(lab.kubectl, node, CLUSTER)
    cluster.up(SPEC)
    watch = Watch(cluster)
    with watch.on():
        for number, ending in enumerate(ENDINGS, 1):
            name = f"row-{number}"
            began = time.monotonic()
            found = carried_through(lab, name, ending)
            assert watch.out() == [], f"{name} ({ending}) has ended: {found}"
            restarts = [cluster.restarts(broker) for broker in range(3)]
            for _ in range(QUIET_LOOKS):  # what the kubelet had not noticed yet would come now
                time.sleep(LOOK_SECONDS)
                assert watch.out() == [], f"a broker of which the kubelet had told old things after {name} ({ending})"
            assert restarts == [cluster.restarts(broker) for broker in range(3)], f"after {name} ({ending})"
            assert watch.holder() == ""
            if ending == "verdict":
                assert (found["phase"], found["verdict"], found["lost"]) == ("Completed", "Passed", 0), found
            if ending != "delete":
                assert found["phase"] in ENDED and conditions(found)["Healed"][:2] == ("True", "NoFaults"), found
            assert watch.wrong == [], f"during {name} ({ending})"
            say(f"{time.monotonic() - began:6.1f} s  {name} ({ending}); restarts so far: {restarts}")
            if number % PODS_EVERY == 0:
                new_pods(cluster, watch)
    events = lab.kubectl.objects.list(
        "event", fields=f"involvedObject.kind=MiniKafkaCluster,involvedObject.name={CLUSTER}"
    )
    alarms = [each for each in events if each["reason"] == "BrokerCrashing"]
    assert alarms == [], "while an experiment holds a broker, or it comes back, there is no alarm"
    assert watch.looks > len(ENDINGS)


def new_pods(cluster: BrokerCluster, watch: Watch) -> None:
    """Replace the pods one after the other: the kubelet counts the ends of a container by its pod."""
    watch.spared.set()
    for broker in range(3):
        before = cluster.kubectl.objects.there("pod", cluster.pod_name(broker))["metadata"]["uid"]
        cluster.kubectl.delete("pod", cluster.pod_name(broker))
        wait_new(cluster, broker, before)
    cluster.wait_ready(ONE_SECONDS_MAX)
    watch.spared.clear()


def wait_new(cluster: BrokerCluster, broker: int, before: str) -> None:
    """Wait until the broker is ready in another pod than the one with this uid."""
    eventually(
        lambda: cluster.pod(broker),
        lambda pod: is_ready(pod) and pod is not None and pod["metadata"]["uid"] != before,
        seconds=ONE_SECONDS_MAX,
        what=f"broker {broker} is ready in a new pod",
    )
