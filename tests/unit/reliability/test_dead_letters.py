"""A dead letter says where it came from and why; a replay gives the record back as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka.reliability import ConsumedRecord
from minikafka.reliability.dead_letters import (
    NAMES,
    REPLAYED,
    DeadLetter,
    NotADeadLetter,
    Replayed,
    home,
    identity,
    replayed,
    replayed_headers,
)

ORIGIN = TopicPartition("orders", 3)
RECORD = ConsumedRecord(ORIGIN, 17, 1_700_000_000_000, b"key", None, (("trace", b"\xff"), ("trace", None)))
LETTER = DeadLetter(RECORD, "billing", "KeyError: 'größe'", 5)


def written(letter: DeadLetter, offset: int = 0) -> ConsumedRecord:
    """As it is in its topic."""
    place = home(letter.record.partition, 8)
    return ConsumedRecord(place, offset, 5, letter.record.key, letter.record.value, tuple(letter.headers()))


def test_a_dead_letter_is_the_record_and_seven_headers() -> None:
    letter = written(LETTER)
    assert (letter.partition, letter.key, letter.value) == (TopicPartition("orders.dlq", 3), b"key", None)
    assert letter.headers[:2] == RECORD.headers
    assert dict(letter.headers[2:]) == {
        "dlq.topic": b"orders",
        "dlq.partition": b"3",
        "dlq.offset": b"17",
        "dlq.timestamp": b"1700000000000",
        "dlq.group": b"billing",
        "dlq.error": "KeyError: 'größe'".encode(),
        "dlq.attempts": b"5",
    }
    assert DeadLetter.parse(letter) == LETTER


def test_a_dead_letter_of_a_dead_letter_gives_back_the_first() -> None:
    first = written(LETTER, 4)
    second = DeadLetter(first, "repair", "OSError", 1)
    assert DeadLetter.parse(written(second)).record.headers == first.headers


@pytest.mark.parametrize(
    "headers",
    [
        (),
        LETTER.headers()[:-1],
        [*LETTER.headers(), ("more", b"")],
        [(name, b"x") for name in NAMES],
        [(name, None) for name in NAMES],
        [(name, b"\xff") for name in NAMES],
        [("dlq.topic", b"payments"), *LETTER.headers()[3:]],
        [*LETTER.headers()[2:4], ("dlq.offset", b"-1"), *LETTER.headers()[5:]],
        [LETTER.headers()[2], ("dlq.partition", b"-1"), *LETTER.headers()[4:]],
        [*LETTER.headers()[:-6], ("dlq.partition", str(2**31).encode()), *LETTER.headers()[-5:]],
        [*LETTER.headers()[:-5], ("dlq.offset", str(2**63).encode()), *LETTER.headers()[-4:]],
    ],
)
def test_what_is_no_dead_letter_is_said_to_be_none(headers: list[tuple[str, bytes | None]]) -> None:
    with pytest.raises(NotADeadLetter, match=r"^its "):
        DeadLetter.parse(ConsumedRecord(TopicPartition("orders.dlq", 0), 0, 0, None, None, tuple(headers)))


@pytest.mark.parametrize(
    "other",
    [
        replace(RECORD, partition=TopicPartition("orders", 4)),
        replace(RECORD, offset=18),
        replace(RECORD, timestamp_ms=RECORD.timestamp_ms + 1),
        replace(RECORD, key=None),
        replace(RECORD, value=b""),
    ],
)
def test_a_record_that_took_the_place_of_another_is_another(other: ConsumedRecord) -> None:
    assert identity(other) != identity(RECORD)
    assert identity(DeadLetter.parse(written(LETTER)).record) == identity(RECORD)


def test_all_of_one_partition_are_in_one() -> None:
    assert home(ORIGIN, 2) == TopicPartition("orders.dlq", 1)


def test_a_replayed_record_says_of_which_dead_letter_it_is_the_last_one() -> None:
    letter = written(LETTER, 8)
    headers = replayed_headers(letter, RECORD)
    assert headers == (*RECORD.headers, (REPLAYED, f"orders.dlq/3/8/17/{letter.timestamp_ms}".encode()))
    again = ConsumedRecord(ORIGIN, 99, 0, None, None, headers)
    assert replayed(again) == Replayed(TopicPartition("orders.dlq", 3), 8, 17, letter.timestamp_ms)
    assert replayed_headers(letter, again)[:-1] == RECORD.headers


@pytest.mark.parametrize("value", [None, b"", b"orders.dlq/3/8", b"orders.dlq/3/8/17/x", b"\xff/1/1/1/1"])
def test_a_header_that_names_no_dead_letter_is_none(value: bytes | None) -> None:
    assert replayed(ConsumedRecord(ORIGIN, 0, 0, None, None, ((REPLAYED, value),))) is None
    assert replayed(RECORD) is None
