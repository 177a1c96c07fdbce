"""A member of a group with records that cannot be processed: `ReliableConsumer`, which tells all it does as `group_member` does.

It can also be made wrong, so that a verdict has something to find: see `minikafka_chaos.load.dead_letters`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException
from minikafka.protocol.types import TopicPartition
from minikafka.reliability import ConsumedRecord, ReliableConsumer
from minikafka.reliability.client_settings import connection
from minikafka.reliability.confluent_dead_letters import ConfluentDeadLetters
from minikafka.reliability.dead_letters import DeadLetter

from minikafka_chaos.load.dead_letters import (
    AFTER_COMMIT,
    BEFORE_COMMIT,
    BEFORE_DEAD_LETTER,
    COMMIT_S,
    RETRIES,
    UNCHECKED,
    is_poison,
)
from minikafka_chaos.load.group_member import write_line
from minikafka_chaos.load.load import unique_part
from minikafka_chaos.load.starting_places import StartingPlaces


class _UncheckedDeadLetters(ConfluentDeadLetters):
    """Written without a look whether they are there."""

    def _look(self, place: TopicPartition) -> None:
        pass


class ReliableMember(ReliableConsumer):
    """Settings: those of `BatchMember`, and poison_every, dead_letters."""

    def __init__(self, settings: dict[str, Any], config: dict[str, Any]) -> None:
        config = {**config, "auto.offset.reset": settings["reset"]}
        super().__init__(config, [settings["topic"]], self._process, retries=RETRIES, commit_seconds=COMMIT_S)
        self.dies = ""
        """The moment at which it dies; empty: it is not to die."""
        self._poison_every = int(settings["poison_every"])
        self._letters_after_commit = settings["dead_letters"] == AFTER_COMMIT
        if settings["dead_letters"] == UNCHECKED:
            self._letters = _UncheckedDeadLetters(connection(config), settings["group"])
        self._places = StartingPlaces(self._consumer, settings["topic"], settings["reset"])
        self._polled: dict[TopicPartition, int] = {}
        """The record of each partition that was told last: a further attempt is no further read."""
        self._polls = 0
        self._early: dict[TopicPartition, int] = {}
        self._furthest: dict[TopicPartition, int] = {}
        """What was committed too early: what is done is behind that, and a commit of it would take the group back."""
        self._committed_early = threading.Event()

    def leave(self) -> None:
        """Leave the group when the record in hand is done."""
        self.stop()

    def _process(self, record: ConsumedRecord) -> None:
        partition, value = record.partition.partition, unique_part(record.value)
        if self._polled.get(record.partition) != record.offset:
            self._polled[record.partition] = record.offset
            self._polls += 1
            write_line("poll", partition, record.offset, value=value, batch=self._polls, leader_epoch=None)
        if is_poison(value, self._poison_every):
            raise ValueError(f"{value} cannot be processed")
        write_line("process", partition, record.offset, value=value)

    def _write(self, letter: DeadLetter) -> None:
        if self._letters_after_commit:
            self._commit_too_early(letter.record)
            self._die_if_asked(BEFORE_COMMIT)
        self._die_if_asked(BEFORE_DEAD_LETTER)
        super()._write(letter)
        self._die_if_asked(BEFORE_COMMIT)

    def _die_if_asked(self, moment: str) -> None:
        if self.dies == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def _commit_too_early(self, record: ConsumedRecord) -> None:
        """By the thread that polls, as all commits: so they stay in order."""
        self._committed_early.clear()
        self._early = {record.partition: record.offset + 1}
        self._committed_early.wait()

    def _take(self) -> None:
        super()._take()
        if early := self._early:
            self._early = {}
            self._furthest |= early
            with suppress(KafkaException):  # told by its line; who commits too early does not wait for it either
                self._send_commit(early)
            self._committed_early.set()

    def _let_go(self, partitions: list[TopicPartition]) -> None:
        self._committed_early.set()  # nobody commits it any more
        super()._let_go(partitions)

    def _send_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        error: str | None = None
        offsets = {tp: max(offset, self._furthest.get(tp, 0)) for tp, offset in offsets.items()}
        try:
            super()._send_commit(offsets)
        except KafkaException as refused:
            error = refused.args[0].name()
            raise
        finally:
            for tp, offset in offsets.items():
                write_line("commit", tp.partition, offset, error=error)

    def _on_assign(self, consumer: Any, places: list[confluent_kafka.TopicPartition]) -> None:
        found = self._places.find(places)
        self._polled.clear()
        self._furthest.clear()
        for place in found:
            write_line("assign", place.partition, place.offset)
        super()._on_assign(consumer, found)
        consumer.assign(found)
