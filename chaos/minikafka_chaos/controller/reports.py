"""The report of an experiment that has come to a verdict: a Job of the analytics image, and what became of it. No I/O.

The report comes after the end: the verdict stands, every fault is undone, the finalizer is off. Whatever becomes of the report,
nothing of that changes; it is told in the condition Reported, in an Event and in ``status.report``. The Job belongs to the
experiment and goes with it, its executors belong to its pod.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.instants import instant

from minikafka_chaos.controller.job_state import ends, finished, why_not_begun
from minikafka_chaos.controller.jobs import (
    RUNS_PATH,
    RUNS_VOLUME,
    JobSettings,
    ReportSettings,
    job_of,
    labels,
    pod_of,
    run_folder,
    runs_claim,
)
from minikafka_chaos.controller.phases.creation import START_SECONDS
from minikafka_chaos.controller.steps import ObservedExperiment
from minikafka_chaos.experiment.kinds import COMPONENT_LABEL, REPORT_COMPONENT, Object, report_job_name
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason
from minikafka_chaos.experiment.status import ExperimentStatus, Phase, ReportStatus

PAGE: Final = "report.html"
_DETAIL_MAX: Final = 1000

FINAL: Final = frozenset(
    {ChaosReason.REPORT_MADE, ChaosReason.REPORT_FAILED, ChaosReason.REPORT_DISAGREES, ChaosReason.NO_CLAIM}
)
"""After one of these nothing more comes of a report."""


@dataclass(frozen=True)
class ReportOutcome:
    """What has become of a report: the condition, and what the status says of it."""

    judgement: Judgement
    report: ReportStatus | None = None
    look_again_seconds: float | None = None
    """None: its Job and its pod tell when something happens."""


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


def is_wanted(status: ExperimentStatus, settings: JobSettings) -> bool:
    """Return whether there is a report still to come."""
    if settings.report is None or status.phase is not Phase.COMPLETED or not status.run:
        return False
    return status.condition(ChaosCondition.REPORTED).get("reason") not in FINAL


def look(seen: ObservedExperiment) -> ReportOutcome:
    """Return how far the report is; asked where one `is_wanted`."""
    status, job = seen.status, seen.report_job
    claim, name = status.runs_claim, report_job_name(seen.name)
    if not claim:
        says = "the run went with the Job's pod; for a report it needs a claim: spec.runs.claim, or runs.claim of the chart"
        return _failed(ChaosReason.NO_CLAIM, says)
    how = "" if job is None else finished(job)
    if job is not None and not seen.owns(job):
        return _failed(ChaosReason.REPORT_FAILED, f"there is a Job {name} that is not this experiment's")
    if not how:
        return _going_on(seen, name)
    found = _result(seen.report_pods)
    if found is None:
        return _failed(ChaosReason.REPORT_FAILED, f"Job {name}: {_last_words(seen.report_pods) or how}")
    path = f"{status.run}/{PAGE}"
    report = ReportStatus(claim=claim, path=path, verdict=found.verdict, copy_with=_copy_with(seen, path))
    if found.agree is False or found.verdict != status.verdict:
        says = (
            f"the verifier says {status.verdict}, Spark {found.verdict}: {found.sentence} (see {path} on claim {claim})"
        )
        disagrees = Judgement(ChaosCondition.REPORTED, False, ChaosReason.REPORT_DISAGREES, says[:_DETAIL_MAX])
        return ReportOutcome(disagrees, report)
    says = f"{path} on claim {claim}: {found.verdict}, as the verifier says"
    return ReportOutcome(Judgement(ChaosCondition.REPORTED, True, ChaosReason.REPORT_MADE, says), report)


def _going_on(seen: ObservedExperiment, name: str) -> ReportOutcome:
    """Its Job is to be made, or at work, or its pod waits for something, which is told where it takes long."""
    says, wait = f"Job {name} makes it", None
    begun = any((pod.get("status") or {}).get("phase") not in (None, "Pending") for pod in seen.report_pods)
    if seen.report_job is not None and not begun:
        since = instant(seen.report_job["metadata"].get("creationTimestamp")) or seen.now
        wait = START_SECONDS - (seen.now - since).total_seconds()
        if wait <= 0:
            says += f"; it has not begun: {why_not_begun(seen.report_pods, seen.report_job)}"
    going_on = Judgement(ChaosCondition.REPORTED, None, ChaosReason.REPORT_GOING_ON, says)
    return ReportOutcome(going_on, look_again_seconds=wait if wait is not None and wait > 0 else None)


def _copy_with(seen: ObservedExperiment, path: str) -> str | None:
    """A command that copies the page out, where a Deployment mounts the claim."""
    assert seen.settings.report is not None
    if not (desk := seen.settings.report.desk):
        return None
    return f"kubectl --namespace {seen.namespace} exec deploy/{desk} -- cat {RUNS_PATH}/{path} > {PAGE}"


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
    for ended in ends(pods):
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
    for ended in ends(pods):
        lines = [line.strip() for line in str(ended.get("message") or "").splitlines() if line.strip()]
        said = lines[-1] if lines else str(ended.get("reason") or "ended")
        return f"{said} (exit code {ended.get('exitCode')})"[-_DETAIL_MAX:]
    return ""


def _failed(reason: ChaosReason, message: str) -> ReportOutcome:
    return ReportOutcome(Judgement(ChaosCondition.REPORTED, False, reason, message[:_DETAIL_MAX]))
