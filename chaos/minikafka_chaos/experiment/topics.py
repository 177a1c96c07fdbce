"""Topics that an experiment makes in a cluster which stays: how they are written down, and what becomes of them. No I/O.

A name is no identity: a topic of that name may have been made by somebody else after ours was deleted. So a topic is written down
before it is made (Intended), with its id once brokers have told it (Made), and at the end only the topic of that very id is
removed, by deleting the MiniKafkaTopic that shows it, at the resource version at which it does. Where the id is not known, or
anything contradicts it, the topic is left, and that is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from minikafka.kubernetes import topics as shown
from minikafka.kubernetes.document import Document
from minikafka.metadata.store import StoreError
from minikafka_kube.observed import deleting

from minikafka_chaos.experiment.kinds import Object
from minikafka_chaos.experiment.status import ExperimentStatus, TopicFate, TopicStatus

REMOVE_SECONDS_MAX: Final = 120.0
"""How long brokers may take to delete a topic, or to show one that they have made; then it is left, and told."""

_DETAIL_MAX: Final = 1000

# --- in the status ----------------------------------------------------------------------------------------------------


def intended(status: ExperimentStatus, name: str, now: datetime) -> ExperimentStatus:
    """Record that it is about to be made."""
    entry = TopicStatus(name=name, state=TopicFate.INTENDED, intended_at=now)
    return status.but(topics=[*(one for one in status.topics or () if one.name != name), entry])


def made(status: ExperimentStatus, name: str, topic_id: str) -> ExperimentStatus:
    """Brokers have made it, and told its id."""
    return _changed(status, name, state=TopicFate.MADE, topic_id=topic_id)


def not_made(status: ExperimentStatus, name: str, why: str) -> ExperimentStatus:
    """Brokers have refused it."""
    return _changed(status, name, state=TopicFate.NOT_MADE, detail=why[:_DETAIL_MAX])


def _changed(status: ExperimentStatus, name: str, **fields: Any) -> ExperimentStatus:
    """One that is not written down any more, or has an end already, stays as it is."""
    topics = status.topics or ()
    return status.but(
        topics=[topic.but(**fields) if topic.name == name and topic.state.is_open else topic for topic in topics]
    )


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

    status: ExperimentStatus
    removals: Sequence[Removal]
    removed: Sequence[str]
    """Names of topics found gone just now."""
    left: Sequence[str]
    """Those that stay, each with the reason."""


# --- what becomes of them ---------------------------------------------------------------------------------------------


def look(status: ExperimentStatus, experiment: Object, seen: Seen, now: datetime) -> TopicCleanup:
    """Return what is to be done about each topic. The removal of a topic is written down before it is asked for."""
    topics: list[TopicStatus] = []
    removals, removed, left = [], [], []
    for topic in status.topics or ():
        after = topic
        if not topic.state.is_open:
            pass
        elif topic.state is not TopicFate.REMOVING:
            after = topic.but(state=TopicFate.REMOVING, removing_at=now)
        else:
            match _end_of(topic, experiment, seen, now):
                case Removal() as removal:
                    removals.append(removal)
                case TopicFate() as fate, str(why):
                    after = topic.but(state=fate, detail=why[:_DETAIL_MAX])
                    if fate is TopicFate.REMOVED:
                        removed.append(topic.name)
                    elif fate is TopicFate.LEFT:
                        left.append(f"{topic.name}: {why}")
        topics.append(after)
    return TopicCleanup(status.but(topics=topics), removals, removed, left)


def _end_of(
    topic: TopicStatus, experiment: Object, seen: Seen, now: datetime
) -> Removal | tuple[TopicFate, str] | None:
    """Return what to do about a topic that is to go; None: wait."""
    name, topic_id = topic.name, topic.topic_id
    if name not in {each.get("name") for each in (experiment.get("spec") or {}).get("topics") or ()}:
        return TopicFate.LEFT, "the experiment's spec has no such topic"
    if seen.cluster is None:
        return TopicFate.LEFT, "its cluster is gone"
    late = now >= (topic.removing_at or now) + timedelta(seconds=REMOVE_SECONDS_MAX)
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
