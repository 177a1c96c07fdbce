"""The life of an experiment, step by step, against a Kubernetes in memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from minikafka_chaos.controller.experiments import decide
from minikafka_chaos.controller.jobs import JobSettings
from minikafka_chaos.controller.kinds import (
    ABORT_ANNOTATION,
    EXPERIMENT,
    EXPERIMENT_LABEL,
    FINALIZER,
    FORCE_ANNOTATION,
    JOB,
    job_name,
    report_job_name,
)
from minikafka_chaos.controller.ledger import FaultRefused
from minikafka_chaos.scenario.faults import Fault, Handle, Targets
from minikafka_chaos.scenario.verbs import Verb
from minikafka_operator.api_server import ApiError
from minikafka_operator.kinds import CLUSTER, LEASE, POD

from tests.unit.chaos.controller.world import NAMES, NAMESPACE, SCENARIO, Killed, World

KILL = Fault("f1", Verb.KILL, step="kill")
LEADER = Targets((1,), role="Leader")


def handle() -> Handle:
    return Handle(KILL, LEADER)


def make_fault(world: World, *, injected: bool = True) -> None:
    """As the runner does: written down, made, written down."""
    ledger = world.ledger()
    ledger.take()
    ledger.intend(KILL, LEADER, None)
    world.on[NAMES.pod(1)] = {"f1"}
    if injected:
        ledger.injected(handle())


async def running(world: World) -> World:
    await world.settle()
    assert world.phase == "Running"
    return world


class TestToTheEnd:
    async def test_passed(self) -> None:
        world = await running(World())
        assert world.lease_holder().startswith("experiment/try/")
        assert FINALIZER in world.experiment["metadata"]["finalizers"]
        make_fault(world)
        assert world.status["faultNow"] == "Kill broker 1"
        assert world.condition("Healed") == ("False", "FaultsOn", "Kill broker 1")
        world.on.clear()
        world.ledger().recovered(handle(), "step back")
        assert world.condition("Healed")[:2] == ("True", "NoFaults")
        world.ledger().judging()
        assert world.phase == "Judging"
        world.ledger().tell(verdict="Passed", summary="nothing lost", lost=0, worstGap="0.31 s")
        world.job_ends()
        await world.settle()
        assert (world.phase, world.status["verdict"], world.status["lost"]) == ("Completed", "Passed", 0)
        assert world.condition("Complete") == ("True", "Verdict", "Passed: nothing lost")
        assert world.condition("Healed")[:2] == ("True", "NoFaults")
        assert world.lease_holder() == ""
        assert not world.experiment["metadata"]["finalizers"]
        assert [fault["state"] for fault in world.status["faults"]] == ["Recovered"]
        assert world.asked == []  # the runner had undone everything itself

    async def test_the_story_is_in_the_events(self) -> None:
        world = await running(World())
        make_fault(world)
        world.annotate(ABORT_ANNOTATION)
        world.job_ends("Failed")
        await world.settle()
        told = [reason for reason, _ in world.server.events]
        assert told == ["Started", "Aborted", "FaultRecovered", "Aborted"]

    async def test_a_cluster_whose_owner_forbids_it_meanwhile(self) -> None:
        """Seen on kind: it went on, and would have made its next fault."""
        world = await running(World())
        make_fault(world)
        world.server.objects["MiniKafkaCluster", NAMES.cluster]["spec"]["chaos"]["allowed"] = False
        world.job_ends("Failed")
        await world.settle()
        assert (world.phase, world.condition("Complete")[1]) == ("Aborted", "ChaosNotAllowed")
        assert not world.on.get(NAMES.pod(1)) and not world.lease_holder()

    async def test_a_cluster_that_is_deleted_meanwhile(self) -> None:
        world = await running(World())
        make_fault(world)
        del world.server.objects["MiniKafkaCluster", NAMES.cluster]
        for broker in range(3):
            world.server.objects.pop(("Pod", NAMES.pod(broker)), None)
        await world.settle()
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "ClusterNotFound")
        assert [fault["state"] for fault in world.status["faults"]] == ["Recovered"]

    async def test_a_settled_experiment_is_left_alone(self) -> None:
        world = await running(World())
        before = world.server.writes
        await world.look()
        assert world.server.writes == before

    async def test_time_to_live(self) -> None:
        world = await running(World({**SCENARIO, "ttlSecondsAfterFinished": 90}))
        world.ledger().tell(verdict="Passed", summary="")
        world.job_ends()
        await world.settle()
        assert world.phase == "Completed"
        outcome = await world.look()
        assert outcome.retry_seconds is not None and outcome.retry_seconds <= 90
        world.pass_time(100)
        await world.look()
        assert not world.there

    async def test_faults_that_the_runner_left_are_undone(self) -> None:
        """The runner's last words came before it undid all: its Job ended, and one fault is still written down as on."""
        world = await running(World())
        make_fault(world)
        world.ledger().tell(verdict="Failed", summary="lost 3", lost=3)
        world.job_ends()
        await world.settle()
        assert world.phase == "Completed" and not world.on
        assert world.asked == [NAMES.pod(1)]

    async def test_its_own_cluster(self) -> None:
        spec = {key: value for key, value in SCENARIO.items() if key != "clusterRef"}
        world = World({**spec, "cluster": {"brokers": 3, "config": [{"name": "min.insync.replicas", "value": "2"}]}})
        await world.look()
        name = world.status["cluster"]
        assert world.phase == "Pending" and name.startswith("x-try-")
        made = world.server.objects[CLUSTER.name, name]
        assert made["spec"]["replication"] == {"defaultFactor": 3, "minInsyncReplicas": 2}
        assert made["spec"]["chaos"] == {"allowed": True}
        world.make_ready(name)
        await running(world)
        assert world.lease_holder(name).startswith("experiment/try/")
        world.ledger().take()
        world.ledger().tell(verdict="Passed", summary="")
        world.job_ends()
        await world.settle()
        assert world.phase == "Completed"
        assert (CLUSTER.name, name) not in world.server.objects

    async def test_an_own_cluster_that_never_gets_ready(self) -> None:
        spec = {key: value for key, value in SCENARIO.items() if key != "clusterRef"}
        world = World({**spec, "cluster": {"brokers": 3}, "activeDeadlineSeconds": 60})
        await world.look()
        name = world.status["cluster"]
        world.pass_time(61)
        await world.settle()
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "DeadlineExceeded")
        assert (CLUSTER.name, name) not in world.server.objects


