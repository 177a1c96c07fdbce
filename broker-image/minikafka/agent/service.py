"""`minikafka agent serve`: the main process of the container `chaos-agent`. It ends what has expired, and nothing else."""

from __future__ import annotations

import signal

from minikafka.agent.agent import BrokerAgent
from minikafka.agent.errors import AgentError
from minikafka.agent.faults import AgentVerb, UnreadableFaults
from minikafka.telemetry.console import tell

POLL_SECONDS = 0.25
COMPLAINT_SECONDS = 60.0
"""The same trouble is told again after so long."""

_STOP = (signal.SIGTERM, signal.SIGINT)


def serve(agent: BrokerAgent) -> int:
    """Run until SIGTERM or SIGINT: then the pod goes. A paused broker goes on first, or it could not stop in order."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    agent.folder.mkdir(parents=True, exist_ok=True)
    tell(f"chaos-agent: of the broker with {agent.target.config}; faults in {agent.folder}")
    quiet: dict[str, float] = {}
    while True:
        try:
            for fault in agent.expire():
                tell(f"chaos-agent: {fault.verb} {fault.id} has expired and was undone")
        except UnreadableFaults as error:
            tell(f"chaos-agent: {error}; put aside, and all faults are taken for over")
            for pid in agent.forget_unreadable():
                tell(f"chaos-agent: process {pid} goes on")
        except (AgentError, OSError) as error:
            now = agent.clock()
            if now >= quiet.get(str(error), 0.0):
                quiet = {str(error): now + COMPLAINT_SECONDS}
                tell(f"chaos-agent: cannot end what has expired, and tries again: {error}")
        if signal.sigtimedwait(_STOP, POLL_SECONDS) is not None:
            break
    try:
        agent.recover([AgentVerb.PAUSE], by="stop of the agent")
    except (AgentError, UnreadableFaults, OSError) as error:
        tell(f"chaos-agent: {error}")
    return 0
