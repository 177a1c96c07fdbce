"""Spark on the cluster by the chart minikafka-analytics: a run goes onto its claim, a Job reports, the report is copied back."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import charts, diagnostics
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.machine import say
from tests.e2e.objects import Object

RELEASE, CHART = "analytics", "minikafka-analytics"
JOB_SECONDS_MAX = 1200


SMALL: dict[str, Any] = {
    "runs": {"size": "200Mi"},
    "desk": {"enabled": True},
    "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
}
"""Values of a release that leaves room for others."""


@dataclass(frozen=True)
class Reported:
    """What a Job made, what it said, and its executors that ran, with their nodes."""

    report: dict[str, Any]
    said: str
    executors: dict[str, str]


def report(kubectl: Kubectl, programs: Path, image: str, run: Path, sources: dict[str, Any]) -> Reported:
    """The report of a run of this machine, made by a Job with an executor; `sources` are values below `run`."""
    values = {**SMALL, "image": charts.image(image)}
    pod = installed(kubectl, programs, values)["metadata"]["name"]
    kubectl("cp", str(run), f"{pod}:/runs/")
    return job(kubectl, programs, values, {"name": run.name, **sources})


def installed(kubectl: Kubectl, programs: Path, values: dict[str, Any]) -> Object:
    """The chart, and the pod of its desk, which is ready."""
    charts.install(programs, kubectl, RELEASE, CHART, values)
    kubectl("rollout", "status", f"deployment/{RELEASE}-desk", "--timeout=280s")
    (desk,) = kubectl.objects.list("pod", "app.kubernetes.io/component=desk")
    return desk


def job(kubectl: Kubectl, programs: Path, values: dict[str, Any], run: dict[str, Any]) -> Reported:
    """The report of a run that is on the claim, made by a Job, and copied out by way of the desk; `run` are values."""
    before = {each["metadata"]["name"] for each in kubectl.objects.list("pod", "spark-role=executor")}
    submitted = time.monotonic()
    charts.install(programs, kubectl, RELEASE, CHART, {**values, "run": run})
    executors: dict[str, str] = {}

    def ended() -> Object | None:
        for each in kubectl.objects.list("pod", "spark-role=executor"):
            name = each["metadata"]["name"]
            if name not in before and each["status"].get("phase") == "Running":
                executors[name] = each["spec"]["nodeName"]
        found = kubectl.objects.list("job", f"app.kubernetes.io/instance={RELEASE}")
        newest = max(found, key=lambda each: str(each["metadata"]["creationTimestamp"]))
        status = newest.get("status") or {}
        return newest if status.get("succeeded") or status.get("failed") else None

    done = eventually(ended, seconds=JOB_SECONDS_MAX, what="the Job of the chart has ended")
    assert done is not None
    said = kubectl("logs", f"job/{done['metadata']['name']}", "--all-containers")
    assert done["status"].get("succeeded"), said
    assert executors, "no executor pod was seen"
    folder = diagnostics.folder_for("spark-report")
    (desk,) = kubectl.objects.list("pod", "app.kubernetes.io/component=desk")
    for name in ("report.html", "report.json"):
        kubectl("cp", f"{desk['metadata']['name']}:/runs/{run['name']}/{name}", str(folder / name))
    say(f"Spark on the cluster took {time.monotonic() - submitted:.0f} s with {executors}; {said.splitlines()[0]}")
    say(f"report copied to {folder / 'report.html'}")
    return Reported(json.loads((folder / "report.json").read_text()), said, executors)
