"""Large requests of many connections: one begins, or goes on, in each round of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from minikafka.transport.turn import TurnQueue, yielding

ROUNDS_MAX = 1_000


async def rounds(of: Callable[[], bool]) -> int:
    """How many rounds of the event loop there are until then."""
    for count in range(ROUNDS_MAX):
        if of():
            return count
        await asyncio.sleep(0)
    raise TimeoutError


async def test_who_goes_on_has_one_turn_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 connections had a turn of 5 ms each, in one round: who asked for little waited for all of them, 3 s and more."""
    monkeypatch.setattr("minikafka.transport.turn.TURN_SECONDS_MAX", -1.0)
    queue, done, most = TurnQueue(), 0, 0
    begun, most_begun = 0, 0

    async def work() -> None:
        nonlocal begun, done
        await queue.first()
        begun += 1
        async for _ in yielding(range(5), lambda: 0.0, queue):
            done += 1

    async def look() -> None:
        nonlocal most, most_begun
        while done < 100:
            before, begun_before = done, begun
            await asyncio.sleep(0)
            most, most_begun = max(most, done - before), max(most_begun, begun - begun_before)

    looking = asyncio.ensure_future(look())
    await asyncio.gather(*(work() for _ in range(20)))
    await looking
    assert most <= 2 and most_begun <= 2


async def test_who_is_alone_begins_at_once() -> None:
    queue = TurnQueue()
    first = asyncio.ensure_future(queue.first())
    assert await rounds(first.done) <= 1
    second = asyncio.ensure_future(queue.first())
    assert await rounds(second.done) <= 1


async def test_who_has_gone_keeps_nobody_waiting() -> None:
    queue = TurnQueue()
    waiting = [asyncio.ensure_future(queue.another()) for _ in range(4)]
    await asyncio.sleep(0)
    for gone in waiting[:3]:
        gone.cancel()
    assert await rounds(waiting[3].done) <= 5
