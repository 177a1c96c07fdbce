"""TLS, mutual TLS, PLAIN and SCRAM with clients that nobody here wrote, and with our own (31 item 1)."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from minikafka.cli.main import main

from tests.forms import in_full
from tests.interop.kafka_jars import run_tool
from tests.interop.secured import ADMIN, ISSUED, OAUTHBEARER, PASSWORD, PLAIN, SCRAM, Secured, SecuredThread
from tests.waiting import until

ALICE, HERS = "alice=,ä", "p,w=ö"
BOB = "bob"
"""Who has the same password. kafka-python does not escape what RFC 5802 wants escaped in a user's name."""
SECONDS_MAX = 60.0
TOKEN_SECONDS = 20
WAYS = ("TLS", "MUTUAL", "PLAINSASL PLAIN", "PLAINSASL SCRAM-SHA-256", "SECURE SCRAM-SHA-512", "SECURE PLAIN")
"""Listener, and mechanism where it has SASL."""
FEW = ("MUTUAL", *in_full(way for way in WAYS if way not in ("MUTUAL", "SECURE SCRAM-SHA-512")), "SECURE SCRAM-SHA-512")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    thread = SecuredThread(tmp_path_factory.mktemp("secured"))
    try:
        yield thread.start()
    finally:
        thread.stop()


@pytest.fixture(scope="module")
def users(secured: Secured) -> Secured:
    """The same, with a user that an admin client has made, logged in by PLAIN over TLS."""
    admin = AdminClient(librdkafka(secured, "SECURE PLAIN"))
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        for user in (ALICE, BOB):
            wish = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), HERS.encode())
            (done,) = admin.alter_user_scram_credentials([wish]).values()
            done.result(SECONDS_MAX)
    return secured


def login(way: str) -> tuple[str, str, str] | None:
    """Mechanism, user and password."""
    mechanism = way.partition(" ")[2]
    if not mechanism:
        return None
    return (mechanism, ADMIN, PASSWORD) if mechanism == "PLAIN" else (mechanism, ALICE, HERS)


def protocol(way: str) -> str:
    return {"TLS": "SSL", "MUTUAL": "SSL", "PLAINSASL": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}[
        way.split(maxsplit=1)[0]
    ]


