"""Names shared by every layer of the broker."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic. Its text form, `topic-partition`, is also the name of its directory on disk."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TopicPartition:
        """The inverse of `str()`.

        Raises ValueError when `text` is not `TOPIC-NUMBER`.
        """
        topic, dash, number = text.rpartition("-")
        if not dash or not topic or not number.isascii() or not number.isdigit():
            raise ValueError(f"{text!r} is not of the form TOPIC-PARTITION")
        return cls(topic, int(number))


class ConfigResourceType(IntEnum):
    """What has settings (Kafka's ``ConfigResource.Type``)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
