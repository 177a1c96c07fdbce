"""What the controller's broker does beside its decisions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from minikafka.controller.term import Effect
from minikafka.server import controller_role

from tests.unit.server.in_process import running
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
