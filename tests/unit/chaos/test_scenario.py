"""Scenario files: what comes with the project is right, and what is wrong is refused in one line that names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.scenario import Scenario, load_scenario, parse_scenario
from minikafka_chaos.scenario.steps import FaultSpec
from minikafka_operator.api.cluster import ClusterSpec

ROOT = Path(__file__).parents[3]

STORIES = {
    "kip-101-data-loss": ("leader-epoch", "high-watermark"),
    "kip-101-divergence": ("leader-epoch", "high-watermark"),
    "last-replica-standing": ("fence", "trust-isr"),
}


def document(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "ChaosExperiment",
        "metadata": {"name": "test", "labels": {"team": "a"}},
        "spec": {"topics": [{"name": "t", "partitions": 2}], "workload": {"topic": "t"}, **spec},
    }


def parse(**spec: Any) -> Scenario:
    return parse_scenario(yaml.safe_dump(document(**spec)))


def fault(name: str, verb: str = "Kill", **target: Any) -> dict[str, Any]:
    return {"name": name, "fault": {"verb": verb, "target": target}}


@pytest.mark.parametrize("name", library.names())
def test_every_scenario_that_comes_along_is_valid_and_named_as_its_file(name: str) -> None:
    scenario = library.find(name)
    assert scenario.name == name
    assert scenario.spec.description
    assert scenario.spec.claims


def test_the_scenarios_that_others_rely_on_are_there() -> None:
    stories = {f"{story}.{mode}" for story, modes in STORIES.items() for mode in modes}
    assert {"demo", "kill-leader", "soak", "caveat-unclean-election"} | stories <= set(library.names())


@pytest.mark.parametrize("story", sorted(STORIES))
def test_the_two_tellings_of_a_story_differ_in_one_configuration_value_only(story: str) -> None:
    """The verdict must come from the rule, not from another course of events."""
    one, two = (library.find(f"{story}.{mode}").as_json()["spec"] for mode in STORIES[story])
    assert one["steps"] == two["steps"]
    assert one["workload"] == two["workload"]
    assert one["topics"] == two["topics"]
    ours, theirs = ({entry["name"]: entry["value"] for entry in spec["cluster"]["config"]} for spec in (one, two))
    assert [key for key in ours if ours[key] != theirs.get(key)] in (
        ["minikafka.truncation.mode"],
        ["minikafka.unclean.shutdown.policy"],
    )


@pytest.mark.slow
def test_a_document_survives_a_round_trip() -> None:
    for name in library.names():
        scenario = library.find(name)
        assert parse_scenario(json.dumps(scenario.as_json())) == scenario


@pytest.mark.slow
def test_documents_keep_to_the_api_conventions_of_kubernetes() -> None:
    """No floats, camelCase fields, lists of named objects, and enumerations instead of booleans."""

    def walk(value: Any) -> None:
        assert not isinstance(value, float | bool), value
        for key, part in value.items() if isinstance(value, dict) else ():
            assert "_" not in key, key
            walk(part)
        for part in value if isinstance(value, list) else ():
            walk(part)

    for name in library.names():
        walk(library.find(name).as_json()["spec"])


def test_a_fault_may_leave_the_verb_to_the_seed() -> None:
    scenario = parse(steps=[{"name": "a", "fault": {"oneOf": ["Kill", "Pause"], "target": {"type": "Any"}}}])
    step = scenario.spec.steps[0]
    assert isinstance(step.fault, FaultSpec)
    assert step.fault.verbs == [Verb.KILL, Verb.PAUSE]


def claim(kind: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "type": kind, **more}


def lasting(verb: str, **more: Any) -> dict[str, Any]:
    return {"name": "a", "fault": {"verb": verb, "target": {"type": "Any"}, **more}}


WAIT_FOR_OTHER = {"name": "a", "wait": {"conditions": [{"type": "Acked", "atLeast": 1, "since": "b"}]}}

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("an unknown field", {"colour": "red"}, "spec.colour: unknown field"),
    ("a float", {"seed": 1.5}, "spec.seed"),
    ("text for a number", {"rounds": "3"}, "spec.rounds: Input should be a valid integer (given: '3')"),
    ("a number for text", {"cluster": {"config": [{"name": "a", "value": 1}]}}, "spec.cluster.config.0.value"),
    ("no topics", {"topics": []}, "spec.topics"),
    ("an unknown verb", {"steps": [fault("a", "Explode", type="Any")]}, "allowed: Start, Kill"),
    ("a step that does two things", {"steps": [fault("a", type="Any") | WAIT_FOR_OTHER]}, "exactly one of"),
    ("a step that does nothing", {"steps": [{"name": "a"}]}, "exactly one of"),
    ("a leader of nothing", {"steps": [fault("a", type="Leader")]}, "topic: needed by"),
    ("brokers without ids", {"steps": [fault("a", type="Brokers")]}, "brokers: needed by"),
    ("a broker that is not there", {"steps": [fault("a", type="Brokers", brokers=[3])]}, "there are 0 to 2"),
    ("the same as a later step", {"steps": [fault("a", type="SameAs", step="b"), fault("b", type="Any")]}, "b is no"),
    ("other than itself", {"steps": [fault("a", type="Any", otherThan=["a"])]}, "a is no earlier step"),
    ("a wait since a later step", {"steps": [WAIT_FOR_OTHER]}, "b is no earlier step"),
    ("two steps of one name", {"steps": [fault("a", type="Any")] * 2}, "the name a is used twice"),
    ("another topic", {"workload": {"topic": "u"}}, "workload.topic u: no such topic"),
    (
        "another partition",
        {"steps": [fault("a", type="Leader", topic="t", partition=2)]},
        "partitions 0 to 1, not 2",
    ),
    ("more replicas than brokers", {"cluster": {"brokers": 2}}, "replicationFactor 3 with 2 brokers"),
    (
        "half an assignment",
        {"topics": [{"name": "t", "partitions": 2, "replicaAssignments": [{"partition": 0, "replicas": [1]}]}]},
        "need each of 2 partitions once",
    ),
    (
        "a value twice",
        {"steps": [{"name": n, "send": {"topic": "t", "values": ["v"]}} for n in ("a", "b")]},
        "value v is sent twice",
    ),
    (
        "a power loss without an unflushed volume",
        {"cluster": {"unflushedVolume": "None"}, "steps": [fault("a", "PowerLoss", type="Any")]},
        "PowerLoss needs cluster.unflushedVolume: Separate",
    ),
    ("a peer for a kill", {"steps": [{"name": "a", "fault": {"verb": "Kill", "target": {"type": "Any"},
                                                            "peer": {"type": "Any"}}}]}, "only Cut, Delay, Loss, Heal have one"),
    ("a duration for what does not last", {"steps": [lasting("Start", durationSeconds=3)]}, "Start does not last"),
    ("a duration of nothing", {"steps": [lasting("Kill", durationSeconds=0)]}, "durationSeconds"),
    ("a delay without how much", {"steps": [lasting("Delay")]}, "parameters.millis: needed by Delay"),
    ("a delay into the past", {"steps": [lasting("Delay", parameters={"millis": -1})]}, "Delay needs at least 1"),
    ("a parameter of another verb", {"steps": [lasting("Cut", parameters={"percent": 5})]}, "allowed: direction"),
    ("more than all is lost", {"steps": [lasting("Loss", parameters={"percent": 101})]}, "parameters.percent"),
    ("an unknown direction", {"steps": [lasting("Cut", parameters={"direction": "Up"})]}, "Outbound"),
    ("a mode of a kill", {"steps": [lasting("Kill", parameters={"mode": "Torn"})]}, "allowed: no parameters"),
    ("no target", {"steps": [{"name": "a", "fault": {"verb": "Kill"}}]}, "target: Kill needs one"),
    ("a target for everything", {"steps": [lasting("StoreOutage")]}, "target: StoreOutage has none"),
    ("a kill that names a step", {"steps": [{"name": "a", "fault": {"verb": "Kill", "step": "b"}}]}, "only Recover"),
    ("an end of nothing", {"steps": [{"name": "a", "fault": {"verb": "Recover", "step": "b"}}]}, "b is no earlier step"),
    (
        "an end of what does not last",
        {"steps": [fault("b", "Start", type="Any"), {"name": "a", "fault": {"verb": "Recover", "step": "b"}}]},
        "step b makes nothing that lasts",
    ),
    (
        "the same as a step without a target",
        {"steps": [{"name": "b", "fault": {"verb": "StoreOutage"}}, fault("a", type="SameAs", step="b")]},
        "step b chooses no broker",
    ),
    ("a claim since nothing", {"claims": [claim("NoAcknowledgedRecordLost", since="x")]}, "since names no step"),
    ("a claim that excuses divergence", {"claims": [claim("NoDivergence", since="x")]}, "since is for"),
    ("a gap without a limit", {"claims": [claim("AckGapAtMost")]}, "limitMillis is needed"),
    (
        "a comparison with nothing",
        {"steps": [{"name": "a", "wait": {"conditions": [{"type": "LogEndOffset", "broker": 1, "topic": "t"}]}}]},
        "needs equals, atLeast or atMost",
    ),
    (
        "an ISR of nobody in particular",
        {"steps": [{"name": "a", "wait": {"conditions": [{"type": "Isr", "topic": "t"}]}}]},
        "Isr: needs either brokers or otherThan",
    ),
    ("a member without a group", {"steps": [{"name": "a", "member": {"verb": "Crash"}}]}, "workload.groupMembers"),
    ("a dead letter of no poison",
     {"workload": {"topic": "t", "groupMembers": 1},
      "steps": [{"name": "a", "member": {"verb": "Crash", "at": "BeforeDeadLetter"}}]},
     "step a: at BeforeDeadLetter: needs workload.groupPoisonEvery"),
    ("a state of no group", {"steps": [{"name": "a", "wait": {"conditions": [{"type": "GroupAtEnd"}]}}]},
     "step a: needs a consumer group"),
    ("a coordinator of no group", {"steps": [fault("a", type="Coordinator")]}, "step a: needs a consumer group"),
    ("poison without a group", {"workload": {"topic": "t", "groupPoisonEvery": 3}},
     "workload.groupPoisonEvery: needs workload.groupMembers"),
    ("dead letters without a topic", {"workload": {"topic": "t", "groupMembers": 1, "groupPoisonEvery": 3}},
     "workload.groupPoisonEvery: topics has to have t.dlq"),
    ("poison that is committed first",
     {"workload": {"topic": "t", "groupMembers": 1, "groupPoisonEvery": 3, "groupCommit": "BeforeProcessing"}},
     "needs workload.groupCommit AfterProcessing, not BeforeProcessing"),
    ("a way to write no dead letters", {"workload": {"topic": "t", "groupMembers": 1, "groupDeadLetters": "AfterCommit"}},
     "workload.groupDeadLetters AfterCommit: needs workload.groupPoisonEvery"),
    ("an unknown condition", {"steps": [{"name": "a", "wait": {"conditions": [{"type": "Weather"}]}}]}, "Weather"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "names"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_refused_in_one_line_that_names_it(spec: dict[str, Any], names: str) -> None:
    with pytest.raises(BadScenario) as caught:
        parse(**spec)
    message = str(caught.value)
    assert names in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a: [", "not YAML"),
        ("", "0 documents"),
        ("a: 1\n---\nb: 2\n", "2 documents"),
        ("- 1\n", "should be an object"),
        ("when: 2020-01-01\n", "not JSON serializable"),
        (yaml.safe_dump(document() | {"kind": "Pod"}), "kind"),
    ],
)
def test_what_is_no_scenario_at_all_is_refused(text: str, names: str) -> None:
    with pytest.raises(BadScenario, match=names):
        parse_scenario(text)


@pytest.mark.parametrize("config", ["a text", None])
def test_a_setting_for_what_has_none_is_refused(config: Any) -> None:
    with pytest.raises(BadScenario, match=r"--set num\.partitions=3: config is no list"):
        parse_scenario(yaml.safe_dump(document(cluster={"config": config})), settings=["num.partitions=3"])


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match="No such file"):
        load_scenario(tmp_path / "nowhere.yaml")
    with pytest.raises(BadScenario, match="no scenario of that name"):
        library.find("nowhere")


def test_the_example_is_an_experiment() -> None:
    example = load_scenario(ROOT / "docs/guide/examples/watched-experiment.yaml")
    assert example.spec.cluster_ref is not None
    cluster = yaml.safe_load((ROOT / "docs/guide/examples/watched-cluster.yaml").read_text())
    assert cluster["metadata"]["name"] == example.spec.cluster_ref.name
    assert ClusterSpec.model_validate(cluster["spec"]).chaos.allowed


def test_brokers_of_an_experiment_may_be_secured_among_themselves(tmp_path: Path) -> None:
    """31 item 1: its clients have neither TLS nor SASL, which is said before anything is started."""
    own = [
        {"name": "listener.name.replication.ssl.client.auth", "value": "required"},
        {"name": "listener.security.protocol.map", "value": "REPLICATION:SSL"},
    ]
    ground = ProcessesGround(tmp_path)
    assert list(ground.refusals(parse(cluster={"config": own}).spec)) == []
    own[1]["value"] = "PLAINTEXT:SSL"
    (line,) = ground.refusals(parse(cluster={"config": own}).spec)
    assert line.startswith("cluster.config listener.security.protocol.map: PLAINTEXT:SSL: the clients of experiments")
    with pytest.raises(BadScenario, match="known to Kafka, not supported"):
        parse(cluster={"config": [{"name": "listener.name.replication.ssl.provider", "value": "x"}]})