class TestRefused:
    """Refused before anything is touched, with the reason in the status and as an Event."""

    async def refused(self, world: World, reason: str) -> str:
        await world.settle()
        status, why, message = world.condition("Accepted")
        assert (world.phase, status, why) == ("Refused", "False", reason)
        assert (reason, message) in world.server.events
        assert world.lease_holder() == "" or not world.lease_holder().startswith("experiment/try/")
        assert (JOB.name, "try-run") not in world.server.objects
        assert not world.experiment["metadata"].get("finalizers")
        return message

    async def test_a_cluster_that_is_not_there(self) -> None:
        world = World({**SCENARIO, "clusterRef": {"name": "nowhere"}})
        assert "no MiniKafkaCluster nowhere" in await self.refused(world, "ClusterNotFound")

    async def test_a_cluster_that_does_not_allow_it(self) -> None:
        world = World()
        world.server.objects[CLUSTER.name, "shop"]["spec"]["chaos"] = {"allowed": False}
        assert "spec.chaos.allowed" in await self.refused(world, "ChaosNotAllowed")

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"workload": {"topic": "other"}}, "workload.topic other: no such topic"),
            ({"stepps": []}, "unknown field; did you mean steps?"),
            (
                {"topics": [{"name": "bank", "replicationFactor": 4}]},
                "replicationFactor 4 with 3 brokers",
            ),
        ],
        ids=["topic", "field", "factor"],
    )
    async def test_a_spec_that_contradicts_itself(self, change: dict[str, Any], says: str) -> None:
        assert says in await self.refused(World({**SCENARIO, **change}), "InvalidSpec")

    async def test_a_verb_that_there_is_not(self) -> None:
        steps = [{"name": "full", "fault": {"verb": "DiskFull", "target": {"type": "Leader", "topic": "bank"}}}]
        message = await self.refused(World({**SCENARIO, "steps": steps}), "NotSupported")
        assert message.startswith("step full: DiskFull cannot be done on Kubernetes: ")

    @pytest.mark.parametrize(
        ("may", "url", "refused"),
        [
            (None, "http://prometheus.monitoring.svc:9090", False),
            (None, "http://169.254.169.254/latest", True),
            ((), "http://prometheus.monitoring.svc:9090", True),
            (("http://prometheus.example",), "http://prometheus.example:9090/", False),
        ],
    )
    async def test_a_prometheus_that_may_not_be_asked(
        self, may: tuple[str, ...] | None, url: str, refused: bool
    ) -> None:
        probes = {"steadyState": {"probes": [{"name": "up", "query": "up", "prometheusUrl": url}]}}
        settings = JobSettings("i") if may is None else JobSettings("i", prometheus_urls=may)
        world = World({**SCENARIO, **probes}, settings=settings)
        if not refused:
            await running(world)
            return
        assert f"probe up: prometheusUrl {url} may not be asked" in await self.refused(world, "PrometheusNotAllowed")

    async def test_a_topic_that_is_somebody_elses(self) -> None:
        world = World()
        world.partitions({"bank": [([0, 1, 2], [0, 1, 2])]})
        assert "has a topic bank already" in await self.refused(world, "TopicExists")

    async def test_a_second_experiment_on_the_same_cluster(self) -> None:
        world = await running(World())
        other = World(name="second")
        other.server.objects[LEASE.name, NAMES.disruption] = copy.deepcopy(
            world.server.objects[LEASE.name, NAMES.disruption]
        )
        await other.settle()
        assert other.condition("Accepted")[1:] == (
            "ClusterBusy",
            "experiment try goes on with cluster shop; one at a time",
        )

    async def test_a_topic_of_the_cluster_itself(self) -> None:
        """It may not be there yet, and others would keep their offsets in it until it is removed."""
        topics = {"topics": [{"name": "bank"}, {"name": "__consumer_offsets"}]}
        assert "__consumer_offsets: names that begin with __" in await self.refused(
            World({**SCENARIO, **topics}), "InvalidSpec"
        )

    async def test_a_job_of_somebody_else(self) -> None:
        world = World()
        world.server.put(
            JOB, "try-run", {"metadata": {"labels": {}}, "spec": {"template": {"metadata": {"labels": {}}}}}
        )
        await world.settle()
        assert (world.phase, world.condition("Accepted")[1]) == ("Refused", "JobNotOurs")
        assert (JOB.name, "try-run") in world.server.objects

    async def test_a_story_that_takes_out_too_many(self) -> None:
        steps = [
            {"name": "one", "fault": {"verb": "Kill", "target": {"type": "Leader", "topic": "bank"}}},
            {"name": "two", "fault": {"verb": "Pause", "target": {"type": "Any", "otherThan": ["one"]}}},
        ]
        message = await self.refused(World({**SCENARIO, "steps": steps}), "BudgetExceeded")
        assert message == "step two: 2 brokers may be out at once; allowed by safety.brokersOutMax: 1"

    @pytest.mark.parametrize(
        ("verb", "seconds", "says"),
        [("Pause", 51, "at most 50 for Pause"), ("Kill", 3481, "at most 3480 on Kubernetes: the agents end")],
    )
    async def test_a_fault_that_no_agent_makes_so_long(self, verb: str, seconds: int, says: str) -> None:
        """The Job refused it, when the Lease was taken and the topics were made."""
        target = {"type": "Leader", "topic": "bank"}
        steps = [{"name": "one", "fault": {"verb": verb, "target": target, "durationSeconds": seconds}}]
        message = await self.refused(World({**SCENARIO, "steps": steps}), "NotSupported")
        assert message.startswith("step one: durationSeconds: ") and says in message
        steps[0]["fault"]["durationSeconds"] = seconds - 1  # type: ignore[index]
        await running(World({**SCENARIO, "steps": steps}))

    async def test_the_last_replica(self) -> None:
        world = World()
        world.partitions({"lonely": [([0, 1, 2], [1])]})
        message = await self.refused(world, "BudgetExceeded")
        assert "lonely-0 (1 of 3)" in message
        meant = World({**SCENARIO, "safety": {"loss": "Meant"}})
        meant.partitions({"lonely": [([0, 1, 2], [1])]})
        await running(meant)

    async def test_put_right_and_looked_at_anew(self) -> None:
        world = World({**SCENARIO, "clusterRef": {"name": "nowhere"}})
        await self.refused(world, "ClusterNotFound")
        world.experiment["spec"]["clusterRef"]["name"] = "shop"
        world.experiment["metadata"]["generation"] += 1
        world.server.touch(EXPERIMENT, "try")
        await running(world)


