"""How one listener is secured, all of its settings together and checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from minikafka.config.keys import ConfigError
from minikafka.config.listener_settings import PREFIX, OwnSettings, login_module
from minikafka.config.oauth_settings import TOKEN_URL, OAuthSettings, oauth_problems, oauth_settings
from minikafka.config.security_keys import MECHANISMS
from minikafka.security.jaas import LoginModule
from minikafka.security.oauthbearer import MECHANISM as OAUTHBEARER
from minikafka.security.oauthbearer import path_of
from minikafka.security.principal import MappingRule, parse_rules, user
from minikafka.security.sasl_client import Login
from minikafka.security.tls import TlsSettings

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""In the order of their numbers in Kafka's messages."""

ReadKey = Callable[[str], Any]
"""The value of a key for this listener."""


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """Of one listener."""

    protocol: str
    tls: TlsSettings | None = None
    mechanisms: Mapping[str, LoginModule | None] | None = None
    """Enabled ones, by name; None where there is no SASL."""
    reauth_ms: Mapping[str, int] | None = None
    principal_rules: tuple[MappingRule, ...] = ()
    oauth: OAuthSettings | None = None
    """Whose tokens are believed, where OAUTHBEARER is enabled."""
    login: Login | None = None
    """As whom this broker logs in at other brokers; of the inter-broker listener only."""
    brokers: frozenset[str] | None = None
    """Principals that are believed to be brokers; None: everybody who is let in, or with an authorizer whom ACLs allow it."""

    @property
    def protocol_number(self) -> int:
        return SECURITY_PROTOCOLS.index(self.protocol)


PLAINTEXT = ListenerSecurity("PLAINTEXT")


def listener_security(
    name: str, protocol: str, own: OwnSettings, general: ReadKey, inter_broker: bool
) -> ListenerSecurity:
    """Put together what is set for a listener. Raises ConfigError, one line for each problem."""

    def read(key: str) -> Any:
        return own.values[key] if key in own.values else general(key)

    problems: list[str] = []
    tls = tls_settings(read) if protocol.endswith("SSL") else None
    if tls is not None:
        problems.extend(tls_problems(name, tls, read))
    mechanisms: dict[str, LoginModule | None] | None = None
    login = oauth = None
    if protocol.startswith("SASL"):
        mechanisms = {}
        for mechanism in read("sasl.enabled.mechanisms"):
            try:
                mechanisms[mechanism] = login_module(name, mechanism, own) if mechanism in MECHANISMS else None
            except ConfigError as error:
                problems.extend(error.problems)
        problems.extend([] if problems else _sasl_problems(name, mechanisms))
        if OAUTHBEARER in mechanisms and not problems:
            read_oauth = _of_mechanism(OAUTHBEARER, own, read)
            oauth = oauth_settings(read_oauth, mechanisms[OAUTHBEARER])
            problems.extend(oauth_problems(name, oauth, mechanisms[OAUTHBEARER]))
        if inter_broker and not problems:
            mechanism = general("sasl.mechanism.inter.broker.protocol")
            module = mechanisms.get(mechanism)
            if mechanism not in mechanisms:
                problems.append(
                    f"sasl.mechanism.inter.broker.protocol={mechanism}: not enabled on listener {name}; "
                    f"allowed: {', '.join(mechanisms)}"
                )
            elif mechanism == OAUTHBEARER:
                token_file = path_of(_of_mechanism(OAUTHBEARER, own, read)(TOKEN_URL) or "")
                problems.extend(_token_problems(name, token_file, general))
                login = Login(mechanism, token_file=token_file or "")
            elif module is None or not module.username or not module.password:
                problems.append(
                    f"{PREFIX}{name.lower()}.{mechanism.lower()}.sasl.jaas.config: required, with username and password: "
                    "brokers log in with it; allowed: " + _EXAMPLE
                )
            else:
                login = Login(mechanism, module.username, module.password)
    if problems:
        raise ConfigError(*problems)
    reauth = {
        mechanism: _of_mechanism(mechanism, own, read)("connections.max.reauth.ms") for mechanism in mechanisms or ()
    }
    rules = parse_rules(read("ssl.principal.mapping.rules"))
    return ListenerSecurity(protocol, tls, mechanisms, reauth, rules, oauth, login, _brokers(general, login))


