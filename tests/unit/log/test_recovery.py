"""Opening a log after damage: the longest valid prefix stays, everything else goes, nothing is invented."""

from __future__ import annotations

import contextlib
import errno
import struct

import pytest
from minikafka.log.epochs import CHECKPOINT_NAME, EpochEntry
from minikafka.log.errors import DataDirRefused, LogDirFailure
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import LogConfig
from minikafka.protocol.records import (
    ATTRIBUTES_POSITION,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    OFFSET_MAX,
    read_header,
    set_crc,
)

from tests.unit.log.build import DIR, NOW_MS, assert_sound, batch, contents, filled, open_log, replicated

FIRST = f"{DIR}/{0:020d}.log"
EPOCH_BYTES = range(LOG_OVERHEAD_BYTES, MAGIC_POSITION)


def three_batches() -> tuple[MemoryFileSystem, list[bytes]]:
    fs, log = filled(0)
    for n in range(3):
        log.append_as_leader(batch(2, timestamp=NOW_MS + 10 * n, producer=1, sequence=2 * n), 2 * n, NOW_MS)
    fs.kill()
    return fs, contents_of(fs)


def contents_of(fs: MemoryFileSystem) -> list[bytes]:
    return contents(open_log(fs, clean=True))


def copy_of(fs: MemoryFileSystem) -> MemoryFileSystem:
    copy = MemoryFileSystem()
    copy.makedirs(DIR)
    for name in fs.listdir(DIR):
        copy.write_atomic(f"{DIR}/{name}", fs.read_bytes(f"{DIR}/{name}"))
    return copy


def test_a_cut_at_every_byte_leaves_the_whole_batches_before_it() -> None:
    original, batches = three_batches()
    ends = [sum(map(len, batches[: n + 1])) for n in range(len(batches))]
    for size in range(ends[-1] + 1):
        fs = copy_of(original)
        fs.open_append(FIRST).truncate(size)
        log = open_log(fs, clean=False)
        whole = sum(end <= size for end in ends)
        assert contents(log) == batches[:whole], size
        assert log.log_end_offset == 2 * whole
        assert log.recovery.truncated_bytes == size - (ends[whole - 1] if whole else 0)
        assert len(log.epochs.entries) == whole
        state = log.producers.get(1)
        assert (state.last_sequence if state else -1) == 2 * whole - 1
        assert fs.file_size(FIRST) == log.size_bytes
        log.append_as_leader(batch(2), 9, NOW_MS)
        assert_sound(fs, log)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_anywhere_cuts_the_log_before_it(mask: int) -> None:
    """Base offset, length and leader epoch lie outside the CRC: what protects them is that batches continue each other.

    One case cannot be told from a checkpoint that a power loss took: a *higher* epoch than any known one.
    """
    original, batches = three_batches()
    starts = [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    total = sum(map(len, batches))
    for position in range(total):
        fs = copy_of(original)
        fs.corrupt(FIRST, position, mask)
        hit = sum(start <= position for start in starts) - 1
        log = open_log(fs, clean=False)
        left = contents(log)
        if position - starts[hit] in EPOCH_BYTES and len(left) > hit:
            damaged = read_header(left[hit])
            assert damaged.partition_leader_epoch > 4, position
            assert [each[MAGIC_POSITION:] for each in left] == [each[MAGIC_POSITION:] for each in batches[: len(left)]]
        else:
            assert left == batches[:hit], position
        assert_sound(fs, log)


def test_damage_in_an_earlier_segment_deletes_the_later_ones() -> None:
    fs, log = filled(12, LogConfig(segment_bytes=400))
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) >= 4
    fs.kill()
    fs.corrupt(f"{DIR}/{bases[1]:020d}.log", 100, 0x10)
    recovered = open_log(fs, LogConfig(segment_bytes=400), clean=False)
    assert recovered.log_end_offset == bases[1]
    assert [segment.base_offset for segment in recovered.segments] == bases[:2]
    assert any("deleted" in note for note in recovered.recovery.notes)
    assert_sound(fs, recovered)


