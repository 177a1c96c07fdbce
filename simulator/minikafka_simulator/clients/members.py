"""Members of a consumer group that only commit, hang, and now and then die without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.checks.group_checks import Fetched
from minikafka_simulator.clients.group_member import TIMEOUT_S, Committed, Duty, GroupMember

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster

LIFE_S = 3.0
"""Mean time until a member dies while there are faults."""
HANG_CHANCE: Final = 0.04
"""That a member does nothing for a while, longer than its session perhaps, and then goes on as if nothing had been."""


class Committing(Duty):
    """One process after the other, each a new member of the group."""

    session_ms, rebalance_ms = 600, 800

    def __init__(self, world: CheckedCluster) -> None:
        self._world = world
        self.committed_in = -1
        """The generation of the last acknowledged commit, once there are no more faults."""
        self._fetched: dict[TopicPartition, Fetched] = {}

    def begin(self, member: GroupMember) -> None:
        super().begin(member)
        self._world.scheduler.at(self._world.random.uniform(0.1, 0.5), member.join)
        self._dies_later()

    @property
    def settled(self) -> bool:
        """It has committed after the faults, of one partition, so that others stay as they were."""
        return not self.member.assigned or self.committed_in == self.member.generation

    def _dies_later(self) -> None:
        self._world.scheduler.at(self._world.random.expovariate(1 / LIFE_S), self._die)

    def _die(self) -> None:
        """Without a word, as after kill -9; somebody else comes in its place, before or after its session is over."""
        member, world = self.member, self._world
        if member.finishing:
            return
        world.note(f"member {member.number} of {member.group} dies ({member.member_id or 'unknown'})")
        member.forget()
        member.later(world.random.uniform(0.01, 1.5), member.join)
        self._dies_later()

    def forget(self) -> None:
        self._fetched.clear()

    def assigned(self) -> None:
        self._world.checker.groups.assigned(self.member)
        self._fetched.clear()

    def committed(self, offsets: Committed, asked: float) -> None:
        for tp, found in offsets.items():
            self._fetched[tp] = Fetched(None if found is None else found.offset, asked, self._world.now)

    def go_on(self) -> None:
        member, random = self.member, self._world.random
        hangs = not member.finishing and random.random() < HANG_CHANCE
        pause = random.uniform(0.3, 2.0) if hangs else random.uniform(0.02, 0.15)
        if member.finishing and member.settled:
            member.later(pause, member.heartbeat)
        elif member.assigned and random.random() < 0.7:
            tp = member.assigned[0] if member.finishing else random.choice(member.assigned)
            member.later(pause, lambda: self._commit(tp))
        else:
            member.later(pause, member.heartbeat)

    def _commit(self, tp: TopicPartition) -> None:
        member, checks = self.member, self._world.checker.groups
        sent = checks.sent(member, tp)

        def answered(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                member.refused(error)
                return
            checks.acknowledged(member, tp, sent, self._fetched.pop(tp, None))
            if member.finishing:
                self.committed_in = member.generation
            self.go_on()

        # without an answer nobody knows what became of it: a client closes the connection, and this one its membership
        member.commit({tp: sent.offset}, answered, member.anew, TIMEOUT_S)
