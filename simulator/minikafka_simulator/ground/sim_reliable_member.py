"""What a member does with records that cannot be processed: see `minikafka_chaos.load.reliable_member`.

What is done with each record, and when its offset may be committed, is decided by the same classes as in a service:
`minikafka.reliability.work` and `dead_letters`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from minikafka.protocol.errors import ErrorCode, is_retriable
from minikafka.protocol.records import Record
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.dead_letters import DeadLetter, KnownLetters, dead_letter_topic, home
from minikafka.reliability.work import Attempt, DeadLetterNotWritten, Work, WriteDeadLetter
from minikafka_chaos.load.clients import GroupSettings
from minikafka_chaos.load.dead_letters import (
    AFTER_COMMIT,
    BEFORE_COMMIT,
    BEFORE_DEAD_LETTER,
    COMMIT_S,
    RETRIES,
    UNCHECKED,
    is_poison,
)
from minikafka_chaos.load.load import unique_part

from minikafka_simulator.clients.group_member import RETRY_S, TIMEOUT_S
from minikafka_simulator.clients.log_reader import LogPosition
from minikafka_simulator.clients.producer import SequenceNumbers
from minikafka_simulator.ground.reading import consumed
from minikafka_simulator.ground.sim_member import FETCH_BYTES, POLL_S, Working
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.ground.sim_group import SimGroup

WRITE_S: Final = 30.0
"""How long the acknowledgement of a dead letter may take, as in `minikafka.reliability`; then it is looked for and sent again."""


@dataclass(slots=True)
class _Letter:
    """A dead letter that is under way."""

    step: WriteDeadLetter
    place: TopicPartition
    until: float
    looked: bool
    """Whether it is known that it is not there yet."""
    commit_first: bool
    """Its record's offset is still to be committed, too early."""
    batch: bytes = b""
    """The same each time that it is sent: the leader takes it once."""