def test_damage_below_the_recovery_point_is_not_looked_for() -> None:
    config = LogConfig(segment_bytes=400)
    fs, log = filled(12, config)
    bases = [segment.base_offset for segment in log.segments]
    fs.kill()
    fs.corrupt(f"{DIR}/{0:020d}.log", 100, 0x10)
    recovered = open_log(fs, config, clean=False, recovery_point=bases[-1])
    assert recovered.log_end_offset == 36
    assert recovered.recovery.segments_recovered == 2  # the last, and the one that ends at the recovery point


def test_damage_that_hides_the_end_of_a_trusted_segment_is_told_as_a_loss() -> None:
    """The last batch before the recovery point has too high an offset: what follows goes, and the log does not end there."""
    config = LogConfig(segment_bytes=400)
    fs, log = filled(12, config)
    bases = [segment.base_offset for segment in log.segments]
    last = [found.position for found in log.segments[1].walk()][-1]
    fs.kill()
    fs.corrupt(f"{DIR}/{bases[1]:020d}.log", last + 6, 0x01)
    recovered = open_log(fs, config, clean=False, recovery_point=bases[2] + 1)
    assert recovered.log_end_offset == bases[2] - 3
    assert recovered.recovery.lost
    assert_sound(fs, recovered)


def test_an_offset_that_a_trusted_segment_cannot_hold_is_damage() -> None:
    """An index has no bits for it: an append that sealed the segment would raise an error of no log."""
    config = LogConfig(segment_bytes=400)
    fs, log = filled(12, config)
    bases = [segment.base_offset for segment in log.segments]
    second = [found.position for found in log.segments[1].walk()][1]
    log.close()
    fs.corrupt(f"{DIR}/{bases[1]:020d}.log", second + 3, 0x80)
    opened = open_log(fs, config, clean=True, recovery_point=36)
    assert (opened.log_end_offset, opened.recovery.lost) == (bases[1] + 3, True)
    assert_sound(fs, opened)


def test_a_recovery_point_beyond_the_end_is_not_believed() -> None:
    config = LogConfig(segment_bytes=400)
    fs, _ = filled(12, config)
    fs.kill()
    fs.corrupt(f"{DIR}/{0:020d}.log", 100, 0x10)
    recovered = open_log(fs, config, clean=False, recovery_point=1000)
    assert recovered.log_end_offset == 0
    assert any("beyond the end" in note for note in recovered.recovery.notes)


def test_a_hole_between_segments_deletes_what_follows() -> None:
    config = LogConfig(segment_bytes=400)
    fs, log = filled(12, config)
    bases = [segment.base_offset for segment in log.segments]
    fs.kill()
    fs.remove(f"{DIR}/{bases[1]:020d}.log")
    recovered = open_log(fs, config, clean=False)
    assert recovered.log_end_offset == bases[1]
    assert_sound(fs, recovered)


def test_a_compacted_log_may_have_holes() -> None:
    config = LogConfig(segment_bytes=400, cleanup_policy="compact")
    fs, log = filled(12, config)
    bases = [segment.base_offset for segment in log.segments]
    fs.kill()
    fs.remove(f"{DIR}/{bases[1]:020d}.log")
    recovered = open_log(fs, config, clean=False, recovery_point=bases[2])
    assert recovered.log_end_offset == 36
    assert recovered.read(bases[1], 10**6, 36).read() == recovered.read(bases[2], 10**6, 36).read()


def test_what_a_compacted_log_has_not_flushed_has_no_holes_after_a_power_loss() -> None:
    """The first step of a flush makes the names of new segments durable, before their data."""
    config = LogConfig(segment_bytes=200, cleanup_policy="compact")
    fs, log = filled(1, config)
    log.flush()
    for n in range(6):
        log.append_as_leader(batch(3), 0, NOW_MS + n)
    fs.fsync_dir(DIR)
    fs.power_loss()
    recovered = open_log(fs, config, clean=False, recovery_point=3)
    assert (recovered.log_end_offset, recovered.flushed_offset) == (3, 3)
    assert_sound(fs, recovered)


