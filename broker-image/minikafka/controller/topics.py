"""Topics: create, delete, grow, configure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from minikafka.controller.change import change_min_isr
from minikafka.controller.placement import check_manual_assignment, place, walk_start
from minikafka.controller.workspace import Workspace
from minikafka.metadata.image import CLUSTER_CONFIG, MIN_ISR, PartitionState, TopicState
from minikafka.protocol.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249
"""Kafka's limit: the name, a dash and a partition number must fit a file name."""

PARTITIONS_MAX = 10_000
"""Per request, as a guard against a slip of the finger (KafkaAdminClient has no limit of its own)."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    """Kafka's rules for a topic's name.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION with the rule that is broken.
    """
    problem = ""
    if not name:
        problem = "topic name is empty"
    elif name in (".", ".."):
        problem = f"topic name cannot be {name!r}"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"topic name is {len(name)} characters long; at most {NAME_LENGTH_MAX} are allowed"
    elif not set(name) <= _LEGAL:
        problem = f"topic name {name!r} has characters other than letters, digits, '.', '_' and '-'"
    if problem:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What a topic is to be; -1 takes the broker's default; ``assignment`` (partition -> replicas) excludes the two counts."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


ConfigCheck = Callable[[Mapping[str, str]], None]
"""Raises KafkaError INVALID_CONFIG naming the key."""

Count = Callable[[int], None]
"""Counts partitions that are about to be made or deleted. Raises KafkaError: they may not be, for there were many (KIP-599)."""


def uncounted(partitions: int) -> None:
    """Nobody counts them."""
    del partitions


class TopicRegistry:
    """Decides on topics."""

    def __init__(self, workspace: Workspace, new_uuid: Callable[[], UUID], check_configs: ConfigCheck) -> None:
        self.workspace = workspace
        self.new_uuid = new_uuid
        self.check_configs = check_configs
        self._next_start = len(workspace.image.topics)

    def create(self, desired: NewTopic, validate_only: bool = False, count: Count = uncounted) -> TopicState:
        """Create a topic, or only say what it would be; its partitions are counted before.

        Raises:
            KafkaError: what ``count`` raises;
                name, counts, assignment or configuration are not allowed; TOPIC_ALREADY_EXISTS; POLICY_VIOLATION
                when the cluster store has no room for it, or a broker has no room for more replicas.
        """
        check_topic_name(desired.name)
        image = self.workspace.image
        if desired.name in image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {desired.name!r} already exists")
        clash = image.named_alike(desired.name)
        if clash is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {desired.name!r} collides with {clash!r}: '.' and '_' are the same in metric names",
            )
        self.check_configs(desired.configs)
        rows = self._assignment(desired)
        self.workspace.check_brokers_can_host(rows)
        topic = TopicState(
            desired.name, self.new_uuid(), tuple(self._new_partition(row) for row in rows), dict(desired.configs)
        )
        self.workspace.check_room(topic)
        count(len(rows))
        if not validate_only:
            self._next_start += 1
            self.workspace.put_topic(topic)
            self.workspace.note(
                "topic_created",
                topic.name,
                topic_id=str(topic.topic_id),
                partitions=len(rows),
                replication_factor=len(rows[0]),
            )
        return topic

    def _assignment(self, desired: NewTopic) -> list[tuple[int, ...]]:
        config = self.workspace.config
        if desired.assignment:
            if desired.partitions != -1 or desired.replication_factor != -1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "give either an assignment or partitions and replication factor, not both",
                )
            self._check_count(len(desired.assignment))
            indexes = sorted(desired.assignment)
            if indexes != list(range(len(indexes))):
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partitions must be numbered from 0 without gaps: {indexes}"
                )
            rows = [tuple(desired.assignment[i]) for i in indexes]
            check_manual_assignment(rows, self._racks(active_only=False))
            self._check_somebody_is_active(rows)
            return rows
        partitions = config.default_partitions if desired.partitions == -1 else desired.partitions
        factor = config.default_replication_factor if desired.replication_factor == -1 else desired.replication_factor
        self._check_count(partitions)
        return place(self._racks(active_only=True), partitions, factor, self._next_start)

    def _check_count(self, partitions: int) -> None:
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"partitions must be between 1 and {PARTITIONS_MAX}, not {partitions}"
            )

    def _check_somebody_is_active(self, rows: Sequence[Sequence[int]], first_partition: int = 0) -> None:
        """Somebody must lead a new partition; an ISR of absent brokers would be a promise nobody made (as in Kafka)."""
        for index, row in enumerate(rows, first_partition):
            if not any(self.workspace.image.is_active(broker) for broker in row):
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"partition {index}: all of its brokers {list(row)} are fenced or shutting down",
                )

    def _racks(self, active_only: bool) -> dict[int, str | None]:
        brokers = self.workspace.image.brokers.values()
        return {b.broker_id: b.rack for b in brokers if b.active or not active_only}

    def _new_partition(self, row: tuple[int, ...]) -> PartitionState:
        """The ISR of a new partition is whoever is alive: an empty log is in sync with every other."""
        isr = tuple(r for r in row if self.workspace.image.is_active(r))
        return PartitionState(row, isr, isr[0])

    def delete(self, name: str, topic_id: UUID | None = None, count: Count = uncounted) -> ErrorCode:
        """Delete a topic, whose partitions are counted before; brokers drop its replicas when they see that its record is gone.

        Args:
            name: of the topic.
            topic_id: where it was asked for by its id: another of the same name, made since, stays (KIP-516).
            count: see there.

        Raises:
            KafkaError: what ``count`` raises.
        """
        topic = self.workspace.image.topics.get(name)
        if topic_id is not None and (topic is None or topic.topic_id != topic_id):
            return ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count(len(topic.partitions))
        self.workspace.delete_topic(topic)
        self.workspace.note("topic_deleted", name, topic_id=str(topic.topic_id))
        return ErrorCode.NONE

    def grow(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None,
        validate_only: bool,
        count_new: Count = uncounted,
    ) -> None:
        """CreatePartitions: bring a topic to ``count`` partitions; those that are new are counted before.

        Raises:
            KafkaError: what ``count_new`` raises;
                unknown topic, a count that is not larger, a bad assignment, no room in the cluster store.
        """
        topic = self.workspace.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        have = len(topic.partitions)
        if not have < count <= PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {have} partitions; the new count must be between {have + 1} and "
                f"{PARTITIONS_MAX}, not {count}",
            )
        factor = len(topic.partitions[0].replicas)
        if assignment is not None:
            rows = [tuple(row) for row in assignment]
            if len(rows) != count - have:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{count - have} new partitions need as many assignments, not {len(rows)}",
                )
            check_manual_assignment([topic.partitions[0].replicas, *rows], self._racks(active_only=False))
            self._check_somebody_is_active(rows, have)
        else:
            racks = self._racks(active_only=True)
            rows = place(racks, count - have, factor, walk_start(racks, topic.partitions[0].replicas[0]), have)
        self.workspace.check_brokers_can_host(rows)
        grown = replace(topic, partitions=(*topic.partitions, *(self._new_partition(row) for row in rows)))
        self.workspace.check_room(grown)
        count_new(count - have)
        if not validate_only:
            self.workspace.put_topic(grown)
            self.workspace.note("partitions_added", name, partitions=count)

    def set_configs(self, name: str, configs: Mapping[str, str], validate_only: bool = False) -> None:
        """Replace a topic's overrides.

        Raises:
            KafkaError: unknown topic, a bad key or value, no room in the cluster store.
        """
        topic = self.workspace.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        self.check_configs(configs)
        changed = {key for key, _ in dict(configs).items() ^ dict(topic.configs).items()}
        updated = replace(topic, configs=dict(configs))
        self.workspace.check_room(updated)
        if changed and not validate_only:
            before = self.workspace.min_isr(topic)
            self.workspace.put_topic(updated)
            self.workspace.note("topic_config_changed", name, keys=sorted(changed))
            self._min_isr_changed(updated, before, "min.insync.replicas of the topic changed")

    def adopt_defaults(self) -> None:
        """Make this controller's own default of ``min.insync.replicas`` the cluster's.

        Brokers whose files differ, as during a rolling change, must not judge by different values (KIP-966; Kafka's
        controller writes the default into the metadata for the same reason, and takes it from no broker then).
        """
        image, own = self.workspace.image, self.workspace.config.min_insync_replicas
        text = image.cluster_configs.get(MIN_ISR)
        before = None if text is None else int(text)
        if before == own:
            return
        self.workspace.put_record(CLUSTER_CONFIG, {**image.cluster_configs, MIN_ISR: str(own)})
        self.workspace.note("cluster_config_changed", key=MIN_ISR, value=str(own), previous=text)
        for topic in list(image.topics.values()):
            if MIN_ISR not in topic.configs:
                self._min_isr_changed(topic, before, "the cluster's min.insync.replicas changed")

    def _min_isr_changed(self, topic: TopicState, before: int | None, reason: str) -> None:
        rules = self.workspace.rules(topic)
        self.workspace.change_partitions(
            topic, range(len(topic.partitions)), lambda old: change_min_isr(old, rules, before), reason
        )
