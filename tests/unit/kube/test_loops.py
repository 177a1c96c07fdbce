"""The loop of each cluster: woken by events, patient with errors, gone with its cluster."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from minikafka_kube import loops as module
from minikafka_kube.api_server import ApiError
from minikafka_kube.leadership import NotLeadingError
from minikafka_kube.loops import Loops, ReconcileResult
from minikafka_kube.telemetry import Looking

from tests.waiting import until

KEY = ("ns", "demo")


class Reconcile:
    """Answers what it was given, then that nothing is to be done."""

    def __init__(self, *outcomes: ReconcileResult | Exception) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    async def __call__(self, namespace: str, name: str) -> ReconcileResult:
        assert (namespace, name) == KEY
        self.calls += 1
        outcome = self.outcomes.pop(0) if self.outcomes else ReconcileResult("steady")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(module, "PAUSE_SECONDS_MIN", 0.0)


def value(telemetry: Looking, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, labels)


async def test_an_event_wakes_it() -> None:
    reconcile = Reconcile()
    loops = Loops(reconcile, Looking("minikafka_operator", "cluster"))
    loops.seen(*KEY)
    await until(lambda: reconcile.calls == 1)
    loops.wake(*KEY)
    await until(lambda: reconcile.calls == 2)
    loops.wake("ns", "unknown")
    await loops.stop()
    assert reconcile.calls == 2


async def test_it_looks_again_when_asked_to() -> None:
    reconcile = Reconcile(ReconcileResult("changed", 0.01), ReconcileResult("changed", 0.01))
    loops = Loops(reconcile, Looking("minikafka_operator", "cluster"))
    loops.seen(*KEY)
    await until(lambda: reconcile.calls == 3)
    await loops.stop()


async def test_it_looks_again_in_any_case() -> None:
    reconcile = Reconcile()
    loops = Loops(reconcile, Looking("minikafka_operator", "cluster"), resync_seconds=0.01)
    loops.seen(*KEY)
    await until(lambda: reconcile.calls >= 3)
    await loops.stop()


@pytest.mark.parametrize(
    "error",
    [ApiError(500, "InternalError", "etcd"), aiohttp.ClientConnectionError(), TimeoutError(), ValueError("a bug")],
)
async def test_errors_do_not_end_it(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_SECONDS_MAX", 0.01)
    telemetry = Looking("minikafka_operator", "cluster")
    reconcile = Reconcile(error, error, error)
    loops = Loops(reconcile, telemetry)
    loops.seen(*KEY)
    await until(lambda: reconcile.calls == 4)
    await until(lambda: value(telemetry, "minikafka_operator_reconciliations_total", outcome="steady") == 1)
    assert value(telemetry, "minikafka_operator_reconciliations_total", outcome="failed") == 3
    assert value(telemetry, "minikafka_operator_last_success_timestamp_seconds", namespace="ns", cluster="demo")
    await loops.stop()


async def test_a_server_that_asks_for_patience_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_SECONDS_MAX", 0.001)
    reconcile = Reconcile(ApiError(429, "TooManyRequests", "later", retry_after_seconds=0.2))
    loops = Loops(reconcile, Looking("minikafka_operator", "cluster"))
    loops.seen(*KEY)
    await until(lambda: reconcile.calls == 1)
    began = asyncio.get_running_loop().time()
    loops.wake(*KEY)
    await until(lambda: reconcile.calls == 2)
    assert asyncio.get_running_loop().time() - began >= 0.15, "not even an event shortens it"
    await loops.stop()


async def test_who_stands_by_does_nothing_and_who_takes_over_looks_at_everything() -> None:
    telemetry = Looking("minikafka_operator", "cluster")
    reconcile = Reconcile()
    loops = Loops(reconcile, telemetry)
    loops.lead(False)
    loops.seen(*KEY)
    for _ in range(20):
        await asyncio.sleep(0)
    assert reconcile.calls == 0
    assert value(telemetry, "minikafka_operator_clusters") == 0, (
        "else the sum over all operators counts each cluster twice"
    )
    loops.lead(True)
    assert value(telemetry, "minikafka_operator_clusters") == 1
    await until(lambda: reconcile.calls == 1)
    assert value(telemetry, "minikafka_operator_leader") == 1
    loops.lead(False)
    assert value(telemetry, "minikafka_operator_clusters") == 0
    loops.lead(True)
    await until(lambda: reconcile.calls == 2)
    await loops.stop()


async def test_losing_the_lease_is_no_failure() -> None:
    telemetry = Looking("minikafka_operator", "cluster")
    reconcile = Reconcile(NotLeadingError("another"))
    loops = Loops(reconcile, telemetry)
    loops.seen(*KEY)
    await until(lambda: reconcile.calls == 2)
    await loops.stop()


async def test_it_goes_with_its_cluster() -> None:
    telemetry = Looking("minikafka_operator", "cluster")
    loops = Loops(Reconcile(ReconcileResult("steady", gone=True)), telemetry)
    loops.seen(*KEY)
    telemetry.last_success.labels(*KEY).set(1)
    assert value(telemetry, "minikafka_operator_clusters") == 1
    await until(lambda: value(telemetry, "minikafka_operator_clusters") == 0)
    labels = {"namespace": "ns", "cluster": "demo"}
    assert value(telemetry, "minikafka_operator_last_success_timestamp_seconds", **labels) is None
    await loops.stop()


async def test_one_that_hangs_is_told() -> None:
    async def hang(_namespace: str, _name: str) -> ReconcileResult:
        await asyncio.Event().wait()
        raise AssertionError

    loops = Loops(hang, Looking("minikafka_operator", "cluster"))
    loops.seen(*KEY)
    assert loops.stalled() == []
    loop = loops._loops[KEY]
    await until(lambda: loop.busy_since > 0)
    loop.busy_since -= 10_000
    assert loops.stalled() == [KEY]
    await loops.stop()
    assert loops.stalled() == []


async def test_a_glance_brings_the_next_look_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GLANCE_SECONDS", 0.001)
    glances = iter([False, ApiError(500, "InternalError", "etcd"), TimeoutError(), False, True])

    async def glance() -> bool:
        answer = next(glances)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reconcile = Reconcile(ReconcileResult("steady", glance=glance))
    loops = Loops(reconcile, Looking("minikafka_operator", "cluster"))
    loops.seen(*KEY)
    await until(lambda: reconcile.calls == 2)
    await loops.stop()
    assert next(glances, None) is None
