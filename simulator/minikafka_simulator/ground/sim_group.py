"""The consumer group of the simulation ground: see `minikafka_chaos.load.clients.WorkloadGroup`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from minikafka.controller.topics import NewTopic
from minikafka.groups.config import offsets_topic_overrides
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import GroupSettings
from minikafka_chaos.load.load import MEMBER_PROCESS
from minikafka_chaos.record.history import HistoryWriter

from minikafka_simulator.clients.group_member import RETRY_S, GroupMember
from minikafka_simulator.ground.sim_member import Working
from minikafka_simulator.ground.sim_reliable_member import WorkingReliably

if TYPE_CHECKING:
    from minikafka_simulator.ground.configured import ConfiguredCluster

TOPIC_S: Final = 30.0
LEAVE_S: Final = 10.0

MakeTopic = Callable[[NewTopic], object]
"""Ask for a topic, once; whoever asks looks by himself whether it is there."""


class SimGroup:
    """Members numbered from 1."""

    def __init__(
        self,
        cluster: ConfiguredCluster,
        settings: GroupSettings,
        partitions: Sequence[TopicPartition],
        history: HistoryWriter,
        make_topic: MakeTopic,
    ) -> None:
        self.cluster = cluster
        self.history = history
        self.failure: BaseException | None = None
        self.stands: dict[TopicPartition, int] = {}
        """Where the group is: the last place where a member was put, or that was committed."""
        self._settings = settings
        self._partitions = tuple(partitions)
        self._make_topic = make_topic
        self._members: dict[int, Working] = {}
        self._processes = MEMBER_PROCESS

    def start(self) -> None:
        """All members of the beginning. The first that looks for its coordinator has the topic of offsets made."""
        cluster, config = self.cluster, self.cluster.config
        deadline = cluster.now + TOPIC_S
        while not any(OFFSETS_TOPIC in broker.image.topics for broker in cluster.brokers.values() if broker.up):
            if cluster.now > deadline:
                raise ToolTrouble(f"{OFFSETS_TOPIC} is not there after {TOPIC_S:g} s")
            replicas = config.offsets_topic_replication_factor
            overrides = offsets_topic_overrides(config)
            self._make_topic(NewTopic(OFFSETS_TOPIC, cluster.offsets_partitions, replicas, configs=overrides))
            cluster.run_for(RETRY_S)
        for number in range(1, self._settings.members + 1):
            self.start_member(number)

    def start_member(self, number: int) -> None:
        known = self._members.get(number)
        if known is not None and not known.over:
            raise ToolTrouble(f"member {number} runs")
        self._processes += 1
        self.history.join(self._processes, self._settings.group)
        kind = WorkingReliably if self._settings.poison_every else Working
        duty = self._members[number] = kind(self, self._settings, self._processes)
        GroupMember(self.cluster, self._settings.group, self._partitions, duty, number)

    def crash_member(self, number: int, moment: str, deadline_s: float) -> bool:
        member = self._members.get(number)
        if member is None or member.over:
            raise ToolTrouble(f"member {number} does not run")
        member.dies = moment
        return self.cluster.run_until(lambda: member.over, deadline_s)

    def lag(self) -> int | None:
        lag = 0
        for tp in self._partitions:
            end = self._end(tp)
            if end is None or (tp not in self.stands and end > 0):
                return None
            lag += abs(end - self.stands.get(tp, 0))
        return lag

    def _end(self, tp: TopicPartition) -> int | None:
        """As the leader tells it, None when nobody does."""
        for broker in self.cluster.brokers.values():
            partition = broker.partitions.get(tp) if broker.up and not broker.paused else None
            if partition is not None and partition.leader is not None:
                return partition.leader.end_offset_for_clients()
        return None

    def state(self) -> str | None:
        for broker in self.cluster.brokers.values():
            if broker.up and not broker.paused:
                found = broker.groups.coordinator.describe_group(self._settings.group)
                if found.error is ErrorCode.NONE:
                    return found.state
        return None

    def stop(self) -> None:
        """All leave."""
        for member in self._members.values():
            member.leaves = True
        self.cluster.run_until(lambda: all(member.over for member in self._members.values()), LEAVE_S)
