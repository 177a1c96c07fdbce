"""From pydantic's JSON schema to what a CustomResourceDefinition takes: OpenAPI v3, structural.

A structural schema (API server: ``apiextensions/schema``) has no references, no unions with null, and a type
everywhere. Optional fields are fields that are not required; null is not a value.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

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
    schema = _resolved(schema, definitions, path)
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
    if isinstance(made.get("description"), str):
        made["description"] = " ".join(made["description"].split())
    return made


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
