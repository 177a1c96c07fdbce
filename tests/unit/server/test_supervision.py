"""Background work that fails is told, tried again with a back-off, and forgiven."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from minikafka.server import supervision
from minikafka.server.health import Health
from minikafka.server.supervision import Supervisor

DEADLINE = 10.0


class Desk:
    """A supervisor, and what it tells."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.errors: list[Exception] = []
        self.health = Health(self.emit)
        self.supervisor = Supervisor(self.health, self.errors.append)

    def emit(self, event: str, **_: Any) -> None:
        self.events.append(event)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_SECONDS_FIRST", 0.001)
    monkeypatch.setattr(supervision, "PAUSE_SECONDS_MAX", 0.004)


async def stopped(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()


async def test_a_round_that_raises_is_done_again_until_it_succeeds() -> None:
    desk = Desk()
    rounds = 0
    gave_up = 0
    seen: list[dict[str, str]] = []
    well = asyncio.Event()

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        seen.append(dict(desk.health.problems()))
        if rounds in (2, 3, 4):
            raise KeyError("anything")
        if rounds == 6:
            well.set()
            await asyncio.Event().wait()

    def give_up() -> None:
        nonlocal gave_up
        gave_up += 1

    task = desk.supervisor.repeat("the loop", work, failed=give_up)
    async with asyncio.timeout(DEADLINE):
        await well.wait()
    assert seen == [{}, {}, *[{"the loop": "KeyError: 'anything'"}] * 3, {}]
    assert (gave_up, len(desk.errors)) == (3, 3)
    assert desk.events == ["component_failed", "component_recovered"]
    await stopped(task)


async def test_the_pause_grows_and_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 9:
            over.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    answers = iter([0, 0, 0, 0, 1, 0, 1, 1])

    def work() -> None:
        if not next(answers):
            raise OSError("disk")

    task = Desk().supervisor.repeat("a check", work, every=60.0)
    await over.wait()
    assert pauses == [60.0, 0.001, 0.002, 0.004, 0.004, 60.0, 0.001, 60.0, 60.0]
    monkeypatch.undo()
    await stopped(task)


async def test_giving_up_may_fail_too() -> None:
    desk = Desk()
    twice = asyncio.Event()

    def fail() -> None:
        if desk.errors:
            twice.set()
        raise ValueError("no")

    task = desk.supervisor.repeat("the loop", fail, failed=fail)
    async with asyncio.timeout(DEADLINE):
        await twice.wait()
    assert not task.done()
    await stopped(task)


async def test_once() -> None:
    desk = Desk()

    async def work(fails: bool) -> None:
        if fails:
            raise RuntimeError("no")

    assert await desk.supervisor.once("load", work, True) is False
    assert desk.health.problems() == {"load": "RuntimeError: no"}
    assert await desk.supervisor.once("load", work, False) is True
    assert desk.health.problems() == {}


async def test_a_callback() -> None:
    desk = Desk()
    nothing: dict[str, int] = {}
    assert not desk.supervisor.call("tick", lambda: nothing["x"])
    assert desk.health.problems() == {"tick": "KeyError: 'x'"}
    assert desk.supervisor.call("tick", lambda: None)
    assert desk.health.problems() == {}


async def test_a_round_that_never_waits_holds_up_nothing_else() -> None:
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 10_000:
            raise asyncio.CancelledError  # the end of a loop that lets nothing else run

    task = Desk().supervisor.repeat("anything", work)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done() and rounds < 100
    await stopped(task)
