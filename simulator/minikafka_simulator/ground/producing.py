"""Simulated producers that write a history: batches, acks, retries, timeouts and sequence numbers as a real one has them.

What is left out: a producer keeps `max.in.flight.requests.per.connection` for each partition, not for each broker; an
idempotent one has a single request in flight for a partition, whatever it is allowed; and a request has one partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from minikafka.protocol.errors import ErrorCode, is_retriable
from minikafka.protocol.records import NO_PRODUCER_ID
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.load import (
    PURGE_WAIT_S,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    SCRIPT_PROCESS,
    TICK_S,
    UNASKED,
    LoadSettings,
    Pace,
    ProducerSettings,
    SendBook,
    Tally,
    padded,
)
from minikafka_chaos.record.history import FAIL, INFO, OK, HistoryWriter

from minikafka_simulator.clients.producer import (
    NO_OFFSET,
    OUT_OF_SEQUENCE,
    Lane,
    Outgoing,
    Producer,
    Sending,
    SentBatch,
)

if TYPE_CHECKING:
    from minikafka_simulator.ground.configured import ConfiguredCluster

BATCH_BYTES_MAX = 500_000
"""Half of Kafka's largest batch; a single record may be larger, and is refused by the broker then."""

KAFKA_ACKS = {"all": -1, "1": 1, "0": 0}
TIMED_OUT, PURGED = "_MSG_TIMED_OUT", "_PURGE_INFLIGHT"
"""librdkafka's names."""

REQUEST_TIMEOUT_S = REQUEST_TIMEOUT_MS / 1000
RETRY_BACKOFF_S = RETRY_BACKOFF_MS / 1000


class RecordedSending(Sending):
    """What is sent to one partition, as a producer's settings say."""

    timeout_s = REQUEST_TIMEOUT_S
    backoff_s = hurry_s = RETRY_BACKOFF_S

    def __init__(
        self, cluster: ConfiguredCluster, tp: TopicPartition, settings: ProducerSettings, book: SendBook
    ) -> None:
        self.acks = KAFKA_ACKS[settings.acks]
        self.in_flight_max = 1 if settings.idempotence else settings.max_in_flight
        self._scheduler = cluster.scheduler
        self._settings = settings
        self._book = book
        self._queue: deque[tuple[float, Outgoing]] = deque()
        """With the time at which each is given up."""
        self._lingering = False
        producer_id = cluster.new_producer_id() if settings.idempotence else NO_PRODUCER_ID
        self._producer = Producer(cluster, self, [tp], producer_id)
        self._lane = self._producer.lanes[tp]

    def add(self, record: Outgoing) -> None:
        self._queue.append((self._scheduler.now + self._settings.delivery_timeout_ms / 1000, record))
        if not self._lingering:
            self._lingering = True
            self._scheduler.at(self._settings.linger_ms / 1000, self._lingered)

    def _lingered(self) -> None:
        self._lingering = False
        self._producer.pump()

    def refill(self, lane: Lane) -> None:
        now = self._scheduler.now
        while self._queue and lane.has_room:
            deadline, record = self._queue.popleft()
            if deadline <= now:
                self._complete([record], INFO, TIMED_OUT)
                continue
            records, size = [record], 0
            while self._queue and size + len(self._queue[0][1].payload) <= BATCH_BYTES_MAX:
                deadline, record = self._queue.popleft()
                size += len(record.payload)
                records.append(record)
            expire = partial(self._expire, lane.make(records), TIMED_OUT)
            self._scheduler.at(deadline - now, expire)

    def _expire(self, batch: SentBatch, error: str) -> None:
        if batch in self._lane.unanswered:
            self._lane.numbers.begin_anew()  # whether its sequence numbers are used up, nobody knows
            self._complete(batch.records, INFO, error)
            self._lane.drop(batch)

    def acknowledged(self, batch: SentBatch, offset: int) -> None:
        outcome, error = (OK, None) if self.acks else (INFO, UNASKED)
        self._complete(batch.records, outcome, error, offset)

    def gives_up(self, batch: SentBatch, error: ErrorCode) -> bool:
        retried = is_retriable(error) or (self._settings.idempotence and error in OUT_OF_SEQUENCE)
        if retried and (self._settings.retries is None or batch.tries <= self._settings.retries):
            return False
        self._complete(batch.records, self._settings.outcome_of_error(error), error.name)
        return True

    def _complete(self, records: Sequence[Outgoing], outcome: str, error: str | None, offset: int = NO_OFFSET) -> None:
        for index, record in enumerate(records):
            place = None if offset < 0 else offset + index
            self._book.completed(outcome, *self._lane.tp, place, record.value, error)

    def purge(self) -> None:
        """Give up everything that has no outcome."""
        waiting = [record for _, record in self._queue]
        self._queue.clear()
        for batch in list(self._lane.unanswered):
            self._expire(batch, PURGED)
        self._complete(waiting, INFO, PURGED)


