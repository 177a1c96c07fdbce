"""The listeners of a broker: the sockets it accepts connections on, and where others are told to find them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.config import BrokerConfig, ConfigError


class Listeners:
    """Of one broker.

    Args:
        config: ``listeners``, ``advertised.listeners`` and ``inter.broker.listener.name``.
        accept: makes what serves a connection that comes in at the listener of this name.
    """

    def __init__(self, config: BrokerConfig, accept: Callable[[str], asyncio.BaseProtocol]) -> None:
        self._config = config
        self._accept = accept
        self._servers: list[asyncio.Server] = []
        self._ports: dict[str, int] = {}

    async def open(self) -> None:
        """Take the ports; connections are refused until `serve`. Raises ConfigError with the one that cannot be had."""
        loop = asyncio.get_running_loop()
        for endpoint in self._config.listeners:
            try:
                server = await loop.create_server(
                    lambda name=endpoint.name: self._accept(name),
                    endpoint.host or None,
                    endpoint.port,
                    backlog=self._config.socket_listen_backlog_size,
                    start_serving=False,
                )
            except OSError as error:
                raise _refused(endpoint.host, endpoint.port, error) from error
            self._servers.append(server)
            self._ports[endpoint.name] = server.sockets[0].getsockname()[1]

    async def serve(self) -> None:
        """Accept connections from now on; none when `close` came first.

        Raises ConfigError: somebody else has begun to listen on a port meanwhile.
        """
        for endpoint, server in zip(self._config.listeners, self._servers, strict=False):
            try:
                await server.start_serving()
            except OSError as error:
                raise _refused(endpoint.host, self._ports[endpoint.name], error) from error

    def close(self) -> None:
        """No connection is accepted any more; those that there are stay."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    @property
    def names(self) -> list[str]:
        """Of those that are open."""
        return list(self._ports)

    def advertised(self) -> tuple[tuple[str, str, int], ...]:
        """(listener name, host, port) as clients and brokers shall use them."""
        return tuple(
            (endpoint.name, endpoint.host, endpoint.port or self._ports[endpoint.name])
            for endpoint in self._config.advertised_listeners
        )

    def inter_broker(self) -> tuple[str, int]:
        """Where other brokers are to find this one."""
        name = self._config.inter_broker_listener
        return next((h, p) for n, h, p in self.advertised() if n == name)


def _refused(host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(f"listeners: cannot listen on {host}:{port} ({error.strerror or error})")
