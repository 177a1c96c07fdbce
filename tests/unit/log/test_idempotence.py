"""Idempotent producers (KIP-98): each rule of ProducerStateManager with its name."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from minikafka.log import producer_state
from minikafka.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import AppendInfo, Log, LogConfig
from minikafka.log.producer_state import (
    SEQUENCE_MAX,
    CorruptSnapshot,
    ProducerState,
    ProducerStateManager,
    decode_snapshot,
    encode_snapshot,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    Record,
    build_batch,
    build_control_batch,
    set_crc,
)

from tests.unit.log.build import NOW_MS, batch, contents, open_log


def send(log: Log, sequence: int, count: int = 2, *, epoch: int = 0, producer: int = 8) -> AppendInfo:
    data = batch(count, producer=producer, producer_epoch=epoch, sequence=sequence)
    return log.append_as_leader(data, 0, NOW_MS)


def new_log() -> Log:
    return open_log(MemoryFileSystem())


def test_batches_in_order_are_appended() -> None:
    log = new_log()
    assert [send(log, sequence).first_offset for sequence in (0, 2, 4)] == [0, 2, 4]


def test_each_of_the_last_five_batches_is_recognised() -> None:
    log = new_log()
    for n in range(7):
        send(log, 2 * n)
    before = contents(log)
    for n in range(2, 7):
        info = send(log, 2 * n)
        assert info.duplicate
        assert (info.first_offset, info.last_offset, info.records) == (2 * n, 2 * n + 1, 2)
    assert contents(log) == before
    with pytest.raises(OutOfOrderSequence):
        send(log, 2)  # the second batch: no longer remembered


def test_a_duplicate_must_span_the_same_sequences() -> None:
    log = new_log()
    send(log, 0)
    send(log, 2)
    with pytest.raises(OutOfOrderSequence):
        send(log, 2, count=1)


@pytest.mark.parametrize("sequence", [1, 3, 5, 100])
def test_a_gap_or_overlap_is_refused(sequence: int) -> None:
    log = new_log()
    send(log, 0)
    send(log, 2)
    with pytest.raises(OutOfOrderSequence) as refused:
        send(log, sequence)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 4


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """Its earlier records may have been deleted by retention."""
    log = new_log()
    assert send(log, 77).first_offset == 0
    assert send(log, 79).first_offset == 2


def test_a_newer_epoch_begins_at_zero_and_forgets_the_old_batches() -> None:
    log = new_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequence):
        send(log, 2, epoch=1)
    assert not send(log, 0, epoch=1).duplicate
    assert send(log, 0, epoch=1).duplicate


def test_an_older_epoch_is_fenced() -> None:
    log = new_log()
    send(log, 0, epoch=3)
    with pytest.raises(InvalidProducerEpoch) as refused:
        send(log, 0, epoch=2)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_without_an_epoch_only_repetitions_are_known() -> None:
    """27, Shows: below "no epoch" is older than that; with it there is no order, but the same batch is not written twice."""
    log = new_log()
    with pytest.raises(InvalidProducerEpoch):
        send(log, 0, epoch=-5)
    assert not send(log, 0, epoch=-1).duplicate
    assert send(log, 0, epoch=-1).duplicate
    assert not send(log, 100, epoch=-1).duplicate
    assert not send(log, 7, epoch=0).duplicate


def test_a_duplicate_tells_when_it_was_written() -> None:
    """As in Kafka, whatever the topic's timestamps are."""
    log = new_log()
    assert send(log, 0).log_append_time == -1
    again = send(log, 0)
    assert again.log_append_time == again.max_timestamp > 0


def test_sequences_wrap_from_the_largest_to_zero() -> None:
    log = new_log()
    send(log, SEQUENCE_MAX - 1)
    assert not send(log, 0).duplicate
    assert send(log, SEQUENCE_MAX - 1).duplicate
    log = new_log()
    send(log, SEQUENCE_MAX, count=3)  # SEQUENCE_MAX, 0, 1
    state = log.producers.get(8)
    assert state is not None
    assert state.last_sequence == 1
    assert send(log, SEQUENCE_MAX, count=3).duplicate
    assert not send(log, 2).duplicate


def test_a_new_leader_recognises_the_duplicate_after_a_restart() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    for n in range(3):
        send(log, 2 * n)
    fs.kill()
    again = open_log(fs, clean=False)
    assert send(again, 2).duplicate
    again.close()
    from_snapshot = open_log(fs, recovery_point=6)
    assert send(from_snapshot, 4).duplicate
    assert send(from_snapshot, 2).duplicate  # Kafka's snapshots hold the last batch only, and it would be refused
    assert not send(from_snapshot, 6).duplicate


