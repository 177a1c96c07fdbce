"""The cluster image: what every broker knows of brokers, topics and partitions, as immutable values.

An image is the sum of the records of the :class:`~minikafka.metadata.store.ClusterStore`. Records are plain JSON values
under string keys, so that every store (memory, SQLite, Kubernetes) keeps the same thing and a person can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from minikafka.quotas import entities as quotas
from minikafka.security import acls
from minikafka.security.scram import HASHES, ScramCredential, ShapeCounts, shape_of

NO_LEADER = -1
RECOVERED = 0
RECOVERING = 1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The controller's word on one partition.

    ``leader_epoch`` grows when the leader changes, ``partition_epoch`` on every change (KIP-497). ``elr`` and
    ``last_known_elr`` are the eligible leader replicas of KIP-966: members that left the ISR while it was below
    ``min.insync.replicas`` and therefore hold everything committed.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    recovery_state: int = RECOVERED
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "leader": self.leader,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
        }
        if self.elr:
            value["eligibleLeaderReplicas"] = list(self.elr)
        if self.last_known_elr:
            value["lastKnownELR"] = list(self.last_known_elr)
        if self.recovery_state:
            value["recovering"] = True
        if self.adding:
            value["addingReplicas"] = list(self.adding)
        if self.removing:
            value["removingReplicas"] = list(self.removing)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PartitionState:
        return cls(
            replicas=tuple(value["replicas"]),
            isr=tuple(value["isr"]),
            leader=value["leader"],
            leader_epoch=value["leaderEpoch"],
            partition_epoch=value["partitionEpoch"],
            elr=tuple(value.get("eligibleLeaderReplicas", ())),
            last_known_elr=tuple(value.get("lastKnownELR", ())),
            recovery_state=RECOVERING if value.get("recovering") else RECOVERED,
            adding=tuple(value.get("addingReplicas", ())),
            removing=tuple(value.get("removingReplicas", ())),
        )


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic: its id never changes and is never used again, so a deleted and re-created topic is another topic."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "topicId": str(self.topic_id),
            "partitions": [p.to_json() for p in self.partitions],
            "configs": dict(self.configs),
        }

    @classmethod
    def from_json(cls, name: str, value: Mapping[str, Any]) -> TopicState:
        return cls(
            name,
            UUID(value["topicId"]),
            tuple(PartitionState.from_json(p) for p in value["partitions"]),
            dict(value["configs"]),
        )

    def with_partitions(self, states: Mapping[int, PartitionState]) -> TopicState:
        """Return the topic with these partitions, by index, in place of its own."""
        partitions = list(self.partitions)
        for index, state in states.items():
            partitions[index] = state
        return replace(self, partitions=tuple(partitions))


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A registered broker. ``epoch`` names one incarnation of its process (KIP-631); a fenced one may not lead or be in sync."""

    broker_id: int
    epoch: int
    incarnation: str
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None = None
    fenced: bool = True
    shutting_down: bool = False
    returning: bool = False
    """It came back from a planned stop, and has not got back yet what it led before."""

    @property
    def active(self) -> bool:
        """May lead partitions and join in-sync sets (KIP-841)."""
        return not self.fenced and not self.shutting_down

    def endpoint(self, listener: str) -> tuple[str, int] | None:
        """(host, port) of a listener by its name."""
        for name, host, port in self.endpoints:
            if name == listener:
                return host, port
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "incarnation": self.incarnation,
            "endpoints": [list(e) for e in self.endpoints],
            "rack": self.rack,
            "fenced": self.fenced,
            "shuttingDown": self.shutting_down,
            **({"returning": True} if self.returning else {}),
        }

    @classmethod
    def from_json(cls, broker_id: int, value: Mapping[str, Any]) -> BrokerState:
        return cls(
            broker_id,
            value["epoch"],
            value["incarnation"],
            tuple((n, h, p) for n, h, p in value["endpoints"]),
            value["rack"],
            value["fenced"],
            value["shuttingDown"],
            value.get("returning", False),
        )


TOPIC = "topic/"
BROKER = "broker/"
UNREGISTERED = "unregistered"
"""In the record of a broker that UnregisterBroker took out. It stays for its epoch; an older program sees a fenced broker."""
BROKER_CONFIG = "config/broker/"
CLUSTER_CONFIG = BROKER_CONFIG
"""The defaults of all brokers: the resource with the empty name, as in Kafka."""

SCRAM = "scram/"
"""Followed by mechanism, a slash and the user, whose name may have slashes, too."""

SCRAM_SECRET = "secret/scram"
"""Of what the salts are made that unknown users are told: it must be the same on all brokers, and nobody's guess."""

ACL = "acl/"
"""Followed by type of resource, type of pattern and the name, with slashes between; its value is a list of ACLs."""

QUOTA = "quota/"
"""Followed by a name of the entity; its value says which entity that is, and has its quotas."""

MIN_ISR = "min.insync.replicas"


def _in_metrics(name: str) -> str | None:
    """A topic's name in Kafka's metrics; None: as it is, so that no other has the same."""
    name = name.replace(".", "_")
    return name if "_" in name else None


