"""Which pod is replaced next, or why none is. One at a time, and never below ``min.insync.replicas``.

The state of a roll is in the pods themselves: each carries the digests of the template and of the settings it was made
from. So a roll that was interrupted goes on where it was, and one that is overtaken by a newer spec goes on with that.

The rules (after Strimzi's KafkaRoller, which learned them the hard way):

1. A pod whose broker has never run holds nothing, and is replaced at once: a wrong image must be easy to put right.
2. One pod at a time. While any broker is away or not ready, no ready one is touched.
3. A broker that is outdated and not ready is the one to be replaced, after ``readyTimeoutSeconds``: it may be recovering
   its logs, or be catching up; so rule 4 holds for it too while it runs. One that crashes is not given that time. Of
   several that are not ready those that do not run go first, one at a time: too little memory brings all down, and what
   mends that has to reach them. Where all of them run, what mends them has to reach them, too: when each has had its time,
   one goes that no partition with a leader counts on; and where no broker is ready and no controller at work, any one.
4. A broker is only taken when each of its partitions keeps ``min.insync.replicas`` without it. That also holds for a
   broker that is not in the ISR: it may be the first to catch up. A partition that can never satisfy it is no reason to
   wait for ever.
5. What is known of the ISR must be what the brokers know now: a controller renews its Lease, and the topics' statuses are
   as new as the brokers' metadata (``freshness.py``). And all must have been ready for a moment.
6. The controller comes last, so that it moves once.
7. A broker whose claim is being deleted is not taken while it may have the last copy of a partition: its pod is what the
   volume is still kept for.
8. A broker that was made with a ServiceAccount that is gone is refused by the API server: it hears of no change and can make
   none. So there is no controller to wait for, and no ISR to be kept, as long as it is such brokers that would have to be it.
   They are replaced one at a time without rules 4 to 6; but not one that may have the last copy of what goes with its pod.
9. A ready broker is evicted, not deleted: the PodDisruptionBudget counts drains of nodes and rolls together, whoever is
   first. One that is not ready is deleted: a budget that has nothing to spare would protect it from being put right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from minikafka_kube.freshness import GapReason, MetadataGap
from minikafka_kube.names import DATA_VOLUME
from minikafka_kube.observed import ObservedCluster, PartitionState, Pod, TopicState, deleting

from minikafka_operator.conditions import ClusterReason

SETTLE_SECONDS: Final = 5
"""Between a broker's becoming ready and the next roll. Brokers tell the ISR within a second; times are whole seconds."""

LOOK_AGAIN_SECONDS: Final = 1.0
"""While it is not known yet whether the controller is alive, or a budget has not followed yet."""

USUAL_WAIT_SECONDS: Final = 60
"""A roll that waits for longer than this is called blocked: brokers restart and catch up in seconds."""

CUT_OFF: Final = "its ServiceAccount was made anew, so the API server refuses its token"

RECORDS: Final = "records"
UNFLUSHED_RECORDS: Final = "unflushed records"
"""What may go with a pod."""

_SHOWN_MAX: Final = 3


@dataclass(frozen=True)
class Replacement:
    """A pod that is to go so that it is made again, and why. ``evict``: within the PodDisruptionBudget."""

    pod: Pod
    why: str
    evict: bool = False


@dataclass(frozen=True)
class Roll:
    """What to do about outdated pods now.

    ``outdated``: why each has to be replaced. When there are some and none is replaced now, ``message`` says why, and
    ``blocked`` is set unless that is only the usual wait between two. ``retry_seconds``: when to look again at the latest.
    """

    outdated: Mapping[int, str]
    replace: Sequence[Replacement] = ()
    blocked: ClusterReason | GapReason | None = None
    message: str = ""
    retry_seconds: float | None = None


def outdated_pods(observed: ObservedCluster, template_digest: str, config_digests: Mapping[int, str]) -> dict[int, str]:
    """Brokers that have to be replaced, and why, by id."""
    found = {}
    for broker_id, pod in observed.brokers.items():
        if pod.leaving or broker_id not in config_digests:
            continue
        if observed.cut_off(pod):
            found[broker_id] = CUT_OFF
        elif pod.template_digest != template_digest:
            found[broker_id] = "its pod template changed"
        elif pod.config_digest != config_digests[broker_id]:
            found[broker_id] = "its settings changed"
        elif pod.rack and pod.rack_at_start is not None and pod.rack != pod.rack_at_start:
            found[broker_id] = f"it started without knowing that its rack is {pod.rack}"
    return found


