"""Which closed connection means, to a controller, that a broker has died (decision 002)."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C")


class Heartbeats(NamedTuple):
    """Whose heartbeats a connection carries, and to the controller of which term."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int


class HeartbeatConnections(Generic[C]):
    """The connections over which brokers were heard, by identity."""

    def __init__(self) -> None:
        self._newest: dict[int, C] = {}
        self._carried: dict[int, Heartbeats] = {}
        self._hangs_up = False

    def newest(self, broker_id: int) -> C | None:
        """The one whose end is the death of this broker."""
        return self._newest.get(broker_id)

    def heard_from(self, connection: C, heartbeats: Heartbeats) -> None:
        """A heartbeat came over this connection: from now on it is the one whose end counts."""
        if self._hangs_up:
            return
        self._newest[heartbeats.broker_id] = connection
        self._carried[heartbeats.broker_id] = heartbeats

    def closed(self, connection: C) -> Heartbeats | None:
        """Who is lost with it: nobody when its broker has a newer one by now, or it carried no heartbeats."""
        for broker_id, newest in self._newest.items():
            if newest is connection:
                del self._newest[broker_id]
                return self._carried.pop(broker_id)
        return None

    def hang_up(self) -> None:
        """It is this broker that closes all connections: as the controller it must not take the others for dead, nor those whose
        last heartbeat is handled only now.
        """
        self._hangs_up = True
        self._newest.clear()
        self._carried.clear()
