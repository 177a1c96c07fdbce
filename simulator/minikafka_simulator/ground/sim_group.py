"""The consumer group of the simulation ground: see `minikafka_chaos.load.clients.WorkloadGroup`.

Its members do what `minikafka_chaos.load.group_member` does with librdkafka: read, work, commit (or commit, and then work), and
look up themselves where to begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from minikafka.controller.topics import NewTopic
from minikafka.groups.config import offsets_topic_overrides
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.groups.records import CommittedOffset
from minikafka.groups.requests import CommitRequest, FetchResult, LeaveResult, MemberIdentity
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import GroupSettings
from minikafka_chaos.load.load import MEMBER_PROCESS, unique_part
from minikafka_chaos.record.history import HistoryWriter

from minikafka_simulator.clients.group_client import RETRY_S, TIMEOUT_S, GroupClient
from minikafka_simulator.clients.log_reader import LogPosition

if TYPE_CHECKING:
    from minikafka_simulator.ground.configured import ConfiguredCluster

REBALANCE_MS: Final = 300_000
"""max.poll.interval.ms, by which librdkafka's members let a rebalance wait for them."""
BEATS: Final = 3
"""Heartbeats in a session, as by default."""
POLL_S: Final = 0.1
NOWHERE: Final = -1
"""The position of who does not know yet where to begin."""
FETCH_BYTES: Final = 2_000
"""Few records, so that commits are often and a crash in between takes few."""
COMMIT_TIMEOUT_S: Final = 10.0
TOPIC_S, LEAVE_S = 30.0, 10.0

MakeTopic = Callable[[NewTopic], object]
"""Ask for a topic, once; whoever asks looks by himself whether it is there."""


class SimMember(GroupClient):
    """One process of a member. `process`: its number in the history."""

    world: ConfiguredCluster

    def __init__(
        self, group: SimGroup, settings: GroupSettings, partitions: Sequence[TopicPartition], process: int
    ) -> None:
        super().__init__(group.cluster, settings.group, partitions, settings.session_timeout_ms, REBALANCE_MS)
        self.process = process
        self.dies = self.leaves = self.over = False
        self._owner = group
        self._history = group.history
        self._settings = settings
        self._places: dict[TopicPartition, LogPosition] = {}
        self._batch = 0
        self._beat_at = 0.0
        """When the next heartbeat is due, whatever else the coordinator hears: only its answer tells of a rebalance."""
        self.world.scheduler.at(0.0, self.join)

    def _ends(self) -> None:
        """Its process is no more."""
        self.forget()
        self.over = True

    # -- where to begin -------------------------------------------------------------------------------------------------

    def given(self) -> None:
        def answered(result: FetchResult) -> None:
            if result.error is not ErrorCode.NONE:
                self.refused(result.error)
                return
            self._places = {tp: LogPosition(self.world, tp, NOWHERE) for tp in self.assigned}
            for tp, committed in result.offsets.items():
                if committed is not None:
                    self._put(self._places[tp], committed.offset)
            self.stable = True
            self._beat_later()
            self.go_on()

        self.ask(
            lambda broker, reply: broker.coordinator.fetch(self.group, self.assigned, reply),
            answered,
            lambda: self.later(RETRY_S, self.join),
            TIMEOUT_S,
        )

    def _put(self, place: LogPosition, offset: int) -> None:
        place.put(offset)
        self._history.assign(self.process, *place.tp, offset)
        self._owner.stands[place.tp] = offset

    def _reset(self, place: LogPosition) -> None:
        """The reset policy: nothing is committed, or the log is not there."""
        leader, epoch = place.leader(place.tp)

        def answered(answer: Any) -> None:
            start, end, _ = answer
            self._put(place, start if self._settings.reset == "earliest" else end)
            self.go_on()

        self.ask_broker(leader, place.bounds(epoch), answered, self.go_on, TIMEOUT_S)

    # -- reading, working, committing -----------------------------------------------------------------------------------

    def go_on(self) -> None:
        if self.leaves:
            self._leave()
            return
        if self.world.now >= self._beat_at:
            self._beat_later()
            self.heartbeat()
            return
        if not self.assigned:
            self.later(POLL_S, self.go_on)
            return
        self._batch += 1
        place = self._places[self.assigned[self._batch % len(self.assigned)]]
        if place.position == NOWHERE:
            self._reset(place)
        else:
            self._poll(place)

    def _beat_later(self) -> None:
        self._beat_at = self.world.now + self._session_ms / 1000 / BEATS

    def _poll(self, place: LogPosition) -> None:
        leader, epoch = place.leader(place.tp)

        def answered(answer: Any) -> None:
            error, raw, parted = answer
            if parted is not None or error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._reset(place)
            elif not error and (records := self._take(place, raw)):
                self._work_on(place, records)
            else:
                self.later(POLL_S, self.go_on)

        self.ask_broker(leader, place.fetch(epoch, FETCH_BYTES), answered, self.go_on, TIMEOUT_S)

    def _take(self, place: LogPosition, raw: bytes) -> list[Record]:
        found = []
        for header, _, record in place.read(raw):
            value, epoch = unique_part(record.value), header.partition_leader_epoch
            self._history.poll(self.process, self._batch, *place.tp, record.offset, value, epoch)
            found.append(record)
        return found

    def _work_on(self, place: LogPosition, records: list[Record]) -> None:
        def process(then: Callable[[], None]) -> None:
            for record in records:
                self._history.process(self.process, *place.tp, record.offset, unique_part(record.value))
            then()

        def commit(then: Callable[[], None]) -> None:
            self._commit(place.tp, records[-1].offset + 1, then)

        first, second = (commit, process) if self._settings.commits_first else (process, commit)

        def between() -> None:
            if self.dies:
                self._ends()
            else:
                second(self.go_on)

        first(between)

    def _commit(self, tp: TopicPartition, offset: int, then: Callable[[], None]) -> None:
        """Where it is refused (a rebalance, a coordinator that died) the member goes on, as programs with auto-commit do."""
        request = CommitRequest(self.group, {tp: CommittedOffset(offset)}, self.member_id, generation=self.generation)

        def commit_ended(error: str | None) -> None:
            self._history.commit(self.process, *tp, offset, error)
            if error is None:
                self._owner.stands[tp] = offset

        def answered(results: dict[TopicPartition, ErrorCode]) -> None:
            error = results[tp]
            commit_ended(None if error is ErrorCode.NONE else error.name)
            if error in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                then()
            else:
                then() if self.dies else self.refused(error)

        def lost() -> None:
            commit_ended("_TIMED_OUT")
            then()

        self.ask(lambda broker, reply: broker.coordinator.commit(request, reply), answered, lost, COMMIT_TIMEOUT_S)

    def _leave(self) -> None:
        identity = MemberIdentity(self.member_id)

        def answered(_: LeaveResult) -> None:
            self._ends()

        self.ask(
            lambda broker, reply: broker.coordinator.leave(self.group, identity, reply), answered, self._ends, TIMEOUT_S
        )


class SimGroup:
    """Members numbered from 1."""

    failure: BaseException | None = None

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
        self.stands: dict[TopicPartition, int] = {}
        """Where the group is: the last place where a member was put, or that was committed."""
        self._settings = settings
        self._partitions = tuple(partitions)
        self._make_topic = make_topic
        self._members: dict[int, SimMember] = {}
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
        self._members[number] = SimMember(self, self._settings, self._partitions, self._processes)

    def crash_member(self, number: int, deadline_s: float) -> bool:
        member = self._members.get(number)
        if member is None or member.over:
            raise ToolTrouble(f"member {number} does not run")
        member.dies = True
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
