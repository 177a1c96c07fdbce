"""Whether an experiment may begin: refused for good, to wait for something, or admitted. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from minikafka.telemetry.fault_verbs import LACKS
from minikafka_kube.conditions import condition
from minikafka_kube.disruption_lease import experiment_name, hold_of, identity, is_experiment
from minikafka_kube.freshness import MetadataGap
from minikafka_kube.observed import PartitionState, deleting
from pydantic import ValidationError

from minikafka_chaos.controller import credentials
from minikafka_chaos.controller.job_state import belongs
from minikafka_chaos.controller.jobs import JobSettings, existing_cluster, is_made_from, labels, owner, runs_claim
from minikafka_chaos.controller.prometheus_urls import refusal as urls_refusal
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.experiment.budget import cluster_refusal, story_refusal
from minikafka_chaos.experiment.kinds import EXPERIMENT, Object, own_cluster_name
from minikafka_chaos.experiment.reasons import ChaosReason
from minikafka_chaos.grounds.kubernetes import too_long
from minikafka_chaos.grounds.kubernetes_network import steps_with_links
from minikafka_chaos.network.permission import HOW_TO_ALLOW, allows_chaos
from minikafka_chaos.scenario.document_lines import explain
from minikafka_chaos.scenario.scenario import ClusterSpec, Scenario

LOOK_AGAIN_SECONDS = 5.0
WRITABLE: Final = frozenset({"ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"})


@dataclass(frozen=True)
class Refusal:
    """It must not begin, and will not, unless somebody changes something about it."""

    reason: ChaosReason
    message: str


@dataclass(frozen=True)
class Postponed:
    """It may begin later. ``make``: the cluster that has to be made for it first, under the name ``cluster``."""

    reason: ChaosReason
    message: str
    seconds: float = LOOK_AGAIN_SECONDS
    cluster: str = ""
    make: ClusterSpec | None = None
    quiet: bool = False
    """It comes right by itself within seconds: nobody is told, unless it does not."""
    outdated: bool = False
    """The cluster, or the user, that was made for it has to go first: its template was edited since."""
    make_user: Object | None = None
    """The MiniKafkaUser that has to be made for it first."""


@dataclass(frozen=True)
class Admitted:
    """It may begin, on this cluster; its run is kept on this claim (empty: on none)."""

    cluster: str
    claim: str = ""


Admission = Refusal | Postponed | Admitted


def scenario_of(experiment: Object) -> Scenario:
    """The scenario of an experiment. Raises BadScenario: one line that names the field and what is allowed."""
    metadata = {"name": experiment["metadata"]["name"]}
    document = {
        "apiVersion": EXPERIMENT.api_version,
        "kind": EXPERIMENT.name,
        "metadata": metadata,
        "spec": experiment.get("spec"),
    }
    try:
        return Scenario.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise BadScenario(explain(error, Scenario, None, "")) from error


def on_cluster(scenario: Scenario, cluster: Object) -> Scenario:
    """The scenario with the cluster that its reference names. Raises BadScenario where it does not fit."""
    try:
        return scenario.on(existing_cluster(cluster))
    except ValidationError as error:
        raise BadScenario(explain(error, Scenario, None, "")) from error


def cluster_name(experiment: Object) -> str:
    """The cluster that it names, or that is made for it."""
    named = ((experiment.get("spec") or {}).get("clusterRef") or {}).get("name")
    metadata = experiment["metadata"]
    return str(named) if named else own_cluster_name(metadata["name"], metadata["uid"])


@dataclass(frozen=True)
class Surroundings:
    """What an experiment that has not begun would have to do with, as it is now."""

    cluster: Object | None = None
    lease: Object | None = None
    job: Object | None = None
    """What has the name of the Job that it would have."""
    user: Object | None = None
    """What has the name of the MiniKafkaUser that it would have."""
    claim: Object | None = None
    """The claim that its run is to be kept on."""
    partitions: Sequence[PartitionState] = ()
    gap: MetadataGap | None = None
    network: str = ""
    """Why its faults of the network cannot be made; empty when they can, or it has none."""


def admit(experiment: Object, there: Surroundings, settings: JobSettings, now: datetime) -> Admission:
    """Look at everything in the order in which a person would want to hear of it."""
    answer = _with_user(experiment, there, _admit(experiment, there, settings.prometheus_urls, now))
    if isinstance(answer, Refusal):
        return answer
    claim = runs_claim(experiment, settings)
    if refusal := _claim_refusal(claim, there.claim):
        return refusal
    if isinstance(answer, Postponed):
        return answer
    return Admitted(answer.cluster, claim) if there.job is None else _job_in_the_way(there.job, answer.cluster)


def _admit(experiment: Object, there: Surroundings, prometheus_urls: Sequence[str], now: datetime) -> Admission:
    cluster = there.cluster
    try:
        scenario = scenario_of(experiment)
    except BadScenario as error:
        return Refusal(ChaosReason.INVALID_SPEC, str(error))
    if says := _lacking(scenario):
        return Refusal(ChaosReason.NOT_SUPPORTED, says)
    if says := next(iter(too_long(scenario.spec)), ""):
        return Refusal(ChaosReason.NOT_SUPPORTED, says)
    if says := urls_refusal(scenario.spec, prometheus_urls):
        return Refusal(ChaosReason.PROMETHEUS_NOT_ALLOWED, says)
    if there.network and (links := next(iter(steps_with_links(scenario.spec)), None)):
        step, verb = links
        return Refusal(ChaosReason.NOT_SUPPORTED, f"step {step.name}: {verb.value}: {there.network}")
    name = cluster_name(experiment)
    if scenario.spec.cluster_ref is None:
        return _on_new_cluster(experiment, scenario, name, cluster)
    if cluster is None:
        return Refusal(ChaosReason.CLUSTER_NOT_FOUND, f"spec.clusterRef: there is no MiniKafkaCluster {name}")
    if not allows_chaos(cluster):
        says = f"MiniKafkaCluster {name} does not allow chaos: {HOW_TO_ALLOW}"
        return Refusal(ChaosReason.CHAOS_NOT_ALLOWED, says)
    if says := credentials.refusal(cluster):
        return Refusal(ChaosReason.NOT_SUPPORTED, says)
    try:
        scenario = on_cluster(scenario, cluster)
    except BadScenario as error:
        return Refusal(ChaosReason.INVALID_SPEC, str(error))
    if says := story_refusal(scenario.spec, scenario.spec.cluster.brokers):
        return Refusal(ChaosReason.BUDGET_EXCEEDED, says)
    if own := next((topic.name for topic in scenario.spec.topics if topic.name.startswith("__")), None):
        says = f"spec.topics: {own}: names that begin with __ are those of the cluster itself, which would lose it at the end"
        return Refusal(ChaosReason.INVALID_SPEC, says)
    hold = hold_of(there.lease)
    if hold.by_other(identity(experiment), now):
        if is_experiment(hold):
            says = f"experiment {experiment_name(hold)} goes on with cluster {name}; one at a time"
            return Refusal(ChaosReason.CLUSTER_BUSY, says)
        return Postponed(ChaosReason.WAITING_FOR_LEASE, f"{hold.holder} is taking brokers of {name} away", cluster=name)
    if unready := _not_ready(cluster):
        return Postponed(ChaosReason.WAITING_FOR_CLUSTER, f"cluster {name} is not ready: {unready}", cluster=name)
    if (gap := there.gap) is not None:
        return Postponed(ChaosReason.WAITING_FOR_METADATA, gap.message, 1.0, cluster=name, quiet=not gap.lasting)
    topics = {one.topic for one in there.partitions}
    if taken := sorted(topic.name for topic in scenario.spec.topics if topic.name in topics):
        says = f"cluster {name} has a topic {taken[0]} already; an experiment makes its topics, and removes them"
        return Refusal(ChaosReason.TOPIC_EXISTS, says)
    if says := cluster_refusal(scenario.spec, there.partitions):
        return Refusal(ChaosReason.BUDGET_EXCEEDED, says)
    return Admitted(name)


def _lacking(scenario: Scenario) -> str:
    """The first step that asks for what cannot be done here; empty when there is none."""
    lacks = LACKS["kubernetes"]
    for step in scenario.spec.steps:
        for verb in step.fault.verbs if step.fault is not None else ():
            if verb in lacks:
                return f"step {step.name}: {verb.value} cannot be done on Kubernetes: {lacks[verb]}"
    return ""


def _on_new_cluster(experiment: Object, scenario: Scenario, name: str, cluster: Object | None) -> Admission:
    """A cluster that is made for the experiment holds nobody's data: no budget."""
    if scenario.spec.cluster.racks:
        return Refusal(
            ChaosReason.NOT_SUPPORTED, "spec.cluster.racks: racks are nodes here; use clusterRef and spec.rack"
        )
    if cluster is None:
        says = f"cluster {name}, which is made for it: not there yet"
        return Postponed(ChaosReason.WAITING_FOR_CLUSTER, says, cluster=name, make=scenario.spec.cluster)
    owners: Sequence[Any] = cluster["metadata"].get("ownerReferences") or ()
    if not any(one.get("uid") == experiment["metadata"]["uid"] for one in owners):
        return Refusal(
            ChaosReason.CLUSTER_NOT_OURS, f"there is a MiniKafkaCluster {name} that is not this experiment's"
        )
    if not is_made_from(cluster, scenario.spec.cluster):
        # Told on another cluster than its own words say, a story's verdict would be of something else.
        says = f"cluster {name}, which is made for it: made anew, for spec.cluster was edited"
        return Postponed(ChaosReason.WAITING_FOR_CLUSTER, says, cluster=name, outdated=True)
    if unready := _not_ready(cluster):
        return Postponed(
            ChaosReason.WAITING_FOR_CLUSTER, f"cluster {name}, which is made for it: {unready}", cluster=name
        )
    return Admitted(name)


