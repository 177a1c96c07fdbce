"""The stores of one machine: what every store promises, and what is special about each."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from minikafka.metadata import database
from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.sqlite import SqliteStore
from minikafka.metadata.store import ClusterStore, StoreError, StoreWentBackError

from tests.unit.metadata.store_conformance import (
    SOON,
    Connect,
    TestCommit,
    TestCounters,
    TestLease,
    TestWatch,
    controller,
)

__all__ = ["TestCommit", "TestCounters", "TestLease", "TestWatch"]


@pytest.fixture(params=["memory", "sqlite"])
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connect]:
    """``await connect(2)``: broker 2's connection to the one store of the test."""
    opened: list[ClusterStore] = []
    memory = MemoryStore()

    async def open_store(node: int) -> ClusterStore:
        store: ClusterStore = memory if request.param == "memory" else SqliteStore(tmp_path / "metadata.sqlite", node)
        await store.open(None)
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        await store.close()


def test_nobody_else_reads_the_store(tmp_path: Path) -> None:
    """Users' credentials are in it, and in the files that SQLite keeps beside it."""
    store = database.Database(tmp_path / "metadata.sqlite")
    store.open(None)
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()}
    store.close()
    assert modes == dict.fromkeys(("metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm"), 0)


class TestClusterId:
    async def test_memory(self) -> None:
        """R15: a broker of another cluster is refused."""
        store = MemoryStore()
        assert await store.open("mine") == await store.open(None) == await store.open("mine") == "mine"
        with pytest.raises(StoreError, match="'mine', not to 'other'"):
            await store.open("other")

    async def test_sqlite(self, tmp_path: Path) -> None:
        """R15: the id is in the file; a broker configured for another cluster is refused."""
        path = tmp_path / "metadata.sqlite"
        async with contextlib.AsyncExitStack() as closing:
            for node, wish in ((1, "mine"), (2, None), (3, "mine")):
                store = SqliteStore(path, node)
                closing.push_async_callback(store.close)
                assert await store.open(wish) == "mine"
            stranger = SqliteStore(path, 4)
            closing.push_async_callback(stranger.close)
            with pytest.raises(StoreError, match="'mine', not to 'other'"):
                await stranger.open("other")

    async def test_one_is_made_when_none_is_given(self, tmp_path: Path) -> None:
        """KIP-78: 22 characters, and the same for everybody."""
        assert len(await MemoryStore().open(None)) == 22
        one, two = SqliteStore(tmp_path / "metadata.sqlite", 1), SqliteStore(tmp_path / "metadata.sqlite", 2)
        made = await one.open(None)
        assert len(made) == 22
        assert await two.open(None) == made
        await one.close()
        await two.close()


