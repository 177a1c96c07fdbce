"""The report of an experiment that has come to a verdict: a Job of the analytics image, and what became of it. No I/O.

The report comes after the end: the verdict stands, every fault is undone, the finalizer is off. Whatever becomes of the report,
nothing of that changes; it is told in the condition Reported, in an Event and in ``status.report``. The Job belongs to the
experiment and goes with it, its executors belong to its pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minikafka_kube.conditions import Judgement, condition
from minikafka_kube.observed import deleting

from minikafka_chaos.controller.api import Phase
from minikafka_chaos.controller.jobs import (
    RUNS_PATH,
    RUNS_VOLUME,
    JobSettings,
    ReportSettings,
    belongs,
    finished,
    job_of,
    labels,
    pod_of,
    run_folder,
    runs_claim,
)
from minikafka_chaos.controller.kinds import COMPONENT_LABEL, REPORT_COMPONENT, Object, report_job_name
from minikafka_chaos.controller.reasons import ChaosCondition, ChaosReason

WRITABLE: Final = frozenset({"ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"})
PAGE: Final = "report.html"
_DETAIL_MAX: Final = 1000

FINAL: Final = frozenset(
    {ChaosReason.REPORT_MADE, ChaosReason.REPORT_FAILED, ChaosReason.REPORT_DISAGREES, ChaosReason.NO_CLAIM}
)
"""After one of these nothing more comes of a report."""


@dataclass(frozen=True)
class ReportOutcome:
    """What has become of a report: fields of the status, and the condition."""

    judgement: Judgement
    fields: Mapping[str, Any]

    @property
    def warning(self) -> bool:
        """Return whether somebody should look at it."""
        return self.judgement.holds is False


# --- the claim --------------------------------------------------------------------------------------------------------


def claim_refusal(name: str, claim: Object | None) -> tuple[ChaosReason, str] | None:
    """Return why a run cannot be kept there, as far as can be seen before; None when nothing speaks against it."""
    if not name:
        return None
    if claim is None:
        return ChaosReason.CLAIM_NOT_FOUND, f"runs.claim: there is no PersistentVolumeClaim {name} in this namespace"
    if deleting(claim):
        return ChaosReason.CLAIM_NOT_FOUND, f"runs.claim: PersistentVolumeClaim {name} is being deleted"
    modes = (claim.get("spec") or {}).get("accessModes") or ()
    if not WRITABLE.intersection(modes):
        says = f"runs.claim: PersistentVolumeClaim {name} is {', '.join(modes)}; allowed: {', '.join(sorted(WRITABLE))}"
        return ChaosReason.CLAIM_NOT_WRITABLE, says
    if (claim.get("status") or {}).get("phase") == "Lost":
        return ChaosReason.CLAIM_NOT_FOUND, f"runs.claim: the volume of PersistentVolumeClaim {name} is gone"
    return None


# --- the Job ----------------------------------------------------------------------------------------------------------


def report_job(experiment: Object, settings: JobSettings, report: ReportSettings) -> Object:
    """The Job that makes the report in the run's folder. Its exit code is `minikafka analyze`'s."""
    folder = f"{RUNS_PATH}/{run_folder(experiment)}"
    master = "k8s://" if report.executors else "local[*]"
    args = ["analyze", folder, f"--master={master}", "--json"]
    if report.executors:
        args.append(f"--conf=spark.executor.instances={report.executors}")
        args.append(f"--conf=spark.minikafka.executors.spread={report.spread}")
    container: dict[str, Any] = {
        "name": "driver",
        "image": report.image,
        "args": args,
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": dict(report.resources),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": RUNS_VOLUME, "mountPath": RUNS_PATH}],
    }
    if report.pull_policy:
        container["imagePullPolicy"] = report.pull_policy
    words = {**labels(experiment), COMPONENT_LABEL: REPORT_COMPONENT}
    pod = pod_of(container, report.account, runs_claim(experiment, settings), settings.pull_secrets)
    return job_of(experiment, report_job_name(experiment["metadata"]["name"]), pod, words, report.deadline_seconds)


# --- what became of it ------------------------------------------------------------------------------------------------


def is_wanted(experiment: Object, settings: JobSettings) -> bool:
    """Return whether there is a report still to come."""
    status = experiment.get("status") or {}
    if settings.report is None or status.get("phase") != Phase.COMPLETED or not status.get("run"):
        return False
    return condition(status, ChaosCondition.REPORTED).get("reason") not in FINAL


def look(experiment: Object, settings: JobSettings, job: Object | None, pods: Sequence[Object]) -> ReportOutcome:
    """Return how far the report is; asked where one `is_wanted`."""
    status = experiment["status"]
    claim, name = status.get("runsClaim"), report_job_name(experiment["metadata"]["name"])
    if not claim:
        says = "the run went with the Job's pod; for a report it needs a claim: spec.runs.claim, or runs.claim of the chart"
        return _failed(ChaosReason.NO_CLAIM, says)
    going_on = ReportOutcome(
        Judgement(ChaosCondition.REPORTED, None, ChaosReason.REPORT_GOING_ON, f"Job {name} makes it"), {}
    )
    if job is None:
        return going_on
    if not belongs(job, experiment):
        return _failed(ChaosReason.REPORT_FAILED, f"there is a Job {name} that is not this experiment's")
    how = finished(job)
    if not how:
        return going_on
    found = _result(pods)
    verdict = status.get("verdict")
    if found is None:
        return _failed(ChaosReason.REPORT_FAILED, f"Job {name}: {_last_words(pods) or how}")
    path = f"{status['run']}/{PAGE}"
    made: dict[str, Any] = {"claim": claim, "path": path, "verdict": found.verdict}
    assert settings.report is not None
    if settings.report.desk:
        where = f"kubectl --namespace {experiment['metadata']['namespace']} exec deploy/{settings.report.desk}"
        made["copy"] = f"{where} -- cat {RUNS_PATH}/{path} > {PAGE}"
    if found.agree is False or found.verdict != verdict:
        says = f"the verifier says {verdict}, Spark {found.verdict}: {found.sentence} (see {path} on claim {claim})"
        return ReportOutcome(
            Judgement(ChaosCondition.REPORTED, False, ChaosReason.REPORT_DISAGREES, says[:_DETAIL_MAX]),
            {"report": made},
        )
    says = f"{path} on claim {claim}: {found.verdict}, as the verifier says"
    return ReportOutcome(Judgement(ChaosCondition.REPORTED, True, ChaosReason.REPORT_MADE, says), {"report": made})


@dataclass(frozen=True)
class _Found:
    """What `minikafka analyze --json` said of the run."""

    verdict: str
    sentence: str
    agree: bool | None


def _result(pods: Sequence[Object]) -> _Found | None:
    """The last line of the driver's, where that is its result.

    Kubernetes keeps the end of a container's log only where it failed: one that ended with 0 has found Passed.
    """
    for ended in _terminated(pods):
        if ended.get("exitCode") == 0:
            return _Found("Passed", "", True)
        for line in reversed(str(ended.get("message") or "").split("\n")):
            try:
                (run,) = json.loads(line)["runs"]
                return _Found(str(run["verdict"]), str(run.get("sentence") or ""), run.get("agree"))
            except (ValueError, KeyError, TypeError):
                continue
    return None


def _last_words(pods: Sequence[Object]) -> str:
    for ended in _terminated(pods):
        lines = [line.strip() for line in str(ended.get("message") or "").splitlines() if line.strip()]
        said = lines[-1] if lines else str(ended.get("reason") or "ended")
        return f"{said} (exit code {ended.get('exitCode')})"[-_DETAIL_MAX:]
    return ""


def _terminated(pods: Sequence[Object]) -> list[Mapping[str, Any]]:
    statuses = [one for pod in pods for one in (pod.get("status") or {}).get("containerStatuses") or ()]
    return [one["state"]["terminated"] for one in statuses if (one.get("state") or {}).get("terminated")]


def _failed(reason: ChaosReason, message: str) -> ReportOutcome:
    return ReportOutcome(Judgement(ChaosCondition.REPORTED, False, reason, message[:_DETAIL_MAX]), {})
