"""Which quota counts for whom, and what can be none (KIP-546; Kafka's ClientQuotaControlManager and DefaultQuotaCallback)."""

from __future__ import annotations

import math

import pytest
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    EntityQuotas,
    Limit,
    QuotaSet,
    check_entity,
    check_value,
    entity_of,
    from_json,
    record_name,
)

ALICE = entity_of({"user": "alice"}.items())
HOST = entity_of({"ip": "10.0.0.1"}.items())

BY_PRECEDENCE: tuple[dict[str, str | None], ...] = (
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
)
"""KIP-546, as Kafka's ClientQuotaManager says it: the first counts."""
SHARED = (
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("", "app"),
    ("", "app"),
)


@pytest.mark.parametrize("level", range(len(BY_PRECEDENCE)))
def test_the_most_specific_quota_counts(level: int) -> None:
    quotas = QuotaSet()
    for value, entity in enumerate(BY_PRECEDENCE[level:], level):
        quotas.put(entity_of(entity.items()), {PRODUCER_BYTE_RATE: value + 1.0})
    assert quotas.limit(PRODUCER_BYTE_RATE, "alice", "app") == Limit(level + 1.0, *SHARED[level])


def test_another_kind_of_quota_hides_none() -> None:
    quotas = QuotaSet()
    quotas.put(ALICE, {CONSUMER_BYTE_RATE: 5.0})
    quotas.put(entity_of({"client-id": "app"}.items()), {PRODUCER_BYTE_RATE: 7.0})
    assert quotas.limit(PRODUCER_BYTE_RATE, "alice", "app") == Limit(7.0, "", "app")
    assert quotas.limit(REQUEST_PERCENTAGE, "alice", "app") is None


def test_a_client_without_an_id_has_no_quota_of_a_client_id() -> None:
    quotas = QuotaSet()
    quotas.put(entity_of({"user": "alice", "client-id": None}.items()), {PRODUCER_BYTE_RATE: 1.0})
    quotas.put(entity_of({"client-id": None}.items()), {PRODUCER_BYTE_RATE: 2.0})
    assert quotas.limit(PRODUCER_BYTE_RATE, "alice", "") is None
    quotas.put(ALICE, {PRODUCER_BYTE_RATE: 3.0})
    assert quotas.limit(PRODUCER_BYTE_RATE, "alice", "") == Limit(3.0, "alice", "")


def test_an_address_in_any_form_and_the_default_of_all() -> None:
    quotas = QuotaSet()
    quotas.put(entity_of({"ip": "::1"}.items()), {CONNECTION_CREATION_RATE: 5.0})
    assert quotas.connection_rate("0:0::1") == 5.0
    assert quotas.connection_rate("10.0.0.1") is None
    quotas.put(entity_of({"ip": None}.items()), {CONNECTION_CREATION_RATE: 9.0})
    assert (quotas.connection_rate("10.0.0.1"), quotas.connection_rate("::1")) == (9.0, 5.0)


def test_whether_there_are_any_and_whether_they_have_changed() -> None:
    quotas = QuotaSet()
    versions = {quotas.version}
    assert not quotas.is_set
    quotas.put(ALICE, {PRODUCER_BYTE_RATE: 1.0})
    versions.add(quotas.version)
    assert quotas.is_set
    quotas.put(ALICE, None)
    versions.add(quotas.version)
    assert not quotas.is_set and len(versions) == 3


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({}, "empty client quota entity"),
        ({"group": "g"}, "allowed: user, client-id, ip"),
        ({"user": ""}, "Empty user"),
        ({"client-id": "x" * 1025}, "at most 1024 bytes"),
        ({"ip": "10.0.0.1", "user": "alice"}, "should not be combined"),
        ({"ip": "localhost"}, "not a valid IP"),
        ({"ip": "10.0.0"}, "not a valid IP"),
    ],
)
def test_what_can_have_no_quotas(parts: dict[str, str | None], says: str) -> None:
    with pytest.raises(KafkaError, match=says) as refused:
        check_entity(entity_of(parts.items()))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("entity", "key", "value", "says"),
    [
        (ALICE, "producer_rate", 1.0, "allowed: producer_byte_rate, "),
        (ALICE, CONNECTION_CREATION_RATE, 1.0, "Invalid configuration key"),
        (HOST, PRODUCER_BYTE_RATE, 1.0, "allowed: connection_creation_rate"),
        (ALICE, PRODUCER_BYTE_RATE, 0.0, "greater than 0"),
        (ALICE, PRODUCER_BYTE_RATE, -1.0, "greater than 0"),
        (ALICE, REQUEST_PERCENTAGE, math.nan, "greater than 0"),
        (ALICE, REQUEST_PERCENTAGE, math.inf, r"too large; allowed: at most 1.79769e\+308$"),
        (ALICE, PRODUCER_BYTE_RATE, 1e19, "too large; allowed: at most 9223372036854775808$"),
        (HOST, CONNECTION_CREATION_RATE, 2.0**31, "too large"),
        (ALICE, PRODUCER_BYTE_RATE, 1.5, "fractional"),
    ],
)
def test_what_can_be_no_quota(entity: Entity, key: str, value: float, says: str) -> None:
    with pytest.raises(KafkaError, match=says) as refused:
        check_value(entity, key, value)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_what_can_be_one() -> None:
    for parts in BY_PRECEDENCE:
        check_entity(entity_of(parts.items()))
        check_value(entity_of(parts.items()), REQUEST_PERCENTAGE, 0.5)
        check_value(entity_of(parts.items()), PRODUCER_BYTE_RATE, 2.0**62)
    check_entity(HOST)
    check_value(HOST, CONNECTION_CREATION_RATE, 2.0**31 - 1)


def test_names_are_those_of_one_entity_each() -> None:
    entities = [
        entity_of(parts.items())
        for parts in (
            {"user": "a,client-id=b"},
            {"user": "a", "client-id": "b"},
            {"user": "a"},
            {"user": None},
            {"user": "<default>"},
            {"user": "a/b%"},
        )
    ]
    assert len(set(map(record_name, entities))) == len(entities)
    for entity in entities:
        assert from_json(EntityQuotas(entity, {"x": 1.0}).to_json()) == EntityQuotas(entity, {"x": 1.0})
