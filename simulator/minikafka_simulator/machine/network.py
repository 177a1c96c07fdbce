"""The network between brokers and clients: delays, reordering, loss, cut links in one or both directions.

A message to a process that is down is *refused*, as TCP does it, which the sender notices; a message over a cut link just
vanishes, which it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from minikafka_chaos.links.rules import CLIENTS

from minikafka_simulator.machine.scheduler import Scheduler

CLIENT = CLIENTS
"""The one address of all clients; here their links are never cut, only slow."""

SEGMENT_SECONDS_MIN = 0.0002
LATE_SHARE, LATE_SECONDS_MAX = 0.02, 0.2
"""Some segments take much longer."""


class Server(Protocol):
    """A broker, as requests come to it."""

    @property
    def up(self) -> bool: ...
    @property
    def incarnation(self) -> int: ...

    def run(self, incarnation: int, event: Callable[[], None]) -> None:
        """Run an event of this incarnation now, or when a pause is over, or never."""


S = TypeVar("S", bound=Server)
Reply = Callable[[Any], None]
Handler = Callable[[S, Reply], None]


class Stream:
    """A client's connection: what is sent over it arrives in order, at one incarnation of a broker, or not at all."""

    __slots__ = ("arrives_at", "closed", "incarnation")

    def __init__(self) -> None:
        self.arrives_at = 0.0
        """No earlier does the next request arrive."""
        self.closed = False
        self.incarnation: int | None = None
        """Which the first request came to."""

    def reaches(self, broker: Server) -> bool:
        """Whether a request arrives that is due now."""
        if self.incarnation is None:
            self.incarnation = broker.incarnation
        self.closed |= not broker.up or broker.incarnation != self.incarnation
        return not self.closed


class Network(Generic[S]):
    """Requests to brokers, by their ids. Delays are in virtual seconds."""

    def __init__(self, scheduler: Scheduler, brokers: Mapping[int, S]) -> None:
        self.scheduler = scheduler
        self.brokers = brokers
        self.cut: set[tuple[int, int]] = set()
        self.slow_followers: dict[int, float] = {}
        """Seconds more that a follower's segments take on the way, and those to it."""
        self.loss = 0.0
        self.delay_max = 0.01

    def _delay(self) -> float:
        random = self.scheduler.random
        delay = random.uniform(0.0005, self.delay_max)
        if random.random() < 0.02:
            delay += random.uniform(0.0, 0.2)
        return delay

    def segment_seconds(self, source: int, target: int, random: Random) -> float | None:
        """How long a TCP segment takes now; None: it is lost."""
        if (source, target) in self.cut or (self.loss and random.random() < self.loss):
            return None
        late = random.uniform(0.0, LATE_SECONDS_MAX) if random.random() < LATE_SHARE else 0.0
        slow = self.slow_followers.get(source, 0.0) + self.slow_followers.get(target, 0.0)
        return random.uniform(SEGMENT_SECONDS_MIN, self.delay_max) + late + slow

    def request(
        self,
        target: int,
        handler: Handler[S],
        on_reply: Reply,
        on_refused: Callable[[], None] | None = None,
        *,
        stream: Stream | None = None,
    ) -> None:
        """Have ``handler`` run at ``target`` for a client; its reply comes back, or never.

        ``stream``: a client's connection that keeps the order of its requests; without one each may overtake the others.
        """
        scheduler = self.scheduler

        def answer(value: Any) -> None:
            if (target, CLIENT) not in self.cut:
                scheduler.at(self._delay(), lambda: on_reply(value))

        def arrive() -> None:
            broker = self.brokers[target]
            if (CLIENT, target) in self.cut:
                return
            if broker.up and (stream is None or stream.reaches(broker)):
                broker.run(broker.incarnation, lambda: handler(broker, answer))
            elif on_refused is not None:
                on_refused()

        if (CLIENT, target) in self.cut:
            return
        delay = self._delay()
        if stream is not None:
            delay = max(delay, stream.arrives_at - scheduler.now)
            stream.arrives_at = scheduler.now + delay
        scheduler.at(delay, arrive)

    def heal(self) -> None:
        self.cut.clear()
        self.slow_followers.clear()
        self.loss = 0.0
        self.delay_max = 0.01
