"""Whoever watches a simulated cluster hears of these moments; here nobody minds.

See :mod:`minikafka_simulator.checks.checker` for one who does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minikafka.controller.workspace import Event
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.partition import Partition

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


class Watcher:
    """Does nothing, of everything."""

    def started(self, broker: SimBroker) -> None:
        """A new incarnation has opened its logs."""

    def reopened(self, broker: SimBroker, tp: TopicPartition) -> None:
        """A log that was offline was opened anew from what is on the disk."""

    def lost_power(self, broker: SimBroker) -> None:
        """What a broker had not flushed is gone."""

    def hosted(self, broker: SimBroker, partition: Partition) -> None:
        """A replica was opened."""

    def dropped(self, broker: SimBroker, tp: TopicPartition) -> None:
        """A replica was deleted."""

    def reset(self, broker: SimBroker, tp: TopicPartition) -> None:
        """The replica waits for a new registration."""

    def checkpointed(self, broker: SimBroker, marks: Mapping[TopicPartition, int], perhaps: bool = False) -> None:
        """A checkpoint of high watermarks was written, when they were these.

        ``perhaps``: the disk refused something, and the file is the new one or the old one.
        """

    def after(self, broker: SimBroker) -> None:
        """An event on a broker is over."""

    def fetched(self, broker: SimBroker, partition: Partition, leader: int, sent_in: int) -> None:
        """A follower has taken in the answer that ``leader`` gave when it led leader epoch ``sent_in``."""

    def records_deleted(self, tp: TopicPartition, to: int) -> None:
        """Records before an offset were deleted by request."""

    def retained(self, broker: SimBroker, partition: Partition, start: int) -> None:
        """Records before an offset were old, and a replica has deleted them."""

    def proposed(self, broker: SimBroker, proposal: IsrProposal) -> None:
        """A leader is about to ask for another ISR."""

    def committed(self, events: list[Event], image: ClusterImage) -> None:
        """The store has taken a controller's decisions."""

    def lease_taken(self, broker: int, held: int, expected: int) -> None:
        """A broker has taken the lease from the controller epoch ``held``; it had seen ``expected``."""

    def settled(self, broker: SimBroker) -> None:
        """A broker's replicas match the image."""

    def group_deleted(self, group: str) -> None:
        """A coordinator has forgotten a group."""

    def emitted(self, broker: SimBroker, event: Event) -> None:
        """A controller tells of something that it decided."""
