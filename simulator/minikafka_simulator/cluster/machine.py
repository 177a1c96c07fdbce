"""The machine that a simulated broker runs on: time, chance, disk, events and console are the simulation's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from minikafka.config import BrokerConfig
from minikafka.groups.host import PASSED_OVER
from minikafka.log.filesystem import FileSystem
from minikafka.replication.clock import Clock
from minikafka.server.machine import Machine
from minikafka.telemetry.events import EventLog

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


class SimMachine(Machine):
    """See the module."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        world = broker.world
        self.load_slice = world.load_slice

        def later(seconds: float, event: Callable[[], None]) -> object:
            return broker.loop.call_later(seconds or world.next_turn(), event)

        self.clock = Clock(lambda: world.now, lambda: broker.now_ms, later)

    descriptors = None

    def tell(self, broker_id: int, line: str) -> None:
        """Into the trace."""
        if PASSED_OVER in line:
            self.broker.broke(AssertionError(line))
        self.broker.world.note(f"b{broker_id} {line}")

    def new_id(self) -> UUID:
        return UUID(int=self.broker.world.random.getrandbits(128), version=4)

    def events(self, config: BrokerConfig) -> EventLog:
        return _Events(self.broker, config.node_id)

    def disk(self, config: BrokerConfig, warn: Callable[[str], None]) -> FileSystem:
        del config, warn
        return self.broker.disk


class _Events(EventLog):
    """Into the trace, and to whoever looks for events in the world."""

    __slots__ = ("_broker",)

    def __init__(self, broker: SimBroker, broker_id: int) -> None:
        super().__init__(None, broker_id)
        self._broker = broker

    def emit(self, event: str, *, topic: str | None = None, partition: int | None = None, **fields: Any) -> None:
        super().emit(event, topic=topic, partition=partition, **fields)
        broker = self._broker
        where = "" if topic is None else f" {topic}-{partition}"
        broker.world.note(f"b{broker.id}{where} {event} " + " ".join(f"{k}={v}" for k, v in fields.items()))
        broker.world.event(broker, event, topic, partition, **fields)
        if event == "group_deleted":
            broker.world.watcher.group_deleted(str(fields["group"]))
