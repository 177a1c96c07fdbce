"""The ConfigMap of the metadata is never found full at a failover: creating is refused long before (audit B11)."""

from __future__ import annotations

import base64
import random
from dataclasses import replace
from uuid import UUID

import pytest
from minikafka.controller.controller import Controller
from minikafka.controller.quotas import QuotaAlteration
from minikafka.controller.topics import NewTopic
from minikafka.controller.users import Upsertion
from minikafka.controller.workspace import ControllerConfig
from minikafka.kubernetes import capacity
from minikafka.kubernetes.capacity import WORST_CASE_BYTES_MAX, room, topic_bytes, worst_case_bytes
from minikafka.kubernetes.desired import alteration
from minikafka.kubernetes.document import CONFIG_MAP_BYTES_MAX, PACKED, Document
from minikafka.kubernetes.topics import Edit
from minikafka.metadata.image import MIN_ISR, BrokerState, ClusterImage, PartitionState, TopicState
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.quotas.entities import entity_of
from minikafka.security.acls import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType

LISTENERS = (("CLIENT", "demo-broker-0.demo-brokers.ns.svc", 9092), ("REPLICATION", "10.1.2.3", 9091))


def filled(partitions: int, replicas: int, brokers: int, name_length: int = 20) -> ClusterImage:
    """As many topics of this shape as are let in, with states as bad as failovers can make them."""
    chance = random.Random(1)
    image = ClusterImage("c" * 22)
    for broker_id in range(brokers):
        incarnation = str(UUID(int=chance.getrandbits(128)))
        image.brokers[broker_id] = BrokerState(broker_id, chance.randrange(10**6), incarnation, LISTENERS)
    left = WORST_CASE_BYTES_MAX - worst_case_bytes(image)
    while left >= 0:
        name = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=name_length))
        states = tuple(_worst(chance, replicas, brokers) for _ in range(partitions))
        topic = TopicState(
            name, UUID(int=chance.getrandbits(128)), states, {"retention.ms": str(chance.randrange(10**9))}
        )
        left -= topic_bytes(topic)
        if left >= 0:
            image.put_topic(topic)
    with pytest.raises(KafkaError) as told:
        room(image)([topic])
    assert told.value.code is ErrorCode.POLICY_VIOLATION
    return image


def _worst(chance: random.Random, replicas: int, brokers: int) -> PartitionState:
    assigned = tuple(chance.sample(range(brokers), replicas))
    isr = tuple(chance.sample(assigned, chance.randint(1, replicas)))
    elr = tuple(replica for replica in assigned if replica not in isr)
    leader_epoch, partition_epoch = chance.randrange(10**6), chance.randrange(10**6)
    return PartitionState(assigned, isr, chance.choice(isr), leader_epoch, partition_epoch, elr, elr[:1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partitions", "replicas", "brokers", "name_length"),
    [
        (10, 3, 3, 20),
        (10, 5, 100, 20),
        pytest.param(1, 3, 9, 20, marks=pytest.mark.full),
        pytest.param(1, 1, 3, 20, marks=pytest.mark.full),
        pytest.param(5000, 3, 9, 20, marks=pytest.mark.full),
        pytest.param(1, 3, 100, 249, marks=pytest.mark.full),
        pytest.param(50, 3, 100, 5, marks=pytest.mark.full),
    ],
)
def test_the_worst_failover_of_a_full_cluster_fits(
    partitions: int, replicas: int, brokers: int, name_length: int
) -> None:
    """Every state in the journal at once, as it is really written; and yet not much room is given away."""
    image = filled(partitions, replicas, brokers, name_length)
    states = {f"topic/{name}": topic.to_json() for name, topic in image.topics.items()}
    brokers_records = {f"broker/{number}": broker.to_json() for number, broker in image.brokers.items()}
    document = Document("c" * 22).after({**states, **brokers_records})
    value = replace(document, shown=frozenset(document.journal)).to_config_map("c-metadata", {})
    size = len(base64.b64decode(value["binaryData"][PACKED]))
    assert size < 0.75 * CONFIG_MAP_BYTES_MAX
    assert size > 0.25 * WORST_CASE_BYTES_MAX, "or the estimate is too careful"


def acl(number: int) -> Acl:
    pattern = Pattern(ResourceType.TOPIC, PatternType.PREFIXED, "orders-")
    return Acl(pattern, Entry(f"User:{number:030}", "*", Operation.READ, Permission.ALLOW))


@pytest.mark.slow
class TestRefusal:
    TOPIC = TopicState("full", UUID(int=1), (PartitionState((1, 2, 3), (1, 2, 3), 1),) * 900, {})

    def controller(self, topics: int = 20) -> Controller:
        """Of a cluster whose metadata is nearly full, with so many topics."""
        image = ClusterImage("c")
        config = ControllerConfig(default_replication_factor=3)
        # As an earlier controller has written it, or this one would begin with a change of each of the 18,000 partitions.
        image.broker_configs[""] = {MIN_ISR: str(config.min_insync_replicas)}
        for broker_id in (1, 2, 3):
            image.brokers[broker_id] = BrokerState(broker_id, broker_id, "x", LISTENERS, None, False)
        for number in range(topics):
            image.put_topic(replace(self.TOPIC, name=f"t{number}", topic_id=UUID(int=number)))
        assert worst_case_bytes(image) < WORST_CASE_BYTES_MAX
        controller = Controller(image, 1, config, 0.0, lambda: UUID(int=99), room_in=room)
        controller.take_changes()
        return controller

    def test_of_a_new_topic(self) -> None:
        controller = self.controller()
        for validate_only in (True, False):
            with pytest.raises(KafkaError, match=r"topic 'new' with 5000 partitions: .* 18000 partitions") as told:
                controller.topics.create(NewTopic("new", 5000), validate_only)
            assert told.value.code is ErrorCode.POLICY_VIOLATION
        assert not controller.workspace.has_changes
        controller.topics.create(NewTopic("small", 100))

    def test_of_more_partitions(self) -> None:
        controller = self.controller()
        with pytest.raises(KafkaError, match="at most 524288 are allowed"):
            controller.topics.grow("t1", 9_999, None, validate_only=False)
        assert len(controller.image.topics["t1"].partitions) == 900

    def test_of_long_settings(self) -> None:
        controller = self.controller()
        with pytest.raises(KafkaError):
            controller.topics.set_configs("t0", {"retention.ms": "1" * WORST_CASE_BYTES_MAX})
        controller.topics.set_configs("t0", {"retention.ms": "1"})

    def test_of_more_replicas(self) -> None:
        controller = self.controller()
        controller.topics.create(NewTopic("small", 600))
        for broker_id in range(4, 10):
            controller.image.brokers[broker_id] = replace(controller.image.brokers[1], broker_id=broker_id)
        assert controller.partitions.reassign("t0", 0, (1, 2, 3, 4, 5, 6, 7, 8, 9)) is ErrorCode.POLICY_VIOLATION
        assert controller.partitions.reassign("t0", 0, (4, 5, 6)) is ErrorCode.NONE

    def test_of_acls(self) -> None:
        """All of a request that are new, or none; what is there already needs no room."""
        controller = self.controller()
        few, many = [acl(number) for number in range(10)], [acl(number) for number in range(10_000)]
        assert controller.acls.create(few) == [None] * 10
        refused = controller.acls.create(many)
        assert refused[:10] == [None] * 10
        assert {each.code for each in refused[10:] if each is not None} == {ErrorCode.POLICY_VIOLATION}
        assert None not in refused[10:]
        assert len(controller.image.acls) == 10

    def test_of_quotas(self) -> None:
        """One entity after the other; what an entity has already may be altered."""
        controller = self.controller()

        def alter(number: int, rate: float) -> KafkaError | None:
            entity = entity_of({"user": f"{number}-{'u' * 1000}"}.items())
            wish = QuotaAlteration(entity, [("producer_byte_rate", rate)])
            return controller.quotas.alter([wish], False)[entity]

        refused = next(number for number in range(WORST_CASE_BYTES_MAX // 1000) if alter(number, 1.0) is not None)
        assert refused == len(controller.image.quotas.all()) > 0
        assert alter(refused - 1, 2.0) is None
        assert worst_case_bytes(controller.image) <= WORST_CASE_BYTES_MAX

    def test_of_users(self) -> None:
        """All credentials of a request, or none; another password for a user who is there needs no room."""
        controller = self.controller()

        def alter(*users: int) -> set[ErrorCode]:
            wishes = [Upsertion(f"{each}-{'u' * 1000}", 1, 4096, b"s" * 256, b"p" * 32) for each in users]
            refused = controller.users.alter(wishes, b"secret").values()
            return {ErrorCode.NONE if each is None else each.code for each in refused}

        assert alter(1, 2) == {ErrorCode.NONE}
        assert alter(*range(3, 500)) == {ErrorCode.POLICY_VIOLATION}
        few = (each for each in range(3, 500) if alter(each) != {ErrorCode.NONE})
        assert next(few) == len(controller.image.scram) + 1
        assert alter(1) == {ErrorCode.NONE}
        assert worst_case_bytes(controller.image) <= WORST_CASE_BYTES_MAX

    def test_is_told_without_measuring_the_cluster_for_each(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Or a request of many rows takes as long as rows times topics."""
        controller = self.controller()
        asked: list[ClusterImage] = []
        monkeypatch.setattr(capacity, "worst_case_bytes", lambda image: asked.append(image) or 0)
        for number in range(10):
            controller.topics.create(NewTopic(f"new-{number}"), validate_only=True)
        wishes = [QuotaAlteration(entity_of({"user": str(n)}.items()), [("producer_byte_rate", 1.0)]) for n in range(9)]
        controller.quotas.alter(wishes, validate_only=False)
        assert len(asked) == 1

    def test_of_a_wish_as_a_whole(self) -> None:
        """Partitions and settings that fit apart and not together: nothing of it is done."""
        controller = self.controller()
        left = WORST_CASE_BYTES_MAX - worst_case_bytes(controller.image)
        wish = Edit(partitions=900 + left // 40, config={"retention.ms": "1" * (left // 2)})
        with pytest.raises(KafkaError):
            alteration("t0", UUID(int=0), wish)(controller)
        assert not controller.workspace.has_changes

    def test_what_is_there_goes_on(self) -> None:
        """A cluster that is over the limit (it was made by an earlier version) fails over, shrinks and is reconfigured."""
        controller = self.controller(3)
        large = replace(self.TOPIC, name="t1", configs={"retention.ms": "1" * WORST_CASE_BYTES_MAX})
        controller.image.put_topic(replace(large, topic_id=UUID(int=1)))
        assert worst_case_bytes(controller.image) > WORST_CASE_BYTES_MAX
        controller.partitions.broker_gone(1, "test")
        assert controller.image.topics["t2"].partitions[0].leader == 2
        controller.topics.set_configs("t2", {})
        assert controller.topics.delete("t2") is ErrorCode.NONE
