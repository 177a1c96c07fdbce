"""The status of a cluster: what is told to people and programs, from what was observed and decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka_kube.conditions import Judgement, condition, written
from minikafka_kube.freshness import Freshness, MetadataGap
from minikafka_kube.observed import ObservedCluster, PartitionState

from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.conditions import ClusterCondition, ClusterReason
from minikafka_operator.manifests.broker_certificates import authorities_found, certificates_status
from minikafka_operator.manifests.external import Externals, bootstrap_external, shown
from minikafka_operator.rollout.broker_problems import BrokerProblem, summary
from minikafka_operator.rollout.order import Roll

_SHOWN_MAX = 3


@dataclass(frozen=True)
class Decided:
    """What the planner found out on its way."""

    replicas: int
    """Brokers there should be: what the spec says, or more while brokers that are to go still have replicas."""
    roll: Roll = field(default_factory=lambda: Roll({}))
    externals: Externals = field(default_factory=lambda: Externals({}))
    problems: Sequence[BrokerProblem] = ()
    problem: tuple[ClusterReason, str] | None = None
    """Why the spec is not accepted."""
    held_back: Sequence[PartitionState] = ()
    """Partitions with replicas on brokers that are to go."""
    unknown: MetadataGap | None = None
    """Why it is not known whether brokers that are to go have replicas."""
    created: bool = True
    """Whether the StatefulSet was there before."""
    waiting_for: Sequence[str] = ()
    """Objects of an earlier cluster of this name that are about to go."""
    waits_long: bool = False
    """Whether they should have gone by now."""
    claims_leaving: Sequence[str] = ()
    """Claims that were deleted and stay for only as long as a broker's pod uses them."""
    capacity: str | None = None
    """Of the largest of the brokers' volumes; None while there is none."""
    larger: str = ""
    """Volumes and claims that are larger than the spec says, and cannot be made smaller."""


def status_of(observed: ObservedCluster, spec: ClusterSpec, decided: Decided, freshness: Freshness) -> dict[str, Any]:
    """The whole status; the same input gives the same status but for the times of transitions.

    ``freshness``: how far what is known of the partitions and their controller may be told as what is so now.
    """
    names = observed.names
    before = observed.cluster.get("status") or {}
    ready = [i for i, pod in observed.brokers.items() if pod.ready and i < decided.replicas]
    partitions = _Partitions(observed, spec.replication.min_insync_replicas)
    bootstrap = {"internal": names.bootstrap_internal_address}
    outside = bootstrap_external(spec, observed)
    if outside:
        bootstrap["external"] = outside
    made: dict[str, Any] = {
        "observedGeneration": observed.generation,
        "replicas": len(observed.brokers),
        "readyReplicas": len(ready),
        "brokersReady": f"{len(ready)}/{spec.brokers.replicas}",
        "selector": ",".join(f"{key}={value}" for key, value in names.selector().items()),
        "brokers": _brokers(observed, decided),
        "bootstrap": bootstrap,
        "topics": len(observed.topic_states),
        "partitions": partitions.count,
        "underReplicatedPartitions": len(partitions.under_replicated),
        "underMinIsrPartitions": len(partitions.under_min_isr),
        "offlinePartitions": len(partitions.offline),
    }
    if authorities := authorities_found(observed):
        made["certificates"] = certificates_status(authorities)
    if decided.capacity is not None:
        made["storageCapacity"] = decided.capacity
    if _is_controller(observed.controller, freshness.controller, before):
        made["controller"] = observed.controller
    judgements = _judgements(observed, spec, decided, ready, partitions, freshness.gap)
    made["conditions"] = written(judgements, before.get("conditions") or (), observed.generation, observed.now)
    return made


def rejected_status(
    observed: ObservedCluster, problem: tuple[ClusterReason, str], freshness: Freshness
) -> dict[str, Any]:
    """The status when not even the shape of the spec is understood: the reason is told, and what can be told without a spec;
    of the rest what was known stays.
    """
    before = dict(observed.cluster.get("status") or {})
    ready = [i for i, pod in observed.brokers.items() if pod.ready]
    partitions = _Partitions(observed, 1)
    judgements = [
        Judgement(ClusterCondition.READY, False, problem[0], problem[1]),
        _checked(_available(ready, partitions), freshness.gap, before),
        _checked(_replication(ready, partitions), freshness.gap, before),
        Judgement(ClusterCondition.ACCEPTED, False, problem[0], problem[1]),
    ]
    if not _is_controller(observed.controller, freshness.controller, before):
        before.pop("controller", None)
    old = before.get("conditions") or ()
    made = written(judgements, old, observed.generation, observed.now)
    types = {condition["type"] for condition in made}
    before["conditions"] = made + [condition for condition in old if condition["type"] not in types]
    before["observedGeneration"] = observed.generation
    return before


