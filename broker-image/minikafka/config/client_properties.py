"""The file of ``--command-config``: how a client secures its connections, by the names that Kafka's own clients have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka.client.metrics_access import OPEN, MetricsAccess
from minikafka.client.security import ClientSecurity
from minikafka.config.broker_keys import MiniKafkaOwn
from minikafka.config.keys import ConfigError, Key, class_name, declared, one_of, password
from minikafka.config.listener_security import tls_problems, tls_settings
from minikafka.config.oauth_settings import TOKEN_URL
from minikafka.config.properties import read_properties
from minikafka.config.refusals import shown_name
from minikafka.config.security_keys import MECHANISMS, OAUTHBEARER_PACKAGE, Security
from minikafka.security.bearer import TOKENS_KEY
from minikafka.security.jaas import MODULES, LoginModule, parse_for
from minikafka.security.oauthbearer import MECHANISM as OAUTHBEARER
from minikafka.security.oauthbearer import path_of
from minikafka.security.sasl_client import Login
from minikafka.security.tls import TlsSettingsError, client_context

_OF_BOTH_SIDES = (
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.key.password",
    "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates",
    "ssl.enabled.protocols", "ssl.protocol", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
    TOKEN_URL, TOKENS_KEY,
)  # fmt: skip


class OfClients:
    """Keys that brokers do not have, or have with another meaning."""

    security_protocol = one_of(
        "PLAINTEXT",
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="How connections are secured.",
    )
    sasl_mechanism = one_of("GSSAPI", ("GSSAPI", *MECHANISMS), doc="How to log in.")
    sasl_jaas_config = password(doc="As whom: a login module with username and password, or the one of OAUTHBEARER.")
    sasl_login_callback_handler_class = class_name(
        tuple(f"{OAUTHBEARER_PACKAGE}.{name}OAuthBearerLoginCallbackHandler" for name in ("", "secured.")),
        doc="Of Kafka's own clients, which get a token from a file only by it.",
    )
    sasl_oauthbearer_jwt_retriever_class = class_name(
        tuple(f"{OAUTHBEARER_PACKAGE}.{name}JwtRetriever" for name in ("Default", "File")),
        doc="Of Kafka's own clients: who gets the token.",
    )


_OF_BROKERS = declared(Security) | declared(MiniKafkaOwn)
KEYS: dict[str, Key[Any]] = declared(OfClients) | {name: _OF_BROKERS[name] for name in _OF_BOTH_SIDES}


def read_client_security(path: str | Path) -> ClientSecurity:
    """From a file. Raises ConfigError, one line for each refused setting."""
    return client_security(read_properties(path))


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """From keys and values. Raises ConfigError, one line for each refused setting."""
    problems = [
        f"{shown_name(name)}: not a setting of how connections are secured; allowed: {', '.join(sorted(KEYS))}"
        for name in properties
        if name not in KEYS
    ]
    values: dict[str, Any] = {}
    for name, key in KEYS.items():
        text = properties.get(name)
        try:
            values[name] = key.default_value() if text is None else key.read(text)
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    protocol, tokens_path = values["security.protocol"], values[TOKENS_KEY] or ""
    tls = None
    if protocol.endswith("SSL") or tokens_path:
        read = {**values, "ssl.client.auth": "none"}.__getitem__
        tls = tls_settings(read)
        problems.extend(tls_problems("", tls, read, needs_keystore=False))
    if problems:
        raise ConfigError(*problems)
    if tls is not None:
        try:
            client_context(tls)
        except TlsSettingsError as error:
            raise ConfigError(str(error)) from error
    return ClientSecurity(
        tls if protocol.endswith("SSL") else None,
        _login(values) if protocol.startswith("SASL") else None,
        OPEN if tls is None else MetricsAccess(tls, tokens_path),
    )


def _login(values: Mapping[str, Any]) -> Login:
    mechanism, text = values["sasl.mechanism"], values["sasl.jaas.config"]
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"sasl.mechanism={mechanism}: known to Kafka, not supported by MiniKafka; allowed: {', '.join(MECHANISMS)}"
        )
    is_token = mechanism == OAUTHBEARER
    example = f"{MODULES[mechanism]} required" if is_token else 'MODULE required username="NAME" password="TEXT"'
    allowed = f"allowed: {example};"
    if text is None:
        raise ConfigError(f"sasl.jaas.config: required with security.protocol={values['security.protocol']}; {allowed}")
    try:
        module = parse_for(mechanism, text)
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config=[hidden]: {error}; {allowed}") from None
    if is_token:
        return _token_login(values, module)
    if not module.username or module.password is None:
        raise ConfigError(f"sasl.jaas.config=[hidden]: username or password is missing; {allowed}")
    return Login(mechanism, module.username, module.password)


def _token_login(values: Mapping[str, Any], module: LoginModule) -> Login:
    if module.options:
        raise ConfigError(f"sasl.jaas.config=[hidden]: options; allowed: none, for {TOKEN_URL} says where the token is")
    path = path_of(values[TOKEN_URL] or "")
    if path is None:
        raise ConfigError(f"{TOKEN_URL}: required with sasl.mechanism={OAUTHBEARER}; allowed: file:///PATH")
    return Login(OAUTHBEARER, token_file=path)
