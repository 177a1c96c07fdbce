"""The journey that every client makes in these tests, and what it must find on its way.

Create a topic; produce with a codec; read part of it in a group, commit, leave; come back and find exactly the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from tests.interop.raw_client import RawConnection, fetch_request, list_offset, metadata, next_offset, read_fetch_answer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""In the order of their numbers in a batch's attributes (bits 0 to 2)."""
PARTITIONS = 3
REPLICATION_FACTOR = 3
RECORDS = 300
FIRST_PART = 100
"""How many records the first member reads at least before it commits and leaves."""
DEADLINE_S = 90.0


class Sent(NamedTuple):
    """One record as produced; ``value`` is unique in its topic."""

    key: bytes
    value: bytes
    header: bytes


def records_to_send(count: int = RECORDS) -> list[Sent]:
    """Records with keys, unique values that compress well, and one header ``trace`` each."""
    return [Sent(b"key-%d" % (n % 17), b"value-%05d " % n + b"minikafka " * 20, b"trace-%d" % n) for n in range(count)]


def deadline(what: str, seconds: float = DEADLINE_S) -> Iterable[float]:
    """Yield the seconds left, for a loop that breaks out when it has what it wants; fails after the deadline."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        yield left
    raise AssertionError(f"not within {seconds} s: {what}")


def codecs_in_log(bootstrap: str, topic: str) -> set[str]:
    """The codecs of all batches that the brokers keep of a topic, read straight from the batch headers."""
    found = set()
    with RawConnection(bootstrap) as connection:
        cluster = metadata(connection, [topic])
    for partition in cluster.topics[topic]:
        with RawConnection(cluster.leader_address(topic, partition)) as connection:
            offset, end = 0, list_offset(connection, topic, partition)
            while offset < end:
                response = connection.call(fetch_request(topic, partition, offset))
                answer = read_fetch_answer(response)
                assert answer.error_code == 0
                position, stop = answer.start, answer.start + answer.size
                offset = next_offset(response, answer.start, answer.size, offset)
                while position + 23 <= stop:
                    found.add(CODECS[response[position + 22] & 7])
                    position += 12 + int.from_bytes(response[position + 8 : position + 12], "big")
    return found
