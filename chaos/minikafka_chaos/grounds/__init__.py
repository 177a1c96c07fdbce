"""Grounds: where a scenario happens. A ground makes faults and undoes them, and the runner knows nothing else of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.fault_verbs import Verb

from minikafka_chaos.clock import Clock
from minikafka_chaos.load.clients import Clients, Stoppable
from minikafka_chaos.record.observe import ReplicaStatus, Sample
from minikafka_chaos.record.replica_logs import ReplicaLog
from minikafka_chaos.scenario.faults import Fault, Handle, Targets
from minikafka_chaos.scenario.scenario import ScenarioSpec


class BrokerCondition(Enum):
    """A broker's process as the ground knows it."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Ground(Protocol):
    """A place with brokers that can be broken.

    Methods raise `minikafka_chaos.errors.ToolTrouble` when what they are for cannot be done; each returns when it is done.
    Broker ids are 0 to N-1 on every ground, so that one document means the same everywhere.
    """

    name: str
    group: str
    """The consumer group of a load that has one."""

    @property
    def clock(self) -> Clock: ...

    @property
    def replayable(self) -> bool:
        """Return whether a run can be had again, to the byte: then nothing has to be on disk before it is done."""
        ...

    @property
    def clients(self) -> Clients: ...

    @property
    def lacks(self) -> Mapping[Verb, str]:
        """Return what this ground cannot do, and why; a scenario that asks for it is refused before anything starts."""
        ...

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        """Return what else of a scenario this ground cannot do, a line each that names the field."""
        ...

    @property
    def address(self) -> str:
        """Return where the cluster is, for people: bootstrap.servers where there is such a thing."""
        ...

    @property
    def brokers(self) -> Sequence[int]:
        """All broker ids."""
        ...

    def up(self, spec: ScenarioSpec, seed: int) -> None:
        """Make a new cluster, and wait until it is ready. `seed` is for what the ground leaves to chance."""
        ...

    def down(self) -> list[int]:
        """Stop every broker, cleanly where it can be done in time; the ids of those that had to be killed.

        Safe to call at any moment, and twice.
        """
        ...

    def condition(self, broker: int) -> BrokerCondition: ...

    def wait_ready(self, broker: int, deadline_s: float) -> None: ...

    def is_ready(self, broker: int) -> bool: ...

    def inject(self, fault: Fault, targets: Targets) -> Handle:
        """Make a fault, or do one of the verbs that undo one (`minikafka.telemetry.fault_verbs`); returns when it is done.

        What is so already (the dead killed, the running resumed) is trouble. May be called while `recover` runs in another
        thread. Does not wait until a broker that was started is ready: see `wait_ready`.
        """
        ...

    def recover(self, handle: Handle) -> list[str]:
        """Undo a fault; what was done, a line each. What is well already, or gone, is left alone: safe to repeat."""
        ...

    def heal_all(self) -> list[str]:
        """Undo everything, known or not, and wait until every broker is ready. What was done, a line each."""
        ...

    def metrics(self, broker: int) -> Sequence[Sample]:
        """The broker's metrics now; none while it tells nothing."""
        ...

    def observer(self, folder: Path) -> Stoppable | None:
        """Something that takes down the brokers' metrics in `folder` from its `start` on; None where there are none."""
        ...

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        """One replica as its own broker tells it now; all fields are None while it tells nothing."""
        ...

    def checkpointed_high_watermark(self, broker: int, topic_partition: TopicPartition) -> int | None:
        """The high watermark that the broker would start with, from its checkpoint; None when there is none."""
        ...

    def replica_log(self, broker: int, topic_partition: TopicPartition) -> ReplicaLog:
        """A replica's log at rest. Raises `minikafka_chaos.record.replica_logs.ReplicaLogError`."""
        ...

    def collect_events(self, folder: Path) -> None:
        """Copy each broker's event log to `folder/broker-N.jsonl`."""
        ...
