"""The store of one machine: an SQLite file that the brokers of a local cluster share (the embedded default).

SQLite's own locking makes every write atomic over processes. Watchers do not poll: each broker binds a datagram socket
beside the file, and a writer sends every socket one byte after its commit; a slow poll covers a lost byte. All SQLite work
(:mod:`minikafka.metadata.database`) runs on one thread of its own, so a commit never holds up the event loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from minikafka.metadata.database import Database
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import Changes, Lease, Room, Snapshot, StoreError, no_limit

T = TypeVar("T")


class SqliteStore:
    """See :class:`~minikafka.metadata.store.ClusterStore`.

    Args:
        path: the database file; its folder must exist.
        node: this broker's id, the name of its socket.
    """

    def __init__(self, path: Path, node: int) -> None:
        self._path = path
        self._node = node
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._database = Database(path)
        self._bell: socket.socket | None = None
        self._rung = asyncio.Event()

    # -- life ---------------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> str:
        try:
            found = await self._run(lambda: self._database.open(cluster_id))
        except StoreError as error:
            raise StoreError(f"minikafka.metadata.store: {error}") from error
        self._open_bell()
        return found

    def _bells(self) -> Path:
        return self._path.with_name(self._path.name + ".watch")

    def _open_bell(self) -> None:
        """A relative address: the length of a socket's path is limited to about 100 bytes, that of a folder is not."""
        self._bells().mkdir(exist_ok=True)
        name = self._bells() / str(self._node)
        name.unlink(missing_ok=True)
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bell.setblocking(False)
        folder = os.open(self._bells(), os.O_RDONLY | os.O_DIRECTORY)
        try:
            bell.bind(f"/proc/self/fd/{folder}/{self._node}")
        finally:
            os.close(folder)
        self._bell = bell
        asyncio.get_running_loop().add_reader(bell.fileno(), self._on_bell)

    def _on_bell(self) -> None:
        assert self._bell is not None
        try:
            while self._bell.recv(64):
                pass
        except BlockingIOError:
            pass
        self._rung.set()

    def _ring(self) -> None:
        """Wake the watchers. Never fails: what they are woken for is committed, and they look by themselves now and then."""
        self._rung.set()
        if self._bell is None:
            return
        try:
            folder = os.open(self._bells(), os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return
        try:
            for name in os.listdir(folder):
                if name != str(self._node):
                    try:
                        self._bell.sendto(b"!", f"/proc/self/fd/{folder}/{name}")
                    except OSError:
                        pass  # a dead broker's socket, or a full one that will wake up anyway
        except OSError:
            pass
        finally:
            os.close(folder)

    async def close(self) -> None:
        if self._bell is not None:
            asyncio.get_running_loop().remove_reader(self._bell.fileno())
            self._bell.close()
            self._bell = None
            (self._bells() / str(self._node)).unlink(missing_ok=True)
        if self._database.is_open:
            await self._run(self._database.close)
        self._pool.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """On the store's thread. What SQLite says, and a record that is no JSON, are StoreErrors: the caller tries again."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except (sqlite3.Error, LookupError, TypeError, ValueError) as error:
            raise StoreError(f"{self._path}: {error}") from error
        except RuntimeError as error:  # the thread has ended
            raise StoreError(f"{self._path}: the store is closed") from error

    # -- records -------------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        return await self._run(self._database.snapshot)

    async def changes(self, since: int) -> Changes:
        return await self._run(lambda: self._database.changes(since))

    async def wait(self, since: int, timeout: float) -> None:
        del since  # a ring between the caller's read and now is remembered by the event
        try:
            async with asyncio.timeout(timeout):  # not wait_for: in Python 3.11 that can swallow a cancellation
                await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        revision = await self._run(lambda: self._database.commit(controller_epoch, records))
        self._ring()
        return revision

    # -- lease and counters ---------------------------------------------------------------------------------------------

    async def lease(self) -> Lease | None:
        return await self._run(self._database.lease)

    async def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        taken = await self._run(lambda: self._database.acquire(holder, host, port, expected_epoch))
        if taken is not None:
            self._ring()
        return taken

    async def renew(self, lease: Lease) -> Lease:
        return await self._run(lambda: self._database.renew(lease))

    async def allocate(self, counter: str, count: int) -> int:
        return await self._run(lambda: self._database.allocate(counter, count))

    def room(self, image: ClusterImage) -> Room:
        del image
        return no_limit
