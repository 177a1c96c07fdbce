"""What would count silently, or never end, in a file that people write: refused in a line that names file, line and field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.matrix.document import parse_matrix
from minikafka_chaos.record.history import parse_line
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.document_files import DEPTH_MAX, VALUES_MAX, read_text
from minikafka_chaos.scenario.scenario import parse_scenario

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
PARSERS = [parse_scenario, parse_matrix]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: x\nspec:\n  rounds: 1\n  rounds: 2\n", "f:4: spec.rounds: given twice, first in line 3"),
        ("spec:\n  steps:\n  - {name: a, name: b}\n", "f:3: spec.steps.0.name: given twice, first in line 3"),
        ('1: a\n"1": b\n', "f:2: 1: given twice, first in line 1"),
        ("true: a\nTrue: b\n", "f:2: True: given twice, first in line 1"),
        ("spec: " + "[" * 60 + "]" * 60, f"nested too deeply; allowed: {DEPTH_MAX} levels"),
        ("[" * 500, f"f: nested too deeply; allowed: {DEPTH_MAX} levels"),
        ("- " * 100_000 + "a", f"f: nested too deeply; allowed: {DEPTH_MAX} levels"),
        ("[" * 500 + "]" * 500, f"f: nested too deeply; allowed: {DEPTH_MAX} levels"),
        ("spec: &s [*s]\n", f"nested too deeply; allowed: {DEPTH_MAX} levels"),
        (BOMB, f"f: too many values, with aliases in full; allowed: {VALUES_MAX:,}"),
        ("? [a]\n: b\n", "f: not YAML: "),
        ("a: 2026-13-45\n", "f: not YAML: '2026-13-45' is no timestamp in \"<unicode string>\", line 1, column 4"),
        ("a: !!int x\n", "f: not YAML: 'x' is no int"),
        ("a: !!int\n", "f: not YAML: '' is no int"),
        ("a: !!bool x\n", "f: not YAML: 'x' is no bool"),
        ("a: !!timestamp x\n", "f: not YAML: 'x' is no timestamp"),
        ("a: " + "9" * 5000, "f: not YAML: '9999"),
        ("a: 1\n---\nb: 2\n", "f: 2 documents, a "),
        ("# nothing\n", "f: 0 documents, a "),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else value.__name__,
)
def test_refused(parse: Callable[[str, str], Any], text: str, says: str) -> None:
    with pytest.raises(BadScenario) as refused:
        parse(text, "f")
    told = str(refused.value)
    assert says in told and "\n" not in told


def test_a_key_beside_one_that_is_merged_in_is_no_repetition() -> None:
    with pytest.raises(BadScenario, match="metadata: Field required"):
        parse_scenario("base: &base {name: a}\nother: {<<: *base, name: b}\n", "f")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (["topics.bank={a: 1, a: 2}"], "names a whole element"),
        (["workload={topic: a, topic: b}"], "--set workload={topic: a, topic: b}:1: topic: given twice"),
        (["rounds=" + "[" * 500], "nested too deeply"),
        (["rounds=1", "rounds=2"], "--set rounds=2: rounds is given twice, first as '1'"),
    ],
    ids=["element", "twice", "deep", "options"],
)
def test_overrides_are_read_in_the_same_way(setting: list[str], says: str) -> None:
    with pytest.raises(BadScenario) as refused:
        library.find("demo", setting)
    assert says in str(refused.value)


def test_the_same_override_twice_is_one() -> None:
    assert library.find("demo", ["rounds=2", "rounds=2"]).spec.rounds == 2


def test_a_line_of_a_run_that_is_nested_without_end_is_no_json() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_line(b"[" * 100_000)


def test_a_file_without_an_end() -> None:
    with pytest.raises(BadScenario, match=r"^/dev/zero: more than 16777216 bytes$"):
        read_text(Path("/dev/zero"))
