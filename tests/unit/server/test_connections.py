"""Who is let in, who is counted, and whose end is a death. What the controller makes of it: controller/test_term.py."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from minikafka.config import BrokerConfig, ConfigError
from minikafka.controller.heartbeats import Heartbeats
from minikafka.quotas.entities import CONNECTION_CREATION_RATE
from minikafka.server.connections import ADDRESSES_MAX, ConnectionRegistry
from minikafka.server.main import raise_descriptor_limit
from minikafka.telemetry.event_limit import EMITTED_MAX
from minikafka.telemetry.stats import BrokerStats


class Connection:
    """All that is looked at."""

    heartbeats_of: Heartbeats | None = None
    listener = "PLAINTEXT"
    principal = "User:ANONYMOUS"
    queued_requests = 0
    descriptor = 0

    def __init__(self, host: str = "10.0.0.1", inter_broker: bool = False, is_waiting: bool = False) -> None:
        self.client_host = host
        self.inter_broker = inter_broker
        self.is_waiting = is_waiting
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Desk:
    """A registry, and what it told."""

    def __init__(self, at_most: int = 100, per_ip: int = 100, brokers_apart: bool = True, **more: str) -> None:
        listeners = {"listeners": "C://:1,B://:2", "inter.broker.listener.name": "B"} if brokers_apart else {}
        config = BrokerConfig.from_properties(
            {
                "node.id": "1",
                "minikafka.metadata.store": "memory",
                "max.connections": str(at_most),
                "max.connections.per.ip": str(per_ip),
                "listener.security.protocol.map": "C:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                **listeners,
                **{name.replace("_", "."): value for name, value in more.items()},
            }
        )
        self.stats = BrokerStats()
        self.lost: list[Heartbeats] = []
        self.told: list[tuple[Any, ...]] = []
        self.now = 50.0
        self.rates: dict[str, float] = {}
        self.registry = ConnectionRegistry(
            config, self.stats, self.lost.append, self._emit, lambda: self.now, self.rates.get
        )

    def _emit(self, event: str, **fields: Any) -> None:
        self.told.append((event, fields["address"], fields["key"]))

    def open(self, *connections: Connection) -> list[bool]:
        return [self.registry.opened(connection) for connection in connections]


@pytest.mark.parametrize(("allowed", "wanted"), [(4096, 4096), (resource.RLIM_INFINITY, 1 << 20)])
def test_a_broker_may_open_as_many_files_as_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch, allowed: int, wanted: int
) -> None:
    """A process has 1,024 on Linux unless it asks for more."""
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, allowed))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))
    raise_descriptor_limit()
    assert limits == [(wanted, allowed)]


class TestLimits:
    def test_logs_have_descriptors_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Connections that said nothing took all: a flush could open no file, and the broker ended itself."""
        monkeypatch.setattr("resource.getrlimit", lambda _: (1000, 1000))
        desk, client, broker = Desk(), Connection(), Connection(inter_broker=True)
        for descriptor, let_in in ((750, [True, True]), (751, [False, True]), (876, [False, False])):
            client.descriptor = broker.descriptor = descriptor
            assert desk.open(client, broker) == let_in
        assert desk.told[0] == ("connection_refused", "10.0.0.1", "RLIMIT_NOFILE")

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
        """What is refused does not count, nor does its end."""
        desk = Desk(per_ip=2)
        refused = Connection()
        assert desk.open(Connection(), Connection(), refused) == [True, True, False]
        desk.registry.closed(refused)
        assert desk.open(Connection(), Connection("10.0.0.2")) == [False, True]
        assert desk.registry.hosts() == {"10.0.0.1": 2, "10.0.0.2": 1}

    def test_clients_of_a_brokers_address_do_not_lock_it_out(self) -> None:
        """It has as many as they; one that turns out to be no broker's counts where it came."""
        desk = Desk(per_ip=1)
        here = Connection(inter_broker=True)
        assert desk.open(Connection(), Connection(), here, Connection(inter_broker=True)) == [True, False, True, False]
        assert desk.registry.hosts() == {"10.0.0.1": 2}
        here.inter_broker = False
        desk.registry.closed(here)
        assert desk.open(Connection(inter_broker=True), Connection()) == [True, False]
        desk = Desk(per_ip=1, brokers_apart=False)
        assert desk.open(Connection(), Connection(inter_broker=True)) == [True, False]

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


