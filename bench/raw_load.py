"""A load generator that costs almost nothing: batches encoded once, plain sockets, real Produce v9 and Fetch v12.

On two cores a JVM client competes with the broker (6.5 to 9 CPU seconds a GB); this one needs 0.25 to 1, so that what
it measures is the broker. One thread and one connection a partition. Run as a process of its own:

    python -m bench.raw_load produce --bootstrap A,B,C --topic T     batches of --records x --size, --inflight at once
    python -m bench.raw_load fetch   ...                             every partition from 0 to its end
    python -m bench.raw_load paced   ...  --rate 2000 --seconds 10   open loop: latency counts from the scheduled time
    python -m bench.raw_load sync    ...  --seconds 5                one request in flight a partition

Prints one JSON object: MB/s (10^6 bytes), requests/s, latencies in ms, its own CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.interop.raw_client import (
    RawConnection,
    compressed_batch,
    fetch_request,
    list_offset,
    metadata,
    next_offset,
    produce_request,
    random_batch,
    read_fetch_answer,
    read_produce_answer,
)

SOCKET_TIMEOUT_S = 60.0
FETCH_BUFFER_BYTES = 64 << 20


@dataclass
class Load:
    """What to do, the same for every partition."""

    topic: str
    acks: int
    records: int
    size: int
    codec: str
    inflight: int
    bytes_per_partition: float
    fetch_bytes: int
    rate_per_partition: float
    seconds: float
    skip_seconds: float


@dataclass
class Outcome:
    """What one partition's thread has done."""

    latencies_s: list[float] = field(default_factory=list)
    bytes: int = 0
    requests: int = 0
    records: int = 0
    errors: int = 0


def produce(load: Load, partition: int, address: str, outcome: Outcome) -> None:
    """As fast as it goes, with ``inflight`` requests on the way."""
    batch = (
        compressed_batch(load.records, load.size, load.codec) if load.codec else random_batch(load.records, load.size)
    )
    data = produce_request(load.topic, partition, batch, acks=load.acks)
    total = max(1, int(load.bytes_per_partition / len(batch)))
    sent_at: list[float] = []
    with RawConnection(address, SOCKET_TIMEOUT_S) as connection:
        for answered in range(total):
            while len(sent_at) < min(total, answered + load.inflight):
                sent_at.append(time.perf_counter())
                connection.send(data)
            outcome.errors += read_produce_answer(connection.receive()).error_code != 0
            outcome.latencies_s.append(time.perf_counter() - sent_at[answered])
    outcome.requests, outcome.records, outcome.bytes = total, total * load.records, total * len(batch)


def fetch(load: Load, partition: int, address: str, outcome: Outcome) -> None:
    """From offset 0 to the end; looks at batch headers only."""
    buffer = bytearray(FETCH_BUFFER_BYTES)
    view = memoryview(buffer)
    with RawConnection(address, SOCKET_TIMEOUT_S) as connection:
        offset, end = 0, list_offset(connection, load.topic, partition)
        while offset < end and outcome.bytes < load.bytes_per_partition:
            connection.send(fetch_request(load.topic, partition, offset, max_bytes=load.fetch_bytes))
            size = int.from_bytes(connection.receive_exactly(4), "big")
            got = 0
            while got < size:
                count = connection.socket.recv_into(view[got:size])
                if not count:
                    raise ConnectionError("the broker closed the connection")
                got += count
            answer = read_fetch_answer(buffer)
            if answer.error_code:
                outcome.errors += 1
                break
            offset = next_offset(buffer, answer.start, answer.size, offset)
            outcome.bytes += answer.size
            outcome.requests += 1


def paced(load: Load, partition: int, address: str, outcome: Outcome) -> None:
    """Requests at fixed times, whether or not the answers keep up (no coordinated omission)."""
    data = produce_request(load.topic, partition, random_batch(load.records, load.size), acks=load.acks)
    total = int(load.seconds * load.rate_per_partition)
    begin = time.perf_counter() + 0.05
    due = [begin + number / load.rate_per_partition for number in range(total)]
    sent = answered = 0
    with RawConnection(address, SOCKET_TIMEOUT_S) as connection:
        while answered < total:
            now = time.perf_counter()
            while sent < total and due[sent] <= now:
                connection.send(data)
                sent += 1
            wait = max(0.0, due[sent] - time.perf_counter()) if sent < total else SOCKET_TIMEOUT_S
            if answered == sent:
                time.sleep(wait)
            elif select.select([connection.socket], [], [], wait)[0]:
                outcome.errors += read_produce_answer(connection.receive()).error_code != 0
                outcome.latencies_s.append(time.perf_counter() - due[answered])
                answered += 1
    del outcome.latencies_s[: int(load.rate_per_partition * load.skip_seconds)]
    outcome.requests, outcome.records = total, total * load.records
    outcome.bytes = outcome.records * load.size


