"""The operators' election: one acts, and one that was stopped for a while does not (issue 9, B12)."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable
from typing import Any, cast

import aiohttp
import pytest
from minikafka_kube.api_server import ApiError, ApiServer
from minikafka_kube.leadership import Leadership, NotLeadingError


class Server:
    """One Lease, with compare-and-set."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.error: Exception | None = None
        self.silent = False
        self._versions = itertools.count(1)

    async def _answer(self) -> None:
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    async def get(self, *_: Any) -> dict[str, Any] | None:
        await self._answer()
        return copy.deepcopy(self.lease)

    async def create(self, _kind: Any, _namespace: str, thing: dict[str, Any]) -> dict[str, Any]:
        await self._answer()
        if self.lease is not None:
            raise ApiError(409, "AlreadyExists", "there is one")
        return self._store(thing)

    async def replace(self, _kind: Any, _namespace: str, thing: dict[str, Any]) -> dict[str, Any]:
        await self._answer()
        assert self.lease is not None
        if thing["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it changed")
        return self._store(thing)

    def _store(self, thing: dict[str, Any]) -> dict[str, Any]:
        self.lease = copy.deepcopy(thing)
        self.lease["metadata"]["resourceVersion"] = str(next(self._versions))
        return copy.deepcopy(self.lease)

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
    server.lease = None
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