def test_silent_producers_are_forgotten_but_not_with_an_open_transaction() -> None:
    log = open_log(MemoryFileSystem(), LogConfig(producer_id_expiration_ms=1000))
    send(log, 0, producer=1)
    log.append_as_leader(batch(producer=2, sequence=0, transactional=True), 0, NOW_MS)
    assert log.producers.remove_expired(NOW_MS + 1000) == 0
    assert log.producers.remove_expired(NOW_MS + 1001) == 1
    assert log.producers.get(1) is None
    assert len(log.producers) == 1
    assert not send(log, 40, producer=1).duplicate


class TestTransactions:
    """Open transactions bound the last stable offset."""

    def marker(self, log: Log, *, epoch: int = 0) -> None:
        data = build_control_batch(
            commit=False, producer_id=2, producer_epoch=epoch, timestamp_ms=NOW_MS, coordinator_epoch=9
        )
        log.append_as_leader(data, 0, NOW_MS, internal=True)

    def test_the_first_unstable_offset_is_that_of_the_oldest_open_one(self) -> None:
        log = new_log()
        assert log.producers.first_unstable_offset is None
        send(log, 0, producer=1)
        for sequence in (0, 1):
            log.append_as_leader(batch(producer=2, sequence=sequence, transactional=True), 0, NOW_MS)
        log.append_as_leader(batch(producer=3, sequence=0, transactional=True), 0, NOW_MS)
        assert log.producers.first_unstable_offset == 2
        self.marker(log)
        assert log.producers.first_unstable_offset == 4

    def test_after_a_marker_with_a_new_epoch_sequences_begin_at_zero(self) -> None:
        log = new_log()
        log.append_as_leader(batch(producer=2, sequence=0, transactional=True), 0, NOW_MS)
        self.marker(log, epoch=1)
        with pytest.raises(InvalidProducerEpoch):
            send(log, 1, producer=2, epoch=0)
        with pytest.raises(OutOfOrderSequence):
            send(log, 5, producer=2, epoch=1)
        assert send(log, 0, producer=2, epoch=1).first_offset == 2

    def test_a_marker_of_an_unknown_producer_is_remembered(self) -> None:
        fs = MemoryFileSystem()
        log = open_log(fs)
        self.marker(log, epoch=4)
        log.close()
        again = open_log(fs, recovery_point=1)
        state = again.producers.get(2)
        assert state is not None
        assert (state.epoch, state.coordinator_epoch, state.last_sequence, state.batches) == (4, 9, -1, [])

    def test_an_empty_marker_ends_the_transaction_too(self) -> None:
        log = new_log()
        log.append_as_leader(batch(producer=2, sequence=0, transactional=True), 0, NOW_MS)
        data = build_batch(
            [Record(0, NOW_MS, b"", None)], producer_id=2, producer_epoch=0, transactional=True, control=True
        )
        log.append_as_leader(data, 0, NOW_MS, internal=True)
        state = log.producers.get(2)
        assert state is not None
        assert (state.transaction_first_offset, state.coordinator_epoch, state.last_sequence) == (-1, -1, 0)

    @pytest.mark.parametrize("damage", ["another codec", "no record"])
    def test_a_marker_that_cannot_be_read_ends_it_and_keeps_no_log_from_opening(self, damage: str) -> None:
        fs = MemoryFileSystem()
        log = open_log(fs)
        log.append_as_leader(batch(producer=2, sequence=0, transactional=True), 0, NOW_MS)
        data = build_control_batch(
            commit=True, producer_id=2, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=9
        )
        if damage == "another codec":
            data[ATTRIBUTES_POSITION] |= 5
        else:
            data[HEADER_BYTES] = 0x7F
        struct.pack_into(">q", data, 0, log.log_end_offset)
        set_crc(data)
        log.append_as_follower(data, 0)
        log.close()
        for opened in (log, open_log(fs)):
            state = opened.producers.get(2)
            assert state is not None
            assert (state.transaction_first_offset, state.coordinator_epoch) == (-1, -1)