def test_damage_in_a_compacted_log_deletes_the_later_segments_too() -> None:
    """Its gaps are no damage, but what follows damage is not known to belong there."""
    config = LogConfig(segment_bytes=400, cleanup_policy="compact")
    fs, log = filled(12, config)
    bases = [segment.base_offset for segment in log.segments]
    fs.kill()
    fs.corrupt(f"{DIR}/{bases[1]:020d}.log", 100, 0x10)
    recovered = open_log(fs, config, clean=False)
    assert recovered.log_end_offset == bases[1]
    assert_sound(fs, recovered)


class TestCleanShutdown:
    """The files are believed, as far as they can be."""

    def test_nothing_is_recovered(self) -> None:
        fs, log = filled(12, LogConfig(segment_bytes=400, index_interval_bytes=0))
        log.close()
        before = fs.fsyncs
        opened = open_log(fs, LogConfig(segment_bytes=400, index_interval_bytes=0), clean=True, recovery_point=36)
        assert opened.recovery.segments_recovered == 0
        assert opened.flushed_offset == opened.log_end_offset == 36
        assert fs.fsyncs == before
        assert_sound(fs, opened)

    @pytest.mark.parametrize("kind", ["index", "timeindex"])
    def test_a_missing_index_is_rebuilt(self, kind: str) -> None:
        config = LogConfig(segment_bytes=400, index_interval_bytes=0)
        fs, log = filled(12, config)
        log.close()
        path = f"{DIR}/{log.segments[1].base_offset:020d}.{kind}"
        wanted = fs.read_bytes(path)
        assert wanted
        fs.remove(path)
        opened = open_log(fs, config, clean=True, recovery_point=36)
        assert opened.recovery.segments_recovered == 1
        opened.close()
        assert fs.read_bytes(path) == wanted

    @pytest.mark.parametrize("kind", ["index", "timeindex"])
    @pytest.mark.parametrize("damage", [b"\0" * 7, b"\xff" * 24, b"\x7f" * 24])
    def test_an_impossible_index_is_rebuilt(self, kind: str, damage: bytes) -> None:
        config = LogConfig(segment_bytes=400, index_interval_bytes=0)
        fs, log = filled(12, config)
        log.close()
        path = f"{DIR}/{log.segments[1].base_offset:020d}.{kind}"
        wanted = fs.read_bytes(path)
        fs.write_atomic(path, damage)
        opened = open_log(fs, config, clean=True, recovery_point=36)
        assert opened.recovery.segments_recovered == 1
        opened.close()
        assert fs.read_bytes(path) == wanted

    def test_a_file_that_ends_in_the_middle_of_a_batch_is_recovered(self) -> None:
        fs, log = filled(3)
        log.close()
        fs.open_append(FIRST).append(b"garbage" * 20)
        opened = open_log(fs, clean=True, recovery_point=9)
        assert opened.log_end_offset == 9
        assert opened.recovery.truncated_bytes == 140


class TestEpochs:
    """The leader epoch checkpoint against the records."""

    def test_epochs_beyond_the_end_are_forgotten(self) -> None:
        fs, log = filled(3)
        log.assign_epoch(7, log.log_end_offset)
        fs.kill()
        assert open_log(fs, clean=False).epochs.entries == [(0, 0)]

    def test_a_lost_checkpoint_is_rebuilt(self) -> None:
        fs, batches = three_batches()
        fs.remove(f"{DIR}/{CHECKPOINT_NAME}")
        log = open_log(fs, clean=False)
        assert log.epochs.entries == [(0, 0), (2, 2), (4, 4)]
        assert contents(log) == batches

    @pytest.mark.parametrize("damage", [b"", b"0\n7\n", b"\0" * 20])
    @pytest.mark.parametrize("clean", [False, True])
    def test_a_damaged_checkpoint_is_rebuilt_from_all_records(self, damage: bytes, clean: bool) -> None:
        fs, batches = three_batches()
        fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", damage)
        log = open_log(fs, clean=clean, recovery_point=6)
        assert log.epochs.entries == [(0, 0), (2, 2), (4, 4)]
        assert contents(log) == batches
        assert any("rebuilt" in note for note in log.recovery.notes)

    def test_batches_before_the_first_known_epoch_are_kept(self) -> None:
        fs, batches = three_batches()
        fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", b"0\n1\n4 4\n")
        assert contents(open_log(fs, clean=False)) == batches


