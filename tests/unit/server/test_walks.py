"""A walk through the code is natural: the files that a Produce passes until its answer, and an election until somebody leads.

Looked at are the calls on the way: the stack where the records reach the disk, the one where the answer reaches the socket, and
so on. Helpers that are called beside the way, and have returned, are not on these stacks.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import minikafka
import pytest
from minikafka.controller.change import ChangeRules
from minikafka.controller.term import ControllerTerm
from minikafka.log.filesystem import RealFile
from minikafka.metadata.sqlite import SqliteStore
from minikafka.replication.partition import Partition
from minikafka.server.broker import Broker
from minikafka.server.connection import ClientConnection

from tests.interop.raw_client import RawConnection, produce_request, read_produce_answer
from tests.unit.replication.cluster import batch
from tests.unit.server.in_process import DEADLINE, running
from tests.waiting import until

ROOT = Path(minikafka.__file__).parent


class Walk:
    """The files of this package on the stacks that were noted, each stack from the event loop on."""

    def __init__(self) -> None:
        self.legs: dict[str, list[str]] = {}

    def note(self, leg: str, frame: FrameType | None) -> None:
        """The first stack of a leg counts."""
        files: list[str] = []
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                files.append(path.relative_to(ROOT).as_posix())
            frame = frame.f_back
        self.legs.setdefault(leg, [name for name, _ in groupby(reversed(files))])

    @property
    def files(self) -> set[str]:
        return {name for leg in self.legs.values() for name in leg}

    def most_entered(self, leg: str) -> int:
        return max(Counter(self.legs[leg]).values())


def noting(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, note: Any) -> None:
    """Have ``note(self)`` called before the method."""
    original = getattr(owner, method)

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(owner, method, noted)


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_produce_passes_twelve_files_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    """From the socket to the disk, and from what commits the record to the socket that its acknowledgement goes to."""
    async with running(tmp_path, 2) as cluster:
        await cluster.create("t", leader=1)
        leader = cluster.brokers[1]
        await until(lambda: in_sync(leader) == 2)
        walk = Walk()
        ours = f"{tmp_path / 'broker-1'}/t-0/"

        def appended(file: Any) -> None:
            if file._path.startswith(ours) and file._path.endswith(".log"):
                walk.note("to the disk", sys._getframe(2))

        def answered(connection: Any) -> None:
            if connection.listener == "CLIENT":
                walk.note("to the client", sys._getframe(2))

        noting(monkeypatch, RealFile, "append", appended)
        noting(monkeypatch, ClientConnection, "send", answered)
        address = next(f"{host}:{port}" for name, host, port in leader.listeners.advertised() if name == "CLIENT")
        async with asyncio.timeout(DEADLINE):
            answer = await asyncio.to_thread(ask, address, produce_request("t", 0, batch("v"), acks=acks))
    assert read_produce_answer(answer).error_code == 0
    assert set(walk.legs) == {"to the disk", "to the client"}
    assert len(walk.files) <= 12, sorted(walk.files)
    assert all(walk.most_entered(leg) < 3 for leg in walk.legs), walk.legs


@pytest.mark.slow
async def test_an_election_does_not_pass_through_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the end of a connection to the decision, to the store, and from the image to who leads then."""
    async with running(tmp_path, 3) as cluster:
        await cluster.has_controller()
        controller = cluster.controller
        dying = next(b for b in cluster.brokers.values() if b is not controller)
        await cluster.create("t", leader=dying.broker_id)
        await until(lambda: in_sync(dying) == 3)
        walk = Walk()
        noting(monkeypatch, ControllerTerm, "connection_lost", lambda _: walk.note("to the term", sys._getframe(2)))
        noting(monkeypatch, ChangeRules, "elect", lambda _: walk.note("to the decision", sys._getframe(2)))
        noting(monkeypatch, SqliteStore, "commit", lambda _: walk.note("to the store", sys._getframe(2)))
        noting(monkeypatch, Partition, "_become_leader", lambda _: walk.note("to the leader", sys._getframe(2)))
        dying.membership._disconnect()  # as the kernel does when a process dies
        await until(lambda: cluster.state("t").leader != dying.broker_id)
        await until(lambda: len(walk.legs) == 4)
    entered = [name for leg in walk.legs.values() for name in leg]
    assert entered.count("server/broker.py") <= 1, walk.legs
    assert all(walk.most_entered(leg) < 3 for leg in walk.legs), walk.legs


def in_sync(leader: Broker) -> int:
    partition = leader.replicas.get("t", 0)
    return 0 if partition is None or partition.leader is None else len(partition.leader.isr.committed)


def ask(address: str, request: bytes) -> bytes:
    with RawConnection(address) as connection:
        return bytes(connection.call(request))
