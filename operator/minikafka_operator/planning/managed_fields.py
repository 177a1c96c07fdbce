"""Who owns the fields of an object that was created, as the API server notes it down in ``managedFields``.

Objects are created by POST, because that is the one write that fails where there is something of that name, and changed
by server-side apply. The API server keeps both apart as two owners, even under one name, so a field that is no longer
applied would stay for ever: the creation still owns it. So what the creation owns is handed to the apply, as
``csaupgrade`` of client-go does it for users of kubectl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minikafka_kube.names import MANAGER

APPLY, UPDATE = "Apply", "Update"


def as_applied(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The entries with what this operator created as what it applies; None when that is so already."""
    created = [entry for entry in entries if _is_mine(entry, UPDATE)]
    if not created:
        return None
    applied = [entry for entry in entries if _is_mine(entry, APPLY)]
    fields: dict[str, Any] = {}
    for entry in (*applied, *created):
        fields = _union(fields, entry.get("fieldsV1") or {})
    mine = {**(applied or created)[0], "operation": APPLY, "fieldsV1": fields}
    return [mine, *(dict(entry) for entry in entries if entry not in created and entry not in applied)]


def _is_mine(entry: Mapping[str, Any], operation: str) -> bool:
    return entry.get("manager") == MANAGER and entry.get("operation") == operation and not entry.get("subresource")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Unite two sets of fields; each is a tree of objects, whose leaves are empty."""
    made = dict(one)
    for name, below in other.items():
        made[name] = _union(made.get(name, {}), below)
    return made
