"""Requests that wait: acks=all produces for the high watermark, fetches for data (R7; Kafka's purgatories)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FetchRequest, PartitionData, TopicKey
from minikafka.protocol.produce import PartitionResult

FEW_ROWS = 16
"""What so few cost is not looked at, on the hottest path: a fetch that waits needs no turn for them."""

ProduceDone = Callable[[], None]
FetchTopics = list[tuple[TopicKey, list[PartitionData]]]
FetchDone = Callable[[FetchTopics, int], None]
"""Takes the answer, and the bytes of records in it."""


class Replicas(Protocol):
    """What a Fetch that waits needs of :class:`~minikafka.replication.replicas.ReplicaManager`."""

    def read(
        self, request: FetchRequest, settled: Mapping[tuple[TopicKey, int], PartitionData]
    ) -> tuple[FetchTopics, int, bool]: ...

    def park(self, fetch: DelayedFetch, request: FetchRequest) -> None: ...

    def unpark(self, fetch: DelayedFetch, request: FetchRequest) -> None: ...


class FetchClient(Protocol):
    """Who has sent a Fetch."""

    @property
    def asked_by(self) -> str: ...

    def in_turn(self, go_on: Callable[[], None]) -> None:
        """Call this when it is its user's turn."""


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
    """A Fetch that waits at the partitions it names, until there is something for it or its time is up.

    ``retry`` is called at the end of a round of events in which one of them woke it (so that ten produces in one read of a
    socket cost one answer to the follower, not ten), and by whoever keeps it when its deadline has come.

    Args:
        deadline: by the clock of its broker.
        request: of a follower or a consumer.
        respond: takes its answer.
        replicas: see there.
        client: who has turns, where there are many rows; of a follower none is needed.
    """

    __slots__ = (
        "client",
        "deadline",
        "follower",
        "is_late",
        "queued",
        "replicas",
        "request",
        "respond",
        "rows",
        "user",
    )

    def __init__(
        self, deadline: float, request: FetchRequest, respond: FetchDone, replicas: Replicas, client: FetchClient | None
    ) -> None:
        self.deadline = deadline
        self.follower = request.replica_id >= 0
        self.client = None if self.follower else client
        rows = 0 if self.client is None else sum([len(row) for _, row in request.topics])
        self.rows = rows if rows > FEW_ROWS else 0
        """Those for which it has turns: all of them are read, whichever has woken it."""
        self.user = ""
        """For whom the rows count."""
        self.is_late = False
        """It is answered when it is retried next, with whatever there is."""
        self.request: FetchRequest | None = request
        self.respond: FetchDone | None = respond
        self.replicas = replicas
        self.queued = False

    @property
    def is_over(self) -> bool:
        """Whether it is answered, or given up."""
        return self.request is None

    def retry(self, final: bool) -> None:
        """Answer when there is enough, or whatever there is when it is ``final``; else wait on."""
        request, respond = self.request, self.respond
        if request is None or respond is None:
            return  # it was woken before it was over
        topics, total, urgent = self.replicas.read(request, {})
        if not (final or self.is_late or urgent or total >= request.min_bytes):
            self.replicas.park(self, request)
            return
        self.give_up()
        respond(topics, total)

    def end(self) -> None:
        """Answer with whatever there is, at once or when its client has a turn: those of many connections may end at one time."""
        self.is_late = True
        if not self.rows:
            self.retry(True)
        elif not self.queued:
            self.retry_in_turn()

    def retry_in_turn(self) -> None:
        """Retry when its client has a turn, unless it is over."""
        if self.client is None:
            return
        self.queued = True
        self.client.in_turn(self._has_turn)

    def _has_turn(self) -> None:
        self.queued = False
        self.retry(False)

    def give_up(self) -> None:
        """Wait no more, and answer nothing: its connection is gone.

        What answers knows its connection, and that knows this object. A thousand such cycles a second, each with its request,
        were left to the garbage collector, which then stopped everything for up to a tenth of a second.
        """
        request, self.request, self.respond = self.request, None, None
        if request is not None:
            self.replicas.unpark(self, request)
        self.client = None
