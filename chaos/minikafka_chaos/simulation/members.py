"""Members of a consumer group: they join, share partitions, commit offsets, and now and then die without a word."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
    SyncRequest,
    SyncResult,
)
from minikafka.groups.subscription import CONSUMER_PROTOCOL_TYPE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.simulation.group_checks import SHARED, TOPIC, Fetched, SentCommit
from minikafka_chaos.simulation.metadata_client import Client
from minikafka_chaos.simulation.network import CLIENT, Handler

if TYPE_CHECKING:
    from minikafka_chaos.simulation.world import World

SUBSCRIPTION: Final = b"\0\0\0\0\0\x01\0\x06ledger\xff\xff\xff\xff"
"""``ConsumerProtocolSubscription`` version 0."""
SESSION_MS, REBALANCE_MS = 600, 800
RETRY_S, TIMEOUT_S = 0.05, 0.5
REBALANCE_TIMEOUT_S = 2.0
"""How long an answer to JoinGroup or SyncGroup is waited for."""
LIFE_S = 3.0
"""Mean time until a member dies while there are faults."""

HANG_CHANCE: Final = 0.04
"""That a member does nothing for a while, longer than its session perhaps, and then goes on as if nothing had been."""

REJOIN: Final = frozenset((ErrorCode.REBALANCE_IN_PROGRESS,))
FENCED: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION))


class GroupMember(Client):
    """One process after the other, each a new member of the group."""

    world: World

    def __init__(self, world: World, group: str, number: int) -> None:
        super().__init__(world)
        self.group = group
        self.number = number
        self.tp = TopicPartition(OFFSETS_TOPIC, partition_for(group, world.offsets_partitions))
        self.member_id = UNKNOWN_MEMBER
        self.generation = -1
        self.assigned: tuple[TopicPartition, ...] = ()
        self.stable = False
        self.finishing = False
        self.committed_in = -1
        """The generation of the last acknowledged commit, once there are no more faults."""
        self._fetched: dict[TopicPartition, Fetched] = {}
        self._step = 0
        world.scheduler.at(world.random.uniform(0.1, 0.5), self._join)
        self._dies_later()

    @property
    def settled(self) -> bool:
        """It has its share, and has committed of it after the faults: one partition, so that others stay as they were."""
        return self.stable and (not self.assigned or self.committed_in == self.generation)

    # -- one thing at a time ------------------------------------------------------------------------------------------

    def _later(self, seconds: float, event: Callable[[], None]) -> None:
        self._step += 1
        step = self._step

        def due() -> None:
            if self._step == step:
                event()

        self.world.scheduler.at(seconds, due)

    def _ask(self, serve: Handler, answered: Callable[[Any], None], lost: Callable[[], None], timeout: float) -> None:
        """A request to the coordinator; ``lost``: there was no answer, and may be none."""
        self._step += 1
        step = self._step
        coordinator, _ = self.leader(self.tp)

        def answer(value: Any) -> None:
            if self._step == step:
                answered(value)

        def late() -> None:
            if self._step == step:
                lost()

        if coordinator < 0:
            self.world.scheduler.at(RETRY_S, late)
            return
        self.world.network.request(CLIENT, coordinator, serve, answer, lambda: self.world.scheduler.at(RETRY_S, late))
        self.world.scheduler.at(timeout, late)

    # -- life ---------------------------------------------------------------------------------------------------------

    def _dies_later(self) -> None:
        self.world.scheduler.at(self.world.random.expovariate(1 / LIFE_S), self._die)

    def _die(self) -> None:
        """Without a word, as after kill -9; somebody else comes in its place, before or after its session is over."""
        if self.finishing:
            return
        self.world.note(f"member {self.number} of {self.group} dies ({self.member_id or 'unknown'})")
        self._begin_anew()
        self._later(self.world.random.uniform(0.01, 1.5), self._join)
        self._dies_later()

    def _begin_anew(self) -> None:
        self.member_id, self.generation, self.assigned, self.stable = UNKNOWN_MEMBER, -1, (), False
        self._fetched.clear()

    def _anew(self) -> None:
        self._begin_anew()
        self._later(RETRY_S, self._join)

    # -- joining ------------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        self.stable = False
        request = JoinRequest(
            self.group,
            self.member_id,
            CONSUMER_PROTOCOL_TYPE,
            (GroupProtocol("range", SUBSCRIPTION),),
            SESSION_MS,
            REBALANCE_MS,
            require_known_member_id=True,
        )
        self._ask(
            lambda broker, reply: broker.groups.join(request, reply),
            self._joined,
            lambda: self._later(RETRY_S, self._join),
            REBALANCE_TIMEOUT_S,
        )

    def _joined(self, result: JoinResult) -> None:
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self._join()
        elif result.error is ErrorCode.NONE:
            self.member_id, self.generation = result.member_id, result.generation
            members = [member.member_id for member in result.members]
            self._sync(_shares(members) if result.leader == self.member_id else {})
        else:
            self._refused(result.error)

    def _sync(self, assignments: dict[str, bytes]) -> None:
        request = SyncRequest(self.group, self.member_id, self.generation, assignments)
        self._ask(
            lambda broker, reply: broker.groups.sync(request, reply),
            self._synced,
            lambda: self._later(RETRY_S, self._join),
            REBALANCE_TIMEOUT_S,
        )

    def _synced(self, result: SyncResult) -> None:
        if result.error is not ErrorCode.NONE:
            self._refused(result.error)
            return
        self.assigned = tuple(TopicPartition(TOPIC, index) for index in json.loads(result.assignment or b"[]"))
        self.world.checker.groups.assigned(self)
        self._fetched.clear()
        self._fetch()

    def _fetch(self) -> None:
        asked = self.world.now

        def answered(result: FetchResult) -> None:
            if result.error is not ErrorCode.NONE:
                self._refused(result.error)
                return
            for tp, committed in result.offsets.items():
                offset = None if committed is None else committed.offset
                self._fetched[tp] = Fetched(offset, asked, self.world.now)
            self.stable = True
            self._go_on()

        self._ask(
            lambda broker, reply: reply(broker.groups.fetch(self.group, self.assigned)),
            answered,
            lambda: self._later(RETRY_S, self._join),
            TIMEOUT_S,
        )

    def _refused(self, error: ErrorCode) -> None:
        """What a client does about an error of its coordinator."""
        if error in FENCED:
            self._anew()
        elif error in REJOIN:
            self._join()
        else:  # it is loading, is another, or cannot be reached
            self._later(RETRY_S, self._join if not self.stable else self._go_on)

    # -- being a member -----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        random = self.world.random
        hangs = not self.finishing and random.random() < HANG_CHANCE
        pause = random.uniform(0.3, 2.0) if hangs else random.uniform(0.02, 0.15)
        if self.finishing and self.settled:
            self._later(pause, self._heartbeat)
        elif self.assigned and random.random() < 0.7:
            tp = self.assigned[0] if self.finishing else random.choice(self.assigned)
            self._later(pause, lambda: self._commit(tp))
        else:
            self._later(pause, self._heartbeat)

    def _heartbeat(self) -> None:
        member_id, generation = self.member_id, self.generation

        def answered(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._go_on()
            else:
                self._refused(error)

        self._ask(
            lambda broker, reply: reply(broker.groups.heartbeat(self.group, member_id, None, generation)),
            answered,
            self._go_on,
            TIMEOUT_S,
        )

    def _commit(self, tp: TopicPartition) -> None:
        checks = self.world.checker.groups
        sent = checks.sent(self, tp)
        request = CommitRequest(
            self.group, {tp: CommittedOffset(sent.offset)}, self.member_id, generation=self.generation
        )

        def answered(results: dict[TopicPartition, ErrorCode]) -> None:
            error = results[tp]
            if error is not ErrorCode.NONE:
                self._refused(error)
                return
            self._acknowledged(tp, sent)
            self._go_on()

        # without an answer nobody knows what became of it: a client closes the connection, and this one its membership
        self._ask(lambda broker, reply: broker.groups.commit(request, reply), answered, self._anew, TIMEOUT_S)

    def _acknowledged(self, tp: TopicPartition, sent: SentCommit) -> None:
        self.world.checker.groups.acknowledged(self, tp, sent, self._fetched.pop(tp, None))
        if self.finishing:
            self.committed_in = self.generation


def _shares(members: Sequence[str]) -> dict[str, bytes]:
    """To each its partitions, in turn."""
    return {
        member: json.dumps([tp.partition for tp in SHARED[number :: len(members)]]).encode()
        for number, member in enumerate(sorted(members))
    }
