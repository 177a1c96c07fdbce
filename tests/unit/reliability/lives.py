"""Lives of a reliable consumer, of either client library: each ends when all is committed, or by a death at a chosen point."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.reliability import AsyncReliableConsumer, ConsumedRecord, ReliableConsumer, RetryPolicy
from minikafka.reliability.dead_letters import DeadLetter
from minikafka.reliability.work import HELD_MAX

POINTS = {"processed": 2, "letter to write": 1, "letter written": 1, "commit to send": 2, "commit sent": 1}
"""Between any two of these the process may die; at which time it does."""
LAST_OFFSET = 2
"""The handler leaves this record until something is committed, so that there is more than one commit."""
SOON = RetryPolicy(attempts_max=2, backoff_seconds=0.01)


class Death(BaseException):
    """As by kill -9: nothing more is sent to anybody."""


@dataclass
class Goal:
    """What is to be committed in the end, and what is."""

    ends: Mapping[TopicPartition, int]
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    holds: Callable[[ConsumedRecord], bool] = lambda _record: False
    """Whether the handler is to leave a record a while."""
    held_max: int = HELD_MAX
    revoking: threading.Event = field(default_factory=threading.Event)
    """Set when a member is to let go of partitions."""


class Fate:
    """Where a life ends: at the nth time at a point, or when everything is committed."""

    def __init__(self, goal: Goal, dies_at: tuple[str, int] | None) -> None:
        self._goal = goal
        self._dies_at = dies_at
        self._seen: Counter[str] = Counter()
        self.dead = False

    def keeps_waiting(self, record: ConsumedRecord) -> bool:
        """Whether the handler is to leave this record a while."""
        last = self._dies_at is not None and record.offset == LAST_OFFSET
        return (last and not self._seen["commit sent"] and not self.dead) or self._goal.holds(record)

    def revoke(self, partitions: list[TopicPartition]) -> None:
        """These go; when it joins, aiokafka revokes none."""
        if partitions:
            self._goal.revoking.set()

    def reach(self, point: str) -> None:
        assert point in POINTS
        self._seen[point] += 1
        if self._dies_at == (point, self._seen[point]):
            self.dead = True
        if self.dead:
            assert self._dies_at is not None
            raise Death(self._dies_at[0])

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These are, whoever lives on."""
        self._goal.committed |= offsets
        self.reach("commit sent")

    @property
    def over(self) -> bool:
        """Whether all is committed, by this life or another."""
        return self._goal.committed == self._goal.ends


class DyingConsumer(ReliableConsumer):
    """By confluent-kafka."""

    fate: Fate

    def _take(self) -> None:
        super()._take()
        if self.fate.over:
            self.stop()

    def _let_go(self, partitions: list[TopicPartition]) -> None:
        self.fate.revoke(partitions)
        super()._let_go(partitions)

    def _write(self, letter: DeadLetter) -> None:
        self.fate.reach("letter to write")
        super()._write(letter)
        self.fate.reach("letter written")

    def _send_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not self.fate.dead:
            self.fate.reach("commit to send")
            super()._send_commit(offsets)
            self.fate.committed(offsets)


class DyingAsyncConsumer(AsyncReliableConsumer):
    """By aiokafka."""

    fate: Fate

    async def _take(self) -> None:
        await super()._take()
        if self.fate.over:
            self.stop()

    async def _let_go(self, partitions: list[TopicPartition]) -> None:
        self.fate.revoke(partitions)
        await super()._let_go(partitions)

    async def _write(self, letter: DeadLetter) -> None:
        self.fate.reach("letter to write")
        await super()._write(letter)
        self.fate.reach("letter written")

    async def _send_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not self.fate.dead:
            self.fate.reach("commit to send")
            await super()._send_commit(offsets)
            self.fate.committed(offsets)


Handler = Callable[[ConsumedRecord], object]


def confluent(
    bootstrap: str,
    group: str,
    topics: Iterable[str],
    handler: Handler,
    goal: Goal,
    dies_at: tuple[str, int] | None = None,
) -> None:
    """One life by confluent-kafka; raises Death."""
    fate = Fate(goal, dies_at)

    def handles(record: ConsumedRecord) -> None:
        while fate.keeps_waiting(record):
            time.sleep(0.005)
        handler(record)
        fate.reach("processed")

    config = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, "fetch.wait.max.ms": 20}
    consumer = DyingConsumer(config, list(topics), handles, retries=SOON, commit_seconds=0, held_max=goal.held_max)
    consumer.fate = fate
    consumer.run()


def aiokafka(
    bootstrap: str,
    group: str,
    topics: Iterable[str],
    handler: Handler,
    goal: Goal,
    dies_at: tuple[str, int] | None = None,
) -> None:
    """One life by aiokafka; raises Death."""
    fate = Fate(goal, dies_at)

    async def handles(record: ConsumedRecord) -> None:
        while fate.keeps_waiting(record):  # noqa: ASYNC110 - both libraries' lives wait in one way
            await asyncio.sleep(0.005)
        handler(record)
        fate.reach("processed")

    async def live() -> None:
        config: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": group, "fetch_max_wait_ms": 20}
        consumer = DyingAsyncConsumer(
            config, list(topics), handles, retries=SOON, commit_seconds=0, held_max=goal.held_max
        )
        consumer.fate = fate
        await consumer.run()

    asyncio.run(live())
