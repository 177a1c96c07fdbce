"""What people write: properties files, custom resources, scenarios and matrices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.broker import BROKER_KEYS
from minikafka.config.client_properties import KEYS, client_security
from minikafka.config.properties import expand_environment, parse_properties
from minikafka.config.topic import parse_topic_overrides
from minikafka.kubernetes import topics
from minikafka_chaos.controller.admission import cluster_name, scenario_of
from minikafka_chaos.controller.schedules.times import BadSchedule, spec_of
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.matrix.document import parse_matrix
from minikafka_chaos.scenario.scenario import Scenario, parse_scenario
from minikafka_kube.api import API_VERSION
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.api.topic import TopicSpec
from minikafka_operator.api.user import UserSpec
from minikafka_operator.manifests.broker_certificates import authorities_now
from minikafka_operator.planning.planner import plan
from minikafka_operator.users.users import plan_users
from pydantic import BaseModel, ValidationError

from tests.fuzz.target import Target
from tests.unit.operator.test_users import BOTH
from tests.unit.operator.world import SETTINGS, World, settled

CHAOS = Path(__file__).parents[3] / "chaos"
_ENVIRONMENT = {"PASSWORD": "a$b\\"}


def read_broker_config(data: bytes) -> None:
    """Read a broker's properties file, and topic settings of the same keys."""
    properties = parse_properties(data.decode(errors="replace"))
    try:
        parse_topic_overrides(properties)
    except ConfigError:
        pass
    config = BrokerConfig.from_properties(expand_environment(properties, _ENVIRONMENT))
    config.describe()
    config.topic({})


