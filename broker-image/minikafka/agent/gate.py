"""The gate: a file that keeps a broker which was started from opening anything, until a time that is in the file.

Whoever runs the broker's container (the kubelet) starts it again when it was killed. It comes as far as this gate, has
opened neither its volumes nor a port, and so is as good as dead for everybody else. It goes on when the file is removed,
or the time has come: also when all who could remove it are gone.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from minikafka.local.layout import write_atomic

HOLD_SECONDS_MAX = 3600.0
"""No gate holds longer after it was written, whatever it says; a broker's startup probe is as patient."""

POLL_SECONDS = 0.1
FILE_BYTES_MAX = 64 * 1024

_STOP = (signal.SIGTERM, signal.SIGINT)
PREFIX = "gate: "
"""What a broker's lines about its gate begin with. They say until when it holds, and stay in the log when it does no more."""


class GateHold(NamedTuple):
    """What a gate's file says."""

    until: float
    """Unix seconds."""
    id: str = ""
    """The fault that it belongs to."""
    verb: str = ""

    def __str__(self) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.until))
        return f"until {moment}" + (f" ({self.verb} {self.id})" if self.id else "")


class BadGate(Exception):
    """A gate's file that does not hold, because nobody can tell until when; one line."""


def write_gate(path: Path, hold: GateHold) -> None:
    """Close the gate, in one step. Raises OSError."""
    write_atomic(path, json.dumps(hold._asdict()) + "\n")


def remove_gate(path: Path) -> None:
    """Open the gate. Raises OSError."""
    path.unlink(missing_ok=True)


def read_gate(path: Path) -> GateHold | None:
    """Until when the gate holds, whether or not that time has come; None when there is no file.

    A time more than an hour after the file was written counts as one hour after it.

    Raises:
        BadGate: the file cannot be read, or has no time. It does not hold.
    """
    try:
        with path.open("rb") as file:
            written = os.fstat(file.fileno()).st_mtime
            found = json.loads(file.read(FILE_BYTES_MAX))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadGate(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadGate(f"{path}: not JSON: {error}") from error
    until = found.get("until") if isinstance(found, dict) else None
    if isinstance(until, bool) or not isinstance(until, int | float) or (type(until) is float and math.isnan(until)):
        raise BadGate(f'{path}: no time; allowed: {{"until": UNIX SECONDS}}')
    # Compared before it becomes a float: JSON's integers have no largest.
    capped = float(min(until, written + HOLD_SECONDS_MAX))
    return GateHold(capped, str(found.get("id") or ""), str(found.get("verb") or ""))


def holds(path: Path, now: float) -> GateHold | None:
    """The hold that is in force at `now` (Unix seconds), or None. A file that is no gate's does not hold."""
    with contextlib.suppress(BadGate):
        found = read_gate(path)
        if found is not None and found.until > now:
            return found
    return None


def wait_at_gate(path: Path, tell: Callable[[str], None]) -> bool:
    """Wait while the gate holds; False when SIGTERM or SIGINT came meanwhile, and the process should end.

    To be called in the main thread, before there are others: the two signals are blocked meanwhile.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    try:
        return _wait(path, tell)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(path: Path, tell: Callable[[str], None]) -> bool:
    began = time.monotonic()
    reported: object = None
    waited = False
    while True:
        try:
            found = read_gate(path)
        except BadGate as error:
            if reported != str(error):
                reported = str(error)
                tell(f"{PREFIX}{error}: it does not hold")
            found = None
        # The second condition is for a wall clock that was set back.
        if found is None or found.until <= time.time() or time.monotonic() - began > HOLD_SECONDS_MAX:
            if waited:
                why = "its time has come" if found is not None else "it was opened"
                tell(f"{PREFIX}{why}, after {time.monotonic() - began:.1f} s")
            return True
        if reported != found:
            reported = found
            tell(f"{PREFIX}{path} holds {found}; nothing is opened before")
        waited = True
        if signal.sigtimedwait(_STOP, POLL_SECONDS) is not None:
            tell(f"{PREFIX}told to end after {time.monotonic() - began:.1f} s of waiting")
            return False
