"""Asks the leader of a partition for its offsets, by a consumer of librdkafka."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

TRY_SECONDS_MAX: Final = 1.0
"""For so long one broker is asked before somebody else may lead."""


def watermark_offsets(consumer: Any, topic: str, partition: int, timeout: float) -> tuple[int, int]:
    """Return a partition's log start offset and its end offset for consumers, as its leader tells them.

    Librdkafka asks whom it takes for the leader, for as long as it takes; while that broker is silent it does not ask anew who
    leads before topic.metadata.refresh.interval.ms (five minutes) is over. So the metadata is asked for after each try.

    Args:
        consumer: a confluent_kafka.Consumer.
        timeout: in seconds, for all tries.

    Raises:
        KafkaException: nobody answered in time, or what the last one answered.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    deadline = time.monotonic() + timeout
    while True:
        left = max(0.0, deadline - time.monotonic())
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=min(left, TRY_SECONDS_MAX))
            if found is not None and found[1] >= 0:
                return int(found[0]), int(found[1])
            refused = KafkaException(KafkaError(KafkaError._TIMED_OUT))
        except KafkaException as error:
            refused = error
        if (left := deadline - time.monotonic()) <= 0:
            raise refused
        with suppress(KafkaException):
            consumer.list_topics(topic, min(left, TRY_SECONDS_MAX))
