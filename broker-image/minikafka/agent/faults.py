"""The faults of one broker, on the `chaos` volume: what was asked, how far it came, until when it lasts.

A fault is written down before it is made, and looked up by its id, so a verb that is repeated does its work once. Faults
go with the pod, as what they are about does.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from minikafka.agent.errors import NotNow
from minikafka.local.layout import write_atomic
from minikafka.local.locking import lock_within
from minikafka.local.process import ProcessIdentity

FILE = "faults.json"
GATE = "gate.json"
LOCK = ".lock"
VERSION = 1

OVER_KEPT_MAX = 500
"""Of faults that are over so many are remembered; a repetition of an older one would be made anew."""

LOCK_SECONDS_MAX = 20.0


class AgentVerb(StrEnum):
    """A fault."""

    KILL = "kill"
    TERMINATE = "terminate"
    PAUSE = "pause"
    WIPE_UNFLUSHED = "wipe-unflushed"
    WIPE_VOLUME = "wipe-volume"


HOLDING = frozenset({AgentVerb.KILL, AgentVerb.TERMINATE})
"""Faults after which the broker is held at the gate."""


class Stage(StrEnum):
    """How far a fault has come. What is done at once, such as a wipe, goes from INTENDED to OVER."""

    INTENDED = "intended"
    ACTIVE = "active"
    OVER = "over"


@dataclass(slots=True)
class BrokerFault:
    """One fault of this broker."""

    id: str
    verb: AgentVerb
    at: float
    """When it was asked for, Unix seconds."""
    until: float | None = None
    """When it ends by itself; None for what is done at once."""
    stage: Stage = Stage.INTENDED
    targets: list[ProcessIdentity] = field(default_factory=list)
    """The processes it is about."""
    ended_by: str | None = None
    """`release`, `expiry`, ...: what ended it."""
    work: dict[str, Any] = field(default_factory=dict)
    """What a wipe has to do, from before it began, so that it can be finished by who repeats it."""

    @property
    def lasts(self) -> bool:
        """Return whether it goes on."""
        return self.until is not None and self.stage is not Stage.OVER

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "targets": [target._asdict() for target in self.targets]}

    def answer(self) -> dict[str, Any]:
        """Return what a verb answers."""
        made = {"id": self.id, "verb": self.verb, "stage": self.stage, "at": self.at, "until": self.until}
        return {**made, "pids": [target.pid for target in self.targets], "ended_by": self.ended_by}


def _parse(raw: dict[str, Any]) -> BrokerFault:
    found = {each.name: raw[each.name] for each in fields(BrokerFault) if each.name in raw}
    found["verb"], found["stage"] = AgentVerb(raw["verb"]), Stage(raw["stage"])
    found["targets"] = [ProcessIdentity(int(each["pid"]), int(each["start_ticks"])) for each in raw["targets"]]
    if found["until"] is not None:
        found["until"] = float(found["until"])
    return BrokerFault(**found)


class UnreadableFaults(Exception):
    """`faults.json` is not what this program wrote; one line."""


class Faults:
    """The faults on record, oldest first, while nobody else changes them."""

    def __init__(self, path: Path, faults: list[BrokerFault]) -> None:
        self._path = path
        self.all = faults

    def get(self, fault_id: str) -> BrokerFault | None:
        return next((fault for fault in self.all if fault.id == fault_id), None)

    @property
    def lasting(self) -> list[BrokerFault]:
        """Those that go on."""
        return [fault for fault in self.all if fault.lasts]

    @property
    def hold(self) -> BrokerFault | None:
        """The one that holds the broker at the gate."""
        return next((fault for fault in self.lasting if fault.verb in HOLDING), None)

    def save(self) -> None:
        """Write them all, in one step. Raises OSError."""
        over = [fault for fault in self.all if fault.stage is Stage.OVER]
        forgotten = {fault.id for fault in over[: max(0, len(over) - OVER_KEPT_MAX)]}
        self.all = [fault for fault in self.all if fault.id not in forgotten]
        document = {"version": VERSION, "faults": [fault.as_json() for fault in self.all]}
        write_atomic(self._path, json.dumps(document, separators=(",", ":")) + "\n")


def read(folder: Path) -> Faults:
    """The faults on record in a folder. Raises UnreadableFaults, OSError."""
    path = folder / FILE
    try:
        raw = json.loads(path.read_bytes())
        if raw["version"] != VERSION:
            raise UnreadableFaults(f"{path} has version {raw['version']!r}; this minikafka knows {VERSION}")
        return Faults(path, [_parse(each) for each in raw["faults"]])
    except FileNotFoundError:
        return Faults(path, [])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableFaults(f"{path}: {type(error).__name__}: {error}") from error


def put_aside(folder: Path) -> None:
    """Move a file that cannot be read out of the way; it stays for whoever wants to know."""
    os.replace(folder / FILE, folder / f"{FILE}.unreadable")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Faults]:
    """The faults, for one program at a time. Changes are kept by `Faults.save` only.

    Raises NotNow when somebody else has them for too long, UnreadableFaults, OSError.
    """
    with (folder / LOCK).open("w") as lock:
        if not lock_within(lock, LOCK_SECONDS_MAX):
            raise NotNow(f"another verb is at work in {folder}")
        yield read(folder)
