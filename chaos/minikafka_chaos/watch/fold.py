"""Folds evidence into the state of a cluster: one function for each kind of it, whatever it was read from. No I/O.

Events and metrics say it exactly. Between two of them some things follow from others: a follower copies its leader's log, so
what it has got since has its leader's epochs; what was acknowledged by all is below the high watermark of the leader, and in
the log of every member of the ISR.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.watch.acknowledgement_rules import take_acknowledgements
from minikafka_chaos.watch.event_rules import RULES
from minikafka_chaos.watch.evidence import (
    Acknowledgements,
    EventLine,
    Evidence,
    JournalLine,
    LogGrowth,
    Note,
    ProcessCondition,
    Scrape,
)
from minikafka_chaos.watch.journal_rules import JournalRules
from minikafka_chaos.watch.logs import LogRules
from minikafka_chaos.watch.sample_rules import take_scrape
from minikafka_chaos.watch.state import (
    BrokerKey,
    Changes,
    ClusterState,
    Entity,
    Key,
    ReplicaKey,
    WatchedCondition,
)


class Draft:
    """A state, and what the evidence at hand changes in it."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.changes: dict[Key, Entity | None] = {}
        self.logs = LogRules(self)

    def put(self, key: Key, entity: Entity) -> None:
        """Make this the newest word on it."""
        if self.state.entities.get(key) != entity:
            self.state.entities[key] = entity
            self.changes[key] = entity

    def drop(self, key: Key) -> None:
        """Make it gone."""
        if self.state.entities.pop(key, None) is not None:
            self.changes[key] = None

    def change_broker(self, broker: int, **fields: Any) -> None:
        """Change fields of a broker."""
        self.put(BrokerKey(broker), replace(self.state.broker(broker), **fields))

    def change_partition(self, topic_partition: TopicPartition, **fields: Any) -> None:
        """Change fields of a partition."""
        self.put(topic_partition, replace(self.state.partition(topic_partition), **fields))

    def change_replica(self, key: ReplicaKey, **fields: Any) -> None:
        """Change fields of a replica."""
        self.put(key, replace(self.state.replica(key), **fields))

    def lead(self, topic_partition: TopicPartition, leader: int | None, leader_epoch: int, **fields: Any) -> None:
        """Take a word on who leads, unless a newer one is known: of a leader that does not know of its successor."""
        known = self.state.partition(topic_partition)
        if leader_epoch < known.leader_epoch:
            return
        if leader_epoch == known.leader_epoch and fields.get("partition_epoch", -1) < known.partition_epoch:
            fields = {}
        self.change_partition(topic_partition, leader=leader, leader_epoch=leader_epoch, **fields)


class Fold:
    """Takes evidence in the order of its times, and keeps the state that follows from it."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self._journal = JournalRules()

    def take(self, evidence: Evidence) -> Changes:
        """Take one piece of evidence; what it changes."""
        draft = Draft(self.state)
        match evidence:
            case EventLine(event=event):
                RULES.get(event, _nothing)(draft, evidence)
            case JournalLine():
                self._journal.take(draft, evidence)
            case Scrape():
                take_scrape(draft, evidence)
            case Acknowledgements():
                take_acknowledgements(draft, evidence)
            case LogGrowth(broker=broker, topic_partition=where, end=end):
                draft.logs.grow(ReplicaKey(*where, broker), end)
            case ProcessCondition(broker=broker, condition=condition):
                _take_condition(draft, broker, WatchedCondition(condition))
            case Note():
                pass
        return draft.changes


def _take_condition(draft: Draft, broker: int, condition: WatchedCondition) -> None:
    starts = draft.state.broker(broker).condition is WatchedCondition.STARTING
    if not (starts and condition is WatchedCondition.NOT_READY):  # its events say more
        draft.change_broker(broker, condition=condition)


def _nothing(_draft: Draft, _event: EventLine) -> None:
    """Of most events nothing follows that is watched."""
