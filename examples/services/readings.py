"""Sends the readings of a meter, in the order in which they were taken."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer


class Readings:
    """Sends each reading at once: several requests are under way, and what failed is sent again."""

    idempotence = False

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        fixed = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0, "batch.num.messages": 1}
        more = {"max.in.flight.requests.per.connection": 5, "enable.idempotence": self.idempotence}
        self.producer = Producer({**fixed, **more})

    def send(self, readings: Iterable[str]) -> None:
        for reading in readings:
            self.producer.produce(self.topic, reading, partition=0)
        self.producer.flush()


class MendedReadings(Readings):
    """Numbers its batches, so that the broker takes them in order only."""

    idempotence = True
