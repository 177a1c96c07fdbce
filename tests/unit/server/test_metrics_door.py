"""Who reads a broker's metrics: tokens and TLS of the port of /metrics, on brokers with real sockets (31 item 3)."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from minikafka.cli.metadata import BrokerMetadata
from minikafka.cli.scrape import scrape
from minikafka.client.metrics_access import OPEN, MetricsAccess, own_access
from minikafka.client.security import ClientSecurity
from minikafka.config import ConfigError
from minikafka.local.ports import free_base_port
from minikafka.security.tls import TlsSettings
from minikafka.server.broker import Broker
from minikafka_chaos.record.observe import reader
from minikafka_chaos.record.observe import scrape as observed

from tests.certificates import PemFiles, authority, broker_keystore
from tests.unit.server.in_process import DEADLINE, running

TOKEN, NEXT = "token-of-the-tests-1", "token-of-the-tests-2"
TRUST = TlsSettings(truststore_certificates=authority().pem)


def settings(folder: Path, *, tls: bool = False) -> dict[str, str]:
    """A token, and TLS."""
    (folder / "tokens").write_text(f"{TOKEN}\n")
    found = {"minikafka.metrics.tokens.path": str(folder / "tokens")}
    if tls:
        found["minikafka.metrics.ssl.keystore.location"] = str(PemFiles.write(folder).keystore)
    return found


def port_of(broker: Broker) -> int:
    assert broker._metrics is not None
    return broker._metrics.port


async def ask(broker: Broker, path: str = "/metrics", *headers: str, context: ssl.SSLContext | None = None) -> str:
    """Everything that is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker), ssl=context)
    writer.write("\r\n".join([f"GET {path} HTTP/1.0", *headers, "", ""]).encode())
    async with asyncio.timeout(DEADLINE):
        found = await reader.read()
    writer.close()
    return found.decode()


async def read(broker: Broker, access: MetricsAccess) -> int:
    """The status, as our own programs read metrics. Raises OSError."""
    return (await asyncio.to_thread(access.ask, access.url("127.0.0.1", port_of(broker)), DEADLINE))[0]


def events(folder: Path, *names: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "events-1.jsonl").read_text().splitlines()]
    return [line["fields"] for line in lines if line["event"] in names]


async def test_metrics_without_the_token(tmp_path: Path) -> None:
    """All refusals look alike, on a connection that ends; the kubelet's two questions need none."""
    async with running(tmp_path, 1, **settings(tmp_path), **{"minikafka.test.hooks": "true"}) as cluster:
        broker = cluster.brokers[1]
        refused = [
            await ask(broker),
            await ask(broker, "/metrics", "Authorization: Bearer wrong-token-0123456789"),
            await ask(broker, "/metrics", f"Authorization: Basic {TOKEN}"),
            await ask(broker, "/metrics?/healthz"),
            await ask(broker, "/hooks"),
            await ask(broker, "/nothing"),
        ]
        assert len(set(refused)) == 1
        head, _, body = refused[0].partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 401 ") and "\r\nWWW-Authenticate: Bearer\r\n" in head + "\r\n"
        assert "Connection: close" in head and body == "401 Unauthorized\n"
        for probe in ("/healthz", "/readyz?verbose"):
            assert (await ask(broker, probe)).startswith("HTTP/1.1 200 ")
        assert " 200 " in await ask(broker, "/metrics", f"Authorization: Bearer {TOKEN}")
        assert broker.stats.failed_authentications == 6
        told = events(tmp_path, "authentication_failed")
        assert [event["reason"] for event in told[:2]] == ["no token", "a token that is not accepted"]
        assert {(e["principal"], e["address"], e["listener"]) for e in told} == {(None, "127.0.0.1", "metrics")}
        assert TOKEN not in json.dumps(told)


