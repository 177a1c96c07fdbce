"""How every simulated member of a consumer group goes about it: it joins, takes its share, and does one thing at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from minikafka.groups.placement import OFFSETS_TOPIC, partition_for
from minikafka.groups.records import CommittedOffset
from minikafka.groups.requests import (
    UNKNOWN_MEMBER,
    CommitRequest,
    FetchResult,
    GroupProtocol,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from minikafka.groups.subscription import CONSUMER_PROTOCOL_TYPE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.machine.network import Handler

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.cluster.cluster import SimCluster

RETRY_S: Final = 0.05
TIMEOUT_S: Final = 0.5
"""How long most answers are waited for."""
REJOIN: Final = frozenset((ErrorCode.REBALANCE_IN_PROGRESS,))
FENCED: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION))

Committed = Mapping[TopicPartition, CommittedOffset | None]


def subscription(topic: str) -> bytes:
    """``ConsumerProtocolSubscription`` version 0 of a member that reads one topic."""
    name = topic.encode()
    return b"\0\0\0\0\0\x01" + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"


class Duty:
    """What a member of a group does with its share."""

    session_ms: int
    rebalance_ms: int
    member: GroupMember

    def begin(self, member: GroupMember) -> None:
        """There is such a member, which has not joined yet."""
        self.member = member

    @property
    def settled(self) -> bool:
        """It has nothing left to do."""
        return True

    def forget(self) -> None:
        """It is nobody's member any more."""

    def assigned(self) -> None:
        """It has its share of this generation, and asks where to begin."""

    def committed(self, offsets: Committed, asked: float) -> None:
        """What is committed of its share, which was asked for at some time."""
        raise NotImplementedError

    def give_back(self, then: Callable[[], None]) -> None:
        """Its share is about to be another's: in a rebalance, or for it leaves."""
        then()

    def go_on(self) -> None:
        """The next thing that a member does."""
        raise NotImplementedError


