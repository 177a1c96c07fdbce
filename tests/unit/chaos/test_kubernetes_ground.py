"""The Kubernetes ground, with a Kubernetes that the tests play: what it asks for, when, and what it makes of the answers."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import socket
import ssl
import tarfile
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from minikafka.cli.main import main
from minikafka.client.metrics_access import MetricsAccess
from minikafka.client.security import ClientSecurity
from minikafka.protocol.types import TopicPartition
from minikafka.security.tls import TlsSettings
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.errors import BadScenario, ToolTrouble
from minikafka_chaos.grounds import BrokerCondition, kubernetes, kubernetes_agents
from minikafka_chaos.grounds.kubernetes import ClientListener, KubernetesGround, cluster_name
from minikafka_chaos.grounds.kubernetes_agents import AgentClient, NotDone
from minikafka_chaos.grounds.kubernetes_api import ExecResult, NotReached, Object, Refused, _exit_code, connect
from minikafka_chaos.record.replica_logs import ReplicaLogError
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.faults import Fault, Parameters, Targets, WipeMode
from minikafka_chaos.scenario.scenario import ClusterSpec, ScenarioSpec

from tests.certificates import authority

WHERE = TopicPartition("t", 0)
SPEC = library.find("demo").spec


def packed(files: dict[str, bytes]) -> dict[str, Any]:
    """What the verbs `logs` and `events` answer."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return {"tar": base64.b64encode(raw.getvalue()).decode()}


class FakeNamespace:
    """Three brokers with their agents. `asked` has every verb as ``BROKER VERB``, in order."""

    name = "lab"

    def __init__(self) -> None:
        self.created: list[Object] = []
        self.deleted: list[str] = []
        self.asked: list[str] = []
        self.words: list[Sequence[str]] = []
        self.conditions = dict.fromkeys(range(5), "running")
        self.faults: dict[int, list[dict[str, Any]]] = {}
        self.now = 1_790_000_000.75
        """By the clock of the brokers' nodes."""
        self.started = dict.fromkeys(range(5), self.now)
        """When the container of each broker was started, as the kubelet knows it."""
        self.late = False
        """Whether the kubelet still tells of a broker as it was before it ended."""
        self.secured_metrics = False
        self.keystore = Path()
        self.heard: list[str] = []
        """Of those that read metrics past the API server."""
        self.fenced: set[int] = set()
        """Brokers that answer that they are not ready."""
        self.agent = True
        self.status: Object = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.failing: dict[str, str] = {}
        """Errors by ``BROKER VERB``."""
        self.recovered = True
        self.refuse: ToolTrouble | None = None

    def within(self, name: str) -> FakeNamespace:
        """Nobody asks for a network agent in these tests; see test_kubernetes_network.py."""
        return self

    def get(self, kind: str, name: str) -> Object | None:
        if kind == "minikafkaclusters":
            there = self.created and name not in self.deleted
            return {**self.created[-1], "status": self.status} if there else None
        broker = int(name.rpartition("-")[2])
        ready = self.late or self.conditions[broker] != "held"
        started = datetime.fromtimestamp(self.started[broker], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        container = {"name": "broker", "ready": ready, "state": {"running": {"startedAt": started}}}
        names = ["broker", "chaos-agent"] if self.agent else ["broker"]
        probe = {"httpGet": {"scheme": "HTTPS" if self.secured_metrics else "HTTP"}}
        return {
            "spec": {"containers": [{"name": each, "readinessProbe": probe} for each in names]},
            "status": {"containerStatuses": [container]},
        }

    def create(self, kind: str, made: Object) -> Object:
        if self.refuse is not None:
            raise self.refuse
        self.created.append(made)
        return made

    def delete(self, kind: str, name: str) -> None:
        self.deleted.append(name)

    def page(self, pod: str, port: int, path: str, seconds: float) -> str:
        assert port == 9404
        assert pod.startswith("https:") == self.secured_metrics
        if path == "/readyz":
            if int(pod.rpartition("-")[2]) in self.fenced:
                raise OSError("503: fenced")
            return "ready"
        assert path == "/metrics"
        return f'minikafka_log_end_offset{{topic="t",partition="0"}} {pod.rpartition("-")[2]}\n'

    def forward(self, pod: str, port: int) -> socket.socket:
        """To a broker that answers once."""
        assert (pod, port) == ("run-1-broker-1", 9404)
        ours, theirs = socket.socketpair()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.keystore)

        def serve() -> None:
            with contextlib.suppress(OSError), context.wrap_socket(theirs, server_side=True) as stream:
                if heard := stream.recv(1 << 16).decode():
                    self.heard.append(heard)
                page = b'minikafka_log_end_offset{topic="t",partition="0"} 7\n'
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)

        threading.Thread(target=serve, daemon=True).start()
        return ours

    def run(self, pod: str, container: str, command: Sequence[str]) -> ExecResult:
        assert (container, *command[:2]) == ("chaos-agent", "minikafka", "agent")
        broker, verb = int(pod.rpartition("-")[2]), command[2]
        self.asked.append(f"{broker} {verb}")
        self.words.append(command[2:])
        if error := self.failing.get(f"{broker} {verb}"):
            return ExecResult(3, json.dumps({"error": error}), "")
        return ExecResult(0, json.dumps(self._answer(broker, verb)), "")

    def _answer(self, broker: int, verb: str) -> dict[str, Any]:
        self.now += 2.5
        match verb:
            case "kill" | "terminate":
                repeated, self.conditions[broker] = self.conditions[broker] == "held", "held"
                if not repeated:
                    self.faults[broker] = [{"id": "x", "verb": verb, "at": self.now}]
                return {**self.faults[broker][0], "repeated": repeated}
            case "pause":
                self.conditions[broker] = "paused"
            case "resume" | "release" | "recover":
                self.faults.pop(broker, None)
                if self.conditions[broker] == "held" and not self.late:
                    self.started[broker] = self.now
                was, self.conditions[broker] = self.conditions[broker], "running"
                return {"recovered": ["x"] if self.recovered and was != "running" else []}
            case "logs":
                return packed({"data/t-0/00000000000000000000.log": b"", "data/meta.properties": b""})
            case "events":
                return packed({f"broker-{broker}.jsonl": b"{}\n"})
            case "checkpoint":
                return {"content": "0\n1\nt 0 7\n"}
        return {
            "condition": self.conditions[broker],
            "verb": verb,
            "repeated": False,
            "faults": self.faults.get(broker, []),
        }


