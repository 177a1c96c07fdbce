"""A log that knows a later term than the controller: its metadata went back (KIP-595, KIP-320)."""

from __future__ import annotations

import pytest
from minikafka.log.errors import FencedLeaderEpoch
from minikafka.metadata.image import PartitionState
from minikafka.replication.partition import Role

from .cluster import Replica


def ahead() -> Replica:
    """Replica 2 led epochs 4 and 5, and comes back to metadata of before."""
    two = Replica(2)
    for epoch in (4, 5):
        two.partition.apply_state(PartitionState((1, 2), (2,), 2, epoch, epoch), 0.0)
        two.produce(f"in epoch {epoch}")
    two.restart()
    return two


@pytest.mark.parametrize("leader", [1, 2])
def test_it_is_neither_led_nor_followed(leader: int) -> None:
    two = ahead()
    with pytest.raises(FencedLeaderEpoch, match="its log has leader epoch 5, the cluster's metadata only 4"):
        two.partition.apply_state(PartitionState((1, 2), (1, 2), leader, 4, 9), 1.0)
    assert two.partition.role is Role.NONE
    assert two.values() == ["in epoch 4", "in epoch 5"]


@pytest.mark.parametrize("leader", [1, 2])
@pytest.mark.parametrize("epoch", [5, 6])
def test_metadata_that_has_caught_up_is_taken(leader: int, epoch: int) -> None:
    two = ahead()
    with pytest.raises(FencedLeaderEpoch):
        two.partition.apply_state(PartitionState((1, 2), (1, 2), leader, 4, 9), 1.0)
    assert two.partition.apply_state(PartitionState((1, 2), (1, 2), leader, epoch, 10), 2.0)
    assert two.partition.role is not Role.NONE


def test_a_partition_without_a_leader_is_no_matter() -> None:
    assert not ahead().partition.apply_state(PartitionState((1, 2), (1, 2), -1, 4, 9), 1.0)
