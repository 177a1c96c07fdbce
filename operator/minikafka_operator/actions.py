"""What the planner can ask for. Each is a value; carrying them out is the reconciler's work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka_operator.kinds import Kind, Object


@dataclass(frozen=True)
class Apply:
    """Server-side apply of an object.

    ``why`` is the field that differs. ``takeover``: the object is known to be ours, so fields that somebody else changed
    are taken back; otherwise a conflict is an error, for then the object is somebody else's.
    """

    thing: Object
    why: str
    takeover: bool


@dataclass(frozen=True)
class Patch:
    """A JSON merge patch of an existing object. The uid in its metadata makes sure it is that one."""

    kind: Kind
    name: str
    body: Mapping[str, Any]
    why: str


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
    """Delete an object, if it is still that one."""

    kind: Kind
    name: str
    uid: str | None
    why: str


@dataclass(frozen=True)
class ReplacePod:
    """Delete a broker's pod so that it is made again."""

    name: str
    uid: str
    why: str


@dataclass(frozen=True)
class Emit:
    """A Kubernetes Event about the cluster; ``related_pod`` is the name of a pod that is being replaced, or empty."""

    warning: bool
    reason: str
    action: str
    note: str
    related_pod: str = ""


Action = Apply | Patch | Finalizers | Delete | ReplacePod


@dataclass(frozen=True)
class Plan:
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