def roll(
    observed: ObservedCluster,
    replicas: int,
    outdated: Mapping[int, str],
    *,
    default_min_isr: int,
    ready_timeout_seconds: int,
    lost_with_pod: str = "",
    paused: bool = False,
) -> Roll:
    """Decide. ``replicas`` is the number of brokers there should be; ``lost_with_pod``: which records go with a pod, where
    some do.
    """
    if not outdated:
        return Roll(outdated)
    if paused:
        return Roll(
            outdated, (), ClusterReason.ROLLOUT_PAUSED, f"spec.rollout.paused: {_listed(outdated)} to be replaced"
        )
    brokers = observed.brokers
    fresh = [Replacement(brokers[i], outdated[i]) for i in outdated if brokers[i].never_started]
    if fresh:
        return Roll(outdated, fresh)
    away = [i for i in range(replicas) if i not in brokers or brokers[i].leaving]
    if away:
        return _wait(observed, outdated, away, "is being replaced")
    cut_off = [i for i in outdated if observed.cut_off(brokers[i])]
    if cut_off:
        return _roll_cut_off(observed, outdated, cut_off, replicas, lost_with_pod, default_min_isr)
    unready = [i for i in range(replicas) if not brokers[i].ready]
    if unready:
        return _roll_unready(observed, outdated, unready, ready_timeout_seconds, lost_with_pod, default_min_isr)
    settled = SETTLE_SECONDS - _seconds_ready(observed, replicas)
    if settled > 0:
        return Roll(outdated, message="a broker has only just become ready", retry_seconds=settled)
    if observed.gap is not None:
        return _unknown(outdated, observed.gap)
    refusal = ""
    for broker_id in _order(observed, outdated):
        # One that is ready is stopped in good order: only what its volume has can be lost.
        found = cannot_go(observed.topic_states, broker_id, default_min_isr) or _given_up(
            observed, broker_id, _lost_with(observed, broker_id)
        )
        if not found:
            return Roll(outdated, (Replacement(brokers[broker_id], outdated[broker_id], evict=True),))
        refusal = refusal or found
    blocked = _seconds_ready(observed, replicas) > USUAL_WAIT_SECONDS
    return Roll(outdated, (), ClusterReason.PARTITIONS_AT_MIN_ISR if blocked else None, refusal)


def _roll_cut_off(
    observed: ObservedCluster,
    outdated: Mapping[int, str],
    cut_off: Sequence[int],
    replicas: int,
    lost_with_pod: str,
    default_min_isr: int,
) -> Roll:
    """Brokers whose token the API server refuses.

    Nobody changes the ISR without the store, so the one that is recorded there is the one by which leaders are elected
    when somebody can; its members have all that was acknowledged.
    """
    brokers = observed.brokers
    others = [i for i in range(replicas) if i not in cut_off and not brokers[i].ready]
    if others:
        return _wait(observed, outdated, others, "is not ready yet")
    refusal = ""

    def rank(broker_id: int) -> tuple[bool, bool, bool, int]:
        pod = brokers[broker_id]
        at_risk = bool(cannot_go(observed.topic_states, broker_id, default_min_isr))
        return pod.ready, at_risk, pod.name == observed.controller, broker_id

    for broker_id in sorted(cut_off, key=rank):
        pod = brokers[broker_id]
        # One that is ready is stopped in good order, and flushes.
        lost = _lost_with(observed, broker_id, "" if pod.ready and lost_with_pod != RECORDS else lost_with_pod)
        if lost and observed.freshness.topics is not None:
            return _unknown(outdated, observed.freshness.topics)
        found = _given_up(observed, broker_id, lost)
        if not found:
            return Roll(outdated, (Replacement(pod, outdated[broker_id], evict=pod.ready),))
        refusal = refusal or found
    return Roll(outdated, (), ClusterReason.PARTITIONS_AT_MIN_ISR, refusal)


