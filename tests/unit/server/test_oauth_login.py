"""Logins with access tokens, on a broker with real sockets (31 item 1; KIP-255, KIP-368)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.oauthbearer import END, INVALID_TOKEN, first_message
from minikafka.security.sasl_client import AuthenticationError, Login
from minikafka.server.broker import Broker
from minikafka.transport.peer import connect

from tests.tokens import AUDIENCE, ISSUER, Issuer
from tests.unit.server.in_process import DEADLINE, Cluster, running
from tests.unit.server.strangers import Session, Stranger, connections, refusals
from tests.waiting import until

ISSUED = Issuer()
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@asynccontextmanager
async def one_broker(data: Path, **more: str) -> AsyncIterator[tuple[Cluster, Broker]]:
    """It believes `ISSUED`."""
    (data / "keys.json").write_text(ISSUED.key_set())
    settings = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,REPLICATION:PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.client.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
        "sasl.oauthbearer.jwks.endpoint.url": (data / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": "0",
    }
    async with running(data, **{**settings, **more}) as cluster:
        yield cluster, cluster.brokers[1]


async def shows(client: Stranger, token: str) -> Any:
    await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"})
    return await client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": first_message(token)})


async def test_a_client_logs_in_by_a_token(tmp_path: Path) -> None:
    """Its session is no longer than the token is valid (KIP-368)."""
    async with one_broker(tmp_path) as (_, broker):
        client = await Stranger.at(broker)
        answer = await shows(client, ISSUED.token(lasts=600))
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        assert 590_000 < messages.millis(answer.session_lifetime) <= 600_000
        assert await client.is_served()
        assert [each.principal for each in connections(broker)] == ["User:alice"]
        Session(client, broker).passes(601)
        assert not await client.is_served()


@pytest.mark.parametrize(("lasts", "most"), [(600, 60_000), (30, 30_000)])
async def test_a_session_ends_with_the_token_or_by_the_setting(tmp_path: Path, lasts: int, most: int) -> None:
    """Whichever is sooner."""
    more = {"listener.name.client.oauthbearer.connections.max.reauth.ms": "60000"}
    async with one_broker(tmp_path, **more) as (_, broker):
        client = await Stranger.at(broker)
        lifetime = messages.millis((await shows(client, ISSUED.token(lasts=lasts))).session_lifetime)
        assert most - 10_000 < lifetime <= most
        client.close()


async def test_a_token_that_only_the_clocks_allow(tmp_path: Path) -> None:
    """Within ``clock.skew.seconds`` after its end: the session is over at once, and not without an end."""
    async with one_broker(tmp_path) as (_, broker):
        client = await Stranger.at(broker)
        answer = await shows(client, ISSUED.token(lasts=-2))
        assert (answer.error_code, messages.millis(answer.session_lifetime)) == (ErrorCode.NONE, 0)
        (session,) = connections(broker)
        await until(lambda: session.door is not None and session.door._ends < broker.clock.now())
        assert not await client.is_served()


async def test_a_bad_token_is_refused_in_two_steps(tmp_path: Path) -> None:
    """Whatever is wrong: the same answers, and one event, in which there is nothing of the token."""
    stranger = Issuer("stranger")
    tokens = [
        ISSUED.token(subject="mallory", aud="x"),
        ISSUED.token(subject="mallory", lasts=-60),
        stranger.token("mallory"),
    ]
    async with one_broker(tmp_path) as (cluster, broker):
        for token in tokens:
            client = await Stranger.at(broker)
            answer = await shows(client, token)
            assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, INVALID_TOKEN)
            answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": END})
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert (answer.error_message, answer.auth_bytes) == (INVALID_TOKEN.decode(), b"")
            assert await client.frame() is None, "it is closed"
        assert await refusals(cluster, 3) == [
            (None, "the token's claim aud is not what is expected"),
            (None, "the token has expired"),
            (None, "the token's key is not known"),
        ]
        assert broker.stats.failed_authentications == 3
        assert "mallory" not in (tmp_path / "events-1.jsonl").read_text()
        assert not any(part in (tmp_path / "events-1.jsonl").read_text() for part in tokens[0].split("."))


async def test_who_does_not_wait_to_be_refused_is_told_of(tmp_path: Path) -> None:
    """Clients hang up when they read the status."""
    async with one_broker(tmp_path) as (cluster, broker):
        client = await Stranger.at(broker)
        assert (await shows(client, ISSUED.token(aud=None))).auth_bytes == INVALID_TOKEN
        client.close()
        assert await refusals(cluster, 1) == [(None, "a claim is missing in the token")]
        assert broker.stats.failed_authentications == 1


async def test_who_goes_on_as_if_it_were_let_in_is_told_of_once(tmp_path: Path) -> None:
    """As aiokafka does, which does not look at what it is answered."""
    async with one_broker(tmp_path) as (cluster, broker):
        client = await Stranger.at(broker)
        await shows(client, ISSUED.token(aud=None))
        assert not await client.is_served()
        assert await refusals(cluster, 1) == [(None, "a claim is missing in the token")]
        assert broker.stats.failed_authentications == 1


async def test_bare_messages_with_a_token(tmp_path: Path) -> None:
    """After SaslHandshake 0."""
    async with one_broker(tmp_path) as (_, broker):
        for token, answers in ((ISSUED.token(), [b""]), (ISSUED.token(iss="x"), [INVALID_TOKEN, None])):
            client = await Stranger.at(broker)
            await client.ask(ApiKey.SASL_HANDSHAKE, 0, {"mechanism": "OAUTHBEARER"})
            for message, answer in zip((first_message(token), END), answers, strict=False):
                client.send(message)
                assert await client.frame() == answer
            client.close()


async def test_another_token_prolongs_a_session_of_the_same_user_only(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as (cluster, broker):
        client = await Stranger.at(broker)
        await shows(client, ISSUED.token(lasts=60))
        session = Session(client, broker)
        session.passes(50)
        assert not (await shows(client, ISSUED.token(lasts=600))).error_code
        session.passes(50)
        assert await client.is_served()
        answer = await shows(client, ISSUED.token(subject="bob"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "from User:alice to User:bob" in answer.error_message
        assert await refusals(cluster, 1) == [("User:bob", "another user than before")]


async def test_a_session_that_shows_a_bad_token_ends(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as (cluster, broker):
        client = await Stranger.at(broker)
        await shows(client, ISSUED.token())
        Session(client, broker).passes(10)
        assert (await shows(client, ISSUED.token(aud="x"))).auth_bytes == INVALID_TOKEN
        answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": END})
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.frame() is None
        assert len(await refusals(cluster, 1)) == 1


async def test_a_broker_logs_in_by_the_token_in_a_file(tmp_path: Path) -> None:
    """As brokers connect to each other; the file is read at every login."""
    async with one_broker(tmp_path) as (_, broker):
        host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == "CLIENT")
        path = tmp_path / "token"
        login = Login("OAUTHBEARER", token_file=str(path))
        path.write_text(ISSUED.token(lasts=-60))
        with pytest.raises(AuthenticationError, match="invalid_token"):
            await connect(host, port, "test", DEADLINE, DEADLINE, login=login)
        path.write_text(ISSUED.token() + "\n")
        peer = await connect(host, port, "test", DEADLINE, DEADLINE, login=login)
        assert (await peer.request(ApiKey.METADATA, 9, {"topics": []})).controller_id is not None
        peer.close()


async def test_brokers_among_themselves(tmp_path: Path) -> None:
    """They find each other by the token, and a client with a good one is no broker."""
    (tmp_path / "token").write_text(ISSUED.token("broker"))
    more = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,REPLICATION:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
        "super.users": "User:broker",
    }
    async with one_broker(tmp_path, **more) as (cluster, broker):
        await cluster.has_controller()
        client = await Stranger.at(broker, "REPLICATION")
        await shows(client, ISSUED.token("alice"))
        assert not [each for each in connections(broker) if each.principal == "User:alice" and each.inter_broker]
        client.close()
