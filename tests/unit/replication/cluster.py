"""A little cluster of bare partitions on simulated disks: every message is a line of the test that uses it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from crc32c import crc32c
from minikafka.log.config import FOREVER, LogConfig
from minikafka.log.log import Log
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchOutcome, FetchPosition
from minikafka.replication.partition import Partition, ReplicationConfig, TruncationMode

TP = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


def batch(value: str, records: int = 1, producer: tuple[int, int, int] = (-1, -1, -1)) -> memoryview:
    """A record batch v2 with ``records`` records of which the first carries ``value``.

    ``producer`` is (producer id, producer epoch, first sequence number) of an idempotent producer.
    """
    body = b""
    for index in range(records):
        raw = value.encode() if index == 0 else b""
        record = b"\0" + _zigzag(0) + _zigzag(index) + _zigzag(-1) + _zigzag(len(raw)) + raw + b"\0"
        body += _zigzag(len(record)) + record
    tail = struct.pack(">hiqqqhii", 0, records - 1, NOW_MS, NOW_MS, *producer, records) + body
    return memoryview(bytearray(struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail))


def _zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@dataclass
class AllAlive:
    """Peers of which every one is eligible, at broker epoch 1 unless said otherwise."""

    fenced: set[int] = field(default_factory=set)
    epochs: dict[int, int] = field(default_factory=dict)

    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        return broker_id not in self.fenced and broker_epoch in (-1, self.alive_epoch(broker_id))

    def alive_epoch(self, broker_id: int) -> int:
        return self.epochs.get(broker_id, 1)


class Replica:
    """One broker's replica with its disk; ``restart`` opens the log again, ``power_loss`` drops what was not flushed."""

    def __init__(
        self,
        broker_id: int,
        mode: TruncationMode = TruncationMode.LEADER_EPOCH,
        min_isr: int = 1,
        lag: float = 10.0,
        flush_messages: int = FOREVER,
    ) -> None:
        self.broker_id = broker_id
        self.mode = mode
        self.min_isr = min_isr
        self.lag = lag
        self.flush_messages = flush_messages
        self.disk = MemoryFileSystem()
        self.peers = AllAlive()
        self.partition: Partition
        self._open(0, clean=True)

    def _open(self, high_watermark: int, clean: bool) -> None:
        settings = LogConfig(flush_interval_messages=self.flush_messages)
        log = Log.open(
            f"/data/{TP}", TP, settings, self.disk, clean=clean, recovery_point=0, now_ms=NOW_MS, checkpoints=None
        )
        config = ReplicationConfig(self.min_isr, self.lag, self.mode)
        self.partition = Partition(TP, b"i" * 16, self.broker_id, log, config, self.peers, high_watermark)

    @property
    def leo(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def hw(self) -> int:
        return self.partition.high_watermark

    def produce(self, value: str, now: float = 0.0) -> int:
        """Append as leader; the offset."""
        leader = self.partition.leader
        assert leader is not None
        return leader.append(batch(value), NOW_MS, now).first_offset

    def flush(self) -> None:
        self.partition.log.flush()

    def restart(self, high_watermark: int | None = None) -> None:
        """The process died and came back; its files are whole, its checkpoint says ``high_watermark``."""
        checkpoint = self.hw if high_watermark is None else high_watermark
        self.partition.log.release()
        self._open(checkpoint, clean=False)

    def power_loss(self, high_watermark: int | None = None) -> None:
        """The machine died: what was not flushed is gone."""
        checkpoint = self.hw if high_watermark is None else high_watermark
        self.partition.log.release()
        self.disk.power_loss()
        self._open(checkpoint, clean=False)

    def values(self) -> list[str]:
        """The value of every record, by offset."""
        found = []
        log = self.partition.log
        for whole in log.read_batches(log.log_start_offset, log.log_end_offset):
            raw = bytes(whole.data)
            length = raw[66]  # of a value shorter than 64 bytes, in the batches that batch() makes
            found.append(raw[67 : 67 + (length >> 1)].decode())
        return found


def states(replicas: list[Replica], state: PartitionState, now: float = 0.0) -> None:
    """Tell every given replica what the controller decided."""
    for replica in replicas:
        replica.partition.apply_state(state, now)


@dataclass
class Exchange:
    """A follower's fetch in two halves, so that a test can look, or kill somebody, in between."""

    follower: Replica
    leader: Replica
    now: float = 0.0
    asked: FetchPosition | None = None
    answer: tuple[ErrorCode, tuple[int, int] | None, int, int, bytes] | None = None

    def ask(self) -> Exchange:
        """The request arrives at the leader, which answers."""
        follower = self.follower.partition.follower
        assert follower is not None
        self.asked = follower.position()
        self.serve()
        return self

    def serve(self) -> None:
        assert self.asked is not None
        partition = self.leader.partition
        error = partition.check_leader(self.asked.leader_epoch)
        if error or partition.leader is None:
            self.answer = (error, None, -1, -1, b"")
            return
        outcome = partition.leader.follower_fetch(
            self.follower.broker_id,
            self.follower.peers.alive_epoch(self.follower.broker_id),
            self.asked.leader_epoch,
            self.asked.offset,
            self.asked.last_fetched_epoch,
            self.now,
        )
        records = b""
        if not outcome.error and outcome.diverging is None and self.asked.offset < partition.log.log_end_offset:
            records = partition.log.read(self.asked.offset, 1 << 20, partition.log.log_end_offset).read()
        self.answer = (
            outcome.error, outcome.diverging, partition.high_watermark, partition.log.log_start_offset, records
        )  # fmt: skip

    def deliver(self) -> FetchOutcome:
        """The answer arrives at the follower."""
        follower = self.follower.partition.follower
        assert follower is not None and self.asked is not None and self.answer is not None
        error, diverging, high_watermark, start, records = self.answer
        return follower.answered(self.asked, error, diverging, high_watermark, start, memoryview(bytearray(records)))


def fetch(follower: Replica, leader: Replica, now: float = 0.0) -> FetchOutcome:
    """A whole fetch; out of range, the follower asks for the leader's offsets as well (KAFKA-7414)."""
    exchange = Exchange(follower, leader, now).ask()
    outcome = exchange.deliver()
    if outcome is FetchOutcome.OUT_OF_RANGE:
        state = follower.partition.follower
        assert state is not None and exchange.asked is not None
        log = leader.partition.log
        return state.leader_offsets(exchange.asked, log.log_start_offset, log.log_end_offset)
    return outcome


def catch_up(follower: Replica, leader: Replica, now: float = 0.0) -> None:
    """Fetch until there is nothing new and the high watermark is known."""
    for _ in range(10):
        before = (follower.leo, follower.hw)
        outcome = fetch(follower, leader, now)
        if outcome is FetchOutcome.EMPTY and before == (follower.leo, follower.hw):
            return
    raise AssertionError("the follower does not catch up")
