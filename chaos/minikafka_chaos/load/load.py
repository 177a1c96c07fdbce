"""What a load is, whoever sends it: its settings, its records, its pace, its counters, and what an outcome means.

Values are unique, partitions are chosen by key here (so the history knows where a record was bound even if no answer
comes), and each producer sends at a steady rate with a bounded number of records under way: a stalled cluster is not
buried, and what follows a stall is load, not a burst.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.record.history import FAIL, INFO, OK, HistoryWriter, WorkloadSettings

OUTSTANDING_MAX = 500
"""Records one producer may have under way: bounds what a fault can leave unknown."""

TICK_S = 0.005
"""How often a producer looks whether records are due."""

BURST_S = 0.1
"""After a stall at most this much of the missed load is made up for."""

REQUEST_TIMEOUT_MS = 10_000
"""How long a client waits for one answer. A paused broker answers nothing: shorter than librdkafka's 60 s, so that the
client turns to the new leader within a run."""

RETRY_BACKOFF_MS = 100
"""How long a client waits before it sends again, and how often one without a leader asks again."""

PURGE_WAIT_S = 2.0
"""How long outcomes may take to come in after a client was told to give up."""

COMMIT_WAIT_S = 5.0
"""How long a final reader waits until the end that a leader tells is above what was acknowledged. With acks=1 a record is
acknowledged before it is committed, and readers get committed records only; what is not there by then is for the judges."""

GROUP = "readers"
"""The consumer group of a load that has one, in a cluster that is the run's own."""

SCRIPT_PROCESS = 0
TAIL_PROCESS = 1000
FINAL_PROCESS = 2000
DEAD_LETTER_PROCESS = 2001
MEMBER_PROCESS = 3000
"""Process numbers in a history: the producer of single records, the load's producers from 1 on, the readers, and from
the one after the last on a group's members, each time one is started."""

SAMPLE_INTERVAL_S = 1.0
"""How often the following reader asks for the ends of the partitions (A14)."""

PADDING_SEPARATOR = "|"
"""Between the unique part of a value and the padding that gives a record its size."""

PADDING = "."

UNASKED = "acks=0: no acknowledgement was asked for"

DEFINITE_FAILURES = frozenset(
    (
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )
)
"""Errors that say something about the record itself, so that no attempt can have been written. Anything else may follow
an earlier attempt that was written and whose answer was lost: it is unknown."""

WITHOUT_RETRIES = frozenset((ErrorCode.NOT_ENOUGH_REPLICAS,))
"""Refused before the append: definite when it was the only attempt."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How producers send. Names follow Kafka's producer configuration."""

    acks: str = "all"
    idempotence: bool = False
    max_in_flight: int = 1
    linger_ms: int = 5
    delivery_timeout_ms: int = 30_000
    retries: int | None = None
    """None: as often as the delivery timeout allows."""
    compression: str = "none"

    @property
    def judged_by(self) -> WorkloadSettings:
        return WorkloadSettings(self.acks, self.idempotence, self.max_in_flight)

    def outcome_of_error(self, code: int) -> str:
        """The history's word (`fail`, `info`) for a send that ended with this error code of the Kafka protocol."""
        definite = code in DEFINITE_FAILURES or (self.retries == 0 and code in WITHOUT_RETRIES)
        return FAIL if definite else INFO


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What is sent, and how much of it."""

    topic: str
    partitions: int
    producers: int = 2
    rate_per_s: int = 500
    """Records per second of all producers together."""
    keys: int = 100
    record_bytes: int = 100
    client: ProducerSettings = field(default_factory=ProducerSettings)


class Due(NamedTuple):
    """A record that is to be sent now."""

    value: str
    key: str
    partition: int


class Pace:
    """What one producer of a load sends, and when; times in monotonic seconds."""

    def __init__(self, settings: LoadSettings, process: int, now: float) -> None:
        self._settings = settings
        self._process = process
        self._rate = settings.rate_per_s / settings.producers
        self._began = now
        self._number = 0

    def due(self, now: float, outstanding: int) -> Iterator[Due]:
        """The records that are due now, while `outstanding` are under way."""
        settings, rate = self._settings, self._rate
        due = int((now - self._began) * rate) - self._number
        if due > max(1.0, BURST_S * rate):
            self._began += (due - BURST_S * rate) / rate
            due = int(BURST_S * rate)
        for _ in range(min(due, OUTSTANDING_MAX - outstanding)):
            self._number += 1
            key = f"k{(self._number * 7919 + self._process) % settings.keys}"
            yield Due(f"p{self._process}-{self._number}", key, partition_of(key, settings.partitions))


def partition_of(key: str, partitions: int) -> int:
    """CRC-32 of the key, as librdkafka's `consistent` partitioner."""
    return zlib.crc32(key.encode()) % partitions


def padded(value: str, record_bytes: int) -> bytes:
    """`value` as a record of `record_bytes`, or as long as it is."""
    text = value + PADDING_SEPARATOR
    return text.encode().ljust(record_bytes, PADDING.encode())


def unique_part(value: bytes | None) -> str:
    """The part of a record's value that names its send; all of a value whose padding is not as `padded` made it."""
    text = (value or b"").decode(errors="backslashreplace")
    name, separator, padding = text.rpartition(PADDING_SEPARATOR)
    return name if separator and not padding.strip(PADDING) else text


class Tally:
    """Live counters of a load, for progress and for conditions; written by producer threads, read by anyone."""

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()
        """Per producer: no two threads write one entry, so that nothing needs a lock on the path of a record."""
        self.outcomes: dict[str, Counter[tuple[int, TopicPartition]]] = {
            OK: Counter(),
            FAIL: Counter(),
            INFO: Counter(),
        }

    def total(self, outcome: str) -> int:
        return sum(dict(self.outcomes[outcome]).values())

    @property
    def total_sent(self) -> int:
        return sum(dict(self.sent).values())

    def acked(self, topic: str | None = None, partition: int | None = None) -> int:
        """Acknowledged records; of one topic or one partition when named."""
        counts = dict(self.outcomes[OK])
        return sum(
            number
            for (_, tp), number in counts.items()
            if topic in (None, tp.topic) and partition in (None, tp.partition)
        )

    def acked_by_partition(self) -> dict[TopicPartition, int]:
        found: Counter[TopicPartition] = Counter()
        for (_, topic_partition), number in dict(self.outcomes[OK]).items():
            found[topic_partition] += number
        return dict(found)


class SendBook:
    """One producer's entries in the history and in the counters; used by one thread at a time."""

    def __init__(self, process: int, history: HistoryWriter, tally: Tally) -> None:
        self.process = process
        self.outstanding = 0
        """Sends without an outcome."""
        self._history = history
        self._tally = tally

    def invoked(self, topic: str, partition: int, value: str) -> None:
        """A record is about to be sent."""
        self._history.invoke_send(self.process, topic, partition, value)
        self._tally.sent[self.process] += 1
        self.outstanding += 1

    def completed(
        self, outcome: str, topic: str, partition: int, offset: int | None, value: str, error: str | None = None
    ) -> None:
        """Its outcome is known."""
        self.outstanding -= 1
        self._history.complete_send(self.process, outcome, topic, partition, offset, value, error)
        self._tally.outcomes[outcome][self.process, TopicPartition(topic, partition)] += 1
