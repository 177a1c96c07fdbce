"""Experiments with faults of the network: refused where there is no agent for them, and healed by the agents at the end."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.controller.jobs import JobSettings, job
from minikafka_chaos.controller.network import wants_links
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, FINALIZER
from minikafka_chaos.scenario.faults import Fault, Handle, Targets
from minikafka_kube.kinds import CLUSTER

from tests.unit.chaos.controller.world import NAMES, SCENARIO, World

LEADER = {"type": "Leader", "topic": "bank"}
STEPS = [{"name": "cut", "fault": {"verb": "Cut", "target": LEADER}}]
WITH_AGENTS = JobSettings(image="minikafka/chaos:1", network="net")
CUT = Fault("cut", Verb.CUT, step="cut")


def world(settings: JobSettings = WITH_AGENTS, **change: Any) -> World:
    return World({**SCENARIO, "steps": STEPS, **change}, settings=settings)


async def cut_off(made: World, broker: int = 1) -> None:
    """It runs, and has cut off a broker."""
    made.network_agent()
    await made.settle()
    assert made.phase == "Running", made.status
    ledger = made.ledger()
    ledger.take()
    ledger.intend(CUT, Targets((broker,)), None)
    made.cut.add(NAMES.pod(broker))
    ledger.injected(Handle(CUT, Targets((broker,))))


class TestAdmission:
    async def refused(self, made: World) -> str:
        await made.settle()
        assert (made.phase, made.condition("Accepted")[1]) == ("Refused", "NotSupported"), made.status
        assert not made.lease_holder()
        return made.condition("Accepted")[2]

    async def test_no_agents_are_known(self) -> None:
        told = await self.refused(world(JobSettings(image="minikafka/chaos:1")))
        assert told.startswith("step cut: Cut: this chaos controller knows no network agents: install charts/")
        assert "set network.namespace" in told

    async def test_none_is_there(self) -> None:
        assert "there is no network agent that is ready in namespace net" in await self.refused(world())

    async def test_none_is_ready(self) -> None:
        made = world()
        made.network_agent(ready="False")
        assert "there is no network agent that is ready" in await self.refused(made)

    async def test_none_on_the_node_of_a_broker(self) -> None:
        made = world()
        made.network_agent("other")
        assert "node n, where shop-broker-0 is, has no network agent" in await self.refused(made)

    async def test_before_its_own_cluster_is_made(self) -> None:
        made = world(clusterRef=None, cluster={"brokers": 3})
        del made.experiment["spec"]["clusterRef"]
        await self.refused(made)
        assert [name for kind, name in made.server.objects if kind == CLUSTER.name] == ["shop"]

    async def test_others_are_not_asked_for_one(self) -> None:
        made = World()
        await made.settle()
        assert made.phase == "Running"

    @pytest.mark.slow
    async def test_with_one(self) -> None:
        made = world()
        made.network_agent()
        await made.settle()
        assert made.phase == "Running"

    @pytest.mark.parametrize("verb", ["Cut", "Loss", "Delay", "Heal"])
    def test_what_takes_one(self, verb: str) -> None:
        assert wants_links({"spec": {"steps": [{"wait": {}}, {"fault": {"verb": verb}}]}})
        assert wants_links({"spec": {"steps": [{"fault": {"oneOf": ["Kill", verb]}}]}})
        assert not wants_links({"spec": {"steps": [{"fault": {"verb": "Kill"}}]}})

    def test_the_runner_is_told_where_they_are(self) -> None:
        made = World()
        words = job(made.experiment, "shop", 60, WITH_AGENTS)["spec"]["template"]["spec"]["containers"][0]["args"]
        assert "--network-namespace=net" in words


class TestHealing:
    async def test_aborted(self) -> None:
        made = world()
        await cut_off(made)
        made.annotate(ABORT_ANNOTATION)
        made.job_ends("Failed")
        await made.settle()
        assert made.phase == "Aborted"
        assert made.cut == set()
        pod = made.locate([1])[1]
        assert f"network-n recover lab --pod {pod.pod} --uid {pod.pod_uid}" in made.asked
        assert [fault["state"] for fault in made.status["faults"]] == ["Recovered"]

    async def test_deleted(self) -> None:
        made = world()
        await cut_off(made)
        made.delete()
        await made.settle()
        assert not made.there
        assert made.cut == set()

    async def test_in_the_next_pod_of_that_name(self) -> None:
        """Written down for one pod, which was replaced before it was made: it was made in the next one."""
        made = world()
        made.network_agent()
        await made.settle()
        ledger = made.ledger()
        ledger.take()
        ledger.intend(CUT, Targets((1,)), None)
        made.replace_pod(1)
        made.cut.add(NAMES.pod(1))
        made.annotate(ABORT_ANNOTATION)
        made.job_ends("Failed")
        await made.settle()
        assert (made.phase, made.cut) == ("Aborted", set())

    async def test_an_agent_that_is_away_is_waited_for(self) -> None:
        made = world()
        await cut_off(made)
        made.mute.add("network-n")
        made.annotate(ABORT_ANNOTATION)
        made.job_ends("Failed")
        for _ in range(30):
            await made.look()
            made.kubernetes()
            made.pass_time(1)
        assert made.phase == "Healing", "the agent beside the broker has answered; that is not enough"
        assert FINALIZER in made.experiment["metadata"]["finalizers"]
        made.mute.clear()
        await made.settle()
        assert (made.phase, made.cut) == ("Aborted", set())

    @pytest.mark.slow
    async def test_without_any_agent_it_expires(self) -> None:
        made = world()
        await cut_off(made)
        made.mute.add("network-n")
        made.annotate(ABORT_ANNOTATION)
        made.job_ends("Failed")
        await made.settle(seconds=60)
        assert made.phase == "Aborted"
        assert made.status["faults"][0]["detail"] == "it has expired"

    async def test_in_a_pod_that_was_replaced_nothing_is_left(self) -> None:
        made = world()
        await cut_off(made)
        made.mute.add("network-n")
        made.replace_pod(1)
        made.annotate(ABORT_ANNOTATION)
        made.job_ends("Failed")
        await made.settle()
        assert made.status["faults"][0]["detail"] == "its pod is gone"

    @pytest.mark.slow
    async def test_other_faults_are_not_its_business(self) -> None:
        made = World(settings=WITH_AGENTS)
        await made.settle()
        ledger, kill = made.ledger(), Fault("kill", Verb.KILL, step="kill")
        ledger.take()
        ledger.intend(kill, Targets((1,)), None)
        made.annotate(ABORT_ANNOTATION)
        made.job_ends("Failed")
        await made.settle()
        assert made.phase == "Aborted"
        assert all(not asked.startswith("network-") for asked in made.asked)
