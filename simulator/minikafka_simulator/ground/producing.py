"""Simulated producers that write a history: batches, acks, retries, timeouts and sequence numbers as a real one has them.

What is left out: a producer keeps `max.in.flight.requests.per.connection` for each partition, not for each broker; an
idempotent one has a single request in flight for a partition, whatever it is allowed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
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


class SimProducer(Sending):
    """One producer; see `minikafka_chaos.load.workload.RecordingProducer`, its like in real time."""

    timeout_s = REQUEST_TIMEOUT_S
    backoff_s = hurry_s = RETRY_BACKOFF_S

    def __init__(
        self,
        cluster: ConfiguredCluster,
        process: int,
        settings: ProducerSettings,
        history: HistoryWriter,
        tally: Tally,
    ) -> None:
        self.process = process
        self.acks = KAFKA_ACKS[settings.acks]
        self.in_flight_max = 1 if settings.idempotence else settings.max_in_flight
        self._scheduler = cluster.scheduler
        self._settings = settings
        self._book = SendBook(process, history, tally)
        self._queues: defaultdict[TopicPartition, deque[tuple[float, Outgoing]]] = defaultdict(deque)
        """With the time at which each record is given up."""
        self._lingering = False
        producer_id = cluster.new_producer_id() if settings.idempotence else NO_PRODUCER_ID
        self._producer = Producer(cluster, self, producer_id=producer_id)

    @property
    def outstanding(self) -> int:
        return self._book.outstanding

    def send(self, topic: str, partition: int, value: str, key: str | None = None, record_bytes: int = 0) -> None:
        """Begin to send one record."""
        self._book.invoked(topic, partition, value)
        record = Outgoing(value, key.encode() if key is not None else None, padded(value, record_bytes))
        deadline = self._scheduler.now + self._settings.delivery_timeout_ms / 1000
        self._queues[self._producer.lane(TopicPartition(topic, partition)).tp].append((deadline, record))
        if not self._lingering:
            self._lingering = True
            self._scheduler.at(self._settings.linger_ms / 1000, self._lingered)

    def _lingered(self) -> None:
        self._lingering = False
        self._producer.pump()

    def refill(self, lane: Lane) -> None:
        queue, now = self._queues[lane.tp], self._scheduler.now
        while queue and lane.has_room:
            deadline, record = queue.popleft()
            if deadline <= now:
                self._complete(lane.tp, [record], INFO, TIMED_OUT)
                continue
            records, size = [record], 0
            while queue and size + len(queue[0][1].payload) <= BATCH_BYTES_MAX:
                deadline, record = queue.popleft()
                size += len(record.payload)
                records.append(record)
            self._scheduler.at(deadline - now, partial(self._expire, lane.make(records), TIMED_OUT))

    def _expire(self, batch: SentBatch, error: str) -> None:
        lane = self._producer.lanes[batch.tp]
        if batch in lane.unanswered:
            lane.numbers.begin_anew()  # whether its sequence numbers are used up, nobody knows
            self._complete(batch.tp, batch.records, INFO, error)
            lane.drop(batch)

    def acknowledged(self, batch: SentBatch, offset: int) -> None:
        outcome, error = (OK, None) if self.acks else (INFO, UNASKED)
        self._complete(batch.tp, batch.records, outcome, error, offset)

    def gives_up(self, batch: SentBatch, error: ErrorCode) -> bool:
        retried = is_retriable(error) or (self._settings.idempotence and error in OUT_OF_SEQUENCE)
        if retried and (self._settings.retries is None or batch.tries <= self._settings.retries):
            return False
        self._complete(batch.tp, batch.records, self._settings.outcome_of_error(error), error.name)
        return True

    def _complete(
        self,
        tp: TopicPartition,
        records: Iterable[Outgoing],
        outcome: str,
        error: str | None,
        offset: int = NO_OFFSET,
    ) -> None:
        for index, record in enumerate(records):
            self._book.completed(outcome, *tp, None if offset < 0 else offset + index, record.value, error)

    def purge(self) -> None:
        """Give up everything that has no outcome."""
        for tp, lane in self._producer.lanes.items():
            waiting = [record for _, record in self._queues.pop(tp, ())]
            for batch in list(lane.unanswered):
                self._expire(batch, PURGED)
            self._complete(tp, waiting, INFO, PURGED)


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
