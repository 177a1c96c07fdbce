"""``/metrics``, ``/healthz`` and ``/readyz`` of a program that looks after objects."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError
from minikafka.security.bearer import AcceptedTokens
from minikafka.security.fresh import Fresh, read_at_most
from minikafka.security.tls import PEM_BYTES_MAX, TlsSettings, TlsSettingsError, server_context
from minikafka.telemetry.event_limit import EventLimit

from minikafka_kube.telemetry import Looking

CONNECTIONS_MAX = 64
"""As at a broker's metrics."""
TOKENS_OPTION, CERTIFICATE_OPTION = "--metrics-tokens", "--metrics-certificate"

logger = logging.getLogger(__name__)

Probe = Callable[[], str]
"""What is wrong, in one line; nothing when all is well."""
Page = Callable[[web.BaseRequest], web.Response]


@dataclass(frozen=True)
class PageSecurity:
    """Who reads /metrics: everybody, unless there is a file of tokens; by TLS, where there is a folder with tls.crt and tls.key.

    Both are read anew when they have changed.
    """

    tokens_path: str = ""
    certificate_folder: str = ""

    def tokens(self) -> AcceptedTokens | None:
        """Those that are accepted. Raises TokensUnusable."""
        if not self.tokens_path:
            return None
        return AcceptedTokens(self.tokens_path, _kept, key=TOKENS_OPTION)

    def tls(self) -> ssl.SSLContext | None:
        """Of the port. Raises TlsSettingsError."""
        if not self.certificate_folder:
            return None
        files = [Path(self.certificate_folder) / name for name in ("tls.crt", "tls.key")]
        fresh = Fresh([*map(str, files)], lambda: _certificate(*files), TlsSettingsError, _kept)

        def now(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = fresh.get()

        context = fresh.get()
        context.sni_callback = now  # OpenSSL asks it of every connection, whether or not it names a server
        return context


def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether aiohttp tells of a mistake of this program's.

    Of a request that is none it would tell with a traceback and the line that it could not read, which may have a token in it;
    and that as often as a stranger likes.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _kept(problem: str) -> None:
    logger.warning("What was read before stays in force: %s", problem)


def _certificate(certificate: Path, key: Path) -> ssl.SSLContext:
    where = f"{CERTIFICATE_OPTION}={certificate.parent}"
    try:
        texts = [read_at_most(path, PEM_BYTES_MAX).decode("ascii") for path in (key, certificate)]
        return server_context(TlsSettings(keystore_key=texts[0], keystore_certificate_chain=texts[1]))
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
    except UnicodeDecodeError:
        problem = "not PEM"
    except TlsSettingsError as error:
        problem = str(error)
    raise TlsSettingsError(f"{where}: {problem}; allowed: a folder with tls.crt and tls.key, in PEM")


class _PageServer(web.Server):
    """Answers GET by pages; of too many connections closes the one that has been idle for longest.

    Whoever says nothing, or only half of a request, is idle: the kubelet, which asks on a new connection, is always answered.
    """

    def __init__(self, pages: Mapping[str, Page]) -> None:
        requests = logging.getLogger(f"{__name__}.requests")
        requests.addFilter(_is_ours)
        super().__init__(self._answer, access_log=None, logger=requests)
        self._pages = pages
        self._by_last_use: OrderedDict[web.RequestHandler, None] = OrderedDict()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._by_last_use[handler] = None
        if len(self._by_last_use) > CONNECTIONS_MAX:
            idlest, _ = self._by_last_use.popitem(last=False)
            idlest.force_close()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self._by_last_use.pop(handler, None)
        super().connection_lost(handler, exc)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.protocol in self._by_last_use:  # not when it was closed meanwhile
            self._by_last_use.move_to_end(request.protocol)
        page = self._pages.get(request.path)
        if page is None:
            raise web.HTTPNotFound
        if request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
            raise web.HTTPMethodNotAllowed(request.method, (hdrs.METH_GET, hdrs.METH_HEAD))
        return page(request)


async def serve(
    host: str, port: int, telemetry: Looking, health: Probe, ready: Probe, security: PageSecurity = PageSecurity()
) -> web.ServerRunner:
    """Listen; ``cleanup()`` of what is returned ends it.

    Raises OSError when the port cannot be had, TokensUnusable and TlsSettingsError.
    """
    tokens, tls, strangers = security.tokens(), security.tls(), EventLimit(time.monotonic)

    def metrics(request: web.BaseRequest) -> web.Response:
        reason = tokens.refusal(request.headers.getall(hdrs.AUTHORIZATION, [])) if tokens else ""
        if reason:
            if strangers.takes(object()):
                logger.warning("%s may not read metrics: %s", request.remote, reason)
            refused = web.Response(text="401 Unauthorized\n", status=401, headers={hdrs.WWW_AUTHENTICATE: "Bearer"})
            refused.force_close()
            return refused
        return web.Response(body=telemetry.page(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    def probe(ask: Probe) -> Page:
        def answer(_request: web.BaseRequest) -> web.Response:
            wrong = ask()
            return web.Response(text=f"{wrong or 'ok'}\n", status=503 if wrong else 200)

        return answer

    runner = web.ServerRunner(_PageServer({"/metrics": metrics, "/healthz": probe(health), "/readyz": probe(ready)}))
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner
