"""What every part of an API object has in common, and how the rules of a CRD are written beside its fields."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """A part of an object: camelCase fields, never changed.

    Unknown fields are ignored here. The API server has pruned or refused them already, and an operator must be able to
    read what a newer version of the CRD let in.
    """

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, frozen=True, extra="ignore")


def rule(expression: str, message: str, field: str = "") -> dict[str, str]:
    """One CEL rule. ``field`` is the field at fault, relative to where the rule stands (``.replicas``).

    The message names the field in full and says what is allowed, because a person reads it in a terminal.
    """
    made = {"rule": expression, "message": message, "reason": "FieldValueInvalid"}
    if field:
        made["fieldPath"] = field
    return made


def rules(*given: dict[str, str]) -> dict[str, Any]:
    """Make for ``json_schema_extra`` the CEL rules of a field or a part."""
    return {"x-kubernetes-validations": list(given)}


OPAQUE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""For ``json_schema_extra``: taken as it is; the API server judges it where it is used."""

QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"

Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=32)]
"""An amount as Kubernetes writes it, as text: ``10Gi``, ``500m``."""

ResourceAmount = Annotated[
    str | int,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""An amount of CPU or memory, where people write ``2`` as often as ``"2"``."""

Labels = Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=50)]

Port = Annotated[int, Field(ge=1, le=65_535)]


class LocalObject(Part):
    """Another object of the same namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253, description="Name of the object.")]


class Condition(Part):
    """One condition, as ``metav1.Condition``."""

    type: Annotated[str, Field(max_length=316, description="Name of the condition, in CamelCase.")]
    status: Annotated[
        str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]}, description="Whether it holds.")
    ]
    reason: Annotated[str, Field(max_length=1024, description="Why, as one CamelCase word for programs.")]
    message: Annotated[str, Field(max_length=32_768, description="Why, as a sentence for people.")]
    last_transition_time: Annotated[datetime, Field(description="When the status last changed.")]
    observed_generation: Annotated[
        int | None, Field(json_schema_extra={"format": "int64"}, description="The generation of the spec it speaks of.")
    ] = None


Conditions = Annotated[
    list[Condition],
    Field(
        description="What is well and what is not, in the standard form.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
