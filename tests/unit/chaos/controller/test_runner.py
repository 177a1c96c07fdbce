"""What the Job of an experiment tells, and how carefully it reads a cluster that is not its own."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.controller import runner
from minikafka_chaos.controller.credentials import group_of
from minikafka_chaos.controller.ledger import Absent, ExperimentChanged, StatusLedger, Unavailable
from minikafka_chaos.controller.runner import (
    BrokerPods,
    EventReporter,
    ObjectStatus,
    ReportingLedger,
    SharedGround,
    _guard,
    _result,
)
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.experiment.kinds import EXPERIMENT
from minikafka_chaos.experiment.reasons import Happening
from minikafka_chaos.grounds.kubernetes import ClientListener
from minikafka_chaos.grounds.kubernetes_api import NotReached, Refused
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.load.topics import TopicNotMade
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.run.reporter import JUDGING, Silent
from minikafka_chaos.scenario.faults import Fault, Handle, Targets
from minikafka_chaos.scenario.scenario import SafetySpec, parse_scenario
from minikafka_chaos.verdict.verdict import Outcome, Verdict
from minikafka_kube.kinds import TOPIC, Object

from tests.copies import copied
from tests.unit.chaos.controller.world import NAMES, NAMESPACE, World
from tests.unit.chaos.fake_ground import FakeGround
from tests.unit.chaos.test_scenario import parse

KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "minikafkatopics": "MiniKafkaTopic",
    "chaosexperiments": EXPERIMENT.name,
    "minikafkaclusters": "MiniKafkaCluster",
}


class FakeNamespace:
    """`grounds.kubernetes_api.Namespace` over a world."""

    name = NAMESPACE

    def __init__(self, world: World) -> None:
        self.world = world
        self.events: list[tuple[str, str]] = []
        self.trouble: Exception | None = None
        self.fenced: set[str] = set()
        """Pods whose brokers say that they are not ready."""

    def within(self, name: str) -> FakeNamespace:
        assert name == "minikafka-chaos-network"
        return self

    def get(self, kind: str, name: str) -> Object | None:
        if self.trouble is not None:
            raise self.trouble
        return copied(self.world.server.objects.get((KINDS[kind], name)))

    def page(self, pod: str, port: int, path: str, seconds: float) -> str:
        assert (port, path) == (9404, "/readyz")
        if pod in self.fenced:
            raise OSError("503: fenced")
        return "ready"

    def find_all(self, kind: str, *, fields: str = "") -> list[Object]:
        return [copied(thing) for (one, _), thing in self.world.server.objects.items() if one == KINDS[kind]]

    def delete(self, kind: str, name: str) -> None:
        del self.world.server.objects[KINDS[kind], name]

    def create(self, kind: str, made: Object) -> Object:
        assert kind == "events"
        self.events.append((made["reason"], made["message"]))
        return made

    def replace_status(self, kind: str, made: Object) -> Object:
        if self.trouble is not None:
            raise self.trouble
        return self.world.server._replaced(EXPERIMENT, made, "status")


@pytest.fixture
def world() -> World:
    made = World()
    made.experiment["status"] = {"phase": "Running"}
    return made


@pytest.fixture
def namespace(world: World) -> Any:
    return FakeNamespace(world)


class TestStatus:
    @pytest.mark.parametrize(
        ("trouble", "becomes"),
        [
            (NotReached("away"), Unavailable),
            (Refused(503, "later"), Unavailable),
            (Refused(429, "slower"), Unavailable),
            (Refused(409, "changed"), ExperimentChanged),
            (Refused(403, "forbidden"), Refused),
        ],
        ids=str,
    )
    def test_what_a_refusal_means(self, namespace: Any, trouble: Exception, becomes: type[Exception]) -> None:
        store = ObjectStatus(namespace, "try")
        thing = store.read()
        assert thing is not None
        namespace.trouble = trouble
        with pytest.raises(becomes):
            store.write_status(thing)

    @pytest.mark.parametrize("trouble", [NotReached("away"), Refused(503, "later"), Refused(429, "slower")], ids=str)
    def test_whatever_is_read_for_a_fault_is_asked_for_again(self, namespace: Any, trouble: Exception) -> None:
        brokers = BrokerPods(namespace, "shop")
        namespace.trouble = trouble
        reads = (
            ObjectStatus(namespace, "try").read,
            lambda: brokers.locate([1]),
            lambda: brokers.unready(range(3)),
            brokers.partitions,
            lambda: _guard(brokers, SafetySpec(), 3)(Verb.KILL, [0], []),
        )
        for read in reads:
            with pytest.raises(Unavailable):
                read()


class TestBrokers:
    def test_where_they_are(self, world: World, namespace: Any) -> None:
        found = BrokerPods(namespace, "shop").locate([1])
        assert found == world.locate([1])
        with pytest.raises(Absent, match="broker 7 has no pod shop-broker-7"):
            BrokerPods(namespace, "shop").locate([7])

    def test_the_guard_counts_those_that_are_out_for_another_reason(self, world: World, namespace: Any) -> None:
        brokers = BrokerPods(namespace, "shop")
        guard = _guard(brokers, SafetySpec(), 3)
        assert guard(Verb.KILL, [0], []) is None
        world.server.objects["Pod", NAMES.pod(2)]["status"]["conditions"][0]["status"] = "False"
        assert brokers.unready(range(3)) == {2}
        refusal = guard(Verb.KILL, [0], [])
        assert refusal is not None and refusal.why.startswith("brokers 0, 2 would be out at once")
        assert refusal.passes, "it may be ready again in a moment"
        refusal = guard(Verb.KILL, [0], [1])
        assert refusal is not None and refusal.why.startswith("brokers 0, 1, 2 would be out at once")
        assert not refusal.passes, "broker 1 is out by a fault of this experiment"

    def test_the_guard_believes_the_broker_itself(self, world: World, namespace: Any) -> None:
        """What the kubelet says of a broker that has just come back may be of before."""
        namespace.fenced.add(NAMES.pod(2))
        refusal = _guard(BrokerPods(namespace, "shop"), SafetySpec(), 3)(Verb.KILL, [0], [])
        assert refusal is not None and refusal.passes and refusal.why.startswith("brokers 0, 2 would be out at once")

    def test_the_guard_knows_the_last_replica_from_the_brokers_metadata(self, world: World, namespace: Any) -> None:
        world.partitions({"orders": [([0, 1, 2], [1])]})
        guard = _guard(BrokerPods(namespace, "shop"), SafetySpec(), 3)
        refusal = guard(Verb.KILL, [1], [])
        assert refusal is not None and "orders-0" in refusal.why and refusal.passes, "others may catch up"
        refusal = guard(Verb.KILL, [1], [0, 2])
        assert refusal is not None and not refusal.passes, "the others are out by faults of this experiment"
        assert guard(Verb.KILL, [0], []) is None

    def test_what_is_not_known_is_no_permission(self, world: World, namespace: Any) -> None:
        world.server.objects[TOPIC.name, "bank-of-others"]["status"]["revision"] = 6
        refusal = _guard(BrokerPods(namespace, "shop"), SafetySpec(), 3)(Verb.KILL, [0], [])
        assert refusal is not None and "not known now" in refusal.why and refusal.passes


def test_no_fault_in_another_cluster_of_that_name(world: World, namespace: Any) -> None:
    """The Lease went with the first one; whose turn it is with the next is not known here."""
    here = world.server.objects["MiniKafkaCluster", "shop"]
    guard = runner._only_in(namespace, "shop", here["metadata"]["uid"], lambda *_: None)
    assert guard(Verb.KILL, [0], []) is None
    here["metadata"]["uid"] = "another"
    refusal = guard(Verb.KILL, [0], [])
    assert (
        refusal is not None
        and refusal.why == "cluster shop, on which the experiment began, is gone"
        and not refusal.passes
    )
    del world.server.objects["MiniKafkaCluster", "shop"]
    assert guard(Verb.KILL, [0], []) is not None


def test_no_fault_once_the_owner_has_forbidden_it(world: World, namespace: Any) -> None:
    here = world.server.objects["MiniKafkaCluster", "shop"]
    guard = runner._only_in(namespace, "shop", here["metadata"]["uid"], lambda *_: None)
    here["spec"]["chaos"]["allowed"] = False
    refusal = guard(Verb.KILL, [0], [])
    assert refusal is not None and refusal.why == "cluster shop does not allow chaos any more (spec.chaos.allowed)"
    assert not refusal.passes


def test_the_story_becomes_events(world: World, namespace: Any) -> None:
    ledger = StatusLedger(ObjectStatus(namespace, "try"), "me", world.locate, now=lambda: world.server.now)
    ledger.take()
    told = EventReporter(namespace, world.experiment, "me", ledger.judging)
    reporting, fault, targets = (
        ReportingLedger(ledger, told),
        Fault("f1", Verb.KILL, step="kill"),
        Targets((1,), role="Leader"),
    )
    told.say("kill: [bold]Kill[/] broker 1")
    reporting.intend(fault, targets, None)
    reporting.injected(Handle(fault, targets))
    told.status(JUDGING)
    assert world.phase == "Running", "not while a fault is on"
    reporting.recovered(Handle(fault, targets), "step back")
    told.status(JUDGING)
    assert world.phase == "Judging"
    assert namespace.events == [
        (Happening.TOLD, "kill: Kill broker 1"),
        (Happening.FAULT_INJECTED, "Kill broker-1 (kill, Leader)"),
        (Happening.FAULT_RECOVERED, "Kill broker-1 (kill, Leader): step back"),
    ]


class TestSharedGround:
    """At the end of a run on somebody's cluster: one broker after the other, each written down."""

    @pytest.fixture
    def ground(self, world: World, namespace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        ledger = StatusLedger(ObjectStatus(namespace, "try"), "me", world.locate, now=lambda: world.server.now)
        ledger.take()
        made = SharedGround(
            namespace,
            "shop",
            tmp_path,
            listener=ClientListener.INTERNAL,
            group=group_of(world.experiment),
            ledger=ledger,
        )
        made._is_up, made._count = True, 3
        self.done: list[str] = []

        def on() -> str:
            return str(world.status.get("faultNow"))

        monkeypatch.setattr(made, "_laid_to_rest", lambda broker: self.done.append(f"read {broker} ({on()})"))
        monkeypatch.setattr(made, "bring_back", lambda broker: self.done.append(f"back {broker}"))
        monkeypatch.setattr(made, "wait_ready", lambda broker, _: self.done.append(f"ready {broker} ({on()})"))
        monkeypatch.setattr(made.agents, "ask", lambda *_: {"recovered": []})
        return made

    def test_its_group_is_nobody_elses(self, world: World, ground: Any) -> None:
        """Others may have a group of the usual name; and an earlier experiment's offsets outlive its topic."""
        assert ground.group == f"readers-{world.experiment['metadata']['uid']}"

    def test_its_topics_are_written_down(self, world: World, ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        said: list[str] = []

        def create(_bootstrap: str, _security: object, plan: TopicPlan, _seconds: float) -> str:
            said.append(f"{plan.name} {world.status['topics'][-1]['state']}")
            if plan.name == "taken":
                raise TopicNotMade("TOPIC_ALREADY_EXISTS")
            if plan.name == "lost":
                raise ToolTrouble("an answer was lost")
            return f"id-of-{plan.name}"

        monkeypatch.setattr(runner, "create_new_topic", create)
        monkeypatch.setattr(
            runner, "wait_for_leaders", lambda _bootstrap, _security, plan, _seconds: said.append(f"{plan.name} led")
        )
        ground.clients.create_topic(TopicPlan("bank"), 1.0)
        for name in ("taken", "lost"):
            with pytest.raises(ToolTrouble):
                ground.clients.create_topic(TopicPlan(name), 1.0)
        assert said == ["bank Intended", "bank led", "taken Intended", "lost Intended"]
        told = [(one["name"], one["state"], one.get("topicId")) for one in world.status["topics"]]
        assert told == [("bank", "Made", "id-of-bank"), ("taken", "NotMade", None), ("lost", "Intended", None)]

    def test_one_after_the_other(self, world: World, ground: Any) -> None:
        assert ground.down() == ground.down() == []
        assert self.done == [
            line
            for n in range(3)
            for line in (f"read {n} (Terminate broker {n})", f"back {n}", f"ready {n} (Terminate broker {n})")
        ]
        assert [fault["state"] for fault in world.status["faults"]] == ["Recovered"] * 3

    def test_not_when_the_experiment_is_to_end(self, world: World, ground: Any) -> None:
        world.experiment["status"]["phase"] = "Healing"
        with pytest.raises(ToolTrouble, match="the logs of broker 0 were not read"):
            ground.down()
        assert self.done == []


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (
            "results",
            "PersistentVolumeClaim results: No space left on device; remove runs from it that nobody needs, or make it larger "
            "(spec.resources.requests.storage)",
        ),
        (
            None,
            "the volume of the Job's pod (emptyDir): No space left on device; give runs a claim (spec.runs.claim)",
        ),
    ],
)
class TestAVolumeThatIsFull:
    """Told in one line, with what to do: it is the reason that people read. It was Errno 28."""

    FULL = OSError(errno.ENOSPC, "No space left on device")

    @staticmethod
    def verdict_of(world: World, namespace: Any, out: Path, claim: str | None) -> Verdict:
        place = runner._place({"status": {"runsClaim": claim}}, out.parent)
        ledger: Any = StatusLedger(ObjectStatus(namespace, "try"), "me", world.locate)
        ledger.take()
        return runner._run(parse(), FakeGround(fail_at="up"), out, place, ledger, Silent())  # type: ignore[arg-type]

    def test_in_the_middle_of_the_story(
        self, world: World, namespace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: str, says: str
    ) -> None:
        monkeypatch.setattr(FakeGround, "up", self.full)
        verdict = self.verdict_of(world, namespace, tmp_path, claim)
        assert (verdict.outcome, verdict.summary) == (Outcome.ERROR, f"the run cannot be kept on {says}")

    def test_when_not_even_the_verdict_can_be_written(
        self, world: World, namespace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: str, says: str
    ) -> None:
        monkeypatch.setattr(Journal, "write", self.full)
        with pytest.raises(ToolTrouble) as said:
            self.verdict_of(world, namespace, tmp_path, claim)
        assert str(said.value) == f"the run cannot be kept on {says}"

    def full(self, *_: object, **__: object) -> None:
        raise TestAVolumeThatIsFull.FULL


def test_the_result() -> None:
    text = (Path(__file__).parents[4] / "chaos/scenarios/demo.yaml").read_text()
    counts = {"lost": 3, "acknowledged": 100, "longest_ack_gap_s": 0.314, "errors": {"LostAcknowledged": 3}}
    found = _result(parse_scenario(text), Verdict(Outcome.FAILED, "3 lost", counts))
    assert (found["verdict"], found["lost"], found["worstGap"]) == ("Failed", 3, "0.31 s")
    assert found["anomalies"] == [{"kind": "LostAcknowledged", "count": 3}]
    result = _result(parse_scenario(text), Verdict.without_judgement(Outcome.ERROR, "the ground is wet"))
    assert (result["verdict"], result["worstGap"]) == ("Error", "")
    assert "lost" not in result and "acknowledged" not in result, "a 0 would say that it was judged"
