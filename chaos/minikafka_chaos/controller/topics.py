"""Topics that an experiment makes in a cluster which stays: how they are written down, and what becomes of them. No I/O.

A name is no identity: a topic of that name may have been made by somebody else after ours was deleted. So a topic is written down
before it is made (Intended), with its id once brokers have told it (Made), and at the end only the topic of that very id is
removed, by deleting the MiniKafkaTopic that shows it, at the resource version at which it does. Where the id is not known, or
anything contradicts it, the topic is left, and that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from minikafka.kubernetes import topics as shown
from minikafka.kubernetes.document import Document
from minikafka.metadata.store import StoreError
from minikafka_kube.instants import instant, time_text
from minikafka_kube.observed import deleting

from minikafka_chaos.controller.api import TopicFate
from minikafka_chaos.controller.kinds import Object
from minikafka_chaos.controller.record import Status

REMOVE_SECONDS_MAX: Final = 120.0
"""How long brokers may take to delete a topic, or to show one that they have made; then it is left, and told."""

_DETAIL_MAX: Final = 1000
_OPEN: Final = frozenset({TopicFate.INTENDED, TopicFate.MADE, TopicFate.REMOVING})

Entry = Mapping[str, Any]


# --- in the status ----------------------------------------------------------------------------------------------------


def topics_of(status: Status) -> list[dict[str, Any]]:
    """All topics that a status tells of."""
    return [dict(entry) for entry in status.get("topics") or ()]


def open_topics(status: Status) -> list[dict[str, Any]]:
    """Those that are still to be removed."""
    return [entry for entry in topics_of(status) if entry["state"] in _OPEN]


def intended(status: Status, name: str, now: datetime) -> dict[str, Any]:
    """Record that it is about to be made."""
    entry = {"name": name, "state": TopicFate.INTENDED.value, "intendedAt": time_text(now)}
    return {**status, "topics": [*(one for one in topics_of(status) if one["name"] != name), entry]}


def made(status: Status, name: str, topic_id: str) -> dict[str, Any]:
    """Brokers have made it, and told its id."""
    return _changed(status, name, state=TopicFate.MADE.value, topicId=topic_id)


def not_made(status: Status, name: str, why: str) -> dict[str, Any]:
    """Brokers have refused it."""
    return _changed(status, name, state=TopicFate.NOT_MADE.value, detail=why[:_DETAIL_MAX])


def _changed(status: Status, name: str, **fields: Any) -> dict[str, Any]:
    """One that is not written down any more, or has an end already, stays as it is."""
    entries = topics_of(status)
    for entry in entries:
        if entry["name"] == name and entry["state"] in _OPEN:
            entry |= fields
    return {**status, "topics": entries}


# --- what there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """The topics of a cluster at one look: the brokers' metadata, and then the objects that show them."""

    cluster: Object | None
    metadata: Object | None
    objects: Sequence[Object]

    def document(self) -> Document | None:
        """The brokers' metadata; None where it is not there or cannot be read."""
        if self.metadata is None:
            return None
        try:
            return Document.from_config_map(self.metadata)
        except StoreError:
            return None

    def showing(self, name: str, topic_id: str) -> Object | None:
        """The object that shows the topic of this name and id."""
        found = (one for one in self.objects if shown.topic_name(one) == name and shown.topic_id(one) == topic_id)
        return next(found, None)


@dataclass(frozen=True)
class Removal:
    """A MiniKafkaTopic that is to be deleted, if it is still the one that was looked at, unchanged."""

    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True)
class TopicCleanup:
    """What follows from one look: the status with what is known now, and what is to be deleted."""

    status: dict[str, Any]
    removals: Sequence[Removal]
    removed: Sequence[str]
    """Names of topics found gone just now."""
    left: Sequence[str]
    """Those that stay, each with the reason."""


# --- what becomes of them ---------------------------------------------------------------------------------------------


