"""One blocking connection to a broker, for what librdkafka does not tell: leader epochs, a broker's own settings.

Versions are negotiated with ApiVersions, so any Kafka-compatible broker will do.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any

from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import MalformedRequest, request_frame
from minikafka.security.sasl_client import AuthenticationError, Login, exchange
from minikafka.security.tls import client_context
from minikafka.security.tls_stream import tls_reason

_RESPONSE_BYTES_MAX = 256 << 20


def endpoints(text: str) -> list[tuple[str, int]]:
    """The hosts and ports of a checked list of bootstrap addresses."""
    pairs = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        pairs.append((host.strip("[]"), int(port)))
    return pairs


class NoAnswer(Exception):
    """The broker did not answer, or not in a way that can be read; ``str()`` says how."""


class BrokerConnection:
    """A connection that sends one request at a time; use it as a context manager. Raises NoAnswer, also when it is refused."""

    def __init__(self, host: str, port: int, timeout: float, security: ClientSecurity = PLAINTEXT) -> None:
        self.address = f"{host}:{port}"
        self._correlation = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout)
        except OSError as error:
            raise NoAnswer(error.strerror or str(error)) from error
        try:
            if security.tls is not None:
                self._socket = client_context(security.tls).wrap_socket(self._socket, server_hostname=host)
            if security.login is not None:
                self._log_in(security.login)
        except ssl.SSLError as error:
            self._socket.close()
            raise NoAnswer(f"TLS: {tls_reason(error)}") from error
        except (OSError, NoAnswer) as error:
            self._socket.close()
            raise NoAnswer(getattr(error, "strerror", None) or str(error)) from error

    def _log_in(self, login: Login) -> None:
        """Raises NoAnswer, AuthenticationError."""
        answer = self._exchange(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": login.mechanism})
        if answer.error_code:
            offered = ", ".join(answer.mechanisms)
            raise AuthenticationError(f"{login.mechanism}: {answer.error_code.name.upper()}; it takes {offered}")
        steps = exchange(login)
        message = next(steps)
        while True:
            answer = self._exchange(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": message})
            if answer.error_code:
                raise AuthenticationError(answer.error_message or answer.error_code.name.upper())
            try:
                message = steps.send(answer.auth_bytes)
            except StopIteration:
                return

    def __enter__(self) -> BrokerConnection:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def request(self, api_key: int, newest: int, values: Mapping[str, Any]) -> Any:
        """Send a request in the newest version that both sides know, ``newest`` at most; the decoded response.

        Raises:
            NoAnswer: nothing, or nonsense, came back, or the broker does not have that API.
        """
        if not self._versions:
            answer = self._exchange(ApiKey.API_VERSIONS, 0, {})
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        low, high = self._versions.get(api_key, (1, 0))
        version = min(newest, high)
        if version < low:
            raise NoAnswer(f"does not support API {api_key} up to version {newest}")
        return self._exchange(api_key, version, values)

    def _exchange(self, api_key: int, version: int, values: Mapping[str, Any]) -> Any:
        self._correlation += 1
        flexible = messages.is_flexible(api_key, version)
        body = messages.encode_request(api_key, version, values)
        try:
            self._socket.sendall(request_frame(api_key, version, self._correlation, "minikafka-cli", body, flexible))
            (size,) = struct.unpack(">i", self._read(4))
            if not 4 <= size <= _RESPONSE_BYTES_MAX:
                raise NoAnswer(f"answered with a frame of {size} bytes: not a Kafka broker?")
            answer = self._read(size)
        except ssl.SSLError as error:  # with TLS 1.3 a refused certificate shows only now
            raise NoAnswer(f"TLS: {tls_reason(error)}") from error
        except OSError as error:
            raise NoAnswer(error.strerror or str(error) or type(error).__name__) from error
        try:
            return messages.decode_response(api_key, version, messages.answer_body(api_key, version, answer))
        except MalformedRequest as error:
            raise NoAnswer(f"answered what cannot be read: {error}") from error

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(size)
            if not part:
                raise NoAnswer("closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
