"""Every broker of a cluster takes what only the controller can do, and passes it on, as KRaft brokers do (KIP-590)."""

from __future__ import annotations

import struct

import pytest

from tests.interop.journey import PARTITIONS, REPLICATION_FACTOR
from tests.interop.raw_client import (
    CREATE_TOPICS,
    ClusterInfo,
    RawConnection,
    compact_string,
    metadata,
    read_uvarint,
    request,
)
from tests.waiting import until_now

NONE, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE = 0, 3, 5


@pytest.fixture
def brokers(bootstrap: str) -> list[str]:
    with RawConnection(bootstrap) as connection:
        return list(metadata(connection).brokers.values())


def test_metadata_makes_a_topic_at_any_broker(brokers: list[str], topic: str) -> None:
    for number, address in enumerate(brokers):
        name = f"{topic}-{number}"
        with RawConnection(address) as connection:

            def made(connection: RawConnection = connection, name: str = name) -> bool:
                seen = metadata(connection, [name], create=True)
                assert seen.topic_errors[name] in (NONE, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE)
                return has_leaders(seen, name)

            until_now(made, what=f"{name}, asked for at {address}")


def test_topics_are_created_at_any_broker(brokers: list[str], topic: str) -> None:
    for number, address in enumerate(brokers):
        name = f"{topic}-{number}"
        body = b"".join(
            (
                *(b"\x02", compact_string(name), struct.pack(">ih", PARTITIONS, REPLICATION_FACTOR)),
                *(b"\x01\x01\0", struct.pack(">ib", 60_000, 0), b"\0"),
            )
        )
        with RawConnection(address) as connection:
            response = connection.call(request(CREATE_TOPICS, 5, body))
            length, position = read_uvarint(response, 10)  # after the correlation id, tags, throttle time, array length
            (error_code,) = struct.unpack_from(">h", response, position + length - 1)
            assert error_code == NONE, address

            def known(connection: RawConnection = connection, name: str = name) -> bool:
                return has_leaders(metadata(connection, [name]), name)

            until_now(known, what=f"{name} is known at {address}, where it was made")


def has_leaders(seen: ClusterInfo, topic: str) -> bool:
    partitions = seen.topics[topic].values()
    return len(partitions) == PARTITIONS and all(info.leader >= 0 for info in partitions)
