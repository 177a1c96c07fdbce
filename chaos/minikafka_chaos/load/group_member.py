"""One member of a consumer group, in a process of its own so that it can die like one.

Reads a topic with librdkafka's group consumer, and tells all it does as JSON lines on standard output, each before it goes on:
a member that is killed has told everything that it did. `member_process` hears what is asked of it.

The start of each partition is looked up and told here (committed offset, else the reset policy), in place of librdkafka's own
`auto.offset.reset`, which would move a member without a word.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from minikafka_chaos.load.load import unique_part
from minikafka_chaos.load.reader import LOST_PLACE
from minikafka_chaos.load.starting_places import StartingPlaces

POLL_S = 0.1
POLL_RECORDS = 20
"""Few, so that commits are often and a crash in between takes few records."""


class BatchMember:
    """Dies, where it is asked to, between the work with some records and their commit, whichever comes first.

    Settings: group, topic, before (commit before the work), reset (earliest, latest). `config` is the client's.
    """

    def __init__(self, settings: dict[str, Any], config: dict[str, Any]) -> None:
        self._topic = settings["topic"]
        self._commits_first = bool(settings["before"])
        self._batch = 0
        self.dies = ""
        """The moment at which it dies; empty: it is not to die."""
        self._leaves = False
        self._consumer = Consumer(config)
        self._places = StartingPlaces(self._consumer, self._topic, settings["reset"])

    def leave(self) -> None:
        """Leave the group when the records in hand are done."""
        self._leaves = True

    def run(self) -> None:
        """Until it is asked to leave."""
        self._consumer.subscribe([self._topic], on_assign=self._assigned)
        while not self._leaves:
            messages = self._consumer.consume(POLL_RECORDS, POLL_S)
            failed = [(message, error) for message in messages if (error := message.error()) is not None]
            records = [message for message in messages if message.error() is None]
            if records:
                self._work_on(records)
            if lost := {_place(message)[0] for message, error in failed if error.code() in LOST_PLACE}:
                self._place_again(lost)
        self._consumer.close()

    def _work_on(self, records: list[Message]) -> None:
        self._batch += 1
        for record in records:
            write_line(
                "poll", *_place(record), value=_value(record), batch=self._batch, leader_epoch=record.leader_epoch()
            )
        first, second = (self._commit, self._process) if self._commits_first else (self._process, self._commit)
        first(records)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        second(records)

    @staticmethod
    def _process(records: Iterable[Message]) -> None:
        for record in records:
            write_line("process", *_place(record), value=_value(record))

    def _commit(self, records: Iterable[Message]) -> None:
        """Where it is refused (a rebalance, a coordinator that died) the member goes on, as programs with auto-commit do."""
        ends = {partition: offset + 1 for partition, offset in map(_place, records)}
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in ends.items()]
        error = None
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            error = refused.args[0].name()
        for partition, offset in ends.items():
            write_line("commit", partition, offset, error=error)

    # -- where to begin -------------------------------------------------------------------------------------------------

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        found = self._places.find(partitions)
        for place in found:
            write_line("assign", place.partition, place.offset)
        consumer.assign(found)

    def _place_again(self, lost: set[int]) -> None:
        """The log ends before, or begins after, where it stood."""
        places = self._consumer.position(self._consumer.assignment())
        for place in places:
            if place.partition in lost:
                place.offset = self._places.reset(place.partition)
                write_line("assign", place.partition, place.offset)
        self._consumer.assign(places)


def _place(record: Message) -> tuple[int, int]:
    return record.partition() or 0, record.offset() or 0


def _value(record: Message) -> str:
    return unique_part(record.value())


def write_line(op: str, partition: int, offset: int, **more: Any) -> None:
    """One line, which has left this process when this returns."""
    line = json.dumps({"op": op, "partition": partition, "offset": offset, **more})
    os.write(sys.stdout.fileno(), line.encode() + b"\n")