class TestSqlite:
    async def test_survives_its_brokers(self, tmp_path: Path) -> None:
        """R15: records, lease and counters are on disk."""
        path = tmp_path / "metadata.sqlite"
        store = SqliteStore(path, 1)
        await store.open(None)
        lease = await controller(store)
        revision = await store.commit(lease.epoch, {"a": 1})
        await store.allocate("producer.id", 7)
        await store.close()
        again = SqliteStore(path, 2)
        await again.open(None)
        assert (await again.snapshot()).revision == revision
        assert await again.lease() == lease
        assert await again.allocate("producer.id", 1) == 7
        await again.close()

    async def test_an_earlier_state_in_its_place_is_noticed(self, tmp_path: Path) -> None:
        """Readers would go on from there with changes of another history."""
        store = SqliteStore(tmp_path / "store.db", 1)
        await store.open("c")
        lease = await controller(store)
        seen = await store.commit(lease.epoch, {"a": 1})
        assert (await store.changes(seen)).records == {}
        with pytest.raises(StoreWentBackError, match=f"is at revision {seen}, but {seen + 1} was seen already"):
            await store.changes(seen + 1)
        await store.close()

    async def test_all_but_signs_of_life_outlive_a_power_loss(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "store.db", 1)
        await store.open("c")
        assert store._database._db is not None
        statements: list[str] = []
        store._database._db.set_trace_callback(statements.append)
        lease = await store.acquire(1, "h", 1, 0)
        assert lease is not None
        await store.renew(lease)
        await store.commit(lease.epoch, {"a": 1})
        await store.allocate("id", 1)
        await store.close()
        modes = [statement.rpartition("=")[2] for statement in statements if "synchronous" in statement]
        assert modes == ["FULL", "NORMAL", "FULL", "FULL"]

    @pytest.mark.parametrize("failing", ["_revision", "_lease"])
    async def test_a_transaction_that_fails_is_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        """A read that met SQLITE_BUSY left its transaction open, and no later one could begin, for ever."""
        store = SqliteStore(tmp_path / "store.db", 1)
        await store.open(None)
        lease = await controller(store)

        def busy(_: sqlite3.Connection) -> None:
            raise sqlite3.OperationalError("database is locked")

        operations: list[Callable[[], Awaitable[object]]] = [
            lambda: store.changes(0),
            store.snapshot,
            store.lease,
            lambda: store.commit(lease.epoch, {"b": 2}),
            lambda: store.renew(lease),
            lambda: store.acquire(2, "h", 1, lease.epoch + 7),
        ]
        for operation in operations:
            with monkeypatch.context() as broken:
                broken.setattr(database, failing, busy)
                with contextlib.suppress(StoreError):
                    await operation()
            for later in operations:
                await later()
        await store.close()

    async def test_a_transaction_that_cannot_be_rolled_back_goes_with_its_connection(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "store.db", 1)
        await store.open(None)
        lease = await controller(store)
        assert store._database._db is not None
        await asyncio.to_thread(store._database._db.execute, "BEGIN IMMEDIATE")
        assert await store.commit(lease.epoch, {"a": 1}) == 1
        assert (await store.changes(0)).records == {"a": 1}
        await store.close()

    async def test_whatever_fails_is_a_store_error(self, tmp_path: Path) -> None:
        """Those who follow the store try again after a StoreError."""
        store = SqliteStore(tmp_path / "store.db", 1)
        await store.open(None)
        lease = await controller(store)
        await store.commit(lease.epoch, {"a": 1})
        assert store._database._db is not None
        await asyncio.to_thread(store._database._db.execute, "UPDATE records SET value='{' WHERE key='a'")
        with pytest.raises(StoreError, match=r"store\.db"):
            await store.changes(0)
        await store.close()
        with pytest.raises(StoreError, match="closed"):
            await store.changes(0)
        with pytest.raises(StoreError, match="closed"):
            await store.commit(lease.epoch, {"a": 2})

    async def test_a_bell_that_cannot_be_rung_fails_no_commit(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "store.db", 1)
        await store.open(None)
        lease = await controller(store)
        (tmp_path / "store.db.watch").rename(tmp_path / "elsewhere")
        assert await store.commit(lease.epoch, {"a": 1}) == 1
        await store.close()

    async def test_a_dead_brokers_socket_is_no_obstacle(self, tmp_path: Path) -> None:
        """R15: brokers die without removing it, and come back over it."""
        path = tmp_path / "metadata.sqlite"
        one, two = SqliteStore(path, 1), SqliteStore(path, 2)
        await one.open(None)
        await two.open(None)
        assert two._bell is not None
        asyncio.get_running_loop().remove_reader(two._bell.fileno())
        two._bell.close()
        lease = await controller(one)
        await one.commit(lease.epoch, {"a": 1})
        two._bell = None
        await two.close()
        two = SqliteStore(path, 2)
        await two.open(None)
        assert (await two.snapshot()).records == {"a": 1}
        await two.close()
        await one.close()

    async def test_a_path_longer_than_a_sockets_address(self, tmp_path: Path) -> None:
        """A socket's path is limited to about 100 bytes, that of a folder is not."""
        folder = tmp_path / ("d" * 120)
        folder.mkdir()
        one, two = SqliteStore(folder / "metadata.sqlite", 1), SqliteStore(folder / "metadata.sqlite", 2)
        await one.open(None)
        await two.open(None)
        await controller(one)
        await asyncio.wait_for(two.wait(0, 60.0), SOON)
        await one.close()
        await two.close()

    async def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        """One clear line with the path."""
        path = tmp_path / "metadata.sqlite"
        path.write_bytes(b"not a database, but long enough to be looked at" * 100)
        store = SqliteStore(path, 1)
        with pytest.raises(StoreError, match=r"metadata\.sqlite: file is not a database"):
            await store.open(None)
        await store.close()

    async def test_closed(self, tmp_path: Path) -> None:
        """R15: not before it is open, and closing twice is harmless."""
        store = SqliteStore(tmp_path / "metadata.sqlite", 1)
        with pytest.raises(StoreError, match="closed"):
            await store.lease()
        with pytest.raises(StoreError, match="closed"):
            await store.allocate("x", 1)
        await store.close()

    async def test_a_full_disk_is_not_for_ever(self, tmp_path: Path) -> None:
        """R15: a commit that failed leaves no transaction open behind it, or no later one could begin."""
        store = SqliteStore(tmp_path / "metadata.sqlite", 1)
        await store.open(None)
        lease = await controller(store)
        revision = await store.commit(lease.epoch, {"a": 1})
        db = store._database._db
        assert db is not None
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(StoreError, match="full"):
            await store.commit(lease.epoch, {"big": "x" * 1_000_000})
        db.execute("PRAGMA max_page_count=1000000")
        assert await store.commit(lease.epoch, {"a": 2}) == revision + 1
        assert (await store.snapshot()).records == {"a": 2}
        await store.close()

    async def test_a_locked_file_is_waited_for_then_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R15: another process that holds the file for too long is a store that cannot be reached."""
        monkeypatch.setattr("minikafka.metadata.database._BUSY_TIMEOUT_S", 0.05)
        path = tmp_path / "metadata.sqlite"
        store = SqliteStore(path, 1)
        await store.open(None)
        lease = await controller(store)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await store.commit(lease.epoch, {"a": 1})
        other.execute("ROLLBACK")
        other.close()
        await store.commit(lease.epoch, {"a": 1})
        await store.close()
