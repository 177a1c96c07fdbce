"""TLS and SASL of each listener, put together from general settings and those of the listener's own (31 item 1)."""

import pytest
from minikafka.config import BrokerConfig, ConfigError
from minikafka.security.oauthbearer import TokenRules
from minikafka.security.sasl_client import Login

from tests.forms import for_each

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TLS = {
    "ssl.keystore.type": "PEM", "ssl.keystore.location": "/keys.pem",
    "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem",
}  # fmt: skip
SASL = {"sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN"}
USERS = {"listener.name.a.plain.sasl.jaas.config": f'{PLAIN} required username="b" password="p w" user_b="p w";'}


def config_of(protocols: str, **settings: str) -> BrokerConfig:
    """Listeners A, B, ... with these protocols, of which A is the brokers'."""
    names = "ABC"[: len(protocols.split(","))]
    return BrokerConfig.from_properties(
        {
            "node.id": "1",
            "minikafka.metadata.store": "memory",
            "listeners": ",".join(f"{name}://h:{port}" for port, name in enumerate(names, 1)),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in zip(names, protocols.split(","), strict=True)
            ),
            "inter.broker.listener.name": "A",
            **settings,
        }
    )


def refused(protocols: str, **settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config_of(protocols, **settings)
    (line,) = caught.value.problems
    return line


def test_a_listener_has_the_general_settings_or_its_own() -> None:
    own = {"listener.name.b.ssl.client.auth": "required", "listener.name.b.ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}
    config = config_of("SSL,SSL", **TLS, **own)
    a, b = config.security("A").tls, config.security("B").tls
    assert a is not None
    assert b is not None
    assert (a.keystore_location, a.client_auth, a.cipher_suites) == ("/keys.pem", "none", ())
    assert (b.keystore_location, b.client_auth, b.cipher_suites) == (
        "/keys.pem",
        "required",
        ("TLS_AES_128_GCM_SHA256",),
    )
    assert [config.security(name).protocol_number for name in ("A", "B")] == [1, 1]


def test_a_mechanism_has_its_own_settings() -> None:
    config = config_of("SASL_PLAINTEXT", **SASL, **USERS, **{"listener.name.a.plain.connections.max.reauth.ms": "1000"})
    security = config.security("A")
    assert security.mechanisms is not None
    module = security.mechanisms["PLAIN"]
    assert module is not None
    assert module.users == {"b": "p w"}
    assert security.reauth_ms == {"PLAIN": 1000}
    assert security.login is not None
    assert (security.login.mechanism, security.login.username) == ("PLAIN", "b")
    assert "p w" not in repr(security)


def test_the_protocol_of_brokers_names_their_listener() -> None:
    config = BrokerConfig.from_properties(
        {"node.id": "1", "minikafka.metadata.store": "memory", "listeners": "PLAINTEXT://h:1,SSL://h:2",
         "security.inter.broker.protocol": "SSL", **TLS}
    )  # fmt: skip
    assert config.inter_broker_listener == "SSL"
    assert refused("PLAINTEXT", **{"security.inter.broker.protocol": "SSL"}).startswith(
        "security.inter.broker.protocol=SSL: inter.broker.listener.name=A is set as well;"
    )


@pytest.mark.parametrize(
    ("protocols", "settings", "said"),
    [
        ("SSL", {}, "ssl.keystore.location: required by listener A; allowed: a PEM file"),
        ("SSL", {**TLS, "ssl.keystore.type": "JKS"}, "ssl.keystore.type=JKS: known to Kafka, not supported"),
        ("SSL", {"ssl.keystore.location": "/k", "ssl.keystore.type": "PEM", "ssl.client.auth": "requested"},
         "ssl.truststore.location: required with ssl.client.auth=requested on listener A"),
        ("SSL", {**TLS, "ssl.keystore.key": "SECRET"}, "ssl.keystore.location: ssl.keystore.key or"),
        ("SSL", {"ssl.keystore.key": "SECRET", "ssl.keystore.type": "PEM"}, "ssl.keystore.certificate.chain: required"),
        ("SSL", {**TLS, "ssl.truststore.certificates": "x"}, "ssl.truststore.location: ssl.truststore.certificates is"),
        ("SSL", {**TLS, "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols=TLSv1.1: allowed: comma-separated"),
        ("SSL", {**TLS, "ssl.endpoint.identification.algorithm": "x"}, "ssl.endpoint.identification.algorithm=x: allowed"),
        ("SSL", {**TLS, "ssl.principal.mapping.rules": "RULE:(/x/"}, "ssl.principal.mapping.rules=RULE:(/x/: '(' is no"),
        ("SSL", {**TLS, "listener.name.x.ssl.client.auth": "none"}, "listener.name.x.ssl.client.auth: no such listener;"),
        ("SSL", {**TLS, "listener.name.a.ssl.client.auth": "1"}, "listener.name.a.ssl.client.auth=1: allowed: none, req"),
        ("SASL_PLAINTEXT", {}, "sasl.enabled.mechanisms=GSSAPI: not supported by MiniKafka on listener A; allowed: PLAIN"),
        ("SASL_PLAINTEXT", SASL, "listener.name.a.plain.sasl.jaas.config: required by PLAIN on listener A; allowed: org."),
        ("SASL_PLAINTEXT", {**SASL, **USERS, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
         "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256: not enabled on listener A; allowed: PLAIN"),
        ("SASL_PLAINTEXT",
         {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
         "listener.name.a.scram-sha-512.sasl.jaas.config: required, with username and password"),
        ("SASL_PLAINTEXT", {**SASL, "listener.name.a.plain.sasl.jaas.config": f'{SCRAM} required user_b="SECRET";'},
         f"listener.name.a.plain.sasl.jaas.config=[hidden]: the module of PLAIN is {PLAIN}; allowed: MODULE"),
        ("PLAINTEXT", {"sasl.jaas.config": "SECRET"}, "sasl.jaas.config=[hidden]: belongs to a listener and a mechanism"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(protocols: str, settings: dict[str, str], said: str) -> None:
    line = refused(protocols, **settings)
    assert line.startswith(said)
    assert "SECRET" not in line


# -- OAUTHBEARER -----------------------------------------------------------------------------------------------------------


OAUTH = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://h/keys",
    "sasl.oauthbearer.token.endpoint.url": "file:///token",
    "super.users": "User:b",
}
JAAS = "listener.name.a.oauthbearer.sasl.jaas.config"
CLASS = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
MODULE = f"{CLASS}LoginModule required"


def test_whose_tokens_a_listener_believes() -> None:
    """By general settings, by those of a listener, and by those of its mechanism, which count first."""
    more = {
        "sasl.oauthbearer.expected.audience": "kafka, other",
        "listener.name.a.sasl.oauthbearer.clock.skew.seconds": "5",
        "listener.name.a.sasl.oauthbearer.expected.issuer": "i",
        "listener.name.a.oauthbearer.sasl.oauthbearer.expected.issuer": "https://i",
        "listener.name.a.oauthbearer.sasl.server.callback.handler.class": f"{CLASS}ValidatorCallbackHandler",
        "listener.name.a.oauthbearer.connections.max.reauth.ms": "1000",
        JAAS: f'{MODULE} ssl.truststore.type="PEM" ssl.truststore.location="/ca.pem";',
    }
    config = config_of("SASL_PLAINTEXT,SASL_PLAINTEXT", **OAUTH, **more)
    a, b = config.security("A"), config.security("B")
    assert a.oauth is not None
    assert b.oauth is not None
    assert a.oauth.rules == TokenRules(("kafka", "other"), "https://i", clock_skew_seconds=5)
    assert b.oauth.rules == TokenRules(("kafka", "other"))
    assert (a.oauth.keys_url, a.oauth.refresh_seconds) == ("https://h/keys", 3600)
    assert (a.oauth.retry_seconds, a.oauth.retry_seconds_max) == (0.1, 10)
    assert (a.oauth.trust.truststore_location, b.oauth.trust.has_truststore) == ("/ca.pem", False)
    assert a.reauth_ms == {"OAUTHBEARER": 1000}
    assert (a.login, a.brokers) == (Login("OAUTHBEARER", token_file="/token"), {"User:b"})
    assert config.warnings == ()


def test_tokens_for_others_are_warned_of() -> None:
    (line,) = config_of("SASL_PLAINTEXT", **OAUTH).warnings
    assert line.startswith("sasl.oauthbearer.expected.audience is not set: listener A takes tokens that are for others")


@for_each(
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": ""},
         "sasl.oauthbearer.jwks.endpoint.url: required by OAUTHBEARER on listener A; allowed: file:///PATH or"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://h/k"}, "sasl.oauthbearer.jwks.endpoint.url=ftp://h/k: allowed: file:///"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file://h/k"}, "sasl.oauthbearer.jwks.endpoint.url=file://h/k: allowed: file:///"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://u:SECRET@h/"},
         "sasl.oauthbearer.jwks.endpoint.url=[hidden]: names a user"),
        ({"sasl.oauthbearer.token.endpoint.url": ""},
         "sasl.oauthbearer.token.endpoint.url: required on listener A: brokers log in"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/"}, "sasl.oauthbearer.token.endpoint.url=https://h/: allowed: file"),
        ({"super.users": ""}, "super.users: required with sasl.mechanism.inter.broker.protocol=OAUTHBEARER on listener A"),
        ({JAAS: f'{MODULE} unsecuredLoginStringClaim_sub="SECRET";'},
         f"{JAAS}=[hidden]: unsecuredLoginStringClaim_sub: tokens without a signature are not served; allowed: ssl.trust"),
        ({JAAS: f'{MODULE} clientSecret="SECRET";'}, f"{JAAS}=[hidden]: clientSecret: not used by a broker; allowed: ssl.trust"),
        ({JAAS: f'{MODULE} ssl.truststore.location="/x";'}, f"{JAAS}=[hidden]: ssl.truststore.type: known to Kafka, not"),
        ({JAAS: f'{MODULE} ssl.truststore.type=PEM ssl.truststore.location="/x" ssl.truststore.certificates="x";'},
         f"{JAAS}=[hidden]: ssl.truststore.location: ssl.truststore.certificates is set as well"),
        ({JAAS: f"{PLAIN} required;"}, f"{JAAS}=[hidden]: the module of OAUTHBEARER is {CLASS}LoginModule; allowed"),
        ({"listener.name.a.oauthbearer.sasl.server.callback.handler.class": "x"},
         "listener.name.a.oauthbearer.sasl.server.callback.handler.class=x: allowed: org.apache.kafka.common.security."),
        ({"listener.name.a.plain.sasl.oauthbearer.expected.issuer": "x"},
         "listener.name.a.plain.sasl.oauthbearer.expected.issuer: no setting that a listener has of its own"),
        ({"sasl.oauthbearer.jwt.validator.class": "x"}, "sasl.oauthbearer.jwt.validator.class=x: known to Kafka, not supp"),
    ]
)  # fmt: skip
def test_what_does_not_go_with_tokens(settings: dict[str, str], said: str) -> None:
    line = refused("SASL_PLAINTEXT", **{**OAUTH, **settings})
    assert line.startswith(said), line
    assert "SECRET" not in line


def test_secrets_are_not_described() -> None:
    settings = {"ssl.keystore.key": "SECRET", "ssl.keystore.certificate.chain": "x", "ssl.keystore.type": "PEM"}
    entries = config_of("SSL", **settings).describe()
    assert "SECRET" not in repr(entries)
    assert next(e for e in entries if e.name == "ssl.keystore.key").is_sensitive


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.a.plain.sasl.jaas.cfg", f'{PLAIN} required user_alice="SECRET";'),
        ("sasl.jaas.confg", "x SECRET"),
        ("ssl.key.pasword", "SECRET"),
        ("some.key", "-----BEGIN PRIVATE KEY-----SECRET"),
        ("some.url", "http://user:SECRET@host"),
    ],
)
def test_a_misspelt_key_tells_no_secret(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({"node.id": "1", "minikafka.metadata.store": "memory", name: value})
    assert name in str(caught.value)
    assert "SECRET" not in str(caught.value)
