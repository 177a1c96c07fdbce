"""Lives a broker's life on a recorded disk: all that a broker does with its log directories, in an order that a seed decides.

Every step is one call that the broker makes (`LogManager`, `Log`), and says what it promises once it has returned.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from minikafka.groups.records import CommittedOffset, offset_records
from minikafka.log.config import LogConfig
from minikafka.log.log import Log
from minikafka.log.manager import LogManager
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.crashes.disk import RecordedDisk, RecordedFileSystem
from minikafka_simulator.crashes.expected import NOT_CLEAN, Alternatives, Expectations, Expected, ExpectedLog

NOW_MS = 1_000_000
UNFLUSHED = "/unflushed"
LED, FOLLOWED = TopicPartition("orders", 0), TopicPartition("copy", 3)
OFFSETS, MADE_ANEW = TopicPartition("__consumer_offsets", 0), TopicPartition("made-anew", 0)
CONFIG = LogConfig(segment_bytes=620, index_interval_bytes=90, segment_index_bytes=400, retention_bytes=1900)
PRODUCERS = 3


def open_manager(disk: RecordedDisk, directories: tuple[str, ...], unflushed: bool) -> LogManager:
    """Start a broker's logs from this disk. Raises what the broker would say."""
    return LogManager.open(
        directories,
        RecordedFileSystem(disk),
        cluster_id="cluster",
        node_id=1,
        config_for=lambda _: CONFIG,
        now_ms=NOW_MS,
        unflushed_dir=UNFLUSHED if unflushed else None,
    )


