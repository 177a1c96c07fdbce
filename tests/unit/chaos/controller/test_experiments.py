"""The life of an experiment, step by step, against a Kubernetes in memory."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_chaos.controller.experiments import decide
from minikafka_chaos.experiment.kinds import (
    ABORT_ANNOTATION,
    EXPERIMENT,
    EXPERIMENT_LABEL,
    FINALIZER,
    JOB,
    job_name,
    report_job_name,
)
from minikafka_kube.api_server import ApiError
from minikafka_kube.kinds import CLUSTER, LEASE, POD

from tests.unit.chaos.controller.happenings import (
    bring_back,
    edit,
    handle,
    make_fault,
    running,
    world_with_own_cluster,
)
from tests.unit.chaos.controller.world import NAMES, NAMESPACE, SCENARIO, World


class TestToTheEnd:
    async def test_passed(self) -> None:
        world = await running(World())
        assert world.lease_holder().startswith("experiment/try/")
        assert FINALIZER in world.experiment["metadata"]["finalizers"]
        make_fault(world)
        assert world.status["faultNow"] == "Kill broker 1"
        assert world.condition("Healed") == ("False", "FaultsOn", "Kill broker 1")
        bring_back(world)
        world.ledger().recovered(handle(), "step back")
        assert world.condition("Healed")[:2] == ("True", "NoFaults")
        world.ledger().judging()
        assert world.phase == "Judging"
        world.ledger().set_fields(verdict="Passed", summary="nothing lost", lost=0, worstGap="0.31 s")
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
        world.ledger().set_fields(verdict="Passed", summary="")
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
        world.ledger().set_fields(verdict="Failed", summary="lost 3", lost=3)
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
        world.ledger().set_fields(verdict="Passed", summary="")
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
        world = world_with_own_cluster()
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
            ([{"phase": "Running"}], "pod try-run-abcde runs, and has told nothing yet"),
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
            await world.reconciler._do(seen, decide(seen))
            world.renew()
        world.server.put(
            JOB, "try-run", {"metadata": {"labels": {}}, "spec": {"template": {"metadata": {"labels": {}}}}}
        )
        await world.settle()
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "JobNotOurs")
        assert (JOB.name, "try-run") in world.server.objects and world.lease_holder() == ""


class TestMetrics:
    @pytest.mark.slow
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
