"""`minikafka-network serve`: the main process of the agent. The kernel ends what has expired; this takes away what is left of it.

What is left of a fault that is over stays for a while, so that a verb which is repeated after its answer was lost finds that its
work was done. Faults that go on when this process ends are left alone: they end by themselves.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable

from minikafka.telemetry.console import tell

from minikafka_chaos.network.agent import Agent
from minikafka_chaos.network.errors import AgentError, BadRequest, NoProcess

POLL_SECONDS = 2.0
REMEMBERED_SECONDS = 120.0
"""Longer than anybody repeats a verb (`minikafka_chaos.grounds.kubernetes_agents`)."""

_STOP = (signal.SIGTERM, signal.SIGINT)


class Tidying:
    """What was seen to be over, and since when. Times are of a monotonic clock, in seconds."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._over: dict[tuple[str, str], float] = {}

    def look(self, uids: set[str], now: float) -> None:
        """Look at these pods, and take away what has been over for long."""
        for uid in sorted(uids):
            try:
                self._look(uid, now)
            except (NoProcess, BadRequest):  # it is gone; or it is one of the node's own, which are never touched
                self._forget(uid)
            except AgentError as error:
                tell(f"network-agent: pod {uid}: {error}")

    def _look(self, uid: str, now: float) -> None:
        found = self._agent.left_over(uid)
        over = {key for key, is_over in found.items() if is_over}
        self._over = {key: since for key, since in self._over.items() if key[0] != uid or key[1] in over}
        for key in over:
            self._over.setdefault((uid, key), now)
        due = {key for key in over if now - self._over[uid, key] >= REMEMBERED_SECONDS}
        if due or not found:
            self._agent.tidy(uid, due)

    def _forget(self, uid: str) -> None:
        self._agent.forget(uid)
        self._over = {key: since for key, since in self._over.items() if key[0] != uid}


def serve(agent: Agent, pods: Callable[[], set[str]]) -> int:
    """Run until SIGTERM or SIGINT. `pods` are all that are on this node: one before this may have touched any of them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    agent.folder.mkdir(parents=True, exist_ok=True)
    tell(f"network-agent: of node {agent.node}")
    tidying = Tidying(agent)
    found = pods()
    while True:
        with contextlib.suppress(OSError):
            tidying.look(found, time.monotonic())
        if signal.sigtimedwait(_STOP, POLL_SECONDS) is not None:
            return 0
        found = agent.touched()
