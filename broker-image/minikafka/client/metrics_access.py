"""How our own programs read the port of a broker's metrics: with a token, and over TLS, where it has them."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from minikafka.security.bearer import TOKENS_KEY, TokensUnusable, read_tokens
from minikafka.security.tls import TlsSettings, TlsSettingsError, client_context

if TYPE_CHECKING:
    from http.client import HTTPConnection

KEYSTORE_KEY = "minikafka.metrics.ssl.keystore.location"
PAGE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class MetricsAccess:
    """Neither TLS nor a token unless somebody says otherwise.

    Args:
        tls: by which the broker's certificate is verified.
        tokens_path: the file of tokens, of which the first is shown.
        own: the certificate is believed for it is one in ``tls``' trust store itself: whose file we know to be the broker's.
    """

    tls: TlsSettings | None = None
    tokens_path: str = ""
    own: bool = False

    def url(self, host: str, port: int | None, path: str = "/metrics") -> str:
        """Where a page is."""
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self.tls is None else 'https'}://{shown}:{port}{path}"

    def ask(
        self, url: str, timeout_s: float, method: str = "GET", through: socket.socket | None = None
    ) -> tuple[int, bytes]:
        """Return status and body, through no proxy and after no redirect, which would get the token. Raises OSError.

        ``through``: a socket that leads there already.
        """
        from http.client import HTTPException  # slow to import, and brokers ask nobody

        parts = urlsplit(url)
        try:
            connection = self._connection(parts.scheme, parts.hostname or "", parts.port, timeout_s, through)
            headers = {"Accept": "text/plain"}
            if self.tokens_path:
                headers["Authorization"] = f"Bearer {read_tokens(self.tokens_path)[0]}"
        except (TlsSettingsError, TokensUnusable) as error:
            raise OSError(str(error)) from None
        try:
            connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(PAGE_BYTES_MAX)
        except HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def _connection(
        self, scheme: str, host: str, port: int | None, timeout_s: float, through: socket.socket | None
    ) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        connection = HTTPConnection(host, port, timeout=timeout_s)
        if through is not None:
            through.settimeout(timeout_s)
        if scheme == "https":
            context = client_context(self.tls or TlsSettings())
            if self.own:
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            connection = HTTPSConnection(host, port, timeout=timeout_s, context=context)
            through = through and context.wrap_socket(through, server_hostname=host)
        connection.sock = through
        return connection


OPEN = MetricsAccess()


def is_loopback(host: str) -> bool:
    """Return whether only this machine comes there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def own_access(config: Mapping[str, str]) -> MetricsAccess:
    """Of brokers that this machine runs, by their settings."""
    keystore = config.get(KEYSTORE_KEY, "")
    tls = TlsSettings(truststore_location=keystore, endpoint_identification=False) if keystore else None
    return MetricsAccess(tls, config.get(TOKENS_KEY, ""), own=True)