class TestLogStart:
    def test_the_start_comes_from_the_checkpoint(self) -> None:
        fs, log = filled(3)
        log.close()
        opened = open_log(fs, log_start_offset=4, recovery_point=9)
        assert opened.log_start_offset == 4
        assert opened.epochs.entries == [(0, 4)]

    def test_a_start_beyond_the_end_empties_the_log(self) -> None:
        fs, log = filled(3)
        log.close()
        opened = open_log(fs, log_start_offset=40, recovery_point=9)
        assert (opened.log_start_offset, opened.log_end_offset, opened.size_bytes) == (40, 40, 0)
        assert opened.append_as_leader(batch(), 1, NOW_MS).first_offset == 40

    def test_a_new_log_begins_there(self) -> None:
        assert open_log(MemoryFileSystem(), log_start_offset=7).log_end_offset == 7


class TestFiles:
    def test_leftovers_of_interrupted_work_are_removed(self) -> None:
        fs, log = filled(3)
        log.close()
        leftovers = [
            "leader-epoch-checkpoint.tmp",
            f"{7:020d}.log.deleted",
            f"{0:020d}.log.cleaned",
            f"{99:020d}.index",
        ]
        for name in leftovers:
            fs.write_atomic(f"{DIR}/{name}", b"x")
        opened = open_log(fs, recovery_point=9)
        assert not set(leftovers) & set(fs.listdir(DIR))
        assert_sound(fs, opened)

    @pytest.mark.parametrize(
        "name",
        [
            "notes.txt",
            "1.log",
            f"{0:020d}.parquet",
            f"{0:020d}.log.swap",
            "9" * 20 + ".log",
            "\N{SUPERSCRIPT TWO}" * 20 + ".log",
        ],
    )
    def test_foreign_files_are_refused_and_kept(self, name: str) -> None:
        fs, log = filled(3)
        log.close()
        fs.write_atomic(f"{DIR}/{name}", b"mine")
        with pytest.raises(DataDirRefused, match=name):
            open_log(fs)
        assert fs.read_bytes(f"{DIR}/{name}") == b"mine"

    def test_offsets_that_no_log_can_reach_are_damage(self) -> None:
        """Base offsets lie outside the CRC; the next ones would not fit into their 64 bits."""
        fs = MemoryFileSystem()
        fs.makedirs(DIR)
        fs.write_atomic(
            f"{DIR}/{OFFSET_MAX:020d}.log", bytes(replicated(1, OFFSET_MAX, 0) + replicated(1, OFFSET_MAX + 1, 0))
        )
        log = open_log(fs)
        assert log.log_end_offset == OFFSET_MAX + 1
        assert log.append_as_leader(batch(2), 0, NOW_MS).first_offset == OFFSET_MAX + 1

    def test_an_offset_that_its_segment_cannot_hold_is_damage(self) -> None:
        """An index has 32 bits for the distance to the segment's first offset; such a batch begins a segment of its own."""
        fs, log = filled(1)
        log.close()
        far = replicated(3, 3, 0)
        struct.pack_into(">i", far, ATTRIBUTES_POSITION + 1, 2**31 - 1)
        set_crc(far)
        fs.open_append(FIRST).append(far)
        recovered = open_log(fs, LogConfig(index_interval_bytes=0), clean=False)
        assert recovered.log_end_offset == 3
        assert_sound(fs, recovered)

    @pytest.mark.parametrize("text", [b"x", b"-1", b"9223372036854775807", b"9" * 5000])
    def test_a_restart_at_no_offset_is_refused(self, text: bytes) -> None:
        fs, log = filled(3)
        log.close()
        fs.write_atomic(f"{DIR}/log-restart", text)
        with pytest.raises(DataDirRefused, match="log-restart: holds no offset"):
            open_log(fs)

    def test_a_disk_that_refuses_is_a_typed_error(self) -> None:
        fs, log = filled(3)
        log.close()

        def refuse(operation: str, path: str) -> None:
            raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = refuse
        with pytest.raises(LogDirFailure, match="cannot be opened"):
            open_log(fs)


