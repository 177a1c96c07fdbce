"""What ``/readyz`` answers: whether clients and supervisors may count on this broker.

A broker that has just started serves, but its replicas are behind, and while they are not in sync it replaces nobody. Who
takes brokers away one at a time (a drain under a PodDisruptionBudget, a rolling restart) looks at readiness. So where
``minikafka.ready.in.sync.timeout.ms`` says so, a broker is not ready before its replicas have been in the ISR once.
After that, readiness says whether it serves: a follower that falls behind later still answers clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from minikafka.metadata.image import NO_LEADER, ClusterImage

_SHOWN_MAX: Final = 3


class Readiness:
    """The latch. ``timeout_seconds`` 0: replicas need not be in sync; ``clock`` gives seconds, ``warn`` gets a line."""

    def __init__(
        self,
        broker_id: int,
        timeout_seconds: float,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker_id = broker_id
        self._timeout_seconds = timeout_seconds
        self._warn = warn
        self._clock = clock
        self._serving_since: float | None = None
        self._latched = timeout_seconds <= 0

    def probe(self, image: ClusterImage, broker_epoch: int, stopping: bool) -> tuple[bool, str]:
        """Whether the broker is ready, and why (not)."""
        me = image.brokers.get(self._broker_id)
        if me is None or me.epoch != broker_epoch:
            return False, "not registered"
        if me.fenced:
            return False, "fenced"
        if stopping:
            return False, "stopping"
        if not self._latched:
            problem = self._behind(image)
            if problem:
                return False, problem
        return True, "ready"

    def _behind(self, image: ClusterImage) -> str:
        if self._serving_since is None:
            self._serving_since = self._clock()
        behind, leaderless = _out_of_sync(image, self._broker_id)
        if not behind:
            # Nobody leads the rest, so there is nothing to catch up with, and to wait would keep clients from what can be
            # served. When a leader comes, this broker may be behind it; so it is not settled yet.
            self._latched = not leaderless
            return ""
        more = f" and {len(behind) - _SHOWN_MAX} more" if len(behind) > _SHOWN_MAX else ""
        problem = f"catching up: not in the ISR of {', '.join(behind[:_SHOWN_MAX])}{more}"
        if self._clock() - self._serving_since > self._timeout_seconds:
            self._latched = True
            self._warn(
                f"ready after {self._timeout_seconds:g} s (minikafka.ready.in.sync.timeout.ms), though {problem}"
            )
            return ""
        return problem


def _out_of_sync(image: ClusterImage, broker_id: int) -> tuple[list[str], bool]:
    """Partitions with another leader that do not have this replica in their ISR; whether some have no leader."""
    behind = []
    leaderless = False
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            # A replica that a reassignment adds is not missed by anybody yet.
            if broker_id not in partition.replicas or broker_id in partition.adding or broker_id in partition.isr:
                continue
            if partition.leader == NO_LEADER:
                leaderless = True
            else:
                behind.append(f"{name}-{index}")
    return behind, leaderless
