"""What a simulated broker's reporter, which is production's, needs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.replication.clock import Clock
from minikafka.telemetry.stats import BrokerStats

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class SimContext:
    """Brings the reports of one incarnation to its event log."""

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker
        self.clock = Clock(lambda: broker.world.now, lambda: broker.now_ms, broker.later)
        self.stats = BrokerStats()
        self.events = self

    def emit(self, event: str, *, topic: str | None = None, partition: int | None = None, **fields: Any) -> None:
        """Write an event into the broker's event log; into the trace, too, where appends begin or cease to wait for room."""
        if event.startswith("unflushed_volume"):
            self._broker.world.note(f"b{self._broker.id} {event}")
        self._broker.world.event(self._broker, event, topic, partition, **fields)

    def warn_rarely(self, key: str, line: str) -> bool:
        """Write a line for the operator into the trace, whatever was written before: a trace may be long."""
        del key
        self._broker.world.note(f"b{self._broker.id} {line}")
        return True
