"""What members of protocol type ``consumer`` say in their metadata, as far as a coordinator must know it."""

from __future__ import annotations

import struct
from collections.abc import Iterable

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadatas: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members together; None when one of them cannot be read.

    Version 0 of ``ConsumerProtocolSubscription`` (version, topics, user data) is the beginning of every later version.
    """
    topics: set[str] = set()
    for metadata in metadatas:
        names = _topics_of(metadata)
        if names is None:
            return None
        topics.update(names)
    return frozenset(topics)


def _topics_of(metadata: bytes) -> list[str] | None:
    try:
        (count,) = struct.unpack_from(">i", metadata, 2)
        position = 6
        names = []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", metadata, position)
            position += 2
            if size < 0 or position + size > len(metadata):
                return None
            names.append(str(metadata[position : position + size], "utf-8", "replace"))
            position += size
    except struct.error:
        return None
    return names
