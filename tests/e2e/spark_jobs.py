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
JOB_SECONDS_MAX = 600


@dataclass(frozen=True)
class Reported:
    """What a Job made, and what it said."""

    report: dict[str, Any]
    said: str


def report(kubectl: Kubectl, programs: Path, image: str, run: Path, sources: dict[str, Any]) -> Reported:
    """The report of a run of this machine, made by a Job with an executor; `sources` are values below `run`."""
    values = {
        "image": charts.image(image),
        "runs": {"size": "200Mi"},
        "desk": {"enabled": True},
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
    }
    charts.install(programs, kubectl, RELEASE, CHART, values)
    kubectl("rollout", "status", f"deployment/{RELEASE}-desk", "--timeout=110s")
    (desk,) = kubectl("get", "pods", "--selector", "app.kubernetes.io/component=desk", "--output", "name").split()
    pod = desk.removeprefix("pod/")
    kubectl("cp", str(run), f"{pod}:/runs/")
    submitted = time.monotonic()
    charts.install(programs, kubectl, RELEASE, CHART, {**values, "run": {"name": run.name, **sources}})
    executors: set[str] = set()

    def ended() -> Object | None:
        executors.update(each["metadata"]["name"] for each in kubectl.objects.list("pod", "spark-role=executor"))
        (job,) = kubectl.objects.list("job", f"app.kubernetes.io/instance={RELEASE}")
        status = job.get("status") or {}
        return job if status.get("succeeded") or status.get("failed") else None

    job = eventually(ended, seconds=JOB_SECONDS_MAX, what="the Job of the chart has ended")
    assert job is not None
    said = kubectl("logs", f"job/{job['metadata']['name']}", "--all-containers")
    assert job["status"].get("succeeded"), said
    assert executors, "no executor pod was seen"
    folder = diagnostics.folder_for("spark-report")
    for name in ("report.html", "report.json"):
        kubectl("cp", f"{pod}:/runs/{run.name}/{name}", str(folder / name))
    say(f"Spark on the cluster took {time.monotonic() - submitted:.0f} s with {executors}; {said.splitlines()[0]}")
    say(f"report copied to {folder / 'report.html'}")
    return Reported(json.loads((folder / "report.json").read_text()), said)
