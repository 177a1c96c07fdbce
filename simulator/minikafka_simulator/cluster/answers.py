"""Remembers in which leader epoch a leader answered what followers asked: Kafka's protocol does not say."""

from __future__ import annotations

from minikafka.replication.fetch_loop import IN_FLIGHT_MAX, Key

KEPT = 4 * IN_FLIGHT_MAX
"""Answers to a follower about a partition that are remembered, the last ones. Only so many are on their way as there are
fetches in flight; those of a connection that is gone count no more."""

NEVER = -1


class LeaderEpochs:
    """Of all answers in a cluster, as long as they may be taken in."""

    def __init__(self) -> None:
        self._given: dict[tuple[int, int, Key], dict[tuple[int, int], int]] = {}

    def note(self, leader: int, follower: int, key: Key, position: tuple[int, int], led: int) -> None:
        """A leader that led in leader epoch ``led`` answers who asked from a position: (leader epoch, offset)."""
        given = self._given.setdefault((leader, follower, key), {})
        given.pop(position, None)
        given[position] = led
        if len(given) > KEPT:
            del given[next(iter(given))]

    def of(self, leader: int, follower: int, key: Key, position: tuple[int, int]) -> int:
        """The leader epoch of the last such answer; :data:`NEVER` when there was none."""
        return self._given.get((leader, follower, key), {}).get(position, NEVER)

    def __len__(self) -> int:
        return sum(map(len, self._given.values()))
