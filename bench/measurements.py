"""What `make bench` measures: each measurement by name, the load it puts on a cluster, and how a row is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bench.contenders import Contender
from bench.loads import Figures, consumer_performance, end_to_end_latency, producer_performance, raw_load
from bench.process_stats import cpu_seconds, machine_cpu_seconds, memory, wait_until_quiet
from bench.topics import fresh_topic

PACED_RECORDS_PER_SECOND = 2000
FETCH_PASSES = 9
PACED_WARMUP_SECONDS = 4
"""The client's own JIT; not counted."""


@dataclass(frozen=True)
class Row:
    """One measurement of one contender in one round."""

    contender: str
    test: str
    round: int
    figures: dict[str, float]
    wall_s: float
    gigabytes: float
    broker_cpu_s: float
    client_cpu_s: float
    other_cpu_s: float
    """What neither the brokers nor the client used: other work on the machine, and the other contender."""
    resident_mb: float
    peak_mb: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Size:
    """How much of everything: the short form and the full one differ in nothing else but their lists of tests."""

    produce_mb: int
    raw_mb: int
    paced_seconds: int
    quiet_limit_s: float


SHORT = Size(produce_mb=300, raw_mb=300, paced_seconds=6, quiet_limit_s=4.0)
FULL = Size(produce_mb=800, raw_mb=800, paced_seconds=15, quiet_limit_s=30.0)


class Bench:
    """Runs tests against one contender and keeps the rows."""

    def __init__(self, subject: Contender, size: Size, record: Callable[[Row], None]) -> None:
        self.subject = subject
        self.size = size
        self.round = 0
        self._record = record

    @contextmanager
    def topic(self, label: str, partitions: int = 3) -> Iterator[str]:
        with fresh_topic(self.subject, label, partitions) as name:
            yield name

    def measure(self, test: str, load: Callable[[], Figures]) -> Figures:
        """Run ``load`` and record what it cost the brokers."""
        pids = self.subject.pids()
        wait_until_quiet(pids, self.size.quiet_limit_s)
        cpu, machine, began = cpu_seconds(pids), machine_cpu_seconds(), time.monotonic()
        figures = load()
        wall = time.monotonic() - began
        used = cpu_seconds(pids) - cpu
        others = machine_cpu_seconds() - machine - used - figures.client_cpu_s
        held = memory(pids)
        self._record(
            Row(
                contender=self.subject.name,
                test=test,
                round=self.round,
                figures=figures.values,
                wall_s=round(wall, 2),
                gigabytes=round(figures.bytes / 1e9, 3),
                broker_cpu_s=round(used, 2),
                client_cpu_s=round(figures.client_cpu_s, 2),
                other_cpu_s=round(max(0.0, others), 2),
                resident_mb=held.resident,
                peak_mb=held.peak,
            )
        )
        return figures


def java_produce(
    bench: Bench,
    topic: str,
    batch_bytes: int,
    *,
    record_bytes: int = 1024,
    share: float = 1.0,
    compression: str = "none",
) -> Figures:
    records = int(bench.size.produce_mb * 1e6 * share / record_bytes)
    sizes = {"records": records, "record_bytes": record_bytes, "batch_bytes": batch_bytes}
    return producer_performance(bench.subject.bootstrap, topic, **sizes, compression=compression)


def raw_compressed(bench: Bench, topic: str, codec: str) -> Figures:
    """Batches of 128 KiB of words, some 70 KiB of lz4 or 45 of zstd; a MB is one of compressed bytes."""
    options = {"records": 128, "inflight": 5, "total_mb": bench.size.raw_mb / 2}
    return raw_load(bench.subject.bootstrap, topic, "produce", codec=codec, **options)


