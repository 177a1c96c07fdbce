"""Faults of the network on the Kubernetes ground: what is asked of which network agent, with a Kubernetes that the tests play."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import kubernetes_agents
from minikafka_chaos.grounds.kubernetes import KubernetesGround
from minikafka_chaos.grounds.kubernetes_agents import NotDone
from minikafka_chaos.grounds.kubernetes_api import ExecResult, NotReached, Object, Refused
from minikafka_chaos.grounds.kubernetes_network import LABELS, VERBS, NetworkAgents
from minikafka_chaos.links.rules import CLIENTS
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.faults import Direction, Fault, Handle, Parameters, Targets

CUT = Fault("cut-off", Verb.CUT, step="cut-off")


class FakeNodes:
    """Broker N is on node N, with an agent on each node; `asked` has what each agent was asked."""

    name = "net"

    def __init__(self) -> None:
        self.nodes = [0, 1, 2]
        self.unready: set[int] = set()
        self.generation = 0
        self.asked: list[tuple[str, str]] = []
        self.answers: dict[str, list[ExecResult | Exception]] = {}
        """What an agent answers to a verb before it does as it is told."""
        self.refuse: Refused | None = None

    def pod(self, broker: int) -> Object | None:
        if broker not in self.nodes:
            return None
        return {
            "metadata": {"name": f"run-1-broker-{broker}", "uid": f"u{broker}-{self.generation}"},
            "spec": {"nodeName": f"node-{broker}"},
        }

    def find_all(self, kind: str, *, fields: str = "", labels: str = "") -> list[Object]:
        if self.refuse is not None:
            raise self.refuse
        assert (kind, labels) == ("pods", LABELS)
        wanted = fields.removeprefix("spec.nodeName=")
        return [
            {
                "metadata": {"name": f"agent-{node}"},
                "spec": {"nodeName": f"node-{node}"},
                "status": {"conditions": [{"type": "Ready", "status": str(node not in self.unready)}]},
            }
            for node in self.nodes
            if wanted in ("", f"node-{node}")
        ]

    def run(self, pod: str, container: str, command: Sequence[str]) -> ExecResult:
        assert (container, command[0]) == ("network-agent", "minikafka-network")
        self.asked.append((pod, shlex.join(command[1:])))
        if waiting := self.answers.get(command[1]):
            answer = waiting.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return ExecResult(0, json.dumps({"recovered": ["x"], "gone": False, "repeated": False}), "")


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> FakeNodes:
    monkeypatch.setattr(kubernetes_agents, "RETRY_PAUSE_SECONDS", 0.001)
    return FakeNodes()


@pytest.fixture
def agents(nodes: FakeNodes) -> NetworkAgents:
    return NetworkAgents(nodes, "lab", nodes.pod)  # type: ignore[arg-type]


def whom(broker: int) -> str:
    return f"lab --pod run-1-broker-{broker} --uid u{broker}-0"


class TestMade:
    def test_a_cut_in_the_pod_of_its_target(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        assert agents.make(CUT, "r-cut-off", Targets((1,), (0, 2))) == {"1": "u1-0"}
        words = "--id r-cut-off --seconds 1800 --direction both --peer run-1-broker-0 --peer run-1-broker-2"
        assert nodes.asked == [("agent-1", f"cut {whom(1)} {words}")]

    def test_what_else_may_be_asked_for(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        fault = Fault("l", Verb.LOSS, Parameters(percent=30, direction=Direction.INBOUND), 12.5)
        agents.make(fault, "r-l", Targets((0,), (CLIENTS, 2)))
        words = "--id r-l --seconds 12.5 --direction inbound --percent 30 --clients --peer run-1-broker-2"
        assert nodes.asked == [("agent-0", f"loss {whom(0)} {words}")]

    def test_all_from_each(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        agents.make(CUT, "r", Targets((0, 1), (0, 1)))
        assert sorted(words.rpartition("--peer ")[2] for _, words in nodes.asked) == [
            "run-1-broker-0",
            "run-1-broker-1",
        ]
        assert all(words.count("--peer") == 1 for _, words in nodes.asked)

    def test_a_half_is_undone(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        nodes.answers["cut"] = [ExecResult(2, '{"error": "it does not allow chaos"}', "")]
        with pytest.raises(NotDone, match="network agent cut: it does not allow chaos"):
            agents.make(CUT, "r", Targets((0, 1), (2,)))
        undone = sorted(pod for pod, words in nodes.asked if words.startswith("recover") and words.endswith("--id r"))
        assert undone == ["agent-0", "agent-1"]

    def test_a_connection_that_breaks(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        """It may have been made: asked again with the same id, the agent makes it once."""
        nodes.answers["cut"] = [NotReached("gone")]
        agents.make(CUT, "r", Targets((0,), (1,)))
        assert len(nodes.asked) == 2
        assert nodes.asked[0] == nodes.asked[1]

    def test_no_agent_on_the_node(
        self, agents: NetworkAgents, nodes: FakeNodes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kubernetes_agents, "RETRY_SECONDS_MAX", 0.05)
        nodes.unready = {0}
        with pytest.raises(ToolTrouble, match="node node-0 has no network agent that is ready"):
            agents.make(CUT, "r", Targets((0,), (1,)))

    def test_an_agent_that_is_replaced_is_waited_for(
        self, agents: NetworkAgents, nodes: FakeNodes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A rollout of the chart takes all agents away for seconds; a run ended as Error when a cut's time was up meanwhile."""
        looks = iter([{0}, {0}])
        find_all = nodes.find_all

        def later(kind: str, **selectors: str) -> list[Object]:
            nodes.unready = next(looks, set())
            return find_all(kind, **selectors)

        monkeypatch.setattr(nodes, "find_all", later)
        assert agents.recover([0], "r") == [0]

    def test_another_agent_by_then(
        self, agents: NetworkAgents, nodes: FakeNodes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that is gone in the middle is not asked again by its name."""
        monkeypatch.setattr(kubernetes_agents, "RETRY_SECONDS_MAX", 5.0)
        names, run = iter(["gone", "new", "new"]), nodes.run

        def find_all(*_: str, **__: str) -> list[Object]:
            ready = [{"type": "Ready", "status": "True"}]
            return [
                {"metadata": {"name": next(names)}, "spec": {"nodeName": "node-0"}, "status": {"conditions": ready}}
            ]

        def there(pod: str, container: str, command: Sequence[str]) -> ExecResult:
            if pod == "gone":
                raise NotReached("404")
            return run(pod, container, command)

        monkeypatch.setattr(nodes, "find_all", find_all)
        monkeypatch.setattr(nodes, "run", there)
        assert agents.recover([0], "r") == [0]
        assert [pod for pod, _ in nodes.asked] == ["new"]


class TestUndone:
    def test_where_there_was_any(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        nodes.answers["recover"] = [ExecResult(0, '{"recovered": []}', "")]
        found = agents.recover([0, 1], "r", {"0": "u0-0", "1": "u1-0"})
        assert len(found) == 1
        assert sorted(nodes.asked) == [(f"agent-{each}", f"recover {whom(each)} --id r") for each in (0, 1)]

    def test_not_in_another_pod(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        made = agents.make(CUT, "r", Targets((0,), (1,)))
        nodes.generation = 1
        nodes.asked.clear()
        assert agents.recover([0], "r", made) == []
        assert nodes.asked == []

    def test_healed_at_both_ends(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        """Whichever of them was the target of the fault."""
        agents.heal(Targets((1,), (0, CLIENTS)))
        assert sorted(nodes.asked) == [
            ("agent-0", f"heal {whom(0)} --peer run-1-broker-1"),
            ("agent-1", f"heal {whom(1)} --peer run-1-broker-0 --clients"),
        ]


class TestRefused:
    def test_by_what_is_there(self, agents: NetworkAgents, nodes: FakeNodes) -> None:
        assert agents.refusal([0, 1, 2]) == ""
        nodes.unready = {2}
        assert agents.refusal() == ""
        assert "node node-2, where run-1-broker-2 is, has no network agent" in agents.refusal([0, 1, 2])
        nodes.unready = {0, 1, 2}
        assert "install charts/minikafka-chaos-network" in agents.refusal()
        nodes.refuse = Refused(403, "pods is forbidden")
        assert "cannot be looked for: pods is forbidden" in agents.refusal()

    def test_which_verbs(self) -> None:
        assert {Verb.CUT, Verb.DELAY, Verb.LOSS, Verb.HEAL} == VERBS


class TestGround:
    """The ground's part: the ids, what is told, and that nobody is asked who has nothing to do with it."""

    @pytest.fixture
    def ground(self, nodes: FakeNodes, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> KubernetesGround:
        class Home:
            name = "lab"

            def within(self, name: str) -> FakeNodes:
                assert name == "net"
                return nodes

        made = KubernetesGround(Home(), "run-1", tmp_path, network="net")  # type: ignore[arg-type]
        monkeypatch.setattr(made.network, "_pod", nodes.pod)
        monkeypatch.setattr(made, "_count", 3)
        monkeypatch.setattr(made, "_healed", lambda broker: None)
        monkeypatch.setattr(made, "wait_ready", lambda broker, seconds: None)
        return made

    def test_made_and_recovered(self, ground: KubernetesGround, nodes: FakeNodes) -> None:
        targets = Targets((1,), (0, CLIENTS))
        handle = ground.inject(CUT, targets)
        assert handle.state == {"pods": {"1": "u1-0"}}
        json.dumps(handle.state)
        assert ground.recover(handle) == ["healed brokers 1 and 0", "healed brokers 1 and clients"]
        made, undone = (words.partition("--id ")[2].split()[0] for _, words in nodes.asked)
        assert made == undone

    def test_recovered_again(self, ground: KubernetesGround, nodes: FakeNodes) -> None:
        nodes.answers["recover"] = [ExecResult(0, '{"recovered": []}', "")]
        assert ground.recover(Handle(CUT, Targets((1,), (0,)), {"pods": {"1": "u1-0"}})) == []

    def test_heal(self, ground: KubernetesGround, nodes: FakeNodes) -> None:
        assert ground.inject(Fault("h", Verb.HEAL), Targets((1,), (2,))).state == {}
        assert [words.split()[0] for _, words in nodes.asked] == ["heal", "heal"]

    def test_all_is_healed_where_anything_was_made(self, ground: KubernetesGround, nodes: FakeNodes) -> None:
        assert ground.heal_all() == []
        assert nodes.asked == []
        ground.inject(CUT, Targets((1,), (0,)))
        nodes.asked.clear()
        assert ground.heal_all() == [f"healed the network of broker {broker}" for broker in range(3)]
        assert sorted(words for _, words in nodes.asked) == [f"recover {whom(broker)}" for broker in range(3)]

    def test_refused_before_anything_starts(self, ground: KubernetesGround, nodes: FakeNodes) -> None:
        spec = library.find("minority-partition").spec
        assert list(ground.refusals(spec)) == []
        nodes.unready = {0, 1, 2}
        (told,) = ground.refusals(spec)
        assert told.startswith("step cut-leader: Cut: there is no network agent that is ready in namespace net")
        assert list(ground.refusals(library.find("demo").spec)) == []

    def test_ids_fit_what_agents_take(self, ground: KubernetesGround) -> None:
        longest = Fault("x" * 63 + "-r100000", Verb.CUT)
        assert len(ground._link_id(longest)) <= 80

    def test_a_broker_without_a_pod(self, ground: KubernetesGround, nodes: FakeNodes) -> None:
        nodes.nodes = [0, 2]
        with pytest.raises(ToolTrouble, match="broker 1 has no pod now"):
            ground.inject(CUT, Targets((1,), (0,)))
