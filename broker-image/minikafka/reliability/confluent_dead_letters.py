"""Write dead letters by confluent-kafka, each once as far as its topic tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.confluent_reading import ANSWER_SECONDS_MAX, PartitionReader
from minikafka.reliability.dead_letters import DeadLetter, KnownLetters, dead_letter_topic, home

DELIVERY_MS_MAX = 30_000
"""How long the acknowledgement of one may take; then it counts as not written, and is tried again."""

MESSAGE_BYTES_MAX = 1_000_000_000
"""The most that librdkafka takes: the topic's own `max.message.bytes` says how large a record may be."""


class AcknowledgedProducer:
    """Sends one record after the other, each when the one before is acknowledged by all in-sync replicas."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        fixed = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": DELIVERY_MS_MAX,
            "message.max.bytes": MESSAGE_BYTES_MAX,
        }
        self._producer = Producer({**connection, **fixed})

    def send(self, partition: TopicPartition, **record: Any) -> None:
        """Return when it is acknowledged; raises KafkaException: it was not written, or nobody knows."""
        outcome: list[KafkaError | None] = []
        self._producer.produce(
            partition.topic, partition=partition.partition, on_delivery=lambda error, _: outcome.append(error), **record
        )
        while not outcome:
            self._producer.poll(0.1)
        if outcome[0] is not None:
            raise KafkaException(outcome[0])

    def give_up(self) -> None:
        """Send what is under way no more; from any thread. What a broker has got already it may still write."""
        self._producer.purge(blocking=False)


class ConfluentDeadLetters:
    """The dead letters of one group."""

    def __init__(self, connection: Mapping[str, Any], group: str) -> None:
        self._connection = dict(connection)
        self._producer = AcknowledgedProducer(connection)
        self._reader = PartitionReader(connection)
        self._partitions: dict[str, int] = {}
        """Of each dead-letter topic."""
        self._known = KnownLetters(group)

    def require(self, consumer: Any, topics: Sequence[str]) -> None:
        """Have a dead-letter topic for each topic, with as many partitions and replicas; raises ValueError, KafkaException."""
        for topic in topics:
            partitions = replicas(consumer, topic)
            if not partitions:
                raise ValueError(f"topics: {topic!r} does not exist")
            name = dead_letter_topic(topic)
            if not (there := replicas(consumer, name)):
                self._create(NewTopic(name, len(partitions), min(partitions)))
            self._partitions[name] = len(there or partitions)

    def _create(self, topic: NewTopic) -> None:
        admin = AdminClient(self._connection)
        try:
            admin.create_topics([topic], operation_timeout=ANSWER_SECONDS_MAX)[topic.topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # as where two members start
                raise

    def write(self, letter: DeadLetter, is_ours: Callable[[], bool]) -> None:
        """Return when it is in its topic; raises KafkaException.

        Who has died after writing, and before the commit, has left it there: it is not written again. `is_ours` says whether
        it is still to be written here: its partition may have gone to somebody else.
        """
        record = letter.record
        place = home(record.partition, self._partitions[dead_letter_topic(record.topic)])
        self._look(place)
        if record not in self._known:
            if not is_ours():
                raise KafkaException(KafkaError(KafkaError._PURGE_QUEUE, "its partition is given up"))
            self._producer.send(place, key=record.key, value=record.value, headers=letter.headers())

    def _look(self, place: TopicPartition) -> None:
        """Read what is new in a partition of dead letters."""
        low, high = self._reader.bounds(place)
        for record in self._reader.records(place, self._known.read_from(place, low), high):
            self._known.take(record)
        self._known.has_read(place, high)

    def give_up(self) -> None:
        """Send what is under way no more; from any thread."""
        self._producer.give_up()

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()


def replicas(consumer: Any, topic: str) -> list[int]:
    """How many replicas each partition has; none where there is no such topic. A consumer asks: brokers make no topic for it."""
    described = consumer.list_topics(topic, timeout=ANSWER_SECONDS_MAX).topics[topic]
    if described.error is not None and described.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise KafkaException(described.error)
    return [len(partition.replicas) for partition in described.partitions.values()]
