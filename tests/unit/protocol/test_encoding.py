"""What is written of a dictionary: for every API and version the bytes that kio writes of the entity that it stands for."""

from __future__ import annotations

import random
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest
from kio.index import UnknownEntity
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey

VERSIONS = range(20)
TEXTS = ("", "a", "\u00f6" * 70)
BLOBS = (b"", b"abc", b"x" * 200)
CODES = [code.value for code in messages.KioErrorCode]


def one(chance: random.Random, inner: Any, kafka_type: str | None, optional: bool) -> Any:
    """Make a value of one field, or of one element of it."""
    if kafka_type == "uuid":
        return chance.choice([None, UUID(int=0), UUID(int=chance.getrandbits(128))])
    if optional and chance.random() < 0.3:
        return -1 if kafka_type == "datetime_i64" else None
    if kafka_type is None:
        return struct(chance, inner)
    if kafka_type.removeprefix("u").startswith("int"):
        bits, signed = int(kafka_type.lstrip("uint")), kafka_type[0] == "i"
        return chance.choice([0, 1, 2 ** (bits - signed) - 1, *([-1, -(2 ** (bits - 1))] if signed else ())])
    known = {"string": TEXTS, "bytes": BLOBS, "records": BLOBS, "bool": (True, False), "error_code": CODES}
    known |= {"float64": (0.0, 1.5), "timedelta_i32": (0, 999, 2**31 - 1), "timedelta_i64": (0, 2**40)}
    return chance.choice(known.get(kafka_type, (0, 1, 1_700_000_000_123)))


def struct(chance: random.Random, entity_type: Any) -> dict[str, Any]:
    """Make a dictionary in which some fields are not given."""
    found = {}
    for field in fields(entity_type):
        inner, is_array, optional = messages._shape(field.type)
        kafka_type = field.metadata.get("kafka_type")
        if chance.random() < 0.15:
            continue
        if not is_array:
            found[field.name] = one(chance, inner, kafka_type, optional)
        elif not optional or chance.random() < 0.7:
            found[field.name] = [one(chance, inner, kafka_type, False) for _ in range(chance.choice((0, 1, 2, 3)))]
        else:
            found[field.name] = None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("make", [messages.request_type, messages.response_type])
def test_as_kio_writes_it(make: Any) -> None:
    chance, written = random.Random(1), 0
    for key in ApiKey:
        for version in VERSIONS:
            try:
                entity_type = make(key, version)
            except UnknownEntity:
                continue
            for _ in range(3):
                values = struct(chance, entity_type)
                try:
                    expected = messages.encode_entity(messages.build(entity_type, values))
                except AttributeError:  # a struct that must be there is not
                    continue
                assert messages._encode(entity_type, values) == expected, (entity_type, values)
                written += 1
    assert written > 500


def test_lengths_above_a_byte() -> None:
    values = {
        "coordinators": [{"key": "k" * number, "host": "\u00f6" * 8200} for number in (126, 127, 128, 16_400)] * 40
    }
    entity_type = messages.response_type(ApiKey.FIND_COORDINATOR, 4)
    expected = messages.encode_entity(messages.build(entity_type, values))
    assert messages.encode_response(ApiKey.FIND_COORDINATOR, 4, values) == expected