class WorkingReliably(Working):
    """Dies, where it is asked to, between a dead letter and its commit, whichever comes first."""

    def __init__(self, group: SimGroup, settings: GroupSettings, process: int) -> None:
        super().__init__(group, settings, process)
        self._work = Work(RETRIES)
        self._known_letters = KnownLetters(settings.group)
        self._letter: _Letter | None = None
        self._letter_places: dict[TopicPartition, LogPosition] = {}
        self._numbers: dict[TopicPartition, SequenceNumbers] = {}
        self._paused: set[TopicPartition] = set()
        self._commit_at = 0.0

    # -- the group ------------------------------------------------------------------------------------------------------

    def assigned(self) -> None:
        self._letter = None
        self._work.revoked(self._work.assignment())
        self._work.assigned(self.member.assigned)
        self._paused.clear()

    def give_back(self, then: Callable[[], None]) -> None:
        """Commit what is done."""
        self._commit_at = self.world.now + COMMIT_S
        offsets = self._work.commits()
        if offsets:
            self._commit(offsets, then)
        else:
            then()

    def _commit_ended(self, offsets: Mapping[TopicPartition, int], error: str | None) -> None:
        super()._commit_ended(offsets, error)
        if error is None:
            self._work.committed(offsets)

    # -- one step after the other ---------------------------------------------------------------------------------------

    def go_on(self) -> None:
        now = self.world.now
        if self.leaves and self._letter is None:
            super().go_on()
        elif now >= self._beat_at:
            self._beat_later()
            self.member.heartbeat()
        elif self._letter is not None:
            self._write_on(self._letter)
        elif now >= self._commit_at:
            self.give_back(self.go_on)
        elif (step := self._work.next(now)) is None:
            super().go_on()
        elif isinstance(step, Attempt):
            self._attempt(step)
            self.member.later(0.0, self.go_on)
        else:
            self._letter = self._begin_letter(step)
            self._write_on(self._letter)

    def _poll(self, place: LogPosition) -> None:
        self._paused.difference_update(self._work.to_resume())
        if place.tp in self._paused:
            self.member.later(POLL_S, self.go_on)
        else:
            super()._poll(place)

    def _work_on(self, place: LogPosition, records: list[Record]) -> None:
        for record in records:
            self._work.fetched(consumed(place.tp, record))
        self._paused.update(self._work.to_pause())
        self.go_on()

    def _attempt(self, step: Attempt) -> None:
        record, value = step.record, unique_part(step.record.value)
        if is_poison(value, self._settings.poison_every):
            self._work.failed(step, ValueError(f"{value} cannot be processed"), self.world.now)
        else:
            self._history.process(self.process, *record.partition, record.offset, value)
            self._work.succeeded(step)

    # -- dead letters ---------------------------------------------------------------------------------------------------

    def _begin_letter(self, step: WriteDeadLetter) -> _Letter:
        how, record = self._settings.dead_letters, step.record
        topics = next(broker.image.topics for broker in self.world.brokers.values() if broker.image.topics)
        place = home(record.partition, len(topics[dead_letter_topic(record.topic)].partitions))
        return _Letter(step, place, self.world.now + WRITE_S, how == UNCHECKED, how == AFTER_COMMIT)

    def _write_on(self, letter: _Letter) -> None:
        if letter.commit_first:
            letter.commit_first = False
            record = letter.step.record
            self._commit({record.partition: record.offset + 1}, lambda: self._or_die(BEFORE_COMMIT, self.go_on))
        elif self.dies == BEFORE_DEAD_LETTER:
            self._ends()
        elif not letter.looked:
            self._look(letter)
        else:
            self._send(letter)

    def _or_die(self, moment: str, then: Callable[[], None]) -> None:
        if self.dies == moment:
            self._ends()
        else:
            then()

    def _again(self, letter: _Letter, error: str) -> None:
        """It was not written, or nobody knows."""
        if self.world.now < letter.until:
            self.member.later(RETRY_S, self.go_on)
            return
        self._letter = None
        if letter.batch:
            self._numbers[letter.place].begin_anew()  # whether its sequence number is used up, nobody knows
        try:
            self._work.failed(letter.step, TimeoutError(error), self.world.now)
        except DeadLetterNotWritten as reason:
            self._owner.failure = reason
        self.member.later(RETRY_S, self.go_on)

    def _written(self, letter: _Letter) -> None:
        def done() -> None:
            self._letter = None
            self._work.succeeded(letter.step)
            self.member.later(0.0, self.go_on)

        self._or_die(BEFORE_COMMIT, done)

    def _look(self, letter: _Letter) -> None:
        """Read what is new in the partition of dead letters, up to the end that it has now."""
        place = self._letter_places.setdefault(letter.place, LogPosition(self.world, letter.place))
        leader, epoch = place.leader(place.tp)

        def answered(answer: Any) -> None:
            low, high, _ = answer
            place.put(self._known_letters.read_from(place.tp, low))
            self._read_letters(letter, place, high)

        self.member.ask_broker(
            leader, place.bounds(epoch), answered, lambda: self._again(letter, "no end told"), TIMEOUT_S
        )

    def _read_letters(self, letter: _Letter, place: LogPosition, high: int) -> None:
        if place.position >= high:
            self._known_letters.has_read(place.tp, high)
            letter.looked = True
            if letter.step.record in self._known_letters:
                self._written(letter)
            else:
                self.go_on()
            return
        leader, epoch = place.leader(place.tp)

        def answered(answer: Any) -> None:
            error, raw, parted = answer
            if error or parted is not None or not raw:
                self._again(letter, "dead letters could not be read")
                return
            for _, _, record in place.read(raw):
                self._known_letters.take(consumed(place.tp, record))
            self._read_letters(letter, place, high)

        lost = lambda: self._again(letter, "dead letters could not be read")  # noqa: E731
        self.member.ask_broker(leader, place.fetch(epoch, FETCH_BYTES), answered, lost, TIMEOUT_S)

    def _send(self, letter: _Letter) -> None:
        tp = letter.place
        if tp not in self._numbers:
            self._numbers[tp] = SequenceNumbers(self.world.new_producer_id())
        letter.batch = letter.batch or self._batch_of(letter)
        leader, _ = self._letter_places.setdefault(tp, LogPosition(self.world, tp)).leader(tp)

        def serve(broker: SimBroker, reply: Reply) -> None:
            broker.gate.produce([(tp, letter.batch)], -1, reply)

        def answered(answer: Any) -> None:
            error: ErrorCode = answer[0][0]
            if not error:
                self._written(letter)
                return
            if not is_retriable(error):
                letter.until = self.world.now
            self._again(letter, error.name)

        self.member.ask_broker(leader, serve, answered, lambda: self._again(letter, "no answer"), TIMEOUT_S)

    def _batch_of(self, letter: _Letter) -> bytes:
        step = letter.step
        dead = DeadLetter(step.record, self._settings.group, step.error, step.attempts)
        record = Record(0, self.world.now_ms, step.record.key, step.record.value, dead.headers())
        return self._numbers[letter.place].build([record])
