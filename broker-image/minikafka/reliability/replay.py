"""Send dead letters back to where they came from, in their order, each once.

Sending, and committing how far the replay has come, are two steps, and a replay may die between them. So each record that it
sends says in a header which dead letter it is; and a replay first reads what the old partition holds behind the oldest record
that is to come back, and of what is younger than its dead letter, and leaves out what is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.confluent_dead_letters import AcknowledgedProducer
from minikafka.reliability.confluent_reading import PartitionReader
from minikafka.reliability.dead_letters import DeadLetter, NotADeadLetter, Replayed, replayed, replayed_headers
from minikafka.reliability.record import ConsumedRecord
from minikafka.reliability.replay_group import ReplayGroup, ReplayRefused

COMMIT_EVERY = 100
"""Dead letters between two commits."""
CLOCKS_APART_MS = 3_600_000
"""What is replayed is younger than its dead letter, by clocks that are no more apart; and it has a higher offset than the record
had, but only where the partition was neither made anew nor cut since."""


@dataclass
class PartitionReplay:
    """What is to be done with the dead letters of one partition, and what was."""

    partition: TopicPartition
    start: int
    end: int
    letters: int = 0
    """To be sent."""
    there: int = 0
    """Already where they came from, by an earlier replay."""
    strange: int = 0
    """No dead letters: somebody else has written them. They are passed over."""
    sent: int = 0


class DeadLetterReplay:
    """The replay of one dead-letter topic, or of one of its partitions. All methods raise ReplayRefused and KafkaException."""

    def __init__(self, connection: Mapping[str, Any], topic: str, partition: int | None = None) -> None:
        self._chosen = partition
        self._group = ReplayGroup(connection, topic)
        self._reader = PartitionReader(connection)
        self._producer = AcknowledgedProducer(connection)
        self._there: set[Replayed] = set()

    def join(self) -> None:
        """Keep other replays of the topic away, from here to `close`."""
        self._partitions()  # it has to exist
        self._group.join()

    def plan(self) -> list[PartitionReplay]:
        """Find what is to be sent; changes nothing."""
        plan = []
        for partition in self._partitions():
            _, start, high = self._group.span(self._reader, partition)
            plan.append(PartitionReplay(partition, start, high))
        self._there = self._find_there(plan)
        for each in plan:
            self._count(each)
        return plan

    def send(self, plan: Iterable[PartitionReplay]) -> None:
        """Send what `plan` has found, after `join`. However this ends, what was sent is committed, if it can be."""
        for each in plan:
            done = committed = each.start
            try:
                for letter in self._reader.records(each.partition, each.start, each.end):
                    dead = _parsed(letter)
                    if dead is not None and _identity(letter, dead) not in self._there:
                        self._group.stay()
                        self._send(letter, dead)
                        each.sent += 1
                    done = letter.offset + 1
                    if done - committed >= COMMIT_EVERY:
                        self._commit(each.partition, done)
                        committed = done
                done = each.end
            finally:
                if done > committed:
                    self._commit(each.partition, done)

    def close(self) -> None:
        """Leave the group, and close the connections."""
        self._reader.close()
        self._group.close()

    # -- what is there -------------------------------------------------------------------------------------------------

    def _partitions(self) -> list[TopicPartition]:
        partitions = self._group.partitions()
        if not partitions:
            raise ReplayRefused(f"no such topic: {self._group.topic}")
        if self._chosen is None:
            return partitions
        if self._chosen >= len(partitions):
            last = len(partitions) - 1
            raise ReplayRefused(f"partition: {self._group.topic} has partitions 0 to {last}, not {self._chosen}")
        return [partitions[self._chosen]]

    def _find_there(self, plan: Iterable[PartitionReplay]) -> set[Replayed]:
        """Read where dead letters came from, behind the oldest of them: which are there?"""
        oldest: dict[TopicPartition, tuple[int, int]] = {}
        for each in plan:
            for letter in self._reader.records(each.partition, each.start, each.end):
                if (dead := _parsed(letter)) is not None:
                    origin, found = dead.record.partition, (dead.record.offset, letter.timestamp_ms)
                    before = oldest.get(origin, found)
                    oldest[origin] = min(found[0], before[0]), min(found[1], before[1])
        there = set()
        for origin, (offset, written_ms) in oldest.items():
            if origin not in self._group.partitions(origin.topic):
                raise ReplayRefused(
                    f"{origin} is not there any more: its dead letters have no place to go to; give {origin.topic} "
                    f"{origin.partition + 1} partitions or more, and replay again"
                )
            low, high = self._reader.bounds(origin)
            since = self._reader.first_since(origin, written_ms - CLOCKS_APART_MS)
            start = min(offset + 1, high if since is None else since)
            records = map(replayed, self._reader.records(origin, max(low, start), high))
            there |= {each for each in records if each is not None and each.partition.topic == self._group.topic}
        return there

    def _count(self, each: PartitionReplay) -> None:
        for letter in self._reader.records(each.partition, each.start, each.end):
            dead = _parsed(letter)
            if dead is None:
                each.strange += 1
            elif _identity(letter, dead) in self._there:
                each.there += 1
            else:
                each.letters += 1

    # -- what is done --------------------------------------------------------------------------------------------------

    def _send(self, letter: ConsumedRecord, dead: DeadLetter) -> None:
        record = dead.record
        self._producer.send(
            record.partition, key=record.key, value=record.value, headers=list(replayed_headers(letter, record))
        )

    def _commit(self, partition: TopicPartition, offset: int) -> None:
        self._group.commit(partition, offset)


def _parsed(letter: ConsumedRecord) -> DeadLetter | None:
    try:
        return DeadLetter.parse(letter)
    except NotADeadLetter:
        return None


def _identity(letter: ConsumedRecord, dead: DeadLetter) -> Replayed:
    return Replayed(letter.partition, letter.offset, dead.record.offset, letter.timestamp_ms)
