"""Simulated producers that write a history: batches, acks, retries, timeouts and sequence numbers as a real one has them.

What is left out: a producer keeps `max.in.flight.requests.per.connection` for each partition, not for each broker, and an
idempotent one has a single request in flight for a partition, whatever it is allowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka.protocol.errors import ErrorCode, is_retriable
from minikafka.protocol.records import Record
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

from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.clients.sequence_numbers import OUT_OF_SEQUENCE, SequenceNumbers
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.ground.configured import ConfiguredCluster

BATCH_BYTES_MAX = 500_000
"""Half of Kafka's largest batch; a single record may be larger, and is refused by the broker then."""

KAFKA_ACKS = {"all": -1, "1": 1, "0": 0}
TIMED_OUT, PURGED = "_MSG_TIMED_OUT", "_PURGE_INFLIGHT"
"""librdkafka's names."""

REQUEST_TIMEOUT_S = REQUEST_TIMEOUT_MS / 1000
RETRY_BACKOFF_S = RETRY_BACKOFF_MS / 1000


class _Pending(NamedTuple):
    """A record that waits for its outcome."""

    value: str
    key: bytes | None
    payload: bytes
    deadline: float


class _Batch:
    """Records that go out together, again and again."""

    __slots__ = ("attempt", "data", "deadline", "done", "records", "tries")

    def __init__(self, records: list[_Pending]) -> None:
        self.records = records
        self.deadline = records[-1].deadline
        self.data = b""
        self.attempt = 0
        """Changes with everything that makes an answer that is still out too late."""
        self.tries = 0
        self.done = False


class _Lane(Client):
    """What one producer sends to one partition."""

    world: ConfiguredCluster

    def __init__(
        self, cluster: ConfiguredCluster, tp: TopicPartition, settings: ProducerSettings, book: SendBook
    ) -> None:
        super().__init__(cluster)
        self.tp = tp
        self._settings = settings
        self._book = book
        self._queue: deque[_Pending] = deque()
        self._flying: list[_Batch] = []
        self._in_flight_max = 1 if settings.idempotence else settings.max_in_flight
        self._lingering = False
        self._numbers = SequenceNumbers(cluster.new_producer_id()) if settings.idempotence else SequenceNumbers()

    def add(self, value: str, key: bytes | None, payload: bytes) -> None:
        deadline = self.world.now + self._settings.delivery_timeout_ms / 1000
        self._queue.append(_Pending(value, key, payload, deadline))
        if not self._lingering:
            self._lingering = True
            self.world.scheduler.at(self._settings.linger_ms / 1000, self._lingered)

    def _lingered(self) -> None:
        self._lingering = False
        self._pump()

    def _pump(self) -> None:
        while self._queue and len(self._flying) < self._in_flight_max:
            if self._queue[0].deadline <= self.world.now:
                self._complete([self._queue.popleft()], INFO, TIMED_OUT)
                continue
            records, size = [self._queue.popleft()], 0
            while self._queue and size + len(self._queue[0].payload) <= BATCH_BYTES_MAX:
                size += len(self._queue[0].payload)
                records.append(self._queue.popleft())
            batch = _Batch(records)
            self._flying.append(batch)
            self._build(batch)
            self.world.scheduler.at(batch.deadline - self.world.now, lambda b=batch: self._expire(b))  # type: ignore[misc]
            self._send(batch)

    def _build(self, batch: _Batch) -> None:
        records = [Record(i, self.world.now_ms, r.key, r.payload) for i, r in enumerate(batch.records)]
        batch.data = self._numbers.build(records)

    # -- one batch --------------------------------------------------------------------------------------------------------

    def _send(self, batch: _Batch) -> None:
        if batch.done:
            return
        batch.attempt += 1
        attempt, tp, data = batch.attempt, self.tp, batch.data
        acks = KAFKA_ACKS[self._settings.acks]

        def is_current() -> bool:
            return not batch.done and batch.attempt == attempt

        def serve(broker: SimBroker, reply: Reply) -> None:
            broker.gate.produce([(tp, data)], acks, reply)

        def answered(answer: Any) -> None:
            if is_current():
                self._answered(batch, *answer[0])

        def failed() -> None:
            if is_current():
                self._again(batch, ErrorCode.NETWORK_EXCEPTION)

        leader, _ = self.leader(tp)
        if leader < 0:
            self._again(batch, ErrorCode.LEADER_NOT_AVAILABLE)
            return
        batch.tries += 1
        self.world.network.request(leader, serve, answered, failed)
        if acks == 0:
            self._finish(batch, INFO, UNASKED)
            return
        self.world.scheduler.at(REQUEST_TIMEOUT_S, failed)

    def _answered(self, batch: _Batch, error: ErrorCode, offset: int) -> None:
        if not error:
            self._finish(batch, OK, None, offset)
        elif error in OUT_OF_SEQUENCE and self._settings.idempotence:
            self._numbers.begin_anew()
            self._build(batch)
            self._again(batch, error)
        elif is_retriable(error):
            self._again(batch, error)
        else:
            self._finish(batch, self._settings.outcome_of_error(error), error.name)

    def _again(self, batch: _Batch, error: ErrorCode) -> None:
        """Send it again after a while, unless it was sent often enough."""
        batch.attempt += 1
        if self._settings.retries is not None and batch.tries > self._settings.retries:
            self._finish(batch, self._settings.outcome_of_error(error), error.name)
            return
        self.world.scheduler.at(RETRY_BACKOFF_S, lambda: self._send(batch))

    def _expire(self, batch: _Batch, error: str = TIMED_OUT) -> None:
        if not batch.done:
            self._numbers.begin_anew()  # whether its sequence numbers are used up, nobody knows
            self._finish(batch, INFO, error)

    def _finish(self, batch: _Batch, outcome: str, error: str | None, offset: int | None = None) -> None:
        batch.done = True
        self._flying.remove(batch)
        self._complete(batch.records, outcome, error, offset)
        self._pump()

    def _complete(self, records: list[_Pending], outcome: str, error: str | None, offset: int | None = None) -> None:
        for index, record in enumerate(records):
            place = None if offset is None or offset < 0 else offset + index
            self._book.completed(outcome, *self.tp, place, record.value, error)

    def purge(self) -> None:
        """Give up everything that has no outcome."""
        waiting = list(self._queue)
        self._queue.clear()
        for batch in list(self._flying):
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
        self._lanes: dict[TopicPartition, _Lane] = {}

    @property
    def outstanding(self) -> int:
        return self._book.outstanding

    def send(self, topic: str, partition: int, value: str, key: str | None = None, record_bytes: int = 0) -> None:
        """Begin to send one record."""
        tp = TopicPartition(topic, partition)
        self._book.invoked(topic, partition, value)
        lane = self._lanes.get(tp)
        if lane is None:
            lane = self._lanes[tp] = _Lane(self._cluster, tp, self._settings, self._book)
        lane.add(value, key.encode() if key is not None else None, padded(value, record_bytes))

    def purge(self) -> None:
        for lane in self._lanes.values():
            lane.purge()


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
