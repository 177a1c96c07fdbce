"""The network agents as the controller needs them: whether there are any before an experiment begins, and to heal after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from minikafka_kube.api_server import ApiError, ApiServer
from minikafka_kube.kinds import POD
from minikafka_kube.observed import Pod

from minikafka_chaos.controller.agents import CommandResult
from minikafka_chaos.experiment import record
from minikafka_chaos.experiment.status import ExperimentStatus
from minikafka_chaos.grounds.kubernetes_network import (
    COMMAND,
    CONTAINER,
    INSTALL,
    LABELS,
    VERBS,
    agents_refusal,
    is_ready,
    node_of,
)

logger = logging.getLogger(__name__)

NOT_INSTALLED = (
    f"this chaos controller knows no network agents: {INSTALL}, and set network.namespace of minikafka-chaos"
)


class CommandRunner(Protocol):
    """Runs commands in containers."""

    async def run(self, namespace: str, pod: str, command: Sequence[str], container: str) -> CommandResult:
        """Raises whatever the connection raises."""
        ...


def wants_links(experiment: Mapping[str, Any]) -> bool:
    """Return whether any step of an experiment takes a network agent. The document may be one that is refused."""
    for step in (experiment.get("spec") or {}).get("steps") or ():
        fault = step.get("fault") or {}
        if not VERBS.isdisjoint({fault.get("verb"), *(fault.get("oneOf") or ())}):
            return True
    return False


def has_links(status: ExperimentStatus, pod: Pod) -> bool:
    """Return whether a fault of the network may be left in a pod."""
    return any(fault.verb in VERBS and record.may_be_in(fault, pod) for fault in status.open_faults)


class NetworkAgentPods:
    """The agents in `namespace`; empty: there are none."""

    def __init__(self, server: ApiServer, runs: CommandRunner, namespace: str) -> None:
        self._server = server
        self._runs = runs
        self._namespace = namespace

    async def refusal(self, brokers: Iterable[Pod]) -> str:
        """Return why faults of the network cannot be made to these brokers; empty when they can."""
        if not self._namespace:
            return NOT_INSTALLED
        try:
            found = await self._server.find_all(POD, self._namespace, labels=LABELS)
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            return f"the network agents in namespace {self._namespace} cannot be looked for: {error}; {INSTALL}"
        return agents_refusal(self._namespace, found, {pod.name: pod.node for pod in brokers})

    async def recover(self, namespace: str, pod: Pod) -> str:
        """Have every fault of a pod's network ended. What went wrong, in one line; empty when nothing of them is left."""
        if not self._namespace:
            return NOT_INSTALLED
        try:
            found = await self._server.find_all(POD, self._namespace, labels=LABELS)
            agent = next((each for each in found if is_ready(each) and node_of(each) == pod.node), None)
            if agent is None:
                return f"node {pod.node} has no network agent that is ready"
            command = [COMMAND, "recover", namespace, "--pod", pod.name, "--uid", pod.uid]
            return (await self._runs.run(self._namespace, agent["metadata"]["name"], command, CONTAINER)).problem
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever it is: healing goes on, and without an answer the fault expires
            logger.warning("The network agent of %s was not reached: %r", pod.node, error)
            return " ".join(str(error).split()) or type(error).__name__
