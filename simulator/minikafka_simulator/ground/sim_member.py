"""What a member of the simulation ground's consumer group does: reads, works, commits (or commits, and then works).

It does what `minikafka_chaos.load.group_member` does with librdkafka, and looks up itself where to begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.clients import GroupSettings
from minikafka_chaos.load.load import unique_part

from minikafka_simulator.clients.group_member import TIMEOUT_S, Committed, Duty, GroupMember
from minikafka_simulator.clients.log_reader import LogPosition

if TYPE_CHECKING:
    from minikafka_simulator.ground.sim_group import SimGroup

BEATS: Final = 3
"""Heartbeats in a session, as by default."""
POLL_S: Final = 0.1
NOWHERE: Final = -1
"""The position of who does not know yet where to begin."""
FETCH_BYTES: Final = 2_000
"""Few records, so that commits are often and a crash in between takes few."""
COMMIT_TIMEOUT_S: Final = 10.0


class Working(Duty):
    """One process of a member. `process`: its number in the history."""

    rebalance_ms = 300_000
    """max.poll.interval.ms, by which librdkafka's members let a rebalance wait for them."""

    def __init__(self, group: SimGroup, settings: GroupSettings, process: int) -> None:
        self.session_ms = settings.session_timeout_ms
        self.process = process
        self.dies = ""
        self.leaves = self.over = False
        self.world = group.cluster
        self._owner = group
        self._history = group.history
        self._settings = settings
        self._places: dict[TopicPartition, LogPosition] = {}
        self._batch = 0
        self._beat_at = 0.0
        """When the next heartbeat is due, whatever else the coordinator hears: only its answer tells of a rebalance."""

    def begin(self, member: GroupMember) -> None:
        super().begin(member)
        self.world.scheduler.at(0.0, member.join)

    def _ends(self) -> None:
        """Its process is no more."""
        self.member.forget()
        self.over = True

    # -- where to begin -------------------------------------------------------------------------------------------------

    def committed(self, offsets: Committed, asked: float) -> None:
        del asked
        self._places = {tp: LogPosition(self.world, tp, NOWHERE) for tp in self.member.assigned}
        for tp, committed in offsets.items():
            if committed is not None:
                self._put(self._places[tp], committed.offset)
        self._beat_later()

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

        self.member.ask_broker(leader, place.bounds(epoch), answered, self.go_on, TIMEOUT_S)

    # -- reading, working, committing -----------------------------------------------------------------------------------

    def go_on(self) -> None:
        if self.leaves:
            self.give_back(lambda: self.member.leave(self._ends))
            return
        if self.world.now >= self._beat_at:
            self._beat_later()
            self.member.heartbeat()
            return
        if not self.member.assigned:
            self.member.later(POLL_S, self.go_on)
            return
        self._batch += 1
        place = self._places[self.member.assigned[self._batch % len(self.member.assigned)]]
        if place.position == NOWHERE:
            self._reset(place)
        else:
            self._poll(place)

    def _beat_later(self) -> None:
        self._beat_at = self.world.now + self.session_ms / 1000 / BEATS

    def _poll(self, place: LogPosition) -> None:
        leader, epoch = place.leader(place.tp)

        def answered(answer: Any) -> None:
            error, raw, parted = answer
            if parted is not None or error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._reset(place)
            elif not error and (records := self._take(place, raw)):
                self._work_on(place, records)
            else:
                self.member.later(POLL_S, self.go_on)

        self.member.ask_broker(leader, place.fetch(epoch, FETCH_BYTES), answered, self.go_on, TIMEOUT_S)

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
            self._commit({place.tp: records[-1].offset + 1}, then)

        first, second = (commit, process) if self._settings.commits_first else (process, commit)

        def between() -> None:
            if self.dies:
                self._ends()
            else:
                second(self.go_on)

        first(between)

    def _commit(self, offsets: Mapping[TopicPartition, int], then: Callable[[], None]) -> None:
        """Where it is refused (a rebalance, a coordinator that died) the member goes on, as programs with auto-commit do."""

        def answered(error: ErrorCode) -> None:
            self._commit_ended(offsets, None if error is ErrorCode.NONE else error.name)
            if self.dies or error in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                then()
            else:
                self.member.refused(error)

        def lost() -> None:
            self._commit_ended(offsets, "_TIMED_OUT")
            then()

        self.member.commit(offsets, answered, lost, COMMIT_TIMEOUT_S)

    def _commit_ended(self, offsets: Mapping[TopicPartition, int], error: str | None) -> None:
        """Write down what became of a commit; with an error nobody knows."""
        for tp, offset in offsets.items():
            self._history.commit(self.process, *tp, offset, error)
            if error is None:
                self._owner.stands[tp] = offset
