"""Topics: names, counts, assignments, growth, configuration."""

import pytest
from minikafka.controller.controller import Controller
from minikafka.controller.topics import NAME_LENGTH_MAX, PARTITIONS_MAX, NewTopic, check_topic_name
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode, KafkaError

from .desk import Desk


def refused(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


class TestNames:
    @pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * NAME_LENGTH_MAX])
    def test_allowed(self, name: str) -> None:
        """Kafka's Topic.validate."""
        check_topic_name(name)

    @pytest.mark.parametrize(
        ("name", "says"),
        [("", "empty"), (".", "cannot be"), ("..", "cannot be"), ("x" * 250, "250 characters"), ("a/b", "characters other"),
         ("é", "characters other"), ("a b", "characters other")],
    )  # fmt: skip
    def test_not_allowed(self, name: str, says: str) -> None:
        """Kafka's Topic.validate: INVALID_TOPIC_EXCEPTION that names the rule."""
        with pytest.raises(KafkaError, match=says) as error:
            Desk().topics.create(NewTopic(name, 1, 1))
        assert refused(error) is ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_taken(self) -> None:
        """TOPIC_ALREADY_EXISTS; and names that are the same in metrics collide."""
        at = Desk()
        at.topics.create(NewTopic("a.b", 1, 1))
        with pytest.raises(KafkaError) as error:
            at.topics.create(NewTopic("a.b", 1, 1))
        assert refused(error) is ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(KafkaError, match=r"collides with 'a\.b'") as error:
            at.topics.create(NewTopic("a_b", 1, 1))
        assert refused(error) is ErrorCode.INVALID_TOPIC_EXCEPTION
        at.topics.delete("a.b")
        at.topics.create(NewTopic("a_b", 1, 1))


class TestCreate:
    def test_an_empty_log_is_in_sync_with_every_other(self) -> None:
        """R1, R8: leaders and replicas are spread, all that live are in sync."""
        at = Desk()
        topic = at.topics.create(NewTopic("t", 3, 3))
        assert [p.leader for p in topic.partitions] == [1, 2, 3]
        assert all(set(p.isr) == set(p.replicas) == {1, 2, 3} and p.leader == p.replicas[0] for p in topic.partitions)
        changes, events = at.controller.take_changes()
        assert list(changes) == ["topic/t"]
        assert [(e.name, e.topic) for e in events] == [("topic_created", "t")]

    def test_topics_of_one_partition_do_not_all_lead_on_one_broker(self) -> None:
        """R1: each topic starts its walk one further."""
        at = Desk()
        leaders = [at.topics.create(NewTopic(f"t{n}", 1, 1)).partitions[0].leader for n in range(6)]
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]

    def test_only_to_say_what_it_would_be(self) -> None:
        """KIP-4: validateOnly."""
        at = Desk()
        assert len(at.topics.create(NewTopic("t", 2, 1), validate_only=True).partitions) == 2
        assert not at.controller.workspace.has_changes and "t" not in at.image.topics

    def test_defaults(self) -> None:
        """KIP-464: -1 takes num.partitions and default.replication.factor."""
        at = Desk(config=ControllerConfig(default_partitions=4, default_replication_factor=2))
        topic = at.topics.create(NewTopic("t"))
        assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (4, 2)

    def test_fenced_brokers_get_nothing(self) -> None:
        """R1: placement goes by who is alive."""
        at = Desk()
        at.die(2)
        topic = at.topics.create(NewTopic("t", 4, 2))
        assert {r for p in topic.partitions for r in p.replicas} == {1, 3}
        with pytest.raises(KafkaError, match="alive brokers, 2") as error:
            at.topics.create(NewTopic("u", 1, 3))
        assert refused(error) is ErrorCode.INVALID_REPLICATION_FACTOR

    @pytest.mark.parametrize("count", [0, -2, PARTITIONS_MAX + 1])
    def test_a_bad_count(self, count: int) -> None:
        """INVALID_PARTITIONS with what is allowed."""
        with pytest.raises(KafkaError, match=f"between 1 and {PARTITIONS_MAX}") as error:
            Desk().topics.create(NewTopic("t", count, 1))
        assert refused(error) is ErrorCode.INVALID_PARTITIONS

    def test_a_bad_configuration(self) -> None:
        """INVALID_CONFIG comes from the check that the shell provides; nothing is half-done."""

        def check(configs: object) -> None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "no such key")

        at = Desk()
        controller = Controller(at.image, 1, ControllerConfig(), 0.0, at._new_uuid, check)
        with pytest.raises(KafkaError, match="no such key"):
            controller.topics.create(NewTopic("t", 1, 1, configs={"x": "y"}))
        assert "t" not in at.image.topics