class SimProducer:
    """One producer; see `minikafka_chaos.load.workload.RecordingProducer`, its like in real time."""

    def __init__(
        self,
        cluster: ConfiguredCluster,
        process: int,
        settings: ProducerSettings,
        history: HistoryWriter,
        tally: Tally,
    ) -> None:
        self.process = process
        self._cluster = cluster
        self._settings = settings
        self._book = SendBook(process, history, tally)
        self._sends: dict[TopicPartition, RecordedSending] = {}

    @property
    def outstanding(self) -> int:
        return self._book.outstanding

    def send(self, topic: str, partition: int, value: str, key: str | None = None, record_bytes: int = 0) -> None:
        """Begin to send one record."""
        tp = TopicPartition(topic, partition)
        self._book.invoked(topic, partition, value)
        if tp not in self._sends:
            self._sends[tp] = RecordedSending(self._cluster, tp, self._settings, self._book)
        key_bytes = key.encode() if key is not None else None
        self._sends[tp].add(Outgoing(value, key_bytes, padded(value, record_bytes)))

    def purge(self) -> None:
        for sending in self._sends.values():
            sending.purge()


class SimLoad:
    """Producers that send all the time."""

    failure: BaseException | None = None

    def __init__(
        self, cluster: ConfiguredCluster, settings: LoadSettings, history: HistoryWriter, tally: Tally
    ) -> None:
        self.settings = settings
        self._cluster = cluster
        self._history = history
        self._stopped = False
        self._producers = [
            SimProducer(cluster, process, settings.client, history, tally)
            for process in range(1, settings.producers + 1)
        ]

    def start(self) -> None:
        settings = self.settings
        self._history.workload(settings.client.judged_by, topic=settings.topic, rate_per_s=settings.rate_per_s)
        for producer in self._producers:
            self._cluster.scheduler.at(self._cluster.random.uniform(0.0, TICK_S), self._ticking(producer))

    def _ticking(self, producer: SimProducer) -> Callable[[], None]:
        settings, cluster = self.settings, self._cluster
        pace: list[Pace] = []

        def tick() -> None:
            if self._stopped:
                return
            if not pace:
                pace.append(Pace(settings, producer.process, cluster.now))
            for due in pace[0].due(cluster.now, producer.outstanding):
                producer.send(settings.topic, due.partition, due.value, due.key, settings.record_bytes)
            cluster.scheduler.at(TICK_S, tick)

        return tick

    def stop(self, timeout_s: float) -> None:
        self._stopped = True
        self._cluster.run_until(lambda: not any(p.outstanding for p in self._producers), timeout_s)
        for producer in self._producers:
            producer.purge()


class SimScript:
    """Sends single records one step at a time."""

    def __init__(
        self, cluster: ConfiguredCluster, settings: ProducerSettings, history: HistoryWriter, tally: Tally
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._history = history
        self._tally = tally
        self._announced = False

    def send(self, topic: str, partition: int, values: Sequence[str], deadline_s: float) -> dict[str, int]:
        """See `minikafka_chaos.load.clients.Script`."""
        if not self._announced:
            self._history.workload(self._settings.judged_by, topic=topic)
            self._announced = True
        before = {outcome: self._tally.total(outcome) for outcome in (OK, FAIL, INFO)}
        settings = replace(self._settings, linger_ms=0, delivery_timeout_ms=max(1, int(deadline_s * 1000)))
        producer = SimProducer(self._cluster, SCRIPT_PROCESS, settings, self._history, self._tally)
        for value in values:
            producer.send(topic, partition, value)
            if not self._cluster.run_until(lambda: not producer.outstanding, deadline_s + PURGE_WAIT_S):
                producer.purge()
        return {outcome: self._tally.total(outcome) - number for outcome, number in before.items()}
