"""How every simulated producer numbers its batches: by producer id, producer epoch and sequence (KIP-98, KIP-360)."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import (
    HEADER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    build_batch,
)

OUT_OF_SEQUENCE = frozenset((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH))
"""The broker remembers something else of the producer, or nothing: it begins anew."""


class SequenceNumbers:
    """Of one producer in one partition. Without a producer id it is not idempotent, and numbers nothing."""

    def __init__(self, producer_id: int = NO_PRODUCER_ID) -> None:
        self.producer_id = producer_id
        self.epoch, self.sequence = NO_PRODUCER_EPOCH, NO_SEQUENCE
        if self.idempotent:
            self.epoch = self.sequence = 0

    @property
    def idempotent(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def begin_anew(self) -> None:
        """Go on in the next epoch, from sequence 0."""
        if self.idempotent:
            self.epoch += 1
            self.sequence = 0

    def build(self, records: Sequence[Record]) -> bytes:
        """Make the next batch."""
        batch = build_batch(
            records, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=self.sequence
        )
        if self.idempotent:
            self.sequence += len(records)
        return bytes(batch)

    def build_of(self, values: Sequence[str], now_ms: int) -> tuple[bytes, int]:
        """Make the next batch with these values, and tell its CRC, which leaders do not change.

        They stamp what lies outside it, and correct what a client says wrongly (`wrong_batches.py`).
        """
        batch = self.build([Record(i, now_ms, None, value.encode()) for i, value in enumerate(values)])
        return batch, BatchHeader._make(HEADER.unpack_from(batch)).crc
