"""The groups of a simulated broker: production's host of the coordinator, with the broker's replicas as its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from minikafka.groups.requests import (
    CommitRequest,
    FetchResult,
    JoinRequest,
    JoinResult,
    LeaveResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from minikafka.log.errors import LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

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


class Coordinator:
    """What members ask of a broker's coordinator; the answer comes to ``reply``, now or later."""

    def __init__(self, host: GroupHost) -> None:
        self._host = host

    def join(self, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        self._host.join(request, reply)

    def sync(self, request: SyncRequest, reply: Callable[[SyncResult], None]) -> None:
        self._host.sync(request, reply)

    def commit(self, request: CommitRequest, reply: Callable[[Mapping[TopicPartition, ErrorCode]], None]) -> None:
        self._host.commit(request, reply)

    def heartbeat(self, group: str, member_id: str, generation: int, reply: Callable[[ErrorCode], None]) -> None:
        reply(self._host.heartbeat(group, member_id, None, generation))

    def fetch(self, group: str, wanted: Sequence[TopicPartition], reply: Callable[[FetchResult], None]) -> None:
        reply(self._host.fetch(group, wanted))

    def leave(self, group: str, member: MemberIdentity, reply: Callable[[LeaveResult], None]) -> None:
        reply(self._host.leave(group, [member]))


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
