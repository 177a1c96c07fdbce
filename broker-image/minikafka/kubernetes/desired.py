"""What a MiniKafkaTopic asks for, as decisions for the controller: all that it asks for in one commit, or nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from minikafka.controller.controller import Controller
from minikafka.controller.topics import NewTopic
from minikafka.kubernetes.topics import DesiredTopic, Edit
from minikafka.metadata.image import TopicState
from minikafka.protocol.errors import ErrorCode, KafkaError


def creation(name: str, desired: DesiredTopic) -> Callable[[Controller], TopicState]:
    """Make the topic. An assignment decides the counts; giving both is fine as long as they say the same."""

    def decide(controller: Controller) -> TopicState:
        new = NewTopic(
            name,
            -1 if desired.partitions is None or desired.assignment else desired.partitions,
            -1 if desired.replication_factor is None or desired.assignment else desired.replication_factor,
            {index: tuple(row) for index, row in enumerate(desired.assignment)},
            desired.config,
        )
        _check_counts(desired)
        return controller.topics.create(new)

    return decide


def _check_counts(desired: DesiredTopic) -> None:
    if not desired.assignment:
        return
    if desired.partitions not in (None, len(desired.assignment)):
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"spec.partitions is {desired.partitions}, but spec.replicaAssignment has {len(desired.assignment)} rows",
        )
    if desired.replication_factor not in (None, len(desired.assignment[0])):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"spec.replicationFactor is {desired.replication_factor}, but spec.replicaAssignment has rows of "
            f"{len(desired.assignment[0])}",
        )


def alteration(name: str, topic_id: UUID, edit: Edit) -> Callable[[Controller], None]:
    """Grow and configure the topic of this id; if it is another by now, do nothing."""

    def decide(controller: Controller) -> None:
        topic = controller.image.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            return
        if edit.replication_factor is not None:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"topic {name!r} has {len(topic.partitions[0].replicas)} replicas of each partition; "
                f"spec.replicationFactor={edit.replication_factor} cannot be had by editing",
            )
        configs = {**topic.configs, **{k: v for k, v in edit.config.items() if v is not None}}
        for key in [k for k, v in edit.config.items() if v is None]:
            configs.pop(key, None)
        controller.topics.set_configs(name, configs, validate_only=True)
        added = (edit.partitions or 0) - len(topic.partitions)
        larger = (*topic.partitions, *topic.partitions[:1] * added)
        controller.workspace.check_room(replace(topic, configs=configs, partitions=larger))
        if edit.partitions is not None and edit.partitions != len(topic.partitions):
            controller.topics.grow(name, edit.partitions, None, validate_only=False)
        controller.topics.set_configs(name, configs)

    return decide


def deletion(name: str, topic_id: UUID) -> Callable[[Controller], None]:
    """Delete the topic of this id; if it is another by now, do nothing."""

    def decide(controller: Controller) -> None:
        topic = controller.image.topics.get(name)
        if topic is not None and topic.topic_id == topic_id:
            controller.topics.delete(name)

    return decide
