"""What a run asks of clients, whoever they are: librdkafka on real brokers, or simulated ones in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord

from minikafka_chaos.load.dead_letters import ONCE
from minikafka_chaos.load.load import LoadSettings, ProducerSettings, Tally
from minikafka_chaos.record.history import HistoryWriter

NO_BROKER = -1

ReadProgress = Callable[[int, int], None]
"""Called now and then with (records read, records there)."""


class PartitionView(NamedTuple):
    """One partition as Metadata tells it; `leader` is -1 while there is none."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def full(self) -> bool:
        return self.leader >= 0 and set(self.isr) == set(self.replicas)


class MetadataView(Protocol):
    """Who leads, who is in sync, who controls, as the brokers tell clients."""

    def partitions(self, topic: str) -> dict[TopicPartition, PartitionView] | None:
        """All partitions of a topic, or None while nobody answers."""
        ...

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None: ...

    def controller(self) -> int:
        """The controller's broker id, or -1 while nobody tells."""
        ...


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to make. `assignment` (replicas of each partition, preferred leader first) overrides the two counts."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    assignment: Sequence[Sequence[int]] | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        count = len(self.assignment) if self.assignment else self.partitions
        return [TopicPartition(self.name, partition) for partition in range(count)]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A consumer group of the load. `reset`: `earliest` or `latest`, where nothing is committed or the log is not there."""

    group: str
    topic: str
    members: int
    commits_first: bool = False
    """Whether members commit what they were given before they work on it."""
    reset: str = "earliest"
    session_timeout_ms: int = 6_000
    poison_every: int = 0
    """Of how many records one cannot be processed; 0: all can. Then members are reliable, and make it a dead letter."""
    dead_letters: str = ONCE
    """How they write these: see `minikafka_chaos.load.dead_letters`."""


@dataclass(slots=True)
class ReadBack:
    """How far a final read came."""

    records: int = 0
    complete: bool = False
    missing: tuple[TopicPartition, ...] = ()
    """Partitions whose end was not reached by the deadline."""


class Background(Protocol):
    """Something that goes on while the story is told."""

    @property
    def failure(self) -> BaseException | None:
        """Return what ended it, if anything but `stop` did: trouble of the tool."""
        ...

    def start(self) -> None: ...


class Load(Background, Protocol):
    """Producers that send all the time."""

    def stop(self, timeout_s: float) -> None:
        """Send no more; wait up to `timeout_s` for outcomes; what is still out then becomes unknown."""
        ...


class Stoppable(Background, Protocol):
    """A reader that follows, or whatever else watches the run."""

    def stop(self) -> None: ...


class WorkloadGroup(Stoppable, Protocol):
    """A consumer group whose members can die. `start` starts as many as the settings say, numbered from 1."""

    def start_member(self, number: int) -> None: ...

    def crash_member(self, number: int, moment: str, deadline_s: float) -> bool:
        """Have a member die at one of the moments in `minikafka_chaos.load.dead_letters`; whether it did in time."""
        ...

    def lag(self) -> int | None:
        """Return how many offsets the group is from the ends of its partitions; None while nobody tells."""
        ...

    def state(self) -> str | None:
        """The group's state, by Kafka's name for it (`Stable`); None while its coordinator does not tell."""
        ...


class Script(Protocol):
    """Sends single records one step at a time: the way a story is told."""

    def send(self, topic: str, partition: int, values: Sequence[str], deadline_s: float) -> dict[str, int]:
        """Send these values in order, each after the outcome of the one before.

        Returns how many had which outcome. A record without an answer after `deadline_s` seconds is unknown.
        """
        ...


class Clients(Protocol):
    """Makes the clients of a run; all write what they were told into its history."""

    def view(self) -> MetadataView: ...

    def create_topic(self, plan: TopicPlan, deadline_s: float) -> None:
        """Create a topic and wait until every partition has a leader and a full ISR. Raises ToolTrouble."""
        ...

    def script(self, settings: ProducerSettings, history: HistoryWriter, tally: Tally) -> Script: ...

    def load(self, settings: LoadSettings, history: HistoryWriter, tally: Tally) -> Load: ...

    def tail(self, partitions: Sequence[TopicPartition], history: HistoryWriter) -> Stoppable:
        """A reader that follows these partitions from their beginning, and samples their end offsets."""
        ...

    def group(
        self, settings: GroupSettings, partitions: Sequence[TopicPartition], history: HistoryWriter
    ) -> WorkloadGroup:
        """A consumer group that reads these partitions. Raises ToolTrouble where there are none."""
        ...

    def read_back(
        self,
        partitions: Sequence[TopicPartition],
        history: HistoryWriter,
        deadline_s: float,
        progress: ReadProgress | None = None,
    ) -> ReadBack:
        """Read every partition from its first offset to the end it had when asked, in `deadline_s` seconds at most."""
        ...

    def committed_records(self, partitions: Sequence[TopicPartition], deadline_s: float) -> list[ConsumedRecord]:
        """All that these partitions hold for a consumer now; no history is written. Raises ToolTrouble when the end is not
        reached in `deadline_s` seconds."""
        ...
