"""How this broker's connections are secured: those it accepts on each listener, and those it opens to other brokers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import lru_cache, partial

from minikafka.config import BrokerConfig, ConfigError
from minikafka.security.bearer import AcceptedTokens, TokensUnusable
from minikafka.security.oauthbearer import AccessToken
from minikafka.security.sasl_client import AuthenticationError, Login
from minikafka.security.scram import ScramCredential, credential_of
from minikafka.security.tls import FreshContext, TlsSettingsError, client_context, metrics_context, server_context
from minikafka.security.tls_stream import TlsStream
from minikafka.transport.peer import PeerConnection, connect
from minikafka.transport.token_keys import TokenKeys, open_token_keys

METRICS = "metrics"
"""In events, where others have a listener's name: the port of /metrics."""

Tell = Callable[..., None]
Repeat = Callable[[str, Callable[[], object]], "asyncio.Task[None]"]


class Channels:
    """Of one broker.

    Args:
        config: the broker's settings.
        emit: takes an event.
        warn: takes a line for the operator, which is told once a minute at most under its key.
        unix_ms: the wall clock.
    """

    def __init__(
        self, config: BrokerConfig, emit: Tell, warn: Callable[[str, str], object], unix_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._unix_ms = unix_ms
        self._emit = emit
        self._warn = warn
        self._accepting: dict[str, FreshContext] = {}
        self._connecting: FreshContext | None = None
        self._token_keys: dict[str, TokenKeys] = {}
        self.metrics_tokens: AcceptedTokens | None = None
        self._refreshing: list[asyncio.Task[None]] = []
        self.passing_secret = secrets.token_bytes(32)
        """Of false salts, while the cluster store has none: then there are no users in it, either."""

    async def open(self, repeat: Repeat) -> None:
        """Read keys and certificates, and go on reading those that are elsewhere (``repeat``: see `Supervisor.repeat`).

        Raises ConfigError with the file that cannot be used.
        """
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
            tls = self._config.metrics_tls
            if tls is not None:
                self._accepting[METRICS] = FreshContext(
                    tls, metrics_context, self._unusable(METRICS), self._renewed(METRICS)
                )
            path = self._config.minikafka_metrics_tokens_path
            if path is not None:
                self.metrics_tokens = AcceptedTokens(path, self._tokens_unusable, self._tokens_renewed)
        except (TlsSettingsError, TokensUnusable) as error:
            raise ConfigError(str(error)) from error
        for endpoint in self._config.listeners:
            oauth = self._config.security(endpoint.name).oauth
            if oauth is not None:
                keys = open_token_keys(oauth, partial(self._keys_changed, endpoint.name))
                self._token_keys[endpoint.name] = keys
                await keys.read_first()
                if keys.next_round is not None:
                    self._refreshing.append(repeat(f"keys of tokens of {endpoint.name}", keys.next_round))

    def close(self) -> None:
        """Read nothing more."""
        for task in self._refreshing:
            task.cancel()

    def _keys_changed(self, listener: str, problem: str | None) -> None:
        if problem is None:
            self._emit("token_keys_renewed", listener=listener)
        else:
            self._warn(f"keys of tokens of {listener}", f"listener {listener}: keys of tokens: {problem}")
            self._emit("token_keys_unusable", listener=listener, error=problem)

    def believe(self, listener: str, token: str) -> AccessToken:
        """Read a token that was shown at a listener. Raises TokenRefused."""
        return self._token_keys[listener].believe(token, self._unix_ms() / 1000)

    def _unusable(self, listener: str) -> Callable[[str], None]:
        def tell(problem: str) -> None:
            self._warn(f"certificates of {listener}", f"listener {listener} keeps its certificates: {problem}")
            self._emit("certificates_unusable", listener=listener, error=problem)

        return tell

    def _renewed(self, listener: str) -> Callable[[], None]:
        return lambda: self._emit("certificates_renewed", listener=listener)

    def _tokens_unusable(self, problem: str) -> None:
        self._warn("tokens of metrics", f"the tokens before stay in force: {problem}")
        self._emit("metrics_tokens_unusable", error=problem)

    def _tokens_renewed(self) -> None:
        self._emit("metrics_tokens_renewed")

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
        """As `minikafka.transport.peer.connect`, with what the inter-broker listener asks for."""
        login = self._config.security(self._config.inter_broker_listener).login
        tls = None
        if self._connecting is not None:
            tls = TlsStream(self._connecting.get(), server_side=False, host=host)
        try:
            return await connect(host, port, client_id, timeout, request_timeout, on_close, tls, login)
        except AuthenticationError as error:
            self._warn(f"authentication at {host}:{port}", f"cannot authenticate with {host}:{port}: {error}")
            raise

    def brokers_credential(
        self, listener: str, mechanism: str, user: str, salted: Callable[[], tuple[bytes, int]]
    ) -> ScramCredential | None:
        """Of the user as whom all brokers log in, from this broker's own settings: the store's may not be there yet.

        A cluster could not begin without it, for nobody could tell the controller to make that user. Its salt is what an
        unknown user of that name would be told (``salted``): another one on each broker would give away the name.
        """
        login = self._config.security(listener).login
        if login is None or (user, mechanism) != (login.username, login.mechanism):
            return None
        salt, iterations = salted()
        return self._own_credential(login, salt, iterations)

    @lru_cache(maxsize=4)  # noqa: B019 (as long as the broker)
    def _own_credential(self, login: Login, salt: bytes, iterations: int) -> ScramCredential:
        return credential_of(login.mechanism, login.password, iterations, salt)
