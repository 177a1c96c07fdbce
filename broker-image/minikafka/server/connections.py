"""The open connections of a broker: how many there may be, from whom, and whose end means that a broker has died."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from minikafka.config import BrokerConfig
from minikafka.config.keys import INT_MAX
from minikafka.controller.heartbeats import HeartbeatConnections, Heartbeats
from minikafka.quotas.entities import CONNECTION_CREATION_RATE
from minikafka.quotas.rates import Rate
from minikafka.security.acls import address
from minikafka.telemetry.event_limit import EventLimit
from minikafka.telemetry.stats import BrokerStats


class Connection(Protocol):
    """What is looked at of a connection."""

    client_host: str
    descriptor: int
    """Its socket's number: the kernel gives the lowest that is free."""
    inter_broker: bool
    """Whether it was made to the listener of brokers."""
    heartbeats_of: Heartbeats | None
    """Whose heartbeats it carries."""

    @property
    def is_waiting(self) -> bool:
        """Whether a Fetch of its waits for data."""
        ...

    @property
    def queued_requests(self) -> int:
        """Its requests that wait for earlier ones."""
        ...

    @property
    def listener(self) -> str: ...

    @property
    def principal(self) -> str: ...

    def close(self) -> None: ...


DESCRIPTORS = "RLIMIT_NOFILE"
"""The limit of open files of a process."""

DESCRIPTORS_SHARE, DESCRIPTORS_SHARE_OF_BROKERS = 0.75, 0.875
"""Of which so much may be in use where one more connection is let in; logs need the rest."""

ADDRESSES_MAX = 10_000
"""Of which it is known how often they connect. Those heard of first are forgotten."""


def _one_more(rate: Rate, limit: float, now: float) -> bool:
    """Whether one more does not exceed a rate; it is counted if so."""
    rate.record(1, now)
    if limit > 0 and not rate.excess(limit, now):
        return True
    rate.record(-1, now)
    return False


