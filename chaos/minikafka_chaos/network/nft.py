"""`nft`, run in the network namespace of a pod: fixed words, and JSON through its standard input."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from minikafka_chaos.network.errors import NotNow
from minikafka_chaos.network.namespaces import Entered
from minikafka_chaos.network.rules import FAMILY, TABLE, Command

NFT, NSENTER = "/usr/sbin/nft", "/usr/bin/nsenter"
SECONDS_MAX = 10.0
_MISSING = "No such file or directory"


class Nft(Protocol):
    """What carries rules into a namespace."""

    def apply(self, where: Entered, commands: Sequence[Command]) -> None:
        """All of the commands, or none. Raises NotNow."""
        ...

    def check(self, where: Entered, commands: Sequence[Command]) -> None:
        """Whether program and kernel would take these commands; nothing is changed. Raises NotNow."""
        ...

    def listing(self, where: Entered) -> Mapping[str, Any]:
        """The table of this agent; empty when there is none. Raises NotNow."""
        ...


class NftProgram:
    """The program of the Debian package `nftables`."""

    def apply(self, where: Entered, commands: Sequence[Command]) -> None:
        self._send(where, commands)

    def check(self, where: Entered, commands: Sequence[Command]) -> None:
        self._send(where, commands, "--check")

    def _send(self, where: Entered, commands: Sequence[Command], *options: str) -> None:
        done = self._run(where, [NFT, *options, "--json", "--file", "-"], json.dumps({"nftables": list(commands)}))
        if done.returncode:
            raise NotNow(f"nft: {_line(done.stderr)}")

    def listing(self, where: Entered) -> Mapping[str, Any]:
        done = self._run(where, [NFT, "--json", "list", "table", FAMILY, TABLE], "")
        if done.returncode:
            if _MISSING in done.stderr:
                return {}
            raise NotNow(f"nft: {_line(done.stderr)}")
        try:
            found: Mapping[str, Any] = json.loads(done.stdout)
        except ValueError as error:
            raise NotNow(f"nft: not JSON: {error}") from error
        return found

    def _run(self, where: Entered, command: Sequence[str], given: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [NSENTER, f"--net={where.path}", "--", *command],
                input=given,
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                pass_fds=(where.fd,),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotNow(f"nft: {error}") from error


def _line(said: str) -> str:
    return " ".join(said.split())[:500] or "it failed without a word"
