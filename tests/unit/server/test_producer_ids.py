"""Producer ids come in blocks, and nobody gets one twice (KIP-730)."""

from __future__ import annotations

import pytest
from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.store import StoreError
from minikafka.server.producer_ids import BLOCK, ProducerIds


async def test_brokers_of_one_store_never_give_the_same_id() -> None:
    store = MemoryStore()
    store.open_now(None)
    one, two = ProducerIds(store), ProducerIds(store)
    given = [await each.next() for _ in range(BLOCK + 10) for each in (one, two)]
    assert len(set(given)) == len(given)


async def test_a_store_that_is_away_costs_no_id_and_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.open_now(None)
    ids = ProducerIds(store)

    async def away(name: str, count: int) -> int:
        raise StoreError("away")

    first = await ids.next()
    with monkeypatch.context() as broken:
        broken.setattr(store, "allocate", away)
        assert [await ids.next() for _ in range(BLOCK - 1)] == list(range(first + 1, first + BLOCK))
        with pytest.raises(StoreError):
            await ids.next()
    assert await ids.next() >= first + BLOCK
