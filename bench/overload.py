"""What three brokers do under twice the load that they can take: memory, latency, what is lost, how soon they are back.

python -m bench.overload [--seconds 600] [--times 2]

Three brokers as processes, one topic (replication factor 3, ``min.insync.replicas=2``), ``acks=all``, batches of 16 records of
1 KiB, on 96 connections with five requests on the way at most, as Kafka's producer has
(``max.in.flight.requests.per.connection``). First what they can take is measured: all connections are always full. Then
``--times`` as many requests a second as that are due, whether or not the answers keep up; what is due while a connection is full
is turned away by the client, as a producer does whose buffer is full. Beside them one reader for each partition reads everything,
and other connections ask for a megabyte again and again and read nothing. At last the load is what they can take.

Each batch carries a number. What was acknowledged at an offset must be read there, and nothing else. Exit code 1 where something
acknowledged was lost, or a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import crc32c
from confluent_kafka.admin import AdminClient, NewTopic
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import free_base_port

from bench.process_stats import memory
from tests.interop.raw_client import (
    BATCH_HEADER_BYTES,
    RawConnection,
    fetch_request,
    metadata,
    produce_request,
    read_fetch_answer,
    read_produce_answer,
    record_batch,
)

TOPIC: Final = "overloaded"
PARTITIONS: Final = 6
IN_FLIGHT_MAX: Final = 5
CONNECTIONS: Final = 16
"""For each partition."""
SLOW_READERS: Final = 6
QUEUED_BYTES_MAX: Final = 64 << 20
MARK: Final = b"number: "
RECORDS, RECORD_BYTES = 16, 1024
TICK_SECONDS: Final = 0.005
CAPACITY_SECONDS: Final = 30.0
AFTER_SECONDS: Final = 30.0
FULL_SPEED: Final = 0.9
"""Of what they took before: from then on they are back."""
BACK_SECONDS_MAX: Final = 10
CONFIG: Final = {
    "min.insync.replicas": "2",
    "socket.request.max.bytes": str(8 << 20),
    "queued.max.request.bytes": str(QUEUED_BYTES_MAX),
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(256 << 20),
    "log.retention.check.interval.ms": "2000",
}


class Template:
    """A Produce request to one partition, into which the number of its batch is put."""

    def __init__(self, partition: int) -> None:
        batch = record_batch([MARK + bytes(8) + b"x" * (RECORD_BYTES - len(MARK) - 8)] * RECORDS)
        self._request = bytearray(produce_request(TOPIC, partition, batch))
        self._batch = self._request.index(batch)
        self._number = self._request.index(MARK) + len(MARK)
        self._checked = slice(self._batch + 21, self._batch + len(batch))

    def numbered(self, number: int) -> bytes:
        """Return the request with this number in its first record."""
        struct.pack_into(">q", self._request, self._number, number)
        struct.pack_into(">I", self._request, self._batch + 17, crc32c.crc32c(self._request[self._checked]))
        return bytes(self._request)


@dataclass
class Ledger:
    """What of one partition was acknowledged and not read yet, and the other way round, by offset."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    wrong: int = 0
    """Batches that were read where another was acknowledged."""

    def acknowledge(self, offset: int, number: int) -> None:
        self._meet(self.read, self.acknowledged, offset, number)

    def see(self, offset: int, number: int) -> None:
        self._meet(self.acknowledged, self.read, offset, number)

    def _meet(self, other: dict[int, int], mine: dict[int, int], offset: int, number: int) -> None:
        found = other.pop(offset, None)
        if found is None:
            mine[offset] = number
        else:
            self.wrong += found != number


@dataclass
class Run:
    """What all connections share: the figures of one phase."""

    ledgers: Sequence[Ledger]
    latencies: list[tuple[float, float]] = field(default_factory=list)
    """When the answer came, and how long after the request was sent; seconds."""
    errors: dict[int, int] = field(default_factory=dict)
    turned_away: int = 0
    next_number: int = 0

    def per_second(self) -> list[int]:
        """Count the answers of each whole second."""
        counts: dict[int, int] = {}
        for at, _ in self.latencies:
            counts[int(at)] = counts.get(int(at), 0) + 1
        first, last = int(self.latencies[0][0]), int(self.latencies[-1][0])
        return [counts.get(second, 0) for second in range(first, last)]


