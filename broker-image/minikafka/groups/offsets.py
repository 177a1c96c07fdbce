"""The committed offsets of one group, and the writes of them that are still under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from minikafka.groups.records import NO_TIMESTAMP, CommittedOffset
from minikafka.protocol.types import TopicPartition


class CommittedOffsets:
    """Offsets become visible when their record is replicated, in the order of the log, never in the order of answers.

    Each write has a sequence number that grows with its place in the log: an older write that is confirmed late does
    not hide a newer one.
    """

    __slots__ = ("_pending", "_sequences", "_values")

    def __init__(self) -> None:
        self._values: dict[TopicPartition, CommittedOffset] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._pending: Counter[TopicPartition] = Counter()

    def __len__(self) -> int:
        return len(self._values)

    @property
    def idle(self) -> bool:
        """Nothing committed and nothing under way."""
        return not self._values and not self._pending

    def all(self) -> Mapping[TopicPartition, CommittedOffset]:
        """Every visible offset."""
        return self._values

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        return self._values.get(partition)

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether a write of it is under way."""
        return partition in self._pending

    def restore(self, partition: TopicPartition, committed: CommittedOffset | None) -> None:
        """Replay one record of the log; None is a tombstone."""
        if committed is None:
            self._values.pop(partition, None)
        else:
            self._values[partition] = committed

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """A write of these was handed to the log."""
        self._pending.update(list(partitions))

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """A write of these is decided, whichever way."""
        for partition in partitions:
            self._pending[partition] -= 1
            if self._pending[partition] <= 0:
                del self._pending[partition]

    def apply(self, written: Mapping[TopicPartition, CommittedOffset | None], sequence: int) -> None:
        """A write is replicated: show it, unless a later one is already shown. None removes an offset."""
        for partition, committed in written.items():
            if self._sequences.get(partition, -1) >= sequence:
                continue
            self._sequences[partition] = sequence
            self.restore(partition, committed)

    def expired(
        self,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        retention_ms: int,
        *,
        idle_since_ms: int | None,
        except_topics: Collection[str] = (),
    ) -> list[TopicPartition]:
        """Those of these partitions whose offset has outlived its retention (KIP-211).

        It counts from `idle_since_ms`, when the group lost its last member, or from the commit when that is None. A
        commit that brought its own expiry keeps it. Offsets with a write under way stay.
        """
        found = []
        for partition in partitions:
            committed = self._values.get(partition)
            if committed is None or partition.topic in except_topics or partition in self._pending:
                continue
            if committed.expire_timestamp_ms != NO_TIMESTAMP:
                if now_ms >= committed.expire_timestamp_ms:
                    found.append(partition)
                continue
            since = committed.commit_timestamp_ms if idle_since_ms is None else idle_since_ms
            if now_ms - since >= retention_ms:
                found.append(partition)
        return found
