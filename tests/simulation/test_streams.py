"""The TCP that simulated processes speak."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from minikafka_simulator.machine.loop import ProcessLoop
from minikafka_simulator.machine.scheduler import Scheduler
from minikafka_simulator.machine.streams import End, Listener, Streams


class _Network:
    def __init__(self) -> None:
        self.cut: set[tuple[int, int]] = set()

    def segment_seconds(self, source: int, target: int, random: Random) -> float | None:
        return None if (source, target) in self.cut else random.uniform(0.0002, 0.01)


class _World:
    def __init__(self) -> None:
        self.scheduler = Scheduler(1)
        self.network = _Network()

    def run(self, until: float) -> None:
        while self.scheduler.next_time <= until:
            self.scheduler.step()


class _Process:
    def __init__(self, world: _World, streams: Streams, broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.lives, self.paused = True, False
        self.ends: dict[End, None] = {}
        self._backlog: deque[Callable[[], None]] = deque()
        self.loop = ProcessLoop(  # type: ignore[abstract]
            lambda: world.scheduler.now,
            self.later,
            streams,
            self,
            lambda: 0.001,
        )

    def later(self, delay: float, event: Callable[[], None], given_up: Callable[[], bool] = lambda: False, /) -> None:
        self.world.scheduler.at(delay, lambda: None if given_up() else self.run(event))

    def run(self, event: Callable[[], None]) -> None:
        if self.paused:
            self._backlog.append(event)
        elif self.lives:
            self.loop.run_event(event, at_once=False)

    def resume(self) -> None:
        self.paused = False
        while self._backlog:
            self.run(self._backlog.popleft())


class _Talker(asyncio.Protocol):
    """Keeps what it hears; echoes it with ``echoes``."""

    def __init__(self, echoes: bool = False) -> None:
        self.echoes = echoes
        self.heard = b""
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(End, transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        if self.echoes:
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Two:
    """A client, and a server that echoes."""

    def __init__(self) -> None:
        self.world = _World()
        self.streams = Streams(self.world.scheduler, self.world.network.segment_seconds, 1)
        self.client, self.server = (_Process(self.world, self.streams, number) for number in (1, 2))
        self.accepted: list[_Talker] = []
        self.failed: list[BaseException | None] = []

    def listen(self) -> None:
        def accept() -> _Talker:
            self.accepted.append(_Talker(echoes=True))
            return self.accepted[-1]

        self.streams.listen(Listener(self.streams, self.server, accept, 2))

    def connect(self) -> _Talker:
        talker = _Talker()

        async def work() -> None:
            await self.client.loop.create_connection(lambda: talker, "sim", 2)

        task = self.client.loop.create_task(work())
        task.add_done_callback(lambda done: self.failed.append(done.exception()))
        return talker


@pytest.fixture
def two() -> Two:
    return Two()


def test_bytes_come_in_order_and_come_back(two: Two) -> None:
    two.listen()
    talker = two.connect()
    two.world.run(1.0)
    for part in (b"one ", b"two ", b"three"):
        talker.transport.write(part)
    two.world.run(2.0)
    assert two.failed == [None]
    assert two.accepted[0].heard == talker.heard == b"one two three"


def test_nobody_listens(two: Two) -> None:
    two.connect()
    two.world.run(1.0)
    assert isinstance(two.failed[0], ConnectionRefusedError)


def test_a_cut_link_holds_bytes_back_until_it_is_mended(two: Two) -> None:
    two.listen()
    talker = two.connect()
    two.world.run(1.0)
    two.world.network.cut.add((1, 2))
    talker.transport.write(b"x")
    two.world.run(5.0)
    assert not two.accepted[0].heard and not talker.lost
    two.world.network.cut.clear()
    two.world.run(6.0)
    assert talker.heard == b"x"


def test_who_connects_over_a_cut_link_waits(two: Two) -> None:
    two.listen()
    two.world.network.cut.add((1, 2))
    two.connect()
    two.world.run(5.0)
    assert not two.failed
    two.world.network.cut.clear()
    two.world.run(6.0)
    assert two.failed == [None]


def test_a_process_that_ends_closes_its_connections(two: Two) -> None:
    two.listen()
    talker = two.connect()
    two.world.run(1.0)
    two.server.lives = False
    two.streams.ended(cast(Any, two.server))
    two.world.run(2.0)
    assert talker.lost == [None] and not two.accepted[0].lost, "the dead are not told"
    two.connect()
    two.world.run(3.0)
    assert isinstance(two.failed[-1], ConnectionRefusedError)


def test_what_comes_for_a_connection_that_nobody_has_is_reset(two: Two) -> None:
    """The end was on its way over a link that was cut; the process came back meanwhile."""
    two.listen()
    talker = two.connect()
    two.world.run(1.0)
    two.world.network.cut.add((2, 1))
    two.server.lives = False
    two.streams.ended(cast(Any, two.server))
    talker.transport.write(b"x")
    two.world.run(2.0)
    assert not talker.lost
    two.world.network.cut.clear()
    two.world.run(3.0)
    assert len(talker.lost) == 1


def test_a_paused_process_is_connected_to_and_hears_later(two: Two) -> None:
    """The kernel accepts for it."""
    two.listen()
    two.server.paused = True
    talker = two.connect()
    two.world.run(1.0)
    assert two.failed == [None]
    talker.transport.write(b"x")
    two.world.run(2.0)
    assert not talker.heard
    two.server.resume()
    two.world.run(3.0)
    assert talker.heard == b"x"


def test_who_reads_no_more_is_given_nothing(two: Two) -> None:
    two.listen()
    talker = two.connect()
    two.world.run(1.0)
    two.accepted[0].transport.pause_reading()
    talker.transport.write(b"x")
    two.world.run(2.0)
    assert not two.accepted[0].heard
    two.server.run(two.accepted[0].transport.resume_reading)
    two.world.run(3.0)
    assert talker.heard == b"x"


def test_the_work_of_a_thread_takes_a_while_and_dies_with_the_process(two: Two) -> None:
    done: list[str] = []

    async def work() -> None:
        await two.client.loop.run_in_executor(None, done.append, "written")
        done.append("told")

    two.client.loop.create_task(work())
    assert not done
    two.world.run(1.0)
    assert done == ["written", "told"]
    two.client.loop.create_task(work())
    two.world.scheduler.step()
    two.client.lives = False
    two.world.run(2.0)
    assert done == ["written", "told"]
    two.client.loop.end()