def _is_controller(name: str, gap: MetadataGap | None, before: Mapping[str, Any]) -> bool:
    """Return whether a pod may be told as the controller: it renews the Lease, or is about to show that it still does."""
    return bool(name) and (gap is None or (not gap.lasting and before.get("controller") == name))


def _checked(judgement: Judgement, gap: MetadataGap | None, before: Mapping[str, Any]) -> Judgement:
    """A condition is True only as far as what it is judged by is known to be new. For the seconds in which that is not known yet
    one that was True stays so.
    """
    if gap is None or not judgement.holds:
        return judgement
    if not gap.lasting and condition(before, judgement.type).get("status") == "True":
        return judgement
    return Judgement(judgement.type, None, gap.reason, gap.message)


class _Partitions:
    """All partitions of a cluster, sorted by what is wrong with them. ``min_isr``: what counts until brokers have a record."""

    def __init__(self, observed: ObservedCluster, min_isr: int) -> None:
        self.count = 0
        self.offline: list[PartitionState] = []
        self.under_min_isr: list[PartitionState] = []
        self.under_replicated: list[PartitionState] = []
        default = observed.default_min_isr(min_isr)
        for topic in observed.topic_states:
            min_isr = default if topic.min_isr is None else topic.min_isr
            for partition in topic.partitions:
                self.count += 1
                if partition.leader < 0:
                    self.offline.append(partition)
                # A topic with fewer replicas than min.insync.replicas is what somebody asked for, not a fault.
                if len(partition.isr) < min(min_isr, len(partition.replicas)):
                    self.under_min_isr.append(partition)
                if len(partition.isr) < len(partition.replicas):
                    self.under_replicated.append(partition)


def _brokers(observed: ObservedCluster, decided: Decided) -> list[dict[str, Any]]:
    words = {problem.broker_id: problem.message for problem in decided.problems}
    made = []
    for broker_id in sorted({*range(decided.replicas), *observed.brokers}):
        pod = observed.brokers.get(broker_id)
        entry: dict[str, Any] = {
            "id": broker_id,
            "pod": observed.names.pod(broker_id),
            "ready": pod is not None and pod.ready,
        }
        address = decided.externals.addresses.get(broker_id)
        optional = {
            "node": pod.node if pod else "",
            "rack": (pod.rack or "") if pod else "",
            "external": shown(address, pod.host_ip if pod else ""),
            "message": words.get(broker_id),
        }
        entry.update({name: value for name, value in optional.items() if value})
        made.append(entry)
    return made


def _judgements(
    observed: ObservedCluster,
    spec: ClusterSpec,
    decided: Decided,
    ready: Sequence[int],
    partitions: _Partitions,
    gap: MetadataGap | None,
) -> list[Judgement]:
    before = observed.cluster.get("status") or {}
    accepted = _accepted(decided)
    available = _available(ready, partitions)
    return [
        _checked(_ready(spec, decided, ready, accepted, available, gap), gap, before),
        _checked(available, gap, before),
        _checked(_replication(ready, partitions), gap, before),
        _progressing(observed, spec, decided, ready),
        _rollout(spec, decided),
        accepted,
    ]


def _accepted(decided: Decided) -> Judgement:
    if decided.problem is not None:
        return Judgement(ClusterCondition.ACCEPTED, False, *decided.problem)
    if decided.larger:
        message = f"the spec is in force, but volumes do not shrink: {decided.larger}"
        return Judgement(ClusterCondition.ACCEPTED, True, ClusterReason.VOLUMES_LARGER, message)
    return Judgement(ClusterCondition.ACCEPTED, True, ClusterReason.ACCEPTED, "the spec is in force")


