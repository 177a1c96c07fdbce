"""How this broker's connections are secured: those it accepts on each listener, and those it opens to other brokers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from minikafka.config import BrokerConfig, ConfigError
from minikafka.security.sasl_client import AuthenticationError
from minikafka.security.scram import HASHES, ScramCredential, credential_of
from minikafka.security.tls import FreshContext, TlsSettingsError, client_context, server_context
from minikafka.security.tls_stream import TlsStream
from minikafka.server.peer import PeerConnection, connect

Tell = Callable[..., None]


class Channels:
    """Of one broker.

    Args:
        config: the broker's settings.
        emit: takes an event.
        warn: takes a line for the operator, which is told once a minute at most under its key.
    """

    def __init__(self, config: BrokerConfig, emit: Tell, warn: Callable[[str, str], object]) -> None:
        self._config = config
        self._emit = emit
        self._warn = warn
        self._accepting: dict[str, FreshContext] = {}
        self._connecting: FreshContext | None = None

    def open(self) -> None:
        """Read keys and certificates. Raises ConfigError with the file that cannot be used."""
        try:
            for endpoint in self._config.listeners:
                tls = self._config.security(endpoint.name).tls
                if tls is not None:
                    self._accepting[endpoint.name] = FreshContext(
                        tls, server_context, self._unusable(endpoint.name), self._renewed(endpoint.name)
                    )
            inter_broker = self._config.inter_broker_listener
            tls = self._config.security(inter_broker).tls
            if tls is not None:  # the listener's context tells of changed files, and this one need not
                self._connecting = FreshContext(tls, client_context)
        except TlsSettingsError as error:
            raise ConfigError(str(error)) from error

    def _unusable(self, listener: str) -> Callable[[str], None]:
        def tell(problem: str) -> None:
            self._warn(f"certificates of {listener}", f"listener {listener} keeps its certificates: {problem}")
            self._emit("certificates_unusable", listener=listener, error=problem)

        return tell

    def _renewed(self, listener: str) -> Callable[[], None]:
        return lambda: self._emit("certificates_renewed", listener=listener)

    def accept(self, listener: str) -> TlsStream | None:
        """TLS of a connection that comes in at a listener; None where there is none."""
        context = self._accepting.get(listener)
        return None if context is None else TlsStream(context.get(), server_side=True)

    # -- to other brokers -----------------------------------------------------------------------------------------------

    async def connect(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout: float,
        request_timeout: float,
        on_close: Callable[[], None] | None = None,
    ) -> PeerConnection:
        """As `minikafka.server.peer.connect`, with what the inter-broker listener asks for."""
        login = self._config.security(self._config.inter_broker_listener).login
        tls = None
        if self._connecting is not None:
            tls = TlsStream(self._connecting.get(), server_side=False, host=host)
        try:
            return await connect(host, port, client_id, timeout, request_timeout, on_close, tls, login)
        except AuthenticationError as error:
            self._warn(f"authentication at {host}:{port}", f"cannot authenticate with {host}:{port}: {error}")
            raise

    @cached_property
    def _own_credentials(self) -> dict[str, ScramCredential]:
        login = self._config.security(self._config.inter_broker_listener).login
        if login is None or login.mechanism not in HASHES:
            return {}
        return {login.mechanism: credential_of(login.mechanism, login.password)}

    def brokers_credential(self, listener: str, mechanism: str, user: str) -> ScramCredential | None:
        """Of the user as whom all brokers log in, from this broker's own settings: the store's may not be there yet.

        A cluster could not begin without it, for nobody could tell the controller to make that user.
        """
        login = self._config.security(listener).login
        if login is None or user != login.username:
            return None
        return self._own_credentials.get(mechanism)
