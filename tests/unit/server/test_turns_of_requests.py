"""Large requests of many connections: one begins, or goes on, in each round of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from minikafka.server.connection import ClientConnection
from minikafka.transport.turn import ASKED_BY, TURN_SECONDS_MAX, TurnQueue, yielding

ROUNDS_MAX = 1_000


async def rounds(of: Callable[[], bool]) -> int:
    """How many rounds of the event loop there are until then."""
    for count in range(ROUNDS_MAX):
        if of():
            return count
        await asyncio.sleep(0)
    raise TimeoutError


class Clock:
    """Goes on by what work takes."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def per_round(seconds: float, rows: int, of_others: float = 0.0) -> tuple[int, int]:
    """Have 20 ask for so many rows, each of which takes so long; return the most rows, and beginnings, in a round."""
    clock = Clock()
    queue, done, begun, most, most_begun = TurnQueue(clock), 0, 0, 0, 0

    async def work() -> None:
        nonlocal begun, done
        await queue.first()
        begun += 1
        async for _ in yielding(range(rows), clock, queue):
            clock.now += seconds
            done += 1

    async def look() -> None:
        nonlocal most, most_begun
        while done < 20 * rows:
            before, begun_before = done, begun
            clock.now += of_others
            await asyncio.sleep(0)
            most, most_begun = max(most, done - before), max(most_begun, begun - begun_before)

    looking = asyncio.ensure_future(look())
    await asyncio.gather(*(work() for _ in range(20)))
    await looking
    return most, most_begun


async def test_who_goes_on_has_one_turn_a_round() -> None:
    """200 connections had a turn of 5 ms each, in one round: who asked for little waited for all of them, 3 s and more."""
    most, begun = await per_round(2 * TURN_SECONDS_MAX, 5)
    assert most <= 2 and begun <= 2


async def test_turns_that_are_short_share_a_round() -> None:
    """One each kept who asked for 1 KiB waiting for 32 s, where many others asked for less."""
    _, begun = await per_round(TURN_SECONDS_MAX / 4, 1)
    assert 4 <= begun <= 6


async def test_turns_have_half_as_long_as_the_rest() -> None:
    """Else who asks for little, over many connections, keeps those waiting who ask for much."""
    most, _ = await per_round(TURN_SECONDS_MAX, 5, of_others=20 * TURN_SECONDS_MAX)
    assert 8 <= most <= 16


async def test_a_time_in_which_nobody_asks_lends_none() -> None:
    clock = Clock()
    queue, served = TurnQueue(clock), 0

    async def work() -> None:
        nonlocal served
        await queue.another()
        served += 1
        clock.now += 2 * TURN_SECONDS_MAX

    for _ in range(2):
        clock.now += 60
        tasks = [asyncio.ensure_future(work()) for _ in range(5)]
        while not tasks[-1].done():
            before = served
            await asyncio.sleep(0)
            assert served <= before + 1


async def test_users_have_turns_by_turns() -> None:
    clock = Clock()
    queue, served = TurnQueue(clock), list[str]()

    async def work(user: str) -> None:
        ASKED_BY.set(user)
        await queue.another()
        served.append(user)
        clock.now += 2 * TURN_SECONDS_MAX

    await asyncio.gather(*(work(user) for user in [*["many"] * 9, "few", "other"]))
    assert served == ["many", "few", "other", *["many"] * 8]


@pytest.mark.parametrize(
    ("principal", "is_open", "known_by"),
    [
        ("User:alice", True, "User:alice"),
        ("User:ANONYMOUS", None, "10.0.0.1"),
        ("User:ANONYMOUS", False, ""),
    ],
)
def test_who_shares_turns(principal: str, is_open: bool | None, known_by: str) -> None:
    """A user, an address where nobody logs in; and all who have not logged in yet are one."""
    connection: Any = SimpleNamespace(
        door=None if is_open is None else SimpleNamespace(is_open=is_open), principal=principal, client_host="10.0.0.1"
    )
    asked_by: Any = ClientConnection.asked_by
    assert asked_by.fget(connection) == known_by


async def test_who_is_alone_begins_at_once() -> None:
    queue = TurnQueue(Clock())
    first = asyncio.ensure_future(queue.first())
    assert await rounds(first.done) <= 1
    second = asyncio.ensure_future(queue.first())
    assert await rounds(second.done) <= 1


async def test_who_has_gone_keeps_nobody_waiting() -> None:
    queue = TurnQueue(Clock())
    waiting = [asyncio.ensure_future(queue.another()) for _ in range(4)]
    await asyncio.sleep(0)
    for gone in waiting[:3]:
        gone.cancel()
    assert await rounds(waiting[3].done) <= 5
