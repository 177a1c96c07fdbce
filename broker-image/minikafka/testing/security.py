"""TLS and users of a cluster for tests: settings, a certificate from an authority of its own, and what clients need of both."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from minikafka_chaos.session.errors import VerbRefused

from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.local.layout import CLIENTS
from minikafka.local.ports import HOST
from minikafka.security.jaas import PLAIN_MODULE, USER
from minikafka.security.sasl_client import Login
from minikafka.security.tls import TlsSettings

OWN_USER = "minikafka-testing"
"""As whom the verbs ask brokers."""
MECHANISM = "PLAIN"
USER_NAME = re.compile(r"[A-Za-z0-9_.-]+")
LISTENER = f"listener.name.{CLIENTS.lower()}."
DAYS = 2
EXTRA = "tls: needs the extra 'testing': pip install 'minikafka[testing]'"


class ClientsListener:
    """Of the listener for clients; brokers among themselves are as ever.

    Args:
        tls: whether it has TLS.
        users: the passwords of those who may log in, by name (SASL PLAIN); nobody has to where there are none.

    Raises:
        VerbRefused: it cannot be so.
    """

    def __init__(self, tls: bool, users: Mapping[str, str] | None) -> None:
        if not isinstance(tls, bool):
            raise VerbRefused(f"tls: {tls!r} is not True or False")
        self._users = _checked({} if users is None else users)
        self._tls: TlsSettings | None = None
        self.settings: dict[str, str] = {}
        """Of each broker."""
        if self._users:
            self._users[OWN_USER] = secrets.token_urlsafe()
            options = " ".join(f'{USER}{name}="{_quoted(password)}"' for name, password in self._users.items())
            self.settings[f"{LISTENER}sasl.enabled.mechanisms"] = MECHANISM
            self.settings[f"{LISTENER}plain.sasl.jaas.config"] = f"{PLAIN_MODULE} required {options};"
        if tls:
            authority, certificate, key = _certificates()
            self._tls = TlsSettings(truststore_certificates=authority)
            self.settings[f"{LISTENER}ssl.keystore.type"] = "PEM"
            self.settings[f"{LISTENER}ssl.keystore.certificate.chain"] = _on_one_line(certificate)
            self.settings[f"{LISTENER}ssl.keystore.key"] = _on_one_line(key)

    @property
    def own(self) -> ClientSecurity:
        """How the verbs ask brokers."""
        return self._of(OWN_USER) if self._users else self._of(None)

    @property
    def authority(self) -> str | None:
        """The certificate that clients are to trust; None without TLS."""
        return None if self._tls is None else self._tls.truststore_certificates

    def librdkafka(self, user: str | None) -> dict[str, Any]:
        """What a client of librdkafka needs beside addresses; the first user's where none is named. Raises VerbRefused."""
        names = [name for name in self._users if name != OWN_USER]
        if user is None:
            return self._of(names[0] if names else None).librdkafka()
        if user not in names:
            raise VerbRefused(f"user: {user!r} is not one of this cluster, which has {', '.join(names) or 'none'}")
        return self._of(user).librdkafka()

    def _of(self, user: str | None) -> ClientSecurity:
        login = None if user is None else Login(MECHANISM, user, self._users[user])
        return PLAINTEXT if login is None and self._tls is None else ClientSecurity(self._tls, login)


def _checked(users: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(users, Mapping):
        raise VerbRefused(f"users: {type(users).__name__} is not a dictionary of passwords by name")
    for name, password in users.items():
        if not isinstance(name, str) or not USER_NAME.fullmatch(name) or name == OWN_USER:
            raise VerbRefused(
                f"users: {name!r} is not a name of letters, digits, '_', '.' and '-' other than {OWN_USER}"
            )
        if not isinstance(password, str) or not password or not password.isprintable():
            raise VerbRefused(f"users: the password of {name} is not text that can be printed")
        if password[0] == " ":  # librdkafka would leave it out, and not be let in
            raise VerbRefused(f"users: the password of {name} begins with a space, which librdkafka does not send")
    return dict(users)


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def _on_one_line(pem: str) -> str:
    """As a file of settings takes it."""
    return " ".join(pem.split("\n"))


def _certificates() -> tuple[str, str, str]:
    """The certificate of an authority that nobody else has, whose key is forgotten; certificate and key of all brokers."""
    try:
        from minikafka_operator.security.certificates import Subject, issued, new_authority
    except ModuleNotFoundError as error:
        raise VerbRefused(EXTRA) from error
    now = datetime.now(UTC)
    authority = new_authority("minikafka-testing", "ca", now, DAYS)
    broker = issued(authority, Subject("broker", hosts=frozenset({HOST, "localhost"})), now, DAYS)
    return authority.certificate, broker.certificate, broker.key
