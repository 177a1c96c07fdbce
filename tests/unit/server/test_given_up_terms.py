"""A term that a replica gave up ends: the controller elects anew, or the partition would have a leader in name only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from minikafka.server.broker import Broker
from minikafka.server.controller_role import ControllerRole

from tests.unit.server.in_process import Cluster, running
from tests.waiting import until

SESSION_MS = "1000"
"""Short: who gave its term up leaves the lease alone for two of them. One broker alone asks nobody, so it loses none by a
pause."""


def leads(cluster: Cluster, broker: Broker) -> bool:
    partition = broker.replicas.get("t", 0)
    return partition is not None and partition.leader is not None and not broker.is_fenced


async def fail_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next image cannot be taken in."""
    take, failed = broker.follower.take, False

    def sometimes(records: Any, in_slices: bool = False) -> None:
        nonlocal failed
        if not failed:
            failed = True
            raise KeyError("a mistake in this program")
        take(records, in_slices)

    monkeypatch.setattr(broker.follower, "take", sometimes)
    broker.host.unsettled.add("t")
    await until(lambda: failed)


async def test_a_controller_that_could_not_follow_one_image_leads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gave up being the controller as well, so nobody was there to fence it before it was well again."""
    async with running(tmp_path, 1, broker_session_timeout_ms=SESSION_MS) as cluster:
        await cluster.create("t")
        broker = cluster.brokers[1]
        await until(lambda: leads(cluster, broker))
        epoch = broker.metadata.image.topics["t"].partitions[0].leader_epoch
        await fail_once(broker, monkeypatch)
        await until(lambda: not leads(cluster, broker))
        await until(lambda: leads(cluster, broker))
        assert broker.metadata.image.topics["t"].partitions[0].leader_epoch > epoch


@pytest.mark.slow
@pytest.mark.timeout(300)  # no deadline of the event loop's own is seen when the broker goes round without waiting
async def test_a_term_that_ends_before_its_own_heartbeat_is_sent(tmp_path: Path) -> None:
    """The broker went round without waiting, for ever, and did nothing else any more (seed 4008749 of the simulation)."""
    async with running(tmp_path, 1, broker_session_timeout_ms=SESSION_MS) as cluster:
        await cluster.create("t")
        broker = cluster.brokers[1]
        await until(lambda: leads(cluster, broker) and broker.membership.leads)
        epoch = broker.membership.controller_epoch
        role = broker.membership.role
        assert role is not None
        broker.membership.fence()  # a heartbeat is due
        role.resign("a test")
        await until(lambda: broker.membership.controller_epoch > epoch and leads(cluster, broker))


@pytest.mark.slow
async def test_a_term_that_could_not_begin_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It held the lease by name, renewed by nobody, and asked it for ever."""
    start, failed = ControllerRole.start, False

    def sometimes(role: ControllerRole) -> None:
        nonlocal failed
        if not failed:
            failed = True
            role.resign("a test")
            raise KeyError("a mistake in this program")
        start(role)

    monkeypatch.setattr(ControllerRole, "start", sometimes)
    async with running(tmp_path, 1, broker_session_timeout_ms=SESSION_MS) as cluster:
        await until(lambda: cluster.brokers[1].membership.controller_epoch > 1)
        assert failed
        await cluster.create("t")
        await until(lambda: leads(cluster, cluster.brokers[1]))
