"""What holds for every chart there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.charts import refused, rendered
from tests.pod_security import faults, pods

CHARTS = sorted(file.parent for file in (Path(__file__).parents[2] / "charts").glob("*/Chart.yaml"))
WIDEST = {
    "minikafka-operator": ["--set=watch.allNamespaces=true", "--set=crds.install=false"],
    "minikafka-chaos": [
        "--set=crds.install=false"
    ],  # CRDs are the cluster's: a second release leaves them to the first
    "minikafka-chaos-network": ["--set=namespaces={lab}"],
    "minikafka-monitoring": ["--set=prometheus.discovery=kubernetes"],
}
"""The values with which a chart makes the most that belongs to no namespace."""
CLUSTER_WIDE = {"minikafka-operator", "minikafka-chaos", "minikafka-chaos-network"}
"""Those that make anything of that kind."""
ONE_CHART = [pytest.param(chart, marks=[] if chart.name == "minikafka-chaos" else pytest.mark.full) for chart in CHARTS]
"""Each renders for seconds, and their templates are alike."""


@pytest.mark.parametrize("chart", ONE_CHART, ids=lambda chart: chart.name)
def test_two_namespaces_may_have_a_release_of_one_name(chart: Path) -> None:
    """What belongs to no namespace has a name of its own in each: helm refuses what another release owns."""

    def names(namespace: str, release: str) -> set[tuple[str, str]]:
        made = rendered(release, chart, namespace, *WIDEST.get(chart.name, []))
        return {(one["kind"], one["metadata"]["name"]) for one in made if "namespace" not in one["metadata"]}

    assert not names("a", "same") & names("b", "same")
    assert not names("a", "b-c") & names("a-b", "c")
    assert not names("a", "one") & names("a", "two")
    assert bool(names("a", "same")) == (chart.name in CLUSTER_WIDE)


def probes(node: Any) -> Iterator[dict[str, Any]]:
    """All of them, wherever they are in an object."""
    if isinstance(node, dict):
        yield from (probe for name, probe in node.items() if name.endswith("Probe"))
        for each in node.values():
            yield from probes(each)
    elif isinstance(node, list):
        for each in node:
            yield from probes(each)


NOT_RESTRICTED = {
    # It enters the network namespaces of pods on its node, which takes these.
    "minikafka-chaos-network": {"hostPID", "network-agent: runs as root", "network-agent: has capabilities"},
    # Logs of containers are root's; rsyslogd starts after a command that clears its state, or finds room on the volume.
    "minikafka-logs": {"volume of hostPath", "log-agent: runs as root", "log-agent: a shell", "log-store: a shell"},
}
"""What a chart's pods are allowed beyond "restricted", and why."""
MOST_PODS = {
    "minikafka-analytics": ["--set=run.name=a,desk.enabled=true,cron.schedule=@daily"],
    "minikafka-chaos-network": ["--set=namespaces={lab}"],
    "minikafka-monitoring": ["--set=prometheus.discovery=kubernetes"],
}
"""The values with which a chart makes all its pods."""


def test_every_pod_is_restricted() -> None:
    """In one test: what is allowed beyond it is one table."""
    found = {
        chart.name: list(pods(rendered("one", chart, "there", *MOST_PODS.get(chart.name, [])))) for chart in CHARTS
    }
    assert {name: {fault for _, pod in of for fault in faults(pod)} for name, of in found.items()} == {
        name: NOT_RESTRICTED.get(name, set()) for name in found
    }
    made = sorted((name, pod.split()[0]) for name, of in found.items() for pod, _ in of)
    assert made == [
        ("minikafka-analytics", "CronJob"),
        ("minikafka-analytics", "Deployment"),
        ("minikafka-analytics", "Job"),
        ("minikafka-chaos", "Deployment"),
        ("minikafka-chaos-network", "DaemonSet"),
        ("minikafka-logs", "DaemonSet"),
        ("minikafka-logs", "Deployment"),
        ("minikafka-monitoring", "Deployment"),
        ("minikafka-operator", "Deployment"),
    ]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_probe_has_time_on_a_busy_node(chart: Path) -> None:
    """By default it has a second; an answer, or a process in a container all the more, takes longer on a busy node, and would
    count as failed.
    """
    for document in rendered("release", chart, "there", *WIDEST.get(chart.name, [])):
        for probe in probes(document):
            assert probe.get("timeoutSeconds", 1) >= (10 if "exec" in probe else 5), probe


@pytest.mark.parametrize("chart", ["minikafka-operator", "minikafka-chaos"])
def test_roles_of_kubernetes_take_in_all_kinds(chart: str) -> None:
    """Whoever may view or edit a namespace may do so with what is MiniKafka's there, and no more; nobody, where that is off."""
    folder = next(one for one in CHARTS if one.name == chart)
    made = rendered("release", folder, "there", "--set=crds.install=false")
    kinds = {yaml.safe_load(file.read_text())["spec"]["names"]["plural"] for file in folder.glob("files/crds/*.yaml")}
    verbs: dict[str, dict[str, set[str]]] = {}
    for role in (one for one in made if one["kind"] == "ClusterRole"):
        for label in (one for one in role["metadata"]["labels"] if "/aggregate-to-" in one):
            for rule in role["rules"]:
                assert rule["apiGroups"] == ["minikafka.dev"]
                for kind in rule["resources"]:
                    verbs.setdefault(label.rpartition("-")[2], {}).setdefault(kind, set()).update(rule["verbs"])
    reading, writing = {"get", "list", "watch"}, {"create", "update", "patch", "delete", "deletecollection"}
    assert verbs["view"] == dict.fromkeys(kinds, reading)
    for role in ("edit", "admin"):
        assert {kind: verbs[role][kind] for kind in kinds} == dict.fromkeys(kinds, reading | writing)
        assert set(verbs[role]) - kinds <= {"minikafkaclusters/scale"}
    off = rendered("release", folder, "there", "--set=crds.install=false", "--set=rbac.aggregate=false")
    assert not [one for one in off if "aggregate-to" in str(one)]


