"""The transactions of the SQLite store: what is in the file, and what is written only under which condition.

Blocking, and used by one thread at a time. :class:`~minikafka.metadata.sqlite.SqliteStore` runs them on a thread of a broker,
the simulator in virtual time on a database in memory.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from minikafka.metadata.store import Changes, FencedControllerError, Lease, Snapshot, StoreError, StoreWentBackError

T = TypeVar("T")

IN_MEMORY = ":memory:"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value TEXT);
CREATE INDEX IF NOT EXISTS records_by_revision ON records (revision);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS lease (
  id INTEGER PRIMARY KEY CHECK (id = 1), holder INTEGER, epoch INTEGER, renewed INTEGER, host TEXT, port INTEGER
);
"""

_PUT = """
INSERT INTO records VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, value = excluded.value
"""
"""A record keeps its place: readers hear of all in the order in which they first came."""

_BUSY_TIMEOUT_S = 5.0
"""How long a write waits for another broker's; commits take about a millisecond."""


class Database:
    """One connection. All methods raise StoreError for what they refuse, and sqlite3.Error for what SQLite does.

    Args:
        path: the file, whose folder must exist, or `IN_MEMORY`.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def open(self, cluster_id: str | None) -> str:
        """The id of the cluster; the tables are made when they are not there."""
        known, db = self._db, self._db or self._connect()
        self._db = db
        try:
            _switch_to_wal(db)
            db.execute("PRAGMA synchronous=FULL")  # of what is made here; later transactions choose
            return self._transact(("BEGIN IMMEDIATE",), lambda db: self._initialise(db, cluster_id))
        except BaseException:
            if known is None:
                self.close()
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

    @property
    def is_open(self) -> bool:
        return self._db is not None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    # -- transactions ---------------------------------------------------------------------------------------------------

    def _write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """``durable``: it outlives a power loss, which takes an fsync; a crash it outlives in any case."""
        synchronous = "FULL" if durable else "NORMAL"
        return self._transact(("PRAGMA synchronous=" + synchronous, "BEGIN IMMEDIATE"), work)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self._transact(("BEGIN",), work)

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
        if isinstance(self._path, Path):
            _make_private(self._path)
        return sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)

    # -- records --------------------------------------------------------------------------------------------------------

    def changes(self, since: int) -> Changes:
        """See :meth:`ClusterStore.changes`."""

        def read(db: sqlite3.Connection) -> Changes:
            revision = _revision(db)
            if revision < since:
                raise StoreWentBackError(str(self._path), revision, since)
            rows = db.execute("SELECT key, value FROM records WHERE revision > ? ORDER BY rowid", (since,)).fetchall()
            return Changes(revision, {k: None if v is None else json.loads(v) for k, v in rows})

        return self._read(read)

    def snapshot(self) -> Snapshot:
        """See :meth:`ClusterStore.snapshot`."""
        changes = self.changes(-1)
        return Snapshot(changes.revision, {k: v for k, v in changes.records.items() if v is not None})

    def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        """See :meth:`ClusterStore.commit`."""
        rows = [(k, None if v is None else json.dumps(v, separators=(",", ":"))) for k, v in records.items()]

        def write(db: sqlite3.Connection) -> int:
            held = _lease(db)
            if held is None or held.epoch != controller_epoch:
                raise FencedControllerError(f"controller epoch {controller_epoch} is over")
            revision = _revision(db) + 1
            db.execute("UPDATE meta SET value=? WHERE name='revision'", (str(revision),))
            db.executemany(_PUT, [(k, revision, v) for k, v in rows])
            return revision

        return self._write(write)

    # -- lease and counters ---------------------------------------------------------------------------------------------

    def lease(self) -> Lease | None:
        """See :meth:`ClusterStore.lease`."""
        return self._read(_lease)

    def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        """See :meth:`ClusterStore.acquire`."""

        def write(db: sqlite3.Connection) -> Lease | None:
            held = _lease(db)
            if (held.epoch if held else 0) != expected_epoch:
                return None
            taken = Lease(holder, expected_epoch + 1, 0, host, port)
            db.execute("INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, ?, ?)", _lease_row(taken))
            return taken

        return self._write(write)

    def renew(self, lease: Lease) -> Lease:
        """See :meth:`ClusterStore.renew`.

        A sign of life is of no use to those who come after a power loss, and an fsync every few seconds would hold up whoever
        appends to a log on the same file system.
        """

        def write(db: sqlite3.Connection) -> Lease:
            held = _lease(db)
            if held is None or held.epoch != lease.epoch:
                raise FencedControllerError(f"controller epoch {lease.epoch} is over")
            renewed = Lease(held.holder, held.epoch, held.renewed + 1, held.host, held.port)
            db.execute("UPDATE lease SET renewed=? WHERE id=1", (renewed.renewed,))
            return renewed

        return self._write(write, durable=False)

    def allocate(self, counter: str, count: int) -> int:
        """See :meth:`ClusterStore.allocate`."""

        def write(db: sqlite3.Connection) -> int:
            row = db.execute("SELECT next FROM counters WHERE name=?", (counter,)).fetchone()
            first = row[0] if row else 0
            db.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (counter, first + count))
            return int(first)

        return self._write(write)


def _make_private(path: Path) -> None:
    """Make the file, so that nobody else may read it: there are credentials in it. One that is there stays as it is."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:  # it is there, or SQLite says why it cannot be
        pass


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