def _of_mechanism(mechanism: str, own: OwnSettings, read: ReadKey) -> ReadKey:
    """The value of a key for a mechanism of the listener."""
    values = own.mechanisms.get(mechanism, {})
    return lambda key: values[key] if key in values else read(key)


def _token_problems(name: str, token_file: str | None, general: ReadKey) -> Iterable[str]:
    if token_file is None:
        yield f"{TOKEN_URL}: required on listener {name}: brokers log in with it by OAUTHBEARER; allowed: file:///PATH"
    if not super_users(general("super.users")):
        yield (
            f"super.users: required with sasl.mechanism.inter.broker.protocol=OAUTHBEARER on listener {name}, for a token "
            "does not say that it is a broker's; allowed: the brokers' principals, as User:broker"
        )


def super_users(value: str) -> frozenset[str]:
    """The principals of ``super.users``."""
    return frozenset(name.strip() for name in value.split(";") if name.strip())


def _brokers(general: ReadKey, login: Login | None) -> frozenset[str] | None:
    found = set(super_users(general("super.users")))
    if login is not None and login.username:
        found.add(user(login.username))
    return frozenset(found) or None


_EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="NAME" password="TEXT";'


def tls_settings(read: ReadKey) -> TlsSettings:
    """As read key by key."""
    return TlsSettings(
        keystore_location=read("ssl.keystore.location") or "",
        keystore_certificate_chain=read("ssl.keystore.certificate.chain") or "",
        keystore_key=read("ssl.keystore.key") or "",
        key_password=read("ssl.key.password") or "",
        truststore_location=read("ssl.truststore.location") or "",
        truststore_certificates=read("ssl.truststore.certificates") or "",
        client_auth=read("ssl.client.auth"),
        enabled_protocols=read("ssl.enabled.protocols"),
        cipher_suites=read("ssl.cipher.suites"),
        endpoint_identification=bool(read("ssl.endpoint.identification.algorithm")),
    )


def tls_problems(name: str, tls: TlsSettings, read: ReadKey, *, needs_keystore: bool = True) -> Iterable[str]:
    """Return what does not go together; of a client, or of a listener by its name."""
    for store, given in (("keystore", tls.has_keystore), ("truststore", tls.has_truststore)):
        kind = read(f"ssl.{store}.type")
        if given and kind != "PEM":
            yield f"ssl.{store}.type={kind}: known to Kafka, not supported by MiniKafka; allowed: PEM"
    if needs_keystore and not tls.has_keystore:
        yield f"ssl.keystore.location: required by listener {name}; allowed: a PEM file with a private key and its certificates"
    elif tls.keystore_location and (tls.keystore_key or tls.keystore_certificate_chain):
        yield "ssl.keystore.location: ssl.keystore.key or ssl.keystore.certificate.chain is set as well; allowed: one of both"
    elif tls.keystore_key and not tls.keystore_certificate_chain:
        yield "ssl.keystore.certificate.chain: required with ssl.keystore.key; allowed: PEM with certificates"
    if tls.truststore_location and tls.truststore_certificates:
        yield "ssl.truststore.location: ssl.truststore.certificates is set as well; allowed: one of both"
    if tls.client_auth != "none" and not tls.has_truststore:
        yield (
            f"ssl.truststore.location: required with ssl.client.auth={tls.client_auth} on listener {name}: whoever has a "
            "certificate of some public authority would be let in; allowed: a PEM file with those who sign clients' certificates"
        )


def _sasl_problems(name: str, mechanisms: Mapping[str, LoginModule | None]) -> Iterable[str]:
    strange = [mechanism for mechanism in mechanisms if mechanism not in MECHANISMS]
    if strange or not mechanisms:
        yield (
            f"sasl.enabled.mechanisms={','.join(mechanisms)}: not supported by MiniKafka on listener {name}; "
            f"allowed: {', '.join(MECHANISMS)}"
        )
    if "PLAIN" in mechanisms and mechanisms["PLAIN"] is None:
        yield (
            f"{PREFIX}{name.lower()}.plain.sasl.jaas.config: required by PLAIN on listener {name}; "
            f'allowed: {_EXAMPLE.removesuffix(";")} user_NAME="TEXT";'
        )
