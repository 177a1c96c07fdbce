"""Books the payments of a topic into a database, each in a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from confluent_kafka import Consumer, Message, TopicPartition


class Accounts:
    """`path` of the database, which outlives the service; that is started again whenever it fails."""

    def __init__(self, bootstrap: str, topic: str, path: str) -> None:
        self.ledger = sqlite3.connect(path)
        self.ledger.execute("CREATE TABLE IF NOT EXISTS booked (amount INTEGER)")
        self.ledger.execute("CREATE TABLE IF NOT EXISTS place (part INTEGER PRIMARY KEY, next INTEGER)")
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"accounts-of-{topic}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self.consumer.subscribe([topic], on_assign=self.begin)

    def run(self, until: Callable[[], bool]) -> None:
        try:
            while not until():
                message = self.consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self.handle(message)
                    self.consumer.commit(message, asynchronous=False)
        finally:
            self.consumer.close()
            self.ledger.close()

    def begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Go on where the group is."""

    def handle(self, message: Message) -> None:
        with self.ledger:
            self.book(message)

    def book(self, message: Message) -> None:
        self.ledger.execute("INSERT INTO booked VALUES (?)", (int(message.value() or 0),))


class MendedAccounts(Accounts):
    """Has its place in the same transaction, and goes on there. What the group commits only shows others how far it is."""

    def begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            with self.ledger:
                self.ledger.execute("INSERT OR IGNORE INTO place VALUES (?, 0)", (each.partition,))
            (each.offset,) = self.ledger.execute("SELECT next FROM place WHERE part = ?", (each.partition,)).fetchone()
        consumer.assign(partitions)

    def book(self, message: Message) -> None:
        super().book(message)
        offset = message.offset() or 0
        moved = self.ledger.execute(
            "UPDATE place SET next = ? WHERE part = ? AND next <= ?", (offset + 1, message.partition(), offset)
        )
        if moved.rowcount == 0:
            raise RuntimeError("another member has booked this record: its partition is not ours any more")
