"""TLS of listeners, on brokers with real sockets (31 item 1)."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.sasl_client import AuthenticationError, Login
from minikafka.security.tls import TlsSettings, client_context
from minikafka.security.tls_stream import TlsStream
from minikafka.server.broker import Broker
from minikafka.transport.peer import PeerClosed, PeerConnection, connect

from tests.certificates import SEQUENCE, SET, PemFiles, authority, broker_keystore, client_keystore, der
from tests.unit.server.in_process import DEADLINE, running
from tests.unit.server.strangers import ALICE, SASL, Stranger, connections, refusals
from tests.waiting import until


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


async def test_a_certificate_whose_subject_cannot_be_read(tmp_path: Path) -> None:
    """Of what OpenSSL lets through that is a length in more bytes than it needs; a name that is no UTF-8 is not looked at."""
    files = PemFiles.write(tmp_path)
    name = der(SEQUENCE, der(SET, der(SEQUENCE, bytes.fromhex("0603550403"), der(0x0C, b"alice"))))
    async with running(tmp_path, 1, **mutual(files)) as cluster:
        odd = authority().issue_bytes(b"\x30\x81" + name[1:])
        peer = await connect_tls(cluster.brokers[1], "CLIENT", tls_of(odd))
        with pytest.raises(PeerClosed):
            await peer.request(ApiKey.METADATA, 9, {"topics": None})
        ((_, reason),) = await refusals(cluster, 1)
        assert reason.startswith("the subject of the certificate cannot be read: ")
        latin = authority().issue_bytes(name, email=b"\xe9@example.org")
        peer = await connect_tls(cluster.brokers[1], "CLIENT", tls_of(latin))
        await peer.request(ApiKey.METADATA, 9, {"topics": None})
        assert "User:alice" in {each.principal for each in connections(cluster.brokers[1])}
        peer.close()


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


async def test_a_closed_connection_is_gone_at_once(tmp_path: Path) -> None:
    """Nobody waits for a collection of cycles, which is rare: buffers and TLS of those that come and go would pile up."""
    mapped = {"listener.security.protocol.map": "CLIENT:SASL_SSL,REPLICATION:PLAINTEXT"}
    async with running(tmp_path, 1, **{**PemFiles.write(tmp_path).settings, **SASL, **mapped}) as cluster:
        broker = cluster.brokers[1]
        await cluster.create("t", leader=1)
        gc.disable()
        try:
            client = await connect_tls(broker, "CLIENT", tls_of(), ALICE)
            await client.request(ApiKey.METADATA, 9, {"topics": None})
            parts = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
            fetch = {"max_wait": 60_000, "min_bytes": 1, "topics": [{"topic": "t", "partitions": parts}]}
            waits = asyncio.ensure_future(client.request(ApiKey.FETCH, 11, fetch))
            await until(lambda: any(each.waiting_fetch.is_waiting for each in connections(broker)))
            gone = [weakref.ref(each) for each in connections(broker) if not each.inter_broker]
            assert len(gone) == 1
            client.close()
            with pytest.raises(PeerClosed):
                await waits
            await until(lambda: not any(each() for each in gone))
        finally:
            gc.enable()
