"""What keeps brokers from being ready is told with a reason and a steady sentence."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from minikafka.agent.gate import GateHold, wait_at_gate
from minikafka_kube.observed import Warned

from .world import World, settled, stamp

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


def stuck(**status: Any) -> World:
    """A cluster whose broker 1 has this status."""
    world = settled()
    world.pods["demo-broker-1"]["status"] = status
    return world


def not_ready(world: World) -> tuple[str, str]:
    world.step()
    status, reason, message = world.condition("Ready")
    assert status == "False"
    return reason, message


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "broker", "restartCount": 2, **state}]


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        (
            {"conditions": [UNSCHEDULABLE]},
            "Unschedulable",
            "demo-broker-1: 0/3 nodes are available: 3 Insufficient cpu.",
        ),
        (
            {"containerStatuses": container(state={"waiting": {"reason": "ErrImagePull", "message": "not found"}})},
            "ImagePullFailed",
            "demo-broker-1: image minikafka/broker:1: cannot be pulled",
        ),
        (
            {
                "containerStatuses": container(
                    state={"waiting": {"reason": "CreateContainerConfigError", "message": "no"}}
                )
            },
            "ContainerNotCreated",
            "demo-broker-1: CreateContainerConfigError: no",
        ),
        (
            {
                "containerStatuses": container(
                    state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                    lastState={
                        "terminated": {"reason": "Error", "message": "a\nminikafka broker: log.dirs: no space\n"}
                    },
                )
            },
            "BrokerCrashing",
            "demo-broker-1: a; minikafka broker: log.dirs: no space",
        ),
        (
            {
                "containerStatuses": container(
                    state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": {"reason": "OOMKilled"}}
                )
            },
            "OutOfMemory",
            "demo-broker-1: used more memory than spec.brokers.resources allows",
        ),
        (
            {"containerStatuses": container(state={"running": {}})},
            "BrokersNotReady",
            "demo-broker-1: runs, and is not ready; its /readyz, /healthz and log tell why",
        ),
        (
            {"containerStatuses": [{"name": "broker", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
            "BrokersNotReady",
            "2 of 3 brokers are ready",
        ),
    ],
)
def test_pods(status: dict[str, Any], reason: str, says: str) -> None:
    world = stuck(**status)
    found = not_ready(world)
    assert found[0] == reason
    assert found[1].removeprefix("2 of 3 brokers are ready; ") == says
    assert world.plan().steady, "told once"
    if reason != "BrokersNotReady":
        assert world.status["brokers"][1]["message"] == says
        assert reason in world.events


def test_the_words_do_not_change_with_every_attempt() -> None:
    """ErrImagePull and ImagePullBackOff take turns; the status must not."""
    world = stuck(containerStatuses=container(state={"waiting": {"reason": "ErrImagePull", "message": "rpc error"}}))
    world.step()
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling"}}
    world.pods["demo-broker-1"]["status"] = {"containerStatuses": container(state=waiting)}
    assert world.plan().steady


def test_the_event_tells_why_an_image_cannot_be_pulled() -> None:
    world = stuck(containerStatuses=container(state={"waiting": {"reason": "ErrImagePull"}}))
    message = 'Failed to pull image "x": rpc error: code = NotFound'
    world.warnings = [
        Warned("Pod", "demo-broker-1", "Failed", message),
        Warned("Pod", "demo-broker-0", "Failed", "other"),
    ]
    assert not_ready(world) == (
        "ImagePullFailed",
        f"2 of 3 brokers are ready; demo-broker-1: image minikafka/broker:1: {message}",
    )


class TestStorage:
    def pending(self, **spec: Any) -> World:
        world = stuck(conditions=[UNSCHEDULABLE])
        claim = world.data_claim(1)
        claim["status"] = {"phase": "Pending"}
        claim["spec"] = {"storageClassName": "fast", **claim["spec"], **spec}
        return world

    def test_a_class_that_is_not_there(self) -> None:
        world = self.pending(storageClassName="fast")
        world.missing_classes = frozenset({"fast"})
        assert not_ready(world) == (
            "StorageClassNotFound",
            "2 of 3 brokers are ready; data-demo-broker-1: there is no StorageClass 'fast'",
        )

    def test_told_by_the_claim_where_classes_may_not_be_read(self) -> None:
        world = self.pending()
        said = 'storageclass.storage.k8s.io "fast" not found'
        world.warnings = [Warned("PersistentVolumeClaim", "data-demo-broker-1", "ProvisioningFailed", said)]
        assert not_ready(world)[0] == "StorageClassNotFound"

    def test_what_the_provisioner_says(self) -> None:
        world = self.pending()
        world.warnings = [Warned("PersistentVolumeClaim", "data-demo-broker-1", "ProvisioningFailed", "quota")]
        assert not_ready(world) == ("ClaimPending", "2 of 3 brokers are ready; data-demo-broker-1: quota")

    def test_no_default_class(self) -> None:
        world = self.pending()
        del world.data_claim(1)["spec"]["storageClassName"]
        assert not_ready(world)[0] == "ClaimPending"
        assert "no StorageClass is the default" in not_ready(world)[1]

    def test_a_claim_that_waits_for_its_pod_is_not_the_cause(self) -> None:
        """WaitForFirstConsumer: the claim is pending because the pod is, not the other way round."""
        assert not_ready(self.pending())[0] == "Unschedulable"

    def test_one_that_should_have_a_volume_before_its_pod_has_a_node(self) -> None:
        """A class that binds at once, whose provisioner is not there: no node is at fault."""
        world = self.pending()
        message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        world.pods["demo-broker-1"]["status"] = {"conditions": [{**UNSCHEDULABLE, "message": message}]}
        assert not_ready(world)[0] == "BrokersNotReady"
        world.wait(60)
        says = "2 of 3 brokers are ready; data-demo-broker-1: no volume of StorageClass 'standard' yet"
        assert not_ready(world) == ("ClaimPending", says)

    def test_a_provisioner_that_says_nothing(self) -> None:
        world = self.pending()
        world.pods["demo-broker-1"]["status"] = {}
        assert not_ready(world)[0] == "BrokersNotReady"
        world.wait(60)
        assert not_ready(world) == (
            "ClaimPending",
            "2 of 3 brokers are ready; data-demo-broker-1: no volume of StorageClass 'standard' yet",
        )


def test_a_pod_that_is_not_even_made() -> None:
    """Quotas and Pod Security speak to the StatefulSet."""
    world = World()
    for _ in range(3):
        world.step()
    message = 'create Pod demo-broker-0 in StatefulSet demo-broker failed error: pods "demo-broker-0": exceeded quota'
    world.warnings = [Warned("StatefulSet", "demo-broker", "FailedCreate", message)]
    reason, said = not_ready(world)
    assert reason == "PodNotCreated"
    assert "exceeded quota" in said


def test_the_cause_comes_first() -> None:
    world = settled()
    world.pods["demo-broker-0"]["status"] = {"conditions": [UNSCHEDULABLE]}
    world.pods["demo-broker-2"]["status"] = {
        "containerStatuses": container(state={"waiting": {"reason": "ErrImagePull"}})
    }
    reason, message = not_ready(world)
    assert reason == "ImagePullFailed"
    assert message.startswith("1 of 3 brokers is ready; demo-broker-2: image")
    assert message.endswith(" (and 1 more, see status.brokers)")
    assert world.status["brokers"][0]["message"].startswith("demo-broker-0: 0/3 nodes")


class TestPartitions:
    def test_counts(self) -> None:
        world = settled()
        world.topic("bank", ([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [0, 1]), ([0, 1, 2], [0]))
        world.step()
        assert (world.status["topics"], world.status["partitions"]) == (1, 3)
        assert world.status["underReplicatedPartitions"] == 2
        assert world.status["underMinIsrPartitions"] == 1
        assert world.status["offlinePartitions"] == 0
        assert world.condition("ReplicationHealthy") == (
            "False",
            "UnderReplicated",
            "2 of 3 partitions have replicas that are not in sync: bank-1, bank-2",
        )
        assert world.condition("Available")[:2] == ("False", "PartitionsUnderMinIsr")
        assert world.condition("Ready")[:2] == ("False", "PartitionsUnderMinIsr")

    def test_offline(self) -> None:
        world = settled()
        world.topic("bank", ([0, 1, 2], [2]), leader=-1)
        world.step()
        assert world.condition("Available") == ("False", "PartitionsOffline", "1 of 1 partitions has no leader: bank-0")
        assert "PartitionsOffline" in world.events

    def test_a_topic_that_is_meant_to_have_one_replica(self) -> None:
        world = settled()
        world.topic("single", ([1], [1]))
        world.step()
        assert world.condition("Available")[0] == "True"
        assert world.status["underMinIsrPartitions"] == 0

    def test_a_topic_that_brokers_have_not_seen_yet(self) -> None:
        world = settled()
        world.topic("new")
        assert world.plan().steady


KILLED = {"containerStatuses": container(state={"running": {}}, lastState={"terminated": {"reason": "Error"}})}
ENDS = "2026-01-01T12:30:00Z"


def held(world: World, **fault: Any) -> None:
    """An experiment has killed broker 1."""
    uid = world.pods["demo-broker-1"]["metadata"]["uid"]
    not_ready = {
        "verb": "Kill",
        "step": "kill",
        "state": "Injected",
        "podUid": uid,
        "broker": 1,
        "expiresAt": ENDS,
        **fault,
    }
    world.experiment = {"metadata": {"name": "try", "uid": "x"}, "status": {"faults": [not_ready]}}


class TestFaultsOfAnExperiment:
    """A broker that chaos holds has no trouble of its own, and nobody is alarmed."""

    def test_it_is_told_and_is_no_warning(self) -> None:
        world = stuck(**KILLED)
        held(world)
        made = world.plan()
        said = f"demo-broker-1: Kill by experiment try (step kill), which ends at {ENDS} at the latest"
        assert not_ready(world) == ("FaultInjected", f"2 of 3 brokers are ready; {said}")
        assert world.status["brokers"][1]["message"] == said
        assert [(event.reason, event.warning) for event in made.events if event.reason == "FaultInjected"] == [
            ("FaultInjected", False)
        ]
        assert world.plan().steady

    def test_without_an_experiment_it_crashes(self) -> None:
        assert not_ready(stuck(**KILLED))[0] == "BrokerCrashing"

    def test_a_fault_of_another_pod_explains_nothing(self) -> None:
        world = stuck(**KILLED)
        held(world, podUid="of-the-pod-before")
        assert not_ready(world)[0] == "BrokerCrashing"

    @pytest.mark.parametrize(
        ("more", "says"),
        [("", "ended (Error)"), ("a\nlog.dirs: no space\n", "a; log.dirs: no space")],
        ids=["nothing else", "its last words"],
    )
    def test_the_gate_of_a_fault_that_is_over_is_not_quoted(self, more: str, says: str) -> None:
        """Killed once more after it had waited at a gate: the end of its log, which Kubernetes keeps, is of that gate."""
        gate = Path(__file__).with_name("gate.json")
        lines: list[str] = []
        until = [GateHold(time.time() + 60, "f1", "kill"), None]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("minikafka.agent.gate.read_gate", lambda _: until.pop(0))
            assert wait_at_gate(gate, lines.append)
        assert len(lines) == 2 and "holds until" in lines[0]
        ended = {"terminated": {"reason": "Error", "message": more + "\n".join(lines)}}
        world = stuck(containerStatuses=container(state={"running": {}}, lastState=ended))
        assert not_ready(world) == ("BrokerCrashing", f"2 of 3 brokers are ready; demo-broker-1: {says}")

    def test_paused(self) -> None:
        """Nothing has ended: its probes find nobody."""
        world = stuck(containerStatuses=container(state={"running": {}}))
        held(world, verb="Pause", step="hang")
        assert not_ready(world)[1].endswith(
            f"demo-broker-1: Pause by experiment try (step hang), which ends at {ENDS} at the latest"
        )

    def test_until_it_is_ready_again_and_for_a_while_only(self) -> None:
        world = stuck(**KILLED)
        held(world, state="Recovered", recoveredAt=stamp(world.now))
        assert not_ready(world) == (
            "FaultInjected",
            "2 of 3 brokers are ready; demo-broker-1: comes back after Kill by experiment try (step kill)",
        )
        world.wait(120)
        assert not_ready(world)[0] == "BrokerCrashing", "it should be back by now"

    def test_while_the_kubelet_waits_with_its_start(self) -> None:
        """After the sixth end within minutes it waits for five. Nobody has to do anything about it."""
        world = stuck(**KILLED)
        over = world.now
        held(world, state="Recovered", recoveredAt=stamp(over))
        ended = {"terminated": {"reason": "Error", "finishedAt": stamp(over - timedelta(seconds=5))}}
        status = world.pods["demo-broker-1"]["status"]
        status["containerStatuses"] = container(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended)
        world.wait(200)
        assert not_ready(world)[0] == "FaultInjected"
        status["containerStatuses"] = container(state={"running": {"startedAt": stamp(world.now)}}, lastState=ended)
        world.wait(60)
        assert not_ready(world)[0] == "FaultInjected", "it may take its time from then on"
        world.wait(60)
        assert not_ready(world)[0] == "BrokerCrashing"
        status["containerStatuses"] = container(
            state={"waiting": {"reason": "CrashLoopBackOff"}},
            lastState={"terminated": {"reason": "Error", "finishedAt": stamp(over + timedelta(seconds=210))}},
        )
        assert not_ready(world)[0] == "BrokerCrashing", "it has ended by itself"

    def test_while_its_end_is_all_that_the_kubelet_has_told(self) -> None:
        """A busy one was seen to take over two minutes to the start."""
        world = stuck(**KILLED)
        over = world.now
        held(world, state="Recovered", recoveredAt=stamp(over))
        status = world.pods["demo-broker-1"]["status"]
        ended = {"terminated": {"reason": "Error", "finishedAt": stamp(over - timedelta(seconds=5))}}
        status["containerStatuses"] = container(state=ended, lastState={})
        world.wait(130)
        assert not_ready(world)[0] == "FaultInjected"
        ended["terminated"]["finishedAt"] = stamp(over + timedelta(seconds=30))
        assert not_ready(world)[0] != "FaultInjected", "it was started, and has ended once more"

    def test_what_crashed_after_it_was_back(self) -> None:
        world = stuck(**KILLED)
        held(world, state="Recovered", recoveredAt=stamp(world.now - timedelta(seconds=30)))
        since = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(world.now - timedelta(seconds=5))}
        world.pods["demo-broker-1"]["status"]["conditions"] = [since]
        assert not_ready(world)[0] == "BrokerCrashing"

    def test_shut_down_to_read_its_log(self) -> None:
        """The runner does it once the story is told, in a cluster that goes: of that the status says nothing."""
        world = stuck(
            containerStatuses=container(lastState={"terminated": {"reason": "Completed"}}, state={"running": {}})
        )
        world.experiment = {"metadata": {"name": "try", "uid": "x"}, "status": {}}
        assert not_ready(world)[1].endswith("demo-broker-1: was shut down while experiment try goes on")

    def test_other_trouble_is_told_first(self) -> None:
        world = stuck(**KILLED)
        held(world)
        status = {"containerStatuses": container(state={"waiting": {"reason": "ErrImagePull", "message": "not found"}})}
        world.pods["demo-broker-2"]["status"] = status
        assert not_ready(world)[0] == "ImagePullFailed"


def test_a_disk_that_is_full() -> None:
    """27 D28: the broker runs, and of what its probe answers a kubelet tells the status only."""
    world = stuck(containerStatuses=container(state={"running": {}}))
    failed = "Readiness probe failed: HTTP probe failed with statuscode: "
    world.warnings = [Warned("Pod", "demo-broker-1", "Unhealthy", failed + code) for code in ("503", "507")]
    assert not_ready(world)[0] == "DiskFull"
    world.warnings.reverse()
    assert not_ready(world)[0] == "BrokersNotReady", "that was before"
