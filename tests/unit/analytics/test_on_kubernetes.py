"""Spark's executors as pods like the driver's own: the template, the settings, and what is refused."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from minikafka_analytics.commands import analyze as analyze_command
from minikafka_analytics.spark import on_kubernetes
from minikafka_analytics.spark.on_kubernetes import (
    SPREAD,
    BadMaster,
    executor_pod,
    executor_prefix,
    executors_like_this_pod,
    is_of_one_node,
    must_be_on_a_volume,
    settings_for,
)
from minikafka_analytics.storage.paths import PREFIX_SETTING

RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def driver() -> dict[str, Any]:
    mounts = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "runs", "mountPath": "/runs"},
        {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "runs", "persistentVolumeClaim": {"claimName": "minikafka-runs"}},
        {"name": "events-0", "persistentVolumeClaim": {"claimName": "events-shop-broker-0"}},
        {"name": "kube-api-access-x", "projected": {}},
    ]
    container = {
        "name": "driver",
        "image": "minikafka/analytics:1",
        "imagePullPolicy": "Never",
        "securityContext": RESTRICTED,
        "volumeMounts": mounts,
    }
    return {
        "metadata": {"name": "demo-report-abcde", "namespace": "lab", "labels": {"job-name": "demo-report"}},
        "spec": {
            "nodeName": "node-7",
            "containers": [container],
            "volumes": volumes,
            "securityContext": {"runAsNonRoot": True, "fsGroup": 65532},
            "tolerations": [{"key": "spark", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "registry"}],
        },
        "status": {"podIP": "10.1.2.3"},
    }


def test_an_executor_is_like_its_driver() -> None:
    made = executor_pod(driver(), one_node=True)["spec"]
    (container,) = made["containers"]
    assert container["securityContext"] == RESTRICTED and made["securityContext"]["runAsNonRoot"] is True
    assert made["automountServiceAccountToken"] is False
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp", "/runs"]
    assert [volume["name"] for volume in made["volumes"]] == ["tmp", "runs"], (
        "no token, and nothing of another container"
    )
    assert made["tolerations"] and made["imagePullSecrets"] == [{"name": "registry"}]
    (term,) = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-7"]}]}
    assert "affinity" not in executor_pod(driver(), one_node=False)["spec"]


def test_nothing_of_a_jobs_labels_is_taken_over() -> None:
    """The Job's own controller, and that of experiments, look for pods by them."""
    assert set(executor_pod(driver(), one_node=True)["metadata"]["labels"]) == {
        "app.kubernetes.io/part-of",
        "app.kubernetes.io/component",
    }


def test_settings() -> None:
    found = settings_for(driver(), Path("/tmp/x/executor.json"))
    assert found["spark.kubernetes.container.image"] == "minikafka/analytics:1"
    assert found["spark.driver.host"] == "10.1.2.3"
    assert found["spark.kubernetes.executor.podNamePrefix"] == "demo-report-abcde"
    with pytest.raises(BadMaster, match="has no address yet"):
        settings_for({**driver(), "status": {}}, Path("/x"))


