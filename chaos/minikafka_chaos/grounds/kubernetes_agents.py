"""The agents beside a cluster's brokers (`minikafka agent`), asked by exec; docs/decisions/011-chaos-on-kubernetes.md."""

from __future__ import annotations

import base64
import io
import json
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds.kubernetes_api import ExecResult, Namespace, NotReached

CONTAINER = "chaos-agent"

RETRY_SECONDS_MAX = 20.0
"""An agent, or the way to it, that is away for a moment is asked again: every verb is safe to repeat with its id."""
RETRY_PAUSE_SECONDS = 0.5

Answer = TypeVar("Answer")


class NotDone(ToolTrouble):
    """An agent has answered that a verb cannot be done."""


def ask_agent(
    namespace: Namespace, pod: Callable[[], str], container: str, command: Sequence[str], who: str
) -> dict[str, Any]:
    """Return the line of JSON that an agent answers a verb with; `who` begins the words of an error. Raises NotDone, ToolTrouble.

    `pod` names the agent's pod, for each try anew, for it may be another by then; it raises NotReached when there is none now.
    """
    deadline = time.monotonic() + RETRY_SECONDS_MAX
    while True:
        try:
            ended = namespace.run(pod(), container, command)
            if ended.code == 0 and not _is_whole(ended.output):
                raise NotReached(f"{who}: the answer was lost on its way: {_begins(ended) or 'nothing came'}")
            break
        except NotReached:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_PAUSE_SECONDS)
    try:
        answer = json.loads(ended.output)
    except ValueError:
        raise NotDone(f"{who}: exit code {ended.code}: {_begins(ended)}") from None
    if not isinstance(answer, dict) or ended.code or "error" in answer:
        reason = answer.get("error") if isinstance(answer, dict) else answer
        raise NotDone(f"{who}: {reason}")
    return answer


def _is_whole(answer: str) -> bool:
    """Return whether this is a line of JSON: an agent that is done has written one, which may still be cut short on its way."""
    try:
        json.loads(answer)
    except ValueError:
        return False
    return True


def _begins(ended: ExecResult) -> str:
    """Return what a command said, as far as a line tells it."""
    return " ".join((ended.errors or ended.output).split())[:500]


class AgentClient:
    """`pod` gives the pod of a broker."""

    def __init__(self, namespace: Namespace, pod: Callable[[int], str]) -> None:
        self._namespace = namespace
        self._pod = pod

    def ask(self, broker: int, *words: object) -> dict[str, Any]:
        """Return what the agent of a broker answers to a verb. Raises NotDone, ToolTrouble."""
        command = ["minikafka", "agent", *map(str, words)]
        who = f"broker {broker}: agent {words[0]}"
        return ask_agent(self._namespace, lambda: self._pod(broker), CONTAINER, command, who)

    def fetch(self, broker: int, folder: Path, *words: object) -> None:
        """Put the files that a verb answers with into a folder. Raises NotDone, ToolTrouble."""
        packed = base64.b64decode(self.ask(broker, *words)["tar"])
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
                unpack(tar, folder)
        except (tarfile.TarError, OSError) as error:
            raise ToolTrouble(f"broker {broker}: agent {words[0]}: {error}") from error


def unpack(tar: tarfile.TarFile, folder: Path) -> None:
    """Files and folders into a folder, and nothing outside of it. Raises tarfile.TarError for anything else, OSError.

    Not `extractall(filter="data")`, which Python has from 3.11.4 on only: Debian 12's is older.
    """
    inside = folder.resolve()
    for member in tar.getmembers():
        path = (inside / member.name).resolve()
        if not path.is_relative_to(inside) or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name}: no file or folder below this one")
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        content = tar.extractfile(member)
        assert content is not None
        with content, path.open("wb") as file:
            shutil.copyfileobj(content, file)


def at_once(work: Callable[[int], Answer], brokers: Iterable[int]) -> list[Answer]:
    """The same for several brokers, side by side; raises what the first of them raised, when all have ended."""
    wanted = list(brokers)
    with ThreadPoolExecutor(max(1, len(wanted)), "broker") as pool:
        return list(pool.map(work, wanted))
