"""From one look at a cluster to what has to be done about it. Pure: no I/O, no clock; kopf is not known here.

The planner looks at the state of the world and never at what changed, so a missed event costs time and nothing else. On a
cluster that is as it should be it answers an empty plan, and then nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from minikafka_kube.events import Emit
from minikafka_kube.freshness import GapReason
from minikafka_kube.instants import instant
from minikafka_kube.kinds import CLUSTER, CONFIG_MAP, POD, STATEFUL_SET, Object
from minikafka_kube.names import CLUSTER_FINALIZER, RACK_ANNOTATION, TEMPLATE_ANNOTATION
from minikafka_kube.observed import ObservedCluster, deleting
from minikafka_kube.ownership import Standing
from pydantic import ValidationError

from minikafka_operator.actions import (
    Action,
    Apply,
    ClusterPlan,
    Create,
    Delete,
    Finalizers,
    Patch,
    ReplacePod,
)
from minikafka_operator.api.cluster import ClusterSpec, StorageType
from minikafka_operator.conditions import ClusterCondition, ClusterReason
from minikafka_operator.manifests.broker_certificates import (
    authorities_now,
    metrics_tokens_now,
    security_objects,
    unusable_certificates,
)
from minikafka_operator.manifests.difference import differs, digest, sealed
from minikafka_operator.manifests.external import Externals, externals
from minikafka_operator.manifests.objects import BY_NAME, OWNED, ResourceBuilder
from minikafka_operator.manifests.pods import account_of, stateful_set
from minikafka_operator.manifests.properties import (
    broker_properties,
    had_auto_creation,
    properties_text,
    settings_problems,
)
from minikafka_operator.manifests.storage import (
    claims_leaving,
    largest_capacity,
    size_claims,
    still_larger,
    without_claims_of_an_earlier_cluster,
    without_volumes,
)
from minikafka_operator.manifests.token_issuers import unusable_of_issuers
from minikafka_operator.planning.deletion import plan_deletion
from minikafka_operator.planning.managed_fields import as_applied
from minikafka_operator.planning.status import Decided, rejected_status, same_status, status_of
from minikafka_operator.planning.topics import with_cluster
from minikafka_operator.rollout.broker_problems import broker_problems
from minikafka_operator.rollout.lease import holding, yielding
from minikafka_operator.rollout.obstacles import in_the_way, of_an_earlier_cluster, overdue_seconds
from minikafka_operator.rollout.order import (
    LOOK_AGAIN_SECONDS,
    RECORDS,
    UNFLUSHED_RECORDS,
    USUAL_WAIT_SECONDS,
    Roll,
    highest_used,
    outdated_pods,
    partitions_on,
    roll,
)
from minikafka_operator.rollout.order import held_up as held

RETRY_SECONDS: Final = 5.0
"""While a cluster is not as it should be, it is looked at again this often: not everything that helps is an event."""

FRESHNESS_RETRY_SECONDS: Final = 3.0
"""While it is not known how old that is which the status tells. Controllers renew their Lease this often."""

CONFLICT_RETRY_SECONDS: Final = 30.0
"""While an object of somebody else is in the way: without our labels it is not watched, so its going is no event."""

_OF_SETTINGS: Final = (
    ClusterReason.INVALID_CONFIG, ClusterReason.CERTIFICATE_UNUSABLE, ClusterReason.TOKEN_KEYS_UNUSABLE
)  # fmt: skip
"""Reasons of what brokers would not start with."""

RENEWAL_RETRY_SECONDS: Final = 30.0
"""While a CA is renewed: its steps begin by the clock."""

_OF_PODS: Final = (CONFIG_MAP, STATEFUL_SET)
"""What a broker's pod is made of."""


@dataclass(frozen=True)
class OperatorSettings:
    """What the operator was started with."""

    broker_image: str


@dataclass
class _Draft:
    """A plan in the making."""

    actions: list[Action] = field(default_factory=list)
    events: list[Emit] = field(default_factory=list)
    retry_seconds: float | None = None

    def retry(self, seconds: float | None) -> None:
        """Look again after this time at the latest."""
        if seconds is not None:
            self.retry_seconds = seconds if self.retry_seconds is None else min(seconds, self.retry_seconds)


