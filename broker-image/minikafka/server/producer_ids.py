"""Producer ids: a broker takes blocks of them from the cluster store, and gives them out one by one (KIP-730)."""

from __future__ import annotations

from minikafka.metadata.store import ClusterStore

BLOCK = 1000
"""Kafka's ``ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE``."""


class ProducerIds:
    """Of one broker. What is left of a block when it ends is given to nobody."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._next, self._end = 0, 0

    async def next(self) -> int:
        """A producer id nobody had before; raises StoreError."""
        if self._next >= self._end:
            first = await self._store.allocate("producer.id", BLOCK)
            self._next, self._end = first, first + BLOCK
        producer_id, self._next = self._next, self._next + 1
        return producer_id