def _ready(
    spec: ClusterSpec,
    decided: Decided,
    ready: Sequence[int],
    accepted: Judgement,
    available: Judgement,
    gap: MetadataGap | None,
) -> Judgement:
    count = f"{_of(len(ready), spec.brokers.replicas)} ready"
    if not accepted.holds:
        return Judgement(ClusterCondition.READY, False, accepted.reason, accepted.message)
    problem = summary(decided.problems)
    if problem is not None:
        return Judgement(ClusterCondition.READY, False, problem[0], f"{count}; {problem[1]}")
    if decided.waiting_for and len(ready) < decided.replicas:
        return Judgement(ClusterCondition.READY, False, *_waiting(decided))
    if decided.externals.unknown:
        return Judgement(ClusterCondition.READY, False, ClusterReason.WAITING_FOR_ADDRESS, _without_address(decided))
    if len(ready) < decided.replicas:
        return Judgement(ClusterCondition.READY, False, ClusterReason.BROKERS_NOT_READY, count)
    if not available.holds:
        return Judgement(ClusterCondition.READY, False, available.reason, available.message)
    if gap is not None and gap.lasting:
        return Judgement(ClusterCondition.READY, False, gap.reason, gap.message)
    if decided.held_back:
        return Judgement(ClusterCondition.READY, False, ClusterReason.REPLICAS_ON_BROKER, _held_back(spec, decided))
    if decided.roll.outdated:
        left = len(decided.roll.outdated)
        return Judgement(
            ClusterCondition.READY, False, ClusterReason.ROLLING, f"{count}, {left} of them to be replaced"
        )
    if decided.claims_leaving:
        message = f"{count}; deleted, and gone when its broker's pod ends: {', '.join(decided.claims_leaving)}"
        return Judgement(ClusterCondition.READY, True, ClusterReason.CLAIM_LEAVING, message)
    return Judgement(ClusterCondition.READY, True, ClusterReason.ALL_BROKERS_READY, count)


def _available(ready: Sequence[int], partitions: _Partitions) -> Judgement:
    if not ready:
        return Judgement(ClusterCondition.AVAILABLE, False, ClusterReason.NO_BROKER_READY, "no broker is ready")
    if partitions.offline:
        message = _counted(partitions.offline, partitions.count, "no leader")
        return Judgement(ClusterCondition.AVAILABLE, False, ClusterReason.PARTITIONS_OFFLINE, message)
    if partitions.under_min_isr:
        message = _counted(partitions.under_min_isr, partitions.count, "too few in-sync replicas for acks=all")
        return Judgement(ClusterCondition.AVAILABLE, False, ClusterReason.PARTITIONS_UNDER_MIN_ISR, message)
    return Judgement(
        ClusterCondition.AVAILABLE, True, ClusterReason.PARTITIONS_AVAILABLE, _all_available(partitions.count)
    )


def _all_available(count: int) -> str:
    if count == 0:
        return "no topics yet"
    return (
        "the one partition can be read and written" if count == 1 else f"all {count} partitions can be read and written"
    )


def _replication(ready: Sequence[int], partitions: _Partitions) -> Judgement:
    if partitions.under_replicated:
        message = _counted(partitions.under_replicated, partitions.count, "replicas that are not in sync")
        return Judgement(ClusterCondition.REPLICATION_HEALTHY, False, ClusterReason.UNDER_REPLICATED, message)
    if not ready:
        return Judgement(
            ClusterCondition.REPLICATION_HEALTHY, None, ClusterReason.NO_BROKER_READY, "no broker is ready"
        )
    return Judgement(ClusterCondition.REPLICATION_HEALTHY, True, ClusterReason.ALL_IN_SYNC, "every replica is in sync")


