"""What the controller's broker does beside its decisions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from minikafka.controller.resignation import ControllerResignation
from minikafka.controller.term import Effect
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.memory import MemoryStore
from minikafka.server import controller_role
from minikafka.server.controller_role import RECONCILING, ControllerRole
from minikafka.server.metadata_cache import MetadataCache

from tests.unit.server.in_process import context, running
from tests.waiting import until


async def test_who_does_not_answer_puts_off_nobodys_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that a new controller has not met are asked beside its ticks, and all at once."""
    asked: list[int] = []
    ticks: list[float] = []

    async def no_answer(_host: str, port: int) -> None:
        asked.append(port)
        await asyncio.Event().wait()

    async with running(tmp_path, 1, broker_session_timeout_ms="500") as cluster:
        await cluster.has_controller()
        role = cluster.brokers[1].membership.role
        assert role is not None
        tick = role.term.tick

        def ticked(now: float) -> list[Effect]:
            ticks.append(now)
            return tick(now)

        monkeypatch.setattr(role.term, "strangers", lambda: [7, 8])
        monkeypatch.setattr(role.term, "tick", ticked)
        monkeypatch.setattr(role._metadata, "address_of", lambda broker: ("192.0.2.1", broker))
        monkeypatch.setattr(controller_role, "PROBE_TIMEOUT_SECONDS", 3600.0)
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "open_connection", no_answer)
            await until(lambda: asked == [7, 8])
            ticks.clear()
            await until(lambda: len(ticks) > 2)


async def test_the_objects_of_the_store_are_looked_after_for_as_long_as_the_term_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Anew after a mistake there, which costs no term. The simulator drives the reconciler of topics by itself, not from here."""
    monkeypatch.setattr(controller_role, "RECONCILE_RETRY_SECONDS", 0.0)
    about, store, seen = context(delete_topic_enable="false"), MemoryStore(), list[bool]()
    await store.open("c")
    lease = await store.acquire(1, "h", 1, 0)
    assert lease is not None
    gone = asyncio.Event()

    async def reconcile(role: ControllerRole) -> None:
        seen.append(role.may_delete_topics)
        if len(seen) == 1:
            raise ValueError("a mistake")
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    role = ControllerRole(
        about, store, MetadataCache(store, about.clock, "PLAINTEXT"), lease, ClusterImage("c"),
        ControllerResignation(1.0), lambda _: None, reconcile,
    )  # fmt: skip
    role.start()
    await until(lambda: len(seen) == 2)
    assert seen == [False, False] and not role.term.over and RECONCILING in str(about.health.problems())
    await role.stop("the test is over")
    assert gone.is_set()
