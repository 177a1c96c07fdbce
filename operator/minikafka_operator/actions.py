"""What the planner can ask for. Each is a value; carrying them out is the reconciler's work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka_kube.events import Emit
from minikafka_kube.kinds import POD, Kind, Object


@dataclass(frozen=True)
class Create:
    """Create an object. Where there is one of that name it fails, so nothing of somebody else's is touched."""

    thing: Object


@dataclass(frozen=True)
class Apply:
    """Server-side apply of an object that is ours; fields that somebody else changed are taken back.

    ``why`` is the field that differs. ``uid`` and ``resource_version`` are of what was looked at: it must still be that.
    """

    thing: Object
    uid: str
    resource_version: str
    why: str

    def body(self) -> Object:
        """Return what to send: a name, and no more, is no reason to overwrite what has it."""
        expected = {"uid": self.uid, "resourceVersion": self.resource_version}
        return {**self.thing, "metadata": {**self.thing["metadata"], **expected}}


@dataclass(frozen=True)
class Patch:
    """A JSON merge patch of an existing object. The uid in its metadata makes sure it is that one.

    A resource version beside it makes sure that it is still as it was looked at. ``dispensable``: the API server may
    refuse it, and nothing is wrong then.
    """

    kind: Kind
    name: str
    body: Mapping[str, Any]
    why: str
    dispensable: bool = False


@dataclass(frozen=True)
class Finalizers:
    """Set an object's finalizers, if it is still as it was observed (resource version)."""

    kind: Kind
    name: str
    resource_version: str
    finalizers: Sequence[str]
    why: str


@dataclass(frozen=True)
class Delete:
    """Delete an object, if it is still that one, and as it was looked at.

    ``resource_version`` is None where a uid says it all: a pod's status moves all the time, and pods do not change hands.
    """

    kind: Kind
    name: str
    uid: str
    resource_version: str | None
    why: str

    @classmethod
    def of(cls, kind: Kind, thing: Object, why: str) -> Delete:
        """The object that was looked at."""
        metadata = thing["metadata"]
        version = None if kind is POD else metadata["resourceVersion"]
        return cls(kind, metadata["name"], metadata["uid"], version, why)


@dataclass(frozen=True)
class ReplacePod:
    """Take a broker's pod away so that it is made again; ``evict``: only if its PodDisruptionBudget allows it now."""

    name: str
    uid: str
    why: str
    evict: bool


@dataclass(frozen=True)
class WriteDisruptionLease:
    """Write the disruption Lease, to take it or to give it back, if it is still as it was looked at; ``new``: there is none."""

    lease: Object
    new: bool
    why: str

    @property
    def name(self) -> str:
        """The Lease's."""
        return str(self.lease["metadata"]["name"])


@dataclass(frozen=True)
class SetTopicCondition:
    """Set one condition of a MiniKafkaTopic; the rest of its status is the brokers'."""

    name: str
    condition: Mapping[str, Any]


Action = Create | Apply | Patch | Finalizers | Delete | ReplacePod | WriteDisruptionLease | SetTopicCondition


@dataclass(frozen=True)
class ClusterPlan:
    """What to do, in this order: actions, status, events. ``status`` is None when it is as it should be.

    ``retry_seconds``: look again then, if nothing happens before.
    """

    actions: Sequence[Action] = ()
    status: Mapping[str, Any] | None = None
    events: Sequence[Emit] = ()
    retry_seconds: float | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)

    @property
    def steady(self) -> bool:
        """Nothing is to be written."""
        return not self.actions and self.status is None and not self.events
