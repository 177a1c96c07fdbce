"""Bug seeds in what producers with several batches in flight, several partitions in a request, and topics made anew rely on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.log.errors import InvalidRecord
from minikafka.log.log import AppendInfo
from minikafka.log.manager import LogManager
from minikafka.log.record_validation import largest_timestamp
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.records import ATTRIBUTES_POSITION, COMPRESSION_MASK, HEADER
from minikafka.protocol.types import TopicPartition
from minikafka.replication.leader import LeaderState
from minikafka.replication.replicas import ReplicaManager

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with


class _RemembersTheLastBatch(LeaderState):
    def append(self, records: memoryview, now_ms: int, now: float, *ahead: Any) -> AppendInfo:
        for _, state in self.partition.log.producers:
            del state.batches[:-1]
        return super().append(records, now_ms, now, *ahead)


class _ReadsTheLastBatch(LogManager):
    """Snapshots have the last batch of each producer, as Kafka's."""

    def _load(self, unflushed_dir: str | None, now_ms: int) -> None:
        super()._load(unflushed_dir, now_ms)
        for log in self.logs.values():
            if self.clean:
                for _, state in log.producers:
                    del state.batches[:-1]


class _TrustsHeaders(LeaderState):
    """Looks into the records, and believes the header all the same."""

    def append(self, records: memoryview, now_ms: int, now: float, *ahead: Any) -> AppendInfo:
        del ahead
        log = self.partition.log
        said = records.tobytes()
        largest_timestamp(records, HEADER.unpack_from(records), log.config, now_ms)
        return _as_it_came(self, memoryview(bytearray(said)), now_ms, now)


class _TrustsRecords(LeaderState):
    """Takes what the records of a batch are not."""

    def append(self, records: memoryview, now_ms: int, now: float, *ahead: Any) -> AppendInfo:
        said = bytearray(records)
        try:
            return super().append(records, now_ms, now, *ahead)
        except InvalidRecord:
            return _as_it_came(self, memoryview(said), now_ms, now)


class _TrustsCompressedRecords(LeaderState):
    """Looks into records only where they are not compressed, as a broker that wants to save the time does."""

    def append(self, records: memoryview, now_ms: int, now: float, *ahead: Any) -> AppendInfo:
        said = bytearray(records)
        try:
            return super().append(records, now_ms, now, *ahead)
        except InvalidRecord:
            if not said[ATTRIBUTES_POSITION] & COMPRESSION_MASK:
                raise
            return _as_it_came(self, memoryview(said), now_ms, now)


def _as_it_came(leader: LeaderState, records: memoryview, now_ms: int, now: float) -> AppendInfo:
    info = leader.partition.log.append_as_leader(records, leader.epoch, now_ms, internal=True)
    leader.maybe_advance_high_watermark(now)
    return info


class _WaitsForTheFirstPartition(ReplicaManager):
    """Of a produce for several partitions, one is waited for."""

    _waited = False

    def produce(self, *args: Any, **more: Any) -> None:
        self._waited = False
        super().produce(*args, **more)

    def _append(self, *args: Any) -> tuple[PartitionResult, int]:
        result, required = super()._append(*args)
        if self._waited:
            return result, -1
        self._waited = required >= 0
        return result, required


class _LosesTheErrorOfOne(ReplicaManager):
    """Of a produce for several partitions, one that was refused is answered like the others."""

    def produce(
        self,
        request: ProduceRequest,
        respond: Callable[[list[tuple[str, list[PartitionResult]]]], None],
        *args: Any,
        **more: Any,
    ) -> None:
        def told(results: list[tuple[str, list[PartitionResult]]]) -> None:
            rows = [row for _, rows in results for row in rows]
            offset = next((row.base_offset for row in rows if not row.error), -1)
            for row in rows:
                if row.error:
                    row.error, row.base_offset = 0, offset
            respond(results)

        several = sum(len(rows) for _, rows in request.topics) > 1
        super().produce(request, told if several else respond, *args, **more)


class _KeepsOffsetsOfTheName(LogManager):
    """A log of a topic that is made anew starts from the checkpoints of the one before it."""

    def _forget_offsets(self, topic_partition: TopicPartition) -> None:
        pass


WRITING_SEEDS = (
    BugSeed("remember-one-batch", "a leader recognises a duplicate of a producer's last batch only", "KIP-98",
            rules_with(leader=_RemembersTheLastBatch)),
    BugSeed("restart-remembers-one-batch", "after a restart a broker knows the last batch of each producer only",
            "Kafka's ProducerStateManager, found here", rules_with(manager=_ReadsTheLastBatch)),
    BugSeed("trust-headers", "MaxTimestamp of a client's batch header is believed", "Kafka's LogValidator, IBM/sarama #3108",
            rules_with(leader=_TrustsHeaders)),
    BugSeed("trust-records", "a batch is taken whose records are not what its header says", "Kafka's LogValidator",
            rules_with(leader=_TrustsRecords)),
    BugSeed("trust-compressed-records", "the records of a compressed batch are not looked at", "Kafka's LogValidator",
            rules_with(leader=_TrustsCompressedRecords)),
    BugSeed("wait-for-first-partition", "a produce for several partitions waits for the first of them", "Kafka's purgatory",
            rules_with(replicas=_WaitsForTheFirstPartition)),
    BugSeed("lose-partition-error", "a produce for several partitions answers one that was refused like the others",
            "Kafka's ProduceResponse", rules_with(replicas=_LosesTheErrorOfOne)),
    BugSeed("offsets-by-name", "a topic that is made anew starts from the checkpoints of the one before it", "KIP-516",
            rules_with(manager=_KeepsOffsetsOfTheName)),
)  # fmt: skip
