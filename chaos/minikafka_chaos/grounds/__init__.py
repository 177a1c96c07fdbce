"""Grounds: where a scenario happens. A ground offers a small set of verbs, and the runner knows nothing else of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.clock import Clock
from minikafka_chaos.grounds.clients import Clients, Stoppable
from minikafka_chaos.observe import ReplicaStatus
from minikafka_chaos.replica_logs import ReplicaLog
from minikafka_chaos.scenario import ClusterSpec, ScenarioSpec
from minikafka_chaos.steps import Verb


class BrokerCondition(Enum):
    """A broker's process as the ground knows it."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Ground(Protocol):
    """A place with brokers that can be broken.

    Verbs raise `minikafka_chaos.errors.ToolTrouble` when they cannot be done; each returns when it is done. A verb that
    is done already (killing the dead, resuming the running) is trouble too, except in `heal_all`.
    """

    name: str

    @property
    def clock(self) -> Clock: ...

    @property
    def replayable(self) -> bool:
        """Whether a run can be had again, to the byte: then nothing has to be on disk before it is done."""
        ...

    @property
    def clients(self) -> Clients: ...

    @property
    def verbs(self) -> frozenset[Verb]:
        """What this ground can do; a scenario that asks for more is refused before anything starts."""
        ...

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        """What else of a scenario this ground cannot do, a line each that names the field."""
        ...

    @property
    def address(self) -> str:
        """Where the cluster is, for people: bootstrap.servers where there is such a thing."""
        ...

    @property
    def brokers(self) -> Sequence[int]:
        """All broker ids."""
        ...

    def up(self, cluster: ClusterSpec, seed: int) -> None:
        """Make a new cluster, and wait until it is ready. `seed` is for what the ground leaves to chance."""
        ...

    def down(self) -> list[int]:
        """Stop every broker, cleanly where it can be done in time; the ids of those that had to be killed.

        Safe to call at any moment, and twice.
        """
        ...

    def condition(self, broker: int) -> BrokerCondition: ...

    def start(self, broker: int) -> None:
        """Start a dead broker; see `wait_ready`."""
        ...

    def wait_ready(self, broker: int, deadline_s: float) -> None: ...

    def is_ready(self, broker: int) -> bool: ...

    def kill(self, brokers: Sequence[int]) -> None:
        """Crash these processes at one moment."""
        ...

    def terminate(self, broker: int) -> None:
        """Shut down cleanly."""
        ...

    def pause(self, brokers: Sequence[int]) -> None: ...

    def resume(self, broker: int) -> None: ...

    def recover(self, broker: int) -> None:
        """Resume the paused, start the dead; a broker that runs is left alone."""
        ...

    def cut(self, broker: int, peer: int) -> None:
        """Let nothing pass between two brokers."""
        ...

    def heal(self, broker: int, peer: int) -> None: ...

    def wipe_unflushed(self, broker: int) -> None:
        """Lose what a dead broker had not flushed."""
        ...

    def wipe_volume(self, broker: int) -> None:
        """Lose a dead broker's disk."""
        ...

    def heal_all(self) -> list[str]:
        """Undo every fault: resume, heal, start what is dead. Returns what was done, a line each."""
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
        """A replica's log at rest. Raises `minikafka_chaos.replica_logs.ReplicaLogError`."""
        ...

    def collect_events(self, folder: Path) -> None:
        """Copy each broker's event log to `folder/broker-N.jsonl`."""
        ...