def edit(world: World, **spec: Any) -> None:
    """As `kubectl edit` does; a field that is None goes."""
    there = world.experiment["spec"]
    there |= spec
    for name in [name for name, value in there.items() if value is None]:
        del there[name]
    world.experiment["metadata"]["generation"] += 1
    world.server.touch(EXPERIMENT, world.name)


class TestEdited:
    """Before it has begun the spec may be edited. What was made for the words before goes."""

    @staticmethod
    def with_own_cluster() -> World:
        return World(
            {**{key: value for key, value in SCENARIO.items() if key != "clusterRef"}, "cluster": {"brokers": 3}}
        )

    @pytest.mark.parametrize("ready", [True, False])
    async def test_the_template_of_its_own_cluster(self, ready: bool) -> None:
        """Seen on kind: a verdict of a cluster with the settings from before the edit."""
        world = self.with_own_cluster()
        await world.look()
        name = world.status["cluster"]
        first = world.server.objects[CLUSTER.name, name]["metadata"]["uid"]
        if ready:
            world.make_ready(name)
        edit(world, cluster={"brokers": 3, "config": [{"name": "minikafka.truncation.mode", "value": "leader_epoch"}]})
        for _ in range(4):
            await world.look()
        made = world.server.objects[CLUSTER.name, name]
        assert world.phase == "Pending" and made["metadata"]["uid"] != first
        assert made["spec"]["config"]["minikafka.truncation.mode"] == "leader_epoch"
        world.make_ready(name)
        await running(world)
        assert world.server.objects[CLUSTER.name, name]["metadata"]["uid"] == made["metadata"]["uid"]

    async def test_an_edit_elsewhere_keeps_its_cluster(self) -> None:
        world = self.with_own_cluster()
        await world.look()
        name = world.status["cluster"]
        first = world.server.objects[CLUSTER.name, name]["metadata"]["uid"]
        world.make_ready(name)
        edit(world, seed=9)
        await running(world)
        assert world.server.objects[CLUSTER.name, name]["metadata"]["uid"] == first

    async def test_from_its_own_cluster_to_one_that_is_there(self) -> None:
        world = self.with_own_cluster()
        await world.look()
        name = world.status["cluster"]
        edit(world, cluster=None, clusterRef={"name": "shop"})
        await running(world)
        assert world.status["cluster"] == "shop" and (CLUSTER.name, name) not in world.server.objects

    async def test_from_one_cluster_to_another_while_it_holds_the_lease(self) -> None:
        """It had been admitted, and then the cluster was not ready for a moment: the Lease would have been held for an hour."""
        world = World()
        world.server.put(CLUSTER, "other", copy.deepcopy(world.server.objects[CLUSTER.name, "shop"]))
        while not world.lease_holder():
            seen = await world.reconciler.observe(NAMESPACE, "try")
            assert seen is not None
            await world.reconciler._do(seen, decide(seen, world.settings))
            world.renew()
        condition = world.server.objects[CLUSTER.name, "shop"]["status"]["conditions"][0]
        condition |= {"status": "False", "message": "1 of 3"}
        await world.look()
        assert world.phase == "Pending" and world.lease_holder()
        edit(world, clusterRef={"name": "other"})
        await world.look()
        assert world.status["cluster"] == "other" and world.lease_holder() == ""