def _with_user(experiment: Object, there: Surroundings, answer: Admission) -> Admission:
    """At a secured cluster the last thing that it waits for: the user as which its clients log in."""
    if not isinstance(answer, Admitted) or there.cluster is None:
        return answer
    metadata = {
        "namespace": experiment["metadata"]["namespace"],
        "labels": labels(experiment),
        "ownerReferences": [owner(experiment)],
    }
    wanted = credentials.user(experiment, there.cluster, scenario_of(experiment), metadata)
    if wanted is None:
        return answer
    name, user = wanted["metadata"]["name"], there.user
    says = f"MiniKafkaUser {name}, as which its clients log in: "

    def wait(why: str, **more: Any) -> Postponed:
        return Postponed(ChaosReason.WAITING_FOR_USER, says + why, 1.0, cluster=answer.cluster, **more)

    if user is None:
        return wait("not there yet", make_user=wanted)
    if not belongs(user, experiment):
        if deleting(user) or _of_experiment(user):
            return wait("one of an earlier experiment has to go first")
        says = f"there is a MiniKafkaUser {name} that is not this experiment's; rename one of them"
        return Refusal(ChaosReason.USER_NOT_OURS, says)
    if deleting(user):
        return wait("the one before has to go first")
    if not credentials.is_made_as(user, wanted):
        return wait("made anew, for what it may do was edited", outdated=True)
    if why := credentials.not_in_force(user):
        return wait(why, quiet=True)
    return answer


