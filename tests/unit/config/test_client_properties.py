"""The file of ``--command-config``: Kafka's own names, for our connections and for librdkafka (31 item 1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from minikafka.client.security import PLAINTEXT
from minikafka.config import ConfigError
from minikafka.config.client_properties import client_security, read_client_security
from minikafka.security.sasl_client import Login

from tests.certificates import PemFiles
from tests.tokens import Issuer

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} required username="alice" password="p\\"w";',
}
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
TOKEN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{OAUTHBEARER}.OAuthBearerLoginModule required;",
    "sasl.oauthbearer.token.endpoint.url": "file:///t%20n",
}


NOT_ASCII = "-----BEGIN CERTIFICATE-----\N{REPLACEMENT CHARACTER}-----END CERTIFICATE-----"
PEM = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}


def test_nothing_said_is_plaintext() -> None:
    assert client_security({}) == PLAINTEXT
    assert PLAINTEXT.librdkafka() == {}


def test_what_librdkafka_is_told(tmp_path: Path) -> None:
    """It takes every one of these settings."""
    files = PemFiles.write(tmp_path)
    text = {
        **LOGIN,
        "security.protocol": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.client),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.truststore),
        "ssl.endpoint.identification.algorithm": "",
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    }
    written = "\n".join(f"{key}={value}" for key, value in text.items()).replace("\\", "\\\\")
    (tmp_path / "client.properties").write_text(written)
    assert read_client_security(tmp_path / "client.properties") == client_security(text)
    found = client_security(text).librdkafka()
    assert found == {
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.certificate.location": str(files.client),
        "ssl.key.location": str(files.client),
        "ssl.ca.location": str(files.truststore),
        "ssl.cipher.suites": "ECDHE-ECDSA-AES128-GCM-SHA256",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'p"w',
    }
    Producer(found)


def test_a_token_from_a_file(tmp_path: Path) -> None:
    """By the settings that Kafka's own clients need, which librdkafka is given as a function."""
    path = tmp_path / "token"
    kafkas = {
        "sasl.login.callback.handler.class": f"{OAUTHBEARER}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.jwt.retriever.class": f"{OAUTHBEARER}.FileJwtRetriever",
        "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
    }
    security = client_security({**TOKEN, **kafkas})
    assert security.login == Login("OAUTHBEARER", token_file=str(path))
    found = security.librdkafka()
    assert {name for name in found if name.startswith("sasl")} == {"sasl.mechanisms"}
    path.write_text(Issuer().token(exp=4e9))
    assert found["oauth_cb"]("") == (path.read_text(), 4e9)
    Producer(found)


def test_texts_instead_of_files(tmp_path: Path) -> None:
    files = PemFiles.write(tmp_path)
    key, _, chain = files.client.read_text().partition("-----BEGIN CERTIFICATE")
    found = client_security(
        {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": " ".join(key.split("\n")),
            "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE" + chain,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": " ".join(files.truststore.read_text().split("\n")),
        }
    ).librdkafka()
    Producer(found)
    assert found["ssl.key.pem"] == key


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"acks": "all"},
            "acks: not a setting of how connections are secured; allowed: minikafka.metrics.tokens.path, ",
        ),
        ({"security.protocol": "TLS"}, "security.protocol=TLS: allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({**LOGIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: known to Kafka, not supported by MiniKafka;"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config: required with security.protoc",
        ),
        (
            {**LOGIN, "sasl.jaas.config": f'{SCRAM} required username="SECRET";'},
            "sasl.jaas.config=[hidden]: username or",
        ),
        ({**LOGIN, "sasl.mechanism": "PLAIN"}, "sasl.jaas.config=[hidden]: the module of PLAIN is "),
        (
            {**TOKEN, "sasl.oauthbearer.token.endpoint.url": ""},
            "sasl.oauthbearer.token.endpoint.url: required with sasl.",
        ),
        (
            {**TOKEN, "sasl.oauthbearer.token.endpoint.url": "https://h/t"},
            "sasl.oauthbearer.token.endpoint.url=https://h/t: allowed: file:///PATH",
        ),
        (
            {**TOKEN, "sasl.jaas.config": f'{OAUTHBEARER}.OAuthBearerLoginModule required clientSecret="SECRET";'},
            "sasl.jaas.config=[hidden]: options; allowed: none, for sasl.oauthbearer.token.endpoint.url says",
        ),
        (
            {**TOKEN, "sasl.jaas.config": f"{SCRAM} required;"},
            f"sasl.jaas.config=[hidden]: the module of OAUTHBEARER is {OAUTHBEARER}.OAuthBearerLoginModule; allowed: org",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/x"}, "ssl.truststore.type=JKS: known to Kafka, not"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/x", "ssl.truststore.type": "PEM"},
            "ssl.truststore.location=/x: No such file or directory; allowed: a file that can be read",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "\0", "ssl.truststore.type": "PEM"},
            "ssl.truststore.location=\\x00: no path; allowed: a file that can be read",
        ),
        ({**PEM, "ssl.truststore.certificates": NOT_ASCII}, "ssl.truststore.certificates: no certificates in it"),
        (
            {**PEM, "ssl.keystore.key": NOT_ASCII, "ssl.keystore.certificate.chain": NOT_ASCII},
            "ssl.keystore.key: not PEM",
        ),
    ],
)
def test_what_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client_security(settings)
    (line,) = caught.value.problems
    assert line.startswith(said)
    assert "SECRET" not in line
