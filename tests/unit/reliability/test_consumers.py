"""Both consumers on a cluster in this process: what is lost, doubled and reordered when they die, and what a rebalance does."""

from __future__ import annotations

import asyncio
import functools
import importlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from minikafka.protocol.types import TopicPartition
from minikafka.reliability import (
    AsyncReliableConsumer,
    ConsumedRecord,
    DeadLetterNotWritten,
    ReliableConsumer,
    aiokafka_consumer,
    confluent_consumer,
)
from minikafka.reliability.client_settings import connection
from minikafka.reliability.confluent_reading import PartitionReader
from minikafka.reliability.dead_letters import DeadLetter
from minikafka.testing import MiniKafkaCluster

from tests.unit.reliability import lives
from tests.waiting import SOON, until_now

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


@pytest.mark.slow
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


@pytest.mark.parametrize("live", LIVES, ids=lambda life: life.__name__)
def test_more_records_than_are_taken_at_once(cluster: MiniKafkaCluster, live: Life) -> None:
    """They come in one fetch. ReliableConsumer once polled for the one behind the last that it takes at once, and dropped it."""
    topic, service = cluster.create_topic(replication_factor=1), Service()
    ends = {TopicPartition(topic, 0): 2 * max(confluent_consumer.TAKEN_MAX, aiokafka_consumer.TAKEN_MAX) + 1}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for offset in range(ends[TopicPartition(topic, 0)]):
        producer.produce(topic, f"fine-{offset}", partition=0)
    assert producer.flush(60) == 0
    live(cluster.bootstrap, f"group-of-{topic}", [topic], service.handle, lives.Goal(ends))
    assert service.done == [(0, offset) for offset in range(ends[TopicPartition(topic, 0)])]


@pytest.mark.slow
@pytest.mark.parametrize("live", LIVES, ids=lambda life: life.__name__)
def test_a_dead_letter_that_is_refused_ends_the_consumer_and_commits_nothing_behind(
    cluster: MiniKafkaCluster, live: Life
) -> None:
    topic, service = sent(cluster), Service()
    dead_letters = cluster.create_topic(f"{topic}.dlq", partitions=len(LOG), replication_factor=1)
    cluster.inject_error("Produce", "TOPIC_AUTHORIZATION_FAILED", dead_letters)
    goal = lives.Goal({TopicPartition(topic, partition): len(values) for partition, values in LOG.items()})
    with pytest.raises(
        DeadLetterNotWritten, match=r"offset 1 can be neither processed \(ValueError: cannot do poison-1"
    ):
        live(cluster.bootstrap, f"group-of-{topic}", [topic], service.handle, goal)
    assert goal.committed == {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 1}
    cluster.heal()
    assert letters(cluster, topic) == []


class Polls:
    """Counts the polls of a consumer."""

    polls = 0

    def _take(self) -> Any:
        self.polls += 1
        return super()._take()  # type: ignore[misc]


class PollingConsumer(Polls, ReliableConsumer):
    """By confluent-kafka."""


class PollingAsyncConsumer(Polls, AsyncReliableConsumer):
    """By aiokafka."""


def test_the_client_goes_on_polling_while_a_handler_is_slow(cluster: MiniKafkaCluster) -> None:
    """Whoever does not poll loses its membership."""
    topic = sent(cluster)

    def slow(_record: ConsumedRecord) -> None:
        until = consumer.polls + 3
        until_now(lambda: consumer.polls >= until)
        consumer.stop()

    config = {"bootstrap.servers": cluster.bootstrap, "group.id": f"group-of-{topic}", "log_level": 0}
    consumer = PollingConsumer(config, [topic], slow)
    consumer.run()


@pytest.mark.slow
async def test_asyncio_goes_on_polling_while_a_handler_is_slow(cluster: MiniKafkaCluster) -> None:
    topic = sent(cluster)

    async def slow(_record: ConsumedRecord) -> None:
        until = consumer.polls + 3
        async with asyncio.timeout(SOON):
            while consumer.polls < until:  # noqa: ASYNC110 - polls tell nobody
                await asyncio.sleep(0.005)
        consumer.stop()

    config = {"bootstrap_servers": cluster.bootstrap, "group_id": f"group-of-{topic}"}
    consumer = PollingAsyncConsumer(config, [topic], slow)
    await consumer.run()


