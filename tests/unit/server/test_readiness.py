"""``/readyz``: ready is in sync, once (issue 9, B9: a drain took broker B while A was outside of the ISR)."""

from __future__ import annotations

from uuid import uuid4

import pytest
from minikafka.metadata.image import BrokerState, ClusterImage, PartitionState, TopicState
from minikafka.server.readiness import Readiness

EPOCH = 5


class Scene:
    def __init__(self, timeout_seconds: float = 600.0) -> None:
        self.image = ClusterImage("id")
        self.image.brokers[1] = BrokerState(1, EPOCH, "x", (), fenced=False)
        self.now = 0.0
        self.warned: list[str] = []
        self.readiness = Readiness(1, timeout_seconds, self.warned.append, clock=lambda: self.now)

    def topic(self, *partitions: PartitionState) -> None:
        self.image.put_topic(TopicState("bank", uuid4(), partitions))

    def probe(self, *, stopping: bool = False) -> tuple[bool, str]:
        return self.readiness.probe(self.image, EPOCH, stopping)


BEHIND = PartitionState((0, 1, 2), (0, 2), 0)
IN_SYNC = PartitionState((0, 1, 2), (0, 1, 2), 0)
LEADERLESS = PartitionState((0, 1, 2), (0,), -1)
ELSEWHERE = PartitionState((0, 2), (0, 2), 0)
ADDED = PartitionState((0, 1, 2), (0, 2), 0, adding=(1,))


def test_not_before_it_has_caught_up() -> None:
    scene = Scene()
    scene.topic(IN_SYNC, BEHIND, ELSEWHERE)
    assert scene.probe() == (False, "catching up: not in the ISR of bank-1")
    scene.topic(IN_SYNC, IN_SYNC, ELSEWHERE)
    assert scene.probe() == (True, "ready")
    scene.topic(BEHIND)
    assert scene.probe() == (True, "ready"), "it was in sync once, and it serves"


def test_not_for_ever() -> None:
    scene = Scene(timeout_seconds=60)
    scene.topic(BEHIND, BEHIND, BEHIND, BEHIND)
    scene.now = 100.0
    assert scene.probe() == (False, "catching up: not in the ISR of bank-0, bank-1, bank-2 and 1 more")
    scene.now = 160.0
    assert not scene.probe()[0], "the time counts from when it serves, not from its start"
    scene.now = 161.0
    assert scene.probe() == (True, "ready")
    assert len(scene.warned) == 1 and "after 60 s" in scene.warned[0]


def test_who_cannot_catch_up_serves_the_rest_and_is_looked_at_again() -> None:
    scene = Scene()
    scene.topic(LEADERLESS)
    assert scene.probe() == (True, "ready")
    scene.topic(BEHIND)
    assert not scene.probe()[0]


@pytest.mark.parametrize("partition", [ELSEWHERE, ADDED])
def test_replicas_that_nobody_counts_on(partition: PartitionState) -> None:
    scene = Scene()
    scene.topic(partition)
    assert scene.probe() == (True, "ready")


def test_without_a_timeout_it_is_ready_when_it_serves() -> None:
    scene = Scene(timeout_seconds=0)
    scene.topic(BEHIND)
    assert scene.probe() == (True, "ready")


def test_who_does_not_serve() -> None:
    scene = Scene()
    assert scene.probe(stopping=True) == (False, "stopping")
    scene.image.brokers[1] = BrokerState(1, EPOCH, "x", (), fenced=True)
    assert scene.probe() == (False, "fenced")
    scene.image.brokers[1] = BrokerState(1, EPOCH - 1, "x", (), fenced=False)
    assert scene.probe() == (False, "not registered")
