"""Who reads the metrics of operator and chaos controller (31 item 3)."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from minikafka.client.metrics_access import MetricsAccess
from minikafka.security.bearer import TokensUnusable
from minikafka.security.tls import TlsSettings, TlsSettingsError
from minikafka_kube import http
from minikafka_kube.http import PageSecurity, serve
from minikafka_kube.telemetry import Looking

from tests.certificates import Authority, authority

TOKEN = "token-of-the-tests-1"


@asynccontextmanager
async def served(security: PageSecurity) -> AsyncIterator[int]:
    """Its port."""
    site = await serve("127.0.0.1", 0, Looking("test_x", "cluster"), lambda: "", lambda: "not yet", security)
    try:
        yield int(site.addresses[0][1])
    finally:
        await site.cleanup()


async def ask(access: MetricsAccess, port: int, path: str = "/metrics") -> tuple[int, bytes]:
    return await asyncio.to_thread(access.ask, access.url("127.0.0.1", port, path), 30.0)


def certificate(folder: Path, signer: Authority) -> None:
    """As cert-manager writes it."""
    key, begin, chain = signer.issue("127.0.0.1").partition("-----BEGIN CERTIFICATE-----")
    (folder / "tls.key").write_text(key)
    (folder / "tls.crt").write_text(begin + chain)


def trusting(signer: Authority) -> MetricsAccess:
    return MetricsAccess(TlsSettings(truststore_certificates=signer.pem))


async def test_metrics_ask_for_a_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "tokens"
    mine.write_text(TOKEN)
    theirs.write_text(f"another-token-0123456789\n{TOKEN}\n")
    async with served(PageSecurity(str(theirs))) as port:
        assert (await ask(MetricsAccess(), port))[0] == 401
        assert (await ask(MetricsAccess(tokens_path=str(mine)), port))[0] == 200
        assert [(await ask(MetricsAccess(), port, path))[0] for path in ("/healthz", "/readyz")] == [200, 503]
        theirs.write_text("another-token-0123456789\n")
        assert await ask(MetricsAccess(tokens_path=str(mine)), port) == (401, b"401 Unauthorized\n")
        theirs.write_text("")
        assert (await ask(MetricsAccess(tokens_path=str(mine)), port))[0] == 401, "what was read before is in force"
    told = [record.getMessage() for record in caplog.records]
    assert "127.0.0.1 may not read metrics: no token" in told
    assert any("0 tokens" in line for line in told) and TOKEN not in str(told)


async def test_a_port_with_a_certificate(tmp_path: Path) -> None:
    """A renewed one holds for the next connection, also of those who name no server."""
    certificate(tmp_path, authority())
    async with served(PageSecurity(certificate_folder=str(tmp_path))) as port:
        assert (await ask(trusting(authority()), port))[0] == 200
        with pytest.raises(OSError):
            await ask(MetricsAccess(), port)
        certificate(tmp_path, authority("next"))
        with pytest.raises(ssl.SSLError):
            await ask(trusting(authority()), port)
        assert (await ask(trusting(authority("next")), port))[0] == 200
        (tmp_path / "tls.key").write_text("not yet whole")
        assert (await ask(trusting(authority("next")), port))[0] == 200


@pytest.mark.timeout(10)
async def test_files_that_cannot_be_used_end_the_start(tmp_path: Path) -> None:
    with pytest.raises(TlsSettingsError, match=f"--metrics-certificate={tmp_path}: .*tls.key: No such file"):
        await serve("127.0.0.1", 0, Looking("test_y", "cluster"), str, str, PageSecurity("", str(tmp_path)))
    os.mkfifo(tmp_path / "tls.key")
    with pytest.raises(TlsSettingsError, match=f"--metrics-certificate={tmp_path}: .*tls.key: no regular file"):
        await serve("127.0.0.1", 0, Looking("test_y", "cluster"), str, str, PageSecurity("", str(tmp_path)))
    (tmp_path / "tokens").touch()
    with pytest.raises(TokensUnusable, match=r"--metrics-tokens=.*tokens: 0 tokens"):
        await serve("127.0.0.1", 0, Looking("test_z", "cluster"), str, str, PageSecurity(f"{tmp_path}/tokens"))


async def test_a_request_that_is_none_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """It may have a token in it, and a stranger can send any number of them."""
    async with served(PageSecurity()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /metrics HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer\r\n {TOKEN}\r\n\r\n".encode())
        assert b" 400 " in await reader.readline()
        writer.close()
    assert caplog.records == []


async def test_who_says_nothing_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is idle for longest is closed; half of a request is no use."""
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 3)
    async with served(PageSecurity()) as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        (_, half), (reader, used), (silent, _) = opened
        used.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readuntil(b"ok\n")
        half.write(b"GET /healthz HTTP/1.1\r\n")
        assert (await ask(MetricsAccess(), port, "/healthz"))[0] == 200
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        assert (await ask(MetricsAccess(), port, "/healthz"))[0] == 200
        async with asyncio.timeout(30):
            assert [await each.read() for each in (opened[0][0], silent)] == [b"", b""]
        used.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"503" in await reader.readuntil(b"not yet\n")
        for _, writer in opened:
            writer.close()
