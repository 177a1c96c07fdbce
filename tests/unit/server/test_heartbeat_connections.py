"""Which closed connection means that a broker has died (proposal 002), and which does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from minikafka.config import BrokerConfig
from minikafka.metadata.memory import MemoryStore
from minikafka.server.broker import Broker
from minikafka.server.connections import Heartbeats


@pytest.fixture
async def broker() -> Broker:
    return Broker(BrokerConfig.from_properties({"node.id": "1", "minikafka.metadata.store": "memory"}), MemoryStore())


class Connection:
    """All that the broker looks at."""

    client_host = "127.0.0.1"
    inter_broker = True

    heartbeats_of: Heartbeats | None = None


def lead(broker: Broker, controller_epoch: int) -> list[Any]:
    """Make it the controller of a term; what is submitted to that."""
    submitted: list[Any] = []
    role: Any = SimpleNamespace(controller_epoch=controller_epoch, submit_later=submitted.append)
    broker.membership.role = role
    return submitted


def connect(broker: Broker, *heartbeats: Heartbeats) -> Any:
    connection: Any = Connection()
    assert broker.connections.opened(connection)
    for each in heartbeats:
        broker.connections.heard_from(connection, each)
    return connection


async def test_the_end_of_the_only_one(broker: Broker) -> None:
    submitted = lead(broker, 1)
    connection = connect(broker, Heartbeats(2, 7, 1))
    broker.connections.closed(connection)
    lost: list[tuple[int, int]] = []
    brokers = SimpleNamespace(connection_lost=lambda broker_id, epoch: lost.append((broker_id, epoch)))
    submitted[0](SimpleNamespace(brokers=brokers))
    assert lost == [(2, 7)]


async def test_a_clients_connection(broker: Broker) -> None:
    submitted = lead(broker, 1)
    broker.connections.closed(connect(broker))
    assert submitted == []


async def test_an_older_one(broker: Broker) -> None:
    """The broker has connected anew before its old connection is seen to end."""
    submitted = lead(broker, 1)
    old = connect(broker, Heartbeats(2, 7, 1))
    new = connect(broker, Heartbeats(2, 7, 1))
    broker.connections.closed(old)
    assert submitted == []
    broker.connections.closed(new)
    assert len(submitted) == 1


async def test_one_of_an_earlier_term(broker: Broker) -> None:
    """The term ended, brokers hung up for want of answers, and this broker is the controller again."""
    lead(broker, 1)
    old = connect(broker, Heartbeats(2, 7, 1))
    submitted = lead(broker, 2)
    broker.connections.closed(old)
    assert submitted == []
    broker.connections.closed(connect(broker, Heartbeats(2, 7, 1), Heartbeats(2, 7, 2)))
    assert len(submitted) == 1, "it went on in the new term"


async def test_nobody_leads(broker: Broker) -> None:
    broker.connections.closed(connect(broker, Heartbeats(2, 7, 1)))
