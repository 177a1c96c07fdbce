"""Which records of a load cannot be processed, and what is told of the dead letters in the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.dead_letters import DeadLetter, home
from minikafka.reliability.record import ConsumedRecord
from minikafka_chaos.load.dead_letters import is_poison, record_dead_letters
from minikafka_chaos.load.load import DEAD_LETTER_PROCESS, padded
from minikafka_chaos.record.history import HistoryWriter, read_history

STORY = TopicPartition("story", 1)


def letter(offset: int, value: str, group: str = "readers") -> ConsumedRecord:
    """As a reader of the dead-letter topic gets it."""
    record = ConsumedRecord(STORY, offset, 7, b"k", padded(value, 100))
    made = DeadLetter(record, group, "ValueError: no", 2)
    return ConsumedRecord(home(STORY, 2), offset + 40, 8, b"k", record.value, tuple(made.headers()))


Told = tuple[list[tuple[object, ...]], list[str]]
Tell = Callable[[list[ConsumedRecord]], Told]


@pytest.fixture
def told(tmp_path: Path) -> Tell:
    def of(records: list[ConsumedRecord]) -> Told:
        path = tmp_path / "history.jsonl"
        with HistoryWriter(path) as history:
            problems = record_dead_letters(records, "readers", history)
        lines = [(op.process, op.op, op.topic, op.partition, op.offset, op.value) for op in read_history(path)]
        return lines, problems

    return of


def test_a_dead_letter_is_told_as_the_record_that_it_is(told: Tell) -> None:
    lines, problems = told([letter(3, "p1-4"), letter(3, "p1-4"), letter(9, "p1-10", group="others")])
    row = (DEAD_LETTER_PROCESS, "dead_letter", "story", 1, 3, "p1-4")
    assert lines == [(DEAD_LETTER_PROCESS, "join", None, None, None, "readers"), row, row]
    assert not problems


def test_what_is_no_dead_letter_is_a_problem(told: Tell) -> None:
    lines, problems = told([ConsumedRecord(home(STORY, 2), 5, 7, None, b"stranger")])
    assert [line[1] for line in lines] == ["join"]
    (problem,) = problems
    assert problem.startswith("story.dlq-1 offset 5 is no dead letter: ")


def test_one_of_so_many_records_cannot_be_processed() -> None:
    values = [f"p1-{number}" for number in range(1000)]
    assert not any(is_poison(value, 0) for value in values)
    assert all(is_poison(value, 1) for value in values)
    assert 50 < sum(is_poison(value, 10) for value in values) < 200
