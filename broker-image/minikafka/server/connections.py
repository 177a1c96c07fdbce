"""The open connections of a broker: how many there may be, from whom, and whose end means that a broker has died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from minikafka.config import BrokerConfig
from minikafka.controller.heartbeats import HeartbeatConnections, Heartbeats
from minikafka.telemetry.stats import BrokerStats


class Connection(Protocol):
    """What is looked at of a connection."""

    client_host: str
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

    listener: str

    def close(self) -> None: ...


class ConnectionRegistry:
    """See the module. Called when a connection begins and ends, and at each heartbeat; never for a request of a client.

    Args:
        config: ``max.connections`` and ``max.connections.per.ip``.
        stats: counts connections.
        broker_lost: a connection that carried a broker's heartbeats has ended, and it has no newer one.
    """

    def __init__(self, config: BrokerConfig, stats: BrokerStats, broker_lost: Callable[[Heartbeats], None]) -> None:
        self._config = config
        self._stats = stats
        self._broker_lost = broker_lost
        self._open: dict[Connection, None] = {}
        self._from: Counter[str] = Counter()
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
        return dict(self._from)

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
        """False when ``max.connections`` or ``max.connections.per.ip`` is reached, or no more are wanted.

        Clients may use up the former, but must not lock out other brokers (Kafka's ConnectionQuotas protect them, too).
        """
        host = connection.client_host
        if self._ended or self._from[host] >= self._config.max_connections_per_ip:
            return False
        if not connection.inter_broker and len(self._open) >= self._config.max_connections:
            return False
        self._open[connection] = None
        self._from[host] += 1
        self._stats.connections += 1
        self._stats.connections_accepted += 1
        return True

    def closed(self, connection: Connection) -> None:
        """Also called for those that were refused."""
        if connection not in self._open:
            return
        del self._open[connection]
        host = connection.client_host
        self._from[host] -= 1
        if not self._from[host]:
            del self._from[host]
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