def _of_experiment(thing: Object) -> bool:
    return any(one.get("kind") == EXPERIMENT.name for one in thing["metadata"].get("ownerReferences") or ())


def _not_ready(cluster: Object) -> str:
    if "deletionTimestamp" in cluster["metadata"]:
        return "it is being deleted"
    ready = condition(cluster.get("status") or {}, "Ready")
    if not ready:
        return "the operator has said nothing of it"
    if ready.get("observedGeneration") not in (None, cluster["metadata"].get("generation")):
        return "it is changing"
    return "" if ready["status"] == "True" else str(ready.get("message") or ready.get("reason") or "not ready")


def _claim_refusal(name: str, claim: Object | None) -> Refusal | None:
    """Return why a run cannot be kept there, as far as can be seen before; None when nothing speaks against it."""
    if not name:
        return None
    if claim is None:
        says = f"runs.claim: there is no PersistentVolumeClaim {name} in this namespace"
        return Refusal(ChaosReason.CLAIM_NOT_FOUND, says)
    if deleting(claim):
        return Refusal(ChaosReason.CLAIM_NOT_FOUND, f"runs.claim: PersistentVolumeClaim {name} is being deleted")
    modes = (claim.get("spec") or {}).get("accessModes") or ()
    if not WRITABLE.intersection(modes):
        says = f"runs.claim: PersistentVolumeClaim {name} is {', '.join(modes)}; allowed: {', '.join(sorted(WRITABLE))}"
        return Refusal(ChaosReason.CLAIM_NOT_WRITABLE, says)
    if (claim.get("status") or {}).get("phase") == "Lost":
        says = f"runs.claim: the volume of PersistentVolumeClaim {name} is gone"
        return Refusal(ChaosReason.CLAIM_NOT_FOUND, says)
    return None


def _job_in_the_way(job: Object, cluster: str) -> Refusal | Postponed:
    """Before it has begun an experiment has no Job: there is one of somebody else, or of an earlier experiment of this name."""
    name = job["metadata"]["name"]
    if deleting(job) or _of_experiment(job):
        says = f"Job {name}, of an earlier experiment, has to go first"
        return Postponed(ChaosReason.JOB_NOT_OURS, says, 1.0, cluster=cluster)
    return Refusal(ChaosReason.JOB_NOT_OURS, f"there is a Job {name} that is not this experiment's; rename one of them")
