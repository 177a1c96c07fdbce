"""The brokers' properties files, and settings that no broker would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from minikafka.config import BrokerConfig
from minikafka.config.properties import parse_properties
from minikafka_operator.api.cluster import OPERATOR_KEYS, TYPED_KEYS, ClusterSpec
from minikafka_operator.manifests.properties import Address, broker_properties, properties_text, settings_problems

from .world import NAMES, World


def spec(**given: Any) -> ClusterSpec:
    return ClusterSpec.model_validate(given)


def properties(broker_id: int = 1, external: Address | None = None, **given: Any) -> dict[str, str]:
    return broker_properties(spec(**given), NAMES, broker_id, external)


def test_inside() -> None:
    made = properties()
    assert made["node.id"] == "1"
    assert made["advertised.listeners"] == (
        "CLIENT://demo-broker-1.demo-brokers.ns.svc:9092,REPLICATION://${env:POD_IP}:9091"
    )
    assert made["inter.broker.listener.name"] == "REPLICATION"
    assert made["minikafka.metadata.store"] == "kubernetes"
    assert (made["minikafka.kubernetes.namespace"], made["minikafka.kubernetes.cluster"]) == ("ns", "demo")
    assert (made["default.replication.factor"], made["min.insync.replicas"]) == ("3", "2")
    assert "minikafka.unflushed.dir" not in made
    assert "broker.rack" not in made


@pytest.mark.parametrize("config", [{}, {"auto.create.topics.enable": "true"}], ids=["unsaid", "said"])
def test_topics_are_not_made_for_who_asks_for_them(config: dict[str, str]) -> None:
    made = properties(config=config)
    assert made["auto.create.topics.enable"] == config.get("auto.create.topics.enable", "false")


@pytest.mark.slow
def test_where_they_were_they_still_are() -> None:
    """A cluster of an operator that did not say so is not changed by a new one, nor is a broker that comes to it."""
    world = World()
    world.settle()
    files = world.objects["ConfigMap", NAMES.config]["data"]
    assert all("\nauto.create.topics.enable=false\n" in text for text in files.values())
    for name, text in files.items():
        files[name] = text.replace("auto.create.topics.enable=false\n", "")
    world.edit(brokers={"replicas": 4})
    world.settle()
    files = world.objects["ConfigMap", NAMES.config]["data"]
    assert len(files) == 4 and not [text for text in files.values() if "auto.create" in text]


@pytest.mark.parametrize(
    ("host", "port", "shown"),
    [
        ("10.0.0.7", 31000, "10.0.0.7:31000"),
        ("fd00::7", 9094, "[fd00::7]:9094"),
        ("${env:HOST_IP}", 1, "${env:HOST_IP}:1"),
    ],
)
def test_outside(host: str, port: int, shown: str) -> None:
    made = properties(external=Address(host, port))
    assert made["advertised.listeners"].endswith(f",EXTERNAL://{shown}")
    assert made["listeners"].endswith(",EXTERNAL://:9094")
    assert "EXTERNAL:PLAINTEXT" in made["listener.security.protocol.map"]


def test_a_broker_understands_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("POD_IP", "HOST_IP", "BROKER_RACK"):
        monkeypatch.setenv(name, "10.9.8.7")
    given = {"rack": {"topologyKey": "zone"}, "unflushedVolume": {}, "config": {"log.retention.hours": "3"}}
    file = tmp_path / "broker.properties"
    file.write_text(properties_text(properties(external=Address("${env:HOST_IP}", 31001), **given)))
    config = BrokerConfig.from_file(file)
    assert config.node_id == 1
    assert config.log_retention_hours == 3
    assert config.minikafka_unflushed_dir == "/var/lib/minikafka/unflushed"
    assert config.minikafka_events_path == "/var/lib/minikafka/events/broker-1.jsonl"
    assert config.metadata_store.kind == "kubernetes"


@pytest.mark.parametrize(
    "value", ["plain", " leading", "a=b:c", "back\\slash", "two\nlines", "tab\there", "${env:POD_IP}", ""]
)
def test_values_survive_the_file(value: str) -> None:
    read = parse_properties(properties_text({"some.key": value, "odd key=": "x"}))
    assert read == {"some.key": value.strip(), "odd key=": "x"}


class TestOffsetsTopic:
    def test_as_many_replicas_as_topics_have(self) -> None:
        made = properties(replication={"defaultFactor": 1, "minInsyncReplicas": 1})
        assert made["offsets.topic.replication.factor"] == "1"

    def test_but_three_are_enough(self) -> None:
        made = properties(replication={"defaultFactor": 5, "minInsyncReplicas": 2}, brokers={"replicas": 5})
        assert made["offsets.topic.replication.factor"] == "3"

    def test_unless_somebody_says_so(self) -> None:
        assert properties(config={"offsets.topic.replication.factor": "2"})["offsets.topic.replication.factor"] == "2"


class TestProblems:
    def test_none(self) -> None:
        everything = {
            "listeners": {"external": {"type": "NodePort"}},
            "rack": {"topologyKey": "z"},
            "unflushedVolume": {},
        }
        assert settings_problems(spec(**everything), NAMES) == ()

    def test_each_is_one_line_that_names_the_setting(self) -> None:
        found = settings_problems(
            spec(config={"no.such.key": "1", "num.partitions": "0", "log.segment.bytes": "x"}), NAMES
        )
        assert len(found) == 3
        for name in ("no.such.key", "num.partitions", "log.segment.bytes"):
            assert [line for line in found if line.startswith(f"spec.config: {name}=") and "allowed: " in line]

    def test_settings_that_contradict_each_other(self) -> None:
        (line,) = settings_problems(spec(config={"replica.socket.timeout.ms": "400"}), NAMES)
        assert "replica.fetch.wait.max.ms" in line

    def test_variables_of_the_pod(self) -> None:
        assert settings_problems(spec(config={"minikafka.truncation.mode": "${env:MODE}"}), NAMES)
        assert not settings_problems(spec(config={"log.retention.hours": "1"}), NAMES)


def test_what_the_operator_sets_cannot_be_set() -> None:
    """Otherwise a setting in ``spec.config`` would silently win or lose. Three are defaults, and may."""
    everything = {"listeners": {"external": {"type": "NodePort"}}, "rack": {"topologyKey": "z"}, "unflushedVolume": {}}
    made = set(properties(external=Address("h", 1), **everything))
    assert made - set(OPERATOR_KEYS) - set(TYPED_KEYS) == {
        "offsets.topic.replication.factor",
        "minikafka.ready.in.sync.timeout.ms",
        "auto.create.topics.enable",
    }


def test_a_broker_knows_how_much_its_volumes_take() -> None:
    """27 D28: what is left of them is head room."""
    made = properties(unflushedVolume={"sizeLimit": "16Mi"}, flightRecorder={"size": "32Mi"})
    assert made["minikafka.unflushed.max.bytes"] == str(15 << 20)
    assert made["minikafka.events.max.bytes"] == str(30 << 20)
    assert settings_problems(spec(unflushedVolume={"sizeLimit": "16Mi"}), NAMES) == ()


def test_a_volume_that_takes_no_batch_is_refused_by_its_field() -> None:
    (problem,) = settings_problems(spec(unflushedVolume={"sizeLimit": "1Mi"}), NAMES)
    assert problem.startswith("spec.unflushedVolume.sizeLimit: minikafka.unflushed.max.bytes=983040: ")
    config = {"minikafka.unflushed.max.bytes": "983040"}
    (problem,) = settings_problems(spec(config=config, unflushedVolume={"sizeLimit": "16Mi"}), NAMES)
    assert problem.startswith("spec.config: minikafka.unflushed.max.bytes=983040: ")
