"""A Job and its pods as they are: whose, whether at work, why not, and how they ended. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from minikafka_kube.instants import instant

from minikafka_chaos.controller.jobs import GRACE_SECONDS
from minikafka_chaos.experiment.kinds import JOB, Object, job_name

RUNNER_SECONDS_MAX: Final = GRACE_SECONDS + 60.0
"""A runner that is still there so long after it was told to end is on a node that nobody reaches. It cannot begin any fault."""


def belongs(thing: Object, to: Object) -> bool:
    """Return whether something was made for this very object, and not for one of its name."""
    return any(one.get("uid") == to["metadata"]["uid"] for one in thing["metadata"].get("ownerReferences") or ())


def runners_of(experiment: Object, job: Object | None, pods: Sequence[Object]) -> list[Object]:
    """Select the pods of the experiment's Job, also of one that is gone; any pod can have its label."""
    name = job_name(experiment["metadata"]["name"])

    def made(pod: Object) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        return any(one.get("kind") == JOB.name and one.get("name") == name and one.get("controller") for one in owners)

    foreign = None if job is None or belongs(job, experiment) else job
    return [pod for pod in pods if made(pod) and (foreign is None or not belongs(pod, foreign))]


def finished(thing: Object) -> str:
    """Return how a Job has ended; empty while it has not."""
    for condition in (thing.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition.get("message") or condition.get("reason") or condition["type"])
    return ""


def may_run(pod: Object, now: datetime) -> bool:
    """Return whether a runner's pod may still be at work."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    deleted = instant(pod["metadata"].get("deletionTimestamp"))
    return deleted is None or now < deleted + timedelta(seconds=RUNNER_SECONDS_MAX)


def why_not_begun(pods: Sequence[Object], job: Object) -> str:
    """As the pod's status has it."""
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        for each in status.get("conditions") or ():
            if each["type"] == "PodScheduled" and each["status"] != "True":
                return f"pod {name}: {each.get('message') or each.get('reason') or 'not scheduled'}"
        for container in status.get("containerStatuses") or ():
            waits = (container.get("state") or {}).get("waiting") or {}
            if waits.get("reason"):
                return f"pod {name}: {waits['reason']}" + (f": {waits['message']}" if waits.get("message") else "")
        phase = status.get("phase") or "new"
        return f"pod {name} runs, and has told nothing yet" if phase == "Running" else f"pod {name} is {phase}"
    return f"it has no pod (kubectl describe job {job['metadata']['name']} says why)"


def ends(pods: Sequence[Object]) -> Iterator[dict[str, Any]]:
    """Yield how each container ended that has ended."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            if ended := (container.get("state") or {}).get("terminated"):
                yield ended


def last_words(pods: Sequence[Object]) -> str:
    """Return what a runner said last, or how it ended without a word; empty where neither tells anything."""
    for ended in ends(pods):
        if ended.get("message"):
            return " ".join(str(ended["message"]).split())[-1000:]
        if ended.get("reason") not in (None, "Completed"):
            return f"the runner ended: {ended['reason']} (exit code {ended.get('exitCode')})"
    return ""
