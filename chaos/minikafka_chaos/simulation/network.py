"""The network between brokers and clients: delays, reordering, loss, duplication, cut links in one or both directions.

A message to a process that is down is *refused*, as TCP does it, which the sender notices; a message over a cut link just
vanishes, which it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from minikafka_chaos.links.rules import CLIENTS

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.cluster import SimCluster

CLIENT = CLIENTS
"""The one address of all clients; here their links are never cut, only slow."""

SEGMENT_SECONDS_MIN = 0.0002
LATE_SHARE, LATE_SECONDS_MAX = 0.02, 0.2
"""Some segments take much longer."""

Reply = Callable[[Any], None]
Handler = Callable[["SimBroker", Reply], None]


class Stream:
    """A client's connection: what is sent over it arrives in order, at one incarnation of a broker, or not at all."""

    __slots__ = ("arrives_at", "closed", "incarnation")

    def __init__(self) -> None:
        self.arrives_at = 0.0
        """No earlier does the next request arrive."""
        self.closed = False
        self.incarnation: int | None = None
        """Which the first request came to."""

    def reaches(self, broker: SimBroker) -> bool:
        """Whether a request arrives that is due now."""
        if self.incarnation is None:
            self.incarnation = broker.incarnation
        self.closed |= not broker.up or broker.incarnation != self.incarnation
        return not self.closed


class Network:
    """Requests between nodes. Delays are in virtual seconds."""

    def __init__(self, world: SimCluster) -> None:
        self.world = world
        self.cut: set[tuple[int, int]] = set()
        self.slow_fetches: dict[int, float] = {}
        """Seconds more that a follower's fetch takes on the way, and its answer."""
        self.loss = 0.0
        self.duplication = 0.0
        self.delay_max = 0.01

    def _delay(self) -> float:
        random = self.world.random
        delay = random.uniform(0.0005, self.delay_max)
        if random.random() < 0.02:
            delay += random.uniform(0.0, 0.2)
        return delay

    def segment_seconds(self, source: int, target: int, random: Random) -> float | None:
        """How long a TCP segment takes now; None: it is lost."""
        if (source, target) in self.cut or (self.loss and random.random() < self.loss):
            return None
        late = random.uniform(0.0, LATE_SECONDS_MAX) if random.random() < LATE_SHARE else 0.0
        return random.uniform(SEGMENT_SECONDS_MIN, self.delay_max) + late

    def _lost(self, source: int, target: int) -> bool:
        if (source, target) in self.cut:
            return True
        return self.loss > 0 and CLIENT not in (source, target) and self.world.random.random() < self.loss

    def request(
        self,
        source: int,
        target: int,
        handler: Handler,
        on_reply: Reply,
        on_refused: Callable[[], None] | None = None,
        *,
        fetch: bool = False,
        stream: Stream | None = None,
    ) -> None:
        """Have ``handler`` run at ``target``; its reply comes back to the same incarnation of ``source``, or never.

        ``stream``: a client's connection that keeps the order of its requests; without one each may overtake the others.
        """
        world = self.world
        more = self.slow_fetches.get(source, 0.0) if fetch else 0.0
        sender = world.brokers.get(source)
        incarnation = sender.incarnation if sender is not None else 0

        def answer(value: Any) -> None:
            if not self._lost(target, source):
                world.scheduler.at(self._delay() + more, lambda: deliver(value))

        def deliver(value: Any) -> None:
            if sender is None:
                on_reply(value)
            else:
                sender.run(incarnation, lambda: on_reply(value))

        def arrive() -> None:
            broker = world.brokers[target]
            if (source, target) in self.cut:
                return
            if not broker.up or (stream is not None and not stream.reaches(broker)):
                if on_refused is not None:
                    if sender is None:
                        on_refused()
                    else:
                        sender.run(incarnation, on_refused)
                return
            broker.run(broker.incarnation, lambda: handler(broker, answer))

        if self._lost(source, target):
            return
        delay = self._delay() + more
        if stream is not None:
            delay = max(delay, stream.arrives_at - world.now)
            stream.arrives_at = world.now + delay
        world.scheduler.at(delay, arrive)
        if self.duplication and source != CLIENT and world.random.random() < self.duplication:
            world.scheduler.at(world.random.uniform(0.0, 3.0), arrive)

    def heal(self) -> None:
        self.cut.clear()
        self.slow_fetches.clear()
        self.loss = self.duplication = 0.0
        self.delay_max = 0.01
