"""A simulated Kubernetes API server: what the cluster store needs of one, over requests and answers as on the wire.

Objects have a uid, a resourceVersion and a generation; a write names the resourceVersion that it replaces (409 Conflict else),
a status is written through its subresource only, a deletion waits for finalizers, and a watch tells everything after a
resourceVersion in order. (Kubernetes API Concepts; API Conventions.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

Object = dict[str, Any]

NAMESPACE = "sim"
HAS_STATUS = {"minikafkatopics"}
"""Kinds with a status subresource."""


class SimApiError(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def body(self) -> Object:
        return {"kind": "Status", "code": self.status, "reason": self.reason, "message": str(self)}


class SimWatchEvent(NamedTuple):
    """Something that watchers are told."""

    version: int
    plural: str
    type: str
    object: Object


class SimApiServer:
    """One namespace.

    Args:
        changed: called after each change, at once.
    """

    def __init__(self, changed: Callable[[SimWatchEvent], None]) -> None:
        self.version = 0
        self.history: list[SimWatchEvent] = []
        self._changed = changed
        self._objects: dict[tuple[str, str], Object] = {}
        self._made = 0

    def find(self, plural: str, name: str) -> Object | None:
        """An object as it is now."""
        return self._objects.get((plural, name))

    def all(self, plural: str) -> list[Object]:
        """All objects of a kind as they are now."""
        return [value for (kind, _), value in sorted(self._objects.items()) if kind == plural]

    def after(self, version: int, plural: str, selector: str | None) -> list[SimWatchEvent]:
        """What a watch from a resourceVersion tells by now."""
        return [
            change
            for change in self.history[_first_after(self.history, version) :]
            if change.plural == plural and _selected(change.object, selector)
        ]

    def request(self, method: str, target: str, content: bytes) -> Object:
        """Carry out a request. Raises SimApiError."""
        url = urlsplit(target)
        plural, name, subresource = _path(url.path)
        body = json.loads(content) if content else {}
        if method == "GET" and name is None:
            return self._list(plural, parse_qs(url.query).get("fieldSelector", [None])[0])
        if method == "POST":
            return deepcopy(self._create(plural, body))
        assert name is not None, "every other verb names an object"
        found = self._objects.get((plural, name))
        if found is None:
            raise SimApiError(404, "NotFound", f"{plural} {name!r} not found")
        if method == "PUT":
            _check_version(found, body["metadata"].get("resourceVersion"))
            found = self._update(plural, found, _replaced(found, body, plural, subresource))
        elif method == "PATCH":
            _check_version(found, (body.get("metadata") or {}).get("resourceVersion"))
            patched = _merged(found, {key: value for key, value in body.items() if key != "status"})
            found = self._update(plural, found, patched)
        elif method == "DELETE":
            self._delete(plural, found, body.get("preconditions") or {})
        return deepcopy(found)

    def _list(self, plural: str, selector: str | None) -> Object:
        items = [deepcopy(value) for value in self.all(plural) if _selected(value, selector)]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    def _create(self, plural: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        if (plural, name) in self._objects:
            raise SimApiError(409, "AlreadyExists", f"{plural} {name!r} already exists")
        value = deepcopy(body)
        if plural in HAS_STATUS:
            value.pop("status", None)
        self._made += 1
        value["metadata"] |= {
            "namespace": NAMESPACE,
            "uid": f"uid-{self._made}",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        return self._put(plural, "ADDED", value)

    def _update(self, plural: str, found: Object, value: Object) -> Object:
        metadata = value["metadata"]
        for name in ("namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"):
            metadata.pop(name, None)
            if name in found["metadata"]:
                metadata[name] = found["metadata"][name]
        if value == found:
            return found  # nothing is written
        if value.get("spec") != found.get("spec"):
            metadata["generation"] = found["metadata"]["generation"] + 1
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            return self._remove(plural, value)
        return self._put(plural, "MODIFIED", value)

    def _delete(self, plural: str, found: Object, only_if: Mapping[str, str]) -> None:
        metadata = found["metadata"]
        if any(metadata[name] != wanted for name, wanted in only_if.items()):
            raise SimApiError(409, "Conflict", "the preconditions do not hold")
        if not metadata.get("finalizers"):
            self._remove(plural, deepcopy(found))
        elif "deletionTimestamp" not in metadata:
            value = deepcopy(found)
            value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            value["metadata"]["generation"] += 1
            self._put(plural, "MODIFIED", value)

    def _put(self, plural: str, kind: str, value: Object) -> Object:
        self._objects[plural, value["metadata"]["name"]] = value
        return self._tell(plural, kind, value)

    def _remove(self, plural: str, value: Object) -> Object:
        del self._objects[plural, value["metadata"]["name"]]
        return self._tell(plural, "DELETED", value)

    def _tell(self, plural: str, kind: str, value: Object) -> Object:
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        change = SimWatchEvent(self.version, plural, kind, deepcopy(value))
        self.history.append(change)
        self._changed(change)
        return value


def _path(path: str) -> tuple[str, str | None, str | None]:
    """(plural, name, subresource) of /api(s)/GROUP/VERSION/namespaces/NAMESPACE/PLURAL[/NAME[/SUBRESOURCE]]."""
    parts = path.split("/namespaces/", 1)[1].split("/")[1:]
    name, subresource = ([unquote(part) for part in parts[1:]] + [None, None])[:2]
    return parts[0], name, subresource


def _selected(value: Object, selector: str | None) -> bool:
    """``fieldSelector`` PATH=VALUE."""
    if selector is None:
        return True
    path, _, wanted = selector.partition("=")
    for part in path.split("."):
        value = value.get(part) or {}
    return value == wanted  # type: ignore[comparison-overlap]


def _check_version(found: Object, version: str | None) -> None:
    if version is not None and version != found["metadata"]["resourceVersion"]:
        raise SimApiError(
            409, "Conflict", "the object has been modified; please apply your changes to the latest version"
        )


def _replaced(found: Object, body: Object, plural: str, subresource: str | None) -> Object:
    value = deepcopy(body)
    if subresource == "status":
        value = deepcopy(found) | {"status": value.get("status", {})}
    elif plural in HAS_STATUS:
        value.pop("status", None)
        if "status" in found:
            value["status"] = deepcopy(found["status"])
    return value


def _merged(found: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = deepcopy(found) if isinstance(found, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _first_after(history: list[SimWatchEvent], version: int) -> int:
    low, high = 0, len(history)
    while low < high:
        middle = (low + high) // 2
        if history[middle].version <= version:
            low = middle + 1
        else:
            high = middle
    return low
