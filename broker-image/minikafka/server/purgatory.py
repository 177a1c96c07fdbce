"""Requests that wait: acks=all produces for the high watermark, fetches for data (R7; Kafka's purgatories)."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import PartitionResult

ProduceDone = Callable[[], None]


class DelayedProduce:
    """An acks=all request over one or more partitions; answered when the last of them is decided."""

    __slots__ = ("deadline", "done", "left", "respond")

    def __init__(self, deadline: float, respond: ProduceDone) -> None:
        self.deadline = deadline
        self.left = 0
        self.done = False
        self.respond = respond

    def settle(self, result: PartitionResult, error: ErrorCode) -> None:
        """One partition is decided. A refusal after the append keeps no offset: the outcome is not the client's to know."""
        if self.done:
            return
        if error is not ErrorCode.NONE:
            result.error = error
            result.base_offset = -1
        self.left -= 1
        if self.left == 0:
            self.done = True
            self.respond()


class ProduceWaiter:
    """One partition's part of a :class:`DelayedProduce`."""

    __slots__ = ("delayed", "required_offset", "result")

    def __init__(self, required_offset: int, delayed: DelayedProduce, result: PartitionResult) -> None:
        self.required_offset = required_offset
        self.delayed = delayed
        self.result = result


class DelayedFetch:
    """A parked fetch. At most one a connection, for a connection's requests are answered in order.

    ``wake`` marks it to be tried again at the end of the current round of events, so that ten produces in one read of a
    socket cost one answer to the follower, not ten.
    """

    __slots__ = ("deadline", "follower", "queued", "retry")

    def __init__(self, deadline: float, follower: bool, retry: Callable[[bool], None]) -> None:
        self.deadline = deadline
        self.follower = follower
        self.queued = False
        self.retry = retry

    def forget(self) -> None:
        """It is answered, or its connection is gone.

        ``retry`` knows this object and this object knows ``retry``. A thousand such cycles a second, each with its
        request, were left to the garbage collector, which then stopped everything for up to a tenth of a second.
        """
        self.retry = _is_over


def _is_over(final: bool) -> None:
    """One that was woken before it was forgotten."""
    del final
