"""The door of a listener with SASL, and TLS of listeners, on brokers with real sockets (31 item 1)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.sasl_client import AuthenticationError, Login, exchange
from minikafka.security.scram import ScramClient, Shape, credential_of, decoy, salted_password
from minikafka.security.tls import TlsSettings, client_context
from minikafka.security.tls_stream import TlsStream
from minikafka.server.broker import Broker
from minikafka.server.connection import ClientConnection
from minikafka.telemetry.event_limit import EMITTED_MAX
from minikafka.transport.peer import PeerClosed, PeerConnection, connect

from tests.certificates import PemFiles, authority, broker_keystore, client_keystore
from tests.unit.server.in_process import DEADLINE, Cluster, running
from tests.waiting import until

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,REPLICATION:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.client.plain.sasl.jaas.config": f'{PLAIN} required user_alice="right" user_bob="bobs";',
    "connection.failed.authentication.delay.ms": "0",
}
ALICE = Login("PLAIN", "alice", "right")


class Stranger:
    """A connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def at(cls, broker: Broker, listener: str = "CLIENT") -> Stranger:
        host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == listener)
        return cls(*await asyncio.open_connection(host, port))

    async def frame(self) -> bytes | None:
        """None when the connection is closed instead."""
        try:
            async with asyncio.timeout(DEADLINE):
                return await self._reader.readexactly(struct.unpack(">i", await self._reader.readexactly(4))[0])
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def send(self, token: bytes) -> None:
        self._writer.write(len(token).to_bytes(4, "big") + token)

    def request(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> None:
        body = messages.encode_request(key, version, values)
        self._writer.write(wire.request_frame(key, version, 7, "test", body, messages.is_flexible(key, version)))

    async def ask(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        """The answer; None when the connection is closed instead."""
        self.request(key, version, values)
        frame = await self.frame()
        return (
            None if frame is None else messages.decode_response(key, version, messages.answer_body(key, version, frame))
        )

    async def log_in(self, login: Login = ALICE, version: int = 2) -> Any:
        answer = await self.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": login.mechanism})
        assert not answer.error_code
        return await self.authenticate(login, version)

    async def authenticate(self, login: Login, version: int = 2) -> Any:
        steps = exchange(login)
        message = next(steps)
        while True:
            answer = await self.ask(ApiKey.SASL_AUTHENTICATE, version, {"auth_bytes": message})
            if answer is None or answer.error_code:
                return answer
            try:
                message = steps.send(answer.auth_bytes)
            except StopIteration:
                return answer

    async def is_served(self) -> bool:
        return await self.ask(ApiKey.METADATA, 9, {"topics": []}) is not None

    def close(self) -> None:
        self._writer.close()


def connections(broker: Broker) -> list[ClientConnection]:
    return [each for each in broker.connections._open if isinstance(each, ClientConnection)]


@asynccontextmanager
async def one_broker(data: Path, **more: str) -> AsyncIterator[tuple[Cluster, Broker]]:
    async with running(data, **{**SASL, **more}) as cluster:
        yield cluster, cluster.brokers[1]


async def refusals(cluster: Cluster, count: int) -> list[tuple[str | None, str]]:
    """(principal, reason) of each event, when there are so many."""
    path = cluster.data / "events-1.jsonl"

    def told() -> list[dict[str, Any]]:
        events = [json.loads(line) for line in path.read_text().splitlines()]
        return [event["fields"] for event in events if event["event"] == "authentication_failed"]

    await until(lambda: len(told()) >= count)
    assert all(fields["address"] == "127.0.0.1" for fields in told())
    return [(fields["principal"], fields["reason"]) for fields in told()]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_client_logs_in_by_plain(tmp_path: Path, version: int) -> None:
    async with one_broker(tmp_path) as (_, broker):
        client = await Stranger.at(broker)
        assert (await client.ask(ApiKey.API_VERSIONS, 3, SOFTWARE)).error_code == ErrorCode.NONE
        assert not (await client.log_in(version=version)).error_code
        assert await client.is_served()
        assert [each.principal for each in connections(broker)] == ["User:alice"]
        client.close()


SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


async def test_users_are_made_and_removed(tmp_path: Path) -> None:
    """AlterUserScramCredentials, as ``kafka-configs`` asks; what is stored does not let anybody in."""
    async with one_broker(tmp_path) as (cluster, broker):
        await cluster.has_controller()
        admin = await Stranger.at(broker)
        await admin.log_in()
        salt = b"0123456789"
        carol = {
            "name": "carol", "mechanism": 1, "iterations": 4096, "salt": salt,
            "salted_password": salted_password("SCRAM-SHA-256", "carols", salt, 4096),
        }  # fmt: skip
        answer = await admin.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [carol]})
        assert [(r.user, r.error_code, r.error_message) for r in answer.results] == [("carol", 0, None)]
        described = await admin.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})
        (row,) = described.results
        assert [(c.mechanism, c.iterations) for c in row.credential_infos] == [(1, 4096)]
        stored = broker.metadata.image.scram["carol", "SCRAM-SHA-256"]
        assert carol["salted_password"] not in (stored.stored_key, stored.server_key)

        for mechanism, password, code in (
            ("SCRAM-SHA-256", "carols", ErrorCode.NONE),
            ("SCRAM-SHA-256", "wrong", ErrorCode.SASL_AUTHENTICATION_FAILED),
            ("SCRAM-SHA-512", "carols", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ):
            client = await Stranger.at(broker)
            assert (await client.log_in(Login(mechanism, "carol", password))).error_code == code
            client.close()

        gone = {"deletions": [{"name": "carol", "mechanism": 1}], "upsertions": []}
        await admin.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, gone)
        client = await Stranger.at(broker)
        answer = await client.log_in(Login("SCRAM-SHA-256", "carol", "carols"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        client.close()
        admin.close()


async def test_what_alters_no_user(tmp_path: Path) -> None:
    def up(**more: Any) -> dict[str, Any]:
        usual = {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
        return {"deletions": [], "upsertions": [usual | more]}

    async with one_broker(tmp_path) as (cluster, broker):
        await cluster.has_controller()
        admin = await Stranger.at(broker)
        await admin.log_in()
        for request, code in (
            (up(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (up(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (up(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (up(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (up(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            ({"deletions": [{"name": "x", "mechanism": 1}], "upsertions": []}, ErrorCode.RESOURCE_NOT_FOUND),
            (up() | {"deletions": [{"name": "u", "mechanism": 1}]}, ErrorCode.RESOURCE_NOT_FOUND),  # the first problem
            ({**up(), "upsertions": up()["upsertions"] * 2}, ErrorCode.DUPLICATE_RESOURCE),
        ):
            answer = await admin.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            assert [row.error_code for row in answer.results] == [code], request
        answer = await admin.ask(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "x"}, {"name": "y"}] * 2}
        )
        assert [row.error_code for row in answer.results] == [ErrorCode.DUPLICATE_RESOURCE] * 2
        answer = await admin.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "x"}]})
        assert [row.error_code for row in answer.results] == [ErrorCode.RESOURCE_NOT_FOUND]
        assert broker.metadata.image.scram == {}
        admin.close()


async def test_bare_tokens_after_the_oldest_handshake(tmp_path: Path) -> None:
    """SaslHandshake 0, after which tokens have no requests around them; Kafka 4.3 still takes it."""
    async with one_broker(tmp_path) as (_, broker):
        client = await Stranger.at(broker)
        assert not (await client.ask(ApiKey.SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"})).error_code
        client.send(b"\0alice\0right")
        assert await client.frame() == b""
        assert await client.is_served()
        client.close()
        client = await Stranger.at(broker)
        await client.ask(ApiKey.SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"})
        client.send(b"\0alice\0wrong")
        assert await client.frame() is None


async def test_nothing_is_served_before(tmp_path: Path) -> None:
    """Whatever a stranger asks for closes the connection, also what it sends along with its login."""
    async with one_broker(tmp_path) as (cluster, broker):
        for key, version, values in (
            (ApiKey.METADATA, 9, {"topics": None}),
            (ApiKey.PRODUCE, 9, {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": []}),
            (ApiKey.CREATE_TOPICS, 5, {"topics": [], "timeout": 1000}),
            (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": []}),
            (ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0right"}),
        ):
            client = await Stranger.at(broker)
            assert await client.ask(key, version, values) is None, key
        await refusals(cluster, 5)
        client = await Stranger.at(broker)
        client.request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        client.request(ApiKey.METADATA, 9, {"topics": None})
        assert await client.frame() is None or await client.frame() is None


async def test_a_wrong_password_and_an_unknown_user_are_answered_alike(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as (cluster, broker):
        answers = []
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            for user in ("alice", "nobody"):
                client = await Stranger.at(broker)
                answer = await client.log_in(Login(mechanism, user, "wrong"))
                answers.append((answer.error_code, answer.error_message))
                assert await client.frame() is None, "it is closed"
        assert answers[0] == answers[1]
        assert answers[2] == answers[3]
        assert {code for code, _ in answers} == {ErrorCode.SASL_AUTHENTICATION_FAILED}
        told = await refusals(cluster, 4)
        assert told == [
            ("User:alice", "wrong password"),
            ("User:nobody", "unknown user"),
            ("User:alice", "unknown user"),  # of SCRAM
            ("User:nobody", "unknown user"),
        ]
        assert broker.stats.failed_authentications == 4


async def test_a_failed_login_is_answered_late(tmp_path: Path) -> None:
    """By the loop's clock, which nothing but the delay moves so far."""
    async with one_broker(tmp_path, **{"connection.failed.authentication.delay.ms": "300"}) as (_, broker):
        client = await Stranger.at(broker)
        began = asyncio.get_running_loop().time()
        assert (await client.log_in(Login("PLAIN", "alice", "wrong"))).error_code
        assert asyncio.get_running_loop().time() - began >= 0.3


async def test_mechanisms_that_are_not_there(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as (cluster, broker):
        client = await Stranger.at(broker)
        answer = await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"})
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert await client.frame() is None
        client = await Stranger.at(broker)
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        answer = await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.frame() is None
        assert len(await refusals(cluster, 2)) == 2


async def test_large_requests_of_strangers(tmp_path: Path) -> None:
    async with one_broker(tmp_path, **{"sasl.server.max.receive.size": "1000"}) as (_, broker):
        client = await Stranger.at(broker)
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert await client.ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0" * 1000}) is None, "no answer at all"
        client = await Stranger.at(broker)
        await client.log_in()
        answer = await client.ask(ApiKey.METADATA, 9, {"topics": [{"name": "t" * 200}] * 20})
        assert answer is not None, "who has logged in may ask for more"
        client.close()


async def test_saslhandshake_out_of_place(tmp_path: Path) -> None:
    """On a listener without SASL, and right after a login: ILLEGAL_SASL_STATE, and the connection stays."""
    async with one_broker(tmp_path) as (_, broker):
        for listener in ("REPLICATION", "CLIENT"):
            client = await Stranger.at(broker, listener)
            if listener == "CLIENT":
                await client.log_in()
            for key, values in (
                (ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}),
                (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b""}),
            ):
                assert (await client.ask(key, 1, values)).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert await client.is_served()
            client.close()


class Session:
    """A connection that has logged in, whose session the test moves through time."""

    def __init__(self, client: Stranger, broker: Broker) -> None:
        (connection,) = connections(broker)
        assert connection.door is not None
        self.client, self.door = client, connection.door

    def passes(self, seconds: float) -> None:
        self.door._began -= seconds
        self.door._ends -= seconds


@asynccontextmanager
async def session(data: Path) -> AsyncIterator[tuple[Cluster, Session]]:
    async with one_broker(data, **{"connections.max.reauth.ms": "3600000"}) as (cluster, broker):
        client = await Stranger.at(broker)
        answer = await client.log_in()
        assert messages.millis(answer.session_lifetime) == 3_600_000
        yield cluster, Session(client, broker)
        client.close()


async def test_a_session_that_is_over_is_closed_at_the_next_request(tmp_path: Path) -> None:
    """KIP-368."""
    async with session(tmp_path) as (cluster, session_):
        session_.passes(3601)
        assert not await session_.client.is_served()
        assert await refusals(cluster, 1) == [("User:alice", "the session is over, and it has not logged in again")]


async def test_another_login_prolongs_a_session(tmp_path: Path) -> None:
    async with session(tmp_path) as (_, session_):
        for _ in range(3):
            session_.passes(3000)
            assert not (await session_.client.log_in()).error_code
            assert await session_.client.is_served()


async def test_a_session_stays_its_users(tmp_path: Path) -> None:
    async with session(tmp_path) as (cluster, session_):
        session_.passes(10)
        answer = await session_.client.log_in(Login("PLAIN", "bob", "bobs"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "from User:alice to User:bob" in answer.error_message
        assert await session_.client.frame() is None
        assert await refusals(cluster, 1) == [("User:bob", "another user than before")]


async def test_a_session_keeps_its_mechanism(tmp_path: Path) -> None:
    async with session(tmp_path) as (_, session_):
        session_.passes(10)
        answer = await session_.client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert await session_.client.frame() is None


async def test_a_login_that_nobody_ends_does_not_prolong_a_session(tmp_path: Path) -> None:
    async with session(tmp_path) as (_, session_):
        session_.passes(10)
        await session_.client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert await session_.client.is_served(), "the session before still holds"
        session_.passes(3600)
        assert not await session_.client.is_served()


async def test_a_replayed_login_is_refused(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as (_, broker):
        recorded: list[bytes] = []
        answers = []
        for _ in range(2):
            client = await Stranger.at(broker)
            await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
            scram = ScramClient("SCRAM-SHA-256", "u", "pw")
            first = recorded[0] if recorded else scram.first()
            answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": first})
            final = recorded[1] if recorded else scram.final(answer.auth_bytes)
            recorded = recorded or [first, final]
            answers.append(await client.ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": final}))
        assert answers[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


# -- TLS ---------------------------------------------------------------------------------------------------------------


def tls_of(keystore: str = "", **more: Any) -> TlsSettings:
    key, _, chain = keystore.partition("-----BEGIN CERTIFICATE")
    chain = "-----BEGIN CERTIFICATE" + chain if chain else ""
    usual = {"truststore_certificates": authority().pem, "keystore_key": key, "keystore_certificate_chain": chain}
    return TlsSettings(**{**usual, **more})


async def connect_tls(
    broker: Broker, listener: str, settings: TlsSettings, login: Login | None = None
) -> PeerConnection:
    host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == listener)
    tls = TlsStream(client_context(settings), server_side=False, host=host)
    return await connect(host, port, "test", DEADLINE, DEADLINE, tls=tls, login=login)


def mutual(files: PemFiles) -> dict[str, str]:
    """Brokers know each other by certificates, and clients too."""
    return {
        **files.settings,
        "listener.security.protocol.map": "CLIENT:SSL,REPLICATION:SSL",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/",
    }


@pytest.mark.slow
async def test_brokers_replicate_over_mutual_tls(tmp_path: Path) -> None:
    """And a client is known by its certificate; records larger than a record of TLS come through whole."""
    files = PemFiles.write(tmp_path)
    async with running(tmp_path, 2, **mutual(files)) as cluster:
        await cluster.create("t", leader=1)
        broker = cluster.brokers[1]
        await until(lambda: cluster.state("t").isr == (1, 2))
        client = await connect_tls(broker, "CLIENT", tls_of(client_keystore()))
        answer = await client.request(ApiKey.METADATA, 9, {"topics": None})
        assert {each.principal for each in connections(broker)} == {"User:alice", "User:broker"}
        assert [topic.name for topic in answer.topics] == ["t"]
        client.close()


async def test_the_port_of_brokers_proves_nothing(tmp_path: Path) -> None:
    """Neither somebody without a certificate, nor with another authority's, gets to ask anything there."""
    files = PemFiles.write(tmp_path)
    async with running(tmp_path, 1, **mutual(files)) as cluster:
        for keystore in ("", authority("stranger").issue("alice@x.example")):
            with pytest.raises((AuthenticationError, ConnectionError)):
                await asks(cluster.brokers[1], tls_of(keystore))
        told = await refusals(cluster, 2)
        assert all(principal is None and reason.startswith("TLS: ") for principal, reason in told)


async def asks(broker: Broker, settings: TlsSettings) -> None:
    """With TLS 1.3 a client learns that its certificate was refused with its first answer."""
    peer = await connect_tls(broker, "REPLICATION", settings)
    await peer.request(ApiKey.METADATA, 9, {"topics": None})


async def test_plain_text_at_a_port_with_tls(tmp_path: Path) -> None:
    files = PemFiles.write(tmp_path)
    async with running(tmp_path, 1, **mutual(files)) as cluster:
        client = await Stranger.at(cluster.brokers[1])
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await client.frame() is None
        ((_, reason),) = await refusals(cluster, 1)
        assert reason.startswith("TLS: ")


async def test_a_certificate_that_no_rule_fits(tmp_path: Path) -> None:
    files = PemFiles.write(tmp_path)
    rules = {**mutual(files), "listener.name.client.ssl.principal.mapping.rules": "RULE:^CN=nobody$/x/"}
    async with running(tmp_path, 1, **rules) as cluster:
        peer = await connect_tls(cluster.brokers[1], "CLIENT", tls_of(client_keystore()))
        with pytest.raises(PeerClosed):
            await peer.request(ApiKey.METADATA, 9, {"topics": None})
        ((principal, reason),) = await refusals(cluster, 1)
        assert principal is not None
        assert "CN=alice" in principal
        assert "no rule" in reason


@pytest.mark.slow
async def test_renewed_certificates_hold_for_new_connections(tmp_path: Path) -> None:
    """31 item 1: and nobody is cut off."""
    files = PemFiles.write(tmp_path)
    settings = {**files.settings, "listener.security.protocol.map": "CLIENT:SSL,REPLICATION:PLAINTEXT"}
    async with running(tmp_path, 1, **settings) as cluster:
        broker = cluster.brokers[1]
        before = await connect_tls(broker, "CLIENT", tls_of())
        files.keystore.write_text(authority("next").issue("127.0.0.1"))
        with pytest.raises(AuthenticationError):
            await connect_tls(broker, "CLIENT", tls_of())
        after = await connect_tls(broker, "CLIENT", tls_of(truststore_certificates=authority("next").pem))
        for client in (before, after):
            assert (await client.request(ApiKey.METADATA, 9, {"topics": []})).brokers
        files.keystore.write_text("not yet whole")
        third = await connect_tls(broker, "CLIENT", tls_of(truststore_certificates=authority("next").pem))
        for client in (before, after, third):
            client.close()
        events = [json.loads(line) for line in (tmp_path / "events-1.jsonl").read_text().splitlines()]
        told = [event["event"] for event in events if event["event"].startswith("certificates")]
        assert told == ["certificates_renewed", "certificates_unusable"]


async def test_files_that_cannot_be_used_end_the_start(tmp_path: Path) -> None:
    files = PemFiles.write(tmp_path)
    files.keystore.write_text(broker_keystore().partition("-----BEGIN CERT")[0])
    with pytest.raises(ValueError, match="no certificate in it; allowed: PEM"):
        async with running(tmp_path, 1, **mutual(files)):
            pass


# -- brokers log in at each other ----------------------------------------------------------------------------------------


def scram_brokers(password: str = "secret") -> dict[str, str]:
    jaas = f'{SCRAM} required username="brokers" password="{password}";'
    return {
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.replication.scram-sha-512.sasl.jaas.config": jaas,
        "connection.failed.authentication.delay.ms": "0",
    }


@pytest.mark.slow
async def test_brokers_replicate_by_scram(tmp_path: Path) -> None:
    """From nothing: no credential is in the store yet."""
    async with running(tmp_path, 2, **scram_brokers()) as cluster:
        await cluster.create("t", leader=1)
        await until(lambda: cluster.state("t").isr == (1, 2))
        principals = {each.principal for each in connections(cluster.brokers[1]) if each.inter_broker}
        assert principals == {"User:brokers"}


async def salts(cluster: Cluster, *names: str) -> list[bytes]:
    """What each broker tells a stranger who says that he is one of these."""
    told = []
    for broker in cluster.brokers.values():
        for name in names:
            client = await Stranger.at(broker, "REPLICATION")
            await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-512"})
            answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": f"n,,n={name},r=abc".encode()})
            told.append(answer.auth_bytes.split(b",", 1)[1])
            client.close()
    return told


@pytest.mark.slow
async def test_salts_tell_nothing_of_the_brokers_user(tmp_path: Path) -> None:
    """Neither its name, by another salt on each broker, nor its password: guesses at it cannot be tried on a salt."""
    async with running(tmp_path, 2, **scram_brokers()) as cluster:
        await cluster.has_controller()
        one = cluster.brokers[1]
        eve = {
            "name": "eve", "mechanism": 2, "iterations": 8192, "salt": b"1s2fzm6b7p1m0brgvfzk0abc1d",
            "salted_password": b"x" * 64,
        }  # fmt: skip
        admin = await Stranger.at(one, "REPLICATION")
        await admin.log_in(Login("SCRAM-SHA-512", "brokers", "secret"))
        answer = await admin.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [eve]})
        assert not answer.results[0].error_code
        await until(lambda: all(b.metadata.image.scram_secret for b in cluster.brokers.values()))
        here, nobody, there, nobody_there = await salts(cluster, "brokers", "nobody")
        assert (here, nobody) == (there, nobody_there)
        assert here.endswith(b",i=8192")
        assert nobody.endswith(b",i=8192")
        guess = hashlib.sha256(f"{one.metadata.image.cluster_id}\0secret".encode()).digest()
        assert decoy("SCRAM-SHA-512", "nobody", guess, {Shape(8192, 26, True)}).salt not in b64decode(nobody[2:-7])
        again = await Stranger.at(one, "REPLICATION")
        assert not (await again.log_in(Login("SCRAM-SHA-512", "brokers", "secret"))).error_code
        for client in (admin, again):
            client.close()


@pytest.mark.slow
async def test_strangers_do_not_fill_the_events(tmp_path: Path) -> None:
    """All are counted, and a hundred a minute of each listener are told."""
    async with one_broker(tmp_path) as (cluster, broker):
        for _ in range(EMITTED_MAX + 20):
            client = await Stranger.at(broker)
            client.request(ApiKey.METADATA, 9, {"topics": []})
            assert await client.frame() is None
            client.close()
        assert broker.stats.failed_authentications == EMITTED_MAX + 20
        assert len(await refusals(cluster, EMITTED_MAX)) == EMITTED_MAX
        broker.context.not_let_in("127.0.0.1", "elsewhere", "a reason")
        assert (await refusals(cluster, EMITTED_MAX + 1))[-1] == (None, "a reason")


async def test_nothing_is_read_after_a_second_handshake(tmp_path: Path) -> None:
    """Also not what came along with it, behind an answer that is not there yet."""
    async with one_broker(tmp_path) as (cluster, broker):
        client = await Stranger.at(broker)
        client.request(ApiKey.API_VERSIONS, 3, SOFTWARE)
        for _ in range(5):
            client.request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        client.request(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0right"})
        client.request(ApiKey.METADATA, 9, {"topics": []})
        frames = 0
        while await client.frame() is not None:
            frames += 1
        assert frames == 3, "ApiVersions, and two handshakes"
        assert await refusals(cluster, 1) == [(None, "SaslHandshake twice")]


@pytest.mark.slow
async def test_a_user_is_no_broker(tmp_path: Path) -> None:
    """Whoever has logged in where brokers do is served as a client, unless it is the brokers' own user (31 item 1)."""
    heartbeat = {
        "broker_id": 1, "broker_epoch": 1, "current_metadata_offset": 0, "want_fence": True, "want_shut_down": False
    }  # fmt: skip
    async with running(tmp_path, 1, **scram_brokers()) as cluster:
        broker = cluster.brokers[1]
        await cluster.has_controller()
        eve = credential_of("SCRAM-SHA-512", "eves").to_json()
        broker.metadata.image.apply("scram/SCRAM-SHA-512/eve", eve)
        for login, is_answered in (
            (Login("SCRAM-SHA-512", "eve", "eves"), False),
            (Login("SCRAM-SHA-512", "brokers", "secret"), True),
        ):
            client = await Stranger.at(broker, "REPLICATION")
            await client.log_in(login)
            assert await client.is_served()
            assert (await client.ask(ApiKey.BROKER_HEARTBEAT, 1, heartbeat) is not None) == is_answered
            client.close()


@pytest.mark.slow
async def test_super_users_are_brokers_by_their_certificates(tmp_path: Path) -> None:
    files = PemFiles.write(tmp_path)
    async with running(tmp_path, 1, **mutual(files), **{"super.users": "User:broker;User:operator"}) as cluster:
        for name, believed in (("alice", False), ("operator", True)):
            peer = await connect_tls(cluster.brokers[1], "REPLICATION", tls_of(client_keystore(name)))
            await peer.request(ApiKey.METADATA, 9, {"topics": None})
            (connection,) = [each for each in connections(cluster.brokers[1]) if each.principal == f"User:{name}"]
            assert connection.inter_broker == believed
            peer.close()


@pytest.mark.slow
async def test_who_shows_no_certificate_is_no_broker(tmp_path: Path) -> None:
    """Where certificates are only requested: showing none is not worth more than showing a client's."""
    files = PemFiles.write(tmp_path)
    settings = {**mutual(files), "ssl.client.auth": "requested", "super.users": "User:broker"}
    async with running(tmp_path, 2, **settings) as cluster:
        await cluster.create("t", leader=1)
        await until(lambda: cluster.state("t").isr == (1, 2))
        peer = await connect_tls(cluster.brokers[1], "REPLICATION", tls_of(""))
        await peer.request(ApiKey.METADATA, 9, {"topics": None})
        believed = {(each.principal, each.inter_broker) for each in connections(cluster.brokers[1])}
        assert believed == {("User:ANONYMOUS", False), ("User:broker", True)}
        peer.close()


async def test_a_broker_with_another_password_does_not_join(tmp_path: Path) -> None:
    async with running(tmp_path, 1, **scram_brokers()) as cluster:
        login = Login("SCRAM-SHA-512", "brokers", "wrong")
        host, port = cluster.brokers[1].listeners.inter_broker()
        with pytest.raises(AuthenticationError, match="Authentication failed during authentication"):
            await connect(host, port, "test", DEADLINE, DEADLINE, login=login)
        assert await refusals(cluster, 1) == [("User:brokers", "wrong password")]


@pytest.mark.slow
async def test_brokers_log_in_again_before_their_session_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed connection of heartbeats would look like a death."""
    monkeypatch.setattr("minikafka.server.authentication.LOGIN_AGAIN_SECONDS_MIN", 0.0)
    monkeypatch.setattr("minikafka.transport.peer.LOGIN_AGAIN_AFTER", 0.0)
    lasting = {"connections.max.reauth.ms": "3600000"}
    async with running(tmp_path, 2, **scram_brokers(), **lasting) as cluster:
        await cluster.create("t", leader=1)
        (heartbeats,) = [each for each in connections(cluster.brokers[1]) if each.heartbeats_of is not None]
        door = heartbeats.door
        assert door is not None
        first = door._ends
        await until(lambda: door._ends > first + 0.01)
        assert heartbeats in connections(cluster.brokers[1])


class Choking:
    """A socket that refuses every other time, and takes little."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.refused = 0
        self._refuses = False

    def send(self, data: memoryview, flags: int = 0) -> int:
        self._refuses = not self._refuses
        if self._refuses:
            self.refused += 1
            raise BlockingIOError
        return int(self._sock.send(data[:5000]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


@pytest.mark.slow
async def test_answers_wait_for_the_socket_under_tls(tmp_path: Path) -> None:
    """What waits as ciphertext, as answers and as requests comes through whole, and in order."""
    files = PemFiles.write(tmp_path)
    settings = {**files.settings, "listener.security.protocol.map": "CLIENT:SSL,REPLICATION:PLAINTEXT"}
    async with running(tmp_path, 1, **settings) as cluster:
        await cluster.create("t", 30)
        client = await connect_tls(cluster.brokers[1], "CLIENT", tls_of())
        await client.request(ApiKey.METADATA, 9, {"topics": []})
        (connection,) = [each for each in connections(cluster.brokers[1]) if each.tls is not None]
        assert connection.tls is not None
        choking = Choking(connection.tls._socket)
        connection.tls.attach(choking)
        asked = [asyncio.ensure_future(client.request(ApiKey.METADATA, 9, {"topics": None})) for _ in range(40)]
        answers = await asyncio.gather(*asked)
        assert [len(answer.topics[0].partitions) for answer in answers] == [30] * 40
        assert choking.refused > 10
        client.close()
