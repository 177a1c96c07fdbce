"""The operators' election: one acts, and one that was stopped for a while does not (issue 9, B12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import aiohttp
import pytest
from minikafka_kube.api_server import ApiError, ApiServer
from minikafka_kube.kinds import LEASE, Kind, Object
from minikafka_kube.leadership import Leadership, NotLeadingError

from tests.unit.kube.fake_api_server import FakeApiServer


class Server(FakeApiServer):
    """It may fail, or not answer."""

    def __init__(self) -> None:
        super().__init__("ns", datetime(2026, 11, 21, tzinfo=UTC))
        self.error: Exception | None = None
        self.silent = False

    async def _answer(self) -> None:
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        await self._answer()
        return await super().get(kind, namespace, name)

    async def create(self, kind: Kind, namespace: str, thing: Object) -> Object:
        await self._answer()
        return await super().create(kind, namespace, thing)

    async def replace(self, kind: Kind, namespace: str, thing: Object) -> Object:
        await self._answer()
        return await super().replace(kind, namespace, thing)

    @property
    def lease(self) -> Object | None:
        return self.objects.get((LEASE.name, "lease"))

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


class Candidate:
    def __init__(self, server: Server, name: str) -> None:
        self.now = 0.0
        self.told: list[bool] = []
        self.leadership = Leadership(
            cast(ApiServer, server), "ns", "lease", name, clock=lambda: self.now, retry_seconds=0.005
        )
        self.leadership.changed = self.told.append

    async def tries(self) -> bool:
        await self.leadership._try()
        return self.leadership.leads


@pytest.fixture
def server() -> Server:
    return Server()


async def test_one_of_two_leads(server: Server) -> None:
    one, two = Candidate(server, "a"), Candidate(server, "b")
    assert await one.tries()
    assert not await two.tries()
    one.now = two.now = 8.0
    assert await one.tries()
    two.now = 20.0
    assert not await two.tries(), "it was renewed since two looked last, and two counts from when it saw that"
    two.now = 34.0
    assert not await two.tries()
    two.now = 36.0
    assert await two.tries(), "for fifteen seconds nobody renewed it"
    assert server.lease is not None and server.lease["spec"]["leaseTransitions"] == 2
    assert (one.told, two.told) == ([True], [True])


async def test_who_was_stopped_for_a_while_does_not_act(server: Server) -> None:
    one, two = Candidate(server, "a"), Candidate(server, "b")
    await one.tries()
    await two.tries()
    two.now = 16.0
    await two.tries()
    one.now = 16.0  # SIGCONT
    with pytest.raises(NotLeadingError):
        await one.leadership.confirm()
    assert not await one.tries()
    assert one.told == [True, False]


async def test_a_lease_that_somebody_took_away_is_noticed_before_the_time_is_up(server: Server) -> None:
    one = Candidate(server, "a")
    await one.tries()
    await one.leadership.confirm()
    assert server.lease is not None
    server.lease["spec"]["holderIdentity"] = "b"
    one.leadership.require()
    with pytest.raises(NotLeadingError, match="b holds Lease ns/lease"):
        await one.leadership.confirm()
    assert one.told == [True, False]
    server.remove(LEASE, "lease")
    with pytest.raises(NotLeadingError):
        await one.leadership.confirm()


@pytest.mark.parametrize(
    "error", [ApiError(500, "InternalError", "etcd"), aiohttp.ClientConnectionError(), ValueError("a bug")]
)
async def test_without_an_api_server_it_stops_acting_before_another_may_begin(server: Server, error: Exception) -> None:
    one = Candidate(server, "a")
    await one.tries()
    server.error = error
    one.now = 9.9
    assert await one.tries()
    one.now = 10.1
    assert not await one.tries()
    server.error = None
    assert await one.tries(), "and goes on where it was"


async def test_a_request_without_an_answer_does_not_keep_it_leading(server: Server) -> None:
    one = Candidate(server, "a")
    one.leadership._renew_seconds_max = 0.02
    await one.tries()
    server.silent = True
    one.now = 1.0
    assert not await one.tries()


async def test_two_that_create_it_at_once(server: Server) -> None:
    one, two = Candidate(server, "a"), Candidate(server, "b")
    assert sorted(await asyncio.gather(one.tries(), two.tries())) == [False, True]


async def test_the_same_name_is_not_the_same_process(server: Server) -> None:
    one, again = Candidate(server, "a"), Candidate(server, "a")
    assert await one.tries()
    assert not await again.tries()


async def test_it_is_given_back_at_the_end(server: Server) -> None:
    one, two = Candidate(server, "a"), Candidate(server, "b")
    task = asyncio.create_task(one.leadership.run())
    await _until(lambda: one.leadership.leads)
    task.cancel()
    await asyncio.wait((task,))
    assert server.holder == ""
    assert one.told == [True, False]
    assert await two.tries(), "nobody has to wait"


async def test_giving_back_takes_nothing_from_others(server: Server) -> None:
    one = Candidate(server, "a")
    await one.tries()
    assert server.lease is not None
    server.lease["spec"]["holderIdentity"] = "b"
    await one.leadership._give_back()
    assert server.holder == "b"


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)
