"""The state of a watched cluster at one moment: its brokers, partitions, replicas and consumer groups. No I/O.

Everything is a value: a change makes a new one. None where nobody has said anything. There is no last stable offset, for the
product has no transactions yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from minikafka.protocol.types import TopicPartition


class BrokerKey(NamedTuple):
    """Names a broker."""

    broker: int


class ReplicaKey(NamedTuple):
    """Names a replica."""

    topic: str
    partition: int
    broker: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition that it is a replica of."""
        return TopicPartition(self.topic, self.partition)


class GroupName(NamedTuple):
    """Names a consumer group."""

    group: str


class WatchedCondition(StrEnum):
    """What is known of a broker's process."""

    UNKNOWN = "unknown"
    STARTING = "starting"
    NOT_READY = "not ready"
    """Its process runs, and it serves nobody: it is fenced, as one that is cut off, or stops."""
    UP = "up"
    PAUSED = "paused"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class WatchedBroker:
    """A broker."""

    condition: WatchedCondition = WatchedCondition.UNKNOWN
    fenced: bool | None = None
    controller: bool = False
    faults: tuple[str, ...] = ()
    """The faults that are on (cut, disk full), apart from what `condition` says."""
    connections: int | None = None
    silent: bool = False
    """Whether the last scrape of its metrics failed."""


@dataclass(frozen=True, slots=True)
class WatchedRecord:
    """A record whose value is known: at this offset, wherever a log has this leader epoch there."""

    offset: int
    leader_epoch: int
    value: str


@dataclass(frozen=True, slots=True)
class WatchedPartition:
    """A partition, as the controller and its leader tell of it."""

    leader: int | None = None
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] | None = None
    records: tuple[WatchedRecord, ...] = ()


class EpochStart(NamedTuple):
    """From this offset on the records of a log were written in this leader epoch."""

    leader_epoch: int
    offset: int


UNKNOWN_EPOCH = -1
"""Of records that were there before anything was told of them."""


@dataclass(frozen=True, slots=True)
class WatchedReplica:
    """A replica, as its own broker tells of it. Of a dead broker: what it told last."""

    role: str | None = None
    """`leader`, `follower`, or None while its broker has not said."""
    leader_epoch: int | None = None
    following: int | None = None
    """The broker that it copies from, or did before its own died."""
    epochs: tuple[EpochStart, ...] = ()
    """By offset; those of the records that it has."""
    log_start: int = 0
    log_end: int | None = None
    high_watermark: int | None = None
    flushed: int | None = None
    cut_end: int | None = None
    """Where its log ended before it was cut, until it has grown as long again: records from the log end up to here are gone."""
    remote_end: int | None = None
    """Its log end offset as its leader counts it, from what it has fetched."""

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at an offset."""
        return next((each.leader_epoch for each in reversed(self.epochs) if each.offset <= offset), UNKNOWN_EPOCH)


@dataclass(frozen=True, slots=True)
class WatchedGroup:
    """A consumer group, as its coordinator tells of it."""

    members: int | None = None
    committed: tuple[tuple[TopicPartition, int], ...] = ()


Key = BrokerKey | TopicPartition | ReplicaKey | GroupName
Entity = WatchedBroker | WatchedPartition | WatchedReplica | WatchedGroup
Changes = Mapping[Key, Entity | None]
"""What is otherwise than before; None: it is gone."""


class ClusterState:
    """All that is known at one moment."""

    def __init__(self, entities: Mapping[Key, Entity] | None = None) -> None:
        self.entities: dict[Key, Entity] = dict(entities or {})

    def take(self, changes: Changes) -> None:
        """Make the changes."""
        for key, entity in changes.items():
            if entity is None:
                self.entities.pop(key, None)
            else:
                self.entities[key] = entity

    def broker(self, broker: int) -> WatchedBroker:
        """Return a broker, unknown as it may be."""
        found = self.entities.get(BrokerKey(broker))
        return found if isinstance(found, WatchedBroker) else WatchedBroker()

    def partition(self, topic_partition: TopicPartition) -> WatchedPartition:
        """Return a partition."""
        found = self.entities.get(topic_partition)
        return found if isinstance(found, WatchedPartition) else WatchedPartition()

    def replica(self, key: ReplicaKey) -> WatchedReplica:
        """Return a replica."""
        found = self.entities.get(key)
        return found if isinstance(found, WatchedReplica) else WatchedReplica()

    def group(self, group: str) -> WatchedGroup:
        """Return a consumer group."""
        found = self.entities.get(GroupName(group))
        return found if isinstance(found, WatchedGroup) else WatchedGroup()

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers."""
        return sorted(key.broker for key in self.entities if isinstance(key, BrokerKey))

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions, those of internal topics last."""
        found = [key for key in self.entities if isinstance(key, TopicPartition)]
        return sorted(found, key=lambda each: (is_internal(each.topic), each))

    @property
    def groups(self) -> list[str]:
        """The names of all consumer groups."""
        return sorted(key.group for key in self.entities if isinstance(key, GroupName))

    def replicas(self, topic_partition: TopicPartition) -> list[tuple[int, WatchedReplica]]:
        """Return the replicas of a partition with their brokers, by broker."""
        return [
            (broker, self.replica(ReplicaKey(*topic_partition, broker)))
            for broker in self.brokers
            if ReplicaKey(*topic_partition, broker) in self.entities
        ]


def is_internal(topic: str) -> bool:
    """Return whether it is a topic of the brokers' own."""
    return topic.startswith("__")