class RecordedLife:
    """See the module. `run` lives it; then `disk` has the record, and `expectations` what each prefix may leave."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = random.Random(seed)
        self.length = steps
        self.unflushed = seed % 3 == 2
        self.directories = ("/data",) if seed % 2 else ("/data", "/more")
        self.disk = RecordedDisk()
        self.expectations = Expectations()
        self.epochs: dict[TopicPartition, int] = {}
        self.sequences: dict[tuple[TopicPartition, int], int] = {}
        self.clock = NOW_MS
        self.broker_epoch = 0
        self.manager: LogManager

    def run(self) -> None:
        """Everything once at least, and between that what chance wants."""
        self._open("first start")
        for tp in (LED, FOLLOWED, OFFSETS, MADE_ANEW):
            self._create(tp)
        everything: list[Callable[[], None]] = [
            self._roll, self._flush, self._flush_beside_appends, self._truncate_unflushed, self._checkpoint_high_watermarks,
            self._truncate, self._checkpoint_recovery_points, self._start_moves, self._epoch, self._retain,
            self._checkpoint_starts, self._make_anew, self._begin_anew, self._kill, self._stop_cleanly, self._purge,
        ]  # fmt: skip
        usual = [self._append, self._append, self._append, self._follow, self._commit_offset]
        order = [*everything, *self.random.choices([*everything, self._flush], k=max(0, self.length - len(everything)))]
        self.random.shuffle(order)
        for step in order:
            for _ in range(self.random.randint(1, 3)):
                self.random.choice(usual)()
            step()
        self._stop_cleanly()

    # -- what is expected

    @property
    def _now(self) -> Expected:
        return self.expectations.now

    def _expected(self, tp: TopicPartition) -> ExpectedLog:
        (found,) = self._now.logs[tp]
        assert found is not None
        return found

    def _expect(self, tp: TopicPartition, *alternatives: ExpectedLog | None) -> None:
        self._now.logs[tp] = alternatives

    def _log(self, tp: TopicPartition) -> Log:
        return self.manager.logs[tp]

    def _step(self, name: str) -> AbstractContextManager[list[Expected]]:
        return self.expectations.step(name, self.disk.operations)

    def _logs(self) -> list[TopicPartition]:
        return sorted(self.manager.logs)

    def _any(self) -> TopicPartition:
        return self.random.choice(self._logs())

    # -- records come

    def _append(self) -> None:
        tp = self.random.choice([LED, MADE_ANEW])
        self._append_to(tp)

    def _append_to(self, tp: TopicPartition) -> None:
        log, count, producer = self._log(tp), self.random.randint(1, 4), self.random.randrange(PRODUCERS)
        self.clock += 10
        known = log.producers.get(producer)
        batch = build_batch(
            [Record(n, self.clock + n, b"k", self.random.randbytes(self.random.randint(1, 60))) for n in range(count)],
            producer_id=producer, producer_epoch=0, base_sequence=0 if known is None else known.last_sequence + 1,
        )  # fmt: skip
        with self._step(f"append to {tp}"):
            log.append_as_leader(batch, self.epochs.get(tp, 0), NOW_MS)
            self._expect(tp, self._expected(tp).appended(bytes(batch)))

    def _follow(self) -> None:
        """Fetch several batches at once, which may be of two epochs."""
        log, batches = self._log(FOLLOWED), bytearray()
        offset, epoch = log.log_end_offset, self.epochs.get(FOLLOWED, 0)
        parts: list[bytes] = []
        for _ in range(self.random.randint(1, 3)):
            self.clock += 10
            epoch += self.random.random() < 0.2
            count = self.random.randint(1, 3)
            rows = [Record(offset + n, self.clock + n, None, self.random.randbytes(40)) for n in range(count)]
            parts.append(bytes(build_batch(rows, leader_epoch=epoch)))
            batches += parts[-1]
            offset += count
        self.epochs[FOLLOWED] = epoch
        with self._step(f"fetch into {FOLLOWED}"):
            log.append_as_follower(batches, epoch)
            self._expect(FOLLOWED, self._expected(FOLLOWED).appended(*parts))

    def _commit_offset(self) -> None:
        self.clock += 10
        committed = {LED: CommittedOffset(self._log(LED).log_end_offset, metadata=str(self.clock))}
        rows = offset_records(f"group-{self.random.randrange(2)}", committed)
        batch = build_batch([Record(0, self.clock, key, value) for key, value in rows])
        with self._step("commit a group's offset"):
            self._log(OFFSETS).append_as_leader(batch, self.epochs.get(OFFSETS, 0), NOW_MS, internal=True)
            self._expect(OFFSETS, self._expected(OFFSETS).appended(bytes(batch)))

    def _epoch(self) -> None:
        tp = self.random.choice([LED, MADE_ANEW, OFFSETS])
        self.epochs[tp] = self.epochs.get(tp, 0) + 1
        with self._step(f"epoch {self.epochs[tp]} of {tp}"):
            self._log(tp).assign_epoch(self.epochs[tp], self._log(tp).log_end_offset)

    def _roll(self, tp: TopicPartition | None = None) -> None:
        tp = tp or self._any()
        if self._log(tp).segments.active.size:
            with self._step(f"roll {tp}"):
                self._log(tp).roll()

    # -- durable

    def _flush(self) -> None:
        tp = self._any()
        with self._step(f"flush {tp}"):
            self._log(tp).flush()
            self._expect(tp, self._expected(tp).flushed_to(self._log(tp).flushed_offset))

    def _flush_beside_appends(self) -> None:
        """A flush runs on a thread: records come before and after its fsyncs, and checkpoints are written."""
        log = self._log(LED)
        job = log.start_flush()
        if self.random.random() < 0.5:
            self._roll(LED)
        self._append_to(LED)
        with self._step(f"flush {LED} on a thread"):
            job.run()
        self._append_to(LED)
        self._checkpoint_recovery_points()
        with self._step(f"complete the flush of {LED}"):
            log.complete_flush(job)
            self._expect(LED, self._expected(LED).flushed_to(log.flushed_offset))
        self._checkpoint_recovery_points()

    def _checkpoint_high_watermarks(self) -> None:
        offsets = {
            tp: self.random.randint(log.log_start_offset, log.log_end_offset) for tp, log in self.manager.logs.items()
        }
        with self._step("write the high watermark checkpoint"):
            self.manager.checkpoint_high_watermarks(offsets)
            self._now.high_watermarks.update({tp: frozenset({offset}) for tp, offset in offsets.items()})

    def _checkpoint_recovery_points(self) -> None:
        with self._step("write the recovery point checkpoint"):
            self.manager.checkpoint_recovery_points()

    def _checkpoint_starts(self) -> None:
        with self._step("write the log start checkpoint"):
            self.manager.checkpoint_log_start_offsets()

    # -- records go

    def _truncate(self) -> None:
        tp = self.random.choice([FOLLOWED, LED])
        log = self._log(tp)
        self._cut(tp, self.random.randint(min(log.segments[0].base_offset, log.log_end_offset), log.log_end_offset))

    def _truncate_unflushed(self) -> None:
        """What followers do most: the last batch goes, which nobody had flushed."""
        self._follow()
        self._cut(FOLLOWED, self._expected(FOLLOWED).batches[-1].header.base_offset)

    def _cut(self, tp: TopicPartition, offset: int) -> None:
        log, before = self._log(tp), self._expected(tp)
        with self._step(f"truncate {tp} to {offset}") as others:
            log.truncate_to(offset)
            after = before.cut(log.log_end_offset)
            self._expect(tp, after)
            between = replace(before, flushed=after.flushed, start=min(before.start, after.start))
            others.append(self._with(tp, between))
            if after.end < before.start:  # the log is emptied first, and its start is moved back then
                start = before.start
                others.append(self._with(tp, ExpectedLog(before.topic_id, (), start, start, start, start)))
        self.epochs[tp] = max(self.epochs.get(tp, 0), log.epochs.latest, 0) + 1

    def _with(self, tp: TopicPartition, *alternatives: ExpectedLog | None) -> Expected:
        found = self._now.copy()
        found.logs[tp] = alternatives
        return found

    def _begin_anew(self) -> None:
        log, before = self._log(FOLLOWED), self._expected(FOLLOWED)
        offset = log.log_end_offset + self.random.randint(-3, 10)
        offset = max(offset, 0)
        with self._step(f"begin {FOLLOWED} anew at {offset}"):
            log.truncate_fully_and_start_at(offset)
            self._expect(FOLLOWED, ExpectedLog(before.topic_id, (), offset, offset, offset, offset))
        self.epochs[FOLLOWED] = self.epochs.get(FOLLOWED, 0) + 1

    def _start_moves(self) -> None:
        """DeleteRecords, or what a leader tells its followers."""
        tp = self._any()
        log, before = self._log(tp), self._expected(tp)
        offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        with self._step(f"move the start of {tp} to {offset}"):
            log.increment_log_start_offset(offset)
            self._expect(tp, before.starting(log.log_start_offset))

    def _retain(self) -> None:
        tp = self._any()
        log, before = self._log(tp), self._expected(tp)
        with self._step(f"retention of {tp}") as others:
            log.delete_old_segments(NOW_MS, log.log_end_offset)
            after = before.starting(log.log_start_offset)
            self._expect(tp, after)
            others.append(self._with(tp, replace(before, start_max=after.start_max)))

    # -- partitions come and go

    def _create(self, tp: TopicPartition) -> None:
        topic_id = uuid.UUID(int=self.random.getrandbits(128))
        with self._step(f"create {tp}"):
            self.manager.create(tp, topic_id)
            self._expect(tp, ExpectedLog(topic_id))
            self._now.high_watermarks[tp] = frozenset({0})

    def _make_anew(self) -> None:
        with self._step(f"delete {MADE_ANEW}"):
            self.manager.delete(MADE_ANEW, now_ms=NOW_MS)
            self._expect(MADE_ANEW, None)
            known = self._now.high_watermarks.get(MADE_ANEW, frozenset())
            self._now.high_watermarks[MADE_ANEW] = known | {0}  # by name; forgotten before the name is used again
        self.epochs.pop(MADE_ANEW, None)
        self._create(MADE_ANEW)
        self._append_to(MADE_ANEW)

    def _purge(self) -> None:
        with self._step("remove what was deleted"):
            for removal in self.manager.prepare_purge(NOW_MS + CONFIG.file_delete_delay_ms):
                removal()

    # -- the process ends

    def _open(self, name: str) -> None:
        with self._step(name):
            self.manager = open_manager(self.disk, self.directories, self.unflushed)
            self._now.clean = frozenset({NOT_CLEAN})
            for tp, log in self.manager.logs.items():
                self._expect(tp, self._expected(tp).flushed_to(log.flushed_offset))
        for tp, log in self.manager.logs.items():
            self.epochs[tp] = max(self.epochs.get(tp, 0), log.epochs.latest)

    def _kill(self) -> None:
        self.manager.close(clean=False)
        self._open("start after kill -9")

    def _stop_cleanly(self) -> None:
        self.broker_epoch += 1
        with self._step("stop cleanly") as others:
            self.manager.close(broker_epoch=self.broker_epoch)
            others.append(self._now.copy())
            self._now.clean = frozenset({self.broker_epoch})
            for tp in self._logs():
                expected = self._expected(tp)
                self._expect(tp, expected.flushed_to(expected.end))
        self._open("start after a clean stop")


def alternatives_of(expected: Expected, tp: TopicPartition) -> Alternatives:
    """What may be there of a log that nobody may have made, too."""
    return expected.logs.get(tp, (None,))