def plan(
    observed: ObservedCluster,
    settings: OperatorSettings,
    refused: tuple[ClusterReason, str] | None = None,
    held_up: str = "",
) -> ClusterPlan:
    """Return what to do now. ``refused``: what the API server refused when the last plan was carried out; ``held_up``: why it did
    not evict a pod.
    """
    try:
        spec = ClusterSpec.model_validate(observed.cluster.get("spec") or {})
    except ValidationError as error:
        if deleting(observed.cluster):
            return plan_deletion(observed, delete_claim=False)
        problem = ClusterReason.INVALID_SPEC, _explained(error)
        draft = _Draft(with_cluster(observed))
        return _with_status(draft, observed, rejected_status(observed, problem, observed.freshness))
    if deleting(observed.cluster):
        return plan_deletion(observed, delete_claim=spec.storage.delete_claim)
    draft = _Draft()
    decided = _decide(observed, spec, settings, draft, held_up)
    if refused is not None and decided.problem is None:
        decided = replace(decided, problem=refused)
    if spec.paused:
        draft = _Draft()
    elif decided.problems or not decided.created or len(observed.brokers) != decided.replicas:
        draft.retry(RETRY_SECONDS)
    if observed.freshness.gap is not None and observed.brokers:
        draft.retry(FRESHNESS_RETRY_SECONDS)
    draft.actions += with_cluster(observed)  # whatever keeps the cluster from having brokers
    return _with_status(draft, observed, status_of(observed, spec, decided, observed.freshness))


def _decide(
    observed: ObservedCluster, spec: ClusterSpec, settings: OperatorSettings, draft: _Draft, held_up: str
) -> Decided:
    topics = observed.topic_states
    wanted = spec.brokers.replicas
    # Brokers that would go keep their pods, or get them back, while they have replicas.
    replicas = max(wanted, highest_used(topics) + 1)
    held_back = partitions_on(topics, wanted) if replicas > wanted else []
    present = _present(observed)
    unknown = observed.gap if replicas < present else None
    if unknown is not None:  # they may have replicas that nobody has told of yet
        replicas = present
        draft.retry(LOOK_AGAIN_SECONDS)
    found = externals(spec, observed, replicas)
    decided = Decided(
        replicas=replicas,
        externals=found,
        problems=broker_problems(observed, replicas),
        held_back=held_back,
        unknown=unknown,
        created=observed.stateful_set is not None,
        problem=_problem(observed, spec),
        capacity=largest_capacity(observed, replicas),
        larger=still_larger(observed, spec, replicas),
        claims_leaving=claims_leaving(observed),
    )
    _keep_finalizer(observed, draft)
    _annotate_racks(observed, spec, draft)  # also while a change is refused: a pod that is made again waits for it
    if decided.problem is not None and decided.problem[0] in _OF_SETTINGS:
        # Nothing of a spec that brokers would not start with reaches them, and what is there stays as it is.
        return decided
    builder = ResourceBuilder(observed.names, observed.uid, spec)
    image = spec.image or settings.broker_image
    desired = [*builder.permissions(), *builder.services(replicas), builder.budget(), *builder.network_policy()]
    if spec.secured:
        authorities = authorities_now(observed, spec)
        tokens = metrics_tokens_now(observed, spec)
        desired += security_objects(observed, builder, authorities, tokens, replicas, found)
        renewing = authorities.renewing or (spec.metrics.secured and tokens.renewing)
        draft.retry(RENEWAL_RETRY_SECONDS if renewing else None)
    account = observed.account if observed.account is not None else account_of(observed.stateful_set)
    can_make_pods = account is not None and not found.unknown
    if account is None:
        draft.retry(LOOK_AGAIN_SECONDS)  # it is made now, and its uid is known at the next look
    elif not found.unknown:
        files = _files(observed, spec, replicas, found)
        digests = {broker_id: digest(text) for broker_id, text in files.items()}
        pods = stateful_set(builder, image, replicas, digests, account, observed.stateful_set)
        desired += [builder.settings(files), pods]
        decision = _roll(observed, spec, replicas, pods, digests)
        decision = held(observed, replicas, decision, held_up) if held_up else yielding(observed, decision)
        decided = replace(decided, roll=decision)
    obstacles = in_the_way(observed, spec, desired, replicas)
    if obstacles:
        # What was made before stays as it is: half of a change is worse than none.
        draft.retry(CONFLICT_RETRY_SECONDS)
        return replace(decided, problem=(ClusterReason.OBJECT_CONFLICT, "; ".join(obstacles)), roll=Roll({}))
    rebuilding = without_claims_of_an_earlier_cluster(observed) or without_volumes(observed, spec, replicas)
    if rebuilding:
        draft.actions += rebuilding
        draft.retry(RETRY_SECONDS)
        return replace(decided, created=False, roll=Roll({}))
    put_off = _make(observed, desired, draft)
    waiting_for = of_an_earlier_cluster(observed, desired)
    if waiting_for:
        leaving = [f"{thing['kind']} {thing['metadata']['name']}" for thing in waiting_for]
        long = any(overdue_seconds(observed, thing) > USUAL_WAIT_SECONDS for thing in waiting_for)
        return replace(decided, waiting_for=leaving, waits_long=long, roll=Roll(decided.roll.outdated))
    _remove_leftovers(observed, desired, keep_settings=not can_make_pods, draft=draft)
    draft.actions += size_claims(observed, spec, replicas)
    decided = replace(decided, roll=_after(observed, put_off, decided.roll))
    _replace_pods(observed, decided.roll, draft)
    return decided