def look(experiment: Object, seen: Seen, now: datetime) -> TopicCleanup:
    """Return what is to be done about each topic. The removal of a topic is written down before it is asked for."""
    status = dict(experiment.get("status") or {})
    entries, removals, removed, left = topics_of(status), [], [], []
    for entry in entries:
        if entry["state"] not in _OPEN:
            continue
        if entry["state"] != TopicFate.REMOVING:
            entry |= {"state": TopicFate.REMOVING.value, "removingAt": time_text(now)}
            continue
        match _end_of(entry, experiment, seen, now):
            case Removal() as removal:
                removals.append(removal)
            case TopicFate() as fate, str(why):
                entry |= {"state": fate.value, "detail": why[:_DETAIL_MAX]}
                if fate is TopicFate.REMOVED:
                    removed.append(entry["name"])
                elif fate is TopicFate.LEFT:
                    left.append(f"{entry['name']}: {why}")
    return TopicCleanup({**status, "topics": entries}, removals, removed, left)


def _end_of(entry: Entry, experiment: Object, seen: Seen, now: datetime) -> Removal | tuple[TopicFate, str] | None:
    """Return what to do about a topic that is to go; None: wait."""
    name, topic_id = str(entry["name"]), entry.get("topicId")
    if name not in {topic.get("name") for topic in (experiment.get("spec") or {}).get("topics") or ()}:
        return TopicFate.LEFT, "the experiment's spec has no such topic"
    if seen.cluster is None:
        return TopicFate.LEFT, "its cluster is gone"
    began = instant(entry.get("removingAt")) or now
    late = now >= began + timedelta(seconds=REMOVE_SECONDS_MAX)
    document = seen.document()
    if document is None:
        return (TopicFate.LEFT, "the brokers' metadata cannot be read") if late else None
    if topic_id is None:
        if name not in document.topics:
            return TopicFate.NOT_MADE, "it was never made"
        return (
            TopicFate.LEFT,
            "the runner ended before it could write down the topic's id, so it may be somebody else's",
        )
    thing = seen.showing(name, topic_id)
    if _is_gone(name, topic_id, document, seen):
        return TopicFate.REMOVED, f"topic {topic_id} is gone"
    if thing is not None and _created(thing) < _created(experiment):
        return TopicFate.LEFT, "it was there before the experiment"
    if late:
        return TopicFate.LEFT, _why_late(thing)
    if not _deletion_enabled(seen.cluster):
        return TopicFate.LEFT, "delete.topic.enable=false: topics of this cluster stay"
    if thing is None or deleting(thing):
        return None
    metadata = thing["metadata"]
    return Removal(str(metadata["name"]), str(metadata["uid"]), str(metadata["resourceVersion"]))


def _is_gone(name: str, topic_id: str, document: Document, seen: Seen) -> bool:
    """Whether there is no topic of this id any more. The metadata was read first, so an object that it relies on was there."""
    if name not in document.topics:
        return True
    if name in document.journal:
        return str(document.journal[name].get("topicId")) != topic_id
    there = [one for one in seen.objects if shown.topic_name(one) == name]
    return bool(there) and seen.showing(name, topic_id) is None


def _why_late(thing: Object | None) -> str:
    if thing is None:
        return f"no MiniKafkaTopic showed it within {REMOVE_SECONDS_MAX:g} s"
    name = thing["metadata"]["name"]
    if deleting(thing):
        return (
            f"MiniKafkaTopic {name} is being deleted, and the brokers have not done so within {REMOVE_SECONDS_MAX:g} s"
        )
    return f"MiniKafkaTopic {name} could not be deleted within {REMOVE_SECONDS_MAX:g} s"


def _deletion_enabled(cluster: Object) -> bool:
    config = (cluster.get("spec") or {}).get("config") or {}
    return str(config.get("delete.topic.enable", "true")).lower() != "false"


def _created(thing: Object) -> str:
    """As the API server writes it: to the second, and in the order of time."""
    return str(thing["metadata"].get("creationTimestamp") or "")


def names(entries: Iterable[Entry]) -> str:
    """List their names for people."""
    return ", ".join(str(entry["name"]) for entry in entries)
