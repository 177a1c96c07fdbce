"""Disks that refuse for a while, in a part of the runs: full, with errors of input and output, or with an fsync that fails.

Their choices come from a source of their own, so that runs without them are what they were.
"""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.faults.faulty_cluster import FaultyCluster
    from minikafka_simulator.faults.nemesis import Nemesis

SHARE = 0.2
"""Of runs that have such disks."""

PAUSE_SECONDS = 1.5
"""Mean time between two."""

OPERATIONS = ("append", "pread", "truncate", "fsync_dir", "rename", "remove", "open", "write_atomic")
"""What fails with an error of input and output; a failed fsync is another matter, for it ends the broker."""


class DiskFaults:
    """Those of one run."""

    def __init__(self, world: FaultyCluster, nemesis: Nemesis, seed: int) -> None:
        self.world = world
        self.nemesis = nemesis
        self.random = Random(f"disks {seed}")
        self.active = self.random.random() < SHARE
        if self.active:
            world.scheduler.at(self.random.uniform(1.0, 2.5), self._strike)

    def heal(self) -> None:
        """The disks take everything again, and nothing more happens to them."""
        self.active = False
        for broker in self.world.brokers.values():
            _mend(broker)

    def _strike(self) -> None:
        nemesis, random = self.nemesis, self.random
        if not self.active or not nemesis.may_strike():
            return
        self.world.scheduler.at(random.expovariate(1 / PAUSE_SECONDS), self._strike)
        up = [broker for broker in self.world.brokers.values() if broker.up and not broker.paused]
        kind = random.choice(("full", "full", "errors", "errors", "fsync"))
        broker, seconds = random.choice(up) if up else None, random.uniform(0.2, 2.0)
        room, likely = random.choice((0, 60, 400)), random.choice((0.1, 0.5, 1.0))
        operations = random.sample(OPERATIONS, random.randint(1, 4))
        if not nemesis.counts() or broker is None or not nemesis.spares(broker):
            return
        self.world.note(f"b{broker.id} disk: {kind} for {seconds:.2f} s")
        broker.disk_may_refuse = True
        if kind == "full":
            broker.disk.capacity = broker.disk.used() + room
        elif kind == "errors":
            self._fail(broker, operations, likely)
        else:
            self._fail(broker, ["fsync"], likely)
        self.world.scheduler.at(seconds, lambda: _mend(broker))

    def _fail(self, broker: SimBroker, operations: list[str], likely: float) -> None:
        def refuse(operation: str, path: str) -> None:
            if operation in operations and self.random.random() < likely:
                raise OSError(errno.EIO, "Input/output error", path)

        broker.disk.fault_hook = refuse


def _mend(broker: SimBroker) -> None:
    broker.disk.capacity = broker.disk.fault_hook = None