def sync(load: Load, partition: int, address: str, outcome: Outcome) -> None:
    """The next request when the last is answered."""
    data = produce_request(load.topic, partition, random_batch(load.records, load.size), acks=load.acks)
    end = time.perf_counter() + load.seconds
    with RawConnection(address, SOCKET_TIMEOUT_S) as connection:
        while (now := time.perf_counter()) < end:
            outcome.errors += read_produce_answer(connection.call(data)).error_code != 0
            outcome.latencies_s.append(time.perf_counter() - now)
    outcome.requests = len(outcome.latencies_s)
    outcome.records = outcome.requests * load.records
    outcome.bytes = outcome.records * load.size


MODES: dict[str, Callable[[Load, int, str, Outcome], None]] = {
    "produce": produce,
    "fetch": fetch,
    "paced": paced,
    "sync": sync,
}


def run(mode: str, load: Load, leaders: dict[int, str]) -> dict[str, float | int | str]:
    """One thread a partition; the figures of all of them together."""
    outcomes = [Outcome() for _ in leaders]
    threads = [
        threading.Thread(target=MODES[mode], args=(load, partition, address, outcome))
        for (partition, address), outcome in zip(leaders.items(), outcomes, strict=True)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if not all(outcome.requests for outcome in outcomes):
        sys.exit("a partition got nothing through")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    moved = sum(outcome.bytes for outcome in outcomes)
    figures: dict[str, float | int | str] = {
        "mode": mode,
        "seconds": round(seconds, 3),
        "mb_s": round(moved / 1e6 / seconds, 1),
        "req_s": round(sum(outcome.requests for outcome in outcomes) / seconds, 1),
        "bytes": moved,
        "errors": sum(outcome.errors for outcome in outcomes),
        "client_cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
    }
    latencies = sorted(latency for outcome in outcomes for latency in outcome.latencies_s)
    if latencies:
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)):
            figures[name] = round(latencies[min(len(latencies) - 1, int(len(latencies) * share))] * 1e3, 3)
        figures["max_ms"] = round(latencies[-1] * 1e3, 2)
    return figures


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="low-CPU load on a Kafka-compatible cluster")
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--acks", type=int, default=-1, choices=[-1, 0, 1])
    parser.add_argument("--records", type=int, default=1, help="records a batch")
    parser.add_argument("--size", type=int, default=1024, help="bytes a record")
    parser.add_argument(
        "--codec", default="", choices=["lz4", "zstd"], help="of `produce`: compress the batch; default none"
    )
    parser.add_argument("--inflight", type=int, default=5)
    parser.add_argument("--total-mb", type=float, default=500.0)
    parser.add_argument("--fetch-bytes", type=int, default=1 << 20)
    parser.add_argument("--rate", type=float, default=2000.0, help="requests a second, all partitions together")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--skip", type=float, default=1.0, help="seconds at the start of `paced` that are not counted")
    args = parser.parse_args()
    with RawConnection(args.bootstrap) as connection:
        cluster = metadata(connection, [args.topic])
    leaders = {partition: cluster.leader_address(args.topic, partition) for partition in cluster.topics[args.topic]}
    load = Load(
        topic=args.topic,
        acks=args.acks,
        records=args.records,
        size=args.size,
        codec=args.codec,
        inflight=args.inflight,
        bytes_per_partition=args.total_mb * 1e6 / len(leaders),
        fetch_bytes=args.fetch_bytes,
        rate_per_partition=args.rate / len(leaders),
        seconds=args.seconds,
        skip_seconds=args.skip,
    )
    print(json.dumps(run(args.mode, load, leaders)))


if __name__ == "__main__":
    main()