WORDS = {"a word": "lab", "a number": "2024", "a truth": "true"}
"""What a name may be; some are something else to YAML. PyYAML does not take 1e3 for a number, as helm does."""


def filled(schema: dict[str, Any], word: str) -> Any:
    """A value of this schema with the word for every text that may be any word, and all switched on; None: the chart's own."""
    kind = schema.get("type")
    if kind == "string":
        return word if all(re.search(schema.get("pattern", ""), each) for each in WORDS.values()) else None
    if kind == "boolean":
        return True
    if kind == "array":
        item = filled(schema["items"], word)
        return None if item is None else [item]
    if kind == "object" and schema.get("additionalProperties") == {"type": "string"}:
        return {"key": word}
    made = {name: filled(part, word) for name, part in schema.get("properties", {}).items()}
    return {name: part for name, part in made.items() if part is not None} or None


def shape(node: Any) -> Any:
    """An object with the type of each value in its place."""
    if isinstance(node, dict):
        return {key: shape(value) for key, value in node.items()}
    return [shape(each) for each in node] if isinstance(node, list) else type(node).__name__


def filled_chart(chart: Path, word: str, folder: Path) -> list[dict[str, Any]]:
    """What it makes where everything that has a name is called like this."""
    schema = json.loads((chart / "values.schema.json").read_text())
    values = filled(schema, word)
    if chart.name == "minikafka-operator":
        values["watch"].pop("allNamespaces")  # not beside namespaces
    if chart.name == "minikafka-chaos-network":
        values["namespaces"] = [f"{word}-brokers"]  # not the release's own
    file = folder / f"{word}.json"
    file.write_text(json.dumps(values))
    made = rendered(word, chart, word, f"--values={file}")
    if chart.name == "minikafka-monitoring":
        made += rendered(word, chart, word, f"--values={file}", "--set=mode=operator,prometheus.discovery=kubernetes")
    return made


@pytest.mark.parametrize("chart", ONE_CHART, ids=lambda chart: chart.name)
def test_a_name_is_text_whatever_yaml_would_make_of_it(chart: Path, tmp_path: Path) -> None:
    """A release may be called like a year, a short git hash or a truth value, and so may a namespace, a claim, an account."""
    word, *others = (filled_chart(chart, word, tmp_path) for word in WORDS.values())
    assert all(shape(other) == shape(word) for other in others)
    services = [one["metadata"]["name"] for other in others for one in other if one["kind"] == "Service"]
    assert all(name[0].isalpha() for name in services), "a Service's name begins with a letter"


def images(node: Any) -> Iterator[str]:
    """Every reference of an image in an object: of containers, and in what programs are told."""
    if isinstance(node, dict):
        if "image" in node:
            yield node["image"]
        yield from (each["value"] for each in node.get("env", ()) if each["name"].endswith("_IMAGE"))
        yield from (each.partition("=")[2] for each in node.get("args", ()) if "-image=" in str(each))
        for each in node.values():
            yield from images(each)
    elif isinstance(node, list):
        for each in node:
            yield from images(each)


@pytest.mark.parametrize("chart", ONE_CHART, ids=lambda chart: chart.name)
def test_an_image_may_be_given_by_its_digest(chart: Path) -> None:
    digest = f"sha256:{'0a' * 32}"
    schema = json.loads((chart / "values.schema.json").read_text())["properties"]
    places = [name for name in ("image", "brokerImage") if name in schema]
    places += [
        f"{name}.image" for name in ("report", "prometheus") if "image" in schema.get(name, {}).get("properties", {})
    ]
    extra = {"minikafka-analytics": ["--set=run.name=x"], "minikafka-chaos": ["--set=report.enabled=true"]}
    options = [*WIDEST.get(chart.name, []), *extra.get(chart.name, [])]
    assert places
    found = set(
        images(rendered("release", chart, "there", *options, *(f"--set={place}.digest={digest}" for place in places)))
    )
    assert len(found) == len(places) and all(re.fullmatch(rf"[a-z/-]+@{digest}", each) for each in found)
    found = set(
        images(rendered("release", chart, "there", *options, *(f"--set={place}.tag=v1@{digest}" for place in places)))
    )
    assert all(re.fullmatch(rf"[a-z/-]+:v1@{digest}", each) for each in found)
    for place in places:
        assert place.rpartition(".")[2] in refused("release", chart, f"{place}.digest=sha256:0a")
        assert "tag" in refused("release", chart, f"{place}.tag={digest}")
        assert "repository" in refused("release", chart, f"{place}.repository=x@{digest}")
