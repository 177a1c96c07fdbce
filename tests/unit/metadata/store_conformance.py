"""What every cluster store promises: compare-and-set, a lease, watches, counters (R10, R15).

A test module imports the classes and has a fixture ``connect``: ``await connect(2)`` is broker 2's connection to the one
store of the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from minikafka.metadata.store import ClusterStore, FencedControllerError, Lease

SOON = 30.0
"""Seconds within which what should happen at once does, on a busy machine."""

Connect = Callable[[int], Awaitable[ClusterStore]]


async def controller(store: ClusterStore, holder: int = 1) -> Lease:
    held = await store.lease()
    lease = await store.acquire(holder, "localhost", 9000 + holder, held.epoch if held else 0)
    assert lease is not None
    return lease


class TestLease:
    async def test_one_of_two_wins(self, connect: Connect) -> None:
        """R15: taking the lease is a compare-and-set on its epoch."""
        one, two = await connect(1), await connect(2)
        assert await one.lease() is None
        results = await asyncio.gather(one.acquire(1, "h", 1, 0), two.acquire(2, "h", 2, 0))
        winners = [lease for lease in results if lease is not None]
        assert len(winners) == 1
        assert await one.lease() == await two.lease() == winners[0]
        assert winners[0].epoch == 1

    async def test_the_epoch_grows_with_each_holder(self, connect: Connect) -> None:
        """R15: also when the same broker takes it again."""
        store = await connect(1)
        assert [(await controller(store, holder)).epoch for holder in (1, 1, 2)] == [1, 2, 3]
        assert await store.acquire(3, "h", 3, 2) is None, "too late: somebody took it since"

    async def test_signs_of_life_are_counted(self, connect: Connect) -> None:
        """R15: watchers see that the holder lives, without comparing clocks."""
        one, two = await connect(1), await connect(2)
        lease = await controller(one)
        for beat in (1, 2, 3):
            lease = await one.renew(lease)
            assert await two.lease() == lease
            assert (lease.renewed, lease.epoch, lease.holder) == (beat, 1, 1)

    async def test_a_fenced_holder_cannot_renew(self, connect: Connect) -> None:
        """R15: FencedControllerError tells a controller that was away that it is none any more."""
        one, two = await connect(1), await connect(2)
        old = await controller(one)
        new = await controller(two, 2)
        with pytest.raises(FencedControllerError, match="controller epoch 1 is over"):
            await one.renew(old)
        assert await one.lease() == new


class TestCommit:
    async def test_only_the_holder_writes(self, connect: Connect) -> None:
        """R15: every write carries the controller epoch; nothing of a fenced one's arrives."""
        one, two = await connect(1), await connect(2)
        with pytest.raises(FencedControllerError):
            await one.commit(0, {"a": 1})
        old = await controller(one)
        await one.commit(old.epoch, {"a": 1})
        await controller(two, 2)
        with pytest.raises(FencedControllerError):
            await one.commit(old.epoch, {"a": 2, "b": 2})
        assert (await two.snapshot()).records == {"a": 1}

    async def test_records_of_a_commit_share_a_revision(self, connect: Connect) -> None:
        """R10: one step for many decisions (group commit); readers take all of it or nothing."""
        store = await connect(1)
        lease = await controller(store)
        first = await store.commit(lease.epoch, {"a": {"x": [1, None, "é"]}, "b": 1})
        second = await store.commit(lease.epoch, {"b": 2, "c": 3})
        assert second > first
        assert (await store.changes(first)).records == {"b": 2, "c": 3}
        assert (await store.changes(first)).revision == second
        assert (await store.changes(second)).records == {}
        assert (await store.snapshot()).records == {"a": {"x": [1, None, "é"]}, "b": 2, "c": 3}

    async def test_a_removed_record_is_a_change(self, connect: Connect) -> None:
        """R15: a watcher hears of it, a newcomer does not see it."""
        store = await connect(1)
        lease = await controller(store)
        first = await store.commit(lease.epoch, {"a": 1})
        await store.commit(lease.epoch, {"a": None})
        assert (await store.changes(first)).records == {"a": None}
        assert (await store.snapshot()).records == {}


class TestWatch:
    async def test_a_commit_wakes_the_other_brokers(self, connect: Connect) -> None:
        """R15: watches; nobody polls (SQLite: a byte to each broker's socket)."""
        one, two = await connect(1), await connect(2)
        lease = await controller(one)
        revision = await one.commit(lease.epoch, {"a": 1})
        await two.wait(-1, 0.01)  # what rang before
        waiting = asyncio.ensure_future(two.wait(revision, 60.0))
        await asyncio.sleep(0)
        await one.commit(lease.epoch, {"a": 2})
        await asyncio.wait_for(waiting, SOON)
        async with asyncio.timeout(SOON):  # what woke it may have been the first commit, late
            while (await two.changes(revision)).records != {"a": 2}:
                await two.wait(revision, 60.0)

    async def test_a_commit_before_the_wait_is_not_missed(self, connect: Connect) -> None:
        """R15: between reading the changes and waiting for more."""
        one, two = await connect(1), await connect(2)
        lease = await controller(one)
        seen = (await two.changes(-1)).revision
        await one.commit(lease.epoch, {"a": 1})
        await asyncio.wait_for(two.wait(seen, 60.0), SOON)
        assert (await two.changes(seen)).records == {"a": 1}

    async def test_nothing_happens_for_a_while(self, connect: Connect) -> None:
        """R15: a wait ends by itself, for a lost byte must not be for ever."""
        store = await connect(1)
        await asyncio.wait_for(store.wait((await store.changes(-1)).revision, 0.01), SOON)


class TestCounters:
    async def test_numbers_are_handed_out_once(self, connect: Connect) -> None:
        """R18: producer ids are unique over brokers and restarts."""
        one, two = await connect(1), await connect(2)
        firsts = await asyncio.gather(*[s.allocate("producer.id", 100) for s in (one, two, one, two)])
        assert sorted(firsts) == [0, 100, 200, 300]
        assert await one.allocate("another", 1) == 0
