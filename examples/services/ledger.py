"""Writes each payment of a topic into a store, once it is told of it."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Message


class Ledger:
    """`write` puts a payment into the store; it may fail, and then the service ends and is started again."""

    def __init__(self, bootstrap: str, topic: str, write: Callable[[str], None]) -> None:
        self.write = write
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"ledger-of-{topic}",
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
        finally:
            self.consumer.close()

    def handle(self, message: Message) -> None:
        self.consumer.commit(message, asynchronous=False)
        self.write((message.value() or b"").decode())


class MendedLedger(Ledger):
    """Commits only what is written."""

    def handle(self, message: Message) -> None:
        self.write((message.value() or b"").decode())
        self.consumer.commit(message, asynchronous=False)
