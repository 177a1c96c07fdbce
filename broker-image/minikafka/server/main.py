"""Running one broker as a process: what ``minikafka broker --config FILE`` and the container do."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from minikafka.config import BrokerConfig, ConfigError
from minikafka.log.errors import LogError
from minikafka.metadata.store import ClusterStore, StoreError
from minikafka.server.broker import Broker
from minikafka.server.controller_role import Reconcile
from minikafka.telemetry.console import tell

GC_THRESHOLDS = (50_000, 20, 50)
"""A full collection stops every partition at once; what lives long is frozen after the start, the rest dies by count."""

HEARTBEATS_OF_PATIENCE = 1.5
"""A broker takes its controller for dead when a heartbeat has no answer for two intervals. A commit that hangs must end
before, as NOT_CONTROLLER, or every broker would be fenced for a connection that it closed itself."""

STORE_PATIENCE_SECONDS_MIN = 1.0

DESCRIPTORS = 1 << 20
"""Where the system sets no limit."""


def open_store(config: BrokerConfig) -> tuple[ClusterStore, Reconcile | None]:
    """The store that ``minikafka.metadata.store`` names, and what the controller's broker does for those who look at it.

    Raises:
        StoreError: it cannot be known from here where it is.
    """
    kind, path = config.metadata_store
    if kind == "sqlite":
        from minikafka.metadata.sqlite import SqliteStore

        return SqliteStore(Path(path), config.node_id), None
    if kind == "kubernetes":
        return _open_kubernetes(config)
    from minikafka.metadata.memory import MemoryStore

    return MemoryStore(), None


def _open_kubernetes(config: BrokerConfig) -> tuple[ClusterStore, Reconcile]:
    from minikafka.kubernetes import KubernetesApi, KubernetesStore, TopicReconciler, find_access

    access = find_access()
    namespace = config.minikafka_kubernetes_namespace or access.namespace
    cluster = config.minikafka_kubernetes_cluster
    assert cluster is not None, "the configuration was checked"
    store = KubernetesStore(
        KubernetesApi(access, namespace),
        cluster,
        patience=max(HEARTBEATS_OF_PATIENCE * config.broker_heartbeat_interval_ms / 1000, STORE_PATIENCE_SECONDS_MIN),
        lease_seconds=config.broker_session_timeout_ms / 1000,
        pod_uid=os.environ.get("POD_UID", ""),
        warn=lambda line: tell(f"broker {config.node_id}: cluster store: {line}"),
    )
    return store, lambda controller: TopicReconciler(store, controller).run()


def run(config: BrokerConfig, *, while_stdin: bool = False) -> int:
    """Run until SIGTERM or SIGINT; the exit code: 0 stopped, 2 bad configuration or data, 3 something else failed.

    `while_stdin`: die at once when standard input ends.
    """
    if while_stdin:
        threading.Thread(target=_die_with_stdin, name="lifeline", daemon=True).start()
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with runner:
        return runner.run(_serve(config))


def _die_with_stdin() -> None:
    """A thread of its own, for the event loop may be busy, or not run yet."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


async def _serve(config: BrokerConfig) -> int:
    raise_descriptor_limit()
    for warning in config.warnings:
        tell(f"warning: {warning}")
    try:
        store, reconcile = open_store(config)
        broker = Broker(config, store, reconcile=reconcile)
    except (ConfigError, StoreError) as error:
        tell(f"minikafka broker: {error}")
        return 2
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, _dump_tasks)
    loop.set_exception_handler(lambda _, context: _tell(broker, context))
    return await live(broker, stop, _settle_memory, tell)


async def live(broker: Broker, stop: asyncio.Event, started: Callable[[], None], say: Callable[[str], None]) -> int:
    """A broker's life, from its start to the exit code of its process.

    Args:
        stop: set when it is asked to stop.
        started: called once it serves.
        say: gets a line when it ends by itself.
    """
    starting = asyncio.ensure_future(broker.start())
    stopping = asyncio.ensure_future(stop.wait())
    failing = asyncio.ensure_future(broker.failed.wait())
    try:
        await asyncio.wait((starting, stopping, failing), return_when=asyncio.FIRST_COMPLETED)
        if broker.failed.is_set():
            starting.cancel()
            return await _failed(broker, say)
        if not starting.done():
            starting.cancel()
            await broker.abort()
            return 0
        await starting
    except (ConfigError, LogError, StoreError, OSError) as error:
        say(f"minikafka broker: {error}")
        await broker.abort()
        return 2
    started()
    await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
    if broker.failed.is_set():
        return await _failed(broker, say)
    await broker.stop("signal")
    return 0


async def _failed(broker: Broker, say: Callable[[str], None]) -> int:
    say(f"minikafka broker: {broker.failure}")
    await broker.abort()
    return 3


def raise_descriptor_limit() -> None:
    """Open as many files as this process may be allowed, as Java does for Kafka: each connection and segment takes some."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = DESCRIPTORS if allowed == resource.RLIM_INFINITY else allowed
    with suppress(OSError, ValueError):  # the kernel has a bound of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))


def _settle_memory() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _tell(broker: Broker, context: dict[str, Any]) -> None:
    """What fell through to the event loop: the callback of a timer or a socket raised, or a task that nobody awaited."""
    error = context.get("exception")
    if isinstance(error, Exception):
        broker.context.handler_failed(error)
    else:
        broker.context.warn_rarely("event loop", f"event loop: {context.get('message')}")


def _dump_tasks() -> None:
    """``kill -USR1``: what every task waits for, on standard error, for finding out why something hangs."""
    for task in asyncio.all_tasks():
        task.print_stack(limit=4, file=sys.stderr)
