"""The keys with which an issuer signs access tokens, asked for over HTTP.

Apart from `token_keys`: most brokers ask no address, and need no `http.client`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from minikafka.config.oauth_settings import OAuthSettings
from minikafka.security.access_tokens import KEY_SET_BYTES_MAX, Key, UnknownKey, read_keys, read_token
from minikafka.security.oauthbearer import AccessToken, TokenRefused
from minikafka.security.tls import TlsSettings, client_context

if TYPE_CHECKING:
    from minikafka.transport.token_keys import Changed

FETCH_SECONDS_MAX = 5.0
"""Of one request, from the beginning to its end."""

_DOUBLED_MAX = 20
_TOO_LATE = "no whole answer in time"

Fetch = Callable[[], bytes]


class KeysAtAddress:
    """Keys that are asked for.

    Args:
        settings: how often, and what tokens have to say.
        fetch: asks for them, in a thread; raises OSError, HTTPException, ValueError.
        changed: see there; told once for each time that they cannot be had.
    """

    def __init__(self, settings: OAuthSettings, fetch: Fetch, changed: Changed) -> None:
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
            return read_token(token, self._keys, self._settings.rules, now)
        except UnknownKey:
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
            keys = self._keys if text == self._text else read_keys(text)
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
        except (OSError, HTTPException) as error:
            if time.monotonic() < deadline:
                raise
            # how the cut looks to who reads: an end, or a reset when a byte came just before it
            raise TimeoutError(_TOO_LATE) from error
        finally:
            cut.cancel()
    if time.monotonic() > deadline:
        raise TimeoutError(_TOO_LATE)
    if response.status != HTTPStatus.OK:
        raise ValueError(f"HTTP status {response.status}")
    return body


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of TLS, which another thread is reading from