def _present(observed: ObservedCluster) -> int:
    """Brokers there are; while the StatefulSet is away, to be made anew, also those that went with it."""
    there = [broker_id for broker_id, pod in observed.brokers.items() if not pod.leaving]
    if observed.stateful_set is not None:
        return max([int(observed.stateful_set["spec"]["replicas"]), *(i + 1 for i in there)])
    reported = (observed.cluster.get("status") or {}).get("brokers") or ()
    return max([0, *(i + 1 for i in there), *(int(broker["id"]) + 1 for broker in reported)])


def _problem(observed: ObservedCluster, spec: ClusterSpec) -> tuple[ClusterReason, str] | None:
    lines = settings_problems(spec, observed.names)
    if lines:
        return ClusterReason.INVALID_CONFIG, "; ".join(lines)
    if unusable := unusable_certificates(observed, spec):
        return ClusterReason.CERTIFICATE_UNUSABLE, unusable
    if (of_issuer := unusable_of_issuers(observed, spec)) is not None:
        return of_issuer
    if spec.rack is not None and "nodes" in observed.refused:
        return ClusterReason.RACK_UNKNOWN, f"spec.rack: the operator cannot look at nodes: {observed.refused['nodes']}"
    return None


def _files(observed: ObservedCluster, spec: ClusterSpec, replicas: int, found: Externals) -> dict[int, str]:
    there = observed.find(CONFIG_MAP, observed.names.config)
    is_ours = there is not None and observed.standing(there) is Standing.OURS
    # Nobody who relies on it is surprised by a new operator: it is off in clusters that are made from now on.
    auto_creation = had_auto_creation(((there if is_ours else None) or {}).get("data", {}).values())
    return {
        broker_id: properties_text(
            broker_properties(
                spec, observed.names, broker_id, found.addresses.get(broker_id), auto_creation=auto_creation
            ),
        )
        for broker_id in range(replicas)
    }


def _roll(
    observed: ObservedCluster, spec: ClusterSpec, replicas: int, pods: Object, digests: Mapping[int, str]
) -> Roll:
    template = pods["spec"]["template"]["metadata"]["annotations"][TEMPLATE_ANNOTATION]
    return roll(
        observed,
        replicas,
        outdated_pods(observed, template, digests),
        default_min_isr=observed.default_min_isr(spec.replication.min_insync_replicas),
        ready_timeout_seconds=spec.rollout.ready_timeout_seconds,
        lost_with_pod=_lost_with_pod(spec),
        paused=spec.rollout.paused,
    )


