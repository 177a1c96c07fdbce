"""An outage of the SQLite store: somebody holds its write lock. The lock ends with this process, however that ends."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

LOCK_SECONDS_MAX = 10.0
"""Brokers' own writes take about a millisecond each."""


class StoreOutage:
    """Holds the write lock of the database between `begin` and `end`; faults that overlap hold it once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._faults: set[str] = set()
        self._connection: sqlite3.Connection | None = None

    def begin(self, fault: str) -> None:
        """No broker can write when this returns. Raises sqlite3.Error when the lock cannot be had."""
        with self._lock:
            if self._connection is None:
                connection = sqlite3.connect(
                    f"file:{self._path}?mode=rw",
                    uri=True,
                    timeout=LOCK_SECONDS_MAX,
                    isolation_level=None,
                    check_same_thread=False,
                )
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except BaseException:
                    connection.close()
                    raise
                self._connection = connection
            self._faults.add(fault)

    def end(self, fault: str | None) -> bool:
        """The end of one fault, or of all; whether the store takes writes again because of it."""
        with self._lock:
            if fault is None:
                self._faults.clear()
            self._faults.discard(fault or "")
            if self._faults or self._connection is None:
                return False
            self._connection.rollback()
            self._connection.close()
            self._connection = None
            return True
