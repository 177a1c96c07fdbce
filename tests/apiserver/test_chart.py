"""The Helm chart and the plain manifests: well-formed, checked, taken by a real API server, and made from one source."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from minikafka import __version__

from tests.apiserver.charts import check_values, lint, refused, rendered
from tests.apiserver.control_plane import ControlPlane, find_program, program_folder

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/minikafka-operator"


def template(*options: str) -> list[dict[str, Any]]:
    """The objects of the chart."""
    return rendered("release", CHART, "op", *options)


def kinds(documents: list[dict[str, Any]]) -> list[str]:
    return sorted(document["kind"] for document in documents)


def test_lint() -> None:
    lint(CHART)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("logFormat=xml", "logFormat"),
        ("resyncSeconds=0", "resyncSeconds"),
        ("image.repository=", "repository"),
        ("watch.namespaces[0]=No_Such", "namespaces"),
        (
            "watch.namespaces[0]=a,watch.allNamespaces=true",
            "watch.namespaces and watch.allNamespaces: give one of them",
        ),
        ("imagee.tag=1", "imagee"),
    ],
)
def test_bad_values_are_named(value: str, says: str) -> None:
    assert says in refused("release", CHART, value)


def test_every_value_is_documented_and_in_the_schema() -> None:
    check_values(CHART)


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--set=watch.allNamespaces=true"],
        ["--set=watch.namespaces={default,kube-system}"],
        ["--set=rbac.clusterReader=false,serviceAccount.name=x"],
        ["--set=networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/8"],
    ],
    ids=["default", "all namespaces", "two namespaces", "no reader", "metrics"],
)
def test_the_api_server_takes_it(plane: ControlPlane, namespace: str, options: list[str]) -> None:
    documents = template(*options)
    for document in documents:
        if document["metadata"].get("namespace") == "op":
            document["metadata"]["namespace"] = namespace
    done = plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", [".", "all-namespaces"])
def test_kustomize(plane: ControlPlane, folder: str, tmp_path: Path) -> None:
    made = shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    environment = {**os.environ, "HELM": str(find_program("helm", program_folder()))}
    done = subprocess.run([ROOT / "deploy/render", made], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = plane.kubectl("kustomize", str(made / folder))
    assert done.returncode == 0, done.stderr
    documents = list(yaml.safe_load_all(done.stdout))
    assert kinds(documents).count("CustomResourceDefinition") == 3
    assert {d["metadata"].get("namespace", "minikafka-operator") for d in documents} == {"minikafka-operator"}
    (deployment,) = [document for document in documents if document["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert any(argument.startswith("--namespace") for argument in arguments) == (folder == ".")


def test_render_without_helm(tmp_path: Path) -> None:
    environment = {**os.environ, "HELM": str(tmp_path / "helm")}
    done = subprocess.run(
        [ROOT / "deploy/render", tmp_path], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 2 and done.stderr.startswith(
        f"deploy/render: HELM={tmp_path}/helm: there is no such program"
    )
    assert not list(tmp_path.iterdir())


def test_namespaced_has_nothing_cluster_wide() -> None:
    options = ["--set=watch.namespaces={a,b}", "--set=crds.install=false,rbac.clusterReader=false,rbac.aggregate=false"]
    documents = template(*options, "--set=admissionPolicy.create=false")
    assert not [kind for kind in kinds(documents) if kind.startswith(("Cluster", "CustomResource", "Validating"))]
    assert {d["metadata"]["namespace"] for d in documents if d["kind"] == "Role"} >= {"a", "b"}
    (deployment,) = [document for document in documents if document["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--namespace=a" in arguments and "--namespace=b" in arguments


def test_by_default_it_looks_after_its_own_namespace() -> None:
    documents = template("--set=rbac.aggregate=false")
    (deployment,) = [document for document in documents if document["kind"] == "Deployment"]
    assert "--namespace=op" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {d["metadata"]["namespace"] for d in documents if d["kind"] == "Role"} == {"op"}
    cluster_wide = [rule for d in documents if d["kind"] == "ClusterRole" for rule in d["rules"]]
    assert {verb for rule in cluster_wide for verb in rule["verbs"]} == {"get"}, "nodes and storage classes, to read"


def test_all_namespaces_take_a_cluster_role() -> None:
    documents = template("--set=watch.allNamespaces=true")
    (deployment,) = [document for document in documents if document["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not [argument for argument in arguments if argument.startswith("--namespace")]


def test_crds_outlive_the_release() -> None:
    definitions = [document for document in template() if document["kind"] == "CustomResourceDefinition"]
    assert len(definitions) == 3
    for definition in definitions:
        assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