class TestWaiting:
    async def waits(self, world: World, reason: str) -> None:
        await world.look()
        before = world.server.writes
        outcome = await world.look()
        assert (world.phase, world.condition("Accepted")[:2]) == ("Pending", ("Unknown", reason))
        assert world.server.writes == before, "told once"
        assert outcome.retry_seconds is not None

    async def test_for_a_roll(self) -> None:
        world = World()
        spec = {"holderIdentity": "operator", "leaseDurationSeconds": 60, "renewTime": "2026-11-22T09:00:00.000000Z"}
        world.server.put(LEASE, NAMES.disruption, {"spec": spec, "metadata": {}})
        await self.waits(world, "WaitingForLease")
        world.pass_time(61)
        await running(world)

    async def test_for_the_cluster(self) -> None:
        world = World()
        world.server.objects[CLUSTER.name, "shop"]["status"]["conditions"][0] |= {
            "status": "False",
            "message": "1 of 3",
        }
        await self.waits(world, "WaitingForCluster")
        world.make_ready("shop")
        await running(world)

    async def test_for_metadata_of_a_controller_that_lives(self) -> None:
        """The brokers' metadata stands still while they have no controller, so nothing is concluded from it."""
        world = World()
        world.server.objects.pop((LEASE.name, NAMES.controller))
        await world.reconciler.reconcile(NAMESPACE, world.name)
        assert world.condition("Accepted")[1] == "WaitingForMetadata"
        await running(world)

    async def test_what_does_not_come_right_by_itself_is_told(self) -> None:
        """An experiment waited without a word, for no renewal of the controller's Lease was ever seen."""
        world = World()
        world.reconciler = world.new_reconciler()  # it has seen no renewal yet
        await world.reconciler.reconcile(NAMESPACE, world.name)
        assert world.phase == ""
        world.pass_time(16)
        await world.reconciler.reconcile(NAMESPACE, world.name)
        assert world.phase == "Pending"
        reason, message = world.condition("Accepted")[1:]
        assert (reason, message) == ("WaitingForMetadata", "waiting to see Lease shop-controller renewed")
        await running(world)


