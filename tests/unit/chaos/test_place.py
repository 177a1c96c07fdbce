"""Why a run cannot be kept: which place it is, and what to do."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.run.place import Place
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.verdict.verdict import Outcome

from .fake_ground import FakeGround
from .test_scenario import parse

PLACE = Place(Path("/runs"), "shelf 3", "make room", "see what it has")
FULL = OSError(errno.ENOSPC, "No space left on device")


def caused(error: BaseException, by: BaseException) -> BaseException:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (FULL, "No space left on device; make room"),
        (OSError(errno.ENOSPC, "full", "/runs/a/b"), "full (/runs/a/b); make room"),
        (OSError(errno.EDQUOT, "quota"), "quota; make room"),
        (OSError(errno.EROFS, "read-only"), "read-only; see what it has"),
        (PermissionError(errno.EACCES, "denied", "/runs/a"), "denied (/runs/a); see what it has"),
        (caused(ToolTrouble("the load ended"), FULL), "No space left on device; make room"),
    ],
)
def test_of_the_place(error: BaseException, says: str) -> None:
    assert PLACE.problem(error) == f"the run cannot be kept on shelf 3: {says}"


@pytest.mark.parametrize(
    "error",
    [
        ToolTrouble("wet"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        OSError(errno.ENOSPC, "full", "/elsewhere/a"),
        PermissionError(errno.EACCES, "a port"),
        FileNotFoundError(errno.ENOENT, "none", "/runs/a"),
    ],
)
def test_of_something_else(error: BaseException) -> None:
    assert PLACE.problem(error) is None


def test_a_load_that_could_not_write(tmp_path: Path) -> None:
    """The load is a thread: what ended it comes by way of another error."""
    error = caused(ToolTrouble("the load ended: OSError(28, 'No space left on device')"), FULL)
    verdict = run_scenario(parse(), FakeGround(fail_at="up", error=error), tmp_path).verdict
    assert verdict.outcome is Outcome.ERROR
    assert verdict.summary == (
        f"the run cannot be kept on the file system of {tmp_path}: No space left on device; make room there"
    )


def test_brokers_whose_files_found_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said where the brokers are taken down, and not lost there."""
    ground = FakeGround(fail_at="up")
    ground.down = lambda: (_ for _ in ()).throw(FULL)  # type: ignore[assignment,method-assign]
    said: list[str] = []
    note = Journal.note

    def noted(journal: Journal, text: str, **fields: object) -> None:
        said.append(text)
        note(journal, text, **fields)

    monkeypatch.setattr(Journal, "note", noted)
    run_scenario(parse(), ground, tmp_path)
    assert any(
        line.startswith(f"teardown: the run cannot be kept on the file system of {tmp_path}: No space") for line in said
    )
