"""What is wrong with this broker now, by component: ``/healthz``, the metric ``minikafka_component_failed`` and two events.

A component is reported when it cannot do its work, for whatever reason, and cleared when it has done it again. While
anything is reported ``/healthz`` answers 503 with one line for each, so that a supervisor restarts a broker that cannot
help itself. Where a restart would not help, ``/healthz`` has the line, and answers 200 if there is no other. What is
expected to go wrong (a peer or the cluster store that is away, a request that is refused) is no problem of the broker's,
and is not reported here; but that no controller has answered for long is (``controller_contact.py``), whatever the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

PROBLEM_CHARACTERS_MAX = 500
"""A problem is one line: a path or a message of a library in it may be long."""


class Health:
    """The named problems of one broker.

    Args:
        emit: takes an event's name and fields, see ``telemetry/events.py``.
        now: monotonic seconds.
    """

    def __init__(self, emit: Callable[..., None], now: Callable[[], float] = time.monotonic) -> None:
        self._emit = emit
        self._now = now
        self._problems: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._only_reported: set[str] = set()

    def report(self, component: str, problem: str, *, restart_helps: bool = True) -> None:
        """`component` cannot do its work. Told as an event once, until it is cleared; the line of /healthz is the last one."""
        (self._only_reported.discard if restart_helps else self._only_reported.add)(component)
        line = " ".join(problem.split())[:PROBLEM_CHARACTERS_MAX]
        known = component in self._problems
        self._problems[component] = line
        if not known:
            self._since[component] = self._now()
            self._emit("component_failed", component=component, error=line)

    def clear(self, component: str) -> None:
        """`component` works. Without a problem before nothing happens."""
        if self._problems.pop(component, None) is not None:
            seconds = self._now() - self._since.pop(component)
            self._emit("component_recovered", component=component, seconds=round(seconds, 4))

    def problems(self) -> Mapping[str, str]:
        """Component to problem, the oldest first; empty when all is well."""
        return dict(self._problems)

    def verdict(self) -> tuple[bool, str]:
        """For ``/healthz``: whether this broker needs no restart, and ``ok`` or one line for each problem."""
        lines = [f"{component}: {problem}" for component, problem in self._problems.items()]
        return self._problems.keys() <= self._only_reported, "\n".join(lines) or "ok"
