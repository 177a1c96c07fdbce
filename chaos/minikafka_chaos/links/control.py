"""The runner's side of the proxy between brokers: starts it, tells it the rules, ends it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from minikafka.local.forks import call_in_children, close_quietly

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.links.registry import LinkFaults
from minikafka_chaos.links.rules import as_json

COMMAND = (sys.executable, "-P", "-m", "minikafka_chaos.links.proxy")
END_SECONDS_MAX = 10.0


class LinkControl:
    """Starts the proxy with no rule in force; `change` changes that.

    `ports` has (port that is advertised, port that the broker listens on, broker, whether clients come there). Safe to call
    from several threads. Raises ToolTrouble when the proxy has ended.
    """

    def __init__(self, folder: Path, ports: Iterable[tuple[int, int, int, bool]], seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._faults = LinkFaults()
        with (folder / "links.log").open("ab") as log:
            self._process = subprocess.Popen(
                (*COMMAND, str(folder)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # a terminal's Ctrl-C is for the runner, which heals before it ends
            )
        call_in_children(self._let_go)
        self._send({"ports": [list(port) for port in ports], "seed": seed})

    def _let_go(self) -> None:
        """The proxy ends with its standard input, which only this process is to hold."""
        assert self._process.stdin is not None
        close_quietly(self._process.stdin.fileno())

    @property
    def pid(self) -> int:
        return self._process.pid

    def _send(self, order: dict[str, object]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().strip()
        except OSError as error:
            raise ToolTrouble(f"the proxy between the brokers: {error}") from error
        if answer != "ok":
            raise ToolTrouble(f"the proxy between the brokers has ended: {answer or 'no answer'}")

    def change(self, change: Callable[[LinkFaults], bool]) -> bool:
        """Make or end faults of the network; in force when this returns. Whether there was anything to change."""
        with self._lock:
            changed = change(self._faults)
            if changed:
                self._send({"rules": as_json(self._faults.rules)})
            return changed

    def close(self) -> None:
        """End the proxy. Safe to call twice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            try:
                self._process.stdin.close()
            except OSError:
                pass  # it has ended meanwhile
            try:
                self._process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process.stdout.close()
