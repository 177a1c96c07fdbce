"""Faults of disk, clock and store on one machine: several at once add up, and each end leaves the others."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest
from minikafka.log.injection import FaultFile, InjectedFaults
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds.injected import FaultFiles
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.grounds.store_outage import StoreOutage
from minikafka_chaos.scenario.faults import Fault, Handle, Parameters, Targets


def test_faults_of_one_disk_add_up_and_end_one_by_one(tmp_path: Path) -> None:
    files = FaultFiles(lambda broker: tmp_path / str(broker))

    def faults_of(broker: int) -> InjectedFaults:
        return FaultFile(str(tmp_path / str(broker))).now

    files.add(Fault("slow", Verb.SLOW_FSYNC, Parameters(millis=100)), (0, 1))
    files.add(Fault("slower", Verb.SLOW_FSYNC, Parameters(millis=50)), (1,))
    files.add(Fault("back", Verb.CLOCK_STEP, Parameters(millis=-5)), (1,))
    files.add(Fault("full", Verb.DISK_FULL), (0,))
    files.add(Fault("broken", Verb.FAILING_FSYNC), (0,))
    assert faults_of(0) == InjectedFaults(100, errno.EIO, errno.ENOSPC, 0)
    assert faults_of(1) == InjectedFaults(150, 0, 0, -5)
    assert files.remove("slow") == [0, 1]
    assert files.remove("slow") == []
    assert faults_of(1) == InjectedFaults(50, 0, 0, -5)
    assert files.clear() == [1, 0]
    assert faults_of(0) == faults_of(1) == InjectedFaults()


def test_a_verb_that_the_ground_does_not_know_becomes_no_other_fault(tmp_path: Path) -> None:
    """Whoever adds a verb to the table and forgets this ground is told so: it is not a step of the clock, or nothing."""
    ground = ProcessesGround(tmp_path)
    unknown = Fault("new", Verb.RESTART)  # any verb that is not for `make`
    with pytest.raises(ToolTrouble, match="the processes ground cannot Restart"):
        ground.make(unknown, Targets((0,)))
    with pytest.raises(ToolTrouble, match="the processes ground cannot undo Restart"):
        ground.unmake(Handle(unknown, Targets((0,))))


def test_outages_that_overlap_are_one_until_the_last_ends(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlite3.connect(path, isolation_level=None, timeout=0.01) as broker:
        broker.execute("PRAGMA journal_mode=WAL")
        broker.execute("CREATE TABLE t (x)")

        def writes() -> bool:
            try:
                broker.execute("INSERT INTO t VALUES (1)")
            except sqlite3.OperationalError:
                return False
            return True

        outage = StoreOutage(path)
        outage.begin("a")
        outage.begin("b")
        assert not writes()
        assert broker.execute("SELECT count(*) FROM t").fetchone() == (0,)
        assert not outage.end("a")
        assert not writes()
        assert outage.end("b")
        assert writes()
        assert not outage.end("b")
        outage.begin("c")
        assert outage.end(None)
        assert writes()
    broker.close()


def test_an_outage_of_a_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        StoreOutage(tmp_path / "nowhere").begin("a")
    assert not (tmp_path / "nowhere").exists()