class Producing(asyncio.Protocol):
    """One connection of a producer."""

    def __init__(self, run: Run, partition: int, template: Template, refill: bool) -> None:
        self._run = run
        self._partition = partition
        self._template = template
        self._refill = refill
        self._sent: deque[tuple[float, int]] = deque()
        self._input = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self) -> bool:
        """Send a request, unless as many are on the way as may be."""
        if self._transport is None or len(self._sent) >= IN_FLIGHT_MAX:
            return False
        number = self._run.next_number
        self._run.next_number += 1
        self._sent.append((time.monotonic(), number))
        self._transport.write(self._template.numbered(number))
        return True

    def data_received(self, data: bytes) -> None:
        self._input += data
        while len(self._input) >= 4 and len(self._input) >= (size := 4 + int.from_bytes(self._input[:4], "big")):
            self._answered(bytes(self._input[4:size]))
            del self._input[:size]

    def _answered(self, response: bytes) -> None:
        answer = read_produce_answer(response)
        (sent, number), now = self._sent.popleft(), time.monotonic()
        if answer.error_code:
            self._run.errors[answer.error_code] = self._run.errors.get(answer.error_code, 0) + 1
        else:
            self._run.latencies.append((now, now - sent))
            self._run.ledgers[self._partition].acknowledge(answer.base_offset, number)
        if self._refill:
            self.send()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None

    async def close(self) -> None:
        """Wait for the answers that are due, then close."""
        self._refill = False
        deadline = time.monotonic() + 60
        while self._sent and self._transport is not None and time.monotonic() < deadline:  # noqa: ASYNC110 - answers come in a callback
            await asyncio.sleep(0.01)
        if self._sent:
            raise SystemExit(f"{len(self._sent)} requests to partition {self._partition} were never answered")
        if self._transport is not None:
            self._transport.close()


class Clients:
    """The connections to the leaders of all partitions."""

    def __init__(self, leaders: Sequence[str]) -> None:
        self.leaders = leaders
        self.ledgers = [Ledger() for _ in leaders]
        self._templates = [Template(partition) for partition in range(len(leaders))]

    async def connected(self, run: Run, each: int, *, refill: bool) -> list[Producing]:
        """Make so many connections for each partition, one after the other among partitions."""
        made = []
        for _ in range(each):
            for partition, address in enumerate(self.leaders):
                host, _, port = address.rpartition(":")
                factory = partial(Producing, run, partition, self._templates[partition], refill)
                _, one = await asyncio.get_running_loop().create_connection(factory, host, int(port))
                made.append(one)
        return made

    async def saturated(self, seconds: float) -> Run:
        """Requests always on the way."""
        run = Run(self.ledgers)
        connections = await self.connected(run, CONNECTIONS, refill=True)
        for one in connections:
            while one.send():
                pass
        await asyncio.sleep(seconds)
        await asyncio.gather(*(one.close() for one in connections))
        return run

    async def overloaded(self, seconds: float, per_second: float) -> Run:
        """So many requests a second, whether they are answered or not."""
        run = Run(self.ledgers)
        connections = await self.connected(run, CONNECTIONS, refill=False)
        began, due, turn = time.monotonic(), 0, 0
        while (now := time.monotonic()) < began + seconds:
            while due < (now - began) * per_second:
                due += 1
                turn += 1
                run.turned_away += not any(connections[(turn + n) % len(connections)].send() for n in (0, 7, 31))
            await asyncio.sleep(TICK_SECONDS)
        await asyncio.gather(*(one.close() for one in connections))
        return run

    async def read(self, partition: int, stop: asyncio.Event) -> None:
        """Read everything of a partition as it comes, and to its end once it is told to stop."""
        host, _, port = self.leaders[partition].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=8 << 20)
        ledger, offset, at_end = self.ledgers[partition], 0, False
        while not (stop.is_set() and at_end):
            writer.write(fetch_request(TOPIC, partition, offset, max_bytes=4 << 20))
            response = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            answer = read_fetch_answer(response)
            if answer.error_code:
                raise SystemExit(f"the reader of partition {partition} got error {answer.error_code} at {offset}")
            for base, number in numbers(response, answer.start, answer.size):
                ledger.see(base, number)
                offset = base + RECORDS
            at_end = offset >= answer.high_watermark
        writer.close()

    async def never_read(self, partition: int, stop: asyncio.Event) -> None:
        """Ask for records again and again, and take none of the answers."""
        host, _, port = self.leaders[partition].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 16)
        while not stop.is_set():
            with suppress(ConnectionError):
                writer.write(fetch_request(TOPIC, partition, 0, max_bytes=1 << 20))
            await asyncio.sleep(0.5)
        writer.transport.abort()
        del reader


