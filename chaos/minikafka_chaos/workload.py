"""The load: real producers and readers (librdkafka) that write down everything they were told.

Values are unique, partitions are chosen by key here (so the history knows where a record was bound even if no answer
comes), and each producer sends at a steady rate with a bounded number of records under way: a stalled cluster is not
buried, and what follows a stall is load, not a burst.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.clients import ProducerSettings, outcome_of, padded, producer_config
from minikafka_chaos.history import FAIL, INFO, OK, HistoryWriter

OUTSTANDING_MAX = 500
"""Records one producer may have under way: bounds what a fault can leave unknown."""

POLL_S = 0.005
BURST_S = 0.1
"""After a stall at most this much of the missed load is made up for."""

SCRIPT_PROCESS = 0
"""The producer of single, scripted records."""

PURGE_WAIT_S = 2.0


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


class RecordingProducer:
    """One producer that writes each send and its outcome into a history. Used by one thread at a time."""

    def __init__(
        self, bootstrap: str, process: int, settings: ProducerSettings, history: HistoryWriter, tally: Tally
    ) -> None:
        self.process = process
        self.outstanding = 0
        self._settings = settings
        self._history = history
        self._tally = tally
        self._producer = Producer(producer_config(bootstrap, settings))

    def send(self, topic: str, partition: int, value: str, key: str | None = None, record_bytes: int = 0) -> None:
        """Hand one record to librdkafka. Its outcome comes with a later `poll` or `finish`."""
        self._history.invoke_send(self.process, topic, partition, value)
        self._tally.sent[self.process] += 1
        self.outstanding += 1
        try:
            self._producer.produce(
                topic,
                padded(value, record_bytes),
                key.encode() if key is not None else None,
                partition,
                on_delivery=partial(self._delivered, topic, partition, value),
            )
        except BufferError:
            self._complete(FAIL, topic, partition, None, value, "_QUEUE_FULL")
        except KafkaException as error:
            outcome, name = outcome_of(error.args[0], self._settings)
            self._complete(outcome, topic, partition, None, value, name)

    def _delivered(self, topic: str, partition: int, value: str, error: KafkaError | None, message: Message) -> None:
        outcome, name = outcome_of(error, self._settings)
        offset = message.offset() if outcome == OK else None
        self._complete(outcome, topic, partition, offset if offset is None or offset >= 0 else None, value, name)

    def _complete(
        self, outcome: str, topic: str, partition: int, offset: int | None, value: str, error: str | None
    ) -> None:
        self.outstanding -= 1
        self._history.complete_send(self.process, outcome, topic, partition, offset, value, error)
        self._tally.outcomes[outcome][self.process, TopicPartition(topic, partition)] += 1

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def finish(self, timeout_s: float) -> int:
        """Wait for the outcomes that are still out; what has none by then is given up as unknown. Returns how many."""
        left: int = self._producer.flush(timeout_s)
        if left:
            self._producer.purge()
            deadline = time.monotonic() + PURGE_WAIT_S
            while self.outstanding and time.monotonic() < deadline:
                self._producer.poll(POLL_S)
        return left


class Load:
    """Producers that send all the time, each in a thread of its own."""

    def __init__(self, bootstrap: str, settings: LoadSettings, history: HistoryWriter, tally: Tally) -> None:
        self.settings = settings
        self._history = history
        self._stop = threading.Event()
        self._finish_by = float("inf")
        self.failure: BaseException | None = None
        """What ended a producer thread, if anything but `stop` did: trouble of the tool."""
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(RecordingProducer(bootstrap, process, settings.client, history, tally),),
                name=f"producer-{process}",
                daemon=True,
            )
            for process in range(1, settings.producers + 1)
        ]

    def start(self) -> None:
        client = self.settings.client
        self._history.workload(client.judged_by, topic=self.settings.topic, rate_per_s=self.settings.rate_per_s)
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """Send no more; wait up to `timeout_s` for outcomes; what is still out then becomes unknown."""
        self._finish_by = time.monotonic() + timeout_s
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout_s + PURGE_WAIT_S + 1.0)

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _run(self, producer: RecordingProducer) -> None:
        try:
            self._send_steadily(producer)
            producer.finish(max(0.0, self._finish_by - time.monotonic()))
        except BaseException as error:
            self.failure = error

    def _send_steadily(self, producer: RecordingProducer) -> None:
        settings = self.settings
        rate = settings.rate_per_s / settings.producers
        began, number = time.monotonic(), 0
        while not self._stop.is_set():
            now = time.monotonic()
            due = int((now - began) * rate) - number
            if due > max(1.0, BURST_S * rate):
                began += (due - BURST_S * rate) / rate
                due = int(BURST_S * rate)
            for _ in range(min(due, OUTSTANDING_MAX - producer.outstanding)):
                number += 1
                value = f"p{producer.process}-{number}"
                key = f"k{(number * 7919 + producer.process) % settings.keys}"
                partition = partition_of(key, settings.partitions)
                producer.send(settings.topic, partition, value, key, settings.record_bytes)
            producer.poll(POLL_S)


def partition_of(key: str, partitions: int) -> int:
    """CRC-32 of the key, as librdkafka's `consistent` partitioner."""
    return zlib.crc32(key.encode()) % partitions


class Script:
    """Sends single records one step at a time: the way a story is told."""

    def __init__(self, bootstrap: str, settings: ProducerSettings, history: HistoryWriter, tally: Tally) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._history = history
        self._tally = tally
        self._announced = False

    def send(self, topic: str, partition: int, values: Sequence[str], deadline_s: float) -> dict[str, int]:
        """Send these values in order, each after the outcome of the one before.

        Returns how many had which outcome. A record without an answer after `deadline_s` seconds is unknown.
        """
        if not self._announced:
            self._history.workload(self._settings.judged_by, topic=topic)
            self._announced = True
        before = {outcome: self._tally.total(outcome) for outcome in (OK, FAIL, INFO)}
        timeout_ms = max(1, int(deadline_s * 1000))
        settings = ProducerSettings(
            self._settings.acks,
            self._settings.idempotence,
            self._settings.max_in_flight,
            0,
            timeout_ms,
            self._settings.retries,
        )
        producer = RecordingProducer(self._bootstrap, SCRIPT_PROCESS, settings, self._history, self._tally)
        for value in values:
            producer.send(topic, partition, value)
            producer.finish(deadline_s + PURGE_WAIT_S)
        return {outcome: self._tally.total(outcome) - number for outcome, number in before.items()}
