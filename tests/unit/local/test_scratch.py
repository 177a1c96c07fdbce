"""Temporary folders of programs that were killed do not pile up."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from minikafka.local.scratch import ScratchFolder


def test_what_a_killed_program_has_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living, killed, of_another_kind = ScratchFolder("test"), ScratchFolder("test"), ScratchFolder("verdict")
    strange = tmp_path / "minikafka-test-strange"
    strange.mkdir()
    for each in (killed, of_another_kind):
        (each.path / "data").mkdir()
        os.close(each._lock)  # as the kernel does
        each._lock = -1
    last = ScratchFolder("test")
    assert sorted(tmp_path.iterdir()) == sorted([living.path, of_another_kind.path, last.path, strange])
    last.close()
    last.close()
    assert not last.path.exists()
    living.close()
    of_another_kind.close()
