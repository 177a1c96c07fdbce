"""Chaos by kubectl alone: experiments are applied, and their verdicts read; deleting one heals the cluster within seconds.

The namespace has the restricted Pod Security Standard, and the controller rights in it and nowhere else.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.chaos_lab import ROOT, Lab
from tests.e2e.kubectl import KubectlError, condition, eventually
from tests.e2e.machine import say
from tests.e2e.node import Node
from tests.e2e.objects import Object

pytestmark = pytest.mark.full

SCENARIOS = ROOT / "chaos/scenarios"
HEAL_SECONDS_MAX = 280
SEEN_SECONDS_MAX = 360
BACK_SECONDS_MAX = 120
SCHEDULE_SECONDS_MAX = 1200

SHARED = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "storage": {"size": "500Mi"},
    "unflushedVolume": {"sizeLimit": "64Mi"},
    "chaos": {"allowed": True},
    "listeners": {"external": {"type": "NodePort"}},
}
BANK = {
    "clusterRef": {"name": "shared"},
    "topics": [{"name": "bank", "partitions": 1, "replicationFactor": 3}],
    "workload": {"topic": "bank", "ratePerSecond": 50},
}
WARM_UP = {"name": "warm-up", "wait": {"conditions": [{"type": "Acked", "atLeast": 20}], "deadlineSeconds": 120}}
KILL = {"name": "kill", "fault": {"verb": "Kill", "target": {"type": "Leader", "topic": "bank"}}}
LONG: dict[str, Any] = {
    **BANK,
    "steps": [
        WARM_UP,
        KILL,
        {"name": "for-long", "wait": {"conditions": [{"type": "Elapsed", "seconds": 900}], "deadlineSeconds": 1000}},
    ],
}
POWER_LOSS: dict[str, Any] = {
    **BANK,
    "steps": [
        WARM_UP,
        {"name": "dark", "fault": {"verb": "PowerLoss", "target": {"type": "Leader", "topic": "bank"}}},
        {
            "name": "others-go-on",  # for long enough that the cluster's status can be seen to tell of it
            "wait": {
                "conditions": [{"type": "Acked", "since": "dark", "atLeast": 50}, {"type": "Elapsed", "seconds": 15}],
                "deadlineSeconds": 180,
            },
        },
        {
            "name": "light",
            "fault": {
                "verb": "Start",
                "target": {"type": "SameAs", "step": "dark"},
                "deadlineSeconds": BACK_SECONDS_MAX,
            },
        },
    ],
    "claims": [
        {"name": "nothing-lost", "type": "NoAcknowledgedRecordLost"},
        {"name": "replicas-agree", "type": "NoDivergence"},
    ],
    "recovery": {"fullIsrDeadlineSeconds": BACK_SECONDS_MAX},
}
BRIEF: dict[str, Any] = {
    "cluster": {"brokers": 1, "config": [{"name": "min.insync.replicas", "value": "1"}]},
    "topics": [{"name": "bank", "replicationFactor": 1}],
    "workload": {"topic": "bank", "mode": "Scripted", "tailReaders": "None"},
    "steps": [
        {"name": "before", "send": {"topic": "bank", "values": ["a", "b"]}},
        {"name": "kill", "fault": {"verb": "Kill", "target": {"type": "Brokers", "brokers": [0]}}},
        {
            "name": "back",
            "fault": {"verb": "Start", "target": {"type": "SameAs", "step": "kill"}, "deadlineSeconds": 120},
        },
        {"name": "after", "send": {"topic": "bank", "values": ["c"], "deadlineSeconds": 60}},
    ],
}


@pytest.fixture(scope="module")
def shared(lab: Lab, node: Node) -> BrokerCluster:
    """A cluster that experiments refer to."""
    cluster = BrokerCluster(lab.kubectl, node, "shared")
    cluster.up(SHARED)
    return cluster


def test_the_demo_passes(lab: Lab) -> None:
    began = time.monotonic()
    lab.kubectl("apply", "--filename", str(SCENARIOS / "demo.yaml"))
    (found,) = lab.wait_for_end("demo")
    say(f"{time.monotonic() - began:6.1f} s  kubectl apply of the demo to its verdict")
    told = lab.wait_reported("demo", found["phase"])
    assert (found["phase"], found["verdict"], found["lost"]) == ("Completed", "Passed", 0), told
    assert found["acknowledged"] > 1500 and found["faultNow"] == ""
    assert [(fault["verb"], fault["state"]) for fault in found["faults"]] == [
        ("Kill", "Recovered"),
        ("PowerLoss", "Recovered"),
    ]
    order = [told.index(f" {word} ") for word in ("Started", "FaultInjected", "FaultRecovered", "Completed")]
    assert order == sorted(order), f"the Events are not in the order of time:\n{told}"
    eventually(  # the write after the one that says Completed
        lambda: lab.kubectl.objects.there("mkx", "demo")["metadata"].get("finalizers") or [],
        lambda finalizers: "minikafka.dev/chaos" not in finalizers,
        seconds=SEEN_SECONDS_MAX,
        what="the experiment that is over has no finalizer of chaos",
    )
    lab.must_be_gone(found["cluster"])


def test_a_story_on_a_cluster_that_is_there(lab: Lab, shared: BrokerCluster) -> None:
    """To its end: the leader loses power and what it had not flushed; the logs of all replicas are read; the cluster is whole."""
    name = "on-shared"
    lab.apply(name, POWER_LOSS)
    found = lab.wait_for(
        name, lambda seen: seen.get("faultNow", "").startswith("PowerLoss"), SEEN_SECONDS_MAX, "a broker is out"
    )
    broker = int(found["faults"][0]["broker"])
    ready = eventually(
        lambda: condition(shared.get(), "Ready"),
        lambda seen: seen.get("reason") == "FaultInjected",
        seconds=SEEN_SECONDS_MAX,
        what="the cluster's status says that chaos holds a broker",
    )
    assert f"{shared.pod_name(broker)}: PowerLoss by experiment {name} (step dark), which ends at " in ready["message"]
    (found,) = lab.wait_for_end(name)
    told = lab.wait_reported(name, found["phase"])
    assert (found["phase"], found["verdict"], found["lost"]) == ("Completed", "Passed", 0), told
    assert found["acknowledged"] >= 70 and found["cluster"] == "shared"
    steps = [(fault["step"], fault["verb"], fault["state"]) for fault in found["faults"]]
    assert steps == [("dark", "PowerLoss", "Recovered"), *[("collect-logs", "Terminate", "Recovered")] * 3]
    shared.wait_ready(BACK_SECONDS_MAX)
    assert shared.kubectl.objects.there("lease", "shared-disruption")["spec"].get("holderIdentity", "") == ""
    assert "bank" not in _topics(shared), "the topics of the story are gone"
    (topic,) = found["topics"]
    assert (topic["name"], topic["state"]) == ("bank", "Removed") and topic["topicId"]
    assert ("TopicsRemoved", "topics of the experiment: bank") in lab.events(name)
    alarms = [each for each in _events_about(lab, "shared") if each["type"] == "Warning"]
    assert not [each for each in alarms if each["reason"] in ("BrokerCrashing", "FaultInjected")], alarms


def _topics(cluster: BrokerCluster) -> dict[str, str]:
    """Names and ids of the topics that the brokers show."""
    found = [each.get("status") or {} for each in cluster.kubectl.objects.list("mkt")]
    return {each["topicName"]: each["topicId"] for each in found if "topicName" in each}


def test_a_runner_that_is_deleted_by_force(lab: Lab, shared: BrokerCluster) -> None:
    """Its pod is gone at once and told nothing; the topic that it made goes, and another of somebody else's stays."""
    name = "by-force"
    shared.kubectl.apply(
        {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaTopic",
            "metadata": {"name": "others"},
            "spec": {"clusterRef": {"name": "shared"}, "partitions": 1},
        }
    )
    lab.apply(name, LONG)
    found = lab.wait_for(name, lambda seen: seen.get("faultNow"), SEEN_SECONDS_MAX, "a broker is killed")
    assert [(each["name"], each["state"]) for each in found["topics"]] == [("bank", "Made")]
    there = eventually(
        lambda: _topics(shared),
        lambda seen: {"bank", "others"} <= set(seen),
        seconds=SEEN_SECONDS_MAX,
        what="both topics",
    )
    assert there["bank"] == found["topics"][0]["topicId"]
    lab.kubectl("delete", "job", f"{name}-run", "--cascade=orphan", "--wait=false")
    lab.kubectl("delete", "pod", found["runner"], "--force", "--grace-period=0")
    (found,) = lab.wait_for_end(name)
    assert (found["phase"], [each["state"] for each in found["topics"]]) == ("Error", ["Removed"]), found
    left = _topics(shared)
    assert "bank" not in left and left["others"] == there["others"]
    shared.wait_ready(BACK_SECONDS_MAX)


