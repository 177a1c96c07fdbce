"""The planted bugs stay alive: each can still be put in, and docs/internals/adversary.md says what became of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from minikafka_simulator.bugs.bug import Bug, Drifted, planted_texts
from minikafka_simulator.bugs.catalogue import BUG_SEEDS, CRASH_BUGS

from tests.adversary import __main__ as command
from tests.adversary import hunt, results
from tests.adversary.bugs import BUGS, NUMBERED
from tests.adversary.planting import COPIED, ROOT, Copy, check, is_simulated, sources
from tests.adversary.suites import JUDGES, SIMULATION, UNIT, WIRE, Broken, Verdict, simulate, suite_of
from tests.adversary.unseen import UNSEEN
from tests.forms import for_each
from tests.specification.mistakes import MISTAKES


@for_each(BUGS)
def test_it_can_be_planted(name: str) -> None:
    """Its text stands in the source exactly once. Otherwise: give it the text that stands there now, or take it out."""
    check(BUGS[name])


def test_names() -> None:
    numbered = {bug.name for bug in NUMBERED}
    assert len(numbered) == len(NUMBERED), "a name is used twice"
    assert sum(results.is_of_the_audit(name) for name in BUGS) == 48
    assert all(re.fullmatch(r"[a-z]\d\d", name) for name in numbered)
    assert BUGS.keys() - numbered <= CRASH_BUGS.keys() | {mistake.bug.name for mistake in MISTAKES}


def test_what_the_simulator_does_not_see_has_its_reason() -> None:
    found = results.load()
    assert {n for n in found if results.is_of_the_audit(n) and not found[n].get(SIMULATION, "not tried")} == set(UNSEEN)


def test_no_two_are_the_same() -> None:
    for bugs in (BUGS, BUG_SEEDS, CRASH_BUGS):
        assert len({tuple(planted_texts(bug, sources(bug)).items()) for bug in bugs.values()}) == len(bugs)


class TestTheRecord:
    def test_every_bug_is_on_record_and_none_survived(self) -> None:
        record = results.load()
        assert set(record) == set(BUGS)
        assert results.survivors(record) == []

    @pytest.mark.slow
    def test_who_noticed_is_still_there(self) -> None:
        gone = []
        for name, found in results.load().items():
            for by in found.values():
                file, is_test, rest = (by or "").partition("::")
                test = rest.rpartition("::")[2].partition("[")[0]
                beside = (ROOT / file).parent.glob("*.py")  # a class of tests may be inherited
                if is_test and not any(f"def {test}(" in path.read_text() for path in beside):
                    gone.append(f"{name}: {by}")
        assert gone == [], "run make adversary ARGS='--write NAME' for these"


HARMLESS = Bug("z01", "none at all", "nothing", "log/errors.py", '"""', "'''", ("tests/unit/log/test_index.py",))


class TestPlanting:
    def test_a_text_that_stands_there_twice_or_not_at_all(self) -> None:
        with pytest.raises(Drifted, match=r"z01: its text stands \d+ times in broker-image/minikafka/log/errors.py"):
            check(HARMLESS)
        with pytest.raises(Drifted, match="z01: its text stands 0 times"):
            planted_texts(HARMLESS, {HARMLESS.paths[0]: ""})

    def test_what_is_no_python_any_more(self) -> None:
        with pytest.raises(SyntaxError):
            check(BUGS["m02"]._replace(new="pass pass"))

    def test_a_file_or_a_test_that_is_gone(self) -> None:
        with pytest.raises(Drifted, match=r"no broker-image/minikafka/log/gone\.py any more"):
            check(HARMLESS._replace(file="log/gone.py"))
        bug = BUGS["m02"]
        with pytest.raises(Drifted, match=r"no tests/unit/gone\.py any more"):
            check(bug._replace(tests=("tests/unit/gone.py",)))

    @pytest.mark.slow
    def test_a_copy_is_put_right_again(self, tmp_path: Path) -> None:
        copy, bug = Copy(tmp_path), BUG_SEEDS["accept-rebooted"]  # in three files
        before = sources(bug, tmp_path)
        copy.plant(bug)
        assert sources(bug, tmp_path) == planted_texts(bug, before) != before
        copy.heal()
        assert sources(bug, tmp_path) == before


class TestTheHunt:
    @pytest.mark.full
    def test_a_bug_is_noticed_in_the_copy_and_only_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command.main(["m02", "--suites", "unit", "--workers", "1"]) == 0
        told = capsys.readouterr().out
        assert "m02  noticed" in told and "tests/unit/replication/test_follower.py::" in told
        assert "1 of 1 bugs noticed" in told

    @pytest.mark.slow
    def test_one_that_nothing_notices(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tried: list[object] = []
        monkeypatch.setattr(hunt, "run_tests", lambda _, tests: tried.append(tuple(tests)) or Verdict(None))
        monkeypatch.setattr(hunt, "run_suite", lambda _, suite, n: tried.append((suite, n)) or Verdict(None))
        assert command.main(["m05", "--schedules", "3"]) == 1
        assert "survived: m05" in capsys.readouterr().out
        quick, suites = BUGS["m05"].tests, [(WIRE, 3), (UNIT, 3), (SIMULATION, 3)]
        assert tried == [tuple(sorted(quick)), quick, *(suite for suite in suites for _ in range(2))]

    @pytest.mark.full
    def test_a_suite_that_fails_without_any_bug(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(hunt, "run_tests", lambda *_: Verdict("tests/unit/x.py::test_y"))
        assert command.main(["s01"]) == 3
        assert "fails without any bug: tests/unit/x.py::test_y" in capsys.readouterr().err

    def test_bad_input(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        assert command.main(["m99"]) == 2
        assert "m99: no such bug" in capsys.readouterr().err
        assert command.main(["m02", "--write", "--schedules", str(results.schedules_on_record() + 1)]) == 2
        assert "allowed with --write: the same" in capsys.readouterr().err
        assert command.main(["truncate-to-hw", "--write"]) == 2
        assert "--write: truncate-to-hw is a simulator bug" in capsys.readouterr().err
        monkeypatch.setattr(command, "BUGS", {"z01": HARMLESS})
        assert command.main([]) == 2
        assert "plant it anew" in capsys.readouterr().err

    @pytest.mark.full
    def test_the_simulation_names_the_invariant(self, tmp_path: Path) -> None:
        copy = Copy(tmp_path)
        copy.plant(BUGS["m21"])
        by = simulate(tmp_path, 30).by
        assert by is not None and re.fullmatch(r"\S.*, seed 9000\d\d", by), by

    @pytest.mark.full
    def test_a_run_of_nothing_is_no_catch(self, tmp_path: Path) -> None:
        with pytest.raises(Broken, match="pytest ended with 4"):
            hunt.run_tests(Copy(tmp_path).folder, ["tests/unit/gone.py"])

    def test_files_have_their_suite(self) -> None:
        assert {suite_of(test) for bug in BUGS.values() for test in bug.tests} == {UNIT, WIRE, JUDGES}
        assert all(is_simulated(BUGS[name]) for name in ("s30", "s01", "s13", "m01"))


def test_a_copy_has_all_that_its_tests_import() -> None:
    lines = (line for path in (ROOT / "tests").rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines())
    imported = {re.split(r"[ .]", line)[1] for line in lines if line.startswith(("from ", "import "))}
    assert imported & {each.name for each in ROOT.iterdir() if each.is_dir()} <= {*COPIED}
