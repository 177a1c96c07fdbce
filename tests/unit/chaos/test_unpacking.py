"""Files that an agent sends are put into a folder, on every Python that there is an image of, and nowhere else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from minikafka_chaos.grounds.kubernetes_agents import unpack


def archive(*members: tarfile.TarInfo) -> tarfile.TarFile:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    packed.seek(0)
    return tarfile.open(fileobj=packed, mode="r:gz")


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    made.size = 3 if kind == tarfile.REGTYPE else 0
    return made


def test_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12 has Python 3.11.2, whose `extractall` knows no filter (PEP 706)."""

    def extractall(*_: object, **__: object) -> None:
        raise TypeError("extractall() got an unexpected keyword argument 'filter'")

    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    with archive(member("data", tarfile.DIRTYPE), member("data/bank-0/0.log"), member("events/b.jsonl")) as tar:
        unpack(tar, tmp_path)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert found == ["data/bank-0/0.log", "events/b.jsonl"]
    assert (tmp_path / "data/bank-0/0.log").read_bytes() == b"xxx"


@pytest.mark.parametrize(
    "bad",
    [
        member("../out"),
        member("/etc/out"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("hard", tarfile.LNKTYPE, "../out"),
        member("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda value: value.name,
)
def test_nothing_else(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with archive(bad) as tar, pytest.raises(tarfile.TarError, match="no file or folder below this one"):
        unpack(tar, folder)
    assert list(tmp_path.iterdir()) == [folder] and not list(folder.iterdir())