def _events_about(lab: Lab, cluster: str) -> list[Object]:
    fields = f"involvedObject.kind=MiniKafkaCluster,involvedObject.name={cluster}"
    return lab.kubectl.objects.list("event", fields=fields)


def test_deleting_heals(lab: Lab, shared: BrokerCluster) -> None:
    lab.apply("long", LONG)
    found = lab.wait_for(
        "long",
        lambda seen: any(fault["state"] == "Injected" for fault in seen.get("faults") or ()),
        SEEN_SECONDS_MAX,
        "a broker is killed",
    )
    broker = int(found["faults"][0]["broker"])
    assert found["faultNow"] == f"Kill broker {broker}"
    with pytest.raises(KubectlError, match=r"spec cannot be changed|denied"):
        lab.kubectl.patch("mkx", "long", {"spec": {"seed": 7}})
    lab.apply("second", LONG)
    lab.wait_for(
        "second",
        lambda seen: seen.get("phase") == "Refused" and "ClusterBusy" in str(seen["conditions"]),
        SEEN_SECONDS_MAX,
        "a second experiment is refused",
    )
    began = time.monotonic()
    lab.kubectl("delete", "mkx", "long", f"--timeout={HEAL_SECONDS_MAX}s")
    took = time.monotonic() - began
    state = lab.kubectl(
        "exec", shared.pod_name(broker), "--container", "chaos-agent", "--", "minikafka", "agent", "state"
    )
    say(f"{took:6.1f} s  kubectl delete mkx until it was gone, its fault undone")
    assert '"faults": []' in state or '"faults":[]' in state or '"faults": {}' in state, state
    shared.wait_broker_ready(broker, BACK_SECONDS_MAX)
    assert shared.kubectl.objects.there("lease", "shared-disruption")["spec"].get("holderIdentity", "") == ""