def _progressing(observed: ObservedCluster, spec: ClusterSpec, decided: Decided, ready: Sequence[int]) -> Judgement:
    there = len(observed.brokers)
    if spec.paused:
        return Judgement(
            ClusterCondition.PROGRESSING, False, ClusterReason.PAUSED, "spec.paused: the operator changes nothing"
        )
    if decided.problem is not None:
        return Judgement(ClusterCondition.PROGRESSING, False, *decided.problem)
    if decided.externals.unknown:
        return Judgement(
            ClusterCondition.PROGRESSING, True, ClusterReason.WAITING_FOR_ADDRESS, _without_address(decided)
        )
    if decided.waiting_for:
        return Judgement(ClusterCondition.PROGRESSING, True, *_waiting(decided))
    if not decided.created:
        wanted = spec.brokers.replicas
        message = f"{wanted} {_plural(wanted, 'broker')} {'is' if wanted == 1 else 'are'} being made"
        return Judgement(ClusterCondition.PROGRESSING, True, ClusterReason.CREATING, message)
    if there != decided.replicas or decided.unknown is not None:
        wanted = _wanted(spec, decided)
        message = f"{there} {_plural(there, 'pod')}, {wanted} {_plural(wanted, 'broker')} wanted"
        return Judgement(ClusterCondition.PROGRESSING, True, ClusterReason.SCALING, message)
    if decided.roll.outdated:
        left = len(decided.roll.outdated)
        blocked = decided.roll.blocked is ClusterReason.ROLLOUT_PAUSED
        why = ClusterReason.ROLLOUT_PAUSED if blocked else ClusterReason.ROLLING
        return Judgement(ClusterCondition.PROGRESSING, not blocked, why, f"{_of(left, there)} still to be replaced")
    if len(ready) < decided.replicas:
        return Judgement(
            ClusterCondition.PROGRESSING, True, ClusterReason.RECOVERING, f"{_of(len(ready), there)} ready"
        )
    if decided.held_back:
        return Judgement(
            ClusterCondition.PROGRESSING, False, ClusterReason.REPLICAS_ON_BROKER, _held_back(spec, decided)
        )
    return Judgement(ClusterCondition.PROGRESSING, False, ClusterReason.SETTLED, "there is nothing to do")


def _wanted(spec: ClusterSpec, decided: Decided) -> int:
    return decided.replicas if decided.unknown is None else spec.brokers.replicas


def _rollout(spec: ClusterSpec, decided: Decided) -> Judgement:
    if decided.held_back:
        return Judgement(
            ClusterCondition.ROLLOUT_BLOCKED, True, ClusterReason.REPLICAS_ON_BROKER, _held_back(spec, decided)
        )
    if decided.unknown is not None and decided.unknown.lasting:
        message = f"spec.brokers.replicas={spec.brokers.replicas}: {decided.unknown.message}"
        return Judgement(ClusterCondition.ROLLOUT_BLOCKED, True, decided.unknown.reason, message)
    roll = decided.roll
    if roll.outdated and not roll.replace and roll.blocked is not None:
        return Judgement(ClusterCondition.ROLLOUT_BLOCKED, True, roll.blocked, roll.message)
    return Judgement(ClusterCondition.ROLLOUT_BLOCKED, False, ClusterReason.NOT_BLOCKED, "nothing stands in the way")


def _waiting(decided: Decided) -> tuple[ClusterReason, str]:
    """Explain what it waits for: what an earlier cluster of this name has left."""
    message = f"waiting until what an earlier cluster of this name has left is gone: {', '.join(decided.waiting_for)}"
    if decided.waits_long:
        return ClusterReason.OBJECT_LEAVING, f"{message}; it does not go; see its metadata.finalizers"
    return ClusterReason.CREATING, message


def _without_address(decided: Decided) -> str:
    return f"{_listed_brokers(decided.externals.unknown)}: no external address yet"


def _held_back(spec: ClusterSpec, decided: Decided) -> str:
    wanted = spec.brokers.replicas
    going = range(wanted, decided.replicas)
    have = "has" if len(going) == 1 else "have"
    return (
        f"spec.brokers.replicas={wanted}: {_listed_brokers(going)} still {have} replicas of {_shown(decided.held_back)}"
    )


def _counted(some: Sequence[PartitionState], count: int, what: str) -> str:
    verb = "has" if len(some) == 1 else "have"
    return f"{len(some)} of {count} partitions {verb} {what}: {_shown(some)}"


def _plural(count: int, what: str) -> str:
    return what if count == 1 else f"{what}s"


def _of(some: int, count: int) -> str:
    return f"{some} of {count} brokers {'is' if some == 1 else 'are'}"


def _shown(some: Sequence[PartitionState]) -> str:
    more = f" and {len(some) - _SHOWN_MAX} more" if len(some) > _SHOWN_MAX else ""
    return ", ".join(str(partition) for partition in some[:_SHOWN_MAX]) + more


def _listed_brokers(ids: Sequence[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {', '.join(str(i) for i in ids)}"


def same_status(made: Mapping[str, Any], found: Mapping[str, Any] | None) -> bool:
    """Return whether writing the status would change nothing."""
    return made == (found or {})
