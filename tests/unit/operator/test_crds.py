"""The CRDs are what the models say, and say themselves what each field is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from minikafka_operator.api.cluster import OPERATOR_KEYS, ClusterSpec
from minikafka_operator.api.security import OAuthBearerAuthentication
from minikafka_operator.api.topic import Topic
from minikafka_operator.api.user import User
from minikafka_operator.crds import cluster_definition, documents, topic_definition

from tests.forms import for_each

ROOT = Path(__file__).parents[3]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Written in C where there is one: it takes an eighth of the time."""


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def parts(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every node of a schema with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(part, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from parts(schema[name], f"{path}[{name}]")


NODES = [
    (f"{name.split('_')[1][:-5]}{path}", node)
    for name, definition in documents().items()
    for path, node in parts(schema_of(definition))
]


def test_the_oldest_kubernetes_knows_selectable_fields() -> None:
    """``selectableFields`` (KEP-4358) is alpha in 1.30, so it is off and dropped there, and topics are found by such a field."""
    assert topic_definition()["spec"]["versions"][0]["selectableFields"]
    chart = yaml.safe_load((ROOT / "charts/minikafka-operator/Chart.yaml").read_text())
    assert chart["kubeVersion"] == ">=1.31.0-0"
    assert "Kubernetes 1.31 or newer is needed" in (ROOT / "docs/guide/kubernetes.md").read_text()


@pytest.mark.slow
def test_an_empty_object_that_means_nothing_may_be_null() -> None:
    """Server-side apply makes null of `{}` in the place of fields that were applied before. Where `{}` means something (a volume
    of the default size) null is refused: it would mean that there is none."""
    found = {path: node for path, node in parts(schema_of(cluster_definition())) if node.get("nullable")}
    brokers = ("resources", "resources.requests", "resources.limits", "nodeSelector", "metadata", "metadata.labels")
    assert {".spec.config", *(f".spec.brokers.{name}" for name in brokers)} <= set(found)
    assert not {".spec.unflushedVolume", ".spec.rack", ".spec.storage", ".status"} & set(found)
    assert schema_of(topic_definition())["properties"]["spec"]["properties"]["config"]["nullable"]
    spec = {"config": None, "brokers": {"resources": None, "nodeSelector": None, "metadata": {"labels": None}}}
    assert ClusterSpec.model_validate(spec).config is None


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "crds").glob("*_*.yaml")), ids=lambda path: path.stem)
def test_no_two_columns_show_the_same(path: Path) -> None:
    columns = yaml.load(path.read_text(), LOADER)["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [each["jsonPath"] for each in columns]
    assert len(shown) == len(set(shown))


def test_each_crd_is_in_one_chart() -> None:
    """Charts have links to ``crds/``, which is where `make docs` writes them: none is a copy, none is left out."""
    links = list(ROOT.glob("charts/*/files/crds/*"))
    assert all(link.is_symlink() for link in links)
    assert sorted(link.resolve() for link in links) == sorted((ROOT / "crds").iterdir())


@for_each(NODES)
def test_structural(path: str, node: dict[str, Any]) -> None:
    """The API server's rules for structural schemas, and the API conventions."""
    assert "$ref" not in node and "title" not in node
    assert "type" in node or "x-kubernetes-int-or-string" in node
    assert node.get("default", "") is not None
    assert not ("properties" in node and "additionalProperties" in node)
    assert node.get("type") != "number", "no floats (API conventions)"


@for_each((path, node) for path, node in NODES if not path.endswith("]"))
def test_described(path: str, node: dict[str, Any]) -> None:
    """kubectl explain has something to say about each field."""
    assert path.endswith("s.metadata") or node.get("description"), path


@for_each((path, node) for path, node in NODES if "x-kubernetes-validations" in node)
def test_messages_name_the_field(path: str, node: dict[str, Any]) -> None:
    for rule in node["x-kubernetes-validations"]:
        assert rule["message"].startswith(("spec.", "metadata.")), rule


class TestCluster:
    def test_the_defaults_are_the_models(self) -> None:
        default = schema_of(cluster_definition())["properties"]["spec"]["default"]
        assert ClusterSpec.model_validate(default) == ClusterSpec()
        assert ClusterSpec.model_validate({}) == ClusterSpec()

    def test_names(self) -> None:
        names = cluster_definition()["spec"]["names"]
        assert (names["kind"], names["shortNames"]) == ("MiniKafkaCluster", ["mkc"])

    def test_scale(self) -> None:
        version = cluster_definition()["spec"]["versions"][0]
        assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.brokers.replicas"

    def test_each_of_the_operators_settings_has_a_rule(self) -> None:
        config = schema_of(cluster_definition())["properties"]["spec"]["properties"]["config"]
        rules = [rule["rule"] for rule in config["x-kubernetes-validations"]]
        assert all(f"!('{key}' in self)" in rules for key in OPERATOR_KEYS)


class TestTopic:
    def test_names(self) -> None:
        names = topic_definition()["spec"]["names"]
        assert (names["kind"], names["shortNames"]) == ("MiniKafkaTopic", ["mkt"])

    def test_brokers_find_their_topics(self) -> None:
        assert topic_definition()["spec"]["versions"][0]["selectableFields"] == [{"jsonPath": ".spec.clusterRef.name"}]

    def test_a_status_as_brokers_write_it(self) -> None:
        partition = {
            "partition": 0,
            "replicas": [0, 1],
            "isr": [0],
            "leader": 0,
            "leaderEpoch": 3,
            "partitionEpoch": 5,
            "lastKnownELR": [1],
            "newField": True,
        }
        status = {"topicName": "bank", "revision": 2**40, "partitions": [partition]}
        made = Topic.model_validate({"spec": {"clusterRef": {"name": "demo"}}, "status": status})
        assert made.status is not None and made.status.partitions is not None
        assert made.status.partitions[0].last_known_elr == [1]
        node = schema_of(topic_definition())["properties"]["status"]["properties"]["partitions"]["items"]
        assert node["x-kubernetes-preserve-unknown-fields"] is True, "a newer broker's fields are not pruned"


def test_the_secured_example_is_one() -> None:
    documents = list(yaml.safe_load_all((ROOT / "docs/guide/examples/secured.yaml").read_text()))
    cluster, *users = documents
    assert ClusterSpec.model_validate(cluster["spec"]).secured
    kinds = [User.model_validate(each).spec.authentication for each in users]
    assert [kind and kind.type for kind in kinds] == ["scram-sha-512", "tls"]


def test_the_example_with_tokens_is_one() -> None:
    cluster, _, user = yaml.safe_load_all((ROOT / "docs/guide/examples/tokens.yaml").read_text())
    internal = ClusterSpec.model_validate(cluster["spec"]).listeners.internal
    assert internal is not None and isinstance(internal.authentication, OAuthBearerAuthentication)
    assert User.model_validate(user).spec.authentication is None


def test_the_example_is_one(tmp_path: Path) -> None:
    for document in yaml.safe_load_all((ROOT / "docs/guide/examples/cluster.yaml").read_text()):
        if document["kind"] == "MiniKafkaCluster":
            spec = ClusterSpec.model_validate(document["spec"])
            assert (spec.brokers.replicas, spec.replication.default_factor) == (3, 3)
        else:
            assert Topic.model_validate(document).spec.cluster_ref.name == "demo"
