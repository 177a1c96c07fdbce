"""Whether quotas hold, and what they cost where there are none: one broker as a process, one quota after the other.

python -m bench.quotas [--seconds 40] [--connections 1] [--only QUOTA]

Each quota is set as Kafka's tool sets it, a client uses as much as it can, and what the broker has counted is held against the
quota. What a client may save up (ten seconds of a rate, eleven of changes) is used up before the measurement begins. On a busy
machine clients use less than they may, and the time for which a request is kept from the processor counts as its own.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
import timeit
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from confluent_kafka import Producer
from minikafka.client.connection import BrokerConnection, NoAnswer
from minikafka.config import BrokerConfig
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST, free_base_port
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.quotas import ClientIdentity, ClientQuotas
from minikafka.telemetry.stats import BrokerStats

from tests.interop.raw_client import record_batch

CLIENT_ID = "bench"
TOLERANCE = 0.05
WARM_SECONDS = 15.0
"""Longer than the window, of which the first part is free."""

PERIOD_SECONDS = 11.5
"""What comes at once counts for the whole window, and then may come at once again: rates are bursts with pauses."""

REFUSED_SECONDS_MAX = 60.0

Load = Callable[[threading.Event], None]


class Quotas:
    """One broker whose clients have quotas, each used over so many connections."""

    def __init__(self, cluster: LocalCluster, seconds: float, connections: int) -> None:
        self.cluster = cluster
        self.seconds = seconds
        self.connections = connections
        host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
        self.address = (host, int(port))

    def client(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap, "client.id": CLIENT_ID, "log_level": 0, **more}

    def ask(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        deadline = time.monotonic() + REFUSED_SECONDS_MAX
        while True:
            try:
                with BrokerConnection(*self.address, 60) as connection:
                    return connection.request(key, version, values)
            except NoAnswer:  # this address may have made as many connections as it may
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    @contextmanager
    def limited(self, key: str, value: float, **entity: str) -> Iterator[None]:
        """With a quota, by which nobody is limited before and after."""
        for remove in (False, True):
            parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
            entry = {"entity": parts, "ops": [{"key": key, "value": value, "remove": remove}]}
            answer = self.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [entry], "validate_only": False})
            assert all(each.error_code == ErrorCode.NONE for each in answer.entries), answer
            if not remove:
                yield

    def counted(self, metric: str) -> float:
        """What the broker has counted until now."""
        page = urllib.request.urlopen(f"http://{HOST}:{self.cluster.broker(1).metrics_port}/metrics", timeout=60)
        found = re.search(rf"^{re.escape(metric)} (\S+)$", page.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def measure(self, metric: str, load: Load) -> float:
        """What is counted a second under a load that never rests."""
        stop = threading.Event()
        threads = [threading.Thread(target=load, args=(stop,), daemon=True) for _ in range(self.connections)]
        for thread in threads:
            thread.start()
        time.sleep(WARM_SECONDS)
        counts = []
        began = time.monotonic()
        while (now := time.monotonic() - began) < self.seconds + PERIOD_SECONDS:
            counts.append((now, self.counted(metric)))
            time.sleep(0.5)
        stop.set()
        for thread in threads:
            thread.join(60)
        return mean_rate(counts, self.seconds)

    # -- loads ------------------------------------------------------------------------------------------------------------

    def produce(self, stop: threading.Event) -> None:
        producer = Producer(self.client(**{"linger.ms": 5, "queue.buffering.max.kbytes": 4096}))
        record = os.urandom(10_000)
        while not stop.is_set():
            try:
                producer.produce("t", record)
            except BufferError:
                producer.poll(0.05)
        producer.purge()

    def make_topic(self) -> None:
        """With as much as a Fetch may get."""
        row = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row], "timeout": 5000, "validate_only": False})
        for _ in range(3):
            self.ask(ApiKey.PRODUCE, 9, self._batch(100_000))

    def _batch(self, size: int) -> dict[str, Any]:
        topic = {"name": "t", "partition_data": [{"index": 0, "records": record_batch([os.urandom(size)])}]}
        return {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": [topic]}

    def produce_raw(self, stop: threading.Event) -> None:
        request = self._batch(1_000)
        with BrokerConnection(*self.address, 60) as connection:
            while not stop.is_set():
                connection.request(ApiKey.PRODUCE, 9, request)

    def fetch_raw(self, stop: threading.Event) -> None:
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 200_000}
        request = {"replica_id": -1, "max_wait": 100, "min_bytes": 1, "max_bytes": 200_000, "session_epoch": -1,
                   "topics": [{"topic": "t", "partitions": [part]}], "rack_id": ""}  # fmt: skip
        with BrokerConnection(*self.address, 60) as connection:
            while not stop.is_set():
                connection.request(ApiKey.FETCH, 11, request)

    def create_topics(self, stop: threading.Event) -> None:
        names = (f"made-{threading.get_ident()}-{number}" for number in itertools.count())
        with BrokerConnection(*self.address, 60) as connection:
            while not stop.is_set():
                row = {"name": next(names), "num_partitions": 1, "replication_factor": 1}
                connection.request(ApiKey.CREATE_TOPICS, 7, {"topics": [row], "timeout": 5000, "validate_only": False})

    def connect(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with socket.create_connection(self.address) as connection:
                connection.settimeout(0.01)
                try:
                    connection.recv(1)
                except OSError:  # it was accepted, and nothing is said, or it was refused with a reset
                    pass


def mean_rate(counts: Sequence[tuple[float, float]], seconds: float) -> float:
    """What was counted a second, in the mean of so many seconds that begin at any time of a period."""
    rates = []
    for began, before in counts:
        ends = next(((at, count) for at, count in counts if at >= began + seconds), None)
        if began > PERIOD_SECONDS or ends is None:
            break
        rates.append((ends[1] - before) / (ends[0] - began))
    return statistics.fmean(rates)


class Case(NamedTuple):
    """A quota: for whom, how much it allows, what the broker counts, how much of that is one unit, and who uses it."""

    quota: str
    entity: Mapping[str, str]
    allowed: float
    metric: str
    unit: float
    load: Callable[[Quotas, threading.Event], None]


MINE, RAW = {"client-id": CLIENT_ID}, {"client-id": "minikafka-cli"}
BUSY, MADE, ACCEPTED = (
    "minikafka_request_handler_busy_seconds_total",
    "minikafka_partitions",
    "minikafka_connections_accepted_total",
)
CASES = (
    Case("producer_byte_rate", MINE, 2_000_000, 'minikafka_request_bytes_total{api="Produce"}', 1, Quotas.produce),
    Case("consumer_byte_rate", RAW, 2_000_000, "minikafka_bytes_out_total", 1, Quotas.fetch_raw),
    Case("request_percentage", RAW, 5, BUSY, 0.01, Quotas.produce_raw),
    Case("controller_mutation_rate", RAW, 5, MADE, 1, Quotas.create_topics),
    Case("connection_creation_rate", {"ip": HOST}, 20, ACCEPTED, 1, Quotas.connect),
)


def nanoseconds(work: Callable[[], object], count: int = 1_000_000) -> float:
    """Of one call, at best, without the call's own cost."""
    empty = min(timeit.repeat(lambda: None, number=count, repeat=5))
    return (min(timeit.repeat(work, number=count, repeat=5)) - empty) * 1e9 / count