class TestWritesThatAreRefused:
    """By a quota, a webhook, a policy: told, and nothing is held meanwhile."""

    QUOTA = ApiError(403, "Forbidden", "exceeded quota: few")

    async def test_its_job(self) -> None:
        world = World()
        world.server.refuses[JOB.name] = self.QUOTA
        await world.settle()
        assert (world.phase, world.condition("Complete")[1:]) == (
            "Error",
            ("CreationRefused", "Job try-run is refused: exceeded quota: few"),
        )
        assert world.lease_holder() == "" and not world.experiment["metadata"]["finalizers"]

    async def test_its_cluster(self) -> None:
        world = TestEdited.with_own_cluster()
        world.server.refuses[CLUSTER.name] = ApiError(422, "Invalid", "spec.config: Invalid value")
        await world.settle()
        assert (world.phase, world.condition("Accepted")[1]) == ("Refused", "CreationRefused")
        assert "spec.config: Invalid value" in world.condition("Accepted")[2]
        world.server.refuses.clear()
        edit(world, seed=2)
        await world.look()
        assert (CLUSTER.name, world.status["cluster"]) in world.server.objects

    async def test_the_lease(self) -> None:
        world = World()
        world.server.refuses[LEASE.name] = self.QUOTA
        await world.settle()
        assert (world.phase, world.condition("Accepted")[1]) == ("Refused", "CreationRefused")

    async def test_an_api_server_that_cannot_now_is_asked_again(self) -> None:
        world = World()
        world.server.refuses[JOB.name] = ApiError(500, "InternalError", "failed calling webhook")
        with pytest.raises(ApiError):
            await world.settle()
        world.server.refuses.clear()
        await running(world)


class TestAJobThatDoesNotBegin:
    """Its pod waits for a volume, an image, a node. Seen on kind: nothing said so, and the Lease was held for an hour."""

    @staticmethod
    def waits(world: World) -> None:
        (pod,) = world.runner_pods()
        condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: unbound claims"}
        pod["status"] = {"phase": "Pending", "conditions": [condition]}

    async def test_it_is_told_why(self) -> None:
        world = await running(World())
        self.waits(world)
        assert "not begun" not in world.condition("Accepted")[2]
        world.pass_time(16)
        await world.look()
        says = "it happens to cluster shop; its Job has not begun: pod try-run-abcde: 0/1 nodes: unbound claims"
        assert world.condition("Accepted") == ("True", "Accepted", says)
        assert [says] == [note for reason, note in world.server.events if reason == "JobWaits"]
        before = world.server.writes
        await world.look()
        assert world.server.writes == before, "told once"
        world.ledger().take()
        await world.look()
        assert world.condition("Accepted")[2] == "it happens to cluster shop"

    async def test_it_is_given_up(self) -> None:
        world = await running(World())
        self.waits(world)
        world.pass_time(601)
        await world.settle()
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "RunnerFailed")
        assert "unbound claims" in world.status["summary"] and world.lease_holder() == ""

    @pytest.mark.parametrize(
        ("pods", "why"),
        [
            ([], "it has no pod (kubectl describe job try-run says why)"),
            (
                [{"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no host"}}}]}],
                "pod try-run-abcde: ErrImagePull: no host",
            ),
            ([{"phase": "Pending"}], "pod try-run-abcde is Pending"),
        ],
    )
    async def test_all_it_may_wait_for(self, pods: list[dict[str, Any]], why: str) -> None:
        world = await running(World())
        if pods:
            world.runner_pods()[0]["status"] = pods[0]
        else:
            world.server.objects.pop((POD.name, "try-run-abcde"))
        world.pass_time(16)
        await world.look()
        assert world.condition("Accepted")[2].endswith(f"; its Job has not begun: {why}")