class TestLimitsAreTold:
    def test_by_setting(self) -> None:
        desk = Desk(at_most=1)
        desk.open(*(Connection() for _ in range(3)))
        assert desk.stats.limited == {"max.connections": 2}
        assert desk.told == [("connection_refused", "10.0.0.1", "max.connections")] * 2

    def test_a_flood_does_not_fill_the_events(self) -> None:
        desk = Desk(at_most=0)
        desk.open(*(Connection() for _ in range(EMITTED_MAX + 50)))
        assert desk.stats.limited == {"max.connections": EMITTED_MAX + 50}
        assert len(desk.told) == EMITTED_MAX

    def test_of_one_that_is_cut(self) -> None:
        desk, connection = Desk(), Connection()
        desk.registry.cut(connection, "some.setting")
        assert desk.told == [("connection_cut", "10.0.0.1", "some.setting")]
        assert desk.stats.limited == {"some.setting": 1}


class TestAddressesOfTheirOwn:
    def test_some_may_have_more_or_none(self) -> None:
        desk = Desk(per_ip=1, max_connections_per_ip_overrides="10.0.0.2:2, [::1]:0")
        connections = [
            Connection(host) for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "0:0::1")
        ]
        assert desk.open(*connections) == [True, False, True, True, False, False]

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            ("localhost:1", "'localhost' is not an address"),
            ("10.0.0.1", "'10.0.0.1' is not an address"),
            ("10.0.0.1:-1", "not a whole number"),
            ("10.0.0.1:", "not a whole number"),
            ("::1:1,[0::1]:2", "named twice"),
        ],
    )
    def test_what_cannot_be(self, value: str, says: str) -> None:
        with pytest.raises(ConfigError, match=f"max.connections.per.ip.overrides=.*{says}.*allowed: comma-separated"):
            Desk(max_connections_per_ip_overrides=value)


class TestRates:
    def test_so_many_a_second_may_come(self) -> None:
        desk = Desk(max_connection_creation_rate="2")
        assert sum(desk.open(*(Connection() for _ in range(30)))) == 20, "of ten seconds at once"
        assert desk.stats.limited == {"max.connection.creation.rate": 10}
        desk.now += 11
        assert desk.open(Connection()) == [True]

    def test_brokers_may_always_come(self) -> None:
        desk = Desk(max_connection_creation_rate="1")
        assert all(desk.open(*(Connection(inter_broker=True) for _ in range(30))))
        assert sum(desk.open(*(Connection() for _ in range(30)))) == 10

    @pytest.mark.slow
    def test_from_one_address_by_its_quota(self) -> None:
        """What is refused for that leaves the rate of all as it was."""
        desk = Desk(max_connection_creation_rate="3")
        desk.rates = {"10.0.0.1": 1.0}
        desk.registry._rate_of = desk.rates.get
        assert sum(desk.open(*(Connection() for _ in range(25)))) == 10
        assert desk.stats.limited == {CONNECTION_CREATION_RATE: 15}
        assert sum(desk.open(*(Connection("10.0.0.2") for _ in range(25)))) == 20

    @pytest.mark.slow
    def test_addresses_do_not_fill_the_memory(self) -> None:
        desk = Desk(at_most=10**6)
        desk.registry._rate_of = lambda host: 1.0
        for number in range(ADDRESSES_MAX + 10):
            desk.open(Connection(str(number)))
        assert len(desk.registry._created_from) == ADDRESSES_MAX

    def test_none_may_come(self) -> None:
        assert Desk(max_connection_creation_rate="0").open(Connection()) == [False]


def test_where_brokers_have_no_listener_of_their_own_all_are_counted() -> None:
    desk = Desk(at_most=1, brokers_apart=False)
    assert desk.open(Connection(inter_broker=True), Connection(inter_broker=True)) == [True, False]


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
