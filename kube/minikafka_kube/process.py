"""A program that looks after objects, as a process: election, loops, kopf's watches, probes and metrics, signals.

What it looks after is handed in as a :class:`Program`; the operator is one, the chaos controller another.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

import kopf
from minikafka.security.bearer import TokensUnusable
from minikafka.security.tls import TlsSettingsError

from minikafka_kube.api import API_VERSION
from minikafka_kube.api_server import TRANSIENT, ApiError, ApiServer
from minikafka_kube.credentials import configuration
from minikafka_kube.http import CERTIFICATE_OPTION, TOKENS_OPTION, PageSecurity, serve
from minikafka_kube.leadership import Alone, Leadership
from minikafka_kube.loops import RESYNC_SECONDS, Loops, Reconcile
from minikafka_kube.names import METRICS_PORT
from minikafka_kube.telemetry import Looking

OK, BAD_INPUT, FAILED = 0, 2, 3
START_SECONDS_MAX: Final = 30.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Program:
    """What is looked after, and by whom."""

    name: str
    """Of the command, and the field manager of its writes."""
    telemetry: Looking
    plurals: frozenset[str]
    """Kinds of our own API that have to be served."""
    reconcile: Callable[[ApiServer, str, Leadership | Alone], Reconcile]
    """Makes what looks at one object, given the API server, who this process is, and who may act."""
    registry: Callable[[Loops], kopf.OperatorRegistry]
    settings: Callable[[bool], kopf.OperatorSettings]
    """kopf's; its argument: whether all namespaces are watched."""


@dataclass(frozen=True)
class ProcessOptions:
    """What every such program is told on its command line or in its environment."""

    namespaces: tuple[str, ...]
    host: str
    port: int
    resync_seconds: float
    lease: tuple[str, str] | None
    """Namespace and name of the Lease whose holder acts; None: no election."""
    log_format: str
    verbose: bool
    page: PageSecurity = field(default_factory=PageSecurity)
    """Who reads metrics."""

    @classmethod
    def of(cls, parser: argparse.ArgumentParser, given: argparse.Namespace) -> Self:
        """From what :func:`add_options` has added. Exits with 2 and one line on bad input."""
        if not 0 <= given.port <= 65_535:
            parser.error(f"--port={given.port}: allowed: 0 to 65535")
        if given.resync_seconds < 1:
            parser.error(f"--resync-seconds={given.resync_seconds:g}: allowed: 1 and more")
        return cls(
            tuple(dict.fromkeys(given.namespace)),
            given.host,
            given.port,
            given.resync_seconds,
            (given.lease_namespace, given.lease_name) if given.lease_namespace else None,
            given.log_format,
            given.verbose,
            PageSecurity(given.metrics_tokens, given.metrics_certificate),
        )


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """The options of every such program; ``name`` is that of its Lease."""
    environment = os.environ
    parser.add_argument(
        "--namespace",
        action="append",
        default=[one for one in environment.get("MINIKAFKA_NAMESPACES", "").split(",") if one],
        help="look after this namespace; may be repeated; without it: all (MINIKAFKA_NAMESPACES, comma-separated)",
    )
    parser.add_argument(
        "--host", default="0.0.0.0", help="where /metrics, /healthz and /readyz are (default: everywhere)"
    )
    parser.add_argument("--port", type=int, default=METRICS_PORT, help=f"and their port (default: {METRICS_PORT})")
    parser.add_argument(
        TOKENS_OPTION,
        default="",
        metavar="FILE",
        help="tokens, one a line, of which /metrics asks for one (default: for none)",
    )
    parser.add_argument(
        CERTIFICATE_OPTION,
        default="",
        metavar="FOLDER",
        help="tls.crt and tls.key, by which that port has TLS (default: it has none)",
    )
    parser.add_argument(
        "--resync-seconds",
        type=float,
        default=RESYNC_SECONDS,
        help=f"how often objects are looked at when nothing happens (default: {RESYNC_SECONDS:g})",
    )
    parser.add_argument(
        "--lease-namespace",
        default=environment.get("POD_NAMESPACE", ""),
        help="namespace of the Lease by which several of these agree on who acts; without it there must be but one "
        "(POD_NAMESPACE)",
    )
    parser.add_argument("--lease-name", default=name, help=f"and its name (default: {name})")
    parser.add_argument("--log-format", choices=("plain", "json"), default="plain", help="of standard error")
    parser.add_argument("--verbose", action="store_true", help="also log what is of interest to developers only")