class TestSnapshotFormat:
    """Kafka's ProducerSnapshot.json, version 1."""

    def test_round_trip(self) -> None:
        log = new_log()
        for n in range(6):
            send(log, 2 * n, producer=1)
        log.append_as_leader(batch(3, producer=2, sequence=SEQUENCE_MAX - 1, transactional=True), 0, NOW_MS)
        data = encode_snapshot(dict(log.producers))
        assert len(data) == 2 + 4 + 4 + (5 + 1) * 46
        loaded = decode_snapshot(data, "x")
        one, two = loaded[1], loaded[2]
        assert one.batches == dict(log.producers)[1].batches
        assert two.batches == dict(log.producers)[2].batches
        assert (two.epoch, two.last_timestamp, two.transaction_first_offset) == (0, NOW_MS + 2, 12)
        assert encode_snapshot(loaded) == data

    def test_the_last_entry_of_a_producer_is_what_kafka_takes(self) -> None:
        """``loadFromSnapshot`` puts one entry after the other into a map."""
        log = new_log()
        for n in range(3):
            send(log, 2 * n, producer=1)
        data = encode_snapshot(dict(log.producers))
        alone = {1: ProducerState()}
        state = dict(log.producers)[1]
        alone[1].epoch, alone[1].last_timestamp, alone[1].batches = 0, state.last_timestamp, state.batches[-1:]
        assert data[-46:] == encode_snapshot(alone)[-46:]

    def test_another_epoch_of_a_producer_replaces_the_one_before(self) -> None:
        log = new_log()
        send(log, 0, producer=1)
        entries = [encode_snapshot(dict(log.producers))[10:]]
        state = dict(log.producers)[1]
        state.epoch += 1
        entries.append(encode_snapshot({1: state})[10:])
        body = (2).to_bytes(4, "big") + b"".join(entries)
        loaded = decode_snapshot(b"\0\1" + crc32c(body).to_bytes(4, "big") + body, "x")
        assert (loaded[1].epoch, len(loaded[1].batches)) == (1, 1)

    def test_exact_bytes(self) -> None:
        state = ProducerState()
        state.epoch, state.last_timestamp = 3, 0x1122
        data = encode_snapshot({7: state})
        assert data[:2] == b"\0\1"
        assert data[6:] == bytes.fromhex(
            "00000001" "0000000000000007" "0003" "ffffffff" "ffffffffffffffff" "00000000" "0000000000001122" "ffffffff"
            "ffffffffffffffff"
        )  # fmt: skip

    @pytest.mark.parametrize("damage", ["short", "version", "crc", "count"])
    def test_damage_is_found(self, damage: str) -> None:
        data = bytearray(encode_snapshot({7: ProducerState()}))
        if damage == "short":
            del data[5:]
        elif damage == "version":
            data[1] = 9
        elif damage == "crc":
            data[-1] ^= 1
        else:
            data += b"\0"
            data[2:6] = crc32c(data[6:]).to_bytes(4, "big")
        with pytest.raises(CorruptSnapshot, match="file"):
            decode_snapshot(bytes(data), "file")


def test_a_producer_goes_on_whose_last_batches_lie_between_a_snapshot_and_the_log_start() -> None:
    """Found by crash states, where Kafka's rule was followed: the snapshot's batch was taken for the last one."""
    fs = MemoryFileSystem()
    log = open_log(fs)
    send(log, 0)
    log.roll()
    send(log, 2)
    send(log, 4)
    fs.kill()
    again = open_log(fs, clean=False, log_start_offset=6)
    assert send(again, 6).first_offset == 6
    assert send(again, 4).duplicate


def test_the_eldest_are_forgotten_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client makes up ids: 836,000 in 25 s took 390 MB. Who is forgotten may begin at any number, as after expiry."""
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    leader, follower = new_log(), new_log()
    for producer in range(100):
        send(leader, 0, producer=producer)
        send(leader, 2 * producer, producer=1000)
        assert len(leader.producers) <= 20
    known = {producer for producer, _ in leader.producers}
    assert known >= {1000, *range(85, 100)}, "who writes all the time, and the newest"
    assert known.isdisjoint(range(80))
    assert send(leader, 198, producer=1000).duplicate
    assert send(leader, 7, producer=3).first_offset == 400
    follower.append_as_follower(memoryview(bytearray(b"".join(contents(leader)))), 0)
    assert {producer for producer, _ in follower.producers} == {producer for producer, _ in leader.producers}


def test_a_snapshot_of_very_many_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier version may have left it."""
    fs = MemoryFileSystem()
    manager = ProducerStateManager(fs, "/d", 1000)
    for producer in range(50):
        manager.update(producer, 0, 0, 0, producer, producer, NOW_MS, producer == 4)
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    manager._forget_eldest(20)
    assert [producer for producer, _ in manager] == [4, *range(33, 50)], "an open transaction stays"
