"""Who is let in, who is counted, and whose end is a death. What the controller makes of it: controller/test_term.py."""

from __future__ import annotations

from minikafka.config import BrokerConfig
from minikafka.controller.heartbeats import Heartbeats
from minikafka.server.connections import ConnectionRegistry
from minikafka.telemetry.stats import BrokerStats


class Connection:
    """All that is looked at."""

    heartbeats_of: Heartbeats | None = None
    listener = "PLAINTEXT"
    queued_requests = 0

    def __init__(self, host: str = "10.0.0.1", inter_broker: bool = False, is_waiting: bool = False) -> None:
        self.client_host = host
        self.inter_broker = inter_broker
        self.is_waiting = is_waiting
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Desk:
    """A registry, and what it told."""

    def __init__(self, at_most: int = 100, per_ip: int = 100) -> None:
        limits = {"max.connections": str(at_most), "max.connections.per.ip": str(per_ip)}
        config = BrokerConfig.from_properties({"node.id": "1", "minikafka.metadata.store": "memory", **limits})
        self.stats = BrokerStats()
        self.lost: list[Heartbeats] = []
        self.registry = ConnectionRegistry(config, self.stats, self.lost.append)

    def open(self, *connections: Connection) -> list[bool]:
        return [self.registry.opened(connection) for connection in connections]


class TestLimits:
    def test_clients_may_be_so_many(self) -> None:
        desk = Desk(at_most=2)
        first = Connection()
        assert desk.open(first, Connection(), Connection("10.0.0.2")) == [True, True, False]
        desk.registry.closed(first)
        assert desk.open(Connection("10.0.0.2")) == [True]

    def test_they_lock_no_broker_out(self) -> None:
        desk = Desk(at_most=1)
        assert desk.open(Connection(), Connection(inter_broker=True), Connection()) == [True, True, False]

    def test_one_address_may_have_so_many(self) -> None:
        """Of both kinds; what is refused does not count, nor does its end."""
        desk = Desk(per_ip=2)
        refused = Connection(inter_broker=True)
        assert desk.open(Connection(), Connection(inter_broker=True), refused) == [True, True, False]
        desk.registry.closed(refused)
        assert desk.open(Connection(), Connection("10.0.0.2")) == [False, True]
        assert desk.registry.hosts() == {"10.0.0.1": 2, "10.0.0.2": 1}

    def test_an_address_that_is_gone_leaves_nothing(self) -> None:
        desk = Desk(at_most=0)
        connection = Connection(inter_broker=True)
        desk.open(connection, Connection("10.0.0.9"))
        desk.registry.closed(connection)
        desk.registry.closed(connection)
        assert desk.registry.hosts() == {}
        assert len(desk.registry) == 0

    def test_nobody_is_let_in_when_the_broker_stops(self) -> None:
        desk = Desk()
        there = Connection()
        desk.open(there)
        desk.registry.refuse()
        assert desk.open(Connection(inter_broker=True)) == [False]
        assert there in desk.registry and there.is_open


def test_what_is_counted() -> None:
    desk = Desk(at_most=2)
    waiting = Connection(is_waiting=True)
    desk.open(waiting, Connection(), Connection())
    assert (desk.stats.connections, desk.stats.connections_accepted) == (2, 2)
    assert desk.registry.waiting_fetches == 1
    desk.registry.closed(waiting)
    desk.registry.closed(waiting)
    assert (desk.stats.connections, desk.stats.connections_accepted) == (1, 2)
    assert desk.registry.waiting_fetches == 0


class TestHeartbeats:
    def test_the_end_of_the_only_connection(self) -> None:
        desk, connection = Desk(), Connection()
        desk.open(connection)
        desk.registry.heard_from(connection, Heartbeats(2, 7, 1))
        assert desk.registry.heard_over(2) is connection
        desk.registry.closed(connection)
        assert desk.lost == [Heartbeats(2, 7, 1)]
        assert desk.registry.heard_over(2) is None

    def test_the_end_of_an_older_one(self) -> None:
        """The broker has connected anew before its old connection is seen to end."""
        desk, old, new = Desk(), Connection(), Connection()
        desk.open(old, new)
        for connection in (old, new):
            desk.registry.heard_from(connection, Heartbeats(2, 7, 1))
        desk.registry.closed(old)
        assert desk.lost == []
        desk.registry.closed(new)
        assert desk.lost == [Heartbeats(2, 7, 1)]

    def test_what_was_said_last_counts(self) -> None:
        """It went on over the same connection as another incarnation, or in another term."""
        desk, connection = Desk(), Connection()
        desk.open(connection)
        for heartbeats in (Heartbeats(2, 7, 1), Heartbeats(2, 8, 3)):
            desk.registry.heard_from(connection, heartbeats)
        desk.registry.closed(connection)
        assert desk.lost == [Heartbeats(2, 8, 3)]

    def test_a_client_is_nobodys_death(self) -> None:
        desk, connection = Desk(), Connection()
        desk.open(connection)
        desk.registry.closed(connection)
        assert desk.lost == []

    def test_who_hangs_up_himself_takes_nobody_for_dead(self) -> None:
        desk, connections = Desk(), [Connection(), Connection()]
        desk.open(*connections)
        desk.registry.heard_from(connections[0], Heartbeats(2, 7, 1))
        desk.registry.close_all()
        assert not any(connection.is_open for connection in connections)
        desk.registry.heard_from(connections[1], Heartbeats(3, 8, 1))  # what had come before is handled after it
        for connection in connections:
            desk.registry.closed(connection)
        assert desk.lost == []
        assert desk.open(Connection()) == [False]
