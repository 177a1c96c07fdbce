"""A partition as the server hosts it: the state machine, and who waits for it."""

from __future__ import annotations

from collections import deque
from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka.replication.partition import Partition
from minikafka.server.purgatory import DelayedFetch, ProduceWaiter


class HostedPartition(Partition):
    """Adds the waiters to :class:`~minikafka.replication.partition.Partition`."""

    __slots__ = ("consumers", "flushing", "followers", "producers", "topic_config", "unflushed_messages")

    def __init__(self, *args: Any, topic_config: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.producers: deque[ProduceWaiter] = deque()
        self.followers: set[DelayedFetch] = set()
        self.consumers: set[DelayedFetch] = set()
        self.topic_config = topic_config
        self.flushing = False

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

    def fail_producers(self, error: ErrorCode) -> None:
        """No more leader here: the outcome of what waits is unknown to the client, which asks the new leader."""
        while self.producers:
            waiter = self.producers.popleft()
            waiter.delayed.settle(waiter.result, error)
