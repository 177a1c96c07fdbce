"""Flushes ahead of the limit of the unflushed volume, and appends that wait for room (27 D28)."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.log import Log
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.log.unflushed_volume import PAGE_BYTES, UnflushedVolume
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.append_room import WELL_SECONDS
from minikafka.replication.flushes import Flushes
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.partition import ReplicationConfig
from minikafka.replication.replicas import SWEEP_SECONDS

from tests.unit.log.build import batch
from tests.unit.log.managed import ID_A, A, open_manager
from tests.unit.replication.cluster import NOW_MS, AllAlive
from tests.unit.replication.test_replicas import EPOCH, MINUTE_MS, TOPIC_ID, Lab

PAGES = 16
LIMIT = PAGES * PAGE_BYTES
LARGE = bytes(batch(size=8_000))
OK, TIMED_OUT = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT


class Scene(Lab):
    """The partitions have their tails on a volume whose file system has room for the limit, and not for a page more."""

    def __init__(self) -> None:
        self.volume = UnflushedVolume(LIMIT)
        super().__init__(isr=(1,))
        self.disk.volumes["/u"] = LIMIT
        self.asked: list[HostedPartition] = []
        self.told: list[bool] = []
        self.replicas.flush_soon = self._flush_soon
        self.flushes = Flushes(self.replicas, lambda _: None, lambda _, error: pytest.fail(str(error)))
        self.replicas.keep_room(self.volume, lambda short, _: self.told.append(short))

    def _partition(self, index: int, isr: tuple[int, ...]) -> HostedPartition:
        tp = TopicPartition("t", index)
        log = Log.open(
            f"/d/{tp}", tp, LogConfig(), self.disk, clean=True, recovery_point=0, now_ms=NOW_MS, checkpoints=None,
            unflushed_dir="/u", volume=self.volume,
        )  # fmt: skip
        config, moved = ReplicationConfig(1, 10.0), self.replicas.moved
        partition = HostedPartition(tp, TOPIC_ID, 1, log, config, AllAlive(), 0, topic_config=None, moved=moved)
        partition.apply_state(PartitionState((1,), isr, 1, leader_epoch=EPOCH), self.now)
        self.replicas.add(partition)
        return partition

    def _flush_soon(self, partition: HostedPartition) -> None:
        if self.flushes.claim(partition):
            self.asked.append(partition)

    def flush(self) -> None:
        """The disk does what it was asked for."""
        asked, self.asked = self.asked, []
        for partition in asked:
            while (job := self.flushes.next(partition)) is not None:
                job.run()
                self.flushes.done(partition, job)
        self.later(0.0)

    def fill(self) -> list[Any]:
        """Produce until something waits; what waits."""
        while came := self.produce(records=LARGE):
            assert came == [[(OK, self.partitions[0].log.log_end_offset - 1)]]
        return came


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_lies_there_is_counted(scene: Scene) -> None:
    log = scene.partitions[0].log
    scene.produce(records=LARGE)
    assert scene.volume.used == log.unflushed_bytes == log.size_bytes + PAGE_BYTES
    log.flush()
    assert (scene.volume.used, log.unflushed_bytes) == (0, 0)
    scene.produce(records=LARGE)
    log.truncate_to(1)
    assert scene.volume.used == 0
    scene.produce(records=LARGE)
    log.truncate_fully_and_start_at(7)
    assert scene.volume.used == 0


def test_from_half_on_what_holds_most_is_flushed(scene: Scene) -> None:
    scene.produce(1, records=LARGE)
    while scene.volume.used <= LIMIT // 2:
        assert not scene.asked
        scene.produce(0, records=LARGE)
        scene.later(0.0)
    assert scene.asked == [scene.partitions[0]]
    scene.flush()
    assert scene.volume.used < LIMIT // 2
    assert scene.told == [], "nobody has waited"


def test_an_append_waits_for_room_and_is_acknowledged_once_there_is(scene: Scene) -> None:
    came = scene.fill()
    end = scene.partitions[0].log.log_end_offset
    behind = scene.produce(1)
    assert (came, behind) == ([], []), "who comes later waits, too, though it were small enough"
    scene.flush()
    assert (came, behind) == ([[(OK, end)]], [[(OK, 0)]])
    assert scene.told == [True]
    scene.later(WELL_SECONDS)
    scene.later(WELL_SECONDS)
    assert scene.told == [True, False]


def test_ten_times_the_limit_is_taken_in_order(scene: Scene) -> None:
    answers = [scene.produce(records=LARGE) for _ in range(10 * LIMIT // len(LARGE))]
    for _ in answers:
        scene.flush()
        scene.later(SWEEP_SECONDS)
    assert answers == [[[(OK, offset)]] for offset in range(len(answers))]


def test_who_waits_for_data_is_told_of_an_append_that_has_waited(scene: Scene) -> None:
    """A follower would fetch it half a second later, and acks=all wait as long, for each such append."""
    waiting = scene.fill()
    scene.replicas.flush_ready()
    came, parked = scene.fetch(scene.partitions[0].log.log_end_offset, wait_ms=MINUTE_MS)
    assert parked is not None
    scene.flush()
    assert waiting
    scene.later(0.0)
    assert [part.size for part in came] == [len(LARGE)]


def test_what_waits_longer_than_its_time_out_is_not_appended(scene: Scene) -> None:
    scene.fill()
    end = scene.partitions[0].log.log_end_offset
    came = scene.produce(0, 1, records=LARGE, timeout_ms=50)
    scene.later(SWEEP_SECONDS)
    scene.later(SWEEP_SECONDS)
    assert came == [[(TIMED_OUT, -1), (TIMED_OUT, -1)]]
    scene.flush()
    assert scene.partitions[0].log.log_end_offset == end + 1, "of the one that waited before it"
    assert scene.partitions[1].log.log_end_offset == 0


def test_what_is_led_no_more_does_not_wait(scene: Scene) -> None:
    came = scene.fill()
    scene.partitions[0].forget_state()
    scene.later(SWEEP_SECONDS)
    assert came == [[(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]]


def test_a_batch_for_which_there_never_is_room_is_refused(scene: Scene) -> None:
    came = scene.produce(0, 1, records=bytes(batch(size=LIMIT - LIMIT // 8)))
    assert came == [[(ErrorCode.MESSAGE_TOO_LARGE, -1)] * 2]
    assert scene.produce(records=LARGE) == [[(OK, 0)]]


def test_a_follower_appends_whole_batches_that_fit() -> None:
    volume = UnflushedVolume(LIMIT)
    one = bytes(batch(size=1000))
    records = memoryview(one * 3)
    assert volume.fitting(records) == records
    volume.grew(LIMIT - PAGE_BYTES - 2 * len(one) - 1)
    assert volume.fitting(records) == records[: 2 * len(one)]
    volume.grew(2 * len(one))
    assert len(volume.fitting(records)) == 0
    volume.shrank(volume.used)
    volume.limit = PAGE_BYTES
    assert volume.fitting(records) == records[: len(one)], "its leader has it, and nothing else is there"


def test_followers_have_room_where_producers_wait(scene: Scene) -> None:
    """Producers on all brokers that took it all would wait for each other's followers."""
    scene.fill()
    assert scene.volume.room > LIMIT // 8


def test_the_limit_is_what_the_file_system_has_room_for() -> None:
    fs = MemoryFileSystem()
    fs.volumes["/unflushed"] = LIMIT
    manager = open_manager(fs, unflushed=True)
    assert manager.unflushed_volume is not None and manager.unflushed_volume.limit == LIMIT - LIMIT // 16
    manager.create(A, ID_A).append_as_leader(batch(), 0, NOW_MS)
    assert manager.unflushed_volume.used > PAGE_BYTES
    manager.delete(A)
    assert manager.unflushed_volume.used == 0
