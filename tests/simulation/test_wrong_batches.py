"""What lying clients send: a leader puts the header right, and refuses the rest, each for its own reason."""

from __future__ import annotations

import re

import pytest
from minikafka.log.errors import LogError
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.protocol.records import ATTRIBUTES_POSITION, COMPRESSION_MASK, Record, build_batch, iterate_batches
from minikafka_simulator.clients.wrong_batches import SPOILED_EVERY, SPOILS, as_sent, spoiled

from tests.unit.log.build import NOW_MS, open_log


def batch(*, values: int = 1) -> bytes:
    """As the simulator's producers build them."""
    rows = [Record(index, NOW_MS, None, b"value") for index in range(values)]
    return bytes(build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=0))


@pytest.mark.parametrize("order", range(14))
def test_a_header_that_lies_is_put_right(order: int) -> None:
    told, log = batch(values=2), open_log(MemoryFileSystem())
    sent = as_sent(told, order)
    assert sent != told
    log.append_as_leader(bytearray(sent), 3, NOW_MS)
    (stored,) = iterate_batches(log.read(0, 1000, 2).read())
    assert bytes(stored.data)[17:] == told[17:], "all that the CRC covers"
    assert stored.header.partition_leader_epoch == 3


def test_every_spoiled_batch_is_refused_for_a_reason_of_its_own() -> None:
    """Before and after the good one: what says the same sequence numbers is no repetition."""
    reasons = set()
    for number in range(len(SPOILS)):
        for is_known in (False, True):
            log = open_log(MemoryFileSystem())
            if is_known:
                log.append_as_leader(bytearray(batch()), 0, NOW_MS)
            end = log.log_end_offset
            (wrong,) = spoiled(batch(), number * SPOILED_EVERY)
            with pytest.raises(LogError) as refused:
                log.append_as_leader(bytearray(wrong), 0, NOW_MS)
            assert log.log_end_offset == end
        reasons.add((re.sub(r"\d+", "N", str(refused.value)), wrong[ATTRIBUTES_POSITION] & COMPRESSION_MASK != 0))
    assert len(reasons) == len(SPOILS), reasons
    assert not spoiled(batch(), 1)
