"""TLS and users of the listener for clients of a local cluster: its settings, and what clients need, read from those settings.

The settings are all that is kept: who acts on a cluster finds in its record how its brokers are asked.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.local.errors import BadRequest
from minikafka.local.layout import CLIENTS, client_protocol
from minikafka.local.ports import HOST
from minikafka.security import jaas
from minikafka.security.sasl_client import Login
from minikafka.security.tls import TlsSettings, normal_pem, pem_blocks

OWN_USER = "minikafka-testing"
"""As whom verbs and commands on the cluster's folder ask brokers."""
MECHANISM = "PLAIN"
USER_NAME = re.compile(r"[A-Za-z0-9_.-]+")
PROTOCOLS = "listener.security.protocol.map"
LISTENER = f"listener.name.{CLIENTS.lower()}."
_MECHANISMS = f"{LISTENER}sasl.enabled.mechanisms"
_USERS = f"{LISTENER}plain.sasl.jaas.config"
_KEYSTORE_TYPE = f"{LISTENER}ssl.keystore.type"
_CHAIN = f"{LISTENER}ssl.keystore.certificate.chain"
_KEY = f"{LISTENER}ssl.keystore.key"
DAYS = 365
"""Of the certificates, which are never renewed."""
EXTRA = "tls: needs the extra 'testing': pip install 'minikafka[testing]'"


def listener_settings(tls: bool, users: Mapping[str, str] | None, hosts: Iterable[str] = ()) -> dict[str, str]:
    """Make the settings of brokers whose clients need TLS, or a login, or both; none where they need neither.

    Args:
        tls: whether the listener has TLS, by a certificate of an authority that nobody else has, whose key is forgotten.
        users: the passwords of those who may log in, by name (SASL PLAIN); nobody has to where there are none.
        hosts: by which names and addresses clients reach the brokers, beside those of this machine itself.

    Raises:
        BadRequest: it cannot be so.
    """
    if not isinstance(tls, bool):
        raise BadRequest(f"tls: {tls!r} is not True or False")
    passwords = _checked({} if users is None else users)
    found: dict[str, str] = {}
    if passwords:
        passwords[OWN_USER] = secrets.token_urlsafe()
        options = " ".join(f'{jaas.USER}{name}="{_quoted(password)}"' for name, password in passwords.items())
        found |= {_MECHANISMS: MECHANISM, _USERS: f"{jaas.PLAIN_MODULE} required {options};"}
    if tls:
        chain, key = _certificates({HOST, "localhost", *hosts})
        found |= {_KEYSTORE_TYPE: "PEM", _CHAIN: _on_one_line(chain), _KEY: _on_one_line(key)}
    return found


def with_listener(config: Mapping[str, str], listener: Mapping[str, str]) -> dict[str, str]:
    """Put `listener_settings` into the settings of brokers. Raises BadRequest where these say something of that listener."""
    if taken := config.keys() & listener.keys():
        raise BadRequest(f"config: {min(taken)} is what `tls` and `users` set")
    given = config.get(PROTOCOLS, "")
    if any(item.strip().upper().startswith(f"{CLIENTS}:") for item in given.split(",")):
        raise BadRequest(
            f"config: {PROTOCOLS}: {CLIENTS} is the listener for clients, of which `tls` and `users` decide"
        )
    protocols = ",".join(filter(None, [given, f"{CLIENTS}:{own_security(listener).protocol}"]))
    return {**config, **listener, PROTOCOLS: protocols}


def own_security(config: Mapping[str, str]) -> ClientSecurity:
    """Return how brokers with these settings are asked by verbs, and by commands on the cluster's folder."""
    return security_of(config, OWN_USER if OWN_USER in _passwords(config) else None)


def security_of(config: Mapping[str, str], user: str | None) -> ClientSecurity:
    """Return how brokers with these settings are asked by one of their users; by nobody in particular where none is named."""
    # Before there is a listener, of the settings that are to be its own, all that they have is used.
    protocol = client_protocol(config).upper() if PROTOCOLS in config else "SASL_SSL"
    login = None if user is None or "SASL" not in protocol else Login(MECHANISM, user, _passwords(config)[user])
    authority = authority_of(config) if "SSL" in protocol else None
    tls = None if authority is None else TlsSettings(truststore_certificates=authority)
    return PLAINTEXT if login is None and tls is None else ClientSecurity(tls, login)


def users_of(config: Mapping[str, str]) -> list[str]:
    """Return the names of those who may log in."""
    return [name for name in _passwords(config) if name != OWN_USER]


def authority_of(config: Mapping[str, str]) -> str | None:
    """Return the certificate, in PEM, that clients are to trust, the last of the brokers' chain; None without TLS."""
    found = pem_blocks(config.get(_CHAIN, ""), "CERTIFICATE")
    return normal_pem(_CHAIN, found[-1]) if found else None


def _passwords(config: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return jaas.parse(config[_USERS]).users if _USERS in config else {}
    except ValueError:  # somebody's own; the broker has refused it, or will
        return {}


def _checked(users: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(users, Mapping):
        raise BadRequest(f"users: {type(users).__name__} is not a dictionary of passwords by name")
    for name, password in users.items():
        if not isinstance(name, str) or not USER_NAME.fullmatch(name) or name == OWN_USER:
            raise BadRequest(
                f"users: {name!r} is not a name of letters, digits, '_', '.' and '-' other than {OWN_USER}"
            )
        if not isinstance(password, str) or not password or not password.isprintable():
            raise BadRequest(f"users: the password of {name} is not text that can be printed")
        if password[0] == " ":  # librdkafka would leave it out, and not be let in
            raise BadRequest(f"users: the password of {name} begins with a space, which librdkafka does not send")
        if "${env:" in password:
            raise BadRequest(f"users: the password of {name} has ${{env:, for which brokers put in a variable")
    return dict(users)


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def _on_one_line(pem: str) -> str:
    """As a file of settings takes it."""
    return " ".join(pem.split("\n"))


def _certificates(hosts: Iterable[str]) -> tuple[str, str]:
    """The chain of all brokers, their authority last, and the key of it."""
    try:
        from minikafka.security.certificates import Subject, issued, new_authority
    except ModuleNotFoundError as error:
        raise BadRequest(EXTRA) from error
    now = datetime.now(UTC)
    authority = new_authority("minikafka-testing", "ca", now, DAYS)
    broker = issued(authority, Subject("broker", hosts=frozenset(hosts)), now, DAYS)
    return broker.certificate + authority.certificate, broker.key
