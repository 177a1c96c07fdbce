"""What all simulated members of consumer groups have in common: they join, take their share, and do one thing at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from minikafka.groups.placement import OFFSETS_TOPIC, partition_for
from minikafka.groups.records import CommittedOffset
from minikafka.groups.requests import (
    UNKNOWN_MEMBER,
    FetchResult,
    GroupProtocol,
    JoinRequest,
    JoinResult,
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


def subscription(topic: str) -> bytes:
    """``ConsumerProtocolSubscription`` version 0 of a member that reads one topic."""
    name = topic.encode()
    return b"\0\0\0\0\0\x01" + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"


class GroupClient(Client):
    """A member of a group. `shared`: the partitions that the group shares, all of one topic; times in milliseconds."""

    def __init__(
        self, world: SimCluster, group: str, shared: Iterable[TopicPartition], session_ms: int, rebalance_ms: int
    ) -> None:
        super().__init__(world)
        self.group = group
        self.shared = tuple(shared)
        self.tp = TopicPartition(OFFSETS_TOPIC, partition_for(group, world.offsets_partitions))
        self.member_id = UNKNOWN_MEMBER
        self.generation = -1
        self.assigned: tuple[TopicPartition, ...] = ()
        self.protocol: tuple[str | None, str | None] = (None, None)
        """Type and name, as the coordinator has chosen."""
        self.stable = False
        self._session_ms, self._rebalance_ms = session_ms, rebalance_ms
        self._step = 0

    # -- what a member is for -----------------------------------------------------------------------------------------

    def given(self) -> None:
        """It has its share of this generation: find out where to begin, and then be `stable` and go on."""
        raise NotImplementedError

    def go_on(self) -> None:
        """The next thing that a member does."""
        raise NotImplementedError

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
        self.member_id, self.generation, self.assigned, self.stable = UNKNOWN_MEMBER, -1, (), False

    # -- joining ------------------------------------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        """How long an answer to JoinGroup or SyncGroup is waited for: as long as a rebalance may take."""
        return self._rebalance_ms / 1000 + 1.2

    def join(self) -> None:
        self.stable = False
        request = JoinRequest(
            self.group,
            self.member_id,
            CONSUMER_PROTOCOL_TYPE,
            (GroupProtocol("range", subscription(self.shared[0].topic)),),
            self._session_ms,
            self._rebalance_ms,
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
        self.given()

    def ask_committed(self, take: Callable[[Mapping[TopicPartition, CommittedOffset | None]], None]) -> None:
        """Ask for the committed offsets of its share; it does what a refusal says, and joins anew where there is no answer."""

        def answered(result: FetchResult) -> None:
            if result.error is ErrorCode.NONE:
                take(result.offsets)
            else:
                self.refused(result.error)

        self.ask(
            lambda broker, reply: broker.coordinator.fetch(self.group, self.assigned, reply),
            answered,
            lambda: self.later(RETRY_S, self.join),
            TIMEOUT_S,
        )

    def refused(self, error: ErrorCode) -> None:
        """What a client does about an error of its coordinator."""
        if error in FENCED:
            self.anew()
        elif error in REJOIN:
            self.join()
        else:  # it is loading, is another, or cannot be reached
            self.later(RETRY_S, self.go_on if self.stable else self.join)

    def anew(self) -> None:
        """As a new member."""
        self.forget()
        self.later(RETRY_S, self.join)

    def heartbeat(self) -> None:
        member_id, generation = self.member_id, self.generation

        def answered(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.go_on()
            else:
                self.refused(error)

        self.ask(
            lambda broker, reply: broker.coordinator.heartbeat(self.group, member_id, generation, reply),
            answered,
            self.go_on,
            TIMEOUT_S,
        )
