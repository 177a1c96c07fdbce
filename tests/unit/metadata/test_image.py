"""The cluster image and its records."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minikafka.metadata.image import (
    BROKER,
    BROKER_CONFIG,
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    TOPIC,
    BrokerState,
    ClusterImage,
    PartitionState,
    TopicState,
)

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5, unique=True).map(tuple)
EPOCHS = st.integers(0, 2**31 - 1)
TEXT = st.text(max_size=20)
PARTITIONS = st.builds(
    PartitionState, IDS, IDS, st.one_of(st.just(NO_LEADER), EPOCHS), EPOCHS, EPOCHS, IDS, IDS,
    st.sampled_from([RECOVERED, RECOVERING]), IDS, IDS,
)  # fmt: skip
TOPICS = st.builds(
    TopicState, TEXT, st.uuids(), st.lists(PARTITIONS, max_size=3).map(tuple), st.dictionaries(TEXT, TEXT, max_size=3)
)
BROKERS = st.builds(
    BrokerState,
    EPOCHS,
    EPOCHS,
    TEXT,
    st.lists(st.tuples(TEXT, TEXT, st.integers(0, 65535)), max_size=2).map(tuple),
    st.one_of(st.none(), TEXT),
    st.booleans(),
    st.booleans(),
)
A = PartitionState((1, 2), (1,), 1, 3, 4)


@pytest.mark.slow
@given(TOPICS)
def test_topics_survive_json(topic: TopicState) -> None:
    """R15: every store keeps the same thing: ids, configuration and every partition."""
    assert TopicState.from_json(topic.name, json.loads(json.dumps(topic.to_json()))) == topic


@pytest.mark.slow
@given(BROKERS)
def test_brokers_survive_json(broker: BrokerState) -> None:
    """R15: incarnation, endpoints and rack."""
    assert BrokerState.from_json(broker.broker_id, json.loads(json.dumps(broker.to_json()))) == broker


def test_what_is_as_usual_is_left_out() -> None:
    """A person can read a record: eligible replicas, recovery and moves are there when there are any."""
    assert set(A.to_json()) == {"replicas", "isr", "leader", "leaderEpoch", "partitionEpoch"}


def test_records_come_and_go() -> None:
    """R15: None removes; a topic is found by name and by id; unknown kinds belong to somebody else."""
    image = ClusterImage("c")
    topic = TopicState("t", UUID(int=1), (A,))
    image.apply(TOPIC + "t", topic.to_json())
    image.apply("controller/whatever", {"x": 1})
    assert image.topics_by_id[UUID(int=1).bytes] == image.topics["t"] == topic
    image.apply(TOPIC + "t", TopicState("t", UUID(int=2), ()).to_json())
    assert list(image.topics_by_id) == [UUID(int=2).bytes]
    image.apply(TOPIC + "t", None)
    image.apply(TOPIC + "t", None)
    assert (image.topics, image.topics_by_id) == ({}, {})

    broker = BrokerState(3, 7, "i", (("PLAINTEXT", "host", 9092),), "r", fenced=False)
    image.apply(BROKER + "3", broker.to_json())
    assert image.brokers == {3: broker}
    image.apply(BROKER + "3", None)
    assert image.brokers == {}

    image.apply(BROKER_CONFIG + "3", {"a": "1"})
    assert image.broker_configs == {"3": {"a": "1"}}
    image.apply(BROKER_CONFIG + "3", None)
    assert image.broker_configs == {}


def test_questions() -> None:
    """KIP-841: active is neither fenced nor shutting down."""
    image = ClusterImage("c")
    for broker_id, fenced, stopping in ((3, False, False), (1, False, False), (2, True, False), (4, False, True)):
        image.brokers[broker_id] = BrokerState(
            broker_id, 1, "i", (("A", "h", 1), ("B", "h", 2)), None, fenced, stopping
        )
    assert [b.broker_id for b in image.active_brokers()] == [1, 3]
    assert [image.is_active(b) for b in (1, 2, 4, 9)] == [True, False, False, False]
    assert (image.brokers[1].endpoint("B"), image.brokers[1].endpoint("C")) == (("h", 2), None)
    image.put_topic(TopicState("t", UUID(int=1), (A,)))
    assert image.partition("t", 0) == A
    assert (image.partition("t", 1), image.partition("t", -1), image.partition("u", 0)) == (None, None, None)
    assert image.topics["t"].with_partitions({0: PartitionState((), (), 0)}).partitions == (PartitionState((), (), 0),)
    assert image.partition("t", 0) == A
