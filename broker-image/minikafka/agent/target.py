"""The broker that an agent stands beside: its process, known by its command line, and its folders, by its properties."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minikafka.agent.errors import BadRequest, NotNow
from minikafka.config.keys import ConfigError
from minikafka.config.properties import expand_environment, read_properties
from minikafka.local import process
from minikafka.local.process import ProcessHandle, ProcessIdentity
from minikafka.log.data_directory import LOCK_FILE

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class TargetBroker:
    """The broker with this properties file; the path is as on the broker's command line."""

    config: Path

    # -- folders -------------------------------------------------------------------------------------------------------

    def _setting(self, *names: str) -> str | None:
        try:
            found = read_properties(self.config)
            # Only what is asked for: the broker's container knows variables that the agent's does not.
            name = next((name for name in names if found.get(name)), None)
            return expand_environment({name: found[name]}, os.environ)[name] if name else None
        except ConfigError as error:
            raise BadRequest(str(error)) from error

    @property
    def data(self) -> list[Path]:
        """`log.dirs`. Raises BadRequest when the properties cannot be read or have none."""
        found = self._setting("log.dirs", "log.dir")
        if not found:
            raise BadRequest(f"{self.config}: log.dirs is not set")
        return [Path(part.strip()) for part in found.split(",") if part.strip()]

    @property
    def unflushed(self) -> Path | None:
        """The unflushed volume, when the broker has one."""
        found = self._setting("minikafka.unflushed.dir")
        return Path(found) if found else None

    @property
    def events(self) -> Path | None:
        """The event log, when the broker keeps one."""
        found = self._setting("minikafka.events.path")
        return Path(found) if found else None

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Hold the locks of the data folders, so that no broker has them open, nor opens them.

        Raises NotNow when a broker has one.
        """
        with contextlib.ExitStack() as stack:
            for folder in self.data:
                if not folder.is_dir():
                    continue
                lock = stack.enter_context((folder / LOCK_FILE).open("a"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise NotNow(f"{folder}: a running broker holds the lock") from None
            yield

    # -- processes -----------------------------------------------------------------------------------------------------

    def processes(self) -> list[ProcessIdentity]:
        """The broker's processes: of this user, with `broker` and this properties file in the command line."""
        found = []
        for pid in process.running():
            if pid != os.getpid() and self._is_broker(pid) and (ticks := process.start_ticks(pid)) is not None:
                found.append(ProcessIdentity(pid, ticks))
        return found

    def _is_broker(self, pid: int) -> bool:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                return False
        except (FileNotFoundError, ProcessLookupError):
            return False
        arguments = process.command_line(pid)
        if "broker" not in arguments or process.state(pid) in (None, "Z", "X"):
            return False
        options = arguments[arguments.index("broker") + 1 :]
        given = [
            *(value for name, value in itertools.pairwise(options) if name == "--config"),
            *(each.removeprefix("--config=") for each in options if each.startswith("--config=")),
        ]
        return str(self.config) in given

    def is_stopped(self, identity: ProcessIdentity) -> bool:
        """Return whether SIGSTOP holds the process."""
        return process.start_ticks(identity.pid) == identity.start_ticks and process.has_stopped(identity.pid)

    @contextlib.contextmanager
    def living(self, identities: Iterable[ProcessIdentity]) -> Iterator[list[ProcessHandle]]:
        """Those of the processes that still are, held, so that a signal cannot reach another one."""
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(handle)
                for identity in identities
                if (handle := process.open_verified(identity, "broker")) is not None
            ]

    def signal(self, identities: Iterable[ProcessIdentity], *numbers: signal.Signals) -> None:
        """Send signals to those that still are."""
        with self.living(identities) as handles:
            for handle in handles:
                for number in numbers:
                    handle.signal(number)

    def wait_ended(self, identities: Iterable[ProcessIdentity], seconds: float) -> list[int]:
        """Wait for these to end; the pids of those that have not after so many seconds."""
        deadline = time.monotonic() + seconds
        with self.living(identities) as handles:
            return [each.identity.pid for each in handles if not each.wait(deadline - time.monotonic())]

    def wait_stopped(self, identities: Iterable[ProcessIdentity], stopped: bool, seconds: float) -> list[int]:
        """Wait until SIGSTOP holds these, or none of them any more; the pids of those of which that is not so."""
        deadline = time.monotonic() + seconds
        while True:
            with self.living(identities) as handles:
                left = [h.identity.pid for h in handles if self.is_stopped(h.identity) is not stopped]
            if not left or time.monotonic() >= deadline:
                return left
            time.sleep(_POLL_SECONDS)
