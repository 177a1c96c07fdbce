"""ISR changes on their way to the controller (R10, KIP-497): what the next AlterPartition request holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal

PROPOSALS_MAX = 1_000
"""In one request, which the controller works on without a pause."""

RETRY_SECONDS = 0.05
"""How long to wait before a change whose outcome is unknown is asked for again."""


class IsrRequests:
    """At most one request in flight, one proposal a partition in it, unknown outcomes asked again."""

    def __init__(self) -> None:
        self._queue: dict[TopicPartition, IsrProposal] = {}
        self._in_flight = False

    def __len__(self) -> int:
        return len(self._queue)

    def propose(self, proposal: IsrProposal) -> None:
        """Have a change in one of the next requests; a later one of the same partition takes its place."""
        self._queue[proposal.topic_partition] = proposal

    def next_request(self) -> list[IsrProposal]:
        """What to ask the controller for now; empty while a request is in flight, or when there is nothing to ask for."""
        if self._in_flight:
            return []
        batch = [self._queue.pop(key) for key in list(itertools.islice(self._queue, PROPOSALS_MAX))]
        self._in_flight = bool(batch)
        return batch

    def answered(
        self,
        batch: list[IsrProposal],
        answers: Sequence[AlterPartitionAnswer] | None,
        take: Callable[[IsrProposal, AlterPartitionAnswer | None], bool],
    ) -> bool:
        """The answers to a request, None when its outcome is unknown. ``take`` gives one to its leader, and says whether to ask
        again. True when something is to be asked again: after :data:`RETRY_SECONDS`, not at once."""
        self._in_flight = False
        again = False
        for index, proposal in enumerate(batch):
            if take(proposal, None if answers is None else answers[index]):
                self._queue.setdefault(proposal.topic_partition, proposal)
                again = True
        return again