class TestManualAssignment:
    def test_as_given(self) -> None:
        """R1: the first replica that lives leads; who is fenced is not in sync."""
        at = Desk()
        at.die(3)
        topic = at.topics.create(NewTopic("t", assignment={1: [2, 1], 0: [3, 1]}))
        assert topic.partitions == (PartitionState((3, 1), (1,), 1), PartitionState((2, 1), (2, 1), 2))

    @pytest.mark.parametrize(
        ("wish", "code"),
        [
            (NewTopic("t", 1, -1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST),
            (NewTopic("t", -1, 1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST),
            (NewTopic("t", assignment={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (NewTopic("t", assignment={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (NewTopic("t", assignment={0: [1], 1: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (NewTopic("t", assignment={index: [1] for index in range(10_001)}), ErrorCode.INVALID_PARTITIONS),
        ],
        ids=["with partitions", "with factor", "gap", "twice", "unknown broker", "too many"],
    )
    def test_refused(self, wish: NewTopic, code: ErrorCode) -> None:
        """R1: never two replicas of a partition on a broker; each error as Kafka has it."""
        with pytest.raises(KafkaError) as error:
            Desk().topics.create(wish)
        assert refused(error) is code

    def test_somebody_must_be_there(self) -> None:
        """R14: all of a partition's brokers are fenced: an ISR that nobody vouches for would never find a leader."""
        at = Desk()
        at.die(2)
        at.die(3)
        with pytest.raises(KafkaError, match=r"partition 1: all of its brokers \[2, 3\] are fenced") as error:
            at.topics.create(NewTopic("t", assignment={0: [1, 2], 1: [2, 3]}))
        assert refused(error) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


class TestGrow:
    def test_goes_on_where_it_was(self) -> None:
        """R1: leaders stay even."""
        at = Desk()
        at.topics.create(NewTopic("other", 1, 1))
        at.topics.create(NewTopic("t", 2, 2))
        at.topics.grow("t", 6, None, validate_only=False)
        leaders = [p.leader for p in at.image.topics["t"].partitions]
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
        assert all(len(p.replicas) == 2 for p in at.image.topics["t"].partitions)

    def test_by_hand(self) -> None:
        """R1: checked like a new topic's."""
        at = Desk()
        at.topics.create(NewTopic("t", 1, 2))
        at.events()
        at.topics.grow("t", 3, [[3, 2], [2, 1]], validate_only=False)
        assert [(e.name, e.topic, e.fields) for e in at.events()] == [("partitions_added", "t", {"partitions": 3})]
        assert [p.replicas for p in at.image.topics["t"].partitions] == [(1, 2), (3, 2), (2, 1)]

    def test_only_to_say_whether_it_could(self) -> None:
        """KIP-195: validateOnly."""
        at = Desk()
        at.topics.create(NewTopic("t", 1, 1))
        at.topics.grow("t", 2, None, validate_only=True)
        assert len(at.image.topics["t"].partitions) == 1

    @pytest.mark.parametrize(
        ("name", "count", "rows", "code"),
        [
            ("u", 2, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", 2, None, ErrorCode.INVALID_PARTITIONS),
            ("t", 1, None, ErrorCode.INVALID_PARTITIONS),
            ("t", PARTITIONS_MAX + 1, None, ErrorCode.INVALID_PARTITIONS),
            ("t", 4, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("t", 3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("t", 3, [[4, 4]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("t", 3, [[3]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ],
    )
    def test_refused(self, name: str, count: int, rows: list[list[int]] | None, code: ErrorCode) -> None:
        """KIP-195: the count only grows; assignments for the new partitions, of the same size."""
        at = Desk()
        at.topics.create(NewTopic("t", 2, 2))
        with pytest.raises(KafkaError) as error:
            at.topics.grow(name, count, rows, validate_only=False)
        assert refused(error) is code
        assert len(at.image.topics["t"].partitions) == 2

    def test_somebody_must_be_there(self) -> None:
        """R14: as for a new topic; the partition is named by its number."""
        at = Desk()
        at.topics.create(NewTopic("t", 1, 1))
        at.die(2)
        with pytest.raises(KafkaError, match=r"partition 1: all of its brokers \[2\]"):
            at.topics.grow("t", 2, [[2]], validate_only=False)


def test_a_broker_is_given_so_many_replicas() -> None:
    """KIP-578: each takes descriptors, and all brokers fenced themselves where there were none for one more."""
    at = Desk(config=ControllerConfig(partitions_of_broker_max=3))
    at.topics.create(NewTopic("a", assignment={0: (1, 2), 1: (1, 3)}))
    for refused in (
        lambda: at.topics.create(NewTopic("b", assignment={0: (2, 1), 1: (1, 2)})),
        lambda: at.topics.grow("a", 4, [[1, 2], [3, 1]], validate_only=False),
    ):
        with pytest.raises(
            KafkaError, match=r"broker 1 would have 4 replicas; minikafka\.max\.broker\.partitions allows 3"
        ) as why:
            refused()
        assert why.value.code is ErrorCode.POLICY_VIOLATION
    for _ in range(2):
        at.topics.create(NewTopic("b", assignment={0: (1, 2)}))
        at.topics.delete("b")
    at.topics.create(NewTopic("b", assignment={0: (1, 2)}))
    assert at.partitions.reassign("b", 0, (2, 3)) is ErrorCode.NONE
    at.topics.delete("a")
    with pytest.raises(KafkaError, match=r"broker 3 would have 4 replicas"):
        at.topics.create(NewTopic("c", assignment=dict.fromkeys(range(3), (3,))))
    at.topics.create(NewTopic("c", assignment={0: (1, 2), 1: (1, 2)}))
    with pytest.raises(KafkaError, match=r"broker 2 would have 4 replicas"):
        at.topics.grow("c", 3, [[3, 2]], validate_only=False)


class TestDeleteAndConfigure:
    def test_a_topic_made_again_is_another_one(self) -> None:
        """KIP-516: another id."""
        at = Desk()
        first = at.topics.create(NewTopic("t", 1, 1))
        assert at.topics.delete("t") is ErrorCode.NONE
        assert at.topics.delete("t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert at.controller.take_changes()[0] == {"topic/t": None}
        assert at.image.topics_by_id == {}
        again = at.topics.create(NewTopic("t", 1, 1))
        assert again.topic_id != first.topic_id
        assert at.topics.delete("t", topic_id=first.topic_id) is ErrorCode.UNKNOWN_TOPIC_ID
        assert at.image.topics == {"t": again}
        assert at.topics.delete("t", topic_id=again.topic_id) is ErrorCode.NONE

    def test_overrides_are_replaced(self) -> None:
        """KIP-339: and an equal set is not written."""
        at = Desk()
        at.topics.create(NewTopic("t", 1, 1, configs={"a": "1", "c": "3"}))
        at.controller.take_changes()
        at.topics.set_configs("t", {"b": "2"}, validate_only=True)
        at.topics.set_configs("t", {"a": "1", "c": "3"})
        assert not at.controller.workspace.has_changes
        at.topics.set_configs("t", {"b": "2", "c": "3"})
        assert at.image.topics["t"].configs == {"b": "2", "c": "3"}
        assert [(e.name, e.topic, e.fields) for e in at.events()] == [
            ("topic_config_changed", "t", {"keys": ["a", "b"]})
        ]
        with pytest.raises(KafkaError) as error:
            at.topics.set_configs("u", {})
        assert refused(error) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_min_isr_of_topic_and_broker(self) -> None:
        """KIP-966: the topic's own before the broker's."""
        at = Desk(config=ControllerConfig(min_insync_replicas=2))
        plain = at.topics.create(NewTopic("plain", 1, 3))
        own = at.topics.create(NewTopic("own", 1, 3, configs={"min.insync.replicas": "3"}))
        assert [at.controller.workspace.min_isr(t) for t in (plain, own)] == [2, 3]
