"""What a column of the report can be. A column is declared as the JSON schema of its values, once, in `report.schema`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]


def _of(kind: str, about: str) -> Schema:
    return {"type": kind, "description": about} if about else {"type": kind}


def whole(about: str = "") -> Schema:
    """A whole number."""
    return _of("integer", about)


def number(about: str = "") -> Schema:
    """Any number; durations are seconds."""
    return _of("number", about)


class MomentColumn(Schema):
    """The schema of a moment."""


def moment(about: str = "") -> MomentColumn:
    """Seconds since the run began; Spark answers unix seconds (`since`)."""
    return MomentColumn(_of("number", about))


def text(about: str = "") -> Schema:
    """A string."""
    return _of("string", about)


def flag(about: str = "") -> Schema:
    """true or false."""
    return _of("boolean", about)


def maybe(schema: Schema) -> Schema:
    """The same, or null where it is not known."""
    return type(schema)({**schema, "type": [schema["type"], "null"]})


def many(items: Schema, about: str = "") -> Schema:
    """A list."""
    return {**_of("array", about), "items": items}


def named(values: Schema, about: str = "") -> Schema:
    """An object whose keys are names."""
    return {**_of("object", about), "additionalProperties": values}


def record(about: str, **fields: Schema) -> Schema:
    """An object that has all of these fields."""
    return {**_of("object", about), "properties": fields, "required": sorted(fields)}


def either(*values: str) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(values)}


Shift = Callable[[Any, float], Any]


def since(column: Schema, value: Any, began: float) -> Any:
    """The value with every moment in it, however deep, made seconds since the run began."""
    shift = _shift(column)
    return value if shift is None else shift(value, began)


def _shift(column: Schema) -> Shift | None:
    """Return what makes moments of a column's values relative; None where it holds none."""
    if isinstance(column, MomentColumn):
        return lambda value, began: None if value is None else value - began
    if "items" in column and (of_item := _shift(column["items"])) is not None:
        return lambda value, began: value and [of_item(each, began) for each in value]
    timed = [(name, shift) for name, inner in column.get("properties", {}).items() if (shift := _shift(inner))]
    if not timed:
        return None
    return lambda value, began: (
        value and {**value, **{name: shift(value[name], began) for name, shift in timed if name in value}}
    )