class TestProducerSnapshots:
    def test_a_damaged_snapshot_is_removed_and_an_older_one_used(self) -> None:
        config = LogConfig(segment_bytes=400)
        fs = MemoryFileSystem()
        log = open_log(fs, config)
        for n in range(10):
            log.append_as_leader(batch(1, size=60, producer=5, sequence=n), 0, NOW_MS)
        log.close()
        newest = f"{DIR}/{10:020d}.snapshot"
        damaged = bytearray(fs.read_bytes(newest))
        damaged[-1] ^= 1
        fs.write_atomic(newest, bytes(damaged))
        opened = open_log(fs, config, recovery_point=10)
        state = opened.producers.get(5)
        assert state is not None
        assert state.last_sequence == 9
        assert not fs.exists(newest)

    def test_an_unclean_start_removes_every_damaged_snapshot(self) -> None:
        config = LogConfig(segment_bytes=400)
        fs, log = filled(12, config)
        middle = f"{DIR}/{log.segments[1].base_offset:020d}.snapshot"
        fs.kill()
        fs.write_atomic(middle, b"")
        opened = open_log(fs, config, clean=False)
        assert not fs.exists(middle)
        assert any("removed" in note for note in opened.recovery.notes)

    def test_the_batch_that_the_log_starts_in_is_remembered(self) -> None:
        """After DeleteRecords a log may start inside a batch, which may still be sent again (simulated schedule 106160)."""
        fs = MemoryFileSystem()
        log = open_log(fs)
        log.append_as_leader(batch(3, producer=5, sequence=0), 0, NOW_MS)
        log.increment_log_start_offset(1)
        before = log.producers.get(5)
        fs.kill()
        after = open_log(fs, clean=False, log_start_offset=1).producers.get(5)
        assert before is not None and after is not None
        assert after.batches == before.batches

    def test_a_snapshot_beyond_the_end_is_removed(self) -> None:
        fs, log = filled(3)
        log.close()
        log.producers.take_snapshot(50, durable=True)
        open_log(fs, recovery_point=9)
        assert not fs.exists(f"{DIR}/{50:020d}.snapshot")

    def test_expired_producers_are_not_loaded(self) -> None:
        config = LogConfig(producer_id_expiration_ms=1000)
        fs = MemoryFileSystem()
        log = open_log(fs, config)
        log.append_as_leader(batch(1, timestamp=NOW_MS - 1000, producer=1, sequence=0), 0, NOW_MS)
        log.append_as_leader(batch(1, timestamp=NOW_MS - 999, producer=2, sequence=0), 0, NOW_MS)
        log.close()
        assert [pid for pid, _ in open_log(fs, config, recovery_point=2).producers] == [2]
        assert [pid for pid, _ in open_log(fs, config, clean=False).producers] == [2]


def test_recovery_makes_durable_what_it_found() -> None:
    """What survived the process must not be lost by a power loss after it was recovered."""
    config = LogConfig(segment_bytes=400)
    fs, log = filled(8, config)
    assert len(log.segments) > 2
    assert log.flushed_offset == 0
    fs.kill()
    assert open_log(fs, config, clean=False).flushed_offset == 24
    fs.power_loss()
    assert open_log(fs, config, clean=False).log_end_offset == 24


class TestEpochCheckpoint:
    """The checkpoint of epochs is a file like others: it may be damaged, or not be on the disk yet."""

    def _log(self) -> tuple[MemoryFileSystem, LogConfig, list[EpochEntry]]:
        fs, config = MemoryFileSystem(), LogConfig(segment_bytes=300)
        log = open_log(fs, config)
        for epoch, count in ((0, 5), (1, 5), (2, 3)):
            for _ in range(count):
                log.append_as_leader(batch(), epoch, NOW_MS)
        log.flush()
        fs.kill()
        return fs, config, log.epochs.entries

    @pytest.mark.parametrize("writes", range(1, 6))
    def test_a_rebuild_that_is_cut_short_is_done_again(self, writes: int) -> None:
        """Found by an attack: half of the epochs were a whole checkpoint, and nobody ever looked for the other half."""

        class Killed(BaseException):
            pass

        fs, config, epochs = self._log()
        fs.write_atomic(f"{DIR}/leader-epoch-checkpoint", b"")
        left = writes

        def hook(operation: str, path: str) -> None:
            nonlocal left
            left -= operation == "write_atomic" and path.endswith("leader-epoch-checkpoint")
            if left == 0 and operation == "write_atomic":
                raise Killed

        fs.fault_hook = hook
        with contextlib.suppress(Killed):
            open_log(fs, config, clean=False, recovery_point=13)
        fs.fault_hook = None
        fs.kill()
        found = open_log(fs, config, clean=False, recovery_point=13)
        assert found.epochs.entries == epochs
        assert found.epochs.end_offset_for(0, 13).end_offset == 5

    def test_what_another_process_wrote_is_made_durable(self) -> None:
        """Found by an attack: kill -9, start, clean stop, power loss; all was recovered again, for the checkpoint was empty."""
        fs, log = filled(3)
        fs.kill()
        open_log(fs, clean=False).close()
        fs.power_loss()
        found = open_log(fs, clean=True, recovery_point=9)
        assert found.recovery.notes == () and found.epochs.entries == log.epochs.entries


