"""Faults of the network by `kubectl apply`, made by the agents of the chart `minikafka-chaos-network`.

The other scenarios of the library that need them: `make e2e ARGS='-k test_scenarios --scenarios zombie-leader'`.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from minikafka_chaos.scenario import library

from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.chaos_lab import Lab
from tests.e2e.kubectl import KubectlError
from tests.e2e.machine import say
from tests.e2e.network_agents import NetworkAgents
from tests.e2e.node import Node

pytestmark = pytest.mark.full

CUT_SECONDS = 120
SEEN_SECONDS_MAX = 110
BACK_SECONDS_MAX = 360
HEAL_SECONDS_MAX = 280
RUN_SECONDS_MAX = 900

RING = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "config": {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"},
    "storage": {"size": "500Mi"},
    "chaos": {"allowed": True},
    "listeners": {"external": {"type": "NodePort"}},
}
LEADER_CUT_OFF: dict[str, Any] = {
    "clusterRef": {"name": "ring"},
    "topics": [{"name": "bank", "partitions": 1, "replicationFactor": 3}],
    "workload": {"topic": "bank", "ratePerSecond": 50},
    "steps": [
        {"name": "warm-up", "wait": {"conditions": [{"type": "Acked", "atLeast": 20}], "deadlineSeconds": 120}},
        {"name": "cut", "fault": {"verb": "Cut", "target": {"type": "Leader", "topic": "bank"}}},
        {"name": "for-long", "wait": {"conditions": [{"type": "Elapsed", "seconds": 900}], "deadlineSeconds": 1000}},
    ],
    "claims": [{"name": "nothing-lost", "type": "NoAcknowledgedRecordLost"}],
}


@pytest.fixture(scope="module")
def ring(lab: Lab, node: Node) -> BrokerCluster:
    cluster = BrokerCluster(lab.kubectl, node, "ring")
    cluster.up(RING)
    return cluster


def test_a_leader_in_the_minority(lab: Lab) -> None:
    """The library's: it ends as the document says."""
    scenario = library.find("minority-partition", ["workload.acks=All"])
    found = lab.run({"minority": scenario.as_json()["spec"]}, at_once=1, seconds=RUN_SECONDS_MAX)["minority"]
    say(f"minority-partition with acks=All: {found.get('verdict')}: {found.get('summary')}")
    assert (found["phase"], found["verdict"], found["asExpected"]) == ("Completed", "Passed", "as expected"), found


def test_a_cut_ends_without_the_agent(network_agents: NetworkAgents, ring: BrokerCluster) -> None:
    """The agents are gone; the kernel ends what they made, at its time."""
    spec = {"clusterRef": {"name": "ring"}, "partitions": 1, "replicationFactor": 3}
    made = {"apiVersion": "minikafka.dev/v1alpha1", "kind": "MiniKafkaTopic", "metadata": {"name": "bell"}}
    ring.kubectl.apply({**made, "spec": spec})
    ring.kubectl("wait", "minikafkatopics/bell", "--for", "condition=Ready", "--timeout=280s")
    leader = ring.leader("bell")
    ring.wait_full_isr("bell")
    others = [word for broker in range(3) if broker != leader for word in ("--peer", ring.pod_name(broker))]
    pod = ring.kubectl.objects.there("pod", ring.pod_name(leader))
    began = time.monotonic()
    network_agents.ask("cut", pod, "--id", "alone", "--seconds", str(CUT_SECONDS), *others)
    with network_agents.away():
        ring.leader("bell", other_than=leader, seconds=SEEN_SECONDS_MAX)
        assert time.monotonic() - began < CUT_SECONDS, "the cut was seen while it lasted"
        ring.wait_full_isr("bell", BACK_SECONDS_MAX)
        took = time.monotonic() - began
        say(f"{took:6.1f} s  a cut of {CUT_SECONDS} s until full ISR, with no agent there")
        assert took >= CUT_SECONDS, "not before its time"
    found = network_agents.ask("state", pod)
    assert found == {"gone": False, "faults": []}


def test_deleting_heals(lab: Lab, network_agents: NetworkAgents, ring: BrokerCluster) -> None:
    lab.apply("cut-off", LEADER_CUT_OFF)
    found = lab.wait_for(
        "cut-off",
        lambda seen: any(fault["state"] == "Injected" for fault in seen.get("faults") or ()),
        BACK_SECONDS_MAX,
        "a broker is cut off",
    )
    fault = found["faults"][0]
    pod = ring.kubectl.objects.there("pod", ring.pod_name(fault["broker"]))
    assert [each["verb"] for each in network_agents.ask("state", pod)["faults"]] == ["cut"]
    began = time.monotonic()
    lab.kubectl("delete", "mkx", "cut-off", f"--timeout={HEAL_SECONDS_MAX}s")
    say(f"{time.monotonic() - began:6.1f} s  kubectl delete mkx until it was gone, its cut undone")
    assert network_agents.ask("state", pod)["faults"] == []
    ring.wait_ready(BACK_SECONDS_MAX)


def test_a_pod_that_was_replaced(network_agents: NetworkAgents, ring: BrokerCluster) -> None:
    """Nothing of a fault is left in it, and the agent says so of the one that is gone."""
    pod = ring.kubectl.objects.there("pod", ring.pod_name(0))
    network_agents.ask("cut", pod, "--id", "replaced", "--seconds", "600", "--peer", ring.pod_name(1))
    ring.delete_pod(0)
    ring.wait_broker_ready(0, BACK_SECONDS_MAX)
    assert network_agents.ask("recover", pod) == {"recovered": [], "gone": True}
    new = ring.kubectl.objects.there("pod", ring.pod_name(0))
    assert network_agents.ask("state", new) == {"gone": False, "faults": []}


def test_what_may_not_be_touched(lab: Lab, network_agents: NetworkAgents, node: Node) -> None:
    """The agent looks for itself; and nobody may run anything else in it."""
    closed = BrokerCluster(lab.kubectl, node, "closed")
    alone = {
        "brokers": {"replicas": 1, "resources": SMALL},
        "replication": {"defaultFactor": 1, "minInsyncReplicas": 1},
    }
    closed.up({**RING, **alone, "chaos": {"allowed": False}})
    pod = lab.kubectl.objects.there("pod", closed.pod_name(0))
    with pytest.raises(KubectlError, match=r"exit code 2"):
        network_agents.ask("cut", pod, "--id", "no", "--seconds", "60", "--clients")
    (agent,) = network_agents.pods()
    with pytest.raises(KubectlError, match="only its own verbs may be run"):
        network_agents.kubectl("exec", agent, "-c", "network-agent", "--", "id")