class TestAStatusSomebodyElseWrote:
    @pytest.mark.parametrize("ending", [None, {"phase": "Completed", "reason": "Because", "message": "so"}])
    @pytest.mark.parametrize("phase", ["Healing", "Completed"])
    async def test_it_ends_all_the_same(self, phase: str, ending: dict[str, Any] | None) -> None:
        world = await running(World())
        world.experiment["status"] |= {"phase": phase, **({"ending": ending} if ending else {})}
        world.server.touch(EXPERIMENT, "try")
        await world.settle()
        assert world.status["phase"] in ("Completed", "Error") and not world.experiment["metadata"]["finalizers"]
        world.delete()
        await world.settle()
        assert not world.there


class TestAbort:
    @pytest.mark.parametrize("how", ["delete", "annotation", "deadline"])
    async def test_heals_within_seconds(self, how: str) -> None:
        world = await running(World())
        make_fault(world)
        began = world.server.now
        if how == "delete":
            world.delete()
        elif how == "annotation":
            world.annotate(ABORT_ANNOTATION)
        else:
            world.pass_time(3601)
            began = world.server.now
        await world.settle()
        assert not world.on and world.lease_holder() == ""
        assert (world.server.now - began).total_seconds() < 10
        if how == "delete":
            assert not world.there
        else:
            reason = "Aborted" if how == "annotation" else "DeadlineExceeded"
            assert (world.phase, world.condition("Complete")[1]) == ("Aborted", reason)
            assert world.status["verdict"] == "Aborted"
            assert [fault["state"] for fault in world.status["faults"]] == ["Recovered"]

    async def test_while_the_runner_still_ends_faults_are_undone_at_once_and_once_more_after_it(self) -> None:
        world = await running(World())
        make_fault(world)
        pod = world.runner_pods()[0]
        pod["metadata"]["finalizers"] = ["test/slow"]  # it takes its time to end
        world.annotate(ABORT_ANNOTATION)
        await world.look()
        assert not world.on and world.status["faults"][0]["state"] == "Injected"
        world.on[NAMES.pod(1)] = {"f1"}  # what it was in the middle of
        world.server.objects.pop(("Pod", pod["metadata"]["name"]))
        await world.settle()
        assert not world.on and world.status["faults"][0]["state"] == "Recovered"

    async def test_no_fault_can_begin_any_more(self) -> None:
        world = await running(World())
        ledger = world.ledger()
        ledger.take()
        world.annotate(ABORT_ANNOTATION)
        with pytest.raises(FaultRefused, match="being aborted"):
            ledger.intend(KILL, LEADER, None)
        await world.look()
        del world.experiment["metadata"]["annotations"]
        with pytest.raises(FaultRefused, match="not running"):
            ledger.intend(KILL, LEADER, None)
        assert not world.status.get("faults")

    async def test_with_a_dead_agent_the_faults_expire(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.delete()
        for _ in range(20):
            await world.look()
            world.kubernetes()
            world.pass_time(2)
        assert world.phase == "Healing" and world.condition("Healed")[:2] == ("False", "RecoveryFailing")
        world.pass_time(1800)
        await world.settle()
        assert not world.there and ("FaultRecovered", "Kill broker 1 (kill): it has expired") in world.server.events

    async def test_a_pod_that_is_gone(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.replace_pod(1)
        world.annotate(ABORT_ANNOTATION)
        await world.settle()
        assert world.phase == "Aborted" and world.status["faults"][0]["detail"] == "its pod is gone"

    async def test_force(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.delete()
        await world.look()
        world.annotate(FORCE_ANNOTATION)
        await world.settle()
        assert not world.there and world.lease_holder() == ""
        assert any(reason == "ForceDeleted" and "Kill broker 1" in note for reason, note in world.server.events)

    async def test_before_it_has_begun(self) -> None:
        world = World({**SCENARIO})
        world.server.objects[CLUSTER.name, "shop"]["status"] = {}
        await world.look()
        assert world.phase == "Pending"
        world.delete()
        await world.settle()
        assert not world.there


class TestAPodThatWasReplaced:
    """Its name is the next one's, and by its name an agent is asked."""

    async def test_before_the_fault_was_made_and_the_runner_died(self) -> None:
        world = await running(World())
        make_fault(world, injected=False)
        world.replace_pod(1)
        world.on[NAMES.pod(1)] = {"f1"}  # the runner asked again, and then it died
        world.annotate(ABORT_ANNOTATION)
        await world.settle()
        assert world.phase == "Aborted" and not world.on and NAMES.pod(1) in world.asked

    async def test_after_it_was_made_nothing_is_left(self) -> None:
        world = await running(World())
        make_fault(world)
        world.replace_pod(1)
        world.mute.add(NAMES.pod(1))
        world.annotate(ABORT_ANNOTATION)
        await world.settle()
        assert world.phase == "Aborted" and world.status["faults"][0]["detail"] == "its pod is gone"


class TestNames:
    """Of experiments that begin alike, and of one that is made again."""

    def test_no_two_experiments_have_one_job(self) -> None:
        names = ["a" * 63, "a" * 62 + "b", "a" * 54, "a" * 53, "a" * 52 + "-b", "demo"]
        for made in (job_name, report_job_name):
            jobs = {made(name) for name in names}
            assert len(jobs) == len(names) and all(len(job) <= 57 for job in jobs)
        assert (job_name("demo"), report_job_name("demo")) == ("demo-run", "demo-report")

    async def test_one_that_is_made_again_waits_for_the_job_of_the_first(self) -> None:
        """It has ended, and a verdict of another run is no verdict of this one."""
        world = World()
        old = {"kind": EXPERIMENT.name, "name": "try", "uid": "of-the-first"}
        ended = {"conditions": [{"type": "Failed", "status": "True"}]}
        spec = {"template": {"metadata": {"labels": {}}}}
        world.server.put(JOB, "try-run", {"metadata": {"ownerReferences": [old]}, "spec": spec, "status": ended})
        for _ in range(3):
            await world.look()
        assert (world.phase, world.condition("Accepted")[1]) == ("Pending", "JobNotOurs")
        assert (JOB.name, "try-run") in world.server.objects
        world.server.objects.pop((JOB.name, "try-run"))
        await running(world)
        assert world.server.objects[JOB.name, "try-run"]["metadata"]["ownerReferences"][0]["uid"] != "of-the-first"

    @pytest.mark.parametrize("job", [None, "somebody-elses"])
    async def test_a_pod_that_only_has_the_label_keeps_nothing_from_ending(self, job: str | None) -> None:
        """The label is anybody's to give: such a pod is no runner that has to be waited for. Seen on kind."""
        world = await running(World())
        make_fault(world)
        owners = [{"kind": JOB.name, "name": job, "uid": "another", "controller": True}] if job else []
        metadata = {"labels": {EXPERIMENT_LABEL: "try"}, "ownerReferences": owners}
        world.server.put(POD, "forged", {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}})
        world.delete()
        await world.settle()
        assert not world.there and not world.on and world.lease_holder() == ""

    async def test_a_job_that_comes_in_between_is_left_alone(self) -> None:
        world = World()
        for _ in range(20):
            if world.phase == "Running":
                break
            seen = await world.reconciler.observe(NAMESPACE, "try")
            assert seen is not None
            await world.reconciler._do(seen, decide(seen, world.settings))
            world.renew()
        world.server.put(
            JOB, "try-run", {"metadata": {"labels": {}}, "spec": {"template": {"metadata": {"labels": {}}}}}
        )
        await world.settle()
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "JobNotOurs")
        assert (JOB.name, "try-run") in world.server.objects and world.lease_holder() == ""


class TestRunnerDies:
    async def test_without_a_word(self) -> None:
        world = await running(World())
        make_fault(world)
        world.job_ends("Failed", "Job has reached the specified backoff limit")
        await world.settle()
        assert (world.phase, world.status["verdict"]) == ("Error", "Error")
        assert "backoff limit" in world.condition("Complete")[2] and not world.on

    async def test_its_job_is_deleted_by_hand(self) -> None:
        world = await running(World())
        make_fault(world)
        world.server.objects.pop((JOB.name, "try-run"))
        world.server.objects.pop(("Pod", "try-run-abcde"))
        await world.settle()
        assert (world.phase, world.condition("Complete")[2]) == ("Error", "its Job is gone") and not world.on

    async def test_another_runner_makes_no_faults(self) -> None:
        world = await running(World())
        make_fault(world)
        with pytest.raises(FaultRefused, match="run by try-run-abcde"):
            world.ledger("other").take()
        with pytest.raises(FaultRefused, match="run by try-run-abcde"):
            world.ledger("other").intend(KILL, LEADER, None)


class TestControllerDies:
    """Killed at every write of an experiment's life, before it took effect and after; started anew; the end is the same."""

    async def life(self, world: World, ending: str) -> None:
        """A whole experiment, with a controller that is started again whenever it dies."""
        await self.go_on(world)
        assert world.phase == "Running", world.status
        died, world.server.dies_at = world.server.dies_at, None  # the runner lives
        writes = world.server.writes
        make_fault(world)
        if ending == "verdict":
            world.on.clear()
            world.ledger().recovered(handle(), "step back")
            world.ledger().tell(verdict="Passed", summary="well", lost=0)
            world.job_ends()
        elif ending == "abort":
            world.annotate(ABORT_ANNOTATION)
        elif ending == "runner":
            world.job_ends("Failed")
        else:
            world.delete()
        if died is not None:
            world.server.dies_at = died + world.server.writes - writes
        await self.go_on(world)

    async def go_on(self, world: World) -> None:
        for _ in range(5):
            try:
                await world.settle()
                return
            except Killed:
                world.server.dies_at = None
                world.new_reconciler()
        raise AssertionError("never settled")

    @pytest.mark.parametrize("ending", ["verdict", "abort", "runner", "delete"])
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    async def test_at_every_write(self, ending: str, after: bool) -> None:
        whole = World()
        await self.life(whole, ending)
        expected = whole.server.log
        # The runner's own writes are in the log too; the controller's are counted apart from them.
        for point in range(1, len([told for told in expected if told != "runner"]) + 1):
            world = World()
            world.server.dies_at, world.server.dies_after = point, after
            await self.life(world, ending)
            said = f"killed {'after' if after else 'before'} write {point} of {expected}"
            assert not world.on, said
            assert world.lease_holder() == "", said
            if ending == "delete":
                assert not world.there, said
            else:
                told = {"verdict": "Completed", "abort": "Aborted", "runner": "Error"}[ending]
                assert world.phase == told == whole.phase, said
                assert [one["state"] for one in world.status["faults"]] == ["Recovered"], said
                assert world.status["faultNow"] == "", said
                assert not world.experiment["metadata"].get("finalizers"), said
            assert sum(told == "create Job" for told in world.server.log) == 1, said


class TestMetrics:
    async def test_a_fault_that_is_on(self) -> None:
        world = await running(World())
        labels = {"namespace": NAMESPACE, "experiment": "try", "fault": "Kill", "target": "broker-1"}

        def active() -> float | None:
            return world.telemetry.registry.get_sample_value("minikafka_chaos_fault_active", labels)

        assert active() is None
        make_fault(world)
        await world.look()
        assert active() == 1
        world.annotate(ABORT_ANNOTATION)
        world.job_ends("Failed")
        await world.settle()
        assert active() is None
        value = world.telemetry.registry.get_sample_value
        assert value("minikafka_chaos_verdicts_total", {"verdict": "Aborted"}) == 1
        assert (
            value("minikafka_chaos_experiment_phase", {"namespace": NAMESPACE, "experiment": "try", "phase": "Aborted"})
            == 1
        )
        world.telemetry.forget_experiment(NAMESPACE, "try")
        assert b'experiment="try"' not in world.telemetry.page()
