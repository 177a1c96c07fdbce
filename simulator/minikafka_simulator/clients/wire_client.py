"""A client asks brokers by Kafka's requests, whatever for: no request may fail inside a broker."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from minikafka.protocol import messages

from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker


class WireClient:
    """``random``: a source of its own, so that other choices of the run do not depend on it."""

    def __init__(self, world: CheckedCluster, random: Random) -> None:
        self._world = world
        self._random = random

    def _any(self) -> int | None:
        """A broker that is up."""
        up = [number for number, broker in self._world.brokers.items() if broker.up]
        return self._random.choice(up) if up else None

    def _ask(self, broker: int, api: tuple[int, int], values: dict[str, Any], answered: Reply | None = None) -> None:
        """``api``: key and version. There may be no answer."""
        world = self._world

        def serve(asked: SimBroker, reply: Reply) -> None:
            asked.gate.ask(api, values, reply)

        def done(answer: messages.Entity) -> None:
            if "unknown_server_error" in repr(answer):
                world.checker.fail("E1 no exception", f"broker {broker} fails on API {api[0]}: {answer!r}")
            if answered is not None:
                answered(answer)

        world.network.request(broker, serve, done)
