"""Consumer groups as their coordinators tell them, and the topic that they need.

Asked by requests of our own: librdkafka's admin client lists groups at every broker that it knows, and waits a minute, with a
core busy all the time, for one that was killed just before (2.16).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from minikafka.client.connection import BrokerConnection, NoAnswer, endpoints
from minikafka.client.security import ClientSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.group_state import DESCRIBE_GROUPS_VERSION
from minikafka_chaos.session.deadline import Deadline
from minikafka_chaos.session.partitions import RETRY_S, TIMEOUT_S, ask

OFFSETS_TOPIC = "__consumer_offsets"
METADATA_VERSION, LIST_VERSION = 8, 4
OFFSETS_VERSION = 7
"""The last version that asks for one group."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """One consumer group. `offsets`: the next record of each partition that it committed."""

    name: str
    state: str
    members: tuple[str, ...]
    offsets: Mapping[TopicPartition, int]


def make_offsets_topic(bootstrap: str, security: ClientSecurity, deadline: Deadline) -> None:
    """Have `__consumer_offsets` made, as by the first group; returns when it is. Raises ToolTrouble."""
    answer = ask(bootstrap, security, ApiKey.FIND_COORDINATOR, 2, {"key": OFFSETS_TOPIC, "key_type": 0}, deadline)
    if answer.error_code:
        raise ToolTrouble(f"{OFFSETS_TOPIC} was not made: {ErrorCode(answer.error_code).name}")


class _NotYet(Exception):
    """Coordinators are about to change; ``str()`` says what is missing."""


def describe_groups(bootstrap: str, security: ClientSecurity, deadline: Deadline) -> dict[str, GroupOffsets]:
    """All groups by name, as the brokers at these addresses have them. Raises ToolTrouble."""
    while True:
        try:
            _check_coordinators(bootstrap, security, deadline)
            addresses = endpoints(bootstrap)
            found = [group for host, port in addresses for group in _groups_of(host, port, security, deadline)]
            return {group.name: group for group in sorted(found, key=lambda group: group.name)}
        except _NotYet as reason:
            if deadline.is_over:
                raise ToolTrouble(f"consumer groups: {reason}") from None
            time.sleep(RETRY_S)


def _check_coordinators(bootstrap: str, security: ClientSecurity, deadline: Deadline) -> None:
    """Raise _NotYet unless each partition of the groups' topic is led by a broker at one of these addresses."""
    answer = ask(
        bootstrap,
        security,
        ApiKey.METADATA,
        METADATA_VERSION,
        {"topics": [{"name": OFFSETS_TOPIC}], "allow_auto_topic_creation": False},
        deadline,
    )
    addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    asked = endpoints(bootstrap)
    for partition in (each for topic in answer.topics for each in topic.partitions):
        if addresses.get(partition.leader_id) not in asked:
            raise _NotYet(f"{OFFSETS_TOPIC}-{partition.partition_index} has no leader that runs")


def _groups_of(host: str, port: int, security: ClientSecurity, deadline: Deadline) -> Iterator[GroupOffsets]:
    try:
        with BrokerConnection(host, port, deadline.at_most(TIMEOUT_S), security) as connection:
            listed = connection.request(ApiKey.LIST_GROUPS, LIST_VERSION, {})
            _check(listed.error_code)
            names = [each.group_id for each in listed.groups]
            for group in connection.request(ApiKey.DESCRIBE_GROUPS, DESCRIBE_GROUPS_VERSION, {"groups": names}).groups:
                _check(group.error_code)
                wanted = {"group_id": group.group_id, "topics": None}
                committed = connection.request(ApiKey.OFFSET_FETCH, OFFSETS_VERSION, wanted)
                _check(committed.error_code)
                yield _group(group, committed)
    except NoAnswer as error:
        raise _NotYet(f"{host}:{port}: {error}") from error


def _check(code: int) -> None:
    if code:
        raise _NotYet(ErrorCode(code).name)


def _group(described: Any, committed: Any) -> GroupOffsets:
    offsets = {
        TopicPartition(topic.name, row.partition_index): row.committed_offset
        for topic in committed.topics
        for row in topic.partitions
        if row.committed_offset >= 0
    }
    members = tuple(member.client_id for member in described.members)
    return GroupOffsets(described.group_id, described.group_state.lower(), members, offsets)
