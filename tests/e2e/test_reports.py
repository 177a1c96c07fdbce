"""An experiment by kubectl alone, and Spark's report of it: a run on a claim, a Job with an executor, the page copied out."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import charts, diagnostics
from tests.e2e.chaos_lab import A_LEADER_DIES
from tests.e2e.kubectl import Kubectl, condition, eventually
from tests.e2e.machine import say
from tests.e2e.objects import Object

START_SECONDS_MAX = 300
RUN_SECONDS_MAX = 1200
REPORT_SECONDS_MAX = 1200
CLAIM = "minikafka-runs"

SPEC: dict[str, Any] = {
    "cluster": {"brokers": 3, "config": [{"name": "min.insync.replicas", "value": "2"}]},
    **A_LEADER_DIES,
}


@pytest.fixture(scope="module")
def lab(
    operator: Kubectl, module_namespace: Kubectl, programs: Path, images: dict[str, str], analytics_image: str
) -> Iterator[Kubectl]:
    """kubectl on a namespace with both charts."""
    kubectl = module_namespace
    spark = charts.image(analytics_image)
    small = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    values: dict[str, Any] = {"image": spark, "desk": {"enabled": True}, "runs": {"size": "500Mi"}, "resources": small}
    charts.install(programs, kubectl, "analytics", "minikafka-analytics", values)
    report = {"enabled": True, "image": spark, "desk": "analytics-desk", "resources": small}
    values = {"image": charts.image(images["chaos"]), "runs": {"claim": CLAIM}, "report": report}
    release = kubectl.namespace
    charts.install(programs, kubectl, release, "minikafka-chaos", values)
    for name in (release, "analytics-desk"):
        kubectl(
            "rollout", "status", f"deployment/{name}", f"--timeout={START_SECONDS_MAX}s", timeout=START_SECONDS_MAX + 10
        )
    yield kubectl
    for name in kubectl("get", "mkx", "--output", "name").split():
        kubectl("annotate", name, "minikafka.dev/force-delete=true", "--overwrite")
    kubectl("delete", "mkx", "--all", "--timeout=180s")
    charts.uninstall(programs, kubectl, release)  # its ValidatingAdmissionPolicy is the whole cluster's


def experiment(name: str, **change: Any) -> Object:
    spec = {**SPEC, **change}
    return {"apiVersion": "minikafka.dev/v1alpha1", "kind": "ChaosExperiment", "metadata": {"name": name}, "spec": spec}


def test_a_claim_that_is_not_there_is_refused(lab: Kubectl) -> None:
    lab.apply(experiment("homeless", runs={"claim": "nowhere"}))
    found = eventually(
        lambda: lab.objects.there("mkx", "homeless"),
        lambda seen: condition(seen, "Accepted").get("reason") == "ClaimNotFound",
        seconds=180,
        what="it is refused",
    )
    assert found["status"]["phase"] == "Refused"
    assert lab.objects.get("job", "homeless-run") is None


def test_spark_makes_the_report_of_an_experiment(lab: Kubectl) -> None:
    began = time.monotonic()
    lab.apply(experiment("killed"))
    eventually(
        lambda: (lab.objects.there("mkx", "killed").get("status") or {}).get("phase"),
        lambda phase: phase in ("Completed", "Refused", "Aborted", "Error"),
        seconds=RUN_SECONDS_MAX,
        what="the experiment has ended",
    )
    say(f"{time.monotonic() - began:6.1f} s  kubectl apply of an experiment to its verdict")
    executors: dict[str, Object] = {}

    def reported() -> Object:
        executors.update({pod["metadata"]["name"]: pod for pod in lab.objects.list("pod", "spark-role=executor")})
        return condition(lab.objects.there("mkx", "killed"), "Reported")

    told = eventually(
        reported,
        lambda seen: seen.get("status") in ("True", "False"),
        seconds=REPORT_SECONDS_MAX,
        what="there is a report",
    )
    say(f"{time.monotonic() - began:6.1f} s  to its report, by executors {sorted(executors)}")
    say(lab("get", "mkx"))
    status = lab.objects.there("mkx", "killed")["status"]
    log = lab("logs", "job/killed-report")
    assert (status["phase"], status["verdict"]) == ("Completed", "Passed"), status
    assert (told["status"], told["reason"]) == ("True", "ReportMade"), (told, log)
    assert executors, "no executor pod was seen"
    report = status["report"]
    assert (report["claim"], report["verdict"]) == (CLAIM, "Passed")
    assert report["path"] == f"{status['run']}/report.html"
    assert report["path"] in lab("get", "mkx", "killed")
    eventually(  # an Event follows the status that it is about
        lambda: lab("describe", "mkx", "killed"),
        lambda described: " ReportMade " in described,
        seconds=180,
        what="the report's Event",
    )

    folder = diagnostics.folder_for("experiment-report")
    _copy_out(lab, report["copy"], folder)
    assert "</html>" in (folder / "report.html").read_text()
    data = lab("exec", "deploy/analytics-desk", "--", "cat", f"/runs/{status['run']}/report.json")
    (run,) = json.loads(data)["runs"]
    assert run["verdict"]["verdict"] == status["verdict"] and run["verdict"]["agree"] is True
    assert [fault["kinds"] for fault in run["faults"]] == [["kill"]]
    assert any(each["led"] for each in run["faults"][0]["partitions"])
    say(f"the report was copied to {folder / 'report.html'}")


def _copy_out(lab: Kubectl, command: str, folder: Path) -> None:
    """What the status says a person should type, with this cluster's kubectl."""
    words = shlex.split(command.removeprefix("kubectl "))
    target = words.pop()
    assert words.pop() == ">"
    with (folder / target).open("w") as page:
        subprocess.run(lab.command(*words), stdout=page, check=True, timeout=60)
