"""What every part of a scenario document has in common: Kubernetes' API conventions, as pydantic types."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]+$", max_length=249)]
BrokerId = Annotated[int, Field(ge=0, le=99)]
Seconds = Annotated[int, Field(ge=1, le=86_400)]


class Part(BaseModel):
    """A part of a document: camelCase fields, nothing unknown, numbers that are numbers, never changed."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class ConfigEntry(Part):
    """One configuration key; the value is text, as in a properties file."""

    name: str
    """The key, such as min.insync.replicas or minikafka.truncation.mode."""
    value: str
    """Its value as text."""


def as_config(entries: list[ConfigEntry]) -> dict[str, str]:
    """The entries as a mapping."""
    return {entry.name: entry.value for entry in entries}


class UnflushedVolume(StrEnum):
    """Whether brokers keep unflushed bytes on a volume of their own, which PowerLoss and WipeUnflushed empty."""

    SEPARATE = "Separate"
    NONE = "None"
