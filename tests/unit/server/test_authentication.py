"""The door of a listener with SASL: users log in, and strangers do not, on brokers with real sockets (31 item 1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.sasl_client import Login
from minikafka.security.scram import ScramClient, salted_password
from minikafka.telemetry.event_limit import EMITTED_MAX

from tests.unit.server.in_process import Cluster
from tests.unit.server.strangers import (
    SOFTWARE,
    Session,
    Stranger,
    connections,
    fetch,
    one_broker,
    refusals,
)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_client_logs_in_by_plain(tmp_path: Path, version: int) -> None:
    async with one_broker(tmp_path) as (_, broker):
        client = await Stranger.at(broker)
        assert (await client.ask(ApiKey.API_VERSIONS, 3, SOFTWARE)).error_code == ErrorCode.NONE
        assert not (await client.log_in(version=version)).error_code
        assert await client.is_served()
        assert [each.principal for each in connections(broker)] == ["User:alice"]
        client.close()


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


async def test_many_users_are_altered_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 in one go held a broker for 1.2 s. What is asked for one user is done or refused together."""
    monkeypatch.setattr("minikafka.server.api.scram_credentials.AT_ONCE", 2)
    wishes = [
        {"name": name, "mechanism": mechanism, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
        for name, mechanism in (("a", 1), ("b", 1), ("c", 1), ("d", 1), ("a", 2), ("b", 3))
    ]
    async with one_broker(tmp_path) as (cluster, broker):
        await cluster.has_controller()
        users, parts = broker.topics.require_controller().controller.users, list[Any]()
        alter = users.alter

        def altered(changes: Any, secret: bytes) -> Any:
            parts.append(changes)
            return alter(changes, secret)

        monkeypatch.setattr(users, "alter", altered)
        admin = await Stranger.at(broker)
        await admin.log_in()
        answer = await admin.ask(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [{"name": "c", "mechanism": 1}], "upsertions": wishes}
        )
        told = {row.user: row.error_code for row in answer.results}
        refused = {"b": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "c": ErrorCode.RESOURCE_NOT_FOUND}
        assert told == dict.fromkeys("abcd", ErrorCode.NONE) | refused
        assert [{change.user for change in part} for part in parts] == [{"c"}, {"a"}, {"b"}, {"d"}]
        assert {name for name, _ in broker.metadata.image.scram} == {"a", "d"}
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


async def test_large_messages_of_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_broker(tmp_path, **{"sasl.server.max.receive.size": "1000"}) as (_, broker):
        client = await Stranger.at(broker)
        await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert await client.ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0" * 1000}) is None, "no answer at all"
        client = await Stranger.at(broker)
        await client.log_in()
        answer = await client.ask(ApiKey.METADATA, 9, {"topics": [{"name": "t" * 200}] * 20})
        assert answer is not None, "who has logged in may ask for more"
        monkeypatch.setattr("minikafka.server.authentication.LOGIN_AGAIN_SECONDS_MIN", 0.0)
        assert (await client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})).error_code == ErrorCode.NONE
        answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0" * 1000})
        assert answer is None, "8 MB of it held a broker for 2 s, and took 0.5 GB"
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


@asynccontextmanager
async def session(data: Path, **config: str) -> AsyncIterator[tuple[Cluster, Session]]:
    async with one_broker(data, **{"connections.max.reauth.ms": "3600000"}, **config) as (cluster, broker):
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


async def test_who_is_refused_again_is_told_so_also_behind_a_fetch_that_waits(tmp_path: Path) -> None:
    """Answers have an order: the connection was closed before the refusal had its turn."""
    async with session(tmp_path) as (cluster, session_):
        await cluster.create("t")
        session_.passes(10)
        client = session_.client
        client.request(ApiKey.FETCH, 11, fetch())
        client.request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        client.request(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0wrong"})
        fetched, shaken, refused = [await client.frame() for _ in range(3)]
        assert fetched is not None and shaken is not None and refused is not None
        answer = messages.decode_response(
            ApiKey.SASL_AUTHENTICATE, 2, messages.answer_body(ApiKey.SASL_AUTHENTICATE, 2, refused)
        )
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.frame() is None


def joining() -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": b""}]
    return {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 300_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": protocols,
    }


@pytest.mark.parametrize("is_answered", [True, False])
async def test_who_is_refused_again_is_told_so_behind_what_waits(
    tmp_path: Path, is_answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JoinGroup, for other members, and not for ever."""
    async with session(tmp_path, **{"group.initial.rebalance.delay.ms": "300000"}) as (cluster, session_):
        session_.passes(10)
        client, context = session_.client, session_.broker.context
        if not is_answered:
            monkeypatch.setattr(context.config, "minikafka_authentication_timeout_ms", 1)
        await cluster.create("__consumer_offsets")
        client.request(ApiKey.JOIN_GROUP, 3, joining())
        client.request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        client.request(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0wrong"})
        await refusals(cluster, 1)
        if is_answered:
            session_.broker.groups.stop()
            answers = [await client.frame() for _ in range(3)]
            assert None not in answers
        assert await client.frame() is None


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