def rebalanced(cluster: MiniKafkaCluster, live: Life) -> list[tuple[int, int]]:
    """What two members did, the second of which came while the first had a record in hand."""
    topic = cluster.create_topic(partitions=2, replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})
    for partition, number in itertools.product((0, 1), range(20)):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(60) == 0
    group = f"group-of-{topic}"
    done: list[tuple[int, int]] = []
    began = threading.Event()

    def holds(_record: ConsumedRecord) -> bool:
        if len(done) == 5:
            began.set()
        return len(done) == 5 and not goal.revoking.is_set()

    def handler(record: ConsumedRecord) -> None:
        done.append((record.partition.partition, record.offset))

    ends = {TopicPartition(topic, partition): 20 for partition in (0, 1)}
    goal = lives.Goal(ends, holds=holds, held_max=3)  # its fetching is paused as the other comes
    members = [
        threading.Thread(target=live, args=(cluster.bootstrap, group, [topic], handler, goal), daemon=True)
        for _ in range(2)
    ]
    members[0].start()
    assert began.wait(SOON)
    members[1].start()
    for member in members:
        member.join(SOON)
    assert not any(member.is_alive() for member in members)
    assert dict(cluster.groups()[group].offsets) == goal.ends
    return done


@pytest.mark.slow
@pytest.mark.parametrize("live", LIVES, ids=lambda life: life.__name__)
def test_a_rebalance_waits_for_the_record_in_hand_and_commits_it(cluster: MiniKafkaCluster, live: Life) -> None:
    done = rebalanced(cluster, live)
    assert sorted(done) == sorted(itertools.product((0, 1), range(20))), "none twice"


@pytest.mark.parametrize(
    ("config", "topics", "words"),
    [
        ({}, ["a"], "group.id: missing"),
        ({"group.id": "g", "enable.auto.commit": "true"}, ["a"], "enable.auto.commit: true would commit what was not"),
        ({"group.id": "g"}, [], r"topics: \[\] is not a list of names"),
        ({"group.id": "g"}, "orders", "topics: 'orders' is not a list of names"),
        ({"group.id": "g"}, ["orders", "orders"], "names one twice"),
        ({"group.id": "g", "value.deserializer": int}, ["orders"], "value.deserializer: a record that it cannot read"),
    ],
)
def test_a_consumer_that_cannot_be(config: dict[str, Any], topics: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ReliableConsumer({"bootstrap.servers": "127.0.0.1:1", **config}, topics, print)
    spelt = {name.replace(".", "_"): value for name, value in config.items()}
    with pytest.raises(ValueError, match=words.replace("group.id", "group_id").replace("enable.auto.", "enable_auto_")):
        AsyncReliableConsumer(spelt, topics, print)  # type: ignore[arg-type]


async def coroutine(_record: ConsumedRecord) -> None:
    """Would never run where nobody awaits it."""


class CoroutineObject:
    """Its call is a coroutine."""

    async def __call__(self, _record: ConsumedRecord) -> None:
        """As above."""


def generator(_record: ConsumedRecord) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (None, "handler: None is not a function"),
        (generator, "handler: it has a yield"),
        (coroutine, "handler: it is a coroutine function"),
        (functools.partial(coroutine), "handler: it is a coroutine function"),
        (CoroutineObject(), "handler: it is a coroutine function"),
    ],
)
def test_a_handler_that_would_process_nothing(handler: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ReliableConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, ["a"], handler)
    if words.endswith("coroutine function"):
        AsyncReliableConsumer({"bootstrap_servers": "127.0.0.1:1", "group_id": "g"}, ["a"], handler)


@pytest.mark.parametrize("held_max", [0, -1, 1.5, "x"])
def test_how_many_records_are_held_is_a_number_from_1_on(held_max: Any) -> None:
    with pytest.raises(ValueError, match=r"held_max: .* is not a whole number from 1 on"):
        ReliableConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, ["a"], print, held_max=held_max)
    with pytest.raises(ValueError, match=r"held_max: .* is not a whole number from 1 on"):
        AsyncReliableConsumer({"bootstrap_servers": "a:1", "group_id": "g"}, ["a"], coroutine, held_max=held_max)


@pytest.mark.slow
def test_a_handler_whose_work_is_never_awaited_ends_the_consumer_and_commits_nothing(cluster: MiniKafkaCluster) -> None:
    topic = sent(cluster)
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": f"group-of-{topic}", "log_level": 0}
    work = coroutine(ConsumedRecord(TopicPartition(topic, 0), 0, 0, None, None))
    with pytest.raises(TypeError, match="returns an awaitable: nothing was processed"):
        ReliableConsumer(config, [topic], lambda _record: work).run()
    work.close()
    group = cluster.groups().get(f"group-of-{topic}")
    assert group is None or not group.offsets


