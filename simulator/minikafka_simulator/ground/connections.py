"""A healthy network, as TCP shows it: answers come in order and none is lost; what breaks is noticed.

A process that ends closes its connections: whoever waits for its answer learns that at once. A link that is cut lets
nothing through, and nobody is told; when it heals, what was under way is refused, as an old connection would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from minikafka_chaos.links.registry import LinkFaults
from minikafka_chaos.links.rules import LinkRule, Way

from minikafka_simulator.cluster.broker import SimBroker
from minikafka_simulator.machine.network import CLIENT, Handler, Network, Reply, Stream
from minikafka_simulator.machine.scheduler import Scheduler

DELAY_S_MIN, DELAY_S_MAX = 0.0002, 0.001
"""One way, in one data centre."""


def _nothing() -> None:
    """What is left to do with a request that is over."""


class _Request:
    """One that has no answer yet."""

    __slots__ = ("open", "refuse", "stuck", "target")

    def __init__(self, target: int) -> None:
        self.target = target
        self.open = True
        self.stuck = False
        """The link was cut under it."""
        self.refuse = _nothing


class Connections(Network[SimBroker]):
    """See the module."""

    def __init__(self, scheduler: Scheduler, brokers: Mapping[int, SimBroker]) -> None:
        super().__init__(scheduler, brokers)
        self._arrivals: dict[tuple[int, int], float] = {}
        self._open: dict[_Request, None] = {}
        self._faults = LinkFaults()
        self._rules: dict[Way, LinkRule] = {}

    def segment_seconds(self, source: int, target: int, random: Random) -> float | None:
        way = Way(source, target)
        if way in self.cut:
            return None
        rule = self._rules.get(way)
        return random.uniform(DELAY_S_MIN, DELAY_S_MAX) + (0.0 if rule is None else rule.seconds(1, random))

    def _deliver(self, source: int, target: int, event: Callable[[], None]) -> None:
        """After everything else that goes this way."""
        now = self.scheduler.now
        earliest = now + self.scheduler.random.uniform(DELAY_S_MIN, DELAY_S_MAX)
        if (rule := self._rules.get(Way(source, target))) is not None:
            earliest += rule.seconds(1, self.scheduler.random)
        when = max(earliest, self._arrivals.get((source, target), 0.0))
        self._arrivals[source, target] = when
        self.scheduler.at(when - now, event)

    def _close(self, asked: _Request) -> None:
        asked.open = False
        asked.refuse = _nothing  # or it would keep itself alive
        del self._open[asked]

    def request(
        self,
        target: int,
        handler: Handler[SimBroker],
        on_reply: Reply,
        on_refused: Callable[[], None] | None = None,
        *,
        stream: Stream | None = None,
    ) -> None:
        del stream  # every connection keeps the order
        asked = _Request(target)
        self._open[asked] = None

        def at_client(event: Callable[[], None]) -> None:
            if asked.open:
                self._close(asked)
                event()

        def refuse() -> None:
            if on_refused is not None:
                self._deliver(target, CLIENT, lambda: at_client(on_refused))
            elif asked.open:
                self._close(asked)

        asked.refuse = refuse

        def answer(value: Any) -> None:
            if (target, CLIENT) in self.cut:
                asked.stuck = True
            elif asked.open:
                self._deliver(target, CLIENT, lambda: at_client(lambda: on_reply(value)))

        def arrive() -> None:
            broker = self.brokers[target]
            if (CLIENT, target) in self.cut:
                asked.stuck = True
            elif not broker.up:
                refuse()
            elif asked.open:
                broker.run(broker.incarnation, lambda: handler(broker, answer))

        if (CLIENT, target) in self.cut:
            asked.stuck = True
        else:
            self._deliver(CLIENT, target, arrive)

    def closed(self, broker: int) -> None:
        """A process has ended: who asked it is told."""
        for asked in list(self._open):
            if asked.target == broker:
                if {(broker, CLIENT), (CLIENT, broker)} & self.cut:
                    asked.stuck = True
                else:
                    asked.refuse()

    def change(self, change: Callable[[LinkFaults], bool]) -> bool:
        """Make or end faults of the network; whether there was anything to change."""
        if not change(self._faults):
            return False
        self._rules = {way: rule for way, rule in self._faults.rules.items() if not rule.blocks}
        blocked = {(way.source, way.target) for way, rule in self._faults.rules.items() if rule.blocks}
        healed = self.cut - blocked
        self.cut = blocked
        for asked in list(self._open):
            ways = {(CLIENT, asked.target), (asked.target, CLIENT)}
            if asked.stuck and ways & healed and not ways & blocked:
                asked.refuse()
        return True
