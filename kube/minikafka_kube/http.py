"""``/metrics``, ``/healthz`` and ``/readyz`` of a program that looks after objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from minikafka_kube.telemetry import Looking

Probe = Callable[[], str]
"""What is wrong, in one line; nothing when all is well."""


async def serve(host: str, port: int, telemetry: Looking, health: Probe, ready: Probe) -> web.AppRunner:
    """Listen; ``cleanup()`` of what is returned ends it. Raises OSError when the port cannot be had."""

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=telemetry.page(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    def probe(ask: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(_request: web.Request) -> web.Response:
            wrong = ask()
            return web.Response(text=f"{wrong or 'ok'}\n", status=503 if wrong else 200)

        return answer

    application = web.Application()
    application.add_routes(
        [web.get("/metrics", metrics), web.get("/healthz", probe(health)), web.get("/readyz", probe(ready))]
    )
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner
