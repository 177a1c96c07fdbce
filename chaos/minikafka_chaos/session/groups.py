"""Consumer groups as their coordinators tell them, and the topic that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.librdkafka import admin_config
from minikafka_chaos.session.partitions import ask

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """One consumer group. `offsets`: the next record of each partition that it committed."""

    name: str
    state: str
    members: tuple[str, ...]
    offsets: Mapping[TopicPartition, int]


def make_offsets_topic(bootstrap: str) -> None:
    """Have `__consumer_offsets` made, as by the first group; returns when it is. Raises ToolTrouble."""
    answer = ask(bootstrap, ApiKey.FIND_COORDINATOR, 2, {"key": OFFSETS_TOPIC, "key_type": 0})
    if answer.error_code:
        raise ToolTrouble(f"{OFFSETS_TOPIC} was not made: {ErrorCode(answer.error_code).name}")


def describe_groups(bootstrap: str, deadline_s: float) -> dict[str, GroupOffsets]:
    """All groups by name. Raises ToolTrouble."""
    admin = AdminClient(admin_config(bootstrap))
    try:
        listed = admin.list_consumer_groups(request_timeout=deadline_s).result()
        names = sorted(each.group_id for each in listed.valid)
        described = admin.describe_consumer_groups(names, request_timeout=deadline_s) if names else {}
        return {name: _group(admin, name, described[name].result(), deadline_s) for name in names}
    except KafkaException as error:
        raise ToolTrouble(f"consumer groups: {error.args[0]}") from error


def _group(admin: AdminClient, name: str, described: object, deadline_s: float) -> GroupOffsets:
    asked = [ConsumerGroupTopicPartitions(name)]
    committed = admin.list_consumer_group_offsets(asked, request_timeout=deadline_s)[name].result()
    offsets = {TopicPartition(p.topic, p.partition): p.offset for p in committed.topic_partitions if p.offset >= 0}
    members = tuple(member.client_id for member in described.members)  # type: ignore[attr-defined]
    state = described.state.name.lower()  # type: ignore[attr-defined]
    return GroupOffsets(name, state, members, offsets)
