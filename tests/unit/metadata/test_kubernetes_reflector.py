"""Following objects of Kubernetes: whatever is in them, the following goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from minikafka.kubernetes import api
from minikafka.kubernetes.api import CONFIG_MAP, KubernetesApi, Listing, WatchEvent
from minikafka.kubernetes.credentials import Access
from minikafka.kubernetes.reflector import Reflector
from minikafka.kubernetes.store import KubernetesStore

DEADLINE = 30.0


class Server:
    """Lists one object, and watches on for ever; each list is of a new version."""

    def __init__(self) -> None:
        self.version = 0

    backoff = api.Backoff

    async def list(self, *_: object) -> Listing:
        self.version += 1
        return Listing([{"metadata": {"resourceVersion": str(self.version)}}], str(self.version))

    async def watch(self, *_: object) -> AsyncIterator[WatchEvent]:
        yield WatchEvent("MODIFIED", {"metadata": {"resourceVersion": "1"}})
        await asyncio.Event().wait()


@pytest.mark.parametrize("failing", ["list", "event"])
async def test_what_cannot_be_taken_in_is_told_and_listed_anew(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """It ended the task, and with it all that this broker would ever learn, without a word."""
    monkeypatch.setattr(api.Backoff, "FIRST_SECONDS", 0.001)
    broken: list[bool] = [True]
    told: list[Exception] = []
    well = asyncio.Event()

    async def took(what: str) -> None:
        if broken and what == failing:
            if len(told) == 3:
                broken.clear()
            raise KeyError("spec")
        if not broken and what == "event":
            well.set()

    reflector = Reflector(
        cast(Any, Server()),
        CONFIG_MAP,
        None,
        lambda _: took("list"),
        lambda _: took("event"),
        lambda _: None,
        told.append,
    )
    task = asyncio.ensure_future(reflector.run())
    async with asyncio.timeout(DEADLINE):
        await well.wait()
    assert [repr(error) for error in told] == ["KeyError('spec')"] * 4
    assert reflector.broken is None
    task.cancel()
    await asyncio.wait((task,))


async def test_a_broker_that_cannot_follow_learns_it() -> None:
    """What it knows is old, and nothing would ever tell it so."""
    store = KubernetesStore(KubernetesApi(cast(Access, SimpleNamespace(address="nowhere")), "default"), "demo")
    assert (await store.changes(-1)).records == {}
    store.reflector = cast(Any, SimpleNamespace(broken=KeyError("spec")))
    with pytest.raises(RuntimeError, match="demo-metadata cannot be followed: KeyError"):
        await store.changes(-1)
