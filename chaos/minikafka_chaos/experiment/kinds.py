"""Kinds, names, labels and annotations of chaos on Kubernetes."""

from __future__ import annotations

import hashlib
from typing import Final

from minikafka_kube.api import API_VERSION, GROUP
from minikafka_kube.kinds import EXPERIMENT, Kind, Object
from minikafka_kube.names import CLUSTER_LABEL, MANAGED_BY_LABEL

__all__ = ["CLUSTER_LABEL", "EXPERIMENT", "MANAGED_BY_LABEL", "Object"]

SCHEDULE: Final = Kind(API_VERSION, "ChaosSchedule", "chaosschedules")
EVENT: Final = Kind("v1", "Event", "events")
"""The older kind: ``kubectl describe`` puts Events in order by a time that those of events.k8s.io/v1 must not have."""
JOB: Final = Kind("batch/v1", "Job", "jobs")

MANAGER: Final = "minikafka-chaos"
"""Field manager of every write, and value of the label ``app.kubernetes.io/managed-by``."""
FINALIZER: Final = f"{GROUP}/chaos"
EXPERIMENT_LABEL: Final = f"{GROUP}/experiment"
SCHEDULE_LABEL: Final = f"{GROUP}/schedule"

ABORT_ANNOTATION: Final = f"{GROUP}/abort"
"""On an experiment, with the value ``true``: undo its faults and end it; the object stays."""
FORCE_ANNOTATION: Final = f"{GROUP}/force-delete"
"""On an experiment that is being deleted, with the value ``true``: let it go without undoing anything. Faults expire."""

TEMPLATE_ANNOTATION: Final = f"{GROUP}/template-digest"
"""On a cluster or a user that was made for an experiment: of which template. It may be edited until the experiment has begun."""

_VALUE_MAX: Final = 40

AGENT_CONTAINER: Final = "chaos-agent"

COMPONENT_LABEL: Final = "app.kubernetes.io/component"
REPORT_COMPONENT: Final = "report"
"""Value of that label on the Job that makes a report, and on its pod."""


# --- what people ask for ----------------------------------------------------------------------------------------------


def asks(experiment: Object, annotation: str) -> bool:
    """Return whether an annotation says ``true``, in whatever case: YAML and people write True and TRUE, too."""
    return _value(experiment, annotation).lower() == "true"


def unread(experiment: Object) -> str:
    """Annotations with another value, which do nothing, and what is allowed; empty when there are none."""
    wrong = [
        f"annotation {name}={_value(experiment, name)[:_VALUE_MAX]!r} does nothing; allowed: true"
        for name in (ABORT_ANNOTATION, FORCE_ANNOTATION)
        if name in _annotations(experiment) and not asks(experiment, name)
    ]
    return "; ".join(wrong)


def _value(experiment: Object, name: str) -> str:
    return str(_annotations(experiment).get(name) or "")


def _annotations(experiment: Object) -> Object:
    return experiment["metadata"].get("annotations") or {}


# --- names ------------------------------------------------------------------------------------------------------------

JOB_NAME_MAX: Final = 57
"""Its pods have five more characters and a dash, and their names become labels."""


def job_name(experiment: str) -> str:
    """The Job of an experiment."""
    return _with_suffix(experiment, "-run")


def user_name(experiment: str) -> str:
    """The MiniKafkaUser as which the clients of an experiment log in, and its Secret."""
    return job_name(experiment)


def report_job_name(experiment: str) -> str:
    """The Job that makes the report of an experiment."""
    return _with_suffix(experiment, "-report")


def _with_suffix(experiment: str, suffix: str) -> str:
    """A long name is cut, and has a digest of all of it: of two experiments that begin alike each has its own."""
    room = JOB_NAME_MAX - len(suffix)
    if len(experiment) <= room:
        return experiment + suffix
    digest = hashlib.sha256(experiment.encode()).hexdigest()[:8]
    return f"{experiment[: room - 9].rstrip('-.')}-{digest}{suffix}"


def own_cluster_name(experiment: str, uid: str) -> str:
    """The cluster that is made for an experiment: names of clusters begin with a letter, and have 40 characters at most."""
    word = "".join(letter if letter.isalnum() else "-" for letter in experiment)[:28].strip("-")
    return f"x-{word}-{uid.replace('-', '')[:8]}"