def test_a_schedule_goes_on_by_itself(lab: Lab) -> None:
    """Three experiments one after the other, each on a cluster of its own, and nobody touches anything; two are kept."""
    schedule = {
        "interval": {"seconds": 10},
        "startingDeadlineSeconds": 60,
        "successfulHistoryLimit": 2,
        "failedHistoryLimit": 2,
        "templates": [{"name": "brief", "spec": BRIEF}],
    }
    lab.apply("often", schedule, "ChaosSchedule")
    seen: dict[str, Object] = {}

    def look() -> list[str]:
        """The experiments that have ended so far, in the order in which they were made."""
        for each in lab.kubectl.objects.list("mkx", labels="minikafka.dev/schedule=often"):
            seen[each["metadata"]["name"]] = each.get("status") or {}
        return sorted(name for name, status in seen.items() if status.get("phase") == "Completed")

    ended = eventually(
        look, lambda found: len(found) >= 3, seconds=SCHEDULE_SECONDS_MAX, what="three experiments have ended"
    )
    lab.kubectl.patch("mkxs", "often", {"spec": {"suspend": True}})
    assert [seen[name]["verdict"] for name in ended[:3]] == ["Passed"] * 3, seen
    times = [(seen[name]["startedAt"], seen[name]["endedAt"]) for name in ended[:3]]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times)), "one at a time"

    def kept() -> list[str]:
        found = lab.kubectl.objects.list("mkx", labels="minikafka.dev/schedule=often")
        going = [each for each in found if (each.get("status") or {}).get("phase") != "Completed"]
        return [] if going else sorted(each["metadata"]["name"] for each in found)

    found = eventually(
        kept, lambda names: len(names) == 2, seconds=SCHEDULE_SECONDS_MAX, what="two of them are kept, none goes on"
    )
    assert ended[0] not in found, "the oldest goes first"
    status = eventually(
        lambda: lab.kubectl.objects.there("mkxs", "often")["status"],
        lambda status: status["active"] == "",
        seconds=SEEN_SECONDS_MAX,
        what="the schedule says that none of its experiments goes on",
    )
    assert status["made"] >= 3 and status["lastVerdict"] == "Passed"
    say(lab.kubectl("get", "mkxs"))
    assert "Forbid" in str(status.get("lastMissed")), "times that came while one went on are told"