class ClusterImage:
    """All records, indexed. Mutable by :meth:`apply` only; the states inside are immutable."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.topics: dict[str, TopicState] = {}
        self._names_in_metrics: dict[str, str] = {}
        self.topics_by_id: dict[bytes, TopicState] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.unregistered: dict[int, int] = {}
        """Brokers that were registered once, with their last epoch: no later registration of any broker may have it again."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.scram: dict[tuple[str, str], ScramCredential] = {}
        """What is known of passwords, by user and mechanism."""
        self.scram_shapes: dict[str, ShapeCounts] = {mechanism: ShapeCounts() for mechanism in HASHES}
        """How many there are of each, by mechanism."""
        self.scram_secret: bytes | None = None
        """None until there is a user."""
        self.acls = acls.AclSet()
        self.quotas = quotas.QuotaSet()
        self._quota_entities: dict[str, quotas.Entity] = {}
        self.controller_id = -1
        self.controller_epoch = 0
        self.revision = 0

    def apply(self, key: str, value: Any) -> None:
        """Take in one record; ``None`` removes it. Unknown kinds of record belong to somebody else and are ignored."""
        if key.startswith(TOPIC):
            self._apply_topic(key.removeprefix(TOPIC), value)
        elif key.startswith(BROKER):
            broker_id = int(key.removeprefix(BROKER))
            self.brokers.pop(broker_id, None)
            self.unregistered.pop(broker_id, None)
            if value is None:
                return
            if value.get(UNREGISTERED):
                self.unregistered[broker_id] = value["epoch"]
            else:
                self.brokers[broker_id] = BrokerState.from_json(broker_id, value)
        elif key.startswith(BROKER_CONFIG):
            name = key.removeprefix(BROKER_CONFIG)
            if value is None:
                self.broker_configs.pop(name, None)
            else:
                self.broker_configs[name] = dict(value)

        elif key.startswith(SCRAM):
            mechanism, _, user = key.removeprefix(SCRAM).partition("/")
            self._apply_scram(mechanism, user, None if value is None else ScramCredential.from_json(value))
        elif key == SCRAM_SECRET:
            self.scram_secret = None if value is None else bytes.fromhex(value)
        elif key.startswith(ACL):
            self.acls.put(acls.pattern_of(key.removeprefix(ACL)), acls.from_json(value or ()))
        elif key.startswith(QUOTA):
            self._apply_quota(key, None if value is None else quotas.from_json(value))

    def _apply_scram(self, mechanism: str, user: str, found: ScramCredential | None) -> None:
        shapes = self.scram_shapes.setdefault(mechanism, ShapeCounts())
        old = self.scram.pop((user, mechanism), None)
        if old is not None:
            shapes.add(shape_of(old), -1)
        if found is not None:
            self.scram[user, mechanism] = found
            shapes.add(shape_of(found), 1)

    def _apply_quota(self, key: str, found: quotas.EntityQuotas | None) -> None:
        gone = self._quota_entities.pop(key, None)
        if gone is not None:
            self.quotas.put(gone, None)
        if found is not None:
            self._quota_entities[key] = found.entity
            self.quotas.put(found.entity, found.values)

    def _apply_topic(self, name: str, value: Any) -> None:
        old = self.topics.get(name)
        if old is not None:
            self.drop_topic(old)
        if value is not None:
            self.put_topic(TopicState.from_json(name, value))

    def put_topic(self, topic: TopicState) -> None:
        """Set a topic that is a value already."""
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id.bytes] = topic
        if (in_metrics := _in_metrics(topic.name)) is not None:
            self._names_in_metrics[in_metrics] = topic.name

    def drop_topic(self, topic: TopicState) -> None:
        """Take out a topic that is there."""
        del self.topics[topic.name]
        self.topics_by_id.pop(topic.topic_id.bytes, None)
        if (in_metrics := _in_metrics(topic.name)) is not None:
            self._names_in_metrics.pop(in_metrics, None)

    def named_alike(self, name: str) -> str | None:
        """The topic that has the same name in Kafka's metrics, where '.' and '_' are the same."""
        in_metrics = _in_metrics(name)
        return None if in_metrics is None else self._names_in_metrics.get(in_metrics)

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """The state of a partition, or None when there is no such topic or index."""
        state = self.topics.get(topic)
        if state is None or not 0 <= index < len(state.partitions):
            return None
        return state.partitions[index]

    def active_brokers(self) -> Iterable[BrokerState]:
        """Brokers that may lead, by ascending id."""
        return [b for _, b in sorted(self.brokers.items()) if b.active]

    @property
    def cluster_configs(self) -> Mapping[str, str]:
        """The settings that are the same on every broker, whatever its own file says."""
        return self.broker_configs.get("", {})

    def min_insync_replicas(self, topic: TopicState, fallback: int) -> int:
        """``min.insync.replicas`` of a topic: its override, else the cluster's default.

        Leader and controller must agree on it: it decides when the high watermark stands still and who is in the ELR
        (KIP-966). So the default is a record, which the controller writes. ``fallback`` holds until there is one.
        """
        value = topic.configs.get(MIN_ISR, self.cluster_configs.get(MIN_ISR))
        return fallback if value is None else int(value)

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active
