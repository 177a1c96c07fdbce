"""Whether any controller answers this broker. A broker that none answers goes by what it last heard, and says so in ``/healthz``.

Whatever keeps the lease from being renewed shows in it: a store that cannot be reached, one that refuses this broker's token,
a controller behind a broken network. A restart would mend none of these, and would cost the partitions that are led here for
as long as nobody can elect, so none is asked for. A controller whose lease cannot be renewed answers others as before, for
nobody else can take it meanwhile; so it is the one that tells.
"""

from __future__ import annotations

from typing import Final

from minikafka.server.health import Health

COMPONENT: Final = "controller contact"
"""Names what may fail here, for /healthz."""

SESSIONS_MAX: Final = 3
"""A controller that dies is replaced after a session, one that leaves the lease to others after two."""


class ControllerContact:
    """Of one broker. ``now`` are seconds of its clock."""

    def __init__(self, health: Health, session_seconds: float, now: float) -> None:
        self._health = health
        self._seconds_max = SESSIONS_MAX * session_seconds
        self._answered_at = now
        self._problem = ""

    def answered(self, now: float) -> None:
        """A controller has taken this broker's word, or this one has shown that it is the controller."""
        if now > self._answered_at:
            self._answered_at = now
            self._problem = ""
            self._health.clear(COMPONENT)

    def store_failed(self, problem: str) -> None:
        """Where the controller is could not be read in the store, or it could not be taken there."""
        self._problem = f"; cluster store: {problem}"

    def look(self, now: float) -> None:
        """Tell when it has been too long."""
        if now - self._answered_at > self._seconds_max:
            line = f"no controller has answered for {self._seconds_max:g} s{self._problem}"
            self._health.report(COMPONENT, line, restart_helps=False)
