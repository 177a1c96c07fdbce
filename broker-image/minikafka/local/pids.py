"""Which process is which broker: the ``pid`` and ``process.json`` files beside each broker's properties.

``pid`` is for people and scripts. ``process.json`` also has the start time, without which a pid means nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from minikafka.local import process
from minikafka.local.layout import broker_dir, properties_path, write_atomic
from minikafka.local.process import ProcessHandle, ProcessIdentity


def remember(data: Path, broker: int, identity: ProcessIdentity) -> None:
    """Record the broker's process."""
    folder = broker_dir(data, broker)
    write_atomic(folder / "process.json", json.dumps(identity._asdict()) + "\n")
    write_atomic(folder / "pid", f"{identity.pid}\n")


def forget(data: Path, broker: int) -> None:
    """Remove the record of a process that has ended."""
    for name in ("pid", "process.json"):
        (broker_dir(data, broker) / name).unlink(missing_ok=True)


def recorded(data: Path, broker: int) -> ProcessIdentity | None:
    """Return what the record says, true or not any more."""
    try:
        raw = json.loads((broker_dir(data, broker) / "process.json").read_text())
        return ProcessIdentity(int(raw["pid"]), int(raw["start_ticks"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def held(data: Path, broker: int) -> Iterator[ProcessHandle | None]:
    """The recorded process, verified and held, or None when it does not run."""
    identity = recorded(data, broker)
    handle = process.open_verified(identity, str(properties_path(data, broker))) if identity else None
    if handle is None:
        yield None
    else:
        with handle:
            yield handle


def find(data: Path, broker: int) -> ProcessIdentity | None:
    """The broker's process, also one that was started on this data by other means, which is then recorded."""
    with held(data, broker) as handle:
        if handle is not None:
            return handle.identity
    argument = str(properties_path(data, broker))
    for pid in process.running():
        arguments = process.command_line(pid)
        if argument in arguments and "broker" in arguments and (ticks := process.start_ticks(pid)) is not None:
            identity = ProcessIdentity(pid, ticks)
            remember(data, broker, identity)
            return identity
    return None
