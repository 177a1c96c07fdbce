"""What a follower tells when a leader refuses its fetches, or its own log the answers (R6): once, not at every try."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from minikafka.log.errors import CorruptBatch, LogDirFailure, LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FollowerData
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.server.fetchers import ReplicaFetcher

KEY = (b"i" * 16, 0)
ASKED = FetchPosition(3, 10, 3, 0)


class Events:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def emit(self, name: str, *, topic: str, partition: int, **fields: Any) -> None:
        assert (topic, partition) == ("t", 0)
        self.told.append((name, fields))


class Follower:
    """Answers a fetch as it is told to."""

    def __init__(self) -> None:
        self.truncations: list[Any] = []
        self.next: FetchOutcome | LogError = FetchOutcome.BACK_OFF

    def may_ask(self) -> bool:
        return True

    def answered(self, *_: object) -> FetchOutcome:
        if isinstance(self.next, LogError):
            raise self.next
        return self.next


class Lab:
    """A fetcher with one partition, whose answers a test makes."""

    def __init__(self) -> None:
        self.events, self.follower = Events(), Follower()
        log = SimpleNamespace(log_end_offset=10, log_start_offset=0)
        partition = SimpleNamespace(
            topic_id=KEY[0], topic_partition=TopicPartition("t", 0), follower=self.follower, log=log
        )
        broker = SimpleNamespace(
            events=self.events,
            config=SimpleNamespace(replica_fetch_backoff_ms=1000),
            log_failed=lambda *_: None,
            stats=SimpleNamespace(replication_bytes_in=0),
        )
        self.fetcher = ReplicaFetcher(cast(Any, broker), 2)
        self.fetcher._kick = lambda *_, **__: None  # type: ignore[method-assign]
        self.fetcher.add(cast(Any, partition))

    def answer(
        self, what: FetchOutcome | LogError, error: ErrorCode = ErrorCode.NONE, asked: FetchPosition = ASKED
    ) -> None:
        self.follower.next = what
        data = FollowerData(KEY[0], KEY[1], int(error), 10, 0, None, memoryview(b""))
        self.fetcher._apply(data, {KEY: asked})


def run(test: Any) -> None:
    async def main() -> None:
        test(Lab())

    asyncio.run(main())


def test_a_refusal_is_told_once_it_lasts() -> None:
    def go(lab: Lab) -> None:
        refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        lab.answer(FetchOutcome.BACK_OFF, refusal)
        assert lab.events.told == [], "at a failover most are over at the next try"
        for _ in range(5):
            lab.answer(FetchOutcome.BACK_OFF, refusal)
        told = ("replica_fetch_failed", {"leader": 2, "error": "NOT_LEADER_OR_FOLLOWER"})
        assert lab.events.told == [told]
        lab.answer(FetchOutcome.APPENDED)
        for _ in range(3):
            lab.answer(FetchOutcome.BACK_OFF, refusal)
        assert lab.events.told == [told, told], "after it went well, the same is news again"

    run(go)


@pytest.mark.parametrize(
    ("failure", "name"),
    [(CorruptBatch("CRC"), "corrupt_batch"), (LogDirFailure("disk", permanent=False), "replica_fetch_failed")],
)
def test_what_the_own_log_refuses_is_told(failure: LogError, name: str) -> None:
    def go(lab: Lab) -> None:
        for _ in range(4):
            lab.answer(failure)
        assert [told for told, _ in lab.events.told] == [name]
        for _ in range(4):
            lab.answer(failure, asked=ASKED._replace(offset=11))
        assert [told for told, _ in lab.events.told] == [name] * 2, "another offset is another trouble"

    run(go)
