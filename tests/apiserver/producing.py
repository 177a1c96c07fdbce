"""A producer that never stops asking: what was acknowledged when, and the longest time without an acknowledgement."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.waiting import ANSWER_SECONDS_MAX

SEND_EVERY_SECONDS = 0.005


class SteadyProducer:
    """Sends numbered records with acks=all from a thread of its own; ``with`` starts and ends it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[tuple[float, int, int]] = []
        """(time, partition, number), in the order in which they came."""
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "delivery.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "linger.ms": 0,
                "log_level": 0,  # complaints about brokers that the test has killed are no news
            }
        )
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(90)
        assert self._producer.flush(150) == 0, "records without an outcome"

    def _run(self) -> None:
        number = 0
        while not self._end.is_set():
            self._producer.produce(self.topic, value=str(number).encode(), on_delivery=self._delivered)
            number += 1
            self._producer.poll(SEND_EVERY_SECONDS)

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        self.acknowledged.append((time.monotonic(), partition, int(value)))

    def gap(self, since: float, partition: int | None = None) -> float:
        """The longest time without an acknowledgement after ``since`` (monotonic), up to the last one; in seconds."""
        times = [t for t, p, _ in self.acknowledged if t >= since and partition in (None, p)]
        return max((b - a for a, b in zip([since, *times], times, strict=False)), default=float("inf"))

    def count(self, since: float) -> int:
        return sum(1 for t, _, _ in self.acknowledged if t >= since)

    def lost(self, bootstrap: str) -> set[int]:
        """Acknowledged numbers that cannot be read from the topic."""
        wanted = {number for _, _, number in self.acknowledged}
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_uncommitted"}
        )
        try:
            partitions = consumer.list_topics(self.topic, timeout=ANSWER_SECONDS_MAX).topics[self.topic].partitions
            places = [TopicPartition(self.topic, index, 0) for index in partitions]
            ends = {p.partition: consumer.get_watermark_offsets(p, timeout=ANSWER_SECONDS_MAX)[1] for p in places}
            consumer.assign(places)
            deadline = time.monotonic() + 180
            read = dict.fromkeys(ends, 0)
            while any(read[p] < end for p, end in ends.items()) and time.monotonic() < deadline:
                for message in consumer.consume(1000, 0.5):
                    if message.error() is None:
                        wanted.discard(int(message.value() or b"-1"))
                        read[message.partition() or 0] = (message.offset() or 0) + 1
        finally:
            consumer.close()
        return wanted
