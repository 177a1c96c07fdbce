"""The folder by which processes of one user keep ports for themselves: it is below a folder that others write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from minikafka.local import ports
from minikafka.local.errors import ClusterError
from minikafka.local.ports import free_base_port


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(ports, "_reserved", {})
    return tmp_path / f"minikafka-ports-{os.getuid()}"


def test_a_folder_of_others_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ClusterError, match="others may write there; allowed: "):
        free_base_port(1)
    folder.chmod(0o700)
    assert free_base_port(1)
    other = os.getuid() + 1
    folder.rename(folder.with_name(f"minikafka-ports-{other}"))
    monkeypatch.setattr("os.getuid", lambda: other)
    with pytest.raises(ClusterError, match="others may write there"):
        free_base_port(1)


def test_what_is_in_the_place_of_a_file_of_locks_stays(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "precious"
    theirs.mkdir(mode=0o700)
    folder.symlink_to(theirs)
    with pytest.raises(ClusterError, match="Not a directory"):
        free_base_port(1)
    folder.unlink()
    folder.mkdir(mode=0o700)
    file = tmp_path / "file"
    file.write_text("precious")
    for ten in range(2000, 3300):
        (folder / str(ten)).symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"):
        free_base_port(1)
    for link in folder.iterdir():
        link.unlink()
        link.write_text("kept")
    assert free_base_port(1)
    assert file.read_text() == "precious"
    assert {each.read_text() for each in folder.iterdir()} == {"kept"}
