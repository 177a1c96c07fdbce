"""Both consumers on a cluster in this process: what is lost, doubled and reordered when they die, and what a rebalance does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from minikafka.protocol.types import TopicPartition
from minikafka.reliability import ConsumedRecord
from minikafka.reliability.confluent_reading import PartitionReader
from minikafka.reliability.dead_letters import DeadLetter
from minikafka.testing import MiniKafkaCluster

from tests.unit.reliability import lives

Life = Callable[..., None]


LOG = {0: ["fine-0", "poison-1", "fine-2"], 1: ["flaky-0", "poison-1"]}


def sent(cluster: MiniKafkaCluster) -> str:
    topic = cluster.create_topic(partitions=len(LOG), replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})
    for partition, values in LOG.items():
        for value in values:
            producer.produce(topic, value, key=f"key of {value}", partition=partition, headers=[("trace", b"1")])
    assert producer.flush(60) == 0
    return topic


class Service:
    """What outlives the consumer: what was done, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []
        self.failed: set[tuple[int, int]] = set()

    def handle(self, record: ConsumedRecord) -> None:
        value, place = (record.value or b"").decode(), (record.partition.partition, record.offset)
        if value.startswith("poison") or (value.startswith("flaky") and place not in self.failed):
            self.failed.add(place)
            raise ValueError(f"cannot do {value}")
        self.done.append(place)


def letters(cluster: MiniKafkaCluster, topic: str) -> list[DeadLetter]:
    reader = PartitionReader({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    found = []
    for partition in LOG:
        place = TopicPartition(f"{topic}.dlq", partition)
        found += [DeadLetter.parse(record) for record in reader.records(place, *reader.bounds(place))]
    reader.close()
    return found


LIVES = (lives.confluent, lives.aiokafka)


@pytest.mark.parametrize("live", LIVES, ids=lambda life: life.__name__)
@pytest.mark.parametrize("dies_at", list(lives.POINTS.items()), ids=list(lives.POINTS))
def test_no_death_between_two_steps_loses_a_record_or_doubles_a_dead_letter(
    cluster: MiniKafkaCluster, live: Life, dies_at: tuple[str, int]
) -> None:
    topic, service = sent(cluster), Service()
    group = f"group-of-{topic}"
    goal = lives.Goal({TopicPartition(topic, partition): len(values) for partition, values in LOG.items()})
    with pytest.raises(lives.Death, match=dies_at[0]):
        live(cluster.bootstrap, group, [topic], service.handle, goal, dies_at)
    live(cluster.bootstrap, group, [topic], service.handle, goal)

    assert set(service.done) == {(0, 0), (0, 2), (1, 0)}
    for partition in LOG:
        firsts = list(dict.fromkeys(offset for p, offset in service.done if p == partition))
        assert firsts == sorted(firsts)
    found = letters(cluster, topic)
    assert [(each.record.partition, each.record.offset) for each in found] == [
        (TopicPartition(topic, 0), 1),
        (TopicPartition(topic, 1), 1),
    ]
    for letter in found:
        assert letter.record.key == b"key of poison-1"
        assert letter.record.headers == (("trace", b"1"),)
        assert (letter.group, letter.attempts) == (group, 2)
        assert letter.error == "ValueError: cannot do poison-1"
    assert dict(cluster.groups()[group].offsets) == goal.ends
