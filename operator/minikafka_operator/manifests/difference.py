"""Whether an object is as desired, so that nothing is written when it is.

Objects come back from the API server with more in them than was sent: defaults, status, what other controllers add. So
the question is whether all that is desired is there. What is *no longer* desired is noticed by the digest in
:data:`~minikafka_kube.names.APPLIED_ANNOTATION`, which is part of what is desired.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from minikafka_kube.kinds import Object
from minikafka_kube.names import APPLIED_ANNOTATION

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|)")
_FACTORS: Final = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_QUANTITY_FIELDS: Final = frozenset({"requests", "limits", "sizeLimit", "storage"})
_LEFT_OUT: Final[tuple[Any, ...]] = (None, "", [], {})
"""What the API server does not store (``omitempty``); people write it in what is passed on, such as affinity."""
_LIST_KEYS: Final = ("name", "mountPath", "uid", "key", "path")
"""Fields by which the API server knows the elements of its lists; others may add elements of their own."""


def quantity(text: str | int | float) -> Decimal | None:
    """The number that a quantity stands for, or None when it is none."""
    match = _QUANTITY.fullmatch(str(text))
    return None if match is None else Decimal(match[1]) * _FACTORS[match[2]]


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits that say what a JSON value is."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sealed(desired: Object) -> Object:
    """The object with its own digest among its annotations."""
    metadata = desired["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_ANNOTATION: digest(desired)}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def differs(desired: Object, found: Object | None) -> str:
    """Return where the object found is not as desired (``spec.replicas``), or nothing when it is."""
    if found is None:
        return "it is not there"
    path = _difference(desired, found, "", "")
    return "" if path is None else path.removeprefix(".")


def _difference(desired: Any, found: Any, name: str, above: str) -> str | None:
    """Return the path from here to the first thing that is not as desired; None when all is. ``name`` and ``above``: the last two
    fields on the way here. The path is put together on the way back, for mostly there is none.
    """
    if isinstance(desired, str):  # most of all that there is
        return None if desired == found or _same_amount(desired, found, name, above) else ""
    if isinstance(desired, Mapping):
        return _mapping_difference(desired, found, name)
    if isinstance(desired, Sequence):
        return _list_difference(desired, found)
    if desired == found and isinstance(desired, bool) == isinstance(found, bool):
        return None
    return None if _same_amount(desired, found, name, above) else ""


def _same_amount(desired: Any, found: Any, name: str, above: str) -> bool:
    if name not in _QUANTITY_FIELDS and above not in _QUANTITY_FIELDS:
        return False
    amount = quantity(desired)
    return amount is not None and amount == quantity(found)


def _mapping_difference(desired: Mapping[str, Any], found: Any, above: str) -> str | None:
    if not isinstance(found, Mapping):
        return ""
    for name, value in desired.items():
        if name not in found:
            if value in _LEFT_OUT:
                continue
            return f".{name}"
        inner = _difference(value, found[name], name, above)
        if inner is not None:
            return f".{name}{inner}"
    return None


def _list_difference(desired: Sequence[Any], found: Any) -> str | None:
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ""
    key = next((k for k in _LIST_KEYS if desired and _tells_apart(k, desired)), None)
    if key is None:
        if len(desired) != len(found):
            return ""
        pairs = [(str(index), *pair) for index, pair in enumerate(zip(desired, found, strict=True))]
    else:
        by_key = {element.get(key): element for element in found if isinstance(element, Mapping)}
        pairs = [(str(element[key]), element, by_key.get(element[key])) for element in desired]
    for name, one, other in pairs:
        inner = _difference(one, other, "", "") if other is not None else ""
        if inner is not None:
            return f"[{name}]{inner}"
    return None


def _tells_apart(key: str, elements: Sequence[Any]) -> bool:
    """Return whether each element has another value of this field; tolerations, say, may share a key."""
    values = [element[key] for element in elements if isinstance(element, Mapping) and element.get(key)]
    return len(values) == len(elements) and len({str(value) for value in values}) == len(values)
