"""What all simulated clients have in common: they know leaders from the metadata of some broker, which may be old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.protocol.types import TopicPartition

if TYPE_CHECKING:
    from minikafka_simulator.cluster.cluster import SimCluster


class Client:
    """A client of one partition."""

    def __init__(self, world: SimCluster) -> None:
        self.world = world
        self._known: tuple[int, int] = (-1, -1)

    def leader(self, tp: TopicPartition) -> tuple[int, int]:
        """(leader id or -1, leader epoch), as a broker that is up believes; never older than what was known (KIP-320)."""
        up = [b for b in self.world.brokers.values() if b.up and not b.paused and tp.topic in b.image.topics]
        if not up:
            return self._known
        broker = self.world.random.choice(up)
        state = broker.image.topics[tp.topic].partitions[tp.partition]
        if state.leader_epoch >= self._known[1]:
            self._known = (state.leader, state.leader_epoch)
        return self._known