def _roll_unready(
    observed: ObservedCluster,
    outdated: Mapping[int, str],
    unready: Sequence[int],
    timeout: int,
    lost_with_pod: str,
    default_min_isr: int,
) -> Roll:
    candidates = [i for i in unready if i in outdated]
    if not candidates:
        return _wait(observed, outdated, unready, "is not ready")
    if len(unready) > 1:
        down = [i for i in candidates if not observed.brokers[i].running]
        if not down:
            return _roll_stuck(observed, outdated, unready, candidates, timeout, lost_with_pod, default_min_isr)
        candidates = down
    candidates.sort(key=lambda i: not observed.brokers[i].crashing)
    pod = observed.brokers[candidates[0]]
    crashing = pod.crashing
    left = _patience(observed, [pod], timeout)
    if left > 0 and not crashing:
        return _wait(observed, outdated, unready, "is not ready yet", left)
    lost = _lost_with(observed, pod.broker_id, lost_with_pod)
    # One that runs may be catching up, and lead partitions or be in their ISR meanwhile.
    serving = pod.running and not crashing and len(observed.brokers) > 1
    if (serving or lost) and observed.gap is not None:
        return _unknown(outdated, observed.gap)
    refusal = cannot_go(observed.topic_states, pod.broker_id, default_min_isr) if serving else ""
    # Else it serves nobody, so no ISR gets smaller. But what goes with its pod may be the last copy.
    refusal = refusal or _given_up(observed, pod.broker_id, lost)
    if refusal:
        return Roll(outdated, (), ClusterReason.PARTITIONS_AT_MIN_ISR, refusal)
    return Roll(outdated, (Replacement(pod, f"{outdated[pod.broker_id]}, and it is not ready"),))


def _roll_stuck(
    observed: ObservedCluster,
    outdated: Mapping[int, str],
    unready: Sequence[int],
    candidates: Sequence[int],
    timeout: int,
    lost_with_pod: str,
    default_min_isr: int,
) -> Roll:
    """Several run and are not ready."""
    brokers = observed.brokers
    left = _patience(observed, [brokers[i] for i in unready], timeout)
    if left > 0:
        return _wait(observed, outdated, unready, "is not ready yet", left)
    lost = {i: _lost_with(observed, i, lost_with_pod) for i in candidates}
    if observed.gap is not None:
        candidates = [i for i in candidates if not lost[i]]
        if not candidates or any(pod.ready for pod in brokers.values()):
            return _unknown(outdated, observed.gap)
    refusal = ""
    for broker_id in _order(observed, {i: outdated[i] for i in candidates}):
        missed = [] if observed.gap is not None else _missed(observed.topic_states, broker_id, default_min_isr)
        found = _too_few(broker_id, missed) if missed else _given_up(observed, broker_id, lost[broker_id])
        if not found:
            why = f"{outdated[broker_id]}, and it is not ready, as others are not"
            return Roll(outdated, (Replacement(brokers[broker_id], why),))
        refusal = refusal or found
    return Roll(outdated, (), ClusterReason.PARTITIONS_AT_MIN_ISR, refusal)


def _patience(observed: ObservedCluster, pods: Sequence[Pod], timeout: int) -> float:
    """Seconds until each of these has had its time to become ready; none left: 0 or less."""
    youngest = max(pod.ready_since or pod.created or observed.now for pod in pods)
    return (youngest + timedelta(seconds=timeout) - observed.now).total_seconds()


def _unknown(outdated: Mapping[int, str], gap: MetadataGap) -> Roll:
    return Roll(outdated, (), gap.reason if gap.lasting else None, gap.message, LOOK_AGAIN_SECONDS)


def held_up(observed: ObservedCluster, replicas: int, decision: Roll, why: str) -> Roll:
    """The same roll after the API server refused the eviction. A budget follows readiness within seconds, so that only
    counts as blocked when all have been ready for longer.
    """
    blocked = ClusterReason.EVICTION_REFUSED if _seconds_ready(observed, replicas) > USUAL_WAIT_SECONDS else None
    return Roll(decision.outdated, (), blocked, why, LOOK_AGAIN_SECONDS)


def cannot_go(topics: Sequence[TopicState], broker_id: int, default_min_isr: int) -> str:
    """Return why a broker must not be taken away now; empty when it may."""
    at_risk = _all_at_risk(topics, broker_id, default_min_isr)
    return _too_few(broker_id, at_risk) if at_risk else ""


def _all_at_risk(topics: Sequence[TopicState], broker_id: int, default_min_isr: int) -> list[PartitionState]:
    return [
        partition
        for topic in topics
        for partition in topic.partitions
        if _at_risk(partition, broker_id, default_min_isr if topic.min_isr is None else topic.min_isr)
    ]


