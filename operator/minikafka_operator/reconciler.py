"""Looks at one cluster, asks the planner, and does what it says. No kopf here; time and the API server are handed in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from minikafka_kube.api_server import ApiError, ApiServer
from minikafka_kube.disruption_lease import experiment_name, hold_of, identity, is_experiment
from minikafka_kube.events import Emit
from minikafka_kube.freshness import Renewals, holding
from minikafka_kube.instants import micro_time_text
from minikafka_kube.kinds import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    EVENT,
    EXPERIMENT,
    LEASE,
    NETWORK_POLICY,
    NODE,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    STORAGE_CLASS,
    TOPIC,
    Kind,
    Object,
)
from minikafka_kube.leadership import Alone, Leadership
from minikafka_kube.loops import ReconcileResult
from minikafka_kube.names import CLUSTER_LABEL, DATA_VOLUME, EVENTS_VOLUME, Names
from minikafka_kube.observed import ObservedCluster, Warned, deleting
from minikafka_kube.ownership import Standing, standing
from minikafka_kube.security import LISTENERS, is_secured

from minikafka_operator.actions import (
    Action,
    Apply,
    ClusterPlan,
    Create,
    Delete,
    Finalizers,
    Patch,
    ReplacePod,
    SetTopicCondition,
    WriteDisruptionLease,
)
from minikafka_operator.conditions import ClusterReason
from minikafka_operator.manifests.objects import BY_NAME, made_by_brokers
from minikafka_operator.planning.planner import OperatorSettings, plan
from minikafka_operator.planning.topics import without_cluster
from minikafka_operator.rollout.obstacles import conflict
from minikafka_operator.telemetry import OperatorTelemetry
from minikafka_operator.users.reconciler import REFUSED_RETRY_SECONDS, UserReconciler

STALE_RETRY_SECONDS: Final = 1.0
"""Something changed between the look and the write: look again at once."""

_REFUSALS: Final = frozenset({400, 403, 409, 422})
_HELD_UP: Final = frozenset({429, 500})
"""Answers to an eviction: the budget has nothing to spare now; several budgets count the same pod."""
_STALE: Final = frozenset({404, 409})
_CORE_EVENTS: Final = Kind("v1", "Event", "events")
_LISTED: Final = (SERVICE, CLAIM)
_BY_NAME: Final = (
    (STATEFUL_SET, "broker"),
    (CONFIG_MAP, "config"),
    (SERVICE_ACCOUNT, "broker"),
    (ROLE, "broker"),
    (ROLE_BINDING, "broker"),
    (BUDGET, "broker"),
    (NETWORK_POLICY, "broker"),
    (LEASE, "controller"),
    (LEASE, "disruption"),
)
_NOTE_MAX: Final = 1024  # events.k8s.io refuses longer notes

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Acted:
    """What was done; what was refused, and why; why a pod was not evicted; whether something changed under our hands."""

    done: Sequence[Action]
    refused: tuple[ClusterReason, str] | None = None
    held_up: str = ""
    stale: bool = False


class ClusterReconciler:
    """Makes clusters what their specs say. Between two looks it holds nothing about any of them but when their controllers'
    Leases were seen to change.
    """

    def __init__(
        self,
        server: ApiServer,
        settings: OperatorSettings,
        telemetry: OperatorTelemetry,
        now: Callable[[], datetime],
        identity: str,
        leadership: Leadership | Alone,
        users: UserReconciler | None = None,
    ) -> None:
        self._users = users or UserReconciler(server, now, leadership)
        self._server = server
        self._settings = settings
        self._telemetry = telemetry
        self._now = now
        self._identity = identity
        self._leadership = leadership
        self._renewals = Renewals()

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """One look, and all that follows from it. Raises ApiError and the errors of the connection; then look again."""
        observed = await self.observe(namespace, name)
        if observed is None:
            self._renewals.forget((namespace, name))
            changed = await self._without_cluster(namespace, name)
            changed |= await self._users.without_cluster(namespace, name)
            return ReconcileResult("changed" if changed else "steady", gone=True)
        made = plan(observed, self._settings)
        acted = await self._act(observed, made.actions)
        refused = acted.refused
        if refused is not None or acted.held_up:
            made = plan(observed, self._settings, refused, acted.held_up)
        await self._report(observed, made, {action.name for action in acted.done if isinstance(action, ReplacePod)})
        again = await self._users.reconcile(observed)
        if again is not None:
            made = replace(made, retry_seconds=min(again, made.retry_seconds or again))
        if refused is not None:
            return ReconcileResult("refused", min(REFUSED_RETRY_SECONDS, made.retry_seconds or REFUSED_RETRY_SECONDS))
        retry = (
            min(STALE_RETRY_SECONDS, made.retry_seconds or STALE_RETRY_SECONDS) if acted.stale else made.retry_seconds
        )
        return ReconcileResult("steady" if made.steady else "changed", retry, glance=self._glance(observed))

    def _glance(self, observed: ObservedCluster) -> Callable[[], Awaitable[bool]]:
        """Whether the controller's Lease is held by another than at the look, or is not renewed any more: silence is no event."""
        namespace, name = observed.names.namespace, observed.names.controller
        seen = holding(observed.find(LEASE, name), observed.controller_signs)

        async def changed() -> bool:
            lease = await self._server.get(LEASE, namespace, name)
            signs = self._renewals.look((namespace, observed.names.cluster), lease, time.monotonic())
            return holding(lease, signs) != seen

        return changed

    # -- looking ----------------------------------------------------------------------------------------------------

    async def observe(self, namespace: str, name: str) -> ObservedCluster | None:
        """Read the cluster and everything that belongs to it; None when it is gone.

        Always from the API server and never from a cache of watched objects: kopf's does not notice what was deleted
        while a watch was broken, and a roll must not count on pods that are gone.
        """
        cluster = await self._server.get(CLUSTER, namespace, name)
        if cluster is None:
            return None
        names = Names(namespace, name)
        labels = f"{CLUSTER_LABEL}={name}"
        objects = await asyncio.gather(
            *(self._server.get(kind, namespace, getattr(names, attribute)) for kind, attribute in _BY_NAME)
        )
        # The metadata before the topics: of each topic it names a revision that its status has then, or it has it itself.
        metadata = await self._server.get(CONFIG_MAP, namespace, names.metadata)
        lists = await asyncio.gather(
            *(self._server.find_all(kind, namespace, labels=labels) for kind in _LISTED),
            self._server.find_all(POD, namespace, labels=labels),
            self._server.find_all(TOPIC, namespace, fields=f"spec.clusterRef.name={name}"),
        )
        found = [thing for thing in objects if thing is not None]
        found += [thing for listed in lists[: len(_LISTED)] for thing in listed]
        found += await self._unlabelled_claims(cluster, names, found)
        found += await self._unlabelled_services(cluster, names, found)
        found += await self._secrets(cluster, names)
        leases = {thing["metadata"]["name"]: thing for thing in found if thing["kind"] == LEASE.name}
        lease = leases.get(names.controller)
        signs = self._renewals.look((namespace, name), lease, time.monotonic())
        if deleting(cluster):
            kept = [await self._server.get(kind, namespace, one) for kind, one in made_by_brokers(names)]
            found += [thing for thing in kept if thing is not None]
        observed = ObservedCluster(
            cluster=cluster,
            now=self._now(),
            objects={(thing["kind"], thing["metadata"]["name"]): thing for thing in found},
            pods=lists[-2],
            topics=lists[-1],
            metadata=metadata,
            controller_signs=signs,
        )
        return await self._look_closer(observed)

    async def _unlabelled_claims(self, cluster: Object, names: Names, found: Sequence[Object]) -> list[Object]:
        """Claims without the labels that have the names of those a StatefulSet would make, and so would be taken by it."""
        spec = cluster.get("spec") or {}
        volumes = [
            volume
            for volume, part in ((DATA_VOLUME, "storage"), (EVENTS_VOLUME, "flightRecorder"))
            if (spec.get(part) or {}).get("type") == "PersistentClaim"
        ]
        there = {thing["metadata"]["name"] for thing in found if thing["kind"] == CLAIM.name}
        brokers = range((spec.get("brokers") or {}).get("replicas") or 0)
        lacking = [name for volume in volumes for i in brokers if (name := names.claim(volume, i)) not in there]
        claims = await asyncio.gather(*(self._server.get(CLAIM, names.namespace, name) for name in lacking))
        return [claim for claim in claims if claim is not None]

    async def _unlabelled_services(self, cluster: Object, names: Names, found: Sequence[Object]) -> list[Object]:
        """Services without the labels that have the names of the cluster's own."""
        spec = cluster.get("spec") or {}
        wanted = [names.brokers, names.bootstrap]
        if (spec.get("listeners") or {}).get("external"):
            brokers = range((spec.get("brokers") or {}).get("replicas") or 0)
            wanted += [names.bootstrap_external, *map(names.external, brokers)]
        there = {thing["metadata"]["name"] for thing in found if thing["kind"] == SERVICE.name}
        lacking = [name for name in wanted if name not in there]
        services = await asyncio.gather(*(self._server.get(SERVICE, names.namespace, name) for name in lacking))
        return [service for service in services if service is not None]

    async def _secrets(self, cluster: Object, names: Names) -> list[Object]:
        """The Secrets of a cluster that has any, and what its spec names. By name: others are none of our business."""
        spec = cluster.get("spec") or {}
        if not is_secured(spec):
            return []
        wanted = dict.fromkeys([*((SECRET, name) for name in names.secrets), *_named_by(spec)])
        found = await asyncio.gather(*(self._server.get(kind, names.namespace, name) for kind, name in wanted))
        return [thing for thing in found if thing is not None]

    async def _look_closer(self, observed: ObservedCluster) -> ObservedCluster:
        """What is only of interest sometimes: nodes when there are racks, warnings when something is not as it should be."""
        cluster, refused = observed.cluster, dict(observed.refused)
        spec = cluster.get("spec") or {}
        racks: dict[str, str] = {}
        key = (spec.get("rack") or {}).get("topologyKey")
        if key:
            nodes = {pod.node for pod in observed.brokers.values() if pod.node and pod.rack is None}
            racks = await self._racks(nodes, key, refused)
        warnings: Sequence[Warned] = ()
        classes: frozenset[str] = frozenset()
        if _unwell(observed):
            warnings = await self._warnings(observed)
            classes = await self._missing_classes(observed)
        return replace(
            observed,
            racks=racks,
            warnings=warnings,
            missing_storage_classes=classes,
            experiment=await self._experiment(observed) if _unwell(observed) else None,
            refused=refused,
        )

    async def _experiment(self, observed: ObservedCluster) -> Object | None:
        """The ChaosExperiment that has its turn with the cluster; None when there is none, or it may not be looked at."""
        hold = hold_of(observed.find(LEASE, observed.names.disruption))
        if not is_experiment(hold) or not hold.by_other("", observed.now):
            return None
        try:
            found = await self._server.get(EXPERIMENT, observed.names.namespace, experiment_name(hold))
        except ApiError as error:
            if error.code != 403:  # an operator whose Role is an older one
                raise
            return None
        return found if found is not None and identity(found) == hold.holder else None

    async def _racks(self, nodes: set[str], key: str, refused: dict[str, str]) -> dict[str, str]:
        found = {}
        for node in sorted(nodes):
            try:
                thing = await self._server.get(NODE, None, node)
            except ApiError as error:
                if error.code != 403:
                    raise
                refused["nodes"] = error.message
                return {}
            found[node] = ((thing or {}).get("metadata", {}).get("labels") or {}).get(key, "")
        return found

    async def _warnings(self, observed: ObservedCluster) -> list[Warned]:
        try:
            events = await self._server.find_all(_CORE_EVENTS, observed.names.namespace, fields="type=Warning")
        except ApiError as error:
            if error.code != 403:
                raise
            return []
        of_cluster = f"{observed.names.cluster}-"
        mine = [event for event in events if of_cluster in event["involvedObject"].get("name", "")]
        mine.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
        return [
            Warned(
                event["involvedObject"].get("kind", ""),
                event["involvedObject"].get("name", ""),
                event.get("reason") or "",
                event.get("message") or "",
            )
            for event in mine
        ]

    async def _missing_classes(self, observed: ObservedCluster) -> frozenset[str]:
        wanted = {
            claim["spec"].get("storageClassName")
            for claim in observed.claims
            if claim.get("status", {}).get("phase") == "Pending"
        }
        missing = set()
        for name in sorted(wanted - {None, ""}):
            try:
                if await self._server.get(STORAGE_CLASS, None, name) is None:
                    missing.add(name)
            except ApiError as error:
                if error.code != 403:  # a namespaced operator may not look; then the claim's own events tell
                    raise
        return frozenset(missing)

    async def _without_cluster(self, namespace: str, name: str) -> bool:
        """There is no such cluster: tell the topics that name it; whether anything was to be done."""
        topics = await self._server.find_all(TOPIC, namespace, fields=f"spec.clusterRef.name={name}")
        actions = without_cluster(topics, name, self._now())
        for action in actions:
            try:
                await self._do(Names(namespace, name), action)
            except ApiError as error:
                if error.code not in _STALE:
                    raise  # what changed meanwhile is an event, and looked at again
        return bool(actions)

    # -- acting -----------------------------------------------------------------------------------------------------

    async def _act(self, observed: ObservedCluster, actions: Sequence[Action]) -> Acted:
        """Do it, in order.

        What the API server refuses ends it, for what follows may count on it. Nothing counts on a patch, though: where a
        claim may not grow, the rest is done all the same.
        """
        done: list[Action] = []
        refused: tuple[ClusterReason, str] | None = None
        for action in actions:
            try:
                await self._do(observed.names, action)
                done.append(action)
            except ApiError as error:
                if isinstance(action, ReplacePod) and action.evict and error.code in _HELD_UP:
                    logger.info("Pod %s was not evicted: %s", action.name, error)
                    return Acted(done, refused, held_up=f"{action.name}: {error.message}")
                if error.code not in _REFUSALS:
                    raise
                if isinstance(action, Create) and error.code == 409:
                    problem = await self._in_the_way(observed, action)
                    return Acted(done, refused or problem, stale=problem is None)
                if error.code in _STALE or isinstance(action, Finalizers):
                    logger.info("Skipped a change of something that changed meanwhile: %s", error)
                    return Acted(done, refused, stale=True)
                if isinstance(action, Patch) and action.dispensable:
                    logger.info("%s was refused, and is not needed: %s", _title(action), error.message)
                    continue
                refused = refused or (ClusterReason.OBJECT_REFUSED, f"{_title(action)}: {error.message}")
                if not isinstance(action, Patch):
                    break
        return Acted(done, refused)

    async def _in_the_way(self, observed: ObservedCluster, action: Create) -> tuple[ClusterReason, str] | None:
        """Return whether what is there instead is somebody else's; None when it is not, or gone again."""
        kind, name = action.thing["kind"], action.thing["metadata"]["name"]
        there = await self._server.get(BY_NAME[kind], observed.names.namespace, name)
        if there is None or standing(there, observed.names, observed.uid) is not Standing.FOREIGN:
            return None
        return ClusterReason.OBJECT_CONFLICT, conflict([f"{kind} {name}"])

    async def _do(self, names: Names, action: Action) -> None:
        namespace, cluster = names.namespace, names.cluster
        context = {"namespace": namespace, "cluster": cluster}
        await self._leadership.confirm()
        match action:
            case Create(thing):
                await self._server.create(BY_NAME[thing["kind"]], namespace, thing)
                logger.info("Created %s %s", thing["kind"], thing["metadata"]["name"], extra=context)
            case Apply(thing, _, _, why):
                await self._server.apply(BY_NAME[thing["kind"]], action.body(), force=True)
                logger.info("Applied %s %s (%s)", thing["kind"], thing["metadata"]["name"], why, extra=context)
            case Patch(kind, name, body, why, _):
                await self._server.patch(kind, namespace, name, body)
                logger.info("Patched %s %s (%s)", kind.name, name, why, extra=context)
            case Finalizers(kind, name, version, finalizers, why):
                await self._server.set_finalizers(kind, namespace, name, version, list(finalizers))
                logger.info("Set the finalizers of %s %s (%s)", kind.name, name, why, extra=context)
            case Delete(kind, name, uid, version, why):
                await self._server.delete(kind, namespace, name, uid, version)
                logger.info("Deleted %s %s (%s)", kind.name, name, why, extra=context)
            case SetTopicCondition(name, condition):
                await self._server.apply_status(TOPIC, namespace, name, {"conditions": [condition]})
                logger.info("Told MiniKafkaTopic %s: %s", name, condition["reason"], extra=context)
            case WriteDisruptionLease(lease, new, why):
                await (self._server.create if new else self._server.replace)(LEASE, namespace, lease)
                logger.info("Wrote Lease %s (%s)", action.name, why, extra=context)
            case ReplacePod(name, uid, why, evict):
                await (self._server.evict if evict else self._server.delete)(POD, namespace, name, uid)
                self._telemetry.replaced.inc()
                did = "Evicted" if evict else "Deleted"
                logger.info("%s Pod %s, to be made again (%s)", did, name, why, extra=context)

    async def _report(self, observed: ObservedCluster, made: ClusterPlan, replaced: Set[str]) -> None:
        """Write the status and the Events; of pods that were to be replaced only those that were."""
        names = observed.names
        self._leadership.require()
        if made.status is not None:
            await self._server.apply_status(CLUSTER, names.namespace, names.cluster, made.status)
        self._telemetry.export_conditions(names.namespace, names.cluster, made.conditions)
        for event in made.events:
            if event.related_pod and event.related_pod not in replaced:
                continue
            try:
                await self._server.create(EVENT, names.namespace, self._event(observed, event))
            except ApiError as error:  # a namespace that is going takes no more events; nothing depends on them
                logger.warning("Event %s of %s/%s was refused: %s", event.reason, names.namespace, names.cluster, error)

    def _event(self, observed: ObservedCluster, event: Emit) -> Object:
        names = observed.names
        cluster = observed.cluster
        regarding = {
            "apiVersion": CLUSTER.api_version,
            "kind": CLUSTER.name,
            "namespace": names.namespace,
            "name": names.cluster,
            "uid": observed.uid,
            "resourceVersion": cluster["metadata"]["resourceVersion"],
        }
        made: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"generateName": f"{names.cluster}-", "namespace": names.namespace},
            "eventTime": micro_time_text(self._now()),
            "reportingController": f"{CLUSTER.api_version.partition('/')[0]}/operator",
            "reportingInstance": self._identity,
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "action": event.action,
            "note": event.note[:_NOTE_MAX],
            "regarding": regarding,
        }
        if event.related_pod:
            made["related"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": names.namespace,
                "name": event.related_pod,
            }
        return made


def _title(action: Action) -> str:
    """Return what an action is about."""
    if isinstance(action, Create | Apply):
        return f"{action.thing['kind']} {action.thing['metadata']['name']}"
    return action.name


def _named_by(spec: Mapping[str, Any]) -> Iterator[tuple[Kind, str]]:
    """The Secrets and ConfigMaps that a spec names for its listeners."""
    for field in LISTENERS:
        listener = (spec.get("listeners") or {}).get(field) or {}
        authentication = listener.get("authentication") or {}
        for kind, given in (
            (SECRET, listener.get("certificateSecret")),
            (SECRET, authentication.get("trustedCertificatesSecret")),
            (SECRET, authentication.get("jwksSecret")),
            (CONFIG_MAP, authentication.get("jwksConfigMap")),
        ):
            if given:
                yield kind, given["name"]


def _unwell(observed: ObservedCluster) -> bool:
    spec: Mapping[str, Any] = observed.cluster.get("spec") or {}
    wanted = (spec.get("brokers") or {}).get("replicas") or 0
    ready = sum(1 for pod in observed.brokers.values() if pod.ready)
    return observed.stateful_set is not None and ready < wanted and not deleting(observed.cluster)
