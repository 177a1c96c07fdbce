"""An API server in memory, for controllers, which run against it unchanged: it takes the place of `minikafka_kube.api_server`.

Objects have resource versions, uids, finalizers and owners, and a write that is out of date is refused. ``dies_at`` lets a
process die at its n-th write, before or after the write took effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from minikafka_kube.api_server import ApiError
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import Kind, Object

from tests.copies import copied


class Killed(BaseException):
    """The process that was writing is gone."""


class FakeApiServer:
    """Objects by kind and name, in one namespace, with the checks that controllers rely on."""

    def __init__(self, namespace: str, now: datetime) -> None:
        self.namespace = namespace
        self.now = now
        self.objects: dict[tuple[str, str], Object] = {}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self.writes = 0
        self.dies_at: int | None = None
        self.dies_after = False
        self.refuses: dict[str, Exception] = {}
        """Kinds of objects that a quota, a webhook or a policy lets nobody make, or that are not made now."""
        self.events: list[tuple[str, str]] = []
        self.log: list[str] = []

    # -- what the controller calls --------------------------------------------------------------------------------------

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        return copied(self.objects.get((kind.name, name)))

    async def find_all(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Object]:
        name, _, value = (labels or fields).partition("=")

        def fits(thing: Object) -> bool:
            if labels:
                return bool((thing["metadata"].get("labels") or {}).get(name) == value)
            return bool(not fields or thing["spec"]["clusterRef"]["name"] == value)

        return [copied(thing) for (one, _), thing in self.objects.items() if one == kind.name and fits(thing)]

    async def create(self, kind: Kind, namespace: str, thing: Object) -> Object:
        if kind.name == "Event":
            self.events.append((thing["reason"], thing["message"]))
            return thing
        name = thing["metadata"]["name"]

        def effect() -> Object:
            if kind.name in self.refuses:
                raise self.refuses[kind.name]
            if (kind.name, name) in self.objects:
                raise ApiError(409, "AlreadyExists", f"{kind.name} {name} exists")
            return self.put(kind, name, thing)

        return self._write(f"create {kind.name}", effect)

    async def replace(self, kind: Kind, namespace: str, thing: Object) -> Object:
        return self._write(f"replace {kind.name}", lambda: self._replaced(kind, thing, "spec"))

    async def replace_status(self, kind: Kind, namespace: str, thing: Object) -> Object:
        told = f"status {(thing.get('status') or {}).get('phase', '')}".strip()
        return self._write(told, lambda: self._replaced(kind, thing, "status"))

    async def patch(self, kind: Kind, namespace: str, name: str, body: Mapping[str, Any]) -> Object:
        """A merge patch of metadata and data, for what its uid and resource version name."""

        def effect() -> Object:
            there = self._there(kind, name)
            expected = ("uid", "resourceVersion")
            if any(body["metadata"].get(one) not in (None, there["metadata"][one]) for one in expected):
                raise ApiError(409, "Conflict", "changed meanwhile")
            for part, values in body.items():
                there[part] = {**there.get(part, {}), **copied(values)}
            there["metadata"]["resourceVersion"] = str(next(self._versions))
            return copied(there)

        return self._write(f"patch {kind.name}", effect)

    async def apply_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> Object:
        def effect() -> Object:
            there = self._there(kind, name)
            there["status"] = copied(dict(status))
            there["metadata"]["resourceVersion"] = str(next(self._versions))
            return copied(there)

        return self._write(f"status {kind.name}", effect)

    async def set_finalizers(
        self, kind: Kind, namespace: str, name: str, resource_version: str, finalizers: list[str]
    ) -> Object:
        def effect() -> Object:
            there = self._there(kind, name)
            if there["metadata"]["resourceVersion"] != resource_version:
                raise ApiError(409, "Conflict", "changed meanwhile")
            there["metadata"]["finalizers"] = list(finalizers)
            there["metadata"]["resourceVersion"] = str(next(self._versions))
            if not finalizers and "deletionTimestamp" in there["metadata"]:
                self._gone(kind, name)
            return there

        return self._write("finalizers", effect)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None = None
    ) -> None:
        def effect() -> Object:
            there = self.objects.get((kind.name, name))
            if there is None:
                return {}
            if there["metadata"]["uid"] != uid:
                raise ApiError(409, "Conflict", "another one")
            if resource_version not in (None, there["metadata"]["resourceVersion"]):
                raise ApiError(409, "Conflict", "changed meanwhile")
            self.remove(kind, name)
            return there

        self._write(f"delete {kind.name}", effect)

    # -- what others do -------------------------------------------------------------------------------------------------

    def put(self, kind: Kind, name: str, thing: Object) -> Object:
        made = copied(thing)
        made.setdefault("apiVersion", kind.api_version)
        made.setdefault("kind", kind.name)
        metadata = made.setdefault("metadata", {})
        metadata |= {"name": name, "namespace": self.namespace, "resourceVersion": str(next(self._versions))}
        metadata.setdefault("uid", f"00000000-{next(self._uids):04d}")
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", time_text(self.now))
        self.objects[kind.name, name] = made
        return copied(made)

    def remove(self, kind: Kind, name: str) -> None:
        """Delete, as far as finalizers let it go."""
        there = self.objects[kind.name, name]
        if there["metadata"].get("finalizers"):
            there["metadata"].setdefault("deletionTimestamp", time_text(self.now))
            there["metadata"]["resourceVersion"] = str(next(self._versions))
        else:
            self._gone(kind, name)

    def touch(self, kind: Kind, name: str) -> None:
        self.objects[kind.name, name]["metadata"]["resourceVersion"] = str(next(self._versions))

    def _gone(self, kind: Kind, name: str) -> None:
        gone = self.objects.pop((kind.name, name))
        owned = [
            key
            for key, thing in self.objects.items()
            if any(one["uid"] == gone["metadata"]["uid"] for one in thing["metadata"].get("ownerReferences") or ())
        ]
        for one, other in owned:
            if (one, other) in self.objects:
                self.remove(Kind("", one, ""), other)

    def _there(self, kind: Kind, name: str) -> Object:
        if (kind.name, name) not in self.objects:
            raise ApiError(404, "NotFound", f"no {kind.name} {name}")
        return self.objects[kind.name, name]

    def _replaced(self, kind: Kind, thing: Object, part: str) -> Object:
        there = self._there(kind, thing["metadata"]["name"])
        if thing["metadata"].get("resourceVersion") != there["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "changed meanwhile")
        there[part] = copied(thing[part])
        there["metadata"]["resourceVersion"] = str(next(self._versions))
        return copied(there)

    def _write(self, told: str, effect: Callable[[], Object]) -> Object:
        self.writes += 1
        dies = self.dies_at is not None and self.writes == self.dies_at
        if dies and not self.dies_after:
            raise Killed(told)
        made = effect()
        self.log.append(told)
        if dies:
            raise Killed(told)
        return made
