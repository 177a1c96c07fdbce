"""Whether an experiment begins: what is refused, what waits, and edits before it has begun."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from minikafka_chaos.controller.experiments import decide
from minikafka_chaos.controller.jobs import JobSettings
from minikafka_chaos.experiment.kinds import (
    EXPERIMENT,
    JOB,
)
from minikafka_kube.api_server import ApiError
from minikafka_kube.kinds import CLUSTER, LEASE

from tests.unit.chaos.controller.happenings import (
    edit,
    running,
    world_with_own_cluster,
)
from tests.unit.chaos.controller.world import NAMES, NAMESPACE, SCENARIO, World


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

    @pytest.mark.parametrize("external", [{}, {"external": {"type": "NodePort", "authentication": {"type": "tls"}}}])
    async def test_a_cluster_where_its_clients_may_do_nothing(self, external: dict[str, Any]) -> None:
        world = World()
        spec = {"authorization": {"type": "simple"}, "listeners": {"internal": {"tls": True}, **external}}
        world.server.objects[CLUSTER.name, "shop"]["spec"] |= spec
        says = await self.refused(world, "NotSupported")
        assert says.startswith(
            "MiniKafkaCluster shop: spec.authorization without spec.listeners.internal.authentication"
        )

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


class TestRefusedForWhatOthersMayChange:
    """One that was applied before its cluster stayed Refused for ever, and an apply of what is there changes nothing."""

    @staticmethod
    async def refused(reason: str) -> World:
        world = World()
        if reason == "ClusterNotFound":
            world.server.objects.pop((CLUSTER.name, "shop"))
        elif reason == "ChaosNotAllowed":
            world.server.objects[CLUSTER.name, "shop"]["spec"]["chaos"] = {"allowed": False}
        else:
            world.partitions({"lonely": [([0, 1, 2], [1])]})
        await world.settle()
        assert (world.phase, world.condition("Accepted")[1]) == ("Refused", reason)
        return world

    @staticmethod
    def put_right(world: World, reason: str) -> None:
        if reason == "ClusterNotFound":
            world._cluster()
        elif reason == "ChaosNotAllowed":
            world.server.objects[CLUSTER.name, "shop"]["spec"]["chaos"] = {"allowed": True}
        else:
            world.partitions({"lonely": [([0, 1, 2], [0, 1, 2])]})

    @pytest.mark.parametrize("reason", ["ClusterNotFound", "BudgetExceeded"])
    async def test_it_begins_once_that_is_put_right(self, reason: str) -> None:
        world = await self.refused(reason)
        before, outcome = world.server.writes, await world.look()
        assert world.server.writes == before and outcome.retry_seconds is not None, "nobody tells of a cluster"
        self.put_right(world, reason)
        await running(world)
        assert "endedAt" not in world.status

    async def test_not_because_chaos_is_allowed_by_now(self) -> None:
        """Who allows it does so for what is asked then."""
        world = await self.refused("ChaosNotAllowed")
        self.put_right(world, "ChaosNotAllowed")
        outcome = await world.look()
        assert world.phase == "Refused" and outcome.retry_seconds is None

    async def test_not_after_the_time_that_it_would_have_waited(self) -> None:
        """Nobody expects it any more: its cluster is another's by then."""
        world = await self.refused("BudgetExceeded")
        world.pass_time(3601)
        self.put_right(world, "BudgetExceeded")
        outcome = await world.look()
        assert world.phase == "Refused" and outcome.retry_seconds is None

    async def test_not_one_that_a_schedule_made(self) -> None:
        """Its time has passed, and the next one comes."""
        world = await self.refused("BudgetExceeded")
        world.experiment["metadata"]["ownerReferences"] = [{"kind": "ChaosSchedule", "name": "nightly", "uid": "s"}]
        self.put_right(world, "BudgetExceeded")
        await world.look()
        assert world.phase == "Refused"

    async def test_not_what_the_api_server_refused(self) -> None:
        """A quota is no part of what is looked at, so it would be refused and admitted in turns."""
        world = World()
        world.server.refuses[LEASE.name] = ApiError(403, "Forbidden", "exceeded quota: few")
        await world.settle()
        before, outcome = world.server.writes, await world.look()
        assert world.phase == "Refused" and world.server.writes == before and outcome.retry_seconds is None


class TestEdited:
    """Before it has begun the spec may be edited. What was made for the words before goes."""

    @pytest.mark.parametrize("ready", [True, False])
    async def test_the_template_of_its_own_cluster(self, ready: bool) -> None:
        """Seen on kind: a verdict of a cluster with the settings from before the edit."""
        world = world_with_own_cluster()
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
        world = world_with_own_cluster()
        await world.look()
        name = world.status["cluster"]
        first = world.server.objects[CLUSTER.name, name]["metadata"]["uid"]
        world.make_ready(name)
        edit(world, seed=9)
        await running(world)
        assert world.server.objects[CLUSTER.name, name]["metadata"]["uid"] == first

    async def test_from_its_own_cluster_to_one_that_is_there(self) -> None:
        world = world_with_own_cluster()
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
            await world.reconciler._do(seen, decide(seen))
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
