"""The verbs of the network agent, with an API server and a kernel that the tests play; a real kernel is in
tests/integration/test_network_rules.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import LACKS, verbs
from minikafka_chaos.network import command
from minikafka_chaos.network.agent import Ask, NetworkAgent
from minikafka_chaos.network.errors import BadRequest, NotNow
from minikafka_chaos.network.rules import ID_MAX, LinkDirection, LinkFault, LinkVerb, Peer, installing
from minikafka_chaos.network.service import READY, REMEMBERED_SECONDS, Tidying, check

from tests.unit.chaos.network.cluster import HOME, NODE, UIDS, ApiPaths, addresses
from tests.unit.chaos.network.kernel import Kernel

ASK = Ask(HOME, "shop-broker-0", UIDS[0])


def test_it_makes_every_fault_of_links_that_kubernetes_does_not_lack() -> None:
    of_links = verbs(lambda rule: rule.is_of_links) - set(LACKS["kubernetes"])
    assert {verb.value.lower() for verb in of_links} == set(LinkVerb)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.server = ApiPaths()
        self.kernel = Kernel(UIDS)
        self.agent = NetworkAgent(NODE, folder, self.kernel, self.kernel.entered, self.server)  # type: ignore[arg-type]

    def cut(self, fault_id: str = "f", ask: Ask = ASK, **more: Any) -> dict[str, Any]:
        words = {"peers": ["shop-broker-1"], "clients": False, "direction": LinkDirection.BOTH, **more}
        return self.agent.make(ask, fault_id, words.pop("verb", LinkVerb.CUT), words.pop("seconds", 60), **words)

    def values(self, pod: int = 0) -> list[Any]:
        with self.kernel.entered(UIDS[pod]) as where:
            found = self.kernel.listing(where)
        sets = [each["set"] for each in found.get("nftables", ()) if "set" in each]
        return [each["elem"]["val"] for told in sets for each in told.get("elem", ())]

    def ids(self) -> list[str]:
        return [each["id"] for each in self.agent.state(ASK)["faults"]]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


class TestMade:
    def test_by_the_addresses_that_the_api_server_tells(self, scene: Scene) -> None:
        found = scene.cut()
        assert found == {
            "id": "f",
            "verb": "cut",
            "over": False,
            "expires_s": 60,
            "peers": ["shop-broker-1"],
            "repeated": False,
        }
        assert scene.values() == [{"concat": [each, 9093]} for each in addresses(1)]
        assert scene.values(1) == [], "in the pod of the target only"

    def test_clients_are_a_port(self, scene: Scene) -> None:
        ports = [{"name": name, "containerPort": port} for name, port in (("client", 9092), ("external", 9094))]
        scene.server.there("pods", "shop-broker-0")["spec"]["containers"][0]["ports"] += ports[1:]
        scene.cut(peers=[], clients=True)
        assert scene.values() == [9092, 9094]

    def test_a_repetition_does_nothing_more(self, scene: Scene) -> None:
        scene.cut()
        scene.kernel.now += 20
        assert scene.cut() == {**scene.cut(), "repeated": True, "expires_s": 40}
        scene.kernel.now += 50
        assert scene.cut()["over"] is True, "one that is over is not made anew"
        assert scene.values() == []

    def test_an_id_is_of_one_fault(self, scene: Scene) -> None:
        scene.cut()
        with pytest.raises(BadRequest, match="it was another fault"):
            scene.cut(direction=LinkDirection.INBOUND)
        with pytest.raises(BadRequest, match="it was another fault"):
            scene.cut(peers=["shop-broker-2"])

    @pytest.mark.parametrize("seconds", [0, -1, 3601, float("nan"), float("inf")])
    def test_every_fault_has_an_end(self, scene: Scene, seconds: float) -> None:
        with pytest.raises(BadRequest, match="--seconds"):
            scene.cut(seconds=seconds)
        assert scene.kernel.applied == []

    @pytest.mark.parametrize("fault_id", ["", "a b", "a;b", "x" * (ID_MAX + 1), 'a"b', "a\nb"])
    def test_ids(self, scene: Scene, fault_id: str) -> None:
        with pytest.raises(BadRequest, match="--id"):
            scene.cut(fault_id)

    @pytest.mark.parametrize("percent", [0, 101, -5])
    def test_percent(self, scene: Scene, percent: int) -> None:
        with pytest.raises(BadRequest, match="--percent"):
            scene.cut(verb=LinkVerb.LOSS, percent=percent)

    def test_what_a_rule_says_fits(self, scene: Scene) -> None:
        """The kernel takes 128 characters of a comment; the id in it is what `recover` and people look for."""
        longest = "x" * ID_MAX
        scene.cut(longest, verb=LinkVerb.LOSS, percent=5)
        assert scene.ids() == [longest]
        comments = [each["add"]["rule"]["comment"] for each in scene.kernel.applied if "rule" in each.get("add", {})]
        assert comments
        assert max(map(len, comments)) < 128

    def test_seconds_are_rounded_up(self) -> None:
        fault = LinkFault("f", LinkVerb.CUT, 0.2, (Peer("p", ("10.0.0.1",), (9093,)),))
        timeouts = [
            each["add"]["element"]["elem"][0]["elem"]["timeout"] for each in installing(fault) if "element" in str(each)
        ]
        assert timeouts == [1], "none at all would be an element without an end"


class TestWhomItTouches:
    """Nothing that the caller says of a pod is believed."""

    def refused(self, scene: Scene, match: str, kind: type[Exception] = BadRequest, **more: Any) -> None:
        with pytest.raises(kind, match=match):
            scene.cut(**more)
        assert scene.kernel.applied == []

    @pytest.mark.parametrize("allowed", [False, None, "true", 1])
    def test_a_cluster_that_does_not_allow_it(self, scene: Scene, allowed: object) -> None:
        scene.server.there("minikafkaclusters", "shop")["spec"]["chaos"]["allowed"] = allowed
        self.refused(scene, r"does not allow chaos: its owner has to set spec\.chaos\.allowed: true")

    def test_a_pod_of_nobody(self, scene: Scene) -> None:
        scene.server.there("pods", "shop-broker-0")["metadata"]["ownerReferences"] = []
        self.refused(scene, "no StatefulSet of a MiniKafkaCluster controls it")

    def test_an_owner_of_the_same_name(self, scene: Scene) -> None:
        scene.server.there("statefulsets", "shop-broker")["metadata"]["uid"] = "s-2"
        self.refused(scene, "no StatefulSet of a MiniKafkaCluster controls it")

    def test_a_cluster_of_the_same_name(self, scene: Scene) -> None:
        scene.server.there("minikafkaclusters", "shop")["metadata"]["uid"] = "c-2"
        self.refused(scene, "belongs to no MiniKafkaCluster")

    def test_an_owner_that_does_not_control_it(self, scene: Scene) -> None:
        scene.server.there("pods", "shop-broker-0")["metadata"]["ownerReferences"][0]["controller"] = False
        self.refused(scene, "no StatefulSet of a MiniKafkaCluster controls it")

    def test_another_pod_of_this_name(self, scene: Scene) -> None:
        self.refused(scene, "another one now", NotNow, ask=Ask(HOME, "shop-broker-0", UIDS[1]))

    def test_a_pod_on_another_node(self, scene: Scene) -> None:
        scene.server.pod(0, nodeName="node-2")
        self.refused(scene, "it is on node node-2; this agent's is node-1")

    def test_the_nodes_own_network(self, scene: Scene) -> None:
        scene.server.pod(0, hostNetwork=True)
        self.refused(scene, "shares its node's network")

    @pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed", ""])
    def test_a_pod_that_does_not_run(self, scene: Scene, phase: str) -> None:
        scene.server.there("pods", "shop-broker-0")["status"]["phase"] = phase
        self.refused(scene, "is not running", NotNow)

    def test_a_peer_of_another_cluster(self, scene: Scene) -> None:
        scene.server.there("pods", "shop-broker-1")["metadata"]["ownerReferences"][0]["uid"] = "s-2"
        self.refused(scene, "it is of another cluster")

    def test_a_peer_without_an_address_of_its_own(self, scene: Scene) -> None:
        scene.server.there("pods", "shop-broker-1")["status"]["podIPs"] = []
        self.refused(scene, "no address of its own", NotNow)
        scene.server.pod(1, hostNetwork=True)
        self.refused(scene, "no address of its own", NotNow)

    def test_a_peer_that_is_not_there(self, scene: Scene) -> None:
        self.refused(scene, "there is no such pod", NotNow, peers=["shop-broker-7"])

    def test_itself(self, scene: Scene) -> None:
        self.refused(scene, "that is the pod itself", peers=["shop-broker-0"])

    def test_nobody(self, scene: Scene) -> None:
        self.refused(scene, "at least one of them", peers=[])


class TestUndone:
    def test_one_of_two(self, scene: Scene) -> None:
        scene.cut("one")
        scene.cut("two", peers=["shop-broker-1", "shop-broker-2"])
        assert scene.agent.recover(ASK, "one") == {"recovered": ["one"], "gone": False}
        assert scene.ids() == ["two"]
        assert scene.agent.recover(ASK, "one") == {"recovered": [], "gone": False}

    def test_all_and_then_no_table_is_left(self, scene: Scene) -> None:
        scene.cut("one")
        scene.cut("two", peers=[], clients=True)
        assert sorted(scene.agent.recover(ASK)["recovered"]) == ["one", "two"]
        assert scene.kernel.pods[UIDS[0]] == {}

    def test_although_chaos_is_not_allowed_any_more(self, scene: Scene) -> None:
        scene.cut()
        scene.server.there("minikafkaclusters", "shop")["spec"]["chaos"]["allowed"] = False
        assert scene.agent.recover(ASK)["recovered"] == ["f"]

    def test_in_a_pod_that_is_gone_nothing_is_left(self, scene: Scene) -> None:
        scene.cut()
        gone = {"recovered": [], "gone": True}
        assert scene.agent.recover(Ask(HOME, "shop-broker-0", UIDS[2])) == gone, "it is another pod now"
        del scene.kernel.pods[UIDS[0]]
        assert scene.agent.recover(ASK) == gone, "it has no process any more"
        assert scene.agent.state(ASK) == {"gone": True, "faults": []}

    def test_healed_are_the_links_that_were_named(self, scene: Scene) -> None:
        scene.cut("both", peers=["shop-broker-1", "shop-broker-2"], clients=True)
        scene.cut("other", peers=["shop-broker-2"])
        assert scene.agent.heal(ASK, ["shop-broker-1"], clients=False)["recovered"] == ["both"]
        assert [each["peers"] for each in scene.agent.state(ASK)["faults"]] == [
            ["clients", "shop-broker-2"],
            ["shop-broker-2"],
        ]
        scene.agent.heal(ASK, ["shop-broker-2"], clients=True)
        assert scene.ids() == []

    def test_healed_by_the_name_of_a_peer_that_has_another_address_now(self, scene: Scene) -> None:
        scene.cut()
        scene.server.there("pods", "shop-broker-1")["status"]["podIPs"] = [{"ip": "10.77.0.99"}]
        assert scene.agent.heal(ASK, ["shop-broker-1"], clients=False)["recovered"] == ["f"]
        assert scene.values() == []

    def test_what_the_kernel_ends_meanwhile(self, scene: Scene) -> None:
        scene.cut("one", seconds=10)
        scene.cut("two", seconds=60)

        def later() -> None:
            scene.kernel.now += 20

        scene.kernel.before_apply = [later]
        assert scene.agent.heal(ASK, ["shop-broker-1"], clients=False)["recovered"] == ["two"]
        assert scene.values() == []


class TestTidied:
    def test_what_is_over_goes_after_a_while(self, scene: Scene) -> None:
        scene.cut("short", seconds=10)
        scene.cut("long", seconds=3600)
        tidying = Tidying(scene.agent)
        tidying.look(scene.agent.touched(), 0.0)
        scene.kernel.now += 20
        tidying.look(scene.agent.touched(), 20.0)
        assert scene.cut("short", seconds=10)["over"] is True, "who asks again is told that it was done"
        tidying.look(scene.agent.touched(), 20.0 + REMEMBERED_SECONDS)
        assert len(scene.agent.left_over(UIDS[0])) == 1
        assert scene.ids() == ["long"], "one that goes on is left alone"
        assert scene.agent.touched() == {UIDS[0]}

    def test_pods_that_are_gone_are_forgotten(self, scene: Scene) -> None:
        scene.cut()
        del scene.kernel.pods[UIDS[0]]
        Tidying(scene.agent).look(scene.agent.touched(), 0.0)
        assert scene.agent.touched() == set()

    def test_one_pod_does_not_hold_up_the_others(self, scene: Scene) -> None:
        scene.cut()
        scene.agent.recover(ASK)
        Tidying(scene.agent).look({"0-of-nobody", UIDS[0]}, 0.0)
        assert scene.agent.touched() == set()


class TestReady:
    """An agent that cannot do it is not ready, so that experiments are refused before they begin."""

    def test_a_node_that_can(self, scene: Scene) -> None:
        check(scene.agent, scene.kernel.entered(UIDS[0]))
        assert (scene.agent.folder / READY).exists()
        assert scene.kernel.applied == []

    def test_a_kernel_that_cannot(self, scene: Scene) -> None:
        check(scene.agent, scene.kernel.entered(UIDS[0]))
        scene.kernel.refuses = "Operation not supported"
        with pytest.raises(NotNow, match="not supported"):
            check(scene.agent, scene.kernel.entered(UIDS[0]))
        assert not (scene.agent.folder / READY).exists(), "nor is it because it was before"


class TestCommand:
    def run(self, scene: Scene, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
        try:
            code = command.run(words, scene.agent)
        except SystemExit as error:
            code = int(str(error.code))
        return code, json.loads(capsys.readouterr().out)

    def test_a_loss(self, scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
        whom = ["--pod", "shop-broker-0", "--uid", UIDS[0]]
        words = ["loss", HOME, *whom, "--id", "f", "--seconds", "9", "--percent", "30", "--peer", "shop-broker-2"]
        code, told = self.run(scene, capsys, *words, "--direction", "outbound", "--clients")
        assert (code, told["verb"], told["peers"]) == (0, "loss", ["clients", "shop-broker-2"])
        rules = [each["add"]["rule"] for each in scene.kernel.applied if "rule" in each.get("add", {})]
        assert {rule["chain"].rpartition("-")[2] for rule in rules} == {"out"}
        assert all({"match": {"op": "<", "left": _CHANCE, "right": 30}} in rule["expr"] for rule in rules)
        assert self.run(scene, capsys, "state", HOME, *whom)[1]["faults"][0]["id"] == "f"
        assert self.run(scene, capsys, "heal", HOME, *whom, "--clients")[1]["recovered"] == ["f"]
        assert self.run(scene, capsys, "recover", HOME, *whom, "--id", "f")[1]["recovered"] == ["f"]

    @pytest.mark.parametrize(
        ("words", "error"),
        [
            (["state", HOME, "other", "--pod", "p", "--uid", UIDS[0]], "unrecognized arguments: other"),
            (["state", HOME, "--pod", "p", "--uid", UIDS[0], "--namespace", "x"], "unrecognized arguments"),
            (["state", HOME, "--pod", "p", "--pod", "q", "--uid", UIDS[0]], "given twice"),
            (["state", HOME, "--po", "p", "--uid", UIDS[0]], "required: --pod"),
            (["state", "--pod", "p", "--uid", UIDS[0]], "required: NAMESPACE"),
            (["delay", HOME, "--pod", "p", "--uid", UIDS[0]], "invalid choice: 'delay'"),
            (["cut", HOME, "--pod", "shop-broker-0", "--uid", UIDS[0], "--id", "f", "--clients"], "--seconds"),
        ],
    )
    def test_bad_words(self, scene: Scene, capsys: pytest.CaptureFixture[str], words: list[str], error: str) -> None:
        code, told = self.run(scene, capsys, *words)
        assert code == 2
        assert error in told["error"]

    def test_without_a_node(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.delenv(command.NODE_VARIABLE, raising=False)
        assert command.run(["state", HOME, "--pod", "p", "--uid", UIDS[0]]) == 2
        assert command.NODE_VARIABLE in capsys.readouterr().out


_CHANCE = {"numgen": {"mode": "random", "mod": 100, "offset": 0}}
