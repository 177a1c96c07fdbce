"""What is told of the replicas of a broker: each change once, under the epochs that it was made in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.clock import Clock
from minikafka.replication.isr import AlterPartitionAnswer
from minikafka.replication.reporter import ReplicaReporter
from minikafka.telemetry.stats import BrokerStats

from tests.unit.replication.cluster import NOW_MS
from tests.unit.replication.test_replicas import EPOCH, Lab

MADE = AlterPartitionAnswer(ErrorCode.NONE, EPOCH, 1, (1, 2))


class Scene:
    """Broker 1 leads alone; broker 2 has caught up and may join."""

    def __init__(self) -> None:
        self.lab = Lab(isr=(1,))
        self.told: list[tuple[str, dict[str, Any]]] = []
        clock = Clock(lambda: self.lab.now, lambda: NOW_MS, lambda *_: None)
        context = SimpleNamespace(
            clock=clock,
            stats=BrokerStats(),
            events=SimpleNamespace(emit=lambda event, **fields: self.told.append((event, fields))),
            observer=SimpleNamespace(fetched=lambda *_: None, log_refused=lambda *_: None),
            warn_rarely=lambda *_: True,
        )
        self.reporter = ReplicaReporter(context, self.lab.replicas, lambda *_: None)
        self.partition = self.lab.partitions[0]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_change_of_the_isr_is_told_under_its_own_partition_epoch(scene: Scene) -> None:
    """R10: the controller's answer says it; the image, which says the same, may come later."""
    scene.lab.follower_has(0)
    assert not scene.reporter.isr_answered(scene.lab.proposals[0], MADE)
    ((event, fields),) = scene.told
    assert (event, fields["added"], fields["isr"], fields["partition_epoch"]) == ("isr_expanded", [2], [1, 2], 1)


def test_a_truncation_is_told_once(scene: Scene) -> None:
    """R13: also when the follower has more to tell later."""
    scene.lab.produce(records=None, acks=1)
    scene.lab.produce(acks=1)
    scene.partition.apply_state(PartitionState((1, 2), (1, 2), 2, EPOCH + 1, 1), scene.lab.now)
    follower = scene.partition.follower
    assert follower is not None
    for end in (1, 0):
        follower.cut(end, "the logs part")
        scene.reporter.truncated(scene.partition)
    assert [(event, fields["to_offset"]) for event, fields in scene.told] == [
        ("log_truncated", 1),
        ("log_truncated", 0),
    ]
