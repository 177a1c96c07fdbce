"""The two clusters that are measured side by side, behind one small surface."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Protocol

from minikafka.local.cluster import BROKER_COMMAND, LocalCluster
from minikafka.local.ports import free_base_port

from bench.apache_kafka import NODES, ApacheKafka
from bench.readiness import wait_for_metadata

MINIKAFKA_SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",  # see bench/topics.py
}
ONE_LOG_DIR = ("data",)


class Contender(Protocol):
    """Three brokers on loopback that can be started, killed and looked at."""

    @property
    def name(self) -> str:
        """As the tables show it."""

    @property
    def bootstrap(self) -> str:
        """All listeners with commas between."""

    @property
    def data(self) -> Path:
        """The folder with the data of all brokers; a partition's is two levels down."""

    def prepare(self) -> None:
        """What is done once before a first start, and is not measured."""

    def up(self) -> float:
        """Start what does not run; seconds from exec until every broker lists all of them."""

    def down(self) -> None:
        """Stop cleanly; data stay."""

    def destroy(self) -> None:
        """Stop, and remove the data."""

    def pids(self) -> list[int]:
        """The brokers' processes that run now."""

    def kill(self, node: int, /) -> None:
        """SIGKILL to one broker."""

    def start(self, node: int, /) -> None:
        """Start one broker again; returns at once."""


class MiniKafka:
    """MiniKafka as ``minikafka up`` starts it, on one volume (``minikafka.unflushed.dir`` off), as in production."""

    name = "MiniKafka"

    def __init__(
        self, data: Path, settings: Mapping[str, str] | None = None, log_dirs: Sequence[str] = ONE_LOG_DIR
    ) -> None:
        self.cluster = LocalCluster(data, _broker_command(log_dirs))
        self.settings = MINIKAFKA_SETTINGS | dict(settings or {})
        self.base_port = free_base_port(NODES)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.base_port + node}" for node in range(NODES))

    @property
    def data(self) -> Path:
        return self.cluster.data

    def prepare(self) -> None:
        """Nothing to do: there is no format step."""

    def up(self) -> float:
        started = time.monotonic()
        failure: list[BaseException] = []
        starter = Thread(target=self._up, args=(failure,))
        starter.start()
        try:
            wait_for_metadata(self.bootstrap, NODES, timeout_s=30.0)
        except TimeoutError:
            starter.join()
            raise failure[0] if failure else RuntimeError("ready, it says, but Metadata does not list all") from None
        seconds = time.monotonic() - started
        starter.join()
        if failure:
            raise failure[0]
        return seconds

    def _up(self, failure: list[BaseException]) -> None:
        try:
            self.cluster.up(brokers=NODES, base_port=self.base_port, config=self.settings, unflushed=False)
        except BaseException as error:
            failure.append(error)

    def down(self) -> None:
        self.cluster.down()

    def destroy(self) -> None:
        if self.cluster.exists:
            self.cluster.down()
        shutil.rmtree(self.cluster.data, ignore_errors=True)

    def pids(self) -> list[int]:
        return [broker.pid for broker in self.cluster.info().brokers if broker.pid is not None]

    def kill(self, node: int) -> None:
        self.cluster.kill(node)

    def start(self, node: int) -> None:
        self.cluster.start(node)


def _broker_command(log_dirs: Sequence[str]) -> Sequence[str]:
    """Return what starts a broker with these directories beside its properties, of which `minikafka up` gives it one only."""
    if log_dirs == ONE_LOG_DIR:
        return BROKER_COMMAND
    places = ",".join(f"${{file%/*}}/{name}" for name in log_dirs)
    script = f'for file; do :; done; exec "$@" --override "log.dirs={places}"'
    return "/bin/sh", "-c", script, "sh", *BROKER_COMMAND


NAMES = ("minikafka", "kafka")


@contextmanager
def data_folder() -> Iterator[Path]:
    """A temporary directory; SIGTERM ends the block like Ctrl-C, so that no broker is left behind."""
    previous = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as folder:
            yield Path(folder)
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def temporary(
    name: str, settings: Mapping[str, str] | None = None, log_dirs: Sequence[str] = ONE_LOG_DIR
) -> Iterator[Contender]:
    """A contender that is prepared and not started; its brokers and data are gone after the block."""
    with data_folder() as folder:
        subject = contender(name, folder, settings, log_dirs)
        try:
            subject.prepare()
            yield subject
        finally:
            subject.destroy()


def contender(
    name: str, data: Path, settings: Mapping[str, str] | None = None, log_dirs: Sequence[str] = ONE_LOG_DIR
) -> Contender:
    """``minikafka`` or ``kafka`` with its data under ``data``, ports that are free now, and more than its usual settings.

    ``log_dirs``: the names of each broker's ``log.dirs`` in its own folder.
    """
    if name == "minikafka":
        return MiniKafka(data / "minikafka", settings, log_dirs)
    return ApacheKafka(data / "apache-kafka", free_base_port(NODES), settings, log_dirs)
