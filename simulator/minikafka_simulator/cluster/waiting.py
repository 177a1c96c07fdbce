"""Requests of clients that a broker has taken in and not answered yet: the purgatory as the checker sees it (B24)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker

OVERDUE_SECONDS = 0.2
"""How late an answer may leave when its time is up; a sweep of the purgatory comes every 0.05 s."""


class Waiting:
    """A request that was taken in and has no answer yet, as the checker sees it."""

    __slots__ = ("answered", "deadline", "parts")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.parts: list[tuple[HostedPartition, int]] = []
        """Of a produce: each partition, and the high watermark that it waits for."""
        self.answered = False

    def overdue(self, now: float, awake_since: float) -> str | None:
        """Why it should have been answered by now, or None."""
        if self.answered:
            return None
        if self.parts and all(hosted.leader is None or hosted.high_watermark >= up_to for hosted, up_to in self.parts):
            told = ", ".join(
                f"{hosted.topic_partition} up to {up_to}, "
                + ("which is led no more" if hosted.leader is None else f"the HW is {hosted.high_watermark}")
                for hosted, up_to in self.parts
            )
            return f"a produce waits for {told}"
        if now > max(self.deadline, awake_since) + OVERDUE_SECONDS:
            return f"its time was up at {self.deadline:.3f}, it is {now:.3f}"
        return None


def began_to_wait(
    broker: SimBroker, parts: Sequence[tuple[TopicPartition, bytes]]
) -> tuple[Waiting, list[tuple[HostedPartition, int]]]:
    """Before a produce is served: who waits, and each of its partitions with the log end offset that it has now."""
    asked = dict.fromkeys(tp for tp, _ in parts)
    hosted = [partition for tp in asked if (partition := broker.partitions.get(tp)) is not None]
    deadline = broker.world.now + broker.world.produce_timeout
    return Waiting(deadline), [(partition, partition.log.log_end_offset) for partition in hosted]


def wait_for(broker: SimBroker, waiting: Waiting, before: list[tuple[HostedPartition, int]]) -> list[Waiting]:
    """After it was served: it waits, unless it is answered already."""
    for partition, end in before:
        if (now := partition.log.log_end_offset) > end:
            broker.world.note(f"b{broker.id} {partition.topic_partition} leads append {end}..{now}")
    if waiting.answered or not before:
        return []
    room = broker.gate.replicas.room
    if room is None or not room.waiting:  # else it may not be appended yet
        waiting.parts = [(partition, partition.log.log_end_offset) for partition, _ in before]
    return [waiting]
