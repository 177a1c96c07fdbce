"""An administrator of simulated brokers, who has the controller decide without a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minikafka.controller.controller import Controller
from minikafka.controller.topics import NewTopic
from minikafka.log.errors import LogError
from minikafka.metadata.image import MIN_ISR
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.offsets import delete_records

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.world import World


class Admin:
    """``ask``: has whoever is the controller decide something."""

    def __init__(self, world: World, ask: Callable[[Callable[[Controller], Any]], None]) -> None:
        self._world = world
        self._ask = ask

    def elect(self) -> None:
        """Preferred leaders, everywhere."""
        self._ask(lambda c: c.partitions.rebalance_leaders())

    def set_min_isr(self, topic: str, value: str | None) -> None:
        """None: the cluster's default again."""
        self._ask(lambda c: c.topics.set_configs(topic, {} if value is None else {MIN_ISR: value}))

    def reassign(self, tp: TopicPartition, replicas: Sequence[int]) -> None:
        self._ask(lambda c: c.partitions.reassign(tp.topic, tp.partition, tuple(replicas)))

    def remake(self, desired: NewTopic, make_anew: bool) -> None:
        """Make the topic, or delete the one of its name, and then perhaps make it, all at once."""

        def decide(controller: Controller) -> None:
            there = desired.name in controller.workspace.image.topics
            if there:
                controller.topics.delete(desired.name)
            if not there or make_anew:
                try:
                    controller.topics.create(desired)
                except KafkaError:
                    return  # too few brokers are active

        self._ask(decide)

    def delete_records(self, leader: SimBroker, tp: TopicPartition, before: int) -> None:
        world, partition = self._world, leader.partitions[tp]
        start = partition.log.log_start_offset
        try:
            error, _ = delete_records(partition, before)
            if error:
                return
            partition.log.delete_old_segments(world.now_ms, partition.high_watermark)
            if partition.log.log_start_offset > max(start, before):  # some of the rest was old by then
                world.watcher.retained(leader, partition, partition.log.log_start_offset)
        except LogError as error:
            leader.log_dir.log_failed(partition, error)
        world.note(f"b{leader.id} {tp} log start {start} -> {before}")