def set_up_logging(options: ProcessOptions) -> None:
    """To standard error, as asked for."""
    kopf.configure(
        verbose=options.verbose,
        log_format=kopf.LogFormat.JSON if options.log_format == "json" else kopf.LogFormat.FULL,
    )
    if not options.verbose:
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # else a line for every event that is watched


async def run(
    program: Program, options: ProcessOptions, stop: asyncio.Event, started: asyncio.Event | None = None
) -> int:
    """Run until ``stop`` is set, or a signal comes. ``started`` is set when it watches. The exit code: 0, 2 or 3."""
    telemetry = program.telemetry
    identity = os.environ.get("POD_NAME") or socket.gethostname()
    watching = started or asyncio.Event()
    async with ApiServer(configuration, telemetry, program.name) as server:
        problem = await not_ready_to_start(server, program.plurals)
        if problem:
            print(f"{program.name}: {problem}", file=sys.stderr)
            return FAILED
        election = None if options.lease is None else Leadership(server, *options.lease, identity)
        reconcile = program.reconcile(server, identity, Alone() if election is None else election)
        loops = Loops(reconcile, telemetry, resync_seconds=options.resync_seconds)
        loops.lead(election is None)
        if election is not None:
            election.changed = loops.lead
        try:
            site = await serve(
                options.host,
                options.port,
                telemetry,
                health=lambda: _health(loops),
                ready=lambda: "" if watching.is_set() else "not watching yet",
                security=options.page,
            )
        except (TokensUnusable, TlsSettingsError) as error:
            print(f"{program.name}: {error}", file=sys.stderr)
            return BAD_INPUT
        except OSError as error:
            print(f"{program.name}: --port={options.port}: {error.strerror or error}", file=sys.stderr)
            return BAD_INPUT
        electing = None if election is None else asyncio.create_task(election.run(), name="election")
        try:
            return await _watch(program, options, loops, stop, watching, electing)
        finally:
            if electing is not None:
                await _end(electing)
            await site.cleanup()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


async def _watch(
    program: Program,
    options: ProcessOptions,
    loops: Loops,
    stop: asyncio.Event,
    watching: asyncio.Event,
    electing: asyncio.Task[None] | None,
) -> int:
    everywhere = not options.namespaces
    stop_kopf = asyncio.Event()
    before = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=program.registry(loops),
        settings=program.settings(everywhere),
        clusterwide=everywhere,
        namespaces=options.namespaces,
        standalone=True,
        ready_flag=watching,
        stop_flag=stop_kopf,
    )
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):  # only now, for kopf has just set handlers of its own
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    operator = asyncio.create_task(kopf.run_tasks(tasks, ignored=before), name="kopf")
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((operator, stopping), return_when=asyncio.FIRST_COMPLETED)
    await loops.stop()  # before kopf, which takes tasks that it did not start for its own, and waits for them
    if stopping.done():
        if electing is not None:
            await _end(electing)  # at once, for the next one waits for the Lease
        stop_kopf.set()
        await asyncio.wait((operator,))
        return OK
    stopping.cancel()
    error = None if operator.cancelled() else operator.exception()
    print(f"{program.name}: watching ended: {error or 'for no reason given'}", file=sys.stderr)
    return FAILED


async def not_ready_to_start(server: ApiServer, plurals: frozenset[str]) -> str:
    """Return what has to be put right before it can work.

    It is given some time to come right by itself: CRDs are served a moment after they were applied, and an API server
    that has just started knows nobody's permissions yet.
    """
    deadline = asyncio.get_running_loop().time() + START_SECONDS_MAX
    pause = 0.5
    while True:
        try:
            served = {one["name"] for one in (await server.served(f"/apis/{API_VERSION}")).get("resources") or ()}
            missing = sorted(plurals - served)
            if not missing:
                return ""
            problem = f"the CRDs of {', '.join(missing)} are missing; apply crds/ first"
        except kopf.LoginError as error:
            return str(error)
        except ApiError as error:
            problem = f"the API server refused: {error}"
            if error.code == 404:
                problem = f"the API server does not serve {API_VERSION}; apply crds/ first"
        except TRANSIENT as error:
            problem = f"the API server cannot be reached: {error or type(error).__name__}"
        if asyncio.get_running_loop().time() > deadline:
            return problem
        logger.warning("Waiting, because %s", problem)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 5.0)


def _health(loops: Loops) -> str:
    stalled = loops.stalled()
    return f"hanging: {', '.join('/'.join(key) for key in stalled)}" if stalled else ""
