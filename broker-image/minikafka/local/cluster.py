"""LocalCluster: real broker processes on this machine, and the verbs that break them.

The brokers are detached: the cluster outlives the program that started it, and any other program can take it up again
by its data directory. So nothing is kept in this object but paths; what runs is read from disk and /proc each time.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from minikafka.client.metrics_access import OPEN, MetricsAccess, own_access
from minikafka.local import pids, process
from minikafka.local.clients_listener import authority_of
from minikafka.local.errors import BadRequest, BrokerFailed, ClusterError
from minikafka.local.layout import (
    CA,
    STOPPED,
    BrokerInfo,
    ClusterInfo,
    ClusterRecord,
    broker_info,
    check,
    client_protocol,
    faults_path,
    new_cluster_id,
    properties,
    read_record,
    write_atomic,
    write_properties,
    write_record,
)
from minikafka.local.locking import lock_within
from minikafka.local.ports import HOST, require_free
from minikafka.local.process import ProcessHandle

BROKER_COMMAND = (sys.executable, "-P", "-m", "minikafka.cli", "broker", "--config")
"""What starts a broker, before the path of its properties (-P: never import from the user's working directory)."""

TIED_BROKER_COMMAND = (*BROKER_COMMAND[:-1], "--while-stdin", BROKER_COMMAND[-1])
"""The same, for brokers that end when their standard input does."""

READY_TIMEOUT = 30.0
"""Seconds a broker may take from exec to /readyz 200; it takes well under one."""

DOWN_TIMEOUT = 15.0
"""Seconds a broker may take to shut down cleanly before it is killed."""

_KILL_TIMEOUT = 10.0
_PAUSE_TIMEOUT = 2.0
_LOCK_TIMEOUT = 60.0
_POLL_SECONDS = 0.02
_POLL_SHARE, _POLL_SECONDS_MAX = 0.1, 0.25
"""Who starts a broker looks the less often the longer it takes: on a busy machine looking takes it from the broker."""
_LOG_TAIL_BYTES = 4096


FIELD_WORDS = {
    "base_port": "base port",
    "replication_base_port": "replication base port",
    "metrics_base_port": "metrics base port",
    "unflushed": "unflushed directory",
    "first_id": "first broker id",
    "proxied": "proxied listeners",
    "faults": "injected faults",
    "advertised_host": "advertised host",
}
"""Fields of a record, as messages name them."""


class LocalCluster:
    """A cluster in a data directory of this machine.

    Every verb that names a broker raises :class:`ClusterError` (one line) for a broker that the cluster does not have.

    With `lifeline` (:func:`minikafka.local.process.spawn`) and :data:`TIED_BROKER_COMMAND` brokers do not outlive the program.
    """

    def __init__(self, data: Path | str, command: Sequence[str] = BROKER_COMMAND, lifeline: int | None = None) -> None:
        self.data = Path(data).absolute()
        self._command = tuple(command)
        self._lifeline = lifeline

    # -- life -------------------------------------------------------------------------------------------------------

    def up(
        self,
        brokers: int | None = None,
        base_port: int | None = None,
        config: Mapping[str, str] | None = None,
        *,
        replication_base_port: int | None = None,
        metrics_base_port: int | None = None,
        racks: Sequence[str] | None = None,
        unflushed: bool | None = None,
        first_id: int | None = None,
        proxied: Sequence[str] | None = None,
        faults: bool | None = None,
        advertised_host: str | None = None,
        timeout: float = READY_TIMEOUT,
        prepare: Callable[[ClusterRecord], None] = lambda _record: None,
    ) -> ClusterInfo:
        """Start every broker that does not run, and wait until all are ready. `prepare` is called before the first is started.

        On new data, None means 3 brokers, base port 19092 (the replication ports 500, the metrics ports 1000 above it), no
        racks, an unflushed directory, ids from 1 on, no proxies, no injected faults, and clients on this machine only (the last
        three: see `ClusterRecord`).
        On data that has a cluster, None means what is recorded, and anything else must agree with it; ``config`` is merged
        into what is recorded, which needs the brokers down when it changes something.

        Raises:
            BadRequest: the arguments are wrong or contradict the record. Nothing was changed.
            PortInUse: nothing was started.
            BrokerFailed: a broker did not get ready; the ones this call started were stopped again.
        """
        asked: dict[str, Any] = {
            "brokers": brokers,
            "base_port": base_port,
            "replication_base_port": replication_base_port,
            "metrics_base_port": metrics_base_port,
            "racks": list(racks) if racks else None,
            "unflushed": unflushed,
            "first_id": first_id,
            "proxied": None if proxied is None else list(proxied),
            "faults": faults,
            "advertised_host": advertised_host,
        }
        self._agreed(asked, config or {})  # bad input leaves no trace, not even a lock
        with self._lock():
            record = self._agreed(asked, config or {})
            dead = [broker for broker in record.ids if pids.find(self.data, broker) is None]
            require_free(port for broker in dead for port in record.ports(broker))
            write_record(self.data, record)
            if (authority := authority_of(record.config)) is not None:
                write_atomic(self.data / CA, authority)
            (self.data / STOPPED).unlink(missing_ok=True)
            started = []
            try:
                prepare(record)
                for broker in dead:
                    self._spawn(record, broker)
                    started.append(broker)
                self.wait_ready(timeout)
            except BaseException:
                self._stop(started, timeout=3.0)
                raise
        return self.info()

    def down(self, timeout: float = DOWN_TIMEOUT) -> list[int]:
        """Shut every broker down cleanly; the ids of those that had to be killed after ``timeout`` seconds."""
        record = self._record()
        with self._lock():
            killed = self._stop(record.ids, timeout)
            (self.data / STOPPED).touch()
        return killed

    def start(self, broker: int) -> BrokerInfo:
        """Start one broker that does not run; returns at once (see :meth:`wait_ready`). One that runs is left alone."""
        record = self._record(broker)
        with self._lock():
            if pids.find(self.data, broker) is None:
                require_free(record.ports(broker))
                self._spawn(record, broker)
        return self.broker(broker)

    # -- a look -----------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Return whether the data directory has a cluster, running or not."""
        return read_record(self.data) is not None

    @property
    def was_brought_down(self) -> bool:
        """Return whether `down` was the last to say what becomes of it, and not `up`."""
        return (self.data / STOPPED).exists()

    @property
    def record(self) -> ClusterRecord:
        """Return what was asked of `up`."""
        return self._record()

    def info(self) -> ClusterInfo:
        """The cluster as it is now."""
        record = self._record()
        brokers = [broker_info(self.data, record, broker, self.pid(broker)) for broker in record.ids]
        ca = None if authority_of(record.config) is None else str(self.data / CA)
        return ClusterInfo(record.bootstrap, record.cluster_id, brokers, client_protocol(record.config), ca)

    @property
    def metrics_access(self) -> MetricsAccess:
        """How the metrics of its brokers are read."""
        return own_access(self._record().config)

    @property
    def bootstrap(self) -> str:
        """All listeners, for a client's ``bootstrap.servers``."""
        return self._record().bootstrap

    def broker(self, broker: int) -> BrokerInfo:
        """One broker as it is now."""
        return broker_info(self.data, self._record(broker), broker, self.pid(broker))

    def pid(self, broker: int) -> int | None:
        """The broker's process; None while it does not run."""
        with pids.held(self.data, broker) as handle:
            return handle.identity.pid if handle else None

    def running(self) -> list[int]:
        """The brokers that run, also those whose process nobody has written down: who started them may have been killed."""
        return [broker for broker in self._record().ids if pids.find(self.data, broker) is not None]

    def state(self, broker: int) -> str:
        """``up``, ``not ready`` (its process runs: it starts, stops, or is fenced), ``paused`` or ``down``."""
        with pids.held(self.data, broker) as handle:
            if handle is None:
                return "down"
            if process.state(handle.identity.pid) in process.STOPPED:
                return "paused"
        record = self._record()
        return "up" if is_ready(record.metrics_port(broker), own_access(record.config)) else "not ready"

    def wait_ready(self, timeout: float = READY_TIMEOUT, brokers: Iterable[int] | None = None) -> None:
        """Wait until these brokers (all of them when not named) answer /readyz with 200.

        Raises:
            BrokerFailed: one ended meanwhile, or was not ready after ``timeout`` seconds.
        """
        record = self._record()
        access = own_access(record.config)
        pending = list(record.ids if brokers is None else brokers)
        started = time.monotonic()
        deadline = started + timeout
        while pending:
            pending = [broker for broker in pending if not is_ready(record.metrics_port(broker), access)]
            for broker in pending:
                identity = pids.recorded(self.data, broker)
                if self.pid(broker) is None:
                    status = process.reap(identity.pid, timeout=1.0) if identity else None
                    raise BrokerFailed(
                        f"broker {broker} {status or 'does not run: its log ends'}{self._last_words(broker)}"
                    )
            for broker in pending if time.monotonic() > started + _PAUSE_TIMEOUT else ():
                if (pid := self.pid(broker)) is not None and process.state(pid) in process.STOPPED:
                    raise BrokerFailed(f"broker {broker} is paused (kill -CONT {pid} resumes it)")
            if pending and time.monotonic() > deadline:
                words = self._last_words(pending[0])
                raise BrokerFailed(f"broker {pending[0]} was not ready after {timeout:g} s{words}")
            if pending:
                waited = time.monotonic() - started
                time.sleep(min(max(_POLL_SECONDS, waited * _POLL_SHARE), _POLL_SECONDS_MAX))

    # -- faults -----------------------------------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """SIGKILL: a process crash. Returns when it is gone. What was written, flushed or not, stays."""
        self._end(broker, signal.SIGKILL, _KILL_TIMEOUT)

    def terminate(self, broker: int, timeout: float = DOWN_TIMEOUT) -> None:
        """SIGTERM: a clean shutdown. Returns when it is gone; :class:`ClusterError` after ``timeout`` seconds."""
        self._end(broker, signal.SIGTERM, timeout)

    def pause(self, broker: int) -> None:
        """SIGSTOP: the process hangs, its connections stay open. Returns when it has stopped."""
        with self._living(broker) as handle:
            handle.signal(signal.SIGSTOP)
            deadline = time.monotonic() + _PAUSE_TIMEOUT
            while not process.has_stopped(handle.identity.pid):
                if time.monotonic() > deadline or handle.wait(0):
                    raise ClusterError(f"broker {broker} (process {handle.identity.pid}) does not stop on SIGSTOP")
                time.sleep(_POLL_SECONDS)

    def resume(self, broker: int) -> None:
        """SIGCONT: the end of :meth:`pause`."""
        with self._living(broker) as handle:
            handle.signal(signal.SIGCONT)

    def wipe_unflushed(self, broker: int) -> None:
        """Lose what was not flushed, as a power loss does. Needs the broker down, and an unflushed directory."""
        info = self._dead(broker)
        if info.unflushed_dir is None:
            raise ClusterError(
                f"broker {broker} has no unflushed directory, so what is unflushed cannot be lost on purpose"
            )
        _empty(Path(info.unflushed_dir))

    def wipe_volume(self, broker: int) -> None:
        """Lose the disk: data and what was unflushed. The event log (flight recorder) stays. Needs the broker down."""
        info = self._dead(broker)
        for folder in (info.data_dir, info.unflushed_dir):
            if folder is not None:
                _empty(Path(folder))

    # -- inside -----------------------------------------------------------------------------------------------------

    def _agreed(self, asked: Mapping[str, Any], config: Mapping[str, str]) -> ClusterRecord:
        """The record to go on with: a new one, or the one on disk when what is asked (fields of it) agrees with it."""
        old = read_record(self.data)
        wanted = {name: value for name, value in asked.items() if value is not None}
        if old is None:
            for name in ("metadata.sqlite", "broker-0", "broker-1"):
                if (self.data / name).exists():
                    raise BadRequest(f"{self.data} holds {name} but no cluster.json: not a cluster's data directory")
            new = ClusterRecord(
                **{"cluster_id": new_cluster_id(), "brokers": 3, "base_port": 19092, **wanted, "config": dict(config)}
            )
        else:
            for name, value in wanted.items():
                recorded = old.base_ports.get(name, getattr(old, name))
                if value != recorded:
                    words = FIELD_WORDS.get(name, name)
                    raise BadRequest(f"{words}: {self.data} was made with {_shown(recorded)}, not {_shown(value)}")
            new = replace(old, config=old.config | dict(config))
            check(new)
            if new.config != old.config:
                for broker in old.ids:
                    if pids.find(self.data, broker) is not None:
                        raise BadRequest(
                            "config: brokers are running with another configuration; bring them down first"
                        )
        check(new)
        self._check_config(new)
        return new

    def _check_config(self, record: ClusterRecord) -> None:
        from minikafka.config import BrokerConfig, ConfigError

        try:
            BrokerConfig.from_properties(properties(self.data, record, record.first_id))
        except ConfigError as error:
            raise BadRequest(f"config: {error}") from error

    def _record(self, broker: int | None = None) -> ClusterRecord:
        record = read_record(self.data)
        if record is None:
            raise BadRequest(f"{self.data} has no cluster: start one with `minikafka up --data {self.data}`")
        if broker is not None and broker not in record.ids:
            there = f"{record.ids[0]} to {record.ids[-1]}"
            raise BadRequest(f"broker {broker} does not exist: this cluster has brokers {there}")
        return record

    def _spawn(self, record: ClusterRecord, broker: int) -> None:
        info = broker_info(self.data, record, broker, None)
        for folder in (info.data_dir, info.unflushed_dir):
            if folder is not None:
                Path(folder).mkdir(parents=True, exist_ok=True)
        if record.faults:
            faults_path(self.data, broker).touch()
        path = write_properties(self.data, record, broker)
        pids.remember(
            self.data, broker, process.spawn([*self._command, str(path)], Path(info.log_path), self._lifeline)
        )

    @contextlib.contextmanager
    def _living(self, broker: int) -> Iterator[ProcessHandle]:
        self._record(broker)
        with pids.held(self.data, broker) as handle:
            if handle is None:
                raise ClusterError(f"broker {broker} does not run")
            yield handle

    def _end(self, broker: int, number: signal.Signals, timeout: float) -> None:
        with self._living(broker) as handle:
            handle.signal(number)
            handle.signal(signal.SIGCONT)  # a paused process takes no SIGTERM
            if not handle.wait(timeout):
                raise ClusterError(
                    f"broker {broker} (process {handle.identity.pid}) still runs {timeout:g} s after {number.name}"
                )
            process.reap(handle.identity.pid)
        pids.forget(self.data, broker)

    def _stop(self, brokers: Iterable[int], timeout: float) -> list[int]:
        """SIGTERM to all at once, then SIGKILL to those that are left; the ids of those."""
        killed = []
        with contextlib.ExitStack() as stack:
            handles = {}
            for broker in brokers:
                if pids.find(self.data, broker) and (handle := stack.enter_context(pids.held(self.data, broker))):
                    handles[broker] = handle
                    handle.signal(signal.SIGTERM)
                    handle.signal(signal.SIGCONT)
            deadline = time.monotonic() + timeout
            for broker, handle in handles.items():
                if not handle.wait(deadline - time.monotonic()):
                    handle.signal(signal.SIGKILL)
                    handle.wait(_KILL_TIMEOUT)
                    killed.append(broker)
                process.reap(handle.identity.pid)
                pids.forget(self.data, broker)
        return killed

    def _dead(self, broker: int) -> BrokerInfo:
        info = self.broker(broker)
        if info.pid is not None:
            raise ClusterError(
                f"broker {broker} runs (process {info.pid}); its files can be wiped only while it is down"
            )
        return info

    def _last_words(self, broker: int) -> str:
        path = Path(broker_info(self.data, self._record(), broker, None).log_path)
        try:
            with path.open("rb") as log:
                log.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
                lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return f": {lines[-1].strip()} (see {path})" if lines else f" (see {path})"

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """One program at a time starts and stops brokers of this data directory."""
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            lock = (self.data / ".lock").open("w")
        except (FileExistsError, NotADirectoryError):
            raise BadRequest(f"{self.data} is not a directory") from None
        except PermissionError as error:
            raise BadRequest(f"{self.data} cannot be written: {error.strerror}") from None
        with lock:
            if not lock_within(lock, _LOCK_TIMEOUT):
                raise ClusterError(f"another minikafka is starting or stopping brokers in {self.data}")
            yield


def is_ready(metrics_port: int, access: MetricsAccess = OPEN) -> bool:
    """Return whether a broker on this machine answers /readyz with 200."""
    try:
        return access.ask(access.url(HOST, metrics_port, "/readyz"), 1.0)[0] == HTTPStatus.OK
    except OSError:
        return False


def _shown(value: object) -> str:
    if value is None or value == [] or isinstance(value, bool):
        return "one" if value else "none"
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir() if folder.exists() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
