"""What an experiment may take from a cluster that is not its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.experiment.budget import fault_refusal, story_refusal
from minikafka_chaos.scenario.scenario import SafetySpec, Scenario
from minikafka_kube.observed import PartitionState

from tests.unit.chaos.controller.world import SCENARIO

LEADER = {"type": "Leader", "topic": "bank"}


def refusal(*faults: tuple[str, dict[str, Any]], **safety: Any) -> str:
    """What is said of a story of these faults, in a cluster of three."""
    steps = [{"name": f"s{n}", "fault": {"verb": verb, "target": target}} for n, (verb, target) in enumerate(faults)]
    document = {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "ChaosExperiment",
        "metadata": {"name": "x"},
        "spec": {**SCENARIO, "steps": steps, "safety": safety},
    }
    return story_refusal(Scenario.model_validate_json(json.dumps(document)).spec, 3)


def same(step: str) -> dict[str, Any]:
    return {"type": "SameAs", "step": step}


@pytest.mark.parametrize(
    ("faults", "worst"),
    [
        ([("Kill", LEADER), ("Start", same("s0")), ("PowerLoss", {"type": "Any"})], 1),
        ([("Kill", LEADER), ("PowerLoss", {"type": "Any"})], 2),
        ([("Kill", LEADER), ("WipeUnflushed", same("s0"))], 1),
        ([("Kill", LEADER), ("Kill", same("s0"))], 1),
        ([("Kill", {"type": "All"})], 3),
        ([("Kill", {"type": "All"}), ("Recover", {"type": "All"}), ("Pause", LEADER)], 3),
        (
            [
                ("Kill", {"type": "Brokers", "brokers": [0, 2]}),
                ("Start", {"type": "Brokers", "brokers": [0, 2]}),
                ("Kill", LEADER),
            ],
            2,
        ),
        ([("Restart", {"type": "All"})], 3),
        ([("Restart", LEADER), ("Restart", {"type": "Follower", "topic": "bank"})], 1),
        ([("Cut", LEADER)], 1),
        ([("Start", LEADER), ("Resume", LEADER)], 0),
    ],
)
def test_how_many_are_out_at_once_at_worst(faults: list[tuple[str, dict[str, Any]]], worst: int) -> None:
    for allowed in (1, 2, 3):
        refused = refusal(*faults, brokersOutMax=allowed)
        assert bool(refused) == (worst > allowed), refused


def test_a_volume_is_given_up_only_where_loss_is_meant() -> None:
    faults = [("Kill", LEADER), ("WipeVolume", same("s0"))]
    assert refusal(*faults) == "step s1: WipeVolume needs safety.loss: Meant"
    assert refusal(*faults, loss="Meant") == ""


def partition(isr: tuple[int, ...]) -> PartitionState:
    return PartitionState("orders", 0, (0, 1, 2), isr, isr[0] if isr else -1)


class TestAtTheFault:
    SAFE = SafetySpec()

    def test_too_many(self) -> None:
        """Brokers that are out for another reason are counted."""
        says = fault_refusal(Verb.KILL, [2], [0], [partition((0, 1))], self.SAFE)
        assert says == "brokers 0, 2 would be out at once; allowed by safety.brokersOutMax: 1"
        assert fault_refusal(Verb.KILL, [0], [0], [partition((0, 1))], self.SAFE) == ""

    def test_the_last_live_replica(self) -> None:
        says = fault_refusal(Verb.PAUSE, [], [1], [partition((1,)), partition((0, 1))], self.SAFE)
        assert says.startswith("without brokers 1 no in-sync replica would live of orders-0 (")
        assert (
            fault_refusal(Verb.PAUSE, [], [1], [partition((1,))], SafetySpec.model_validate_json('{"loss": "Meant"}'))
            == ""
        )

    @pytest.mark.parametrize("verb", [Verb.START, Verb.RESUME, Verb.RECOVER, Verb.DELAY, Verb.SLOW_FSYNC])
    def test_what_takes_nobody_out(self, verb: Verb) -> None:
        assert fault_refusal(verb, [0, 2], [1], [partition((1,))], self.SAFE) == ""
