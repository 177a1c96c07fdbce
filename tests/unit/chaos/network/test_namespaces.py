"""Which network namespace is a pod's: by the kernel's word, on a /proc that the tests make."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from minikafka_chaos.network.errors import BadRequest, NoProcess, NotNow
from minikafka_chaos.network.namespaces import NodeNamespaces

from tests.unit.chaos.network.cluster import UIDS

CGROUPFS = "0::/../../pod{uid}/4f1a\n"
SYSTEMD = "0::/kubelet.slice/kubelet-kubepods-burstable-pod{under}.slice/cri-containerd-4f1a.scope\n"
VERSION_1 = "12:memory:/kubepods/besteffort/pod{uid}/4f1a\n1:name=systemd:/kubepods/besteffort/pod{uid}/4f1a\n"


class Proc:
    """A folder with processes; two of one namespace have one file, as in the kernel they have one inode."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "namespaces").mkdir()
        self.add(1, "node", "0::/init.scope\n")
        (root / "self").symlink_to("1")
        self.namespaces = NodeNamespaces(root)

    def add(self, pid: int, namespace: str, cgroup: str, uid: str = "") -> None:
        file = self.root / "namespaces" / namespace
        file.touch()
        (self.root / str(pid) / "ns").mkdir(parents=True)
        os.link(file, self.root / str(pid) / "ns/net")
        (self.root / str(pid) / "cgroup").write_text(cgroup.format(uid=uid, under=uid.replace("-", "_")))

    def inode(self, uid: str) -> int:
        with self.namespaces.of_pod(uid) as where:
            return os.fstat(where.fd).st_ino


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.mark.parametrize("cgroup", [CGROUPFS, SYSTEMD, VERSION_1])
def test_by_the_uid_of_the_pod(proc: Proc, cgroup: str) -> None:
    proc.add(7, "other", cgroup, UIDS[0])
    proc.add(9, "mine", cgroup, UIDS[1])
    assert proc.inode(UIDS[1]) == (proc.root / "namespaces/mine").stat().st_ino
    assert proc.namespaces.pods() == {UIDS[0], UIDS[1]}


def test_the_nodes_own_is_never_entered(proc: Proc) -> None:
    proc.add(9, "node-too", CGROUPFS, UIDS[1])
    (proc.root / "9/ns/net").unlink()
    os.link(proc.root / "namespaces/node", proc.root / "9/ns/net")
    with pytest.raises(BadRequest, match="shares its node's network"):
        proc.inode(UIDS[1])


def test_no_process(proc: Proc) -> None:
    with pytest.raises(NoProcess, match="no process"):
        proc.inode(UIDS[1])


@pytest.mark.parametrize(
    "uid", ["", "1", UIDS[0][:-1], f"{UIDS[0]}x", f"../{UIDS[0]}", UIDS[0].upper().replace("0", "A")]
)
def test_a_uid_is_a_uid(proc: Proc, uid: str) -> None:
    with pytest.raises(BadRequest, match="allowed: a uid"):
        proc.inode(uid)


def test_a_process_id_that_is_anothers_meanwhile(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its cgroup and the opening of its namespace it ended, and the number was given out again."""
    proc.add(9, "mine", CGROUPFS, UIDS[1])
    opened = os.open

    def open_late(path: object, *more: int) -> int:
        (proc.root / "9/cgroup").write_text(CGROUPFS.format(uid=UIDS[2]))
        return opened(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_late)
    with pytest.raises(NoProcess):
        proc.inode(UIDS[1])


def test_its_own(proc: Proc) -> None:
    with pytest.raises(NotNow, match="hostPID"), proc.namespaces.own():
        pass
    (proc.root / "self").unlink()
    proc.add(9, "agents", CGROUPFS, UIDS[1])
    (proc.root / "self").symlink_to("9")
    with proc.namespaces.own() as where:
        assert os.fstat(where.fd).st_ino == (proc.root / "namespaces/agents").stat().st_ino
    (proc.root / "1/ns/net").unlink()
    with pytest.raises(NotNow, match="SYS_PTRACE"), proc.namespaces.own():
        pass
