"""The CRDs of chaos, as `kubectl explain` shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from minikafka_chaos.controller.crds import experiment_definition, schedule_definition

APPLIED_BYTES_MAX = 256 * 1024
"""`kubectl apply` without `--server-side` keeps the whole document in an annotation, and annotations have this limit together."""


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, part in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", part
        yield from fields(part, f"{path}.{name}")
        yield from fields(part.get("items") or {}, f"{path}.{name}[]")


@pytest.mark.slow
@pytest.mark.parametrize("made", [experiment_definition, schedule_definition])
def test_every_field_is_explained(made: Callable[[], dict[str, Any]]) -> None:
    """`kubectl explain mkx.spec.claims` has to help who writes one."""
    schema = made()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = [(path, part) for path, part in fields(schema, "") if path.startswith((".spec", ".status"))]
    assert len(found) > 20
    assert [path for path, part in found if not part.get("description")] == []


@pytest.mark.slow
@pytest.mark.parametrize("made", [experiment_definition, schedule_definition])
def test_they_can_be_applied_by_everybody(made: Callable[[], dict[str, Any]]) -> None:
    assert len(str(made())) < APPLIED_BYTES_MAX
