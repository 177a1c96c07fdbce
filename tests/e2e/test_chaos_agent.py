"""The chaos agent in brokers' pods: faults by `kubectl exec`, in a namespace with the restricted Pod Security Standard.

No test needs the node, and none deletes a pod. Each breaks another broker, for a kubelet waits longer before each restart of
the same container.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.record.observe import ReplicaStatus
from minikafka_chaos.verdict.verdict import Outcome

from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.kubectl import Kubectl, KubectlError, eventually
from tests.e2e.load import Scripted
from tests.e2e.machine import say
from tests.e2e.node import Node
from tests.e2e.objects import Object

pytestmark = pytest.mark.full

AGENT = "chaos-agent"
HEAL_SECONDS_MAX = 480
FAR = 600
NEAR = 12
SPEC = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "storage": {"size": "500Mi"},
    "unflushedVolume": {"sizeLimit": "64Mi"},
    "chaos": {"allowed": True},
    "listeners": {"external": {"type": "NodePort"}},
}


@pytest.fixture(scope="module")
def cluster(operator: Kubectl, module_namespace: Kubectl, node: Node) -> BrokerCluster:
    made = BrokerCluster(module_namespace, node, "fragile")
    made.up(SPEC)
    return made


def ask(cluster: BrokerCluster, broker: int, *arguments: object) -> dict[str, Any]:
    """What the agent of a broker answers to one verb. Raises KubectlError when the verb was not done."""
    command = ["minikafka", "agent", *map(str, arguments)]
    found: dict[str, Any] = json.loads(
        cluster.kubectl("exec", cluster.pod_name(broker), "--container", AGENT, "--", *command)
    )
    return found


def broker_container(cluster: BrokerCluster, broker: int) -> Object:
    statuses = (cluster.pod(broker) or {}).get("status", {}).get("containerStatuses") or []
    return next((each for each in statuses if each["name"] == "broker"), {})


def wait_at_gate(cluster: BrokerCluster, broker: int, restarts: int) -> None:
    """The kubelet has started the broker again, and it is not ready."""
    eventually(
        lambda: broker_container(cluster, broker),
        lambda found: found.get("restartCount") == restarts and "running" in found["state"] and not found["ready"],
        seconds=HEAL_SECONDS_MAX,
        what=f"broker {broker} was started again and waits",
    )


def healed(cluster: BrokerCluster, broker: int, topic: str) -> None:
    cluster.wait_broker_ready(broker, HEAL_SECONDS_MAX)
    cluster.wait_full_isr(topic, HEAL_SECONDS_MAX)


def pod_uid(cluster: BrokerCluster, broker: int) -> str:
    return str(cluster.kubectl.objects.there("pod", cluster.pod_name(broker))["metadata"]["uid"])


def test_killed_and_held_until_released(cluster: BrokerCluster, tmp_path: Path) -> None:
    """The kubelet starts the container again at once; the broker stays away all the same."""
    records = Scripted(cluster.bootstrap, TopicPlan("held", assignment=[[0, 1, 2]]), tmp_path)
    records.send(10)
    uid = pod_uid(cluster, 0)
    assert ask(cluster, 0, "kill", "--id", "h1", "--seconds", FAR)["stage"] == "active"
    wait_at_gate(cluster, 0, restarts=1)
    assert cluster.leader("held", other_than=0) in (1, 2)
    records.send(10)
    state = ask(cluster, 0, "state")
    assert (state["condition"], [fault["id"] for fault in state["faults"]]) == ("held", ["h1"])
    assert not broker_container(cluster, 0)["started"], "its probes have found nobody"

    assert ask(cluster, 0, "release", "--id", "h1") == {"recovered": ["h1"]}
    healed(cluster, 0, "held")
    assert broker_container(cluster, 0)["restartCount"] == 1, "the broker that waited is the one that serves"
    assert pod_uid(cluster, 0) == uid
    verdict = records.verdict()
    assert verdict.outcome is Outcome.PASSED, verdict.as_json()


def test_the_fault_ends_with_nobody_to_end_it(cluster: BrokerCluster, tmp_path: Path) -> None:
    records = Scripted(cluster.bootstrap, TopicPlan("left-alone", assignment=[[1, 2, 0]]), tmp_path)
    records.send(5)
    before = cluster.restarts(1)
    until = ask(cluster, 1, "kill", "--id", "e1", "--seconds", NEAR)["until"]
    cluster.wait_restarted(1, before, HEAL_SECONDS_MAX)
    healed(cluster, 1, "left-alone")
    state = ask(cluster, 1, "state")
    assert state["now"] >= until
    assert (state["condition"], state["faults"]) == ("running", [])


def test_a_power_loss_takes_exactly_the_unflushed_tail(cluster: BrokerCluster, tmp_path: Path) -> None:
    where, follower = TopicPartition("robbed", 0), 2
    records = Scripted(cluster.bootstrap, TopicPlan(where.topic, assignment=[[0, 1, follower]]), tmp_path)

    def follows(end: int) -> ReplicaStatus:
        healed(cluster, follower, where.topic)
        return eventually(
            lambda: cluster.replica(follower, where),
            lambda found: found.log_end_offset == end,
            seconds=HEAL_SECONDS_MAX,
            what=f"the log end offset of broker {follower} is {end}",
        )

    records.send(100)
    follows(100)
    uid = pod_uid(cluster, follower)
    ask(cluster, follower, "terminate", "--id", "flush", "--seconds", FAR)  # who is told to stop flushes
    ask(cluster, follower, "release")
    follows(100)
    records.send(50)
    assert follows(150).flushed_offset == 100

    ask(cluster, follower, "kill", "--id", "power", "--seconds", FAR)
    with pytest.raises(KubectlError, match="exit code 3"):
        ask(cluster, 0, "wipe-unflushed", "--id", "power")
    wiped = ask(cluster, follower, "wipe-unflushed", "--id", "loss")
    assert wiped["lost_bytes"] > 0
    repeated = ask(cluster, follower, "wipe-unflushed", "--id", "loss")
    assert (repeated["repeated"], repeated["lost_bytes"]) == (True, wiped["lost_bytes"])
    ask(cluster, follower, "release")
    follows(150)
    assert pod_uid(cluster, follower) == uid, "no pod was deleted"

    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(ask(cluster, follower, "events")["tar"]))) as tar:
        member = tar.extractfile(f"broker-{follower}.jsonl")
        assert member is not None
        events = [json.loads(line) for line in member.read().splitlines() if line.endswith(b"}")]
    opened = [each["fields"] for each in events if each["event"] == "log_recovered" and each["topic"] == where.topic]
    assert [(each["clean"], each["log_end_offset"]) for each in opened] == [(True, 100), (False, 100)]
    verdict = records.verdict()
    assert verdict.outcome is Outcome.PASSED, verdict.as_json()
    say(
        f"power loss without deleting the pod: offsets 100 to 149 of one replica, which has them again; {verdict.summary}"
    )


def test_paused_and_resumed(cluster: BrokerCluster) -> None:
    restarts = cluster.restarts(0)
    ask(cluster, 0, "pause", "--id", "p1", "--seconds", 45)
    assert ask(cluster, 0, "state")["condition"] == "paused"
    assert ask(cluster, 0, "resume") == {"recovered": ["p1"]}
    assert ask(cluster, 0, "state")["condition"] == "running"
    with pytest.raises(KubectlError, match="exit code 2"):
        ask(cluster, 0, "pause", "--id", "p2", "--seconds", 90)
    cluster.wait_ready(HEAL_SECONDS_MAX)
    assert cluster.restarts(0) == restarts


def test_who_is_not_asked_for_is_not_there(broker_cluster: Any) -> None:
    """`spec.chaos.allowed` switched on rolls the pods, and without it there is nobody to talk to."""
    plain = broker_cluster("plain")
    spec = {**SPEC, "brokers": {"replicas": 1, "resources": SMALL}, "chaos": {"allowed": False}}
    spec["replication"] = {"defaultFactor": 1, "minInsyncReplicas": 1}
    plain.up(spec)
    with pytest.raises(KubectlError, match=AGENT):
        ask(plain, 0, "state")
    uid = pod_uid(plain, 0)
    plain.kubectl.apply(plain.manifest({**spec, "chaos": {"allowed": True}}))
    eventually(
        lambda: plain.pod(0),
        lambda found: found is not None and found["metadata"]["uid"] != uid and plain.is_ready(0),
        seconds=HEAL_SECONDS_MAX,
        what="the pod was replaced",
    )
    assert ask(plain, 0, "state")["condition"] == "running"
