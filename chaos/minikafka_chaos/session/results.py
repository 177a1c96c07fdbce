"""What verbs return, as JSON and as the schema of that JSON, both taken from the types of `ChaosSession`'s methods."""

from __future__ import annotations

import base64
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from minikafka_chaos.session.session import ChaosSession, Observation
from minikafka_chaos.verdict.verdict import Outcome, Verdict

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
TEXT = {"type": "string"}
OBJECT = {"type": "object"}
BYTES = {
    "description": "Text where the bytes are UTF-8.",
    "anyOf": [TEXT, {"type": "object", "properties": {"base64": TEXT}, "required": ["base64"]}],
}


def plain(value: Any) -> Any:
    """A result as JSON has it. Bytes are text where they are UTF-8, else `{"base64": ...}`."""
    if isinstance(value, Verdict):
        return value.as_json()
    if isinstance(value, Observation):
        return value.api
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value


def result_schema(verb: str) -> dict[str, Any]:
    """The JSON schema of what a verb returns."""
    return _schema(get_type_hints(getattr(ChaosSession, verb))["return"])


def _schema(hint: Any) -> dict[str, Any]:
    """The schema of what `plain` makes of a value of this type."""
    if hint is Any:
        return {}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if hint is bytes:
        return BYTES
    if hint is Observation:
        return TEXT
    if hint is Verdict:
        return _verdict()
    if get_origin(hint) in (Union, types.UnionType):
        return {"anyOf": [_schema(each) for each in get_args(hint)]}
    if get_origin(hint) is not None:
        return _container(get_origin(hint), get_args(hint))
    found = {name: _schema(each) for name, each in get_type_hints(hint).items()}
    return {"type": "object", "properties": found, "required": list(found)}


def _container(kind: type, of: Sequence[Any]) -> dict[str, Any]:
    if issubclass(kind, Mapping):
        return {"type": "object", "additionalProperties": _schema(of[1])}
    if kind is tuple and of[-1] is not ...:
        return {"type": "array", "prefixItems": [_schema(each) for each in of], "items": False}
    return {"type": "array", "items": _schema(of[0])}


def _verdict() -> dict[str, Any]:
    found = {
        "verdict": {"type": "string", "enum": [outcome.value for outcome in Outcome]},
        "summary": TEXT,
        "counts": OBJECT
        | {"description": "null is what brokers do not know: sent, failed, duplicated, reordered, phantoms."},
        "anomalies": {"type": "array", "items": OBJECT},
        "claims": {
            "type": "array",
            "items": OBJECT | {"description": "held is null where it was not judged; detail says why."},
        },
        "problems": {"type": "array", "items": TEXT},
    }
    return {"type": "object", "properties": found, "required": list(found)}
