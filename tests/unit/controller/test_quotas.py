"""What the controller writes of quotas: one record for each entity, all of what is asked for it or nothing (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from minikafka.controller.controller import Controller
from minikafka.controller.quotas import QuotaAlteration
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import Room, Wish
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.quotas.entities import entity_of

ALICE, APP = entity_of({"user": "alice"}.items()), entity_of({"client-id": None, "user": "alice"}.items())


def no_room(image: ClusterImage) -> Room:
    def check(wishes: Sequence[Wish]) -> None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{wishes} in {image}")

    return check


def controller(**more: Any) -> Controller:
    made = Controller(ClusterImage("c"), 1, ControllerConfig(), 0.0, lambda: UUID(int=1), **more)
    made.take_changes()
    return made


def codes(of: Controller, *alterations: QuotaAlteration, validate_only: bool = False) -> list[ErrorCode]:
    found = of.quotas.alter(alterations, validate_only)
    return [ErrorCode.NONE if refused is None else refused.code for refused in found.values()]


def written(of: Controller) -> tuple[dict[str, Any], list[str]]:
    """Records, and what events say."""
    records, events = of.take_changes()
    return records, [f"{e.name} {e.fields['entity']} {e.fields['key']}" for e in events]


def test_quotas_of_an_entity_are_one_record() -> None:
    of = controller()
    asked = [QuotaAlteration(ALICE, [("producer_byte_rate", 1000.0), ("request_percentage", 2.5)]),
             QuotaAlteration(APP, [("consumer_byte_rate", 5.0)])]  # fmt: skip
    assert codes(of, *asked) == [ErrorCode.NONE] * 2
    assert written(of) == (
        {
            "quota/user=alice": {
                "entity": {"user": "alice"},
                "values": {"producer_byte_rate": 1000.0, "request_percentage": 2.5},
            },
            "quota/client-id=<default>,user=alice": {
                "entity": {"client-id": None, "user": "alice"},
                "values": {"consumer_byte_rate": 5.0},
            },
        },
        [
            "quota_set user=alice producer_byte_rate",
            "quota_set user=alice request_percentage",
            "quota_set client-id=<default>,user=alice consumer_byte_rate",
        ],
    )
    assert codes(of, *asked) == [ErrorCode.NONE] * 2
    assert written(of) == ({}, [])


def test_one_is_removed_and_then_the_last() -> None:
    of = controller()
    codes(of, QuotaAlteration(ALICE, [("producer_byte_rate", 1000.0), ("consumer_byte_rate", 5.0)]))
    written(of)
    codes(of, QuotaAlteration(ALICE, [("producer_byte_rate", None), ("request_percentage", None)]))
    assert written(of) == (
        {"quota/user=alice": {"entity": {"user": "alice"}, "values": {"consumer_byte_rate": 5.0}}},
        ["quota_removed user=alice producer_byte_rate"],
    )
    codes(of, QuotaAlteration(ALICE, [("consumer_byte_rate", None)]))
    assert written(of) == ({"quota/user=alice": None}, ["quota_removed user=alice consumer_byte_rate"])
    assert not of.image.quotas.is_set


@pytest.mark.parametrize(
    "operations",
    [
        [("consumer_byte_rate", 5.0), ("producer_byte_rate", 0.0)],
        [("consumer_byte_rate", 5.0), ("consumer_byte_rate", 6.0)],
        [("consumer_byte_rate", 5.0), ("nothing", 6.0)],
    ],
)
def test_of_what_is_refused_nothing_is_done(operations: list[tuple[str, float | None]]) -> None:
    of = controller()
    good = QuotaAlteration(APP, [("consumer_byte_rate", 1.0)])
    assert codes(of, QuotaAlteration(ALICE, operations), good) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert list(written(of)[0]) == ["quota/client-id=<default>,user=alice"]


def test_an_entity_that_is_named_twice() -> None:
    of = controller()
    asked = [QuotaAlteration(ALICE, [("consumer_byte_rate", 5.0)]), QuotaAlteration(ALICE, [])]
    assert codes(of, *asked) == [ErrorCode.INVALID_REQUEST]
    assert written(of) == ({}, [])


def test_what_is_only_to_be_validated_is_not_done() -> None:
    of = controller()
    asked = QuotaAlteration(ALICE, [("consumer_byte_rate", 5.0)])
    assert codes(of, asked, validate_only=True) == [ErrorCode.NONE]
    assert codes(of, QuotaAlteration(ALICE, [("x", 5.0)]), validate_only=True) == [ErrorCode.INVALID_REQUEST]
    assert written(of) == ({}, [])


def test_a_store_without_room() -> None:
    of = controller(room_in=no_room)
    assert codes(of, QuotaAlteration(ALICE, [("consumer_byte_rate", 5.0)])) == [ErrorCode.POLICY_VIOLATION]
    assert written(of) == ({}, [])