def raw_fetch(bench: Bench, topic: str) -> Figures:
    """The topic read several times: once takes the brokers some ten ticks of the clock by which the kernel counts CPU."""
    passes = [raw_load(bench.subject.bootstrap, topic, "fetch", fetch_bytes=1 << 20) for _ in range(FETCH_PASSES)]
    middle = sorted(passes, key=lambda each: each.values["mb_s"])[FETCH_PASSES // 2]
    return Figures(middle.values, sum(each.bytes for each in passes), sum(each.client_cpu_s for each in passes))


def produce_256k(bench: Bench) -> None:
    """Kafka's producer, 1 KiB records, 256 KiB batches; what it wrote is then fetched."""
    with bench.topic("p256k") as topic:
        bench.measure("produce_256k", lambda: java_produce(bench, topic, 262_144))
        bench.measure("raw_fetch_1m", lambda: raw_fetch(bench, topic))


def produce_64k(bench: Bench) -> None:
    with bench.topic("p64k") as topic:
        bench.measure("produce_64k", lambda: java_produce(bench, topic, 65_536))


def produce_1m(bench: Bench) -> None:
    with bench.topic("p1m") as topic:
        bench.measure("produce_1m", lambda: java_produce(bench, topic, 1_048_576))


def produce_100b(bench: Bench) -> None:
    """Small records: whoever touches each record in the broker pays for it here."""
    with bench.topic("p100b") as topic:
        bench.measure("produce_100b", lambda: java_produce(bench, topic, 262_144, record_bytes=100, share=0.25))


def raw_64k(bench: Bench) -> None:
    with bench.topic("raw64k") as topic:
        options = {"records": 61, "inflight": 5, "total_mb": bench.size.raw_mb}
        bench.measure("raw_produce_64k", lambda: raw_load(bench.subject.bootstrap, topic, "produce", **options))


def _java_compressed(bench: Bench, codec: str) -> None:
    with bench.topic(codec) as topic:
        load = partial(java_produce, bench, topic, 65_536, share=0.5, compression=codec)
        bench.measure(f"produce_{codec}", load)


def _raw_compressed(bench: Bench, codec: str) -> None:
    with bench.topic(f"raw{codec}") as topic:
        bench.measure(f"raw_produce_{codec}", partial(raw_compressed, bench, topic, codec))


def produce_lz4(bench: Bench) -> None:
    """Kafka's producer with lz4: random capital letters; a MB is one before compression."""
    _java_compressed(bench, "lz4")


def produce_zstd(bench: Bench) -> None:
    _java_compressed(bench, "zstd")


def raw_lz4(bench: Bench) -> None:
    _raw_compressed(bench, "lz4")


def raw_zstd(bench: Bench) -> None:
    _raw_compressed(bench, "zstd")


def raw_1m(bench: Bench) -> None:
    with bench.topic("raw1m") as topic:
        options = {"records": 990, "inflight": 5, "total_mb": bench.size.raw_mb}
        bench.measure("raw_produce_1m", lambda: raw_load(bench.subject.bootstrap, topic, "produce", **options))


def raw_small(bench: Bench) -> None:
    with bench.topic("rawsmall") as topic:
        options = {"records": 1, "inflight": 5, "total_mb": 20}
        bench.measure("raw_small", lambda: raw_load(bench.subject.bootstrap, topic, "produce", **options))


def paced_java(bench: Bench) -> None:
    """Kafka's producer at a fixed 2,000 records a second with linger 0."""
    rate = PACED_RECORDS_PER_SECOND
    with bench.topic("paced") as topic:
        bench.measure(
            "paced_2000_java",
            lambda: producer_performance(
                bench.subject.bootstrap,
                topic,
                records=rate * (bench.size.paced_seconds + PACED_WARMUP_SECONDS),
                batch_bytes=16_384,
                records_per_second=rate,
                linger_ms=0,
                warmup_records=rate * PACED_WARMUP_SECONDS,
            ),
        )


def _paced_raw(bench: Bench, rate: int) -> None:
    with bench.topic("pacedraw") as topic:
        options = {"rate": rate, "seconds": bench.size.paced_seconds, "skip": 1}
        bench.measure(f"paced_{rate}_raw", lambda: raw_load(bench.subject.bootstrap, topic, "paced", **options))


def paced_raw_2000(bench: Bench) -> None:
    """2,000 requests a second of one 1 KiB record each, open loop."""
    _paced_raw(bench, PACED_RECORDS_PER_SECOND)


def paced_raw_500(bench: Bench) -> None:
    _paced_raw(bench, 500)


def sync(bench: Bench) -> None:
    with bench.topic("sync") as topic:
        bench.measure("sync", lambda: raw_load(bench.subject.bootstrap, topic, "sync", seconds=5))


def consume_java(bench: Bench) -> None:
    """Kafka's consumer reads what its producer wrote, 1 KiB records."""
    with bench.topic("consume") as topic:
        written = java_produce(bench, topic, 262_144)
        records = int(written.bytes / 1024)
        bench.measure("consume_java", lambda: consumer_performance(bench.subject.bootstrap, topic, records))


def end_to_end(bench: Bench) -> None:
    with bench.topic("e2e", partitions=1) as topic:
        bench.measure("end_to_end_java", lambda: end_to_end_latency(bench.subject.bootstrap, topic))


COMPRESSED_TESTS = (produce_lz4, produce_zstd, raw_lz4, raw_zstd)
SHORT_TESTS = (produce_256k, produce_64k, raw_64k, *COMPRESSED_TESTS, paced_java, paced_raw_2000)
FULL_TESTS = (
    *SHORT_TESTS,
    *(produce_1m, produce_100b, raw_1m, raw_small, paced_raw_500, sync, consume_java, end_to_end),
)
