"""Takes orders: what it has said yes to is in the topic."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer


class Orders:
    """`take` returns whether the order was taken. An order is taken when Kafka has acknowledged it."""

    acks = "1"

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        fixed = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0, "message.timeout.ms": 2000}
        self.producer = Producer({**fixed, "acks": self.acks})

    def take(self, order: str) -> bool:
        taken: list[bool] = []

        def done(error: KafkaError | None, message: Message) -> None:
            del message
            taken.append(error is None)

        self.producer.produce(self.topic, order, on_delivery=done)
        self.producer.flush()
        return taken == [True]


class MendedOrders(Orders):
    """Waits until every in-sync replica has it; a topic with `min.insync.replicas=2` has no fewer."""

    acks = "all"