def test_the_address_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A driver that had begun before the kubelet wrote its address down ended with exit code 2 (seen on kind)."""
    answers = [{**driver(), "status": {}}, {**driver(), "status": {"podIP": None}}, driver()]
    monkeypatch.setattr(on_kubernetes, "_get", lambda _url, _token: answers.pop(0))
    monkeypatch.setattr(on_kubernetes.time, "sleep", lambda _seconds: None)
    assert on_kubernetes._with_address("https://api/pods/x", tmp_path) == driver()
    assert answers == []
    answers[:] = [{**driver(), "status": {}}] * 2
    monkeypatch.setattr(on_kubernetes, "ADDRESS_SECONDS_MAX", -1.0)
    assert on_kubernetes._with_address("https://api/pods/x", tmp_path)["status"] == {}


def test_two_drivers_with_long_names_have_executors_of_their_own() -> None:
    names = [f"{'n' * 50}-report-{word}" for word in ("abcde", "fghij")]
    made = [executor_prefix(name) for name in names]
    assert made[0] != made[1] and all(len(prefix) <= 47 for prefix in made)


def test_executors_of_an_experiment_with_dots_in_its_name_have_host_names() -> None:
    """`name.setting.yaml` of the library: the API server refused `spec.hostname` of their executors."""
    assert executor_prefix("kip-101.high-watermark-report-abcde") == "kip-101-high-watermark-report-abcde"
    assert "." not in executor_prefix("a." * 40 + "report-abcde")


@pytest.mark.parametrize("path", ["/runs", "/runs/demo-1", "/runs/demo-1/parquet"])
def test_a_folder_on_a_claim(path: str) -> None:
    must_be_on_a_volume(driver(), Path(path))


@pytest.mark.parametrize("path", ["/tmp/run", "/data/run", "/runs-of-others/x"])
def test_a_folder_that_executors_cannot_read(path: str) -> None:
    with pytest.raises(BadMaster, match="not on a volume that executors mount too"):
        must_be_on_a_volume(driver(), Path(path))


def the_pod(monkeypatch: pytest.MonkeyPatch, modes: list[str]) -> None:
    monkeypatch.setattr(on_kubernetes, "_this_pod", lambda: (driver(), {"minikafka-runs": modes}))


@pytest.mark.parametrize(("modes", "bound"), [(["ReadWriteOnce"], True), (["ReadWriteMany"], False)])
def test_in_a_pod(monkeypatch: pytest.MonkeyPatch, modes: list[str], bound: bool) -> None:
    the_pod(monkeypatch, modes)
    with executors_like_this_pod("k8s://", {"spark.executor.instances": "3"}, [Path("/runs/a")]) as (master, settings):
        assert master == "k8s://https://kubernetes.default.svc"
        assert settings["spark.executor.instances"] == "3" and settings["spark.executor.memory"] == "512m"
        template = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
        assert ("affinity" in template["spec"]) == bound
    assert not Path(settings["spark.kubernetes.executor.podTemplateFile"]).exists()


def test_executors_that_are_spread_get_no_claim_of_one_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The driver serves what is on it: the tables are written, the run is read; neither needs to be on a claim."""
    here = {**driver(), "status": {"podIP": "127.0.0.1"}}
    monkeypatch.setattr(on_kubernetes, "_this_pod", lambda: (here, {"minikafka-runs": ["ReadWriteOnce"]}))
    given = {SPREAD: "required", "spark.executor.instances": "2"}
    with executors_like_this_pod("k8s://", given, [tmp_path / "parquet", tmp_path]) as (_, settings):
        template = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
        assert settings[PREFIX_SETTING].startswith("webhdfs://127.0.0.1:") and settings["spark.authenticate"] == "true"
    spec, (container,) = template["spec"], template["spec"]["containers"]
    assert [volume["name"] for volume in spec["volumes"]] == ["tmp"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert term["topologyKey"] == "kubernetes.io/hostname" and "nodeAffinity" not in spec["affinity"]


def test_executors_that_are_spread_mount_a_claim_that_all_nodes_can(monkeypatch: pytest.MonkeyPatch) -> None:
    the_pod(monkeypatch, ["ReadWriteMany"])
    with executors_like_this_pod("k8s://", {SPREAD: "preferred"}, [Path("/runs/a")]) as (_, settings):
        template = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
        assert PREFIX_SETTING not in settings
    (rule,) = template["spec"]["topologySpreadConstraints"]
    assert (rule["topologyKey"], rule["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert rule["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert "runs" in [volume["name"] for volume in template["spec"]["volumes"]]
    with executors_like_this_pod("k8s://", {SPREAD: "none"}, [Path("/runs/a")]) as (_, settings):
        assert (
            "topologySpreadConstraints" not in Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text()
        )


def test_a_folder_of_the_node_is_of_one_node() -> None:
    """Executors elsewhere would read another folder of that name."""
    pod = driver()
    assert not is_of_one_node(pod, {"minikafka-runs": ["ReadWriteMany"]})
    pod["spec"]["volumes"][1] = {"name": "runs", "hostPath": {"path": "/srv/runs"}}
    assert is_of_one_node(pod, {})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({SPREAD: "everywhere"}, f"{SPREAD}=everywhere: allowed: none, preferred, required"),
        ({SPREAD: "required", "spark.kubernetes.container.image": "mine:1"}, f"{SPREAD}=required: not beside"),
    ],
)
def test_a_spread_that_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadMaster, match=says), executors_like_this_pod("k8s://", given, [Path("/runs/a")]):
        pass


def test_what_spark_defaults_say_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    the_pod(monkeypatch, ["ReadWriteOnce"])
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.executor.memory   3g\n")
    with executors_like_this_pod("k8s://", None, [Path("/runs/a")]) as (_, settings):
        assert "spark.executor.memory" not in settings and settings["spark.executor.cores"] == "1"
    (tmp_path / "spark-defaults.conf").write_text("spark.kubernetes.container.image mine:1\n")
    with executors_like_this_pod("k8s://https://api:6443", {"a": "b"}, [Path("/x")]) as given:
        assert given == ("k8s://https://api:6443", {"a": "b"})


def test_another_master_is_left_alone() -> None:
    with executors_like_this_pod("local[2]", {"a": "b"}, [Path("/nowhere")]) as given:
        assert given == ("local[2]", {"a": "b"})


def test_from_a_laptop_it_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (tmp_path / "history.jsonl").write_text('{"time": 1}\n')
    parser = argparse.ArgumentParser()
    analyze_command.add_arguments(parser)
    assert analyze_command.run(parser.parse_args([str(tmp_path), "--master", "k8s://https://127.0.0.1:6443"])) == 2
    said = capsys.readouterr().err
    assert "executors cannot read a folder of this machine; put the run on a claim" in said
