"""Bug seeds in the server: its connections, its loops, and what it writes down."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchPosition
from minikafka.replication.hosted import HostedPartition
from minikafka.server.api.fetch import WaitingFetch
from minikafka.server.connection import ClientConnection
from minikafka.server.fetchers import ReplicaFetcher

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with
from minikafka_chaos.simulation.processes import watched
from minikafka_chaos.simulation.processes.watched import WatchedBroker


class _HoldsBack(WaitingFetch):
    __slots__ = ()

    def overtaken(self) -> None:
        """The answer to the next fetch waits behind it."""


class _ConnectionThatHoldsBack(ClientConnection):
    def __init__(self, broker: Any, listener: str) -> None:
        super().__init__(broker, listener)
        self.waiting_fetch = _HoldsBack(broker.clock.now)


class _AnswersOutOfOrder(ClientConnection):
    def answer(self, slot: Any, out: list[Any]) -> None:
        if slot in self.slots:
            self.slots.remove(slot)
            self.slots.appendleft(slot)
        super().answer(slot, out)


class _StandsStill(ReplicaFetcher):
    def _later(self, seconds: float, overtake: bool = False) -> None:
        """Nobody looks again."""


class _NeverAsksForOffsets(ReplicaFetcher):
    async def _ask_offsets(self, partition: HostedPartition, position: FetchPosition) -> None:
        del partition, position


class _WritesLogEnds(watched.Host):
    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {p.topic_partition: p.log.log_end_offset for p in self.manager.all()}


def with_parts(**members: Any) -> type[WatchedBroker]:
    return type("MutantBroker", (WatchedBroker,), members)


SERVER_SEEDS = (
    BugSeed("parked-fetch-holds-back", "the answer to a fetch waits behind the parked one before it", "found here",
            rules_with(process=with_parts(client_connection=_ConnectionThatHoldsBack))),
    BugSeed("answers-out-of-order", "a connection answers what is ready first", "Kafka's protocol guide",
            rules_with(process=with_parts(client_connection=_AnswersOutOfOrder))),
    BugSeed("fetcher-stands-still", "a fetcher whose connection ended never looks again", "found here",
            rules_with(process=with_parts(replica_fetcher=_StandsStill))),
    BugSeed("never-ask-for-offsets", "a follower out of range does not ask for its leader's range", "KAFKA-7414",
            rules_with(process=with_parts(replica_fetcher=_NeverAsksForOffsets))),
    BugSeed("checkpoint-log-ends", "the checkpoint of high watermarks holds log end offsets", "audit s08",
            rules_with(process=with_parts(partition_host=_WritesLogEnds))),
)  # fmt: skip
