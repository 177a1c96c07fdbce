"""The keys with which others sign access tokens (OAUTHBEARER): of a file, or asked for over HTTP, and kept up to date.

A file is looked at whenever a token comes. An address is asked at start, before any listener opens, then in the background; a
token that names an unknown key has it asked sooner. What cannot be used leaves the keys before in force.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from minikafka.config import ConfigError
from minikafka.config.oauth_settings import JWKS_URL, OAuthSettings
from minikafka.security.fresh import Fresh
from minikafka.security.oauthbearer import AccessToken, TokenRefused, path_of
from minikafka.security.tls import TlsSettings, TlsSettingsError, client_context

if TYPE_CHECKING:
    from minikafka.security.access_tokens import Key

FETCH_SECONDS_MAX = 5.0
"""Of one request, from the beginning to its end."""

_DOUBLED_MAX = 20

Changed = Callable[[str | None], None]
"""Gets a line when keys cannot be used, and None when others are in force."""

Fetch = Callable[[], bytes]


class TokenKeys(Protocol):
    """Of one listener."""

    @property
    def next_round(self) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """What is to be done again and again; None: nothing."""
        ...

    async def read_first(self) -> None:
        """Read them before anybody needs them."""
        ...

    def believe(self, token: str, now: float) -> AccessToken:
        """Read a token at a time (Unix time in seconds). Raises TokenRefused."""
        ...


def open_token_keys(settings: OAuthSettings, changed: Changed) -> TokenKeys:
    """Make the keys of a listener.

    Raises ConfigError: the file cannot be used, the trust store cannot, or the library is not there.
    """
    try:
        import minikafka.security.access_tokens  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"sasl.enabled.mechanisms=OAUTHBEARER: {error.name} is not installed; allowed: with minikafka[oauth]"
        ) from error
    path = path_of(settings.keys_url)
    if path is not None:
        return KeysInFile(path, settings, changed)
    try:
        if settings.trust.has_truststore:
            client_context(settings.trust)
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from error
    return KeysAtAddress(settings, partial(fetch, settings.keys_url, settings.trust), changed)


class KeysInFile:
    """Keys of a file."""

    next_round = None

    def __init__(self, path: str, settings: OAuthSettings, changed: Changed) -> None:
        from minikafka.security.access_tokens import KeysRefused, read_keys, read_token

        def read() -> tuple[Key, ...]:
            try:
                return read_keys(Path(path).read_bytes())
            except OSError as error:
                raise KeysRefused(error.strerror or str(error)) from None

        self._read_token = read_token
        self._rules = settings.rules
        try:
            self._keys = Fresh([path], read, KeysRefused, changed, partial(changed, None))
        except KeysRefused as error:
            raise ConfigError(f"{JWKS_URL}={settings.keys_url}: {error}; allowed: a JSON Web Key Set") from error

    async def read_first(self) -> None:
        """They have been."""

    def believe(self, token: str, now: float) -> AccessToken:
        """Read a token. Raises TokenRefused."""
        return self._read_token(token, self._keys.get(), self._rules, now)


class KeysAtAddress:
    """Keys that are asked for.

    Args:
        settings: how often, and what tokens have to say.
        fetch: asks for them, in a thread; raises OSError, HTTPException, ValueError.
        changed: see there; told once for each time that they cannot be had.
    """

    def __init__(self, settings: OAuthSettings, fetch: Fetch, changed: Changed) -> None:
        from minikafka.security.access_tokens import UnknownKey, read_keys, read_token

        self._read_keys, self._read_token, self._unknown_key = read_keys, read_token, UnknownKey
        self._settings = settings
        self._fetch = fetch
        self._changed = changed
        self._text: bytes | None = None
        self._keys: tuple[Key, ...] = ()
        self._failures = 0
        self._asked = float("-inf")
        self._wanted = asyncio.Event()
        self.next_round = self._next_round

    def believe(self, token: str, now: float) -> AccessToken:
        """Read a token. Raises TokenRefused; for an unknown key they are asked for soon."""
        if self._text is None:
            raise TokenRefused("there are no keys yet")
        try:
            return self._read_token(token, self._keys, self._settings.rules, now)
        except self._unknown_key:
            self._wanted.set()
            raise

    async def _next_round(self) -> None:
        await self._wait()
        await self.read_first()

    async def _wait(self) -> None:
        settings = self._settings
        if self._failures:
            doubled = settings.retry_seconds * 2 ** min(self._failures - 1, _DOUBLED_MAX)
            await asyncio.sleep(min(doubled, settings.retry_seconds_max))
            return
        try:
            async with asyncio.timeout(settings.refresh_seconds):
                await self._wanted.wait()
        except TimeoutError:
            return
        # whoever makes up names of keys does not have them asked for at a pace of his own
        since = asyncio.get_running_loop().time() - self._asked
        await asyncio.sleep(max(settings.retry_seconds_max - since, 0))

    async def read_first(self) -> None:
        """Ask for them once, and take them when they are good."""
        self._wanted.clear()
        self._asked = asyncio.get_running_loop().time()
        try:
            text = await asyncio.to_thread(self._fetch)
            keys = self._keys if text == self._text else self._read_keys(text)
        except (OSError, HTTPException, ValueError) as error:
            self._failures += 1
            if self._failures == 1:
                self._changed(_in_a_line(error))
            return
        is_other, self._failures = text != self._text, 0
        self._text, self._keys = text, keys
        if is_other:
            self._changed(None)


def _in_a_line(error: Exception) -> str:
    """Return what went wrong; nothing of the address, which may have a password in it."""
    return " ".join((str(error) or type(error).__name__).split())


def fetch(url: str, trust: TlsSettings) -> bytes:
    """Ask an http or https address, through no proxy, and follow no redirect. Raises OSError, HTTPException, ValueError."""
    from minikafka.security.access_tokens import KEY_SET_BYTES_MAX

    deadline = time.monotonic() + FETCH_SECONDS_MAX
    parts = urlsplit(url)
    host = parts.hostname
    if not host:  # http.client would ask this machine
        raise ValueError("no host in the address")
    if parts.scheme == "https":
        context = client_context(trust)
        connection: HTTPConnection = HTTPSConnection(host, parts.port, timeout=FETCH_SECONDS_MAX, context=context)
    else:
        connection = HTTPConnection(host, parts.port, timeout=FETCH_SECONDS_MAX)
    body = b""
    with closing(connection):
        connection.connect()
        # the timeout above is of each read: who sends byte by byte, also of a header, is cut off by this one
        cut = threading.Timer(max(deadline - time.monotonic(), 0), _cut, [connection.sock])
        cut.daemon = True
        cut.start()
        try:
            connection.request("GET", urlunsplit(("", "", parts.path or "/", parts.query, "")))
            with connection.getresponse() as response:
                while len(body) <= KEY_SET_BYTES_MAX and (part := response.read1(1 << 16)):  # reading more refuses it
                    body += part
        finally:
            cut.cancel()
    if time.monotonic() > deadline:
        raise TimeoutError("no whole answer in time")
    if response.status != HTTPStatus.OK:
        raise ValueError(f"HTTP status {response.status}")
    return body


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of TLS, which another thread is reading from
