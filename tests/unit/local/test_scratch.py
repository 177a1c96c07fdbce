"""Scratch folders: gone at the end, or when the next one begins."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from minikafka.local import scratch
from minikafka.local.scratch import ScratchFolder

PREFIX = "steps-"
KILLED = """
import os, pathlib, signal
from minikafka.local.scratch import ScratchFolder
own = ScratchFolder(pathlib.Path({parent!r}), "steps-")
(own.path / "part").mkdir()
(own.path / "part" / "rows").write_text("x")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_has_left_goes_and_what_a_living_one_uses_stays(tmp_path: Path) -> None:
    living = ScratchFolder(tmp_path, PREFIX)
    subprocess.run([sys.executable, "-c", KILLED.format(parent=str(tmp_path))], check=False)
    left = set(tmp_path.iterdir()) - {living.path}
    assert len(left) == 1 and (left.pop() / "part" / "rows").exists()
    other = ScratchFolder(tmp_path, PREFIX)
    assert set(tmp_path.iterdir()) == {living.path, other.path}
    other.remove()
    living.remove()
    assert not list(tmp_path.iterdir())


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    elsewhere = ScratchFolder(tmp_path / "elsewhere", PREFIX)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "steps-link").symlink_to(elsewhere.path)
    (tmp_path / "here" / "steps-by-hand").mkdir()  # without a lock: nobody says that it was scratch
    ScratchFolder(tmp_path / "here", PREFIX).remove()
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"steps-link", "steps-by-hand"}
    assert elsewhere.path.is_dir()
    elsewhere.remove()


@pytest.mark.parametrize("done", [True, False], ids=["swept", "being swept"])
def test_another_sweep_may_meet_it_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """Two programs begin at one moment: the sweep of one takes the folder of the other for one that was left."""
    lock, met = fcntl.flock, []

    def locked(file: Any, how: int) -> None:
        if not met:
            met.append(True)
            if not done:
                raise BlockingIOError
            scratch.sweep(tmp_path, PREFIX)
        lock(file, how)

    monkeypatch.setattr(scratch.fcntl, "flock", locked)
    own = ScratchFolder(tmp_path, PREFIX)
    assert met and own.path.is_dir() and (own.path / scratch.LOCK).exists()
    own.remove()
