"""Brokers log in at each other by SCRAM, and nobody else is taken for one (31 item 1)."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from pathlib import Path

import pytest
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.sasl_client import AuthenticationError, Login
from minikafka.security.scram import Shape, credential_of, decoy
from minikafka.transport.peer import connect

from tests.unit.server.in_process import DEADLINE, Cluster, running
from tests.unit.server.strangers import SCRAM, Stranger, connections, refusals
from tests.waiting import until


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
async def test_a_user_is_no_broker(tmp_path: Path) -> None:
    """Whoever has logged in where brokers do is served as a client, unless it is the brokers' own user (31 item 1).

    By the settings: without an authorizer anybody can put that user, and super users, into the store.
    """
    heartbeat = {
        "broker_id": 1, "broker_epoch": 1, "current_metadata_offset": 0, "want_fence": True, "want_shut_down": False
    }  # fmt: skip
    settings = {
        **scram_brokers(),
        "super.users": "User:root",
        "queued.max.request.bytes": "104857600",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
    }
    async with running(tmp_path, 1, **settings) as cluster:
        broker = cluster.brokers[1]
        await cluster.has_controller()
        for name in ("eve", "root", "brokers"):
            for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256"):
                eves = credential_of(mechanism, "eves").to_json()
                broker.metadata.image.apply(f"scram/{mechanism}/{name}", eves)
        for login, is_answered in (
            (Login("SCRAM-SHA-512", "eve", "eves"), False),
            (Login("SCRAM-SHA-512", "root", "eves"), False),
            (Login("SCRAM-SHA-512", "brokers", "eves"), None),
            (Login("SCRAM-SHA-256", "brokers", "eves"), None),
            (Login("SCRAM-SHA-512", "brokers", "secret"), True),
        ):
            client = await Stranger.at(broker, "REPLICATION")
            assert bool((await client.log_in(login)).error_code) == (is_answered is None)
            if is_answered is None:
                continue
            (connection,) = [each for each in connections(broker) if each.principal == f"User:{login.username}"][-1:]
            assert (connection.memory is None) == is_answered, "who is no broker takes from queued.max.request.bytes"
            assert await client.is_served()
            assert (await client.ask(ApiKey.BROKER_HEARTBEAT, 1, heartbeat) is not None) == is_answered
            client.close()


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
