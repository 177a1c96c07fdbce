"""The schema of report.json notices what a reader would stumble over. Every report of these tests is held to it (conftest)."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from conftest import hold_to_schema
from minikafka_analytics.report import document
from minikafka_analytics.report.schema import schema


@pytest.fixture
def empty() -> dict[str, Any]:
    """The smallest report there is: no run could be told of."""
    return document.report([], {}, "0.0.0")


def test_it_is_a_schema() -> None:
    for closed in (False, True):
        jsonschema.Draft202012Validator.check_schema(schema(closed))


def test_a_key_that_it_does_not_name_is_noticed(empty: dict[str, Any]) -> None:
    hold_to_schema(empty)
    with pytest.raises(jsonschema.ValidationError, match="'more' was unexpected"):
        hold_to_schema(empty | {"more": 1})
    jsonschema.Draft202012Validator(schema()).validate(empty | {"more": 1})  # keys are added to a version


@pytest.mark.parametrize(
    ("key", "value"), [("schema", "minikafka.report/v0"), ("runs", [{}]), ("asked", None), ("generated_at", 1.0)]
)
def test_a_value_of_another_kind_is_noticed(empty: dict[str, Any], key: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        hold_to_schema(empty | {key: value})


def test_a_key_that_is_missing_is_noticed(empty: dict[str, Any]) -> None:
    for key in empty:
        with pytest.raises(jsonschema.ValidationError):
            hold_to_schema({name: value for name, value in empty.items() if name != key})