async def test_a_token_is_replaced_while_the_broker_runs(tmp_path: Path) -> None:
    config = settings(tmp_path)
    async with running(tmp_path, 1, **config) as cluster:
        broker, file, access = cluster.brokers[1], tmp_path / "tokens", own_access(config)
        assert await read(broker, access) == 200
        for tokens, statuses in ((f"{TOKEN}\n{NEXT}\n", [200, 200]), (f"{NEXT}\n", [401, 200]), ("?", [401, 200])):
            file.write_text(tokens)
            answers = [await ask(broker, "/metrics", f"Authorization: Bearer {each}") for each in (TOKEN, NEXT)]
            assert [int(answer.split()[1]) for answer in answers] == statuses
        assert len(events(tmp_path, "metrics_tokens_renewed")) == 2
        ((error,),) = (event.values() for event in events(tmp_path, "metrics_tokens_unusable"))
        assert "line 1 is no token" in error


async def test_metrics_by_tls(tmp_path: Path) -> None:
    """Our own readers verify the certificate before they show a token; who comes without TLS gets nothing."""
    async with running(tmp_path, 1, **settings(tmp_path, tls=True)) as cluster:
        broker, tokens = cluster.brokers[1], str(tmp_path / "tokens")
        assert await read(broker, MetricsAccess(TRUST, tokens)) == 200
        assert await read(broker, MetricsAccess(TRUST)) == 401
        own = own_access(broker.config.static)
        page = await asyncio.to_thread(observed, own.url("127.0.0.1", port_of(broker)), DEADLINE, reader(own))
        assert page
        for stranger in (TlsSettings(truststore_certificates=authority("other").pem), TlsSettings()):
            with pytest.raises(OSError, match="certificate verify failed"):
                await read(broker, MetricsAccess(stranger, tokens))
        assert "HTTP" not in await ask(broker, "/healthz")
        reasons = [event["reason"] for event in events(tmp_path, "authentication_failed")]
        assert reasons[0] == "no token" and reasons[-1] == "TLS: http request"
        assert [reason[:4] for reason in reasons] == ["no t", "TLS:", "TLS:", "TLS:"]


async def test_large_pages_pipelined_by_tls(tmp_path: Path) -> None:
    """More than one record of TLS, and a client that says goodbye before it has read."""
    async with running(tmp_path, 1, **settings(tmp_path, tls=True)) as cluster:
        broker = cluster.brokers[1]
        assert broker._metrics is not None
        broker._metrics._pages._metrics = lambda: [b"x" * 3_000_000]
        context = ssl.create_default_context(cadata=authority().pem)
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker), ssl=context)
        request = f"GET /metrics HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(request.encode() * 3)
        async with asyncio.timeout(DEADLINE):
            for _ in range(3):
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
                assert len(await reader.readexactly(3_000_000)) == 3_000_000
        writer.close()
        assert " 200 " in await ask(broker, "/metrics", f"Authorization: Bearer {TOKEN}", context=context)


async def test_a_renewed_certificate_of_the_metrics_port(tmp_path: Path) -> None:
    """Holds for the next connection; one that cannot be used leaves the one before."""
    async with running(tmp_path, 1, **settings(tmp_path, tls=True)) as cluster:
        broker, keystore = cluster.brokers[1], tmp_path / "broker.pem"
        after = MetricsAccess(TlsSettings(truststore_certificates=authority("next").pem), str(tmp_path / "tokens"))
        with pytest.raises(OSError, match="certificate verify failed"):
            await read(broker, after)
        keystore.write_text(authority("next").issue("127.0.0.1"))
        assert await read(broker, after) == 200
        keystore.write_text("not yet whole")
        assert await read(broker, after) == 200
        assert [event["listener"] for event in events(tmp_path, "certificates_renewed")] == ["metrics"]
        (unusable,) = events(tmp_path, "certificates_unusable")
        assert unusable["error"].startswith("minikafka.metrics.ssl.keystore.location=")


