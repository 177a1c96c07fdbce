"""What the controller makes for an experiment: its Job, and its own cluster where it brings one along."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from minikafka_chaos.controller.prometheus_urls import IN_CLUSTER
from minikafka_chaos.experiment.kinds import (
    EXPERIMENT,
    EXPERIMENT_LABEL,
    JOB,
    MANAGED_BY_LABEL,
    MANAGER,
    TEMPLATE_ANNOTATION,
    Object,
    job_name,
)
from minikafka_chaos.experiment.status import ExperimentStatus
from minikafka_chaos.grounds.kubernetes import ClientListener, manifest
from minikafka_chaos.scenario.document import UnflushedVolume
from minikafka_chaos.scenario.scenario import ClusterSpec

RUNS_PATH: Final = "/runs"
RUNS_VOLUME: Final = "runs"
USER_ID: Final = 65532
GRACE_SECONDS: Final = 30
"""How long a runner may take to undo its faults and write down what it has, when it is told to end."""

_TYPED: Final = {"min.insync.replicas": "minInsyncReplicas", "default.replication.factor": "defaultFactor"}


SPREADS: Final = ("none", "preferred", "required")
"""As `executors.spread` of the chart minikafka-analytics."""


@dataclass(frozen=True)
class ReportSettings:
    """What the chart says of reports."""

    image: str
    """With Spark: the analytics image."""
    pull_policy: str = ""
    account: str = "minikafka-analytics"
    """The service account of the driver; it may make executors, as the chart minikafka-analytics allows its own."""
    executors: int = 1
    """Executor pods; 0: Spark works in the Job's pod alone."""
    deadline_seconds: int = 1800
    desk: str = ""
    """A Deployment that mounts the claim: by it a report is copied out."""
    resources: Mapping[str, Any] = field(
        default_factory=lambda: {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    )
    spread: str = SPREADS[0]
    """Whether executors are to be on different nodes: one of `SPREADS`."""


@dataclass(frozen=True)
class JobSettings:
    """What the chart says of Jobs."""

    image: str
    """With scenarios, load and verifier: the chaos image."""
    pull_policy: str = ""
    pull_secrets: tuple[str, ...] = ()
    account: str = "minikafka-chaos-runner"
    """The service account of Jobs; it is in each namespace where experiments are."""
    runs_claim: str = ""
    """A PersistentVolumeClaim for the runs of experiments that name none; empty: they go with the Job's pod."""
    prometheus_urls: tuple[str, ...] = IN_CLUSTER
    """Which Prometheus probes may ask; see `prometheus_urls`."""
    report: ReportSettings | None = None
    """None: no reports are made."""
    network: str = ""
    """The namespace of the network agents; empty: there are none, and no fault of the network is made."""
    resources: Mapping[str, Any] = field(
        default_factory=lambda: {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    )


def owner(experiment: Object) -> dict[str, Any]:
    """Return what is owned by the experiment goes with it."""
    return {
        "apiVersion": EXPERIMENT.api_version,
        "kind": EXPERIMENT.name,
        "name": experiment["metadata"]["name"],
        "uid": experiment["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels(experiment: Object) -> dict[str, str]:
    """Labels of everything that is made for it."""
    return {
        "app.kubernetes.io/name": "minikafka",
        "app.kubernetes.io/component": "chaos",
        MANAGED_BY_LABEL: MANAGER,
        EXPERIMENT_LABEL: experiment["metadata"]["name"],
    }


def runs_claim(experiment: Object, settings: JobSettings) -> str:
    """The claim for the experiment's run, in its own namespace; empty: there is none.

    Once it has begun, what was written down then: the chart may name another meanwhile, on which the run is not.
    """
    status = ExperimentStatus.of(experiment)
    if status.started_at is not None:
        return status.runs_claim or ""
    named = ((experiment.get("spec") or {}).get("runs") or {}).get("claim")
    return str(named or settings.runs_claim)


def run_folder(experiment: Object) -> str:
    """Return where the run is on the volume for runs."""
    metadata = experiment["metadata"]
    return f"{metadata['name']}-{metadata['uid'][:8]}"


def job(
    experiment: Object,
    cluster: str,
    deadline_seconds: int,
    settings: JobSettings,
    secrets: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None,
) -> Object:
    """The Job that tells the story. It is tried once: half a story cannot be told to its end by somebody else.

    ``secrets``: a volume with what its clients need at a secured cluster, and where it is mounted.
    """
    metadata = experiment["metadata"]
    arguments = [metadata["name"], f"--cluster={cluster}", f"--out={RUNS_PATH}/{run_folder(experiment)}"]
    if settings.network:
        arguments.append(f"--network-namespace={settings.network}")
    container: dict[str, Any] = {
        "name": "runner",
        "image": settings.image,
        "command": ["python3", "-m", "minikafka_chaos.controller.runner"],
        "args": arguments,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "resources": dict(settings.resources),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": RUNS_VOLUME, "mountPath": RUNS_PATH}],
    }
    if settings.pull_policy:
        container["imagePullPolicy"] = settings.pull_policy
    pod = pod_of(container, settings.account, runs_claim(experiment, settings), settings.pull_secrets)
    pod["terminationGracePeriodSeconds"] = GRACE_SECONDS
    if secrets is not None:
        volume, mount = secrets
        pod["volumes"].append(volume)
        container["volumeMounts"].append(mount)
    return job_of(experiment, job_name(metadata["name"]), pod, labels(experiment), deadline_seconds)


def pod_of(container: Object, account: str, claim: str, pull_secrets: Sequence[str]) -> dict[str, Any]:
    """The spec of a pod that is tried once, with a volume for runs, as the restricted Pod Security Standard wants it."""
    runs = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": RUNS_VOLUME, **runs}],
    }
    if pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in pull_secrets]
    return pod


def job_of(experiment: Object, name: str, pod: Object, words: Mapping[str, str], deadline_seconds: int) -> Object:
    """A Job of one pod, which goes with the experiment. ``words``: its labels, and its pod's."""
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.name,
        "metadata": {
            "name": name,
            "namespace": experiment["metadata"]["namespace"],
            "labels": dict(words),
            "ownerReferences": [owner(experiment)],
        },
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": deadline_seconds,
            "template": {"metadata": {"labels": dict(words)}, "spec": pod},
        },
    }