def _missed(topics: Sequence[TopicState], broker_id: int, default_min_isr: int) -> list[PartitionState]:
    """Those that are led, and in which a broker keeps others in business; not those in which it has only to catch up."""
    at_risk = _all_at_risk(topics, broker_id, default_min_isr)
    return [partition for partition in at_risk if partition.leader >= 0 and broker_id in partition.isr]


def _too_few(broker_id: int, at_risk: Sequence[PartitionState]) -> str:
    return f"without broker {broker_id} fewer than min.insync.replicas would be in sync: {_shown(at_risk)}"


def _given_up(observed: ObservedCluster, broker_id: int, lost: str) -> str:
    """Return why records that go with a broker's pod keep it; empty when none go, or others have them, too."""
    last = _last_copies(observed.topic_states, broker_id) if lost else []
    if not last:
        return ""
    name = observed.brokers[broker_id].name
    return f"{name} may have the last copy of {lost} of {_shown(last)}; delete it to give them up"


def _last_copies(topics: Sequence[TopicState], broker_id: int) -> list[PartitionState]:
    return [p for topic in topics for p in topic.partitions if broker_id in p.replicas and set(p.isr) <= {broker_id}]


def _lost_with(observed: ObservedCluster, broker_id: int, lost_with_pod: str = "") -> str:
    """Which records go with this broker's pod: also those of its volume where somebody has deleted its claim, which stays for
    only as long as a pod uses it.
    """
    name = observed.names.claim(DATA_VOLUME, broker_id)
    claim_goes = any(claim["metadata"]["name"] == name and deleting(claim) for claim in observed.claims)
    return lost_with_pod or (RECORDS if claim_goes else "")


def _shown(partitions: Sequence[PartitionState]) -> str:
    more = f" and {len(partitions) - _SHOWN_MAX} more" if len(partitions) > _SHOWN_MAX else ""
    return ", ".join(str(partition) for partition in partitions[:_SHOWN_MAX]) + more


def _at_risk(partition: PartitionState, broker_id: int, min_isr: int) -> bool:
    if broker_id not in partition.replicas:
        return False
    if len(partition.replicas) <= min_isr:
        # It cannot do without any one of its replicas, so waiting would be for ever; all in sync is the best there is.
        return len(partition.isr) < len(partition.replicas)
    remaining = [replica for replica in partition.isr if replica != broker_id]
    return len(remaining) < min_isr


def highest_used(topics: Sequence[TopicState]) -> int:
    """The highest id of a broker that has a replica; -1 when there is none."""
    return max((max(p.replicas) for topic in topics for p in topic.partitions if p.replicas), default=-1)


def partitions_on(topics: Sequence[TopicState], first: int) -> list[PartitionState]:
    """Partitions that have a replica on broker ``first`` or above."""
    return [p for topic in topics for p in topic.partitions if any(replica >= first for replica in p.replicas)]


def _order(observed: ObservedCluster, outdated: Mapping[int, str]) -> list[int]:
    return sorted(outdated, key=lambda i: (observed.brokers[i].name == observed.controller, i))


def _wait(
    observed: ObservedCluster,
    outdated: Mapping[int, str],
    brokers: Sequence[int],
    what: str,
    retry: float | None = None,
) -> Roll:
    names = ", ".join(observed.names.pod(i) for i in brokers[:_SHOWN_MAX])
    found = [observed.brokers[i] for i in brokers if i in observed.brokers]
    since = min((_waits_since(pod) or observed.now for pod in found), default=observed.now)
    usual = (observed.now - since).total_seconds() <= USUAL_WAIT_SECONDS
    return Roll(outdated, (), None if usual else ClusterReason.BROKER_NOT_READY, f"{names} {what}", retry)


def _waits_since(pod: Pod) -> datetime | None:
    """One that is on its way out may have been ready for long, and was not waited for then."""
    return pod.leaving_since if pod.leaving else pod.ready_since or pod.created


def _seconds_ready(observed: ObservedCluster, replicas: int) -> float:
    """Return for how long all of them have been ready."""
    youngest = max((observed.brokers[i].ready_since or observed.now for i in range(replicas)), default=observed.now)
    return (observed.now - youngest).total_seconds()


def _listed(outdated: Mapping[int, str]) -> str:
    word = "broker" if len(outdated) == 1 else "brokers"
    verb = "has" if len(outdated) == 1 else "have"
    return f"{word} {', '.join(str(i) for i in sorted(outdated))} {verb}"
