"""One flush for each log at a time, and the next as long as flush.messages wants more."""

from __future__ import annotations

import errno

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.errors import LogError
from minikafka.log.flushing import FlushJob
from minikafka.replication.flushes import Flushes
from minikafka.replication.hosted import HostedPartition

from tests.unit.replication.test_replicas import Lab


class Scene:
    def __init__(self, flush_messages: int = 1) -> None:
        self.lab = Lab()
        self.partition = self.lab.partitions[0]
        self.partition.log.configure(LogConfig(flush_interval_messages=flush_messages))
        self.flushed: list[HostedPartition] = []
        self.failed: list[LogError] = []
        self.flushes = Flushes(self.lab.replicas, self.flushed.append, lambda _, error: self.failed.append(error))

    def begin(self) -> FlushJob:
        assert self.flushes.claim(self.partition)
        return self.next()

    def next(self) -> FlushJob:
        job = self.flushes.next(self.partition)
        assert job is not None
        return job


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    found.lab.produce(0)
    return found


def test_a_second_one_does_not_begin(scene: Scene) -> None:
    job = scene.begin()
    assert not scene.flushes.claim(scene.partition)
    job.run()
    assert scene.flushes.done(scene.partition, job) == 0.0
    assert scene.flushes.next(scene.partition) is None
    assert (scene.partition.log.flushed_offset, scene.flushed) == (1, [scene.partition])
    scene.begin()


def test_what_came_meanwhile_shares_the_next(scene: Scene) -> None:
    job = scene.begin()
    scene.lab.produce(0)
    scene.lab.produce(0)
    job.run()
    scene.flushes.done(scene.partition, job)
    following = scene.next()
    assert following.end_offset == 3
    following.run()
    scene.flushes.done(scene.partition, following)
    assert scene.flushes.next(scene.partition) is None


def test_what_came_before_it_was_asked_for_is_in_the_first(scene: Scene) -> None:
    """Appends of one round of events share one fsync: the claim is made by the first of them."""
    assert scene.flushes.claim(scene.partition)
    scene.lab.produce(0)
    assert scene.next().end_offset == 2


def test_nobody_waits_for_more_than_flush_messages() -> None:
    scene = Scene(flush_messages=2)
    scene.lab.produce(0)
    job = scene.begin()
    scene.lab.produce(0)
    job.run()
    scene.flushes.done(scene.partition, job)
    assert scene.flushes.next(scene.partition) is None, "one record may stay unflushed"


def test_a_disk_that_refuses_is_told_and_ends_it(scene: Scene) -> None:

    def refuse(what: str, path: str) -> None:
        if what == "fsync":
            raise OSError(errno.EIO, "refused", path)

    job = scene.begin()
    scene.lab.disk.fault_hook = refuse
    job.run()
    assert scene.flushes.done(scene.partition, job) is None
    assert len(scene.failed) == 1 and scene.flushed == []
    assert scene.flushes.claim(scene.partition)
    assert scene.flushes.next(scene.partition) is None, "it is offline"


def test_a_log_that_is_no_longer_hosted_is_left_alone(scene: Scene) -> None:
    job = scene.begin()
    scene.lab.produce(0)
    scene.lab.replicas.remove(scene.partition)
    job.run()
    scene.flushes.done(scene.partition, job)
    assert scene.flushes.next(scene.partition) is None
    assert scene.flushes.claim(scene.partition)
    assert scene.flushes.next(scene.partition) is None


def test_a_log_that_is_hosted_anew_is_not_flushed_for_the_one_before_it(scene: Scene) -> None:
    """Its files are gone: what they refuse would take the log of the next topic of that name offline."""
    job = scene.begin()
    scene.lab.produce(0)
    scene.lab.replicas.remove(scene.partition)
    assert scene.lab._partition(0, (1, 2)) is scene.lab.replicas.get("t", 0) is not scene.partition
    job.run()
    scene.flushes.done(scene.partition, job)
    assert scene.flushes.next(scene.partition) is None


def test_one_that_was_given_up_may_begin_again(scene: Scene) -> None:
    scene.begin()
    scene.flushes.give_up(scene.partition)
    scene.begin()
