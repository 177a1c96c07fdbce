"""A broker that no controller answers says so, whatever keeps the controllers from their lease."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka.metadata.store import Lease, StoreError
from minikafka.server.controller_contact import COMPONENT, ControllerContact
from minikafka.server.health import Health

from tests.unit.server.in_process import get, running
from tests.waiting import until


def contact() -> tuple[ControllerContact, Health]:
    health = Health(lambda *_, **__: None)
    return ControllerContact(health, session_seconds=9.0, now=100.0), health


def test_silence_is_told_after_three_sessions() -> None:
    told, health = contact()
    told.look(127.0)
    assert health.verdict() == (True, "ok")
    told.look(127.1)
    assert health.verdict() == (True, f"{COMPONENT}: no controller has answered for 27 s"), "a restart mends nothing"


def test_an_answer_ends_it() -> None:
    told, health = contact()
    told.store_failed("Kubernetes API: 401 Unauthorized: no")
    told.look(200.0)
    assert health.problems()[COMPONENT].endswith("; cluster store: Kubernetes API: 401 Unauthorized: no")
    told.answered(201.0)
    assert health.verdict() == (True, "ok")
    told.look(228.0)
    assert health.verdict() == (True, "ok")
    told.look(229.0)
    assert health.problems()[COMPONENT] == "no controller has answered for 27 s", "the store may be well by now"


@pytest.mark.slow
async def test_a_store_that_refuses_every_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, 1, broker_session_timeout_ms="500") as cluster:
        broker = cluster.brokers[1]
        await cluster.has_controller()
        store = broker.membership.store

        async def refused(*_: object) -> Lease:
            raise StoreError("Kubernetes API: 401 Unauthorized: no")

        with monkeypatch.context() as patched:
            for verb in ("lease", "acquire", "renew", "commit"):
                patched.setattr(store, verb, refused)
            await until(lambda: COMPONENT in broker.context.health.problems())
            status, body = await get(broker, "/healthz")
            assert status == 200
            assert "401 Unauthorized" in body
        await until(lambda: broker.context.health.verdict() == (True, "ok"))
