"""Write dead letters by aiokafka, each once as far as its topic tells."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.aiokafka_client import aiokafka
from minikafka.reliability.dead_letters import DeadLetter, KnownLetters, dead_letter_topic, home
from minikafka.reliability.record import ConsumedRecord

READ_MS_MAX = 500
NO_ERROR = 0
TOPIC_ALREADY_EXISTS = 36


def as_record(record: Any) -> ConsumedRecord:
    """Make a record of one of aiokafka's."""
    place = TopicPartition(record.topic, record.partition)
    return ConsumedRecord(place, record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


class AiokafkaDeadLetters:
    """The dead letters of one group."""

    def __init__(self, connection: Mapping[str, Any], group: str) -> None:
        self._connection = dict(connection)
        self._producer = aiokafka.AIOKafkaProducer(**connection, acks="all", enable_idempotence=True)
        self._reader = aiokafka.AIOKafkaConsumer(**connection, enable_auto_commit=False, auto_offset_reset="earliest")
        self._partitions: dict[str, int] = {}
        """Of each dead-letter topic."""
        self._known = KnownLetters(group)

    async def start(self, topics: Sequence[str]) -> None:
        """Have a dead-letter topic for each topic, with as many partitions and replicas; raises ValueError, KafkaError."""
        admin = aiokafka.admin.AIOKafkaAdminClient(**self._connection)
        try:
            await admin.start()
            there = {each["topic"]: each["partitions"] for each in await admin.describe_topics()}
            for topic in topics:
                if not there.get(topic):
                    raise ValueError(f"topics: {topic!r} does not exist")
                name = dead_letter_topic(topic)
                if not there.get(name):
                    await self._create(admin, name, there[topic])
                self._partitions[name] = len(there.get(name) or there[topic])
        finally:
            await admin.close()
        await self._producer.start()
        await self._reader.start()

    async def _create(self, admin: Any, name: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        new = aiokafka.admin.NewTopic(name, len(partitions), min(len(each["replicas"]) for each in partitions))
        ((_, code, *words),) = (await admin.create_topics([new])).topic_errors
        if code not in (NO_ERROR, TOPIC_ALREADY_EXISTS):  # the latter where two members start
            raise aiokafka.errors.for_code(code)(f"{name} cannot be made: {' '.join(filter(None, words))}")

    async def write(self, letter: DeadLetter) -> None:
        """Return when it is in its topic; raises KafkaError.

        Who has died after writing, and before the commit, has left it there: it is not written again.
        """
        record = letter.record
        place = home(record.partition, self._partitions[dead_letter_topic(record.topic)])
        await self._look(place)
        if record not in self._known:
            await self._send(place, letter)

    async def _send(self, place: TopicPartition, letter: DeadLetter) -> None:
        batch = self._producer.create_batch()  # `send` takes no record without key and value
        record = letter.record
        taken = batch.append(timestamp=None, key=record.key, value=record.value, headers=letter.headers())
        if taken is None:
            raise aiokafka.errors.MessageSizeTooLargeError(f"{record.place} with its headers is larger than a request")
        await (await self._producer.send_batch(batch, place.topic, partition=place.partition))

    async def _look(self, place: TopicPartition) -> None:
        """Read what is new in a partition of dead letters."""
        partition = aiokafka.TopicPartition(*place)
        low = (await self._reader.beginning_offsets([partition]))[partition]
        high = (await self._reader.end_offsets([partition]))[partition]
        async for record in self._records(partition, self._known.read_from(place, low), high):
            self._known.take(record)
        self._known.has_read(place, high)

    async def _records(self, partition: Any, start: int, end: int) -> AsyncIterator[ConsumedRecord]:
        if start >= end:
            return
        self._reader.assign([partition])
        self._reader.seek(partition, start)
        while await self._reader.position(partition) < end:
            for record in (await self._reader.getmany(timeout_ms=READ_MS_MAX)).get(partition, ()):
                yield as_record(record)

    async def close(self) -> None:
        """Close the connections."""
        await self._producer.stop()
        await self._reader.stop()