def costs() -> Iterator[tuple[str, float]]:
    """Nanoseconds a request: where no quota is set, where one is and not for this client, and where it is."""
    image = ClusterImage("bench")
    broker = SimpleNamespace(metadata=SimpleNamespace(image=image))
    connection = SimpleNamespace(services=broker)
    yield "no quota is set", nanoseconds(lambda: connection.services.metadata.image.quotas.is_set)
    config = BrokerConfig.from_properties({"node.id": "1", "minikafka.metadata.store": "memory"})
    metadata: Any = broker.metadata
    quotas = ClientQuotas(config, metadata, BrokerStats(), lambda *_, **__: None, time.monotonic)
    who = ClientIdentity("User:alice", CLIENT_ID)
    image.apply("quota/user=bob", {"entity": {"user": "bob"}, "values": {"producer_byte_rate": 1e12}})

    def produce() -> None:
        quotas.produces(who, 100)
        quotas.produced(who, 1e-9)

    yield "only another client has one", nanoseconds(produce, 100_000)
    image.apply("quota/user=alice", {"entity": {"user": "alice"}, "values": {"producer_byte_rate": 1e12}})
    yield "the client has one", nanoseconds(produce, 100_000)


def main() -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="whether quotas hold, and what they cost")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--connections", type=int, default=1, help="over which each quota is used")
    parser.add_argument("--only", choices=[case.quota for case in CASES], help="one quota instead of all")
    args = parser.parse_args()
    chosen = [case for case in CASES if args.only in (None, case.quota)]
    for what, cost in costs():
        print(f"{what}: {cost:.0f} ns a request")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder) / "data")
        cluster.up(1, free_base_port(1), {"max.connections": "1000"})
        try:
            quotas = Quotas(cluster, args.seconds, args.connections)
            quotas.make_topic()
            for case in chosen:
                with quotas.limited(case.quota, case.allowed, **case.entity):
                    counted = quotas.measure(case.metric, partial(case.load, quotas)) / case.unit
                off = counted / case.allowed - 1
                print(f"{case.quota}: {counted:,.1f} of {case.allowed:,} ({off:+.1%})", flush=True)
                if abs(off) > TOLERANCE:
                    missed.append(case.quota)
        finally:
            cluster.down()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
