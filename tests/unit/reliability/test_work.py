"""What is done with fetched records, and in which order; and that no death between two steps loses one."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka.reliability import ConsumedRecord, DeadLetterNotWritten, PoisonRecord, RetryPolicy
from minikafka.reliability.work import DEAD_LETTER_ATTEMPTS_MAX, Attempt, Step, Work, WriteDeadLetter, described

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def record(partition: TopicPartition, offset: int, value: bytes = b"") -> ConsumedRecord:
    return ConsumedRecord(partition, offset, 1000, None, value)


def work_on(*partitions: TopicPartition, retries: RetryPolicy | None = None, held_max: int = 500) -> Work:
    """A consumer that has two records of each partition."""
    work = Work(retries or RetryPolicy(), held_max)
    work.assigned(partitions)
    for partition in partitions:
        work.fetched(record(partition, 0))
        work.fetched(record(partition, 1))
    return work


def begun(work: Work, now: float = 0.0) -> Step:
    step = work.next(now)
    assert step is not None
    return step


def test_nothing_is_committed_before_it_is_done() -> None:
    work = work_on(A)
    step = begun(work)
    assert step == Attempt(record(A, 0), 1)
    assert (work.next(0.0), work.commits()) == (None, {}), "one record of a partition at a time"
    work.succeeded(step)
    assert work.commits() == {A: 1}
    work.committed({A: 1})
    assert work.commits() == {}
    assert begun(work).record.offset == 1


def test_a_record_that_fails_is_tried_again_before_the_next_and_holds_up_no_other_partition() -> None:
    work = work_on(A, B, retries=RetryPolicy(backoff_seconds=2.0))
    work.failed(begun(work), OSError("away"), now=10.0)
    other = begun(work, 10.0)
    assert other.record == record(B, 0)
    work.succeeded(other)
    work.succeeded(begun(work, 10.0))
    assert work.next(11.9) is None
    assert work.wait_seconds(11.5) == 0.5
    assert begun(work, 12.0) == Attempt(record(A, 0), 2)
    assert work.commits() == {B: 2}


def test_a_record_is_a_dead_letter_after_its_last_attempt_and_done_when_that_is_written() -> None:
    work = work_on(A, retries=RetryPolicy(attempts_max=2, backoff_seconds=0))
    work.failed(begun(work), OSError("away"), 0.0)
    work.failed(begun(work), OSError("still\naway"), 0.0)
    step = begun(work)
    assert step == WriteDeadLetter(record(A, 0), 2, "OSError: still away")
    assert work.commits() == {}
    work.succeeded(step)
    assert work.commits() == {A: 1}
    assert begun(work) == Attempt(record(A, 1), 1), "its attempts are counted anew"


def test_poison_is_a_dead_letter_at_once_also_where_attempts_have_no_end() -> None:
    work = work_on(A, retries=RetryPolicy(attempts_max=None, backoff_seconds=0))
    for attempt in range(1, 100):
        step = begun(work)
        assert step == Attempt(record(A, 0), attempt)
        work.failed(step, OSError(), 0.0)
    work.failed(begun(work), PoisonRecord("no such article"), 0.0)
    assert begun(work) == WriteDeadLetter(record(A, 0), 100, "PoisonRecord: no such article")


def test_a_dead_letter_that_cannot_be_written_is_tried_again_and_then_ends_the_consumer() -> None:
    work = work_on(A, retries=RetryPolicy(attempts_max=1, backoff_seconds=0))
    work.failed(begun(work), OSError("away"), 0.0)
    for _ in range(DEAD_LETTER_ATTEMPTS_MAX - 1):
        work.failed(begun(work), OSError("full"), 0.0)
    with pytest.raises(
        DeadLetterNotWritten, match=r"^orders-0 offset 0 .*processed \(OSError: away\).*\(OSError: full\)$"
    ):
        work.failed(begun(work), OSError("full"), 0.0)
    assert work.commits() == {}


class Mute(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError


def test_any_error_fits_into_a_header() -> None:
    odd = b"\xff".decode(errors="surrogateescape")
    assert described(ValueError(f"cannot read {odd}")) == "ValueError: cannot read \\udcff"
    assert described(Mute()) == "Mute: (its text cannot be had: RuntimeError)"


def test_a_revoked_partition_begins_nothing_new_and_is_forgotten() -> None:
    work = work_on(A, B)
    step = begun(work)
    work.release([A])
    assert work.holds([A]) and not work.holds([B])
    work.succeeded(step)
    assert not work.holds([A])
    assert work.commits([A]) == {A: 1}
    assert begun(work).record.partition == B
    work.revoked([A])
    assert (work.commits([A]), work.assignment()) == ({}, {B})
    work.fetched(record(A, 2))  # was under way
    assert work.next(0.0) is None


def test_what_a_slow_handler_has_done_for_a_partition_that_went_and_came_back_does_not_count() -> None:
    work = work_on(A)
    late = begun(work)
    work.revoked([A])
    work.assigned([A])
    work.fetched(record(A, 0))
    again = begun(work)
    work.succeeded(late)
    assert work.commits() == {}, "another member may have been given it in between"
    work.failed(late, OSError(), 0.0)
    work.succeeded(again)
    assert work.commits() == {A: 1}


def test_fetching_is_paused_while_enough_is_held() -> None:
    work = work_on(A, B, held_max=2)
    assert sorted(work.to_pause()) == [A, B]
    assert (work.to_pause(), work.to_resume()) == ([], [])
    work.succeeded(begun(work))
    assert work.to_resume() == [A]
    assert work.to_resume() == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"attempts_max": 0}, "attempts_max: 0 is not a whole number from 1 on"),
        ({"attempts_max": "3"}, "attempts_max: '3' is not a whole number"),
        ({"backoff_seconds": None}, "backoff_seconds: None is not a number"),
        ({"backoff_seconds_max": "1"}, "backoff_seconds_max: '1' is not a number"),
        ({"backoff_seconds": -1.0}, "backoff_seconds: -1 is not a number of seconds"),
        ({"backoff_seconds": float("nan")}, "backoff_seconds: nan is not"),
        (
            {"backoff_seconds": 2.0, "backoff_seconds_max": 1.0},
            "backoff_seconds_max: 1 is not at least backoff_seconds",
        ),
    ],
)
def test_a_policy_that_cannot_be(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RetryPolicy(**values)


def test_the_back_off_doubles_up_to_its_maximum() -> None:
    policy = RetryPolicy(backoff_seconds=0.5, backoff_seconds_max=3.0)
    assert [policy.after(failures) for failures in (1, 2, 3, 4, 5000)] == [0.5, 1.0, 2.0, 3.0, 3.0]


class Death(BaseException):
    """The process dies here."""


@dataclass
class World:
    """What outlives the process: the log, what the handler has done, dead letters, the committed offset."""

    log: list[bytes]
    done: list[int] = field(default_factory=list)
    letters: list[int] = field(default_factory=list)
    committed: int = 0
    tries: dict[int, int] = field(default_factory=dict)

    def live(self, dies_at: Iterator[bool]) -> None:
        """One life: from the committed offset until all is committed, or death, which comes before or after any effect."""

        def effect(happens: Callable[[], object]) -> None:
            for act in (lambda: None, happens):
                act()
                if next(dies_at):
                    raise Death
            self.check()

        work = Work(RetryPolicy(attempts_max=2, backoff_seconds=0))
        work.assigned([A])
        for offset in range(self.committed, len(self.log)):
            work.fetched(record(A, offset, self.log[offset]))
        while (step := work.next(0.0)) is not None:
            try:
                effect(lambda step=step: self.carry_out(step))  # type: ignore[misc]
            except OSError as error:
                work.failed(step, error, 0.0)
            else:
                work.succeeded(step)
            for offset in work.commits().values():
                effect(lambda offset=offset: setattr(self, "committed", offset))  # type: ignore[misc]
                work.committed({A: offset})

    def carry_out(self, step: Step) -> None:
        offset = step.record.offset
        if isinstance(step, WriteDeadLetter):
            if offset not in self.letters:  # as the writers of dead letters look
                self.letters.append(offset)
            return
        self.tries[offset] = self.tries.get(offset, 0) + 1
        if step.record.value == b"poison" or (step.record.value == b"flaky" and self.tries[offset] == 1):
            raise OSError("no")
        self.done.append(offset)

    def check(self) -> None:
        """What is committed is done."""
        assert set(range(self.committed)) <= {*self.done, *self.letters}


@pytest.mark.parametrize("deaths", [1, 2])
def test_no_death_between_two_steps_loses_a_record_or_doubles_a_dead_letter(deaths: int) -> None:
    log = [b"fine", b"poison", b"flaky", b"poison", b"fine"]
    undisturbed = World(log)
    count = itertools.count()
    undisturbed.live(next(count) < 0 for _ in itertools.repeat(None))
    points = next(count)
    assert points > 20
    for at in itertools.product(range(points), repeat=deaths):
        world = World(log)
        for point in at:
            with contextlib.suppress(Death):  # a later life has fewer points
                world.live(itertools.chain(itertools.repeat(False, point), itertools.repeat(True)))
            world.check()
        world.live(itertools.repeat(False))
        assert world.committed == len(log)
        assert world.letters == [1, 3]
        assert {*world.done} == {0, 2, 4}
        firsts = [offset for index, offset in enumerate(world.done) if offset not in world.done[:index]]
        assert firsts == sorted(firsts), "in the order of the partition"
