"""The store of one machine: an SQLite file that the brokers of a local cluster share (the embedded default).

SQLite's own locking makes every write atomic over processes. Watchers do not poll: each broker binds a datagram socket
beside the file, and a writer sends every socket one byte after its commit; a slow poll covers a lost byte. All SQLite work
runs on one thread of its own, so a commit never holds up the event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from minikafka.metadata.image import ClusterImage, TopicState
from minikafka.metadata.store import (
    Changes,
    Desk,
    FencedControllerError,
    Lease,
    Snapshot,
    StoreError,
    StoreWentBackError,
)

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value TEXT);
CREATE INDEX IF NOT EXISTS records_by_revision ON records (revision);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS lease (
  id INTEGER PRIMARY KEY CHECK (id = 1), holder INTEGER, epoch INTEGER, renewed INTEGER, host TEXT, port INTEGER
);
"""

_BUSY_TIMEOUT_S = 5.0
"""How long a write waits for another broker's; commits take about a millisecond."""


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
        self._db: sqlite3.Connection | None = None
        self._bell: socket.socket | None = None
        self._rung = asyncio.Event()

    # -- life ---------------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> str:
        try:
            found = await self._run(lambda: self._open(cluster_id))
        except StoreError as error:
            raise StoreError(f"minikafka.metadata.store: {error}") from error
        self._open_bell()
        return found

    def _open(self, cluster_id: str | None) -> str:
        self._db = db = self._connect()
        try:
            _switch_to_wal(db)
            db.execute("PRAGMA synchronous=FULL")  # of what is made here; later transactions choose
            return self._transact(("BEGIN IMMEDIATE",), lambda db: self._initialise(db, cluster_id))
        except BaseException:
            self._db = None
            db.close()
            raise

    def _initialise(self, db: sqlite3.Connection, cluster_id: str | None) -> str:
        """Make the tables if need be; the cluster id."""
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        row = db.execute("SELECT value FROM meta WHERE name='cluster.id'").fetchone()
        if row is None:
            row = (cluster_id or uuid4().hex[:22],)
            db.execute("INSERT INTO meta VALUES ('cluster.id', ?)", row)
            db.execute("INSERT INTO meta VALUES ('revision', '0')")
        if cluster_id is not None and row[0] != cluster_id:
            raise StoreError(f"{self._path} belongs to cluster {row[0]!r}, not to {cluster_id!r}")
        return str(row[0])

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
        if self._db is not None:
            await self._run(self._db.close)
            self._db = None
        self._pool.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """On the store's thread. What SQLite says, and a record that is no JSON, are StoreErrors: the caller tries again."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except (sqlite3.Error, LookupError, TypeError, ValueError) as error:
            raise StoreError(f"{self._path}: {error}") from error
        except RuntimeError as error:  # the thread has ended
            raise StoreError(f"{self._path}: the store is closed") from error

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """One transaction. ``durable``: it outlives a power loss, which takes an fsync; a crash it outlives in any case."""
        synchronous = "FULL" if durable else "NORMAL"
        return await self._run(lambda: self._transact(("PRAGMA synchronous=" + synchronous, "BEGIN IMMEDIATE"), work))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(lambda: self._transact(("BEGIN",), work))

    def _transact(self, begin: Sequence[str], work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` inside a transaction of its own, which is over afterwards, whatever happened."""
        db = self._connection()
        try:
            for statement in begin:
                db.execute(statement)
            result = work(db)
            db.execute("COMMIT")  # a full disk shows here; SQLite may or may not have rolled back by itself
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return result

    def _connection(self) -> sqlite3.Connection:
        """The database, in no transaction: one that could not be rolled back is left behind with its connection."""
        if self._db is None:
            raise StoreError("the store is closed")
        if self._db.in_transaction:
            self._db.close()
            self._db = self._connect()
        return self._db

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)

    # -- records -------------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        changes = await self.changes(-1)
        return Snapshot(changes.revision, {k: v for k, v in changes.records.items() if v is not None})

    async def changes(self, since: int) -> Changes:
        def read(db: sqlite3.Connection) -> Changes:
            revision = _revision(db)
            if revision < since:
                raise StoreWentBackError(str(self._path), revision, since)
            rows = db.execute("SELECT key, value FROM records WHERE revision > ?", (since,)).fetchall()
            return Changes(revision, {k: None if v is None else json.loads(v) for k, v in rows})

        return await self._read(read)

    async def wait(self, since: int, timeout: float) -> None:
        del since  # a ring between the caller's read and now is remembered by the event
        try:
            async with asyncio.timeout(timeout):  # not wait_for: in Python 3.11 that can swallow a cancellation
                await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        rows = [(k, None if v is None else json.dumps(v, separators=(",", ":"))) for k, v in records.items()]

        def write(db: sqlite3.Connection) -> int:
            held = _lease(db)
            if held is None or held.epoch != controller_epoch:
                raise FencedControllerError(f"controller epoch {controller_epoch} is over")
            revision = _revision(db) + 1
            db.execute("UPDATE meta SET value=? WHERE name='revision'", (str(revision),))
            db.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", [(k, revision, v) for k, v in rows])
            return revision

        revision = await self._write(write)
        self._ring()
        return revision

    # -- lease and counters ---------------------------------------------------------------------------------------------

    async def lease(self) -> Lease | None:
        return await self._read(_lease)

    async def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        def write(db: sqlite3.Connection) -> Lease | None:
            held = _lease(db)
            if (held.epoch if held else 0) != expected_epoch:
                return None
            taken = Lease(holder, expected_epoch + 1, 0, host, port)
            db.execute("INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, ?, ?)", _lease_row(taken))
            return taken

        taken = await self._write(write)
        if taken is not None:
            self._ring()
        return taken

    async def renew(self, lease: Lease) -> Lease:
        def write(db: sqlite3.Connection) -> Lease:
            held = _lease(db)
            if held is None or held.epoch != lease.epoch:
                raise FencedControllerError(f"controller epoch {lease.epoch} is over")
            renewed = Lease(held.holder, held.epoch, held.renewed + 1, held.host, held.port)
            db.execute("UPDATE lease SET renewed=? WHERE id=1", (renewed.renewed,))
            return renewed

        # A sign of life is of no use to those who come after a power loss, and an fsync every few seconds would hold up
        # whoever appends to a log on the same file system.
        return await self._write(write, durable=False)

    async def allocate(self, counter: str, count: int) -> int:
        def write(db: sqlite3.Connection) -> int:
            row = db.execute("SELECT next FROM counters WHERE name=?", (counter,)).fetchone()
            first = row[0] if row else 0
            db.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (counter, first + count))
            return int(first)

        return await self._write(write)

    def check_room(self, image: ClusterImage, topic: TopicState) -> None:
        """There is room for everything."""

    async def attend(self, desk: Desk) -> None:
        del desk  # nobody but brokers writes here


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """Brokers start together and switch at the same moment; SQLite does not wait for its busy timeout here."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _revision(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT value FROM meta WHERE name='revision'").fetchone()[0])


def _lease(db: sqlite3.Connection) -> Lease | None:
    row = db.execute("SELECT holder, epoch, renewed, host, port FROM lease WHERE id=1").fetchone()
    return None if row is None else Lease(*row)


def _lease_row(lease: Lease) -> tuple[int, int, int, str, int]:
    return lease.holder, lease.epoch, lease.renewed, lease.host, lease.port
