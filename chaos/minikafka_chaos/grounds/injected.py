"""Faults of disk and clock on one machine: what each open fault adds to the file that its brokers look into."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from minikafka.log.injection import InjectedFaults
from minikafka.telemetry.fault_verbs import Verb

from minikafka_chaos.scenario.faults import Fault

_MAKE: Mapping[Verb, Callable[[int], InjectedFaults]] = {
    Verb.SLOW_FSYNC: lambda millis: InjectedFaults(fsync_millis=millis),
    Verb.FAILING_FSYNC: lambda _: InjectedFaults(fsync_errno=errno.EIO),
    Verb.DISK_FULL: lambda _: InjectedFaults(write_errno=errno.ENOSPC),
    Verb.CLOCK_STEP: lambda millis: InjectedFaults(clock_millis=millis),
}
"""Verb -> what a broker finds in its file, given the fault's `millis`."""
VERBS = frozenset(_MAKE)


def injected(fault: Fault) -> InjectedFaults:
    """Return what a fault of one of `VERBS` is for a broker."""
    return _MAKE[fault.verb](fault.parameters.millis or 0)


class FaultFiles:
    """The files of all brokers; `path` names a broker's. Several faults add up. Safe to call from several threads."""

    def __init__(self, path: Callable[[int], Path]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._faults: dict[str, dict[int, InjectedFaults]] = {}

    def add(self, fault: Fault, brokers: Iterable[int]) -> None:
        """In force when this returns. Raises OSError."""
        with self._lock:
            self._faults[fault.id] = dict.fromkeys(brokers, injected(fault))
            self._write(self._faults[fault.id])

    def remove(self, fault_id: str) -> list[int]:
        """The brokers that have it no longer; none when it was gone."""
        with self._lock:
            ended = self._faults.pop(fault_id, {})
            self._write(ended)
            return list(ended)

    def clear(self) -> list[int]:
        """End everything; the brokers that had anything."""
        with self._lock:
            hit = {broker: None for fault in self._faults.values() for broker in fault}
            self._faults.clear()
            self._write(hit)
            return list(hit)

    def _write(self, brokers: Iterable[int]) -> None:
        for broker in brokers:
            mine = [fault[broker] for fault in self._faults.values() if broker in fault]
            InjectedFaults(
                fsync_millis=sum(each.fsync_millis for each in mine),
                fsync_errno=max((each.fsync_errno for each in mine), default=0),
                write_errno=max((each.write_errno for each in mine), default=0),
                clock_millis=sum(each.clock_millis for each in mine),
            ).write(self._path(broker))
