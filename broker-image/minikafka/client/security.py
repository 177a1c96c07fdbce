"""How a client secures its connections: TLS, and as whom it logs in; for our own connections, and in librdkafka's words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from minikafka.client.metrics_access import OPEN, MetricsAccess
from minikafka.security.ciphers import openssl_name
from minikafka.security.oauthbearer import expiry_of, read_token_file
from minikafka.security.sasl_client import Login
from minikafka.security.tls import TlsSettings, normal_pem


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Neither TLS nor a login unless somebody says otherwise."""

    tls: TlsSettings | None = None
    login: Login | None = None
    metrics: MetricsAccess = OPEN
    """How the brokers' metrics are read."""

    @property
    def protocol(self) -> str:
        """Kafka's name of it."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        if self.login is None:
            return transport
        return f"SASL_{transport}"

    def librdkafka(self) -> dict[str, Any]:
        """The same in librdkafka's settings."""
        if self.tls is None and self.login is None:
            return {}
        found: dict[str, Any] = {"security.protocol": self.protocol}
        if self.tls is not None:
            found |= _tls(self.tls)
        if self.login is not None:
            found["sasl.mechanisms"] = self.login.mechanism
        if self.login is not None and self.login.token_file:
            found["oauth_cb"] = partial(_token, self.login.token_file)
        elif self.login is not None:
            found["sasl.username"], found["sasl.password"] = self.login.username, self.login.password
        return found


PLAINTEXT = ClientSecurity()


def _token(path: str, _settings: str) -> tuple[str, float]:
    """Give librdkafka a token and its end, at which it asks again. Raises ValueError."""
    token = read_token_file(path)
    return token, expiry_of(token)


def _tls(tls: TlsSettings) -> dict[str, str]:
    found = {"ssl.endpoint.identification.algorithm": "https" if tls.endpoint_identification else "none"}
    if tls.keystore_location:
        found["ssl.certificate.location"] = found["ssl.key.location"] = tls.keystore_location
    elif tls.keystore_key:
        found["ssl.certificate.pem"] = normal_pem("ssl.keystore.certificate.chain", tls.keystore_certificate_chain)
        found["ssl.key.pem"] = normal_pem("ssl.keystore.key", tls.keystore_key)
    if tls.key_password:
        found["ssl.key.password"] = tls.key_password
    if tls.truststore_location:
        found["ssl.ca.location"] = tls.truststore_location
    elif tls.truststore_certificates:
        found["ssl.ca.pem"] = normal_pem("ssl.truststore.certificates", tls.truststore_certificates)
    if tls.cipher_suites:
        found["ssl.cipher.suites"] = ":".join(map(openssl_name, tls.cipher_suites))
    return found
