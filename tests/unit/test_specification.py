"""How recorded steps are written for Quint; `make spec` has it judge them."""

from __future__ import annotations

import re

import pytest
from minikafka.metadata.image import PartitionState
from minikafka_simulator.bugs.in_process import check_source

from tests.specification.judge import ROOT, SPECIFICATION
from tests.specification.mistakes import MISTAKES, NOT_COVERED
from tests.specification.recorder import Config, Step, Trace
from tests.specification.search import Search, understood
from tests.specification.translation import CODES, STOPS, Refusal, code, module, packed, refusals
from tests.specification.weakened import ALL, Weakened

WORD = PartitionState((1, 2, 3), (1, 3), 3, 4, 7, (2,))


@pytest.mark.parametrize(
    ("step", "numbers"),
    [
        (("Written", WORD, frozenset({1, 3}), True), [0, 7, 4, 3, 0b1010, 0b100, 0b1010, 1]),
        (("Registered", 2), [1, 2]),
        (("Appended", 1, [400_001, 400_002]), [4, 1, 400_001, 400_002]),
        (("Heard", 1, 2, -1), [5, 1, 2, -1]),
        (("Took", 2, 1, 4, 5, [400_001], 3), [9, 2, 1, 4, 5, 3, 400_001]),  # the log comes last
        (("Stopped", 1, "power", 6), [12, 1, 2, 6]),
        (("Consumed", 5, []), [16, 5]),
    ],
)
def test_a_step_is_numbers(step: Step, numbers: list[int]) -> None:
    assert code(step) == numbers


@pytest.mark.parametrize("step", [("Jumped", 1), ("Registered", 1.5), ("Stopped", 1, "bored", 0)])
def test_what_is_no_step(step: Step) -> None:
    with pytest.raises(ValueError, match=r"not in|no value"):
        code(step)


@pytest.mark.parametrize("numbers", [[0], [5, 1, 2, -1], [4, 1, 16_000_001], [3, 0, 0, 0]])
def test_numbers_become_one_and_come_back(numbers: list[int]) -> None:
    left, found = packed(numbers), []
    count, left = left % 2**32, left >> 32
    for _ in range(count):
        found.append(left % 2**32 - 1)
        left >>= 32
    assert found == numbers
    assert not left


def test_the_specification_reads_the_same_codes() -> None:
    text = (SPECIFICATION / "replay.qnt").read_text(encoding="utf-8")
    read = re.findall(r"c\[0\] == (\d+)\)\s+(\w+)\(", text)
    assert [(str(number), name) for number, name in enumerate(CODES[:-1])] == read
    assert f"else {CODES[-1]}(" in text
    assert str(list(STOPS)).replace("'", '"') in text
    declared = (SPECIFICATION / "partition.qnt").read_text(encoding="utf-8").partition("type Step =")[2]
    assert set(re.findall(r"^ +\|? *(\w+)\(", declared.partition("// -- logs")[0], re.MULTILINE)) == set(CODES)


def test_a_module_has_all_steps_and_a_verdict_for_each_trace() -> None:
    traces = [
        Trace(f"schedule {n}", Config((1, 2, 3), 2), WORD, [("Registered", 2)] * steps)
        for n, steps in ((1, 200), (2, 0))
    ]
    text = module(traces)
    assert text.count(str(packed([1, 2]))) == 200
    assert "verdicts' = [verdict(part0_1), verdict(begun1)]" in text
    assert "replicas: [1, 2, 3], minIsr: 2, unclean: false, trustIsr: false" in text
    verdicts = [{"taken": {"#bigint": "7"}, "rule": "R3"}, {"taken": {"#bigint": "0"}, "rule": ""}]
    assert refusals(traces, {"states": [{"verdicts": verdicts}]}) == [
        Refusal("schedule 1", 7, "R3", ("Registered", 2)),
        Refusal("schedule 2", 0, "", None),
    ]


def test_what_quint_says_of_a_search() -> None:
    said = "[violation] Found an issue\n  ❌ safe\n  ❌ LogMatching\nCommits was witnessed in 3 trace(s) out of 21 explored (14%)"
    assert understood(said, 100) == Search(("LogMatching",), 21, {"Commits": 3})


def test_every_rule_has_a_mistake_or_a_reason() -> None:
    assert {f"R{n}" for n in range(1, 19)} <= {mistake.rule for mistake in MISTAKES} | set(NOT_COVERED)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.bug.name)
def test_each_mistake_can_be_planted(mistake: object) -> None:
    bug = mistake.bug  # type: ignore[attr-defined]
    check_source(bug, {path: (ROOT / path).read_text(encoding="utf-8") for path in bug.paths})


@pytest.mark.parametrize("weakened", ALL, ids=lambda weakened: weakened.name)
def test_each_guard_can_be_weakened(weakened: Weakened) -> None:
    text = (SPECIFICATION / "partition.qnt").read_text(encoding="utf-8")
    assert weakened.applied(text) != text
