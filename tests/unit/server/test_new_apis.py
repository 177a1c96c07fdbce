"""UpdateFeatures, ListConfigResources and ListTransactions: what is answered where there is nothing to tell (27 B17)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api import list_config_resources, transactions
from minikafka.server.api.features import reason_refused

from tests.unit.controller.desk import Desk

UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.mark.parametrize(
    ("feature", "level", "kind", "refused"),
    [
        ("group.version", 0, SAFE_DOWNGRADE, None),
        ("group.version", 1, UPGRADE, "The controller does not support this feature."),
        ("group.version", -1, SAFE_DOWNGRADE, "A feature version cannot be less than 0."),
        ("group.version", 0, 4, "The controller does not support the given upgrade type."),
        ("nobody's", 0, UPGRADE, "Feature nobody's not found."),
    ],
)
def test_what_a_feature_cannot_be_set_to(feature: str, level: int, kind: int, refused: str | None) -> None:
    assert reason_refused(feature, level, kind) == refused


async def told(image: ClusterImage, **request: Any) -> tuple[ErrorCode, list[tuple[int, str]]]:
    broker: Any = SimpleNamespace(metadata=SimpleNamespace(image=image))
    context: Any = SimpleNamespace(listener="PLAINTEXT")
    found = await list_config_resources.handle(broker, context, SimpleNamespace(**request))
    return found["error_code"], [(r["resource_type"], r["resource_name"]) for r in found["config_resources"]]


async def test_resources_that_have_settings() -> None:
    """KIP-1142: an empty list asks for all kinds; version 0, which has none, for client metrics; fenced brokers are left out."""
    at = Desk(brokers=2)
    at.die(2)
    assert await told(at.image, resource_types=()) == (ErrorCode.NONE, [(8, "1"), (4, "1")])
    assert await told(at.image, resource_types=(4,)) == (ErrorCode.NONE, [(4, "1")])
    assert await told(at.image) == (ErrorCode.NONE, [])
    assert await told(at.image, resource_types=(4, 3)) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(", ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("a{99999999999}", ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("a" * 1001, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("a.*", ErrorCode.NONE),
        (None, ErrorCode.NONE),
    ],
)
async def test_there_are_no_transactions(pattern: str | None, error: ErrorCode) -> None:
    request = SimpleNamespace(state_filters=("Ongoing", "Nowhere"), transactional_id_pattern=pattern)
    nobody: Any = None
    answer = await transactions.list_transactions(nobody, nobody, request)
    assert answer == {"error_code": error, "unknown_state_filters": ["Nowhere"], "transaction_states": []}