@pytest.mark.slow
async def test_a_handler_with_nothing_to_await_ends_the_consumer(cluster: MiniKafkaCluster) -> None:
    topic = sent(cluster)
    config = {"bootstrap_servers": cluster.bootstrap, "group_id": f"group-of-{topic}"}
    with pytest.raises(TypeError, match="returns nothing to await"):
        await AsyncReliableConsumer(config, [topic], lambda _record: None).run()  # type: ignore[arg-type, return-value]


@pytest.mark.slow
async def test_a_cancellation_inside_of_a_handler_is_a_failed_attempt(cluster: MiniKafkaCluster) -> None:
    topic = sent(cluster)
    tries: list[int] = []

    async def handler(record: ConsumedRecord) -> None:
        if record.partition.partition == 0:
            tries.append(record.offset)
            if len(tries) == 1:
                raise asyncio.CancelledError
            consumer.stop()

    config = {"bootstrap_servers": cluster.bootstrap, "group_id": f"group-of-{topic}"}
    consumer = AsyncReliableConsumer(config, [topic], handler, retries=lives.SOON)
    async with asyncio.timeout(SOON):
        await consumer.run()
    assert tries == [0, 0]


@pytest.mark.slow
@pytest.mark.slow
def test_a_static_member_that_is_fenced_ends(cluster: MiniKafkaCluster) -> None:
    """It stood still for ever: the client does nothing more."""
    topic = cluster.create_topic()
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": f"group-of-{topic}",
        "group.instance.id": "same",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 100,
        "log_level": 0,
    }
    assigned, second = threading.Event(), Consumer(config)
    first = ReliableConsumer(config, [topic], lambda _record: None)
    on_assign = first._on_assign

    def says_so(*answer: Any) -> None:
        on_assign(*answer)
        assigned.set()

    first._on_assign = says_so  # type: ignore[method-assign]
    ended: list[BaseException] = []

    def run() -> None:
        try:
            first.run()
        except KafkaException as error:
            ended.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    assert assigned.wait(SOON)
    second.subscribe([topic])
    until_now(lambda: second.poll(0.05) is None and not running.is_alive())
    second.close()
    assert [each.args[0].code() for each in ended] == [KafkaError._FATAL]


def test_a_group_without_a_place_ends_the_consumer_where_it_is_to(cluster: MiniKafkaCluster) -> None:
    topic = sent(cluster)
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": f"group-of-{topic}", "log_level": 0}
    with pytest.raises(KafkaException, match="_AUTO_OFFSET_RESET"):
        ReliableConsumer(config | {"auto.offset.reset": "error"}, [topic], print).run()


@pytest.mark.slow
@pytest.mark.parametrize("live", LIVES, ids=lambda life: life.__name__)
def test_a_record_of_some_megabytes_becomes_a_dead_letter(cluster: MiniKafkaCluster, live: Life) -> None:
    large = {"max.message.bytes": "5000000"}
    topic = cluster.create_topic(replication_factor=1, config=large)
    cluster.create_topic(f"{topic}.dlq", replication_factor=1, config=large)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 5_000_000, "log_level": 0})
    producer.produce(topic, b"poison" + bytes(2_000_000), partition=0)
    assert producer.flush(60) == 0
    goal = lives.Goal({TopicPartition(topic, 0): 1})
    live(cluster.bootstrap, f"group-of-{topic}", [topic], Service().handle, goal)
    assert [len(letter.value or b"") for letter in cluster.records(f"{topic}.dlq")] == [2_000_006]


def test_a_topic_that_is_not_there_is_named(cluster: MiniKafkaCluster) -> None:
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
    with pytest.raises(ValueError, match="topics: 'nothing' does not exist"):
        ReliableConsumer(config, ["nothing"], print).run()


async def test_a_topic_that_is_not_there_is_named_with_asyncio(cluster: MiniKafkaCluster) -> None:
    config = {"bootstrap_servers": cluster.bootstrap, "group_id": "g"}
    with pytest.raises(ValueError, match="topics: 'nothing' does not exist"):
        await AsyncReliableConsumer(config, ["nothing"], print).run()  # type: ignore[arg-type]


def test_without_aiokafka_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[2].startswith("reliability.aiokafka")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'minikafka\[reliability\]'") as told:
        importlib.import_module("minikafka.reliability.aiokafka_consumer")
    assert "\n" not in str(told.value)


def test_the_producer_of_dead_letters_connects_as_the_consumer_does() -> None:
    shared = {"bootstrap.servers": "a:1", "sasl.password": "x", "ssl_context": 1}
    shared |= {"enable.ssl.certificate.verification": False, "https.ca.location": "ca.pem"}
    config = {**shared, "group.id": "g", "fetch.min.bytes": 1, "enable.auto.commit": False}
    assert connection(config) == shared
