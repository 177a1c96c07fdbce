"""A consumer by confluent-kafka that commits only what was processed.

The thread that calls `run` polls, commits and answers rebalances, and never waits for the handler: a slow one does not lose its
membership. The handler, and the writing of dead letters, have a thread of their own.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.client_settings import (
    checked,
    checked_handler,
    checked_topics,
    connection,
    positive,
    positive_count,
)
from minikafka.reliability.confluent_dead_letters import ConfluentDeadLetters
from minikafka.reliability.confluent_reading import as_record
from minikafka.reliability.dead_letters import DeadLetter
from minikafka.reliability.record import ConsumedRecord
from minikafka.reliability.retries import RetryPolicy
from minikafka.reliability.work import HELD_MAX, Attempt, Step, Work, failure_line

POLL_SECONDS = 0.05
"""How late a stop, or a commit that is due, may be noticed."""
END_SECONDS = 1.0
"""How long a handler that has got nothing more, or has outstayed `revoke_seconds`, is waited for."""
ENDS = (KafkaError._FATAL, KafkaError._AUTO_OFFSET_RESET)
"""Errors after which the client does nothing more (a static member that was fenced), or as `auto.offset.reset=error` asks."""
TAKEN_MAX = 500
"""Records taken from the client between two looks at everything else."""

log = logging.getLogger("minikafka.reliability")


class ReliableConsumer:
    """Calls `handler` with each record, in the order of its partition; `run` returns after `stop`.

    A record is done when the handler returns, and only then its offset is committed. When the handler raises, it gets the record
    again, as `retries` says; then the record goes to the topic `<topic>.dlq`, which is made where there is none.

    Args:
        config: of the consumer, by librdkafka's names. Needs `bootstrap.servers` and `group.id`.
        topics: to subscribe to.
        handler: processes a record. It may get a record twice, when the process died before the commit.
        commit_seconds: how often offsets are committed.
        revoke_seconds: how long a rebalance waits for the handler; after that another member may get the record as well.

    Raises:
        ValueError: names the field and what is allowed.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        handler: Callable[[ConsumedRecord], object],
        *,
        retries: RetryPolicy | None = None,
        commit_seconds: float = 1.0,
        revoke_seconds: float = 30.0,
        held_max: int = HELD_MAX,
    ) -> None:
        values = checked(config, ".")
        self._topics = checked_topics(topics)
        self._handler = checked_handler(handler, awaited=False)
        self._commit_seconds = positive("commit_seconds", commit_seconds)
        self._revoke_seconds = positive("revoke_seconds", revoke_seconds)
        self._group = str(values["group.id"])
        self._work = Work(retries or RetryPolicy(), positive_count("held_max", held_max))
        self._changed = threading.Condition()
        """Around `_work`; told when a record came or is done."""
        self._stopping = False
        self._failure: BaseException | None = None
        self._commit_at = 0.0
        self._consumer = Consumer(values)
        self._letters = ConfluentDeadLetters(connection(values), self._group)
        self._handling = threading.Thread(target=self._handle, name=f"handler of {self._group}", daemon=True)

    def run(self) -> None:
        """Consume until `stop`. What was processed is committed whenever this ends.

        Raises:
            DeadLetterNotWritten: a record can be neither processed nor made a dead letter.
            KafkaException: the client can do nothing more, or a dead-letter topic cannot be made.
            ValueError: a topic does not exist.
        """
        try:
            self._letters.require(self._consumer, self._topics)
            self._consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            self._handling.start()
            while not self._stopping and self._failure is None:
                self._take()
                self._adjust_fetching()
                if time.monotonic() >= self._commit_at:
                    self._commit()
        finally:
            self._close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Have `run` end; from any thread, the handler, or a signal's handler."""
        self._stopping = True

    # -- in the thread that polls --------------------------------------------------------------------------------------

    def _take(self) -> None:
        seconds = POLL_SECONDS
        for _ in range(TAKEN_MAX):
            message = self._consumer.poll(seconds)
            if message is None:
                return
            seconds = 0.0
            error = message.error()
            if error is None:
                with self._changed:
                    self._work.fetched(as_record(message))
                    self._changed.notify_all()
            elif error.fatal() or error.code() in ENDS:
                raise KafkaException(error)
            elif error.code() != KafkaError._PARTITION_EOF:
                log.warning("%s: %s", self._group, error.str())

    def _adjust_fetching(self) -> None:
        with self._changed:
            full, freed = self._work.to_pause(), self._work.to_resume()
        if full:
            self._consumer.pause([ClientPartition(*partition) for partition in full])
        if freed:
            self._consumer.resume([ClientPartition(*partition) for partition in freed])

    def _commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit what is done. Where that fails, it is tried again: at the next time, or by who gets the partition."""
        self._commit_at = time.monotonic() + self._commit_seconds
        with self._changed:
            offsets = self._work.commits(partitions)
        if not offsets:
            return
        try:
            self._send_commit(offsets)
        except KafkaException as error:
            log.warning("%s: offsets were not committed: %s", self._group, error.args[0].str())
            return
        with self._changed:
            self._work.committed(offsets)

    def _send_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        places = [ClientPartition(*partition, offset) for partition, offset in offsets.items()]
        for place in self._consumer.commit(offsets=places, asynchronous=False) or ():
            if place.error is not None:
                raise KafkaException(place.error)

    def _on_assign(self, _consumer: Any, places: list[ClientPartition]) -> None:
        with self._changed:
            self._work.assigned(_partitions(places))

    def _on_revoke(self, _consumer: Any, places: list[ClientPartition]) -> None:
        self._let_go(_partitions(places))

    def _on_lost(self, _consumer: Any, places: list[ClientPartition]) -> None:
        """Others have them already: a commit would be refused."""
        self._give_up(_partitions(places))

    def _let_go(self, partitions: list[TopicPartition]) -> None:
        """Wait for the record in hand, commit what is done, and drop the rest."""
        with self._changed:
            self._work.release(partitions)
            self._changed.wait_for(
                lambda: self._failure is not None or not self._work.holds(partitions), self._revoke_seconds
            )
        self._commit(partitions)
        self._give_up(partitions)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        with self._changed:
            in_hand = self._work.holds(partitions)
            paused = self._work.revoked(partitions)
        if in_hand:  # a dead letter, or what may become one: who gets the partition writes it
            self._letters.give_up()
        if paused:  # librdkafka keeps a pause beyond a rebalance
            self._consumer.resume([ClientPartition(*partition) for partition in paused])

    def _close(self) -> None:
        self._stopping = True
        with self._changed:
            self._changed.notify_all()
            partitions = list(self._work.assignment())
        self._let_go(partitions)
        self._consumer.close()
        if self._handling.ident is None:
            self._letters.close()
        else:  # it closes them when it is done, which may take as long as a broker hangs
            self._handling.join(END_SECONDS)

    # -- in the handler's thread ---------------------------------------------------------------------------------------

    def _handle(self) -> None:
        try:
            while (step := self._next()) is not None:
                error = self._tried(step)
                with self._changed:
                    if error is None:
                        self._work.succeeded(step)
                    else:
                        self._work.failed(step, error, time.monotonic())
                    self._changed.notify_all()
        except BaseException as error:  # `run` raises it
            with self._changed:
                self._failure = error
                self._changed.notify_all()
        finally:
            self._letters.close()

    def _next(self) -> Step | None:
        """Wait for something to do; None when there will be nothing more."""
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                step = self._work.next(now)
                if step is not None:
                    return step
                self._changed.wait(self._work.wait_seconds(now))
        return None

    def _tried(self, step: Step) -> Exception | None:
        """Do it; why it failed."""
        result: object = None
        try:
            if isinstance(step, Attempt):
                result = self._handler(step.record)
            else:
                self._write(DeadLetter(step.record, self._group, step.error, step.attempts))
        except Exception as error:
            log.warning("%s: %s", self._group, failure_line(step, error))
            return error
        if inspect.isawaitable(result):
            raise TypeError("the handler returns an awaitable: nothing was processed; AsyncReliableConsumer awaits it")
        return None

    def _write(self, letter: DeadLetter) -> None:
        def is_ours() -> bool:
            with self._changed:
                return self._work.holds([letter.record.partition])

        self._letters.write(letter, is_ours)


def _partitions(places: Iterable[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(place.topic, place.partition) for place in places]
