"""Adds up the amounts of a topic."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Message


class Balance:
    """`store` outlives the service, which is started again whenever it fails."""

    def __init__(self, bootstrap: str, topic: str, store: dict[str, int]) -> None:
        self.store = store
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"balance-of-{topic}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self.consumer.subscribe([topic])

    def run(self, until: Callable[[], bool]) -> None:
        try:
            while not until():
                message = self.consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self.handle(message)
                    self.consumer.commit(message, asynchronous=False)
        finally:
            self.consumer.close()

    def handle(self, message: Message) -> None:
        self.store["balance"] = self.store.get("balance", 0) + int(message.value() or 0)


class MendedBalance(Balance):
    """Keeps, with the balance, how far it has come: what comes again is left out."""

    def handle(self, message: Message) -> None:
        done = f"done-{message.topic()}-{message.partition()}"
        offset = message.offset() or 0
        if offset >= self.store.get(done, 0):
            super().handle(message)
            self.store[done] = offset + 1
