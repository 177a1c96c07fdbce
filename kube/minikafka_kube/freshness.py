"""Whether what is known of the partitions is what the brokers know, as of this look.

A MiniKafkaTopic's status is a copy, and a copy may be old: its writer may be away. Two things tell. The brokers' metadata
(ConfigMap ``<cluster>-metadata``) is written first, in one step, and names the revision that each topic is at; what a status
does not show yet is in its journal. And the metadata itself stands still when there is no controller, however many brokers
have died since; so a broker of this cluster must be renewing the controller's Lease. As client-go does, only changes of the
Lease's own record are counted (not those of labels, say) and no clocks are compared, for those of two machines differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from minikafka.kubernetes.document import Document
from minikafka.metadata.image import CLUSTER_CONFIG, MIN_ISR
from minikafka.metadata.store import StoreError

from minikafka_kube.kinds import Object

_SHOWN_MAX = 3
LIVE_SECONDS_MIN = 4.5
"""As for the default of ``broker.session.timeout.ms``. Looks are a second or two apart, so of a Lease that is renewed more often
than that one cannot know that it was renewed within half of its duration."""


RECENT_SECONDS_MIN = 10.0
"""Between two looks at a cluster its Lease is read every few seconds (``loops.GLANCE_SECONDS``), so of one that is renewed more
often one cannot know that it was renewed within less than two such glances."""


@dataclass(frozen=True)
class Signs:
    """What was seen of a Lease: it was renewed within ``renewed_within`` seconds (None: that was not seen yet), and the
    renewal seen last stands for ``unchanged`` seconds.
    """

    renewed_within: float | None = None
    unchanged: float = 0.0

    def live(self, duration_seconds: float) -> bool:
        """Whether its holder, who renews it three times in its duration, has done so just now, as far as looks can tell."""
        if self.renewed_within is None or self.dead(duration_seconds):
            return False
        return self.renewed_within <= max(duration_seconds / 2, LIVE_SECONDS_MIN)

    def recent(self, duration_seconds: float) -> bool:
        """Whether its holder renewed it within its duration, as far as looks can tell: what it looks after is not older."""
        if self.renewed_within is None or self.dead(duration_seconds):
            return False
        return self.renewed_within <= max(duration_seconds, RECENT_SECONDS_MIN)

    def dead(self, duration_seconds: float) -> bool:
        """Return whether its holder has had the time to renew it, and did not. Neither holds as long as that is not known."""
        return self.unchanged > duration_seconds


@dataclass
class _Seen:
    version: tuple[Any, ...]
    first: float
    last: float
    renewed_after: float | None = None


class Renewals:
    """Leases by any key, as seen in one look after the other. The time is handed in: seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._seen: dict[Any, _Seen] = {}

    def look(self, key: Any, lease: Object | None, now: float) -> Signs:
        """Note a Lease as it is now; what is known of its holder."""
        if lease is None:
            self._seen.pop(key, None)
            return Signs(None, math.inf)
        spec = lease.get("spec") or {}
        version = tuple(spec.get(name) for name in ("renewTime", "holderIdentity", "leaseTransitions"))
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen(version, now, now)
        elif seen.version != version:
            # It was renewed after the last look at the version before.
            seen = self._seen[key] = _Seen(version, now, now, renewed_after=seen.last)
        seen.last = now
        return Signs(None if seen.renewed_after is None else now - seen.renewed_after, now - seen.first)

    def forget(self, key: Any) -> None:
        """Nobody asks for it any more."""
        self._seen.pop(key, None)


def holding(lease: Object | None, signs: Signs) -> tuple[str, bool, bool]:
    """Return who holds a Lease, whether it is renewed, whether its holder has let it be. Neither of the two: not known yet."""
    spec = (lease or {}).get("spec") or {}
    duration = float(spec.get("leaseDurationSeconds") or 0)
    return str(spec.get("holderIdentity") or ""), signs.recent(duration), signs.dead(duration)


class GapReason(StrEnum):
    """Why what is known of the partitions must not be trusted, as a condition has it."""

    CONTROLLER_AWAY = "ControllerAway"
    CONTROLLER_UNCONFIRMED = "ControllerUnconfirmed"
    TOPIC_STATUS_STALE = "TopicStatusStale"


@dataclass(frozen=True)
class MetadataGap:
    """Why what is known of the partitions must not be trusted. ``lasting``: it will not come right by itself at once."""

    reason: GapReason
    message: str
    lasting: bool


