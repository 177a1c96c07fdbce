"""Requests of clients that a broker has taken in and not answered yet: the purgatory as the checker sees it (B24)."""

from __future__ import annotations

from minikafka.replication.hosted import HostedPartition

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
            waiting = ", ".join(
                f"{hosted.topic_partition} up to {up_to}, "
                + ("which is led no more" if hosted.leader is None else f"the HW is {hosted.high_watermark}")
                for hosted, up_to in self.parts
            )
            return f"a produce waits for {waiting}"
        if now > max(self.deadline, awake_since) + OVERDUE_SECONDS:
            return f"its time was up at {self.deadline:.3f}, it is {now:.3f}"
        return None
