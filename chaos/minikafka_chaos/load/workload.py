"""The load on a real cluster: librdkafka's producers, which write down everything they were told."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from minikafka.client.security import ClientSecurity

from minikafka_chaos.load.librdkafka import outcome_of, producer_config
from minikafka_chaos.load.load import (
    PURGE_WAIT_S,
    SCRIPT_PROCESS,
    TICK_S,
    LoadSettings,
    Pace,
    ProducerSettings,
    SendBook,
    Tally,
    padded,
)
from minikafka_chaos.record.history import FAIL, INFO, OK, HistoryWriter


class RecordingProducer:
    """One producer that writes each send and its outcome into a history. Used by one thread at a time."""

    def __init__(
        self,
        bootstrap: str,
        security: ClientSecurity,
        process: int,
        settings: ProducerSettings,
        history: HistoryWriter,
        tally: Tally,
    ) -> None:
        self.process = process
        self._settings = settings
        self._book = SendBook(process, history, tally)
        self._producer = Producer(producer_config(bootstrap, security, settings))

    @property
    def outstanding(self) -> int:
        return self._book.outstanding

    def send(self, topic: str, partition: int, value: str, key: str | None = None, record_bytes: int = 0) -> None:
        """Hand one record to librdkafka. Its outcome comes with a later `poll` or `finish`."""
        self._book.invoked(topic, partition, value)
        try:
            self._producer.produce(
                topic,
                padded(value, record_bytes),
                key.encode() if key is not None else None,
                partition,
                on_delivery=partial(self._delivered, topic, partition, value),
            )
        except BufferError:
            self._book.completed(FAIL, topic, partition, None, value, "_QUEUE_FULL")
        except KafkaException as error:  # it was not even queued
            self._book.completed(FAIL, topic, partition, None, value, error.args[0].name())

    def _delivered(self, topic: str, partition: int, value: str, error: KafkaError | None, message: Message) -> None:
        outcome, name = outcome_of(error, self._settings)
        offset = message.offset() if outcome == OK else None
        self._book.completed(outcome, topic, partition, offset if offset is None or offset >= 0 else None, value, name)

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def finish(self, timeout_s: float) -> int:
        """Wait for the outcomes that are still out; what has none by then is given up as unknown. Returns how many."""
        left: int = self._producer.flush(timeout_s)
        if left:
            self._producer.purge()
            deadline = time.monotonic() + PURGE_WAIT_S
            while self.outstanding and time.monotonic() < deadline:
                self._producer.poll(TICK_S)
        return left


class Load:
    """Producers that send all the time, each in a thread of its own."""

    def __init__(
        self, bootstrap: str, security: ClientSecurity, settings: LoadSettings, history: HistoryWriter, tally: Tally
    ) -> None:
        self.settings = settings
        self._history = history
        self._stop = threading.Event()
        self._finish_by = float("inf")
        self.failure: BaseException | None = None
        """What ended a producer thread, if anything but `stop` did: trouble of the tool."""
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(RecordingProducer(bootstrap, security, process, settings.client, history, tally),),
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
        pace = Pace(settings, producer.process, time.monotonic())
        while not self._stop.is_set():
            for due in pace.due(time.monotonic(), producer.outstanding):
                producer.send(settings.topic, due.partition, due.value, due.key, settings.record_bytes)
            producer.poll(TICK_S)


class Script:
    """Sends single records one step at a time: the way a story is told."""

    def __init__(
        self,
        bootstrap: str,
        security: ClientSecurity,
        settings: ProducerSettings,
        history: HistoryWriter,
        tally: Tally,
    ) -> None:
        self._bootstrap = bootstrap
        self._security = security
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
        settings = replace(self._settings, linger_ms=0, delivery_timeout_ms=max(1, int(deadline_s * 1000)))
        producer = RecordingProducer(
            self._bootstrap, self._security, SCRIPT_PROCESS, settings, self._history, self._tally
        )
        for value in values:
            producer.send(topic, partition, value)
            producer.finish(deadline_s + PURGE_WAIT_S)
        return {outcome: self._tally.total(outcome) - number for outcome, number in before.items()}
