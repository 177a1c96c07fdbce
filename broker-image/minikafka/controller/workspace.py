"""The controller's working copy of the image, and what it has changed since the last commit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikafka.controller.change import ChangeRules, Election, PartitionChange
from minikafka.metadata.image import BROKER, TOPIC, UNREGISTERED, BrokerState, ClusterImage, PartitionState, TopicState
from minikafka.metadata.store import Room, Wish, no_limit
from minikafka.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What decisions depend on; times in seconds."""

    session_timeout: float = 9.0
    default_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    """The default of this broker's own file: a new controller makes it the cluster's (`TopicRegistry.adopt_defaults`)."""
    unclean_leader_election: bool = False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval: float = 300.0
    unclean_leader_election_interval: float = 300.0
    partitions_of_broker_max: int | None = None
    """``minikafka.max.broker.partitions``: replicas that a broker may be given; None: any number."""
    trust_isr: bool = False
    """``minikafka.unclean.shutdown.policy=trust_isr``: the classic rules of the articles. A broker keeps its ISR seats over a
    restart within its session, whatever it lost; a closed connection is not acted on; there are no eligible leader replicas."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something for the event log, emitted once the change is in the store."""

    name: str
    topic: str | None
    partition: int | None
    fields: Mapping[str, Any]


RoomIn = Callable[[ClusterImage], Room]
"""What the cluster store has room for, beside what is in an image."""


def _replicas_of(topics: Iterable[TopicState]) -> Counter[int]:
    return Counter(broker for topic in topics for partition in topic.partitions for broker in partition.replicas)


class Workspace:
    """Image plus uncommitted changes. A failed commit throws the whole workspace away."""

    def __init__(
        self, image: ClusterImage, config: ControllerConfig, room_in: RoomIn = lambda _image: no_limit
    ) -> None:
        self.image = image
        self.config = config
        self._room_in = room_in
        self._room: Room | None = None
        """None: the image has changed since it was measured, which takes as long as the cluster is large."""
        self._hosted: Counter[int] | None = None
        """By broker, how many replicas the image has; None: they were not counted."""
        self._changes: dict[str, Any] = {}
        self._events: list[Event] = []

    def take_changes(self) -> tuple[dict[str, Any], list[Event]]:
        """Records to write (None removes) and events to emit after that; both are then forgotten here."""
        changes, self._changes = self._changes, {}
        changes = {key: value.to_json() if isinstance(value, TopicState) else value for key, value in changes.items()}
        events, self._events = self._events, []
        return changes, events

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def note(self, name: str, topic: str | None = None, partition: int | None = None, **fields: Any) -> None:
        """Remember an event."""
        self._events.append(Event(name, topic, partition, fields))

    def _changed(self, key: str, value: Any) -> None:
        self._changes[key] = value
        self._room = None

    def put_broker(self, broker: BrokerState) -> None:
        self.image.brokers[broker.broker_id] = broker
        self.image.unregistered.pop(broker.broker_id, None)
        self._changed(BROKER + str(broker.broker_id), broker.to_json())

    def unregister_broker(self, broker: BrokerState) -> None:
        """Take a broker out of the image; its record keeps the epoch."""
        self.put_record(BROKER + str(broker.broker_id), {**broker.to_json(), UNREGISTERED: True})

    def put_topic(self, topic: TopicState) -> None:
        old = self.image.topics.get(topic.name)
        if old is None or len(old.partitions) != len(topic.partitions):
            self._count_hosted(topic, old)
        self.image.put_topic(topic)
        self._changed(TOPIC + topic.name, topic)  # as JSON once at the end, and not with each of its partitions

    def delete_topic(self, topic: TopicState) -> None:
        self._count_hosted(None, topic)
        self.image.drop_topic(topic)
        self._changed(TOPIC + topic.name, None)

    def check_room(self, *wishes: Wish) -> None:
        """To be asked before something is made or gets larger. What failovers change is written in any case.

        Raises:
            KafkaError: POLICY_VIOLATION, the cluster store has no room for all of it.
        """
        if self._room is None:
            self._room = self._room_in(self.image)
        self._room(wishes)

    def check_brokers_can_host(self, rows: Sequence[Sequence[int]]) -> None:
        """To be asked before replicas are made, of which each takes descriptors of a broker.

        Raises:
            KafkaError: POLICY_VIOLATION, a broker would have more than ``minikafka.max.broker.partitions``.
        """
        most = self.config.partitions_of_broker_max
        if most is None:
            return
        if self._hosted is None:
            self._hosted = _replicas_of(self.image.topics.values())
        for broker, more in Counter(itertools.chain.from_iterable(rows)).items():
            if self._hosted[broker] + more > most:
                line = f"broker {broker} would have {self._hosted[broker] + more} replicas"
                raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{line}; minikafka.max.broker.partitions allows {most}")

    def _count_hosted(self, new: TopicState | None, old: TopicState | None) -> None:
        if self._hosted is not None:
            self._hosted.update(_replicas_of(() if new is None else (new,)))
            self._hosted.subtract(_replicas_of(() if old is None else (old,)))

    def put_record(self, key: str, value: Any) -> None:
        self.image.apply(key, value)
        self._changed(key, value)

    def change_partitions(
        self,
        topic: TopicState,
        indexes: Iterable[int],
        made: Callable[[PartitionState], PartitionChange | None],
        reason: str,
    ) -> None:
        """Write what is made of these partitions of a topic, all at once; None leaves one as it is."""
        found = {index: made(topic.partitions[index]) for index in indexes}
        changes = {index: change for index, change in found.items() if change is not None}
        if changes:
            self.put_partitions(topic, changes, reason)

    def put_partitions(self, topic: TopicState, changes: Mapping[int, PartitionChange], reason: str) -> None:
        """Write new states of partitions, by index, and note what happened to their leaders."""
        for index, change in changes.items():
            self._note_leader(topic, index, change, reason)
            if change.state.replicas != topic.partitions[index].replicas:
                self._hosted = None
        self.put_topic(topic.with_partitions({index: change.state for index, change in changes.items()}))

    def _note_leader(self, topic: TopicState, index: int, change: PartitionChange, reason: str) -> None:
        old = topic.partitions[index]
        new = change.state
        if new.leader != old.leader:
            if new.leader < 0:
                self.note(
                    "partition_offline",
                    topic.name,
                    index,
                    leader_epoch=new.leader_epoch,
                    partition_epoch=new.partition_epoch,
                    isr=list(new.isr),
                    reason=reason,
                )
            else:
                self.note(
                    "leader_elected",
                    topic.name,
                    index,
                    leader=new.leader,
                    previous_leader=old.leader,
                    leader_epoch=new.leader_epoch,
                    partition_epoch=new.partition_epoch,
                    isr=list(new.isr),
                    clean=change.clean is not False,
                    reason=reason,
                )

    # -- settings by topic ------------------------------------------------------------------------------------------

    def min_isr(self, topic: TopicState) -> int:
        return self.image.min_insync_replicas(topic, self.config.min_insync_replicas)

    def rules(self, topic: TopicState) -> ChangeRules:
        """The rules in force for one topic."""
        return ChangeRules(self.min_isr(topic), self.image.is_active, elr_enabled=not self.config.trust_isr)

    def election(self, topic: TopicState) -> Election:
        """Whether an election for this topic may be unclean."""
        value = topic.configs.get("unclean.leader.election.enable")
        unclean = value == "true" if value is not None else self.config.unclean_leader_election
        return Election.UNCLEAN if unclean else Election.ONLINE
