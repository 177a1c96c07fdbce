"""Leader epochs of answers are remembered for as long as an answer may be taken in, however long a run is."""

from __future__ import annotations

from minikafka_simulator.cluster.answers import KEPT, NEVER, LeaderEpochs

KEY = (b"i" * 16, 0)


def test_the_last_answers_are_remembered() -> None:
    answers = LeaderEpochs()
    for offset in range(1000):
        answers.note(1, 2, KEY, (7, offset), 7)
    assert len(answers) == KEPT
    assert answers.of(1, 2, KEY, (7, 999)) == answers.of(1, 2, KEY, (7, 1000 - KEPT)) == 7
    assert answers.of(1, 2, KEY, (7, 999 - KEPT)) == answers.of(2, 1, KEY, (7, 999)) == NEVER


def test_the_same_question_has_its_last_answer() -> None:
    answers = LeaderEpochs()
    answers.note(1, 2, KEY, (7, 5), 7)
    for offset in range(6, 5 + KEPT):
        answers.note(1, 2, KEY, (7, offset), 7)
    answers.note(1, 2, KEY, (7, 5), 9)
    answers.note(1, 2, KEY, (7, 100), 7)
    assert answers.of(1, 2, KEY, (7, 5)) == 9
    assert answers.of(1, 2, KEY, (7, 6)) == NEVER