def controller_gap(
    lease: Object | None, name: str, signs: Signs, controller: str, *, just_now: bool
) -> MetadataGap | None:
    """Return whether somebody looks after the partitions. ``controller``: the pod that holds the Lease, "" for who is no broker.

    ``just_now``: it must have been renewed just now, for a broker is about to be taken away; else what is told may be as old as
    a Lease's duration.
    """
    spec = (lease or {}).get("spec") or {}
    duration = float(spec.get("leaseDurationSeconds") or 0)
    holder = spec.get("holderIdentity")
    if lease is None or not holder:
        return MetadataGap(
            GapReason.CONTROLLER_AWAY, f"no broker is controller: there is no Lease {name}", lasting=True
        )
    if not controller:
        what = f"no broker is controller: Lease {name} is held by {holder}, which is no pod of this cluster's brokers"
        return MetadataGap(GapReason.CONTROLLER_AWAY, what, lasting=True)
    if signs.live(duration) if just_now else signs.recent(duration):
        return None
    what = f"Lease {name} was not renewed for {duration:g} s, so what is known of the in-sync replicas may be old"
    if signs.dead(duration):
        return MetadataGap(GapReason.CONTROLLER_AWAY, what, lasting=True)
    return MetadataGap(GapReason.CONTROLLER_UNCONFIRMED, f"waiting to see Lease {name} renewed", lasting=False)


@dataclass(frozen=True)
class Freshness:
    """Why what is known may be old, and must not be told as if it were so now; None where it is new enough.

    ``controller``: of everything that the controller looks after. ``topics``: of what is known of the partitions.
    """

    controller: MetadataGap | None
    topics: MetadataGap | None

    @property
    def gap(self) -> MetadataGap | None:
        return self.controller or self.topics


@dataclass(frozen=True)
class Partitions:
    """The newest state of each topic, as a status has it, by topic; and why that is not the newest, if so.

    ``min_isr`` is the brokers' default of ``min.insync.replicas``: what they go by, which the spec need not be yet.
    """

    statuses: Mapping[str, Mapping[str, Any]]
    gap: MetadataGap | None
    min_isr: int | None = None


def newest(topics: Sequence[Object], metadata: Object | None, name: str) -> Partitions:
    """Statuses of topics, brought up to date with the metadata's journal."""
    shown = {_topic_name(topic): topic["status"] for topic in topics if (topic.get("status") or {}).get("partitions")}
    if metadata is None:
        return Partitions(
            shown, MetadataGap(GapReason.TOPIC_STATUS_STALE, f"there is no ConfigMap {name}", lasting=True)
        )
    try:
        document = Document.from_config_map(metadata)
    except StoreError as error:
        return Partitions(shown, MetadataGap(GapReason.TOPIC_STATUS_STALE, str(error), lasting=True))
    min_isr = _min_isr(document)
    made: dict[str, Mapping[str, Any]] = {}
    behind = []
    for topic, revision in document.topics.items():
        status = shown.get(topic)
        if status is not None:
            made[topic] = status
        if status is None or int(status.get("revision") or 0) < revision:
            if topic in document.journal:
                made[topic] = _as_status(topic, document.journal[topic])
            else:
                behind.append(topic)
    if not behind:
        return Partitions(made, None, min_isr)
    more = f" and {len(behind) - _SHOWN_MAX} more" if len(behind) > _SHOWN_MAX else ""
    message = f"older than the brokers' metadata: the status of {', '.join(behind[:_SHOWN_MAX])}{more}"
    return Partitions(made, MetadataGap(GapReason.TOPIC_STATUS_STALE, message, lasting=True), min_isr)


def _min_isr(document: Document) -> int | None:
    _, settings = document.records.get(CLUSTER_CONFIG, (0, None))
    given = str((settings or {}).get(MIN_ISR, ""))
    return int(given) if given.isdecimal() else None


def _topic_name(topic: Object) -> str:
    return str(topic["status"].get("topicName") or topic["spec"].get("topicName") or topic["metadata"]["name"])


def _as_status(topic: str, record: Mapping[str, Any]) -> dict[str, Any]:
    partitions = [{"partition": index, **state} for index, state in enumerate(record["partitions"])]
    return {"topicName": topic, "partitions": partitions, "configs": record.get("configs") or {}}