async def test_the_command_status_reads_a_secured_port(tmp_path: Path) -> None:
    """The broker tells it the port, and that it has TLS."""
    config = settings(tmp_path, tls=True) | {"minikafka.metrics.port": str(free_base_port(1))}
    async with running(tmp_path, 1, **config) as cluster:
        broker = cluster.brokers[1]
        host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == "CLIENT")
        where = BrokerMetadata(1, host, port, None)
        access = MetricsAccess(TRUST, str(tmp_path / "tokens"))
        page = await asyncio.to_thread(scrape, where, DEADLINE, ClientSecurity(metrics=access))
        assert page.error is None
        page = await asyncio.to_thread(scrape, where, DEADLINE, ClientSecurity(metrics=MetricsAccess(TRUST)))
        assert page.error is not None and "asks for a token" in page.error
        page = await asyncio.to_thread(scrape, where, DEADLINE, ClientSecurity())
        assert page.error is not None and "verify failed" in page.error


async def test_the_token_goes_only_to_a_broker_that_tls_has_shown(tmp_path: Path) -> None:
    """By a connection without TLS anybody may have named this host, and have said that its metrics have none."""
    config = settings(tmp_path) | {"minikafka.metrics.port": str(free_base_port(1))}
    async with running(tmp_path, 1, **config) as cluster:
        port = next(p for n, _, p in cluster.brokers[1].listeners.advertised() if n == "CLIENT")
        for host, problem in (
            ("127.0.0.1", None),
            ("127.1", "asks for a token, which goes only to a broker known by TLS"),
        ):
            where = BrokerMetadata(1, host, port, None)  # the second is not seen to be this machine
            access = MetricsAccess(TRUST, str(tmp_path / "tokens"))
            page = await asyncio.to_thread(scrape, where, DEADLINE, ClientSecurity(metrics=access))
            assert problem is page.error or (problem and page.error and problem in page.error)
        assert [event["reason"] for event in events(tmp_path, "authentication_failed")] == ["no token"]


@pytest.mark.parametrize(
    ("host", "port", "page"),
    [
        ("h", "\u00b2", b""),
        pytest.param("h", "9" * 5000, b"", id="long"),
        ("127.0.0.1", "99999", b""),
        ("a..b", "1", b""),
        ("::1%\r\n", "1", b""),
        ("h", "1", b"\xff"),
        ("h", "1", b'minikafka_log_end_offset{topic="t",partition="0"} NaN'),
        ("h", "1", b'minikafka_log_end_offset{topic="t",partition="0"} +Inf'),
    ],
)
def test_a_broker_that_says_what_cannot_be_is_told_of(
    monkeypatch: pytest.MonkeyPatch, host: str, port: str, page: bytes
) -> None:
    answer = Mock(results=[Mock(configs=[Mock(value=port)])])
    answer.results[0].configs[0].name = "minikafka.metrics.port"
    connection = MagicMock()
    connection.return_value.__enter__.return_value.request.return_value = answer
    monkeypatch.setattr("minikafka.cli.scrape.BrokerConnection", connection)
    if page:
        monkeypatch.setattr(MetricsAccess, "ask", lambda *_: (200, page))
    assert scrape(BrokerMetadata(1, host, 9092, None), DEADLINE).error


def test_an_ipv6_address_in_an_address() -> None:
    assert OPEN.url("::1", 9404) == "http://[::1]:9404/metrics"


@pytest.mark.parametrize("name", ["tokens.path", "ssl.keystore.location"])
async def test_files_that_cannot_be_used_end_the_start(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"minikafka.metrics.{name}=.*nowhere: No such file.*; allowed: "):
        async with running(tmp_path, 1, **{f"minikafka.metrics.{name}": str(tmp_path / "nowhere")}):
            pass


def test_without_both_everybody_reads_as_before() -> None:
    assert own_access({}) == MetricsAccess(own=True) and OPEN.url("h", 1) == "http://h:1/metrics"
    assert broker_keystore() not in repr(own_access({"minikafka.metrics.ssl.keystore.location": "/x"}))