def own_cluster(experiment: Object, name: str, cluster: ClusterSpec) -> Object:
    """The MiniKafkaCluster of a scenario's template, as the ground would make it. Its data goes with it."""
    made = manifest(name, cluster, ClientListener.INTERNAL)
    metadata = {
        **made["metadata"],
        "namespace": experiment["metadata"]["namespace"],
        "labels": {**made["metadata"]["labels"], **labels(experiment)},
        "annotations": {**(made["metadata"].get("annotations") or {}), TEMPLATE_ANNOTATION: _digest(cluster)},
        "ownerReferences": [owner(experiment)],
    }
    return {**made, "metadata": metadata}


def is_made_from(thing: Object, cluster: ClusterSpec) -> bool:
    """Whether an experiment's own cluster was made from this template, and not from what the template was before an edit."""
    return bool((thing["metadata"].get("annotations") or {}).get(TEMPLATE_ANNOTATION) == _digest(cluster))


def _digest(cluster: ClusterSpec) -> str:
    return hashlib.sha256(cluster.model_dump_json().encode()).hexdigest()[:16]


def existing_cluster(cluster: Object) -> ClusterSpec:
    """A cluster that is there, in the words of scenarios: what the story is checked against and told with."""
    spec = cluster.get("spec") or {}
    brokers = int((spec.get("brokers") or {}).get("replicas") or 3)
    unflushed = UnflushedVolume.SEPARATE if spec.get("unflushedVolume") is not None else UnflushedVolume.NONE
    replication = spec.get("replication") or {}
    config = {**(spec.get("config") or {})}
    config |= {key: str(replication[name]) for key, name in _TYPED.items() if name in replication}
    entries = [{"name": key, "value": value} for key, value in sorted(config.items())]
    return ClusterSpec.model_validate_json(
        json.dumps({"brokers": brokers, "unflushedVolume": unflushed.value, "config": entries})
    )
