"""Network namespaces of pods, found by what the kernel says of their processes.

A process of a pod is in a cgroup whose path has the pod's uid in it, however the kubelet names cgroups (uids are written with
dashes or with underscores). Its network namespace is the pod's, whatever container it is in, and stays the pod's when a
container is started anew: it belongs to the pod's sandbox.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from minikafka_chaos.network.errors import BadRequest, NoProcess, NotNow

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OF_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})(?=[./\n]|$)")


@dataclass(frozen=True)
class Entered:
    """An open network namespace."""

    fd: int

    @property
    def path(self) -> str:
        """Return what another program opens that inherits the descriptor."""
        return f"/proc/self/fd/{self.fd}"


class NodeNamespaces:
    """Those of the pods on this node. `proc` is a mount of the node's processes: the agent's pod has `hostPID`."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    @contextmanager
    def of_pod(self, uid: str) -> Iterator[Entered]:
        """The namespace of a pod. Raises BadRequest for one that is not its own, NoProcess."""
        if not _UID.fullmatch(uid):
            raise BadRequest(f"--uid {uid}: allowed: a uid, as a pod's metadata has it")
        fd = self._open(uid)
        try:
            yield Entered(fd)
        finally:
            os.close(fd)

    @contextmanager
    def own(self) -> Iterator[Entered]:
        """The one of this process's own pod. Raises NotNow where the node's processes are not to be seen."""
        try:
            nodes = os.stat(self._proc / "1/ns/net").st_ino
        except OSError as error:
            raise NotNow(f"the node's processes cannot be looked at (hostPID, SYS_PTRACE): {error}") from error
        fd = os.open(self._proc / "self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_ino == nodes:
                raise NotNow(
                    "this process is in the network of its node, or alone in its own process namespace (hostPID)"
                )
            yield Entered(fd)
        finally:
            os.close(fd)

    def _open(self, uid: str) -> int:
        for pid in self._processes(uid):
            try:
                fd = os.open(self._proc / str(pid) / "ns/net", os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            # Only now is it certain whose it is: a process that has this id still, and still is of the pod.
            if self._pod_of(pid) != uid:
                os.close(fd)
                continue
            if os.fstat(fd).st_ino in self._nodes_own():
                os.close(fd)
                raise BadRequest(f"--uid {uid}: the pod shares its node's network: all of the node would be hit")
            return fd
        raise NoProcess(f"no process of the pod with uid {uid} runs on this node")

    def _nodes_own(self) -> set[int]:
        return {os.stat(self._proc / each / "ns/net").st_ino for each in ("1", "self")}

    def _processes(self, uid: str) -> Iterator[int]:
        for pid in self._all():
            if self._pod_of(pid) == uid:
                yield pid

    def _all(self) -> list[int]:
        return sorted(int(each.name) for each in self._proc.iterdir() if each.name.isdigit())

    def _pod_of(self, pid: int) -> str | None:
        try:
            found = _OF_POD.findall((self._proc / str(pid) / "cgroup").read_text())
        except (OSError, UnicodeDecodeError):
            return None
        return found[-1].replace("_", "-") if found else None

    def pods(self) -> set[str]:
        """The uids of all pods that have a process here."""
        return {uid for pid in self._all() if (uid := self._pod_of(pid)) is not None}
