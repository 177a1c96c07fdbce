"""`minikafka-network serve`: the main process of the agent. The kernel ends what has expired; this takes away what is left of it.

What is left of a fault that is over stays for a while, so that a verb which is repeated after its answer was lost finds that its
work was done. Faults that go on when this process ends are left alone: they end by themselves.
"""

from __future__ import annotations

import contextlib
import signal
import time
from contextlib import AbstractContextManager

from minikafka.telemetry.console import tell

from minikafka_chaos.network.agent import NetworkAgent
from minikafka_chaos.network.errors import AgentError, BadRequest, NoProcess
from minikafka_chaos.network.namespaces import Entered, NodeNamespaces
from minikafka_chaos.network.rules import CLIENTS, LinkFault, LinkVerb, Peer, installing

READY = "ready"
"""File in the agent's folder; the chart's readiness probe looks for it."""
POLL_SECONDS = 2.0
REMEMBERED_SECONDS = 120.0
"""Longer than anybody repeats a verb (`minikafka_chaos.grounds.kubernetes_agents`)."""

_STOP = (signal.SIGTERM, signal.SIGINT)


class Tidying:
    """What was seen to be over, and since when. Times are of a monotonic clock, in seconds."""

    def __init__(self, agent: NetworkAgent) -> None:
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


def check(agent: NetworkAgent, own: AbstractContextManager[Entered]) -> None:
    """Whether this node can do what will be asked for: then the pod is ready, and experiments begin. Raises NotNow."""
    ready = agent.folder / READY
    agent.folder.mkdir(parents=True, exist_ok=True)
    ready.unlink(missing_ok=True)
    peers = (Peer("p", ("192.0.2.1", "2001:db8::1"), (1,)), Peer(CLIENTS, (), (2,)))
    with own as where:
        agent.nft.check(where, installing(LinkFault("check", LinkVerb.LOSS, 1, peers, percent=50)))
    ready.touch()


def serve(agent: NetworkAgent, namespaces: NodeNamespaces) -> int:
    """Run until SIGTERM or SIGINT. Begins with all pods of the node: one before this may have touched any of them.

    Raises NotNow when this node cannot do it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    check(agent, namespaces.own())
    tell(f"network-agent: of node {agent.node}")
    tidying = Tidying(agent)
    found = namespaces.pods()
    while True:
        with contextlib.suppress(OSError):
            tidying.look(found, time.monotonic())
        if signal.sigtimedwait(_STOP, POLL_SECONDS) is not None:
            return 0
        found = agent.touched()
