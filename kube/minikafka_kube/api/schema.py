"""From pydantic's JSON schema to what a CustomResourceDefinition takes: OpenAPI v3, structural.

A structural schema (API server: ``apiextensions/schema``) has no references, no unions with null, and a type
everywhere. Optional fields are fields that are not required; null is a value of optional objects only. A union whose
members are told apart by one field (pydantic's discriminator) is one object with the fields of all, and rules that say
which member has which.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from minikafka_kube.api.part import rule, rules

_DROPPED = ("title", "$defs", "additionalProperties")
_INT32 = "int32"


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model.

    Raises ValueError when the model uses something a structural schema cannot say; that is a mistake in the model.
    """
    whole = model.model_json_schema(by_alias=True)
    schema = _convert(whole, whole.get("$defs", {}), model.__name__)
    assert isinstance(schema, dict)
    return schema


def _convert(schema: dict[str, Any], definitions: dict[str, Any], path: str) -> dict[str, Any]:
    optional = any(one.get("type") == "null" for one in schema.get("anyOf", ()))
    schema = _resolved(schema, definitions, path)
    if "discriminator" in schema:
        schema = _united(schema, definitions, path)
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _convert(part, definitions, f"{path}.{name}") for name, part in value.items()}
        elif key == "items":
            made[key] = _convert(value, definitions, f"{path}[]")
        elif key == "additionalProperties" and isinstance(value, dict):
            made[key] = _convert(value, definitions, f"{path}{{}}")
        elif key == "default":
            made[key] = _without_null(
                value
            )  # in full: a default has to pass the rules before its own fields are filled in
        elif key == "const":
            made["enum"] = [value]
        elif key not in _DROPPED:
            made[key] = value
    if "type" not in made and "x-kubernetes-int-or-string" not in made:
        raise ValueError(f"{path}: a structural schema needs one type here, not {schema}")
    if made.get("type") == "integer":
        made.setdefault("format", _INT32)
    if optional and ".status" not in path and _is_nothing_when_empty(made):
        made["nullable"] = True  # server-side apply makes null of `{}` that takes the place of fields
    if isinstance(made.get("description"), str):
        made["description"] = " ".join(made["description"].split())
    return made


def _is_nothing_when_empty(made: dict[str, Any]) -> bool:
    """Return whether an empty object says the same as none: nothing in it is filled in, or has to be there."""
    filled = any("default" in part for part in made.get("properties", {}).values())
    return made.get("type") == "object" and not made.get("required") and not filled


def _united(schema: dict[str, Any], definitions: dict[str, Any], path: str) -> dict[str, Any]:
    """One object for a union. Its fields have no defaults: the API server would fill them in for members without them."""
    discriminator = schema["discriminator"]["propertyName"]
    members = [_resolved(one, definitions, path) for one in schema["oneOf"]]
    kinds = [_values(_resolved(member["properties"][discriminator], definitions, path)) for member in members]
    every = [kind for found in kinds for kind in found]
    first = {
        "type": "string",
        "enum": every,
        "description": "; ".join(_described(m, k) for m, k in zip(members, kinds, strict=True)),
    }
    properties: dict[str, Any] = {discriminator: first}
    having: dict[str, list[str]] = {}
    needing: dict[str, list[str]] = {}
    for member, found in zip(members, kinds, strict=True):
        for name, part in member["properties"].items():
            if name == discriminator:
                continue
            field = {key: value for key, value in _resolved(part, definitions, path).items() if key != "default"}
            properties.setdefault(name, field)
            having.setdefault(name, []).extend(found)
            if name in member.get("required", ()):
                needing.setdefault(name, []).extend(found)
    made = [
        rule(
            f"self.{discriminator} in {_listed(needing[name])} ? has(self.{name}) : true",
            _needed(path, name, needing[name]),
        )
        for name in needing
    ]
    made += [
        rule(f"!has(self.{name}) || self.{discriminator} in {_listed(having[name])}", _only(path, name, having[name]))
        for name in having
        if set(having[name]) != set(every)
    ]
    described = {key: schema[key] for key in ("description",) if key in schema}
    return {"type": "object", "properties": properties, "required": [discriminator], **described, **rules(*made)}


def _values(schema: dict[str, Any]) -> list[str]:
    return [schema["const"]] if "const" in schema else list(schema["enum"])


def _described(member: dict[str, Any], kinds: list[str]) -> str:
    return f"{', '.join(kinds)}: {' '.join(str(member.get('description') or '').split())}".rstrip(":. ")


def _listed(kinds: list[str]) -> str:
    return "[" + ", ".join(f"'{kind}'" for kind in kinds) + "]"


def _field(path: str, name: str) -> str:
    """As a person names it: from ``spec`` on, without the name of the model."""
    return f"{path.partition('.')[2]}.{name}"


def _needed(path: str, name: str, kinds: list[str]) -> str:
    return f"{_field(path, name)} is needed by {', '.join(kinds)}"


def _only(path: str, name: str, kinds: list[str]) -> str:
    return f"{_field(path, name)} is for {', '.join(kinds)} only"


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(part) for name, part in value.items() if part is not None}
    return value


def _resolved(schema: dict[str, Any], definitions: dict[str, Any], path: str) -> dict[str, Any]:
    """Without references, and without null as an alternative. What is said beside a reference wins over what it names."""
    schema = dict(schema)
    if "anyOf" in schema and "x-kubernetes-int-or-string" not in schema:
        alternatives = [one for one in schema.pop("anyOf") if one.get("type") != "null"]
        if len(alternatives) != 1:
            raise ValueError(f"{path}: a structural schema knows no unions")
        if schema.get("default", ...) is None:
            del schema["default"]
        schema = _merged(_resolved(alternatives[0], definitions, path), schema)
    if "$ref" in schema:
        named = definitions[schema.pop("$ref").rpartition("/")[2]]
        schema = _merged(_resolved(named, definitions, path), schema)
    return schema


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    made = {**base, **over}
    rules = "x-kubernetes-validations"
    if rules in base and rules in over:
        made[rules] = [*base[rules], *over[rules]]
    return made
