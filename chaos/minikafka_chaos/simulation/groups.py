"""The groups of a simulated broker: production's host of the coordinator, with the broker's replicas as its log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minikafka.log.errors import LogError

if TYPE_CHECKING:
    from minikafka.groups.host import GroupHost

    from minikafka_chaos.simulation.broker import SimBroker


class _Told:
    """What the groups of a broker tell. Nothing may fail here but a disk that refuses; mistakes end the run."""

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker

    def emit(self, name: str, **fields: object) -> None:
        topic, partition = fields.pop("topic", None), fields.pop("partition", None)
        self._broker.world.note(f"b{self._broker.id} {name} {fields}")
        self._broker.world.event(self._broker, name, topic, partition, **fields)  # type: ignore[arg-type]
        if name == "group_deleted":
            self._broker.world.watcher.group_deleted(str(fields["group"]))

    def warn(self, line: str) -> None:
        if "was passed over" in line:  # a record of groups that cannot be read
            raise AssertionError(line)
        self._broker.world.note(f"b{self._broker.id} {line}")

    def failed(self, work: str, error: Exception) -> None:
        del work
        if not isinstance(error, (LogError, OSError)):
            raise error
        self._broker.tolerate(error)

    def recovered(self, work: str) -> None:
        """Nothing had failed."""


def host(broker: SimBroker) -> GroupHost:
    """That of a new incarnation."""
    world = broker.world

    def partition_count(topic: str) -> int:
        state = broker.image.topics.get(topic)
        return 0 if state is None else len(state.partitions)

    def later(seconds: float, event: Callable[[], None]) -> None:
        broker.later(seconds or world.load_pause(), event)

    return world.rules.group_host(
        config=world.group_config,
        offsets_partitions=world.offsets_partitions,
        clock=broker.leading.clock._replace(later=later),
        log=world.rules.internal_log(broker.leading.replicas, broker.log_dir.log_failed),
        partition_count=partition_count,
        new_id=world.new_member_id,
        told=_Told(broker),
        load_slice=world.load_slice,
    )