def test_epochs_are_whole_again_only_when_the_indexes_are() -> None:
    """Found by crash states: with whole epochs the next start believed indexes that the first had not got to the disk."""
    fs, log = filled(12, LogConfig(segment_bytes=400, index_interval_bytes=60))
    log.close()
    damaged = b"0\n1"
    fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", damaged)

    def refuse(operation: str, path: str) -> None:
        if operation == "fsync" and path.endswith("index"):
            raise OSError(errno.EIO, "Input/output error", path)

    fs.fault_hook = refuse
    with pytest.raises(LogDirFailure):
        open_log(fs, log.config, clean=False, recovery_point=log.log_end_offset)
    fs.fault_hook = None
    fs.power_loss()
    assert fs.read_bytes(f"{DIR}/{CHECKPOINT_NAME}") == damaged
    again = open_log(fs, log.config, clean=False, recovery_point=log.log_end_offset)
    assert (again.log_end_offset, again.epochs.entries) == (36, [EpochEntry(0, 0)])


@pytest.mark.parametrize("recovery_point", [0, 12, 36], ids="from_{}".format)
@pytest.mark.parametrize("segment_bytes", [1 << 20, 200])
@pytest.mark.parametrize(
    "torn",
    [
        b"0 0\n1 1\n",
        b"0 0\n1 3\n",
        b"0 0\n1 6\n",
        b"0 0\n1 14\n",
        b"0 0\n1 19\n",
        b"0 0\n1 33\n",
        b"0 0\n1 99\n",
        b"0 0\n7 15\n",
    ],
)
def test_a_torn_epoch_checkpoint_that_looks_whole(torn: bytes, segment_bytes: int, recovery_point: int) -> None:
    """Of `1 15` a torn sector left another number. Records tell, whether they are read whole or lie below the recovery point."""
    config = LogConfig(segment_bytes=segment_bytes)
    fs, log = filled(5, config)
    log.assign_epoch(1, 15)
    for n in range(7):
        log.append_as_leader(batch(3), 1, NOW_MS + n)
    log.flush()
    whole = contents(log)
    assert log.log_end_offset == 36
    fs.kill()
    fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", b"0\n2\n" + torn)
    log = open_log(fs, config, clean=False, recovery_point=recovery_point)
    assert contents(log) == whole
    assert log.epochs.entries == [(0, 0), (1, 15)]
    assert_sound(fs, log)
    fs.kill()
    assert open_log(fs, config, clean=False, recovery_point=36).epochs.entries == [(0, 0), (1, 15)]


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("recovery_point", [0, 25])
@pytest.mark.parametrize(
    ("start", "checkpoint"),
    [
        (0, b"1 0\n3 15\n"),
        (0, b"1 0\n3 8\n"),
        (0, b"1 0\n8 10\n"),
        (0, b"1 0\n2 10\n"),
        (0, b"1 8\n"),
        (0, b"1 12\n"),
        (0, b"3 0\n"),
        (16, b"3 6\n"),
        (0, None),
    ],
)
def test_epochs_are_those_of_the_records(
    start: int, checkpoint: bytes | None, recovery_point: int, policy: str
) -> None:
    """Whatever a torn checkpoint says, or where there is none: 1 from 0, and 3 from 10 on."""
    config = LogConfig(segment_bytes=210, cleanup_policy=policy)
    fs, log = filled(0, config)
    for epoch in (1, 1, 3, 3, 3):
        log.append_as_leader(batch(5), epoch, NOW_MS)
    log.flush()
    whole = contents(log)
    fs.kill()
    if checkpoint is None:
        fs.remove(f"{DIR}/{CHECKPOINT_NAME}")
    else:
        fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", b"0\n%d\n" % checkpoint.count(b"\n") + checkpoint)
    opened = open_log(fs, config, clean=False, recovery_point=recovery_point, log_start_offset=start)
    assert opened.epochs.entries == ([(3, 16)] if start else [(1, 0), (3, 10)])
    assert (opened.log_start_offset, opened.log_end_offset) == (start, 25)
    assert start or contents(opened) == whole


