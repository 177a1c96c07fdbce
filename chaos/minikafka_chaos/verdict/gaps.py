"""How long clients went without an acknowledgement: the availability side of a run. Pure functions on a history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.record.history import OK, SEND, Op


class Gap(NamedTuple):
    """A time without acknowledgements in one partition; unix seconds."""

    topic_partition: TopicPartition
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def ack_times(history: Iterable[Op]) -> dict[TopicPartition, list[float]]:
    """Return when acknowledgements of each partition reached the client, in order (unix seconds)."""
    times: dict[TopicPartition, list[float]] = defaultdict(list)
    for op in history:
        topic_partition = op.topic_partition
        if op.op == SEND and op.type == OK and topic_partition is not None:
            times[topic_partition].append(op.time)
    for series in times.values():
        series.sort()
    return dict(times)


def gaps_around(history: Sequence[Op], moments: Iterable[float], within_s: float) -> list[Gap | None]:
    """Return for each moment (say, of a kill) the longest gap that begins or lasts in the `within_s` seconds after it.

    None where no partition had acknowledgements both before and after the moment.
    """
    series = ack_times(history)
    found: list[Gap | None] = []
    for moment in moments:
        gaps = [
            Gap(topic_partition, before, after)
            for topic_partition, times in series.items()
            for before, after in pairwise(times)
            if after >= moment and before <= moment + within_s
        ]
        found.append(max(gaps, key=lambda gap: gap.seconds, default=None))
    return found