def broker_configs() -> Iterator[bytes]:
    """Make files with each key once, and listeners of every kind."""
    yield b"node.id=1\nminikafka.metadata.store=memory\n"
    yield b"".join(f"{name}={key.default_text}\n".encode() for name, key in _with_defaults())
    yield (
        b"node.id=1\nlisteners=A://:0,B://localhost:9093\nlistener.security.protocol.map=A:SASL_SSL,B:PLAINTEXT\n"
        b"inter.broker.listener.name=B\nsasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n"
        b"listener.name.a.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        b'  user_a="${env:PASSWORD}";\nssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/L,DEFAULT\n'
        b"super.users=User:a;User:b\nauthorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    )


def _with_defaults() -> Iterable[tuple[str, Any]]:
    return [(name, key) for name, key in BROKER_KEYS.items() if key.default_text is not None]


def read_command_config(data: bytes) -> None:
    """Read the file of `--command-config`."""
    security = client_security(parse_properties(data.decode(errors="replace")))
    security.librdkafka()


def command_configs() -> Iterator[bytes]:
    """Make files of a client with SASL, and with TLS."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    yield (
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="u" password="p";\nssl.endpoint.identification.algorithm=\n'
    ).encode()
    yield (
        b"security.protocol=SSL\nssl.truststore.type=PEM\nssl.enabled.protocols=TLSv1.3\n"
        b"ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\\n MA== -----END CERTIFICATE-----\n"
    )


def _json(data: bytes) -> Any:
    """Return the value of an API server's JSON; it refuses what is none, and what is nested without end."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _metadata(name: str = "demo") -> dict[str, Any]:
    return {"name": name, "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1}


def _cluster(spec: Any) -> None:
    world = _world()
    world.cluster["spec"] = spec
    plan(world.observed(), SETTINGS)


@cache
def _world() -> World:
    return settled()


@cache
def _secured() -> World:
    return settled(**BOTH)


def _user(spec: Any) -> None:
    observed = _secured().observed()
    of_cluster = ClusterSpec.model_validate(observed.cluster["spec"])
    user = {"metadata": {**_metadata("user"), "finalizers": ["minikafka.dev/user"]}, "spec": spec}
    plan_users(observed, of_cluster, authorities_now(observed, of_cluster), [user], {})


def _topic(spec: Any) -> None:
    """Brokers get what the API server has held against the CRD, as the model says it."""
    try:
        TopicSpec.model_validate(spec)
    except ValidationError:
        return
    value = {"metadata": _metadata("topic"), "spec": spec}
    topics.topic_name(value)
    topics.belongs_to(value, "demo")
    topics.desired_of(value)


def _experiment(spec: Any) -> None:
    value = {"metadata": _metadata("experiment"), "spec": spec}
    scenario_of(value)
    cluster_name(value)


def _schedule(spec: Any) -> None:
    spec_of({"metadata": _metadata("schedule"), "spec": spec})


_KINDS = {
    "MiniKafkaCluster": _cluster,
    "MiniKafkaUser": _user,
    "MiniKafkaTopic": _topic,
    "ChaosExperiment": _experiment,
    "ChaosSchedule": _schedule,
}


def read_custom_resource(data: bytes) -> None:
    """Read the spec of a kind of custom resource, which the first line names, as operator, controller and brokers do."""
    kind, _, text = data.partition(b"\n")
    read, spec = _KINDS.get(kind.decode(errors="replace")), _json(text)
    if read is not None and isinstance(spec, dict):  # the API server sees to it
        read(spec)


def custom_resources() -> Iterator[bytes]:
    """Make a spec of each kind."""
    scenario = next(iter(sorted((CHAOS / "scenarios").glob("kill-leader.yaml"))))
    experiment = parse_scenario(scenario.read_text(encoding="utf-8")).as_json()["spec"]
    for kind, spec in (
        ("MiniKafkaCluster", _world().cluster["spec"]),
        ("MiniKafkaCluster", _secured().cluster["spec"]),
        ("MiniKafkaUser", {"clusterRef": {"name": "demo"}, "authentication": {"type": "scram-sha-512"}, "quotas": {}}),
        ("MiniKafkaTopic", {"clusterRef": {"name": "demo"}, "partitions": 3, "config": {"retention.ms": "1"}}),
        ("MiniKafkaTopic", {"clusterRef": {"name": "demo"}, "replicaAssignment": [[1, 2], [2, 1]]}),
        ("ChaosExperiment", experiment),
        ("ChaosSchedule", {"cron": "*/5 * * * *", "templates": [{"name": "a", "spec": experiment}]}),
    ):
        yield kind.encode() + b"\n" + json.dumps(spec).encode()


def read_scenario(data: bytes) -> None:
    """Read a scenario or a matrix: the first byte says which, and whether a setting is changed."""
    how, text = data[0] if data else 0, data[1:].decode(errors="replace")
    if how & 1:
        parse_matrix(text)
    elif how & 2:
        setting, _, rest = text.partition("\n")
        parse_scenario(rest, settings=[setting])
    else:
        parse_scenario(text)


def scenarios() -> Iterator[bytes]:
    """Take some of our own."""
    for name in ("kill-leader", "five-ways", "kip-279"):
        for folder, how in (("scenarios", b"\0"), ("matrices", b"\1")):
            path = CHAOS / folder / f"{name}.yaml"
            if path.exists():
                yield how + path.read_bytes()
    yield b"\2workload.acks=1\n" + (CHAOS / "scenarios/kill-leader.yaml").read_bytes()


def _fields(*models: type[BaseModel]) -> Iterator[str]:
    for model in models:
        for definition in (
            model.model_json_schema(by_alias=True),
            *model.model_json_schema().get("$defs", {}).values(),
        ):
            yield from definition.get("properties", ())
            yield from (value for value in definition.get("enum", ()) if isinstance(value, str))


def _words_of_resources() -> Iterable[str]:
    return sorted({*_fields(ClusterSpec, UserSpec, Scenario), API_VERSION, *_KINDS})


TARGETS = (
    Target("broker-config", read_broker_config, broker_configs, (ConfigError,), words=lambda: BROKER_KEYS),
    Target("command-config", read_command_config, command_configs, (ConfigError,), words=lambda: KEYS),
    Target(
        "custom-resources",
        read_custom_resource,
        custom_resources,
        (BadScenario, BadSchedule),
        bytes_max=1 << 14,
        words=_words_of_resources,
    ),
    Target(
        "scenarios",
        read_scenario,
        scenarios,
        (BadScenario,),
        bytes_max=1 << 14,
        words=lambda: sorted(set(_fields(Scenario))),
    ),
)