def _lost_with_pod(spec: ClusterSpec) -> str:
    if spec.storage.type is StorageType.EPHEMERAL:
        return RECORDS
    return "" if spec.unflushed_volume is None else UNFLUSHED_RECORDS


# --- actions ----------------------------------------------------------------------------------------------------------


def _keep_finalizer(observed: ObservedCluster, draft: _Draft) -> None:
    metadata = observed.cluster["metadata"]
    finalizers = list(metadata.get("finalizers") or ())
    if CLUSTER_FINALIZER not in finalizers:
        finalizers.append(CLUSTER_FINALIZER)
        draft.actions.append(
            Finalizers(CLUSTER, metadata["name"], metadata["resourceVersion"], finalizers, "before anything is made")
        )


def _make(observed: ObservedCluster, desired: Sequence[Object], draft: _Draft) -> list[Object]:
    """Make and change what is desired; what of that pods are made of, and is not changed before the next look.

    A StatefulSet comes after the settings: its pods carry the digest of those that it was made with, so a pod that is made
    between the two would count as up to date for ever.
    """
    put_off: list[Object] = []
    order = {kind.name: index for index, kind in enumerate(OWNED)}
    for thing in sorted(map(sealed, desired), key=lambda one: order[one["kind"]]):
        kind = BY_NAME[thing["kind"]]
        found = observed.find(kind, thing["metadata"]["name"])
        why = "" if found is None else differs(thing, found)
        if kind is STATEFUL_SET and put_off and (found is None or why):
            draft.retry(RETRY_SECONDS)
            continue
        if found is None:
            draft.actions.append(Create(thing))
            continue
        metadata = found["metadata"]
        applied = as_applied(metadata.get("managedFields") or ())
        leaving = deleting(found) or observed.standing(found) is not Standing.OURS
        if leaving:
            draft.retry(RETRY_SECONDS)  # it comes back once it is gone
        elif applied is not None:
            # What differs is put right at the next look, which this change brings about.
            expected = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            body = {"metadata": {**expected, "managedFields": applied}}
            draft.actions.append(Patch(kind, metadata["name"], body, "what was created is applied from here on"))
        elif why:
            draft.actions.append(Apply(thing, metadata["uid"], metadata["resourceVersion"], why))
        # Settings that stay as they are may go and come back: a pod waits for them. A StatefulSet that goes takes its pods along.
        if kind in _OF_PODS and ((leaving and (why or kind is STATEFUL_SET)) or (applied is not None and why)):
            put_off.append(found)
    return put_off


def _after(observed: ObservedCluster, put_off: Sequence[Object], decision: Roll) -> Roll:
    """The roll as it is until these are changed: a pod that is replaced before would be made as it was."""
    if not put_off or not decision.replace:
        return decision
    waiting = ", ".join(f"{one['kind']} {one['metadata']['name']}" for one in put_off)
    going = [stamp for one in put_off if (stamp := instant(one["metadata"].get("deletionTimestamp"))) is not None]
    if going and (observed.now - min(going)).total_seconds() > USUAL_WAIT_SECONDS:
        message = f"{waiting}: was deleted and does not go; see its finalizers"
        return Roll(decision.outdated, (), ClusterReason.OBJECT_LEAVING, message, RETRY_SECONDS)
    return Roll(decision.outdated, (), None, f"{waiting} is changed first", RETRY_SECONDS)


def _remove_leftovers(
    observed: ObservedCluster, desired: Sequence[Object], *, keep_settings: bool, draft: _Draft
) -> None:
    """Objects that were made for an earlier spec: external listeners that are gone, brokers that are gone."""
    wanted = {(thing["kind"], thing["metadata"]["name"]) for thing in desired}
    kept = {"ConfigMap", "StatefulSet"} if keep_settings else set()
    owned = {kind.name for kind in OWNED} - kept
    for (kind, name), thing in sorted(observed.objects.items()):
        if kind not in owned or (kind, name) in wanted or deleting(thing):
            continue
        if observed.standing(thing) is Standing.OURS:
            draft.actions.append(Delete.of(BY_NAME[kind], thing, "the spec has no use for it"))


