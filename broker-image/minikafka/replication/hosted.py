"""A partition as a broker hosts it: the state machine, and who waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import PartitionResult
from minikafka.replication.partition import Partition
from minikafka.replication.purgatory import DelayedFetch, DelayedProduce, ProduceDone, ProduceWaiter
from minikafka.telemetry.stats import TopicTraffic


class HostedPartition(Partition):
    """Adds the waiters to :class:`~minikafka.replication.partition.Partition`."""

    __slots__ = (
        "consumers", "flushing", "followers", "moved", "producers", "topic_config", "traffic", "unflushed_producers",
    )  # fmt: skip

    def __init__(self, *args: Any, topic_config: Any, moved: Callable[[HostedPartition], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.producers: deque[ProduceWaiter] = deque()
        self.unflushed_producers: deque[ProduceWaiter] = deque()
        """With acks=1: they wait for this replica's own flush, where flush.messages wants one (R17)."""
        self.followers: dict[DelayedFetch, None] = {}
        """Who waits for records. In the order they came: it is also the order of their answers."""
        self.consumers: dict[DelayedFetch, None] = {}
        self.topic_config = topic_config
        self.traffic = TopicTraffic()
        """The replica manager gives it that of its topic."""
        self.flushing = False
        self.moved = moved
        """Told that the high watermark has moved while somebody waits for that."""

    def high_watermark_moved(self) -> None:
        if self.producers or self.consumers:
            self.moved(self)

    def settle_producers(self) -> None:
        """Answer the acks=all produces that the high watermark has passed (R4)."""
        producers = self.producers
        leader = self.leader
        while producers and leader is not None:
            waiter = producers[0]
            code = leader.acknowledgement(waiter.required_offset)
            if code is None:
                return
            producers.popleft()
            waiter.delayed.settle(waiter.result, code)

    def await_commit(self, result: PartitionResult, done: ProduceDone) -> None:
        """Call ``done`` as for an acks=all produce that ends where the log ends now, with its outcome in ``result``."""
        delayed = DelayedProduce(float("inf"), done)
        delayed.left = 1
        self.producers.append(ProduceWaiter(self.log.log_end_offset, delayed, result))
        self.settle_producers()

    def settle_unflushed_producers(self) -> None:
        """Answer the acks=1 produces whose records this leader's log has safely by now (R17)."""
        waiting = self.unflushed_producers
        leader = self.leader
        while waiting and leader is not None and leader.appended_safely(waiting[0].required_offset):
            waiter = waiting.popleft()
            waiter.delayed.settle(waiter.result, ErrorCode.NONE)

    def fail_producers(self, error: ErrorCode) -> None:
        """No more leader here: the outcome of what waits is unknown to the client, which asks the new leader."""
        for waiting in (self.producers, self.unflushed_producers):
            while waiting:
                waiter = waiting.popleft()
                waiter.delayed.settle(waiter.result, error)
