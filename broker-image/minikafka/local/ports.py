"""TCP ports of this machine: is one free, who has it, and a run of free ones for a test's cluster."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

from minikafka.local.errors import ClusterError, PortInUse
from minikafka.local.process import command_line, running

HOST = "127.0.0.1"
METRICS_PORT_OFFSET = 1000
"""A broker's metrics port is its listener's port plus this."""

INTER_BROKER_PORT_OFFSET = 500
"""Its inter-broker listener's port is its listener's plus this: between both, for a cluster has at most 100 brokers."""

PROXY_PORT_OFFSET = 250
"""A proxy that stands before one of the two has its port plus this; see `ClusterRecord.proxied`."""

_LISTEN = "0A"
_COMMAND_SHOWN_MAX = 60


def ports_of(port: int) -> tuple[int, int, int]:
    """All that a broker listens on whose listener for clients has this port."""
    return port, port + INTER_BROKER_PORT_OFFSET, port + METRICS_PORT_OFFSET


def proxy_ports_of(port: int) -> tuple[int, int]:
    """Return where proxies before such a broker listen: for clients, and for brokers."""
    return port + PROXY_PORT_OFFSET, port + INTER_BROKER_PORT_OFFSET + PROXY_PORT_OFFSET


def is_free(port: int) -> bool:
    """Return whether a listener can be opened on the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does: TIME_WAIT is not "in use"
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def require_free(ports: Iterable[int]) -> None:
    """Raise :class:`PortInUse` for the first of these ports that is taken."""
    for port in ports:
        if not is_free(port):
            raise PortInUse(f"port {port} is in use{holder(port)}")


def free_base_port(brokers: int, rng: random.Random | None = None) -> int:
    """A base port such that every port that a cluster of that size listens on is free now.

    Nobody else who asks gets one of them while this process lives: of programs that start clusters side by side, each
    keeps the ports of a broker that is down for the moment. Below the kernel's ephemeral range, so that no client's own
    connection takes one before the brokers do.
    """
    bases = list(range(20000, 30000, _RESERVED_TOGETHER))
    (rng or random.Random()).shuffle(bases)
    for base in bases:  # all of them: of two runs of all tests side by side, each keeps hundreds
        ports = [port for n in range(brokers) for port in (*ports_of(base + n), *proxy_ports_of(base + n))]
        if all(map(is_free, ports)) and _reserve(ports):
            return base
    raise PortInUse(f"found no {brokers} free ports in a row between 20000 and 32000")


_RESERVED_TOGETHER = 10
_reserved: dict[int, int] = {}
"""A locked file for each ten ports that this process may use; the kernel lets go of them at its end, however it ends."""


def _reserve(ports: Iterable[int]) -> bool:
    """Take these ports, or none of them when another process has one, or this one has asked before."""
    folder = _own_folder()
    try:
        return _reserve_in(folder, ports)
    finally:
        os.close(folder)


def _own_folder() -> int:
    """Open the folder of those files. Others may have made one of its name, with links to files of this user in it.

    Raises ClusterError where nobody else may be kept out of it.
    """
    path = Path(tempfile.gettempdir()) / f"minikafka-ports-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ClusterError(f"{path}: {error.strerror}; allowed: a folder of this user, or another TMPDIR") from error
    status = os.fstat(folder)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(folder)
        raise ClusterError(
            f"{path}: others may write there; allowed: a folder of this user with mode 0700, or another TMPDIR"
        )
    return folder


def _reserve_in(folder: int, ports: Iterable[int]) -> bool:
    taken: dict[int, int] = {}
    for ten in sorted({port // _RESERVED_TOGETHER for port in ports}):
        if ten in _reserved:
            break
        file = os.open(str(ten), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            break
        taken[ten] = file
    else:
        _reserved.update(taken)
        return True
    for file in taken.values():
        os.close(file)
    return False


def holder(port: int) -> str:
    """`` by process PID (COMMAND)`` for the listener on a port, or nothing when that cannot be read."""
    inodes = _listening_inodes(port)
    if inodes:
        for pid in running():
            if _holds(pid, inodes):
                command = " ".join(command_line(pid))
                if len(command) > _COMMAND_SHOWN_MAX:
                    command = command[: _COMMAND_SHOWN_MAX - 1] + "…"
                return f" by process {pid} ({command})"
    return ""


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    return inodes


def _holds(pid: int, inodes: set[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            if os.readlink(f"{folder}/{name}") in inodes:
                return True
    except OSError:  # ended meanwhile, or another user's
        pass
    return False
