"""The way to the agents: ``minikafka agent VERB`` through ``pods/exec``, in the container ``chaos-agent`` and in no other; and
to the network agents, in theirs.

The official client speaks the WebSocket protocol; here one exec is one connection, whose standard output is the agent's
line of JSON and whose last message is the exit code.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.stream import WsApiClient
from minikafka_kube.kinds import POD

from minikafka_chaos.experiment.kinds import AGENT_CONTAINER

logger = logging.getLogger(__name__)

COMMAND: Final = ("minikafka", "agent")
OUTPUT_BYTES_MAX: Final = 1 << 20
"""The verbs that are used here answer with a line."""

_STDOUT, _STDERR, _ERROR = 1, 2, 3


@dataclass(frozen=True)
class CommandResult:
    """What a command in a pod said."""

    code: int
    stdout: str
    stderr: str

    @property
    def problem(self) -> str:
        """Return what went wrong, in one line; empty when nothing did."""
        if self.code == 0:
            return ""
        try:
            message = str(json.loads(self.stdout)["error"])
        except (ValueError, KeyError, TypeError):
            message = " ".join((self.stderr or self.stdout).split())
        return message or f"exit code {self.code}"


class PodAgents:
    """The agents of brokers' pods. Each call is a connection of its own: they are rare."""

    def __init__(self, login: Callable[[], Awaitable[Configuration]]) -> None:
        self._login = login

    async def recover(self, namespace: str, pod: str) -> str:
        """Have every fault in a pod undone. What went wrong, in one line; empty when nothing of them is left."""
        try:
            return (await self.run(namespace, pod, [*COMMAND, "recover"])).problem
        except Exception as error:  # whatever it is: healing goes on, and without an answer the fault expires
            logger.warning("The agent of %s/%s was not reached: %r", namespace, pod, error)
            return " ".join(str(error).split()) or type(error).__name__

    async def run(
        self, namespace: str, pod: str, command: Sequence[str], container: str = AGENT_CONTAINER
    ) -> CommandResult:
        """Run a command in an agent's container. Raises aiohttp's errors, and ValueError for what is no answer."""
        configuration = await self._login()
        configuration.client_session_kwargs = {"trust_env": False}
        query = [("command", list(command)), ("container", container), ("stdout", "true"), ("stderr", "true")]
        async with WsApiClient(configuration) as client:
            path = POD.path(namespace, pod, "exec")
            headers: dict[str, Any] = {}
            await client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
            connecting = await client.request(
                "GET", configuration.host + path, query_params=query, headers=headers, _preload_content=False
            )
            async with connecting as connection:
                return await _read(connection)


async def _read(connection: aiohttp.ClientWebSocketResponse) -> CommandResult:
    said = {_STDOUT: bytearray(), _STDERR: bytearray(), _ERROR: bytearray()}
    async for message in connection:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel = message.data[0]
        if channel in said:
            said[channel] += message.data[1:]
            if len(said[channel]) > OUTPUT_BYTES_MAX:
                raise ValueError(f"more than {OUTPUT_BYTES_MAX} bytes of output")
    if not said[_ERROR]:
        raise ValueError("the connection ended before the command did")
    return CommandResult(
        _exit_code(bytes(said[_ERROR])), said[_STDOUT].decode(errors="replace"), said[_STDERR].decode(errors="replace")
    )


def _exit_code(status: bytes) -> int:
    """From the ``metav1.Status`` that ends an exec. Raises ValueError for one that speaks of no exit code."""
    answer = json.loads(status)
    if answer.get("status") == "Success":
        return 0
    for cause in (answer.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ValueError(f"the command could not be run: {answer.get('message') or answer}")