class ConnectionRegistry:
    """See the module. Called when a connection begins and ends, and at each heartbeat; never for a request of a client.

    Args:
        config: how many there may be, and how many may come in a time.
        stats: counts connections.
        broker_lost: a connection that carried a broker's heartbeats has ended, and it has no newer one.
        emit: takes an event.
        now: seconds.
        rate_of: how many connections an address may make a second, by its quota; None: any number.
    """

    def __init__(
        self,
        config: BrokerConfig,
        stats: BrokerStats,
        broker_lost: Callable[[Heartbeats], None],
        emit: Callable[..., None],
        now: Callable[[], float],
        rate_of: Callable[[str], float | None],
    ) -> None:
        self._config = config
        self._stats = stats
        self._broker_lost = broker_lost
        self._emit = emit
        self._now = now
        self._rate_of = rate_of
        self._limited = EventLimit(now)
        self._protects_brokers = len(config.listeners) > 1
        """Where clients come to the brokers' listener, too, nobody can be told from a client by where he comes."""
        self._created = self._new_rate()
        self._created_from: dict[str, Rate] = {}
        self._open: dict[Connection, tuple[str, bool]] = {}
        """From where, and whether it came where only brokers do."""
        self._from: Counter[tuple[str, bool]] = Counter()
        self._heartbeats = HeartbeatConnections[Connection]()
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether the broker has closed all of them and takes no more."""
        return self._ended

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._open

    def hosts(self) -> dict[str, int]:
        """How many there are from each address."""
        hosts: Counter[str] = Counter()
        for (host, _), count in self._from.items():
            hosts[host] += count
        return dict(hosts)

    def heard_over(self, broker_id: int) -> Connection | None:
        """The connection whose end is the death of this broker."""
        return self._heartbeats.newest(broker_id)

    @property
    def waiting_fetches(self) -> int:
        """Connections with a Fetch that waits; counted when asked, for they come and go by the thousand."""
        return sum(connection.is_waiting for connection in self._open)

    @property
    def queued_requests(self) -> int:
        """Requests that wait for earlier ones of their connection; counted when asked."""
        return sum(connection.queued_requests for connection in self._open)

    def by_listener(self) -> dict[str, int]:
        """How many there are on each listener that has any."""
        return dict(Counter(connection.listener for connection in self._open))

    def opened(self, connection: Connection) -> bool:
        """False when there are enough, or no more are wanted; whoever is refused is told of.

        Clients may use up ``max.connections`` and all rates, but must not lock out other brokers (Kafka's ConnectionQuotas
        protect them, too). Of one address, connections to the brokers' listener are counted by themselves: a client may have a
        broker's, on the same node or behind the same router.
        """
        if self._ended:
            return False
        where = (connection.client_host, connection.inter_broker and self._protects_brokers)
        if limit := self._reached(where, address(connection.client_host), connection.descriptor):
            self._tell("connection_refused", connection, limit)
            return False
        self._open[connection] = where
        self._from[where] += 1
        self._stats.connections += 1
        self._stats.connections_accepted += 1
        return True

    def _reached(self, where: tuple[str, bool], host: str, descriptor: int) -> str:
        """The limit that has no room for one more connection, or an empty string."""
        config = self._config
        of_address = config.max_connections_per_ip_overrides.get(host, config.max_connections_per_ip)
        if self._from[where] >= of_address:
            return "max.connections.per.ip"
        _, is_brokers = where
        share = DESCRIPTORS_SHARE_OF_BROKERS if is_brokers else DESCRIPTORS_SHARE
        if descriptor > share * resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
            return DESCRIPTORS
        if is_brokers:
            return ""
        if len(self._open) >= config.max_connections:
            return "max.connections"
        now, rate = self._now(), float(config.max_connection_creation_rate)
        if rate < INT_MAX and not _one_more(self._created, rate, now):
            return "max.connection.creation.rate"
        of_quota = self._rate_of(host)
        if of_quota is not None and not _one_more(self._rate_from(host), of_quota, now):
            if rate < INT_MAX:
                self._created.record(-1, now)
            return CONNECTION_CREATION_RATE
        return ""

    def _rate_from(self, host: str) -> Rate:
        rate = self._created_from.get(host)
        if rate is None:
            if len(self._created_from) >= ADDRESSES_MAX:
                del self._created_from[next(iter(self._created_from))]
            rate = self._created_from[host] = self._new_rate()
        return rate

    def _new_rate(self) -> Rate:
        return Rate(self._config.quota_window_num, self._config.quota_window_size_seconds)

    def cut(self, connection: Connection, limit: str) -> None:
        """Tell of a connection that is closed for a limit."""
        self._tell("connection_cut", connection, limit, principal=connection.principal)

    def _tell(self, event: str, connection: Connection, limit: str, **fields: str) -> None:
        self._stats.record_limited(limit)
        if self._limited.takes(object()):
            self._emit(event, address=connection.client_host, listener=connection.listener, key=limit, **fields)

    def closed(self, connection: Connection) -> None:
        """Also called for those that were refused."""
        where = self._open.pop(connection, None)
        if where is None:
            return
        self._from[where] -= 1
        if not self._from[where]:
            del self._from[where]
        self._stats.connections -= 1
        if connection.heartbeats_of is not None and (lost := self._heartbeats.closed(connection)) is not None:
            self._broker_lost(lost)

    def heard_from(self, connection: Connection, heartbeats: Heartbeats) -> None:
        """A heartbeat came to the controller over this connection: from now on it is the one whose end counts."""
        connection.heartbeats_of = heartbeats
        self._heartbeats.heard_from(connection, heartbeats)

    def refuse(self) -> None:
        """From now on no connection is wanted."""
        self._ended = True

    def close_all(self) -> None:
        """Hang up. It is this broker that does: as the controller it must not take the others for dead."""
        self.refuse()
        self._heartbeats.hang_up()
        for connection in list(self._open):
            connection.close()
