"""A broker that lies, for tests of whoever judges it: the real one, with one planted fault in what it does with the topic `bank`.

The name of its cluster says which; any other name is an honest broker. Nothing but the data tells: every request is answered as
a broker in good order would answer it.

- `loses`: now and then a batch is acknowledged with the next offsets, and not written.
- `duplicates`: now and then a batch is written twice, and acknowledged once.
- `reorders`: now and then a batch is written after the one that came behind it; both are acknowledged where they are.
- `diverges`: a follower swaps two records of a batch when it copies it, and says that it is in sync.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any, Final

from minikafka.log.log import AppendInfo, Log
from minikafka.protocol.produce import ProduceRequest
from minikafka.protocol.records import build_batch, iterate_batches, parse_records, read_header
from minikafka.replication.replicas import NOTHING_AHEAD, ReplicaManager

TOPIC: Final = "bank"
EVERY: Final = 10
"""One batch of so many."""
HELD_SECONDS: Final = 1.0
"""A batch that nobody comes behind is written after so long."""


class Turn:
    """True at every `EVERY`th time."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self) -> bool:
        self._number += 1
        return self._number % EVERY == 0


def loses() -> None:
    write, turn = Log.append_as_leader, Turn()

    def append(self: Log, records: Any, leader_epoch: int, now_ms: int, **more: Any) -> AppendInfo:
        if self.topic_partition.topic != TOPIC or not turn():
            return write(self, records, leader_epoch, now_ms, **more)
        header, first = read_header(records), self.log_end_offset
        last = first + header.records_count - 1
        return AppendInfo(first, last, header.max_timestamp, 1, header.records_count, len(records), False, -1)

    Log.append_as_leader = append  # type: ignore[method-assign]


def duplicates() -> None:
    write, turn = Log.append_as_leader, Turn()

    def append(self: Log, records: Any, leader_epoch: int, now_ms: int, **more: Any) -> AppendInfo:
        again = bytearray(records)  # before offset and epoch are stamped into it
        info = write(self, records, leader_epoch, now_ms, **more)
        if self.topic_partition.topic == TOPIC and turn():
            write(self, again, leader_epoch, now_ms, **more)
        return info

    Log.append_as_leader = append  # type: ignore[method-assign]


def reorders() -> None:
    produce, turn = ReplicaManager.produce, Turn()
    held: list[Callable[[], None]] = []

    def release() -> None:
        if held:
            held.pop()()

    def reordered(
        self: ReplicaManager, request: ProduceRequest, respond: Any, internal: bool = False, ahead: Any = NOTHING_AHEAD
    ) -> None:
        ours = not internal and any(name == TOPIC for name, _ in request.topics)
        if ours and not held and turn():
            # The views of a request's records are good only until its handler returns.
            kept = [(name, [(i, r and memoryview(bytearray(r))) for i, r in rows]) for name, rows in request.topics]
            later = ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, kept)
            held.append(lambda: produce(self, later, respond, internal))
            asyncio.get_running_loop().call_later(HELD_SECONDS, release)
            return
        produce(self, request, respond, internal, ahead)
        if ours:
            release()

    ReplicaManager.produce = reordered  # type: ignore[method-assign]


def diverges() -> None:
    write = Log.append_as_follower

    def swapped(batch: memoryview) -> bytes:
        header, records = read_header(batch), list(parse_records(batch))
        if len(records) < 2:
            return bytes(batch)
        one, two, *rest = records
        changed = [one._replace(value=two.value), two._replace(value=one.value), *rest]
        return bytes(build_batch(changed, base_offset=header.base_offset, leader_epoch=header.partition_leader_epoch))

    def append(self: Log, records: Any, fetch_leader_epoch: int) -> AppendInfo:
        if self.topic_partition.topic == TOPIC:
            records = bytearray().join(swapped(batch.data) for batch in iterate_batches(records))
        return write(self, records, fetch_leader_epoch)

    Log.append_as_follower = append  # type: ignore[method-assign]


FAULTS: Final = {plant.__name__: plant for plant in (loses, duplicates, reorders, diverges)}


def plant(cluster: str) -> None:
    """Plant the fault that a cluster of this name has; nothing for any other name."""
    if cluster in FAULTS:
        print(f"this broker {cluster}: it is a double for tests", file=sys.stderr, flush=True)
        FAULTS[cluster]()


if __name__ == "__main__":
    plant(os.environ.get("POD_NAME", "").rpartition("-broker-")[0])
    sys.argv = ["minikafka", *sys.argv[1:]]
    runpy.run_path("/opt/minikafka/bin/minikafka", run_name="__main__")
