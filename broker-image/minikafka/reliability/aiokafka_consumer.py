"""A consumer by aiokafka that commits only what was processed.

One task polls and commits, another calls the handler and writes dead letters, and aiokafka's own answers rebalances: a slow
handler does not lose its membership.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.aiokafka_client import aiokafka
from minikafka.reliability.aiokafka_dead_letters import AiokafkaDeadLetters, as_record
from minikafka.reliability.client_settings import (
    checked,
    checked_handler,
    checked_topics,
    connection,
    positive,
    positive_count,
)
from minikafka.reliability.dead_letters import DeadLetter
from minikafka.reliability.record import ConsumedRecord
from minikafka.reliability.retries import RetryPolicy
from minikafka.reliability.work import HELD_MAX, Attempt, Step, Work, failure_line

POLL_MS = 50
"""How late a stop, or a commit that is due, may be noticed."""
TAKEN_MAX = 500
"""Records taken from the client between two looks at everything else."""

log = logging.getLogger("minikafka.reliability")


class AsyncReliableConsumer:
    """Awaits `handler` for each record, in the order of its partition; `run` returns after `stop`.

    As `ReliableConsumer`, for asyncio: `config` has aiokafka's names (`bootstrap_servers`, `group_id`).

    Raises:
        ValueError: names the field and what is allowed.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        handler: Callable[[ConsumedRecord], Awaitable[object]],
        *,
        retries: RetryPolicy | None = None,
        commit_seconds: float = 1.0,
        revoke_seconds: float = 30.0,
        held_max: int = HELD_MAX,
    ) -> None:
        self._config = checked(config, "_")
        self._topics = checked_topics(topics)
        self._handler = checked_handler(handler, awaited=True)
        self._commit_seconds = positive("commit_seconds", commit_seconds)
        self._revoke_seconds = positive("revoke_seconds", revoke_seconds)
        self._group = str(self._config["group_id"])
        self._work = Work(retries or RetryPolicy(), positive_count("held_max", held_max))
        self._changed = asyncio.Condition()
        """Told when a record came or is done, or the consumer is to stop."""
        self._stopping = False
        self._handling: asyncio.Task[None] | None = None
        self._commit_at = 0.0
        self._consumer: Any = None
        self._letters: AiokafkaDeadLetters | None = None

    async def run(self) -> None:
        """Consume until `stop`, or until it is cancelled. What was processed is committed whenever this ends.

        Raises:
            DeadLetterNotWritten: a record can be neither processed nor made a dead letter.
            aiokafka.errors.KafkaError: the client can do nothing more, or a dead-letter topic cannot be made.
            ValueError: a topic does not exist.
        """
        self._consumer = aiokafka.AIOKafkaConsumer(**self._config)
        self._letters = AiokafkaDeadLetters(connection(self._config), self._group)
        self._consumer.subscribe(self._topics, listener=_Listener(self._work, self._let_go))
        try:
            await self._letters.start(self._topics)
            await self._consumer.start()
            self._handling = asyncio.create_task(self._handle())
            while not self._stopping and not self._handling.done():
                await self._take()
                self._adjust_fetching()
                if time.monotonic() >= self._commit_at:
                    await self._commit()
        finally:
            await self._close()
        if not self._handling.cancelled():
            self._handling.result()

    def stop(self) -> None:
        """Have `run` end; from the loop's thread."""
        self._stopping = True

    # -- the task that polls -------------------------------------------------------------------------------------------

    async def _take(self) -> None:
        try:
            taken = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=TAKEN_MAX)
        except aiokafka.errors.KafkaError as error:
            if not error.retriable:
                raise
            log.warning("%s: %s", self._group, error)
            return
        if taken:
            async with self._changed:
                for record in (record for records in taken.values() for record in records):
                    self._work.fetched(as_record(record))
                self._changed.notify_all()

    def _adjust_fetching(self) -> None:
        if full := self._work.to_pause():
            self._consumer.pause(*(aiokafka.TopicPartition(*partition) for partition in full))
        if freed := self._work.to_resume():
            self._consumer.resume(*(aiokafka.TopicPartition(*partition) for partition in freed))

    async def _commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit what is done. Where that fails, it is tried again: at the next time, or by who gets the partition."""
        self._commit_at = time.monotonic() + self._commit_seconds
        offsets = self._work.commits(partitions)
        if not offsets:
            return
        try:
            await self._send_commit(offsets)
        except aiokafka.errors.KafkaError as error:
            log.warning("%s: offsets were not committed: %s", self._group, error)
            return
        self._work.committed(offsets)

    async def _send_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._consumer.commit({aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()})

    async def _let_go(self, partitions: list[TopicPartition]) -> None:
        """Wait for the record in hand, commit what is done, and drop the rest."""
        self._work.release(partitions)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._revoke_seconds), self._changed:
                await self._changed.wait_for(lambda: self._handles_no_more() or not self._work.holds(partitions))
        await self._commit(partitions)
        self._work.revoked(partitions)

    def _handles_no_more(self) -> bool:
        return self._handling is None or self._handling.done()

    async def _close(self) -> None:
        assert self._letters is not None, "run"
        self._stopping = True
        async with self._changed:
            self._changed.notify_all()
        await self._let_go(list(self._work.assignment()))
        if self._handling is not None:
            self._handling.cancel()
            await asyncio.wait([self._handling])
        await self._consumer.stop()
        await self._letters.close()

    # -- the task that handles -----------------------------------------------------------------------------------------

    async def _handle(self) -> None:
        while (step := await self._next()) is not None:
            try:
                error = await self._tried(step)
                if error is None:
                    self._work.succeeded(step)
                else:
                    self._work.failed(step, error, time.monotonic())
            finally:
                async with self._changed:
                    self._changed.notify_all()

    async def _next(self) -> Step | None:
        """Wait for something to do; None when there will be nothing more."""
        async with self._changed:
            while not self._stopping:
                now = time.monotonic()
                step = self._work.next(now)
                if step is not None:
                    return step
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._work.wait_seconds(now)):
                        await self._changed.wait()
        return None

    async def _tried(self, step: Step) -> BaseException | None:
        """Do it; why it failed."""
        try:
            if isinstance(step, Attempt):
                processing = self._handler(step.record)
                if inspect.isawaitable(processing):
                    await processing
                    return None
            else:
                await self._write(DeadLetter(step.record, self._group, step.error, step.attempts))
                return None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._failed(step, error)  # something that the handler awaited was cancelled, and not the handler
        except Exception as error:
            return self._failed(step, error)
        raise TypeError("the handler returns nothing to await; write `async def`, or use ReliableConsumer")

    def _failed(self, step: Step, error: BaseException) -> BaseException:
        log.warning("%s: %s", self._group, failure_line(step, error))
        return error

    async def _write(self, letter: DeadLetter) -> None:
        assert self._letters is not None, "run"
        await self._letters.write(letter)


class _Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Takes partitions that come, and lets go of those that leave."""

    def __init__(self, work: Work, let_go: Callable[[list[TopicPartition]], Awaitable[None]]) -> None:
        self._work = work
        self._let_go = let_go

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        await self._let_go([TopicPartition(each.topic, each.partition) for each in revoked])

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._work.assigned(TopicPartition(each.topic, each.partition) for each in assigned)
