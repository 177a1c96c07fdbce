"""Members of a consumer group that only commit, hang, and now and then die without a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from minikafka.groups.records import CommittedOffset
from minikafka.groups.requests import CommitRequest
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.checks.group_checks import SHARED, Fetched, SentCommit
from minikafka_simulator.clients.group_client import TIMEOUT_S, GroupClient

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster

SESSION_MS, REBALANCE_MS = 600, 800
LIFE_S = 3.0
"""Mean time until a member dies while there are faults."""
HANG_CHANCE: Final = 0.04
"""That a member does nothing for a while, longer than its session perhaps, and then goes on as if nothing had been."""


class GroupMember(GroupClient):
    """One process after the other, each a new member of the group."""

    world: CheckedCluster

    def __init__(self, world: CheckedCluster, group: str, number: int) -> None:
        super().__init__(world, group, SHARED, SESSION_MS, REBALANCE_MS)
        self.number = number
        self.finishing = False
        self.committed_in = -1
        """The generation of the last acknowledged commit, once there are no more faults."""
        self._fetched: dict[TopicPartition, Fetched] = {}
        world.scheduler.at(world.random.uniform(0.1, 0.5), self.join)
        self._dies_later()

    @property
    def settled(self) -> bool:
        """It has its share, and has committed of it after the faults: one partition, so that others stay as they were."""
        return self.stable and (not self.assigned or self.committed_in == self.generation)

    def _dies_later(self) -> None:
        self.world.scheduler.at(self.world.random.expovariate(1 / LIFE_S), self._die)

    def _die(self) -> None:
        """Without a word, as after kill -9; somebody else comes in its place, before or after its session is over."""
        if self.finishing:
            return
        self.world.note(f"member {self.number} of {self.group} dies ({self.member_id or 'unknown'})")
        self.forget()
        self.later(self.world.random.uniform(0.01, 1.5), self.join)
        self._dies_later()

    def forget(self) -> None:
        super().forget()
        self._fetched.clear()

    def given(self) -> None:
        self.world.checker.groups.assigned(self)
        self._fetched.clear()
        asked = self.world.now

        def take(offsets: Mapping[TopicPartition, CommittedOffset | None]) -> None:
            for tp, committed in offsets.items():
                offset = None if committed is None else committed.offset
                self._fetched[tp] = Fetched(offset, asked, self.world.now)
            self.stable = True
            self.go_on()

        self.ask_committed(take)

    def go_on(self) -> None:
        random = self.world.random
        hangs = not self.finishing and random.random() < HANG_CHANCE
        pause = random.uniform(0.3, 2.0) if hangs else random.uniform(0.02, 0.15)
        if self.finishing and self.settled:
            self.later(pause, self.heartbeat)
        elif self.assigned and random.random() < 0.7:
            tp = self.assigned[0] if self.finishing else random.choice(self.assigned)
            self.later(pause, lambda: self._commit(tp))
        else:
            self.later(pause, self.heartbeat)

    def _commit(self, tp: TopicPartition) -> None:
        sent = self.world.checker.groups.sent(self, tp)
        request = CommitRequest(
            self.group, {tp: CommittedOffset(sent.offset)}, self.member_id, generation=self.generation
        )

        def answered(results: dict[TopicPartition, ErrorCode]) -> None:
            error = results[tp]
            if error is not ErrorCode.NONE:
                self.refused(error)
                return
            self._acknowledged(tp, sent)
            self.go_on()

        # without an answer nobody knows what became of it: a client closes the connection, and this one its membership
        self.ask(lambda broker, reply: broker.coordinator.commit(request, reply), answered, self.anew, TIMEOUT_S)

    def _acknowledged(self, tp: TopicPartition, sent: SentCommit) -> None:
        self.world.checker.groups.acknowledged(self, tp, sent, self._fetched.pop(tp, None))
        if self.finishing:
            self.committed_in = self.generation
