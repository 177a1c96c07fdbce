"""What a broker has of the machine it runs on. A simulation brings its own, and with it everything that chance decides."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from uuid import UUID, uuid4

from minikafka.config import BrokerConfig
from minikafka.groups.host import LOAD_SLICE_SECONDS
from minikafka.log.filesystem import FileSystem, RealFileSystem
from minikafka.replication.clock import Clock
from minikafka.telemetry.console import tell
from minikafka.telemetry.events import EventLog


class Machine:
    """This machine. Sockets and threads are the event loop's."""

    clock = Clock(
        time.monotonic,
        lambda: int(time.time() * 1000),
        lambda seconds, event: asyncio.get_running_loop().call_later(seconds, event),
    )

    load_slice = LOAD_SLICE_SECONDS
    """How long a coordinator may read its log before others run."""

    @property
    def descriptors(self) -> int | None:
        """How many files this process may have open; None: any number."""
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return None if allowed == resource.RLIM_INFINITY else allowed

    def tell(self, broker_id: int, line: str) -> None:
        """One line for the operator, on standard error."""
        tell(f"broker {broker_id}: {line}")

    def new_id(self) -> UUID:
        """That nobody had before."""
        return uuid4()

    def events(self, config: BrokerConfig) -> EventLog:
        """Where events are told. Raises OSError."""
        return EventLog(
            config.minikafka_events_path or None,
            config.node_id,
            stdout=config.minikafka_events_stdout,
            bytes_max=config.minikafka_events_max_bytes,
        )

    def disk(self, config: BrokerConfig, warn: Callable[[str], None]) -> FileSystem:
        """Raises OSError, without the file of injected faults that the configuration names."""
        path = config.minikafka_test_faults_path
        if path is None:
            return RealFileSystem()
        from minikafka.log.injection import FaultFile, FaultyFileSystem, step_clock

        warn(f"faults are injected from {path}")
        faults = FaultFile(path)
        step_clock(faults)
        return FaultyFileSystem(faults)
