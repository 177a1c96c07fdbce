"""Where a member of a group begins: where the group has committed that it was, else where the reset policy says."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition
from minikafka.client.watermarks import watermark_offsets

ASK_S = 5.0
"""How long one question about offsets may take; it is asked until it is answered."""
AGAIN_S = 0.1


class StartingPlaces:
    """Asks on behalf of one consumer, in place of librdkafka's own `auto.offset.reset`, which would move it without a word."""

    def __init__(self, consumer: Consumer, topic: str, reset: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._resets_to_start = reset == "earliest"

    def find(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return these partitions, each with the offset to begin at."""
        places = self._committed(partitions)
        for place in places:
            if place.offset < 0:
                place.offset = self.reset(place.partition)
        return places

    def reset(self, partition: int) -> int:
        """Return where the reset policy begins."""
        while True:
            try:
                low, high = watermark_offsets(self._consumer, self._topic, partition, ASK_S)
                return low if self._resets_to_start else high
            except KafkaException:
                time.sleep(AGAIN_S)

    def _committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        while partitions:
            try:
                found: list[TopicPartition] = self._consumer.committed(partitions, timeout=ASK_S)
                if all(each.error is None for each in found):
                    return found
            except KafkaException:
                pass  # the coordinator is away; there will be another one
            time.sleep(AGAIN_S)
        return []
