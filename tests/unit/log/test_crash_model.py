"""Random lives of a log on a simulated disk, against a list of batches as the model.

The promise: whatever happens, the log is a prefix of what was written; a dead process loses nothing; a power loss loses
nothing that was flushed; a wiped unflushed volume loses exactly what was not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from minikafka.log.errors import LogDirFailure
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.protocol.records import read_header

from tests.unit.log.build import NOW_MS, UNFLUSHED, assert_sound, batch, contents, open_log

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, segment_index_bytes=400)

append = st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 60))
operations = st.lists(
    st.one_of(
        append,
        append,
        append,
        st.tuples(st.sampled_from(["flush", "half_flush", "epoch", "checkpoint", "roll"]), st.just(0), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 12), st.just(0)),
        st.tuples(st.sampled_from(["kill", "clean", "power", "crash", "wipe"]), st.integers(0, 2**32), st.just(0)),
    ),
    max_size=40,
)


@dataclass
class Life:
    """One log and what it ought to hold."""

    unflushed: bool

    def __post_init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.log = open_log(self.fs, CONFIG, unflushed=self.unflushed, checkpoints=self)
        self.model: list[bytes] = []
        self.epoch = 0
        self.sequence = 0
        self.recovery_point = 0
        self.flushed = 0

    def log_start_moved(self, log: Log) -> None:
        pass

    def lower_recovery_point(self, log: Log, offset: int) -> None:
        self.recovery_point = min(self.recovery_point, offset)

    def append(self, count: int, size: int) -> None:
        written = batch(count, size=size, producer=7, sequence=self.sequence, timestamp=NOW_MS + len(self.model))
        self.log.append_as_leader(written, self.epoch, NOW_MS)
        self.sequence += count
        self.model.append(bytes(written))

    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.flushed_offset

    def half_flush(self) -> None:
        """The process dies or truncates while a flush has begun."""
        self.log.start_flush()

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.log.log_end_offset)

    def truncate(self, back: int) -> None:
        self.log.truncate_to(max(self.log.log_start_offset, self.log.log_end_offset - back))
        self.keep(self.log.log_end_offset)
        self.flushed = min(self.flushed, self.log.log_end_offset)

    def keep(self, end: int) -> None:
        """Make the model what the log says is left, and check that it is a prefix."""
        left = [each for each in self.model if read_header(each).next_offset <= end]
        assert contents(self.log) == left
        assert self.log.log_end_offset == (read_header(left[-1]).next_offset if left else 0)
        self.model = left
        state = self.log.producers.get(7)
        self.sequence = 0 if state is None else state.last_sequence + 1

    def reopen(self, clean: bool) -> None:
        self.log = open_log(
            self.fs, CONFIG, clean=clean, recovery_point=self.recovery_point, unflushed=self.unflushed, checkpoints=self
        )
        assert self.log.log_end_offset >= self.flushed, "flushed records were lost"
        self.keep(self.log.log_end_offset)
        self.flushed = self.log.flushed_offset
        self.epoch = max(self.epoch, self.log.epochs.latest)
        self.check_epochs()
        self.check_producers()

    def check_epochs(self) -> None:
        for each in self.model:
            header = read_header(each)
            assert self.log.epochs.epoch_for_offset(header.base_offset) == header.partition_leader_epoch
        starts = [entry.start_offset for entry in self.log.epochs.entries]
        assert starts == sorted(set(starts))
        assert all(start < max(1, self.log.log_end_offset) for start in starts)

    def check_producers(self) -> None:
        before = {pid: (state.epoch, state.last_sequence) for pid, state in self.log.producers}
        log = self.log
        log.producers.rebuild(log.segments, log.log_start_offset, log.log_end_offset, 0)
        assert before == {pid: (state.epoch, state.last_sequence) for pid, state in self.log.producers}
        expected = sum(read_header(each).records_count for each in self.model) - 1
        assert [last for _, last in before.values()] == ([expected] if self.model else [])

    def run(self, name: str, number: int, size: int) -> None:
        everything = self.log.log_end_offset
        match name:
            case "append":
                self.append(number, size)
            case "flush":
                self.flush()
            case "half_flush":
                self.half_flush()
            case "epoch":
                self.begin_epoch()
            case "checkpoint":
                self.recovery_point = self.log.recovery_point
            case "roll":
                if self.log.segments.active.size:
                    self.log.roll()
            case "truncate":
                self.truncate(number)
            case "kill":
                self.fs.kill()
                self.reopen(clean=False)
                assert self.log.log_end_offset == everything, "a dead process loses nothing"
            case "clean":
                self.log.close()
                self.recovery_point = self.log.recovery_point
                self.fs.power_loss()
                self.reopen(clean=True)
                assert self.log.log_end_offset == everything
            case "power":
                self.fs.power_loss()
                self.fs.rmtree(UNFLUSHED)
                self.reopen(clean=False)
            case "crash":
                self.fs.crash(random.Random(number))
                if number % 2:
                    self.fs.rmtree(UNFLUSHED)
                self.reopen(clean=False)
            case "wipe":
                flushed = self.flushed
                self.fs.kill()
                self.fs.rmtree(UNFLUSHED)
                self.reopen(clean=False)
                assert self.log.log_end_offset == (flushed if self.unflushed else everything)


CHECKPOINTED_AT_A_ROLL = [("append", 1, 1), ("flush", 0, 0), ("checkpoint", 0, 0), ("roll", 0, 0)]
"""The index of the completed segment is not on the disk, and the recovery point is at its end."""


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(steps=operations, unflushed=st.booleans())
@example(steps=[("clean", 0, 0), *CHECKPOINTED_AT_A_ROLL, ("crash", 29, 0)], unflushed=False)
def test_a_log_is_always_a_prefix_of_what_was_written(steps: list[tuple[str, int, int]], unflushed: bool) -> None:
    life = Life(unflushed)
    for step in steps:
        life.run(*step)
    life.fs.kill()
    life.reopen(clean=False)
    assert_sound(life.fs, life.log)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    steps=operations,
    unflushed=st.booleans(),
    fault=st.sampled_from(["append", "fsync", "truncate", "write_atomic", "fsync_dir", "remove", "open"]),
    when=st.integers(0, 40),
)
def test_a_disk_that_refuses_once_costs_no_flushed_record(
    steps: list[tuple[str, int, int]], unflushed: bool, fault: str, when: int
) -> None:
    """R17: after a failed operation the broker dies; what it had reported as flushed is there after a power loss."""
    life = Life(unflushed)
    calls = 0

    def refuse(operation: str, path: str) -> None:
        nonlocal calls
        calls += operation == fault
        if operation == fault and calls == when + 1:
            raise OSError(5, "Input/output error", path)

    life.fs.fault_hook = refuse
    log: Log = life.log
    try:
        for step in steps:
            log = life.log
            if step[0] not in ("kill", "clean", "power", "crash", "wipe"):
                life.run(*step)
    except LogDirFailure:
        pass
    flushed = log.flushed_offset
    life.fs.fault_hook = None
    life.fs.power_loss()
    life.fs.rmtree(UNFLUSHED)
    recovered = open_log(life.fs, CONFIG, clean=False, recovery_point=life.recovery_point, unflushed=unflushed)
    assert recovered.log_end_offset >= min(flushed, log.log_end_offset)
    assert_sound(life.fs, recovered)