@pytest.fixture
def space() -> FakeNamespace:
    return FakeNamespace()


Make = Callable[..., KubernetesGround]


@pytest.fixture
def make(space: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A ground whose cluster is up."""
    monkeypatch.setattr(KubernetesGround, "_must_be_reached", lambda self: None)
    monkeypatch.setattr(kubernetes, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(kubernetes_agents, "RETRY_PAUSE_SECONDS", 0.001)

    def made(**options: Any) -> KubernetesGround:
        space.status.setdefault("brokers", [{"id": each, "external": f"node:{each}"} for each in range(5)])
        ground = KubernetesGround(space, "run-1", tmp_path, **options)  # type: ignore[arg-type]
        ground.up(SPEC, 1)
        return ground

    return made


class TestUp:
    def test_what_is_made(self, make: Make, space: FakeNamespace) -> None:
        config = [
            {"name": "broker.session.timeout.ms", "value": "1000"},
            {"name": "min.insync.replicas", "value": "1"},
            {"name": "log.flush.interval.messages", "value": "5"},
        ]
        spec = ClusterSpec.model_validate_json(json.dumps({"brokers": 2, "config": config, "unflushedVolume": "None"}))
        template = {"brokers": {"resources": {"requests": {"cpu": "1m"}}}, "storage": {"size": "9Mi"}}
        ground = make(template=template)
        made = ground.manifest(spec)["spec"]
        assert made == {
            "brokers": {"replicas": 2, "resources": {"requests": {"cpu": "1m"}}},
            "replication": {"defaultFactor": 2, "minInsyncReplicas": 1},
            "config": {
                "broker.session.timeout.ms": "3000",
                "log.flush.interval.messages": "5",
                "minikafka.ready.in.sync.timeout.ms": "0",
                "group.initial.rebalance.delay.ms": "0",
            },
            "storage": {"size": "9Mi", "deleteClaim": True},
            "chaos": {"allowed": True},
            "listeners": {"external": {"type": "NodePort"}},
        }
        usual = ground.manifest(ClusterSpec())["spec"]
        assert usual["replication"] == {"defaultFactor": 3, "minInsyncReplicas": 2}, "as `minikafka up` has it"
        assert usual["unflushedVolume"] == {}

    def test_limits_are_those_of_the_volumes(self, make: Make) -> None:
        """27 D28: on one machine they are settings, which the operator makes of the volumes."""
        limits = {"minikafka.unflushed.max.bytes": 15 << 20, "minikafka.events.max.bytes": 30 << 20}
        config = [{"name": name, "value": str(value)} for name, value in limits.items()]
        made = make().manifest(ClusterSpec.model_validate_json(json.dumps({"config": config})))["spec"]
        assert (made["unflushedVolume"], made["flightRecorder"]) == (
            {"sizeLimit": str(16 << 20)},
            {"size": str(32 << 20)},
        )
        assert not limits.keys() & made["config"].keys()

    def test_where_it_is(self, make: Make) -> None:
        assert make().address == "node:0,node:1,node:2"
        inside = make(listener=ClientListener.INTERNAL)
        assert inside.address.startswith("run-1-broker-0.run-1-brokers.lab.svc:9092,")
        assert "listeners" not in inside.manifest(ClusterSpec())["spec"]

    def test_refused(self, make: Make, space: FakeNamespace) -> None:
        space.refuse = Refused(404, "the server could not find the requested resource")
        with pytest.raises(ToolTrouble, match="is the operator installed"):
            make()
        space.refuse = Refused(400, 'strict decoding error: unknown field "spec.chaos"')
        with pytest.raises(ToolTrouble, match="unknown field"):
            make()

    def test_not_accepted(self, make: Make, space: FakeNamespace) -> None:
        space.status = {"conditions": [{"type": "Accepted", "status": "False", "message": "spec.config: x"}]}
        with pytest.raises(ToolTrouble, match=r"spec\.config: x"):
            make()

    def test_no_agent(self, make: Make, space: FakeNamespace) -> None:
        space.agent = False
        with pytest.raises(ToolTrouble, match="no container chaos-agent"):
            make()

    def test_no_address(self, make: Make, space: FakeNamespace) -> None:
        space.status["brokers"] = [{"id": 0}]
        with pytest.raises(ToolTrouble, match="no address outside"):
            make()

    def test_nobody_answers_there(self, space: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kubernetes, "REACH_SECONDS_MAX", 0)
        space.status["brokers"] = [{"id": each, "external": "127.0.0.1:1"} for each in range(3)]
        ground = KubernetesGround(space, "run-1", tmp_path)  # type: ignore[arg-type]
        with pytest.raises(ToolTrouble, match=r"not reached from here at 127\.0\.0\.1:1"):
            ground.up(SPEC, 1)
        ground.down()
        assert space.deleted == ["run-1"], "a cluster that was of no use goes all the same"


class TestFaults:
    def test_killed_and_started(self, make: Make, space: FakeNamespace) -> None:
        ground = make()
        ground.kill([1])
        assert ground.condition(1) is BrokerCondition.DEAD
        assert ground.live_bootstrap == "node:0,node:2"
        space.conditions[1] = "running"  # the API server does not know yet that it is dead
        assert not ground.is_ready(1)
        space.conditions[1] = "held"
        ground.start(1)
        assert ground.is_ready(1)
        assert [each for each in space.asked if "state" not in each] == ["1 kill", "1 release"]
        assert ground.live_bootstrap == "node:0,node:1,node:2"
        with pytest.raises(ToolTrouble, match="runs already"):
            ground.start(1)

    @pytest.mark.parametrize("how", ["kill", "terminate", "_laid_to_rest"])
    def test_what_the_kubelet_says_of_the_container_that_was_ended_is_old(
        self, make: Make, space: FakeNamespace, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        """However it was ended: after its log was read it was believed, and an experiment ended with a broker down."""
        monkeypatch.setattr(kubernetes, "RESTART_SECONDS_MAX", -1)
        ground, space.late = make(), True
        getattr(ground, how)([1] if how == "kill" else 1)
        with pytest.raises(ToolTrouble, match="broker 1 was not started again"):
            ground.start(1)
        assert space.conditions[1] == "running" and not ground.is_ready(1), "still the same container"
        space.started[1] = space.now
        assert ground.is_ready(1)

    def test_also_where_the_answer_to_the_verb_was_lost(
        self, make: Make, space: FakeNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kubernetes, "RESTART_SECONDS_MAX", -1)
        ground, space.late = make(), True
        ask = ground.agents.ask

        def lost(broker: int, *words: object) -> dict[str, Any]:
            answer = ask(broker, *words)
            if words[0] == "kill":
                raise NotReached("the connection broke")
            return answer

        monkeypatch.setattr(ground.agents, "ask", lost)
        with pytest.raises(NotReached):
            ground.kill([1])
        with pytest.raises(ToolTrouble, match="broker 1 was not started again"):
            ground.heal_all()
        assert not ground.is_ready(1)

    def test_asked_again_by_a_connection_that_broke_it_is_one_end(self, make: Make, space: FakeNamespace) -> None:
        """The agent answers when it was, also where it has done it before."""
        ground = make()
        ground.terminate(1)
        space.started[1] = space.now  # its container waits at the gate already
        ground.terminate(1)
        ground._held.clear()
        space.late = True
        assert ground.is_ready(1)

    def test_a_broker_is_ready_when_it_says_so_itself(self, make: Make, space: FakeNamespace) -> None:
        """The kubelet asks it every second or so, and takes two refusals: of one that goes on after a pause it may be wrong."""
        ground = make()
        space.fenced.add(1)
        assert not ground.is_ready(1) and ground.is_ready(0)

    def test_secured_metrics(self, make: Make, space: FakeNamespace, tmp_path: Path) -> None:
        """The API server would not pass on the token, so it is shown to the broker itself, by the name in its certificate."""
        space.secured_metrics, space.keystore = True, tmp_path / "broker.pem"
        space.keystore.write_text(authority().issue("run-1-broker-1.run-1-brokers.lab.svc"))
        (tmp_path / "token").write_text("token-of-the-tests-1")
        access = MetricsAccess(TlsSettings(truststore_certificates=authority().pem), str(tmp_path / "token"))
        ground = make(security=lambda: ClientSecurity(metrics=access))
        assert ground.is_ready(1)
        assert ground.replica_status(1, WHERE).log_end_offset == 7
        assert "Authorization: Bearer token-of-the-tests-1\r\n" in space.heard[0]
        for signer, name in ((authority("other"), "run-1-broker-1"), (authority(), "run-1-broker-0")):
            space.keystore.write_text(signer.issue(f"{name}.run-1-brokers.lab.svc"))
            assert ground.replica_status(1, WHERE).log_end_offset is None
        assert len(space.heard) == 1, "nobody else in its place gets the token"

    def test_several_at_one_moment(self, make: Make, space: FakeNamespace) -> None:
        """Frozen first, so that none of them acts on the death of another."""
        make().kill([0, 2])
        asked = [each for each in space.asked if "state" not in each]
        assert sorted(asked[:2]) == ["0 pause", "2 pause"]
        assert sorted(asked[2:]) == ["0 kill", "2 kill"]

    def test_every_fault_has_an_end_and_an_id_of_its_own(self, make: Make, space: FakeNamespace) -> None:
        ground = make()
        for number, verb in enumerate((Verb.PAUSE, Verb.TERMINATE, Verb.POWER_LOSS)):
            ground.inject(Fault(f"f{number}", verb), Targets((number,)))
        faults = [words for words in space.words if words[0] in ("pause", "kill", "terminate", "wipe-unflushed")]
        assert [words[0] for words in faults] == ["pause", "terminate", "kill", "wipe-unflushed"]
        assert all("--seconds" in words for words in faults[:3])
        assert len({words[words.index("--id") + 1] for words in faults}) == 4

    def test_asked_twice_for_one_fault_it_makes_one(self, make: Make, space: FakeNamespace) -> None:
        ground = make()
        ids = []
        for _ in range(2):
            ground.inject(Fault("f1", Verb.KILL), Targets((0,)))
            ids.append(next(words[words.index("--id") + 1] for words in reversed(space.words) if words[0] == "kill"))
        assert ids[0] == ids[1]

    @pytest.mark.parametrize(
        ("verb", "duration_s", "seconds"),
        [
            (Verb.KILL, None, 1800),
            (Verb.KILL, 30.0, 150.0),
            (Verb.KILL, 4000.0, 3600),
            (Verb.PAUSE, None, 50),
            (Verb.PAUSE, 5.0, 50),
        ],
    )
    def test_the_agent_ends_what_the_run_has_not(
        self, make: Make, space: FakeNamespace, verb: Verb, duration_s: float | None, seconds: float
    ) -> None:
        make().inject(Fault("f1", verb, duration_s=duration_s), Targets((0,)))
        (words,) = (each for each in space.words if each[0] in ("kill", "pause"))
        assert float(words[words.index("--seconds") + 1]) == seconds

    def test_a_pause_that_has_ended_by_itself(self, make: Make, space: FakeNamespace) -> None:
        ground = make()
        handle = ground.inject(Fault("f1", Verb.PAUSE), Targets((0,)))
        space.conditions[0] = "running"
        assert ground.recover(handle) == [], "who undoes it is content"
        space.recovered = False
        with pytest.raises(ToolTrouble, match="ends by itself"):
            ground.inject(Fault("f2", Verb.RESUME), Targets((0,)))

    def test_recovered(self, make: Make, space: FakeNamespace) -> None:
        ground = make()
        killed = ground.inject(Fault("f1", Verb.POWER_LOSS), Targets((0, 1)))
        assert ground.recover(killed) == ["started broker 0", "started broker 1"]
        assert ground.recover(killed) == []

    def test_a_part_of_what_is_unflushed_is_lost(self, make: Make, space: FakeNamespace) -> None:
        ground = make()
        ground.up(SPEC, 7)
        for fault_id, mode in (("a", WipeMode.TORN), ("a", WipeMode.TORN), ("b", WipeMode.GARBAGE), ("c", None)):
            ground.inject(Fault(fault_id, Verb.WIPE_UNFLUSHED, Parameters(mode=mode)), Targets((0,)))
        told = [
            dict(zip(words[1::2], words[2::2], strict=True)) for words in space.words if words[0] == "wipe-unflushed"
        ]
        assert [each["--mode"] for each in told] == ["torn", "torn", "garbage", "all"]
        assert told[0]["--seed"] == told[1]["--seed"] != told[2]["--seed"]

    def test_wipes_need_a_dead_broker(self, make: Make, space: FakeNamespace) -> None:
        space.failing["0 wipe-volume"] = "the broker is not held: kill or terminate it first"
        with pytest.raises(ToolTrouble, match="kill or terminate it first"):
            make().inject(Fault("f1", Verb.WIPE_VOLUME), Targets((0,)))

    def test_heal_all(self, make: Make, space: FakeNamespace) -> None:
        ground = make()
        ground.pause([0])
        ground.kill([2])
        assert ground.heal_all() == ["resumed broker 0", "started broker 2"]
        assert ground.heal_all() == []

    def test_an_agent_that_refuses(self, make: Make, space: FakeNamespace) -> None:
        space.failing["1 kill"] = "the broker does not run"
        ground = make()
        with pytest.raises(NotDone, match="broker 1: agent kill: the broker does not run"):
            ground.kill([1])
        assert 1 not in ground._held

    def test_refused_beforehand(self, make: Make) -> None:
        pause = {"verb": "Pause", "target": {"type": "Any"}, "durationSeconds": 60}
        cluster = {"racks": ["a"]}
        document = {**SPEC.model_dump(mode="json", by_alias=True), "cluster": cluster}
        document["steps"] = [{"name": "long", "fault": pause}]
        told = list(make().refusals(ScenarioSpec.model_validate_json(json.dumps(document))))
        assert len(told) == 2
        assert told[0].startswith("cluster.racks")
        assert told[1].startswith("step long: durationSeconds: at most 50")
        assert list(make().refusals(SPEC)) == []


class TestLooks:
    def test_metrics_by_the_api_server(self, make: Make, tmp_path: Path) -> None:
        ground = make()
        assert ground.replica_status(2, WHERE).log_end_offset == 2
        observer = ground.observer(tmp_path / "metrics")
        observer.start()
        observer.stop()
        lines = [json.loads(line) for line in observer.path.read_text().splitlines()]
        assert {line["broker"]: line["samples"][0][2] for line in lines} == {0: 0.0, 1: 1.0, 2: 2.0}

    def test_a_checkpoint(self, make: Make) -> None:
        ground = make()
        assert ground.checkpointed_high_watermark(0, WHERE) == 7
        assert ground.checkpointed_high_watermark(0, TopicPartition("u", 0)) is None


class TestDown:
    def test_files_are_fetched_at_rest_and_the_cluster_goes(
        self, make: Make, space: FakeNamespace, tmp_path: Path
    ) -> None:
        ground = make()
        ground.kill([1])
        space.asked.clear()
        assert ground.down() == []
        for broker in (0, 1, 2):
            verbs = [each.split()[1] for each in space.asked if each.startswith(str(broker))]
            assert verbs == ["state", *([] if broker == 1 else ["terminate"]), "events", "logs"]
            assert ground.replica_log(broker, WHERE).batches == []
        assert space.deleted == ["run-1"]
        ground.collect_events(tmp_path / "collected")
        assert sorted(path.name for path in (tmp_path / "collected").iterdir()) == [
            f"broker-{broker}.jsonl" for broker in range(3)
        ]
        assert ground.down() == [], "twice"
        assert space.deleted == ["run-1"]
        assert next(words for words in space.words if words[0] == "logs")[1:] == ["--topic", "bank"]

    def test_a_cluster_that_was_there_goes_on(self, make: Make, space: FakeNamespace, tmp_path: Path) -> None:
        space.created.append({"spec": {"brokers": {"replicas": 2}}})
        ground = make(existing=True)
        assert len(space.created) == 1
        assert list(ground.brokers) == [0, 1], "as many as it has, whatever the scenario says"
        ground.down()
        assert space.deleted == []
        assert set(space.conditions.values()) == {"running"}
        assert ground.replica_log(1, WHERE).batches == []

    def test_what_cannot_be_fetched_is_told_and_the_cluster_goes(self, make: Make, space: FakeNamespace) -> None:
        space.failing["1 logs"] = "no more"
        ground = make()
        with pytest.raises(ToolTrouble, match="broker 1: agent logs: no more"):
            ground.down()
        assert space.deleted == ["run-1"]
        assert ground.replica_log(0, WHERE).batches == []
        with pytest.raises(ReplicaLogError, match="broker 1"):
            ground.replica_log(1, WHERE)


class TestAgents:
    def agents(self, answers: list[ExecResult | ToolTrouble]) -> AgentClient:
        class Answering:
            def run(self, pod: str, container: str, command: Sequence[str]) -> ExecResult:
                answer = answers.pop(0)
                if isinstance(answer, ToolTrouble):
                    raise answer
                return answer

        return AgentClient(Answering(), str)  # type: ignore[arg-type]

    def test_asked_again_when_there_was_no_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kubernetes_agents, "RETRY_PAUSE_SECONDS", 0.001)
        tries = [NotReached("away"), ExecResult(0, "", ""), ExecResult(0, '{"tar":"H4sI', ""), ExecResult(0, "{}", "")]
        assert self.agents(tries).ask(0, "state") == {}

    def test_but_not_when_it_was_no(self) -> None:
        with pytest.raises(Refused):
            self.agents([Refused(403, "not allowed"), ExecResult(0, "{}", "")]).ask(0, "state")

    @pytest.mark.parametrize(
        ("ended", "said"),
        [
            (ExecResult(127, "", "minikafka: not found"), "minikafka: not found"),
            (ExecResult(2, '{"error":"--id"}', ""), "agent kill: --id"),
            (ExecResult(0, "[]", ""), "agent kill"),
            (ExecResult(3, "{}", ""), "agent kill"),
        ],
    )
    def test_answers_that_are_none(self, ended: ExecResult, said: str) -> None:
        with pytest.raises(NotDone, match=said):
            self.agents([ended]).ask(0, "kill")

    def test_a_tar_that_reaches_out(self, tmp_path: Path) -> None:
        answer = ExecResult(0, json.dumps(packed({"../outside": b"x"})), "")
        with pytest.raises(ToolTrouble, match="outside"):
            self.agents([answer]).fetch(0, tmp_path / "in", "logs")
        assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ('{"status":"Success"}', 0),
        ('{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}', 3),
        ('{"status":"Failure","message":"container not found"}', None),
        ("", None),
        ("null", None),
    ],
)
def test_how_a_command_ended(status: str, code: int | None) -> None:
    assert _exit_code(status) == code


def test_a_context_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}
    config = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
    path = tmp_path / "config"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "here", **config}))
    assert connect(path).namespace == "lab"
    assert connect(path, "here").in_pod is False
    with pytest.raises(BadScenario, match=r"--context there: not in the kubeconfig; allowed: here"):
        connect(path, "there")
    arguments = ["chaos", "run", "demo", "--ground", "kubernetes", "--kubeconfig", str(path)]
    assert main([*arguments, "--context", "there", "--out", str(tmp_path / "runs")]) == 2
    assert not (tmp_path / "runs").exists()
    assert main([*arguments[:-1], str(tmp_path / "none")]) == 3
    assert "no way to a Kubernetes cluster" in capsys.readouterr().err


@pytest.mark.slow
def test_names() -> None:
    for name in library.names():
        scenario = library.find(name)
        made = cluster_name(scenario)
        assert made != cluster_name(scenario)
        assert len(made) <= 40 and made[0].isalpha() and "." not in made