def librdkafka(secured: Secured, way: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": secured.at(way.split(maxsplit=1)[0]),
        "security.protocol": protocol(way),
        "log_level": 0,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    if protocol(way).endswith("SSL"):
        found["ssl.ca.location"] = str(secured.files.truststore)
    if way == "MUTUAL":
        found["ssl.certificate.location"] = found["ssl.key.location"] = str(secured.files.client)
    if (known := login(way)) is not None:
        found |= dict(zip(("sasl.mechanisms", "sasl.username", "sasl.password"), known, strict=True))
    return found


def python_client(secured: Secured, way: str) -> dict[str, Any]:
    """Of aiokafka and kafka-python, which have the same names."""
    found: dict[str, Any] = {
        "bootstrap_servers": secured.at(way.split(maxsplit=1)[0]),
        "security_protocol": protocol(way),
    }
    if protocol(way).endswith("SSL"):
        context = ssl.create_default_context(cafile=str(secured.files.truststore))
        if way == "MUTUAL":
            context.load_cert_chain(str(secured.files.client))
        found["ssl_context"] = context
    if (known := login(way)) is not None:
        names = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
        found |= dict(zip(names, known, strict=True))
    return found


RECORDS = [f"{n}".encode() * 5000 for n in range(60)]
"""Some are larger than what a record of TLS holds."""


@pytest.mark.parametrize("way", WAYS)
def test_librdkafka(users: Secured, topic: str, group: str, way: str) -> None:
    producer = Producer(librdkafka(users, way, acks="all"))
    for record in RECORDS:
        producer.produce(topic, record)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer(librdkafka(users, way, group_id=group, auto_offset_reset="earliest"))
    consumer.subscribe([topic])
    with closing(consumer):
        assert sorted(read(lambda: consumer.consume(100, 1.0))) == sorted(RECORDS)
        consumer.commit(asynchronous=False)


def read(poll: Callable[[], list[Any]]) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < len(RECORDS) and time.monotonic() < deadline:
        found += [message.value() for message in poll() if message.error() is None]
    return found


@pytest.mark.parametrize("way", FEW)
async def test_aiokafka(users: Secured, topic: str, way: str) -> None:
    async with AIOKafkaProducer(**python_client(users, way), acks="all") as producer:
        for record in RECORDS:
            await producer.send(topic, record)
    consumer = AIOKafkaConsumer(topic, **python_client(users, way), auto_offset_reset="earliest")
    async with consumer:
        found = [(await anext(consumer)).value for _ in RECORDS]
    assert sorted(found) == sorted(RECORDS)


@pytest.mark.parametrize("way", FEW)
def test_kafka_python(users: Secured, topic: str, way: str) -> None:
    settings = python_client(users, way)
    if settings.get("sasl_plain_username") == ALICE:
        settings["sasl_plain_username"] = BOB
    with closing(KafkaProducer(**settings, acks="all")) as producer:
        for record in RECORDS:
            producer.send(topic, record)
        producer.flush(SECONDS_MAX)
    options = {"auto_offset_reset": "earliest", "consumer_timeout_ms": int(SECONDS_MAX * 1000)}
    with closing(KafkaConsumer(topic, **settings, **options)) as consumer:
        found = [next(consumer).value for _ in RECORDS]
    assert sorted(found) == sorted(RECORDS)


# -- who is not let in -----------------------------------------------------------------------------------------------------


def errors_of(settings: dict[str, Any]) -> str:
    """What librdkafka says of a cluster that it cannot use: its first error."""
    said: list[str] = []
    client = Producer({**settings, "error_cb": lambda error: said.append(f"{error.name()} {error.str()}")})
    deadline = time.monotonic() + SECONDS_MAX
    while not said and time.monotonic() < deadline:
        client.poll(0.1)
    return said[0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", *in_full(["SCRAM-SHA-512"])])
@pytest.mark.parametrize("user", ["right", "unknown"])
def test_a_wrong_password_or_an_unknown_user(users: Secured, mechanism: str, user: str) -> None:
    way = f"SECURE {mechanism}"
    (_, name, _) = login(way) or ("", "", "")
    before = len(users.refusals("SECURE"))
    settings = (
        librdkafka(users, way) | {"sasl.password": "wrong"} | ({"sasl.username": "x"} if user == "unknown" else {})
    )
    said = errors_of(settings)
    assert said.startswith("_AUTHENTICATION ")
    assert "Authentication failed" in said
    assert "unknown" not in said
    told = users.refusals("SECURE")[before:]
    name = "x" if user == "unknown" else name
    assert set(told) == {(f"User:{name}", "unknown user" if user == "unknown" else "wrong password")}


@pytest.mark.parametrize("listener", ["EXPIRED", "SELFSIGNED", "MISNAMED"])
def test_a_broker_that_is_not_to_be_believed(secured: Secured, listener: str) -> None:
    """By the client, whose alert the broker tells."""
    settings = librdkafka(secured, "TLS") | {"bootstrap.servers": secured.at(listener)}
    assert "certificate verify failed" in errors_of(settings)


def test_a_client_without_a_certificate(secured: Secured) -> None:
    settings = librdkafka(secured, "TLS") | {"bootstrap.servers": secured.at("MUTUAL")}
    assert "certificate required" in errors_of(settings)
    assert (None, "TLS: peer did not return a certificate") in secured.refusals("MUTUAL")


def test_a_user_that_is_removed(users: Secured) -> None:
    admin = AdminClient(librdkafka(users, "SECURE PLAIN"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    (done,) = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("gone", info, b"pw")]).values()
    done.result(SECONDS_MAX)
    theirs = librdkafka(users, "SECURE SCRAM-SHA-256") | {"sasl.username": "gone", "sasl.password": "pw"}
    AdminClient(theirs).list_topics(timeout=SECONDS_MAX)
    deletion = UserScramCredentialDeletion("gone", ScramMechanism.SCRAM_SHA_256)
    (done,) = admin.alter_user_scram_credentials([deletion]).values()
    done.result(SECONDS_MAX)
    assert errors_of(theirs).startswith("_AUTHENTICATION ")


# -- tokens ----------------------------------------------------------------------------------------------------------------


def with_tokens(secured: Secured, make: Callable[[], str], expires: float) -> dict[str, Any]:
    """Settings of librdkafka, which asks again for a token before the time that it is told."""
    usual = librdkafka(secured, "SECURE") | {
        "bootstrap.servers": secured.at("TOKENS"),
        "sasl.mechanisms": "OAUTHBEARER",
    }
    return usual | {"oauth_cb": lambda _: (make(), expires)}


def test_librdkafka_with_a_token(secured: Secured, topic: str) -> None:
    settings = with_tokens(secured, ISSUED.token, time.time() + 3600)
    producer = Producer(settings)
    producer.produce(topic, b"one")
    assert producer.flush(SECONDS_MAX) == 0
    assert topic in AdminClient(settings).list_topics(timeout=SECONDS_MAX).topics


def test_librdkafka_with_another_token(secured: Secured) -> None:
    """It hears the status, acknowledges it, and tells of it."""
    before = len(secured.refusals("TOKENS"))
    said = errors_of(with_tokens(secured, lambda: ISSUED.token(aud="somebody"), time.time() + 3600))
    assert said.startswith("_AUTHENTICATION ")
    assert '{"status":"invalid_token"}' in said
    assert set(secured.refusals("TOKENS")[before:]) == {(None, "the token's claim aud is not what is expected")}


@pytest.mark.full
def test_librdkafka_shows_new_tokens(secured: Secured, topic: str) -> None:
    """KIP-368: before a token ends. It asks for one when a fifth is left, which must be more than the second in which no broker
    takes another login, also on a machine that is late: so the token of this test lasts for twenty seconds, not for ten."""
    made: list[float] = []
    errors: list[str] = []

    def token(_: str) -> tuple[str, float]:
        made.append(time.time())
        return ISSUED.token(lasts=TOKEN_SECONDS), made[-1] + TOKEN_SECONDS

    settings = with_tokens(secured, str, 0) | {"oauth_cb": token, "error_cb": lambda error: errors.append(error.str())}
    producer = Producer(settings)
    while not made or time.time() < made[0] + TOKEN_SECONDS + 1:
        producer.produce(topic, b"one")
        assert producer.flush(SECONDS_MAX) == 0
        producer.poll(0.2)
    assert (len(made), errors) == (2, [])


class Tokens(AbstractTokenProvider):
    """Of aiokafka."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {"logicalCluster": "lkc-1"}


def aiokafka_settings(secured: Secured, token: str) -> dict[str, Any]:
    usual = python_client(secured, "SECURE") | {"bootstrap_servers": secured.at("TOKENS")}
    return usual | {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Tokens(token)}


async def test_aiokafka_with_a_token(secured: Secured, topic: str) -> None:
    """It also sends extensions of SASL."""
    async with AIOKafkaProducer(**aiokafka_settings(secured, ISSUED.token())) as producer:
        await producer.send_and_wait(topic, b"one")


async def test_aiokafka_with_another_token(secured: Secured) -> None:
    """It takes the status for the end of the login, goes on, and finds the connection closed."""
    before = len(secured.refusals("TOKENS"))
    producer = AIOKafkaProducer(**aiokafka_settings(secured, ISSUED.token(lasts=-60)))
    with pytest.raises(KafkaConnectionError):
        await producer.start()
    await producer.stop()
    await until(lambda: secured.refusals("TOKENS")[before:])
    assert set(secured.refusals("TOKENS")[before:]) == {(None, "the token has expired")}


def with_a_token_file(secured: Secured, token: str) -> str:
    """As Kafka's own tools take it."""
    path = secured.folder / f"token-{abs(hash(token))}"
    path.write_text(token)
    return secured.properties(
        path.name,
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=f"{OAUTHBEARER}.OAuthBearerLoginModule required;",
        sasl_login_callback_handler_class=f"{OAUTHBEARER}.OAuthBearerLoginCallbackHandler",
        sasl_oauthbearer_token_endpoint_url=path.as_uri(),
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(secured.files.truststore),
    )


def test_our_own_commands_with_a_token(secured: Secured, topic: str, capfd: pytest.CaptureFixture[str]) -> None:
    """By our own connections, and by librdkafka."""
    where = ["--bootstrap", secured.at("TOKENS"), "--command-config"]
    good, bad = (with_a_token_file(secured, ISSUED.token(iss=issuer)) for issuer in ("https://issuer.example", "x"))
    create = ["topic", "create", topic, "--partitions", "1", "--replication-factor", "1"]
    assert main([*create, *where, good]) == 0
    assert main(["status", *where, good]) == 0
    assert main(["topic", "list", *where, bad]) == 3
    assert '{"status":"invalid_token"}' in capfd.readouterr().err


# -- our own ---------------------------------------------------------------------------------------------------------------


def command_config(secured: Secured, way: str) -> str:
    settings = {"security_protocol": protocol(way)}
    if protocol(way).endswith("SSL"):
        settings |= {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(secured.files.truststore)}
    if way == "MUTUAL":
        settings |= {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(secured.files.client)}
    if (known := login(way)) is not None:
        mechanism, name, password = known
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        jaas = f'{module} required username="{name}" password="{password}";'
        settings |= {"sasl_mechanism": mechanism, "sasl_jaas_config": jaas}
    return secured.properties(way.replace(" ", "-"), **settings)


@pytest.mark.parametrize("way", FEW)
def test_our_own_commands(
    users: Secured, topic: str, way: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = ["--bootstrap", users.at(way.split(maxsplit=1)[0]), "--command-config", command_config(users, way)]
    assert main(["topic", "create", topic, "--partitions", "2", "--replication-factor", "1", *where]) == 0
    assert main(["topic", "describe", topic, *where]) == 0
    assert main(["status", *where]) == 0
    capfd.readouterr()


def test_our_own_commands_say_why(users: Secured, capfd: pytest.CaptureFixture[str]) -> None:
    jaas = f'{SCRAM} required username="{ALICE}" password="wrong";'
    wrong = users.properties(
        "wrong",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=jaas,
    )
    assert main(["topic", "list", "--bootstrap", users.at("PLAINSASL"), "--command-config", wrong]) == 3
    assert "Authentication failed during authentication due to invalid credentials" in capfd.readouterr().err


# -- Kafka's own tools -----------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.usefixtures("kafka_tools")
def test_kafkas_own_tools(users: Secured, topic: str) -> None:
    """kafka-configs makes a user; the console tools use it over TLS, with key and trust stores in PEM."""
    where = ("--bootstrap-server", users.at("SECURE"), "--command-config", command_config(users, "SECURE PLAIN"))
    wish = "SCRAM-SHA-512=[iterations=8192,password=java's]"
    of_java = ("--entity-type", "users", "--entity-name", "java")
    run_tool("kafka.admin.ConfigCommand", *where, "--alter", "--add-config", wish, *of_java)
    admin = AdminClient(librdkafka(users, "SECURE PLAIN"))
    (found,) = admin.describe_user_scram_credentials(["java"])["java"].result(SECONDS_MAX).scram_credential_infos
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    jaas = f'{SCRAM} required username="java" password="java\'s";'
    theirs = users.properties(
        "java",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=jaas,
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(users.files.truststore),
    )
    server = ("--bootstrap-server", users.at("SECURE"), "--command-config", theirs, "--topic", topic)
    run_tool("org.apache.kafka.tools.ConsoleProducer", *server, stdin="one\ntwo\n")
    limits = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "90000")
    printed = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, *limits)
    assert [line for line in printed.splitlines() if line in ("one", "two")] == ["one", "two"]


@pytest.mark.full
@pytest.mark.usefixtures("kafka_tools")
def test_kafkas_own_tool_shows_a_user(users: Secured) -> None:
    """Whom another client has made."""
    where = ("--bootstrap-server", users.at("SECURE"), "--command-config", command_config(users, "SECURE PLAIN"))
    shown = run_tool("kafka.admin.ConfigCommand", *where, "--describe", "--entity-type", "users", "--entity-name", BOB)
    assert "SCRAM-SHA-512=iterations=4096" in shown


@pytest.mark.full
@pytest.mark.usefixtures("kafka_tools")
def test_kafkas_own_tools_with_a_certificate(users: Secured, topic: str) -> None:
    server = (
        "--bootstrap-server", users.at("MUTUAL"),
        "--command-config", command_config(users, "MUTUAL"), "--topic", topic,
    )  # fmt: skip
    run_tool("org.apache.kafka.tools.ConsoleProducer", *server, stdin="one\n")
    limits = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "90000")
    assert "one" in run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, *limits)