def _annotate_racks(observed: ObservedCluster, spec: ClusterSpec, draft: _Draft) -> None:
    if spec.rack is None:
        return
    for pod in observed.brokers.values():
        rack = observed.racks.get(pod.node)
        if rack and pod.rack is None and not pod.leaving:
            body = {"metadata": {"uid": pod.uid, "annotations": {RACK_ANNOTATION: rack}}}
            draft.actions.append(Patch(POD, pod.name, body, f"its node {pod.node} is in rack {rack}"))


def _replace_pods(observed: ObservedCluster, decision: Roll, draft: _Draft) -> None:
    draft.retry(decision.retry_seconds)
    draft.actions += holding(observed, decision)
    for replacement in decision.replace:
        pod = replacement.pod
        draft.actions.append(ReplacePod(pod.name, pod.uid, replacement.why, replacement.evict))
        note = f"Replacing {pod.name}: {replacement.why}"
        draft.events.append(Emit("ReplacingBroker", note, action="ReplacePod", related_pod=pod.name))
    if decision.outdated:
        draft.retry(RETRY_SECONDS)
    for pod in observed.brokers.values():
        if pod.failed:  # a StatefulSet makes it again only once it is gone
            draft.actions.append(Delete.of(POD, pod.thing, "it has ended for good"))


# --- status and events ------------------------------------------------------------------------------------------------

_EVENT_ACTIONS: Final[Mapping[tuple[str, bool], str]] = {
    (ClusterCondition.READY, True): "Ready",
    (ClusterCondition.READY, False): "NotReady",
    (ClusterCondition.ACCEPTED, False): "Refused",
    (ClusterCondition.ROLLOUT_BLOCKED, True): "Blocked",
    (ClusterCondition.AVAILABLE, False): "Unavailable",
}
"""Conditions whose coming about is worth an Event, and the action it is filed under."""

_QUIET: Final = frozenset(
    {
        ClusterReason.BROKERS_NOT_READY,
        GapReason.CONTROLLER_UNCONFIRMED,
        ClusterReason.CREATING,
        ClusterReason.NO_BROKER_READY,
        ClusterReason.ROLLING,
        ClusterReason.BROKER_NOT_READY,
        ClusterReason.WAITING_FOR_ADDRESS,
    }
)
"""Reasons that every start and every roll goes through."""

_NO_WARNING: Final = frozenset({ClusterReason.ALL_BROKERS_READY, ClusterReason.FAULT_INJECTED})
"""Reasons that are worth an Event, and nothing to worry about."""


def _with_status(draft: _Draft, observed: ObservedCluster, made: Mapping[str, Any]) -> ClusterPlan:
    before = observed.cluster.get("status")
    old = {condition["type"]: condition for condition in (before or {}).get("conditions") or ()}
    for condition in made["conditions"]:
        same = old.get(condition["type"], {})
        action = _EVENT_ACTIONS.get((condition["type"], condition["status"] == "True"))
        changed = (same.get("status"), same.get("reason")) != (condition["status"], condition["reason"])
        if action and changed and condition["reason"] not in _QUIET:
            warning = condition["reason"] not in _NO_WARNING
            draft.events.append(Emit(condition["reason"], condition["message"], warning, action))
    conditions = {condition["type"]: condition["status"] for condition in made["conditions"]}
    status = None if same_status(made, before) else made
    return ClusterPlan(tuple(draft.actions), status, _once(draft.events), draft.retry_seconds, conditions)


def _once(events: Sequence[Emit]) -> tuple[Emit, ...]:
    """Without those that say the same about several conditions."""
    return tuple({(event.reason, event.note): event for event in events}.values())


def _explained(error: ValidationError) -> str:
    problems = [
        f"spec.{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()[:3]
    ]
    more = error.error_count() - len(problems)
    return "; ".join(problems) + (f"; and {more} more" if more > 0 else "")