class GroupMember(Client):
    """A member of a group. `shared`: the partitions that the group shares, all of one topic; times in milliseconds."""

    def __init__(
        self, world: SimCluster, group: str, shared: Iterable[TopicPartition], duty: Duty, number: int = 0
    ) -> None:
        super().__init__(world)
        self.group = group
        self.number = number
        self.shared = tuple(shared)
        self.tp = TopicPartition(OFFSETS_TOPIC, partition_for(group, world.offsets_partitions))
        self.member_id = UNKNOWN_MEMBER
        self.generation = -1
        self.assigned: tuple[TopicPartition, ...] = ()
        self.protocol: tuple[str | None, str | None] = (None, None)
        """Type and name, as the coordinator has chosen."""
        self.stable = False
        self.finishing = False
        """There are no more faults."""
        self._step = 0
        self.duty = duty
        duty.begin(self)

    @property
    def settled(self) -> bool:
        """It has its share, and has done with it what is to be done after the faults."""
        return self.stable and self.duty.settled

    # -- one thing at a time ------------------------------------------------------------------------------------------

    def later(self, seconds: float, event: Callable[[], None]) -> None:
        """Do this then, and nothing that was to be done before."""
        self._step += 1
        step = self._step

        def due() -> None:
            if self._step == step:
                event()

        self.world.scheduler.at(seconds, due)

    def ask(
        self, serve: Handler[SimBroker], answered: Callable[[Any], None], lost: Callable[[], None], timeout: float
    ) -> None:
        """A request to the coordinator; ``lost``: there was no answer, and may be none."""
        self.ask_broker(self.leader(self.tp)[0], serve, answered, lost, timeout)

    def ask_broker(
        self,
        broker: int,
        serve: Handler[SimBroker],
        answered: Callable[[Any], None],
        lost: Callable[[], None],
        timeout: float,
    ) -> None:
        """A request to a broker, -1 when it is not known."""
        self._step += 1
        step = self._step

        def answer(value: Any) -> None:
            if self._step == step:
                answered(value)

        def late() -> None:
            if self._step == step:
                lost()

        if broker < 0:
            self.world.scheduler.at(RETRY_S, late)
            return
        self.world.network.request(broker, serve, answer, lambda: self.world.scheduler.at(RETRY_S, late))
        self.world.scheduler.at(timeout, late)

    def forget(self) -> None:
        """Be nobody's member, and do nothing."""
        self._step += 1
        self.duty.forget()
        self.member_id, self.generation, self.assigned, self.stable = UNKNOWN_MEMBER, -1, (), False

    # -- joining ------------------------------------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        """How long an answer to JoinGroup or SyncGroup is waited for: as long as a rebalance may take."""
        return self.duty.rebalance_ms / 1000 + 1.2

    def join(self) -> None:
        if self.stable:
            self.stable = False
            self.duty.give_back(self.join)
            return
        request = JoinRequest(
            self.group,
            self.member_id,
            CONSUMER_PROTOCOL_TYPE,
            (GroupProtocol("range", subscription(self.shared[0].topic)),),
            self.duty.session_ms,
            self.duty.rebalance_ms,
            require_known_member_id=True,
        )
        self.ask(
            lambda broker, reply: broker.coordinator.join(request, reply),
            self._joined,
            self._join_again,
            self._patience,
        )

    def _join_again(self) -> None:
        self.later(RETRY_S, self.join)

    def _joined(self, result: JoinResult) -> None:
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self.join()
        elif result.error is ErrorCode.NONE:
            self.member_id, self.generation = result.member_id, result.generation
            self.protocol = result.protocol_type, result.protocol_name
            members = [member.member_id for member in result.members]
            self._sync(self._shares(members) if result.leader == self.member_id else {})
        else:
            self.refused(result.error)

    def _shares(self, members: Iterable[str]) -> dict[str, bytes]:
        """To each its partitions, in turn."""
        names = sorted(members)
        return {
            name: json.dumps([tp.partition for tp in self.shared[number :: len(names)]]).encode()
            for number, name in enumerate(names)
        }

    def _sync(self, assignments: dict[str, bytes]) -> None:
        request = SyncRequest(self.group, self.member_id, self.generation, assignments, None, *self.protocol)
        self.ask(
            lambda broker, reply: broker.coordinator.sync(request, reply),
            self._synced,
            self._join_again,
            self._patience,
        )

    def _synced(self, result: SyncResult) -> None:
        if result.error is not ErrorCode.NONE:
            self.refused(result.error)
            return
        topic = self.shared[0].topic
        self.assigned = tuple(TopicPartition(topic, index) for index in json.loads(result.assignment or b"[]"))
        self.duty.assigned()
        asked = self.world.now

        def answered(result: FetchResult) -> None:
            if result.error is ErrorCode.NONE:
                self.duty.committed(result.offsets, asked)
                self.stable = True
                self.duty.go_on()
            else:
                self.refused(result.error)

        self.ask(
            lambda broker, reply: broker.coordinator.fetch(self.group, self.assigned, reply),
            answered,
            self._join_again,
            TIMEOUT_S,
        )

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        answered: Callable[[ErrorCode], None],
        lost: Callable[[], None],
        timeout: float,
    ) -> None:
        """Commit these; ``answered`` gets the first error, or none."""
        committed = {tp: CommittedOffset(offset) for tp, offset in offsets.items()}
        request = CommitRequest(self.group, committed, self.member_id, generation=self.generation)

        def answer(results: dict[TopicPartition, ErrorCode]) -> None:
            answered(next((code for code in results.values() if code is not ErrorCode.NONE), ErrorCode.NONE))

        self.ask(lambda broker, reply: broker.coordinator.commit(request, reply), answer, lost, timeout)

    def leave(self, then: Callable[[], None]) -> None:
        """Tell the coordinator, whatever it says."""
        identity = MemberIdentity(self.member_id)
        self.ask(
            lambda broker, reply: broker.coordinator.leave(self.group, identity, reply),
            lambda _: then(),
            then,
            TIMEOUT_S,
        )

    def refused(self, error: ErrorCode) -> None:
        """What a client does about an error of its coordinator."""
        if error in FENCED:
            self.anew()
        elif error in REJOIN:
            self.join()
        else:  # it is loading, is another, or cannot be reached
            self.later(RETRY_S, self.duty.go_on if self.stable else self.join)

    def anew(self) -> None:
        """As a new member."""
        self.forget()
        self.later(RETRY_S, self.join)

    def heartbeat(self) -> None:
        member_id, generation = self.member_id, self.generation

        def answered(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.duty.go_on()
            else:
                self.refused(error)

        self.ask(
            lambda broker, reply: broker.coordinator.heartbeat(self.group, member_id, generation, reply),
            answered,
            self.duty.go_on,
            TIMEOUT_S,
        )