def numbers(response: bytes, start: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield base offset and number of each whole batch that was fetched."""
    position, end = start, start + size
    while position + BATCH_HEADER_BYTES <= end:
        base, length = struct.unpack_from(">qi", response, position)
        if position + 12 + length > end:
            return
        at = response.index(MARK, position + BATCH_HEADER_BYTES) + len(MARK)
        (number,) = struct.unpack_from(">q", response, at)
        yield base, number
        position += 12 + length


async def watch_memory(pids: Sequence[int], samples: list[tuple[float, float]], stop: asyncio.Event) -> None:
    """Note the largest broker's resident memory, in MB, each second."""
    while not stop.is_set():
        samples.append((time.monotonic(), max(memory([pid]).resident for pid in pids)))
        await asyncio.sleep(1)


async def measured(cluster: LocalCluster, seconds: float, times: float) -> dict[str, Any]:
    """Run the three phases and return their figures."""
    with RawConnection(cluster.bootstrap) as connection:
        info = metadata(connection, [TOPIC])
    clients = Clients([info.leader_address(TOPIC, partition) for partition in range(PARTITIONS)])
    pids = [broker.pid for broker in cluster.info().brokers if broker.pid is not None]
    stop, samples = asyncio.Event(), list[tuple[float, float]]()
    beside = [asyncio.create_task(clients.read(partition, stop)) for partition in range(PARTITIONS)]
    beside += [asyncio.create_task(watch_memory(pids, samples, stop))]
    before = await clients.saturated(CAPACITY_SECONDS)
    capacity = len(before.latencies) / CAPACITY_SECONDS
    print(f"capacity: {capacity:,.0f} requests/s, {capacity * RECORDS * RECORD_BYTES / 1e6:.1f} MB/s", flush=True)
    slow = [asyncio.create_task(clients.never_read(number % PARTITIONS, stop)) for number in range(SLOW_READERS)]
    began = time.monotonic()
    run = await clients.overloaded(seconds, times * capacity)
    ended = time.monotonic()
    after = await clients.saturated(AFTER_SECONDS)
    stop.set()
    await asyncio.gather(*beside, *slow)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    half = (began + ended) / 2
    resident: Callable[[float, float], float] = lambda a, b: max(m for at, m in samples if a <= at <= b)  # noqa: E731
    return {
        "seconds": seconds,
        "capacity_requests_s": round(capacity),
        "offered_requests_s": round(times * capacity),
        "answered_requests_s": round(len(run.latencies) / seconds),
        "turned_away": run.turned_away,
        "errors": {**before.errors, **run.errors, **after.errors},
        "p50_s": quantile([took for _, took in run.latencies], 0.5),
        "p99_s": quantile([took for _, took in run.latencies], 0.99),
        "p99_first_half_s": quantile([took for at, took in run.latencies if at < half], 0.99),
        "p99_second_half_s": quantile([took for at, took in run.latencies if at >= half], 0.99),
        "max_s": quantile([took for _, took in run.latencies], 1.0),
        "resident_before_mb": resident(0, began),
        "resident_first_half_mb": resident(began, half),
        "resident_second_half_mb": resident(half, ended),
        "back_after_s": back_after(after.per_second(), capacity),
        "acknowledged": sum(len(one.latencies) for one in (before, run, after)),
        "lost": sum(len(ledger.acknowledged) for ledger in clients.ledgers),
        "wrong": sum(ledger.wrong for ledger in clients.ledgers),
        "client_cpu_s": round(usage.ru_utime + usage.ru_stime),
    }


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of them is."""
    return round(sorted(values)[min(len(values) - 1, int(len(values) * share))], 3)


def back_after(per_second: Sequence[int], capacity: float) -> int | None:
    """In how many seconds three seconds in a row were at full speed."""
    for second in range(len(per_second) - 2):
        if sum(per_second[second : second + 3]) / 3 >= FULL_SPEED * capacity:
            return second
    return None


def missed(found: dict[str, Any]) -> list[str]:
    """Name what is not as it has to be."""
    grown = found["resident_second_half_mb"] > 1.1 * found["resident_first_half_mb"]
    slower = found["p99_second_half_s"] > 2 * found["p99_first_half_s"]
    late = found["back_after_s"] is None or found["back_after_s"] > BACK_SECONDS_MAX
    return [
        *(["acknowledged records are lost"] if found["lost"] or found["wrong"] else []),
        *(["memory grows"] if grown else []),
        *(["latency grows"] if slower else []),
        *([f"not at {FULL_SPEED:.0%} of what they took before within {BACK_SECONDS_MAX} s"] if late else []),
    ]


def main() -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="three brokers under twice the load that they can take")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--times", type=float, default=2.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder) / "data")
        cluster.up(3, free_base_port(3), CONFIG)
        try:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
                made.result(60)
            found = asyncio.run(measured(cluster, args.seconds, args.times))
        finally:
            cluster.down()
    print(json.dumps(found, indent=2))
    for line in missed(found):
        print(line, file=sys.stderr)
    return 1 if missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