def test_an_epoch_without_records_begins_behind_them() -> None:
    fs, log = filled(0)
    for _ in range(2):
        log.append_as_leader(batch(5), 1, NOW_MS)
    log.assign_epoch(2, 10)
    log.flush()
    fs.kill()
    fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", b"0\n2\n1 0\n2 8\n")
    opened = open_log(fs, clean=False)
    assert (opened.log_end_offset, opened.epochs.entries) == (10, [(1, 0)])


def test_a_damaged_epoch_where_nothing_is_read_takes_no_record() -> None:
    """Below the recovery point damage is not looked for; the checkpoint is right, and the batches beside it say so."""
    config = LogConfig(segment_bytes=210)
    fs, log = filled(0, config)
    for epoch in (1, 1, 3, 3, 3):
        log.append_as_leader(batch(5), epoch, NOW_MS)
    log.flush()
    fs.kill()
    fs.corrupt(FIRST, EPOCH_BYTES[-1], 1 ^ 3)
    opened = open_log(fs, config, clean=False, recovery_point=25)
    assert (opened.log_end_offset, opened.epochs.entries) == (25, [(1, 0), (3, 10)])


@pytest.mark.parametrize("recovery_point", [36, 99])
def test_a_torn_epoch_checkpoint_before_everything_is_recovered(recovery_point: int) -> None:
    """It is found only once the end of the log is known to be damaged, too."""
    config = LogConfig(segment_bytes=200, cleanup_policy="compact")  # segments that are not read are not compared
    fs, log = filled(5, config)
    log.assign_epoch(1, 15)
    for n in range(7):
        log.append_as_leader(batch(3), 1, NOW_MS + n)
    log.flush()
    last = log.segments.active
    fs.kill()
    fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", b"0\n2\n0 0\n1 18\n")
    fs.corrupt(last.path, last.size - 1, 1)
    log = open_log(fs, config, clean=False, recovery_point=recovery_point)
    assert (log.log_end_offset, log.epochs.entries) == (33, [(0, 0), (1, 15)])
    assert_sound(fs, log)


@pytest.mark.parametrize(
    ("start", "checkpoint"),
    [
        (0, b"0 0\n1 14\n2 30\n"),
        (21, b"1 2\n2 3\n"),
        (0, b"0 1\n2 30\n"),
        (0, b"1 18\n2 30\n"),
        (0, b"0 3\n1 15\n2 30\n"),
    ],
)
def test_a_checkpoint_that_is_wrong_elsewhere(start: int, checkpoint: bytes) -> None:
    """In an earlier epoch, or where the last one seems to cover the log's start."""
    config = LogConfig(segment_bytes=200 if start else 1 << 20)
    fs, log = filled(5, config)
    for epoch in (1, 2):
        log.assign_epoch(epoch, log.log_end_offset)
        for n in range(5):
            log.append_as_leader(batch(3), epoch, NOW_MS + n)
    log.flush()
    fs.kill()
    fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", b"0\n%d\n" % checkpoint.count(b"\n") + checkpoint)
    opened = open_log(fs, config, clean=False, recovery_point=45, log_start_offset=start)
    assert opened.epochs.entries == [*([] if start else [(0, 0)]), (1, start or 15), (2, 30)]
    assert (opened.log_start_offset, opened.log_end_offset) == (start, 45)
