"""A power loss takes bytes behind the last flush and no others, whatever the mode; a seed takes the same ones again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from minikafka.agent.power_loss import Cut, PowerLossMode, carry_out, empty, lost_bytes, plan
from minikafka.log.filesystem import RealFileSystem
from minikafka.log.log import Log, LogConfig

from tests.unit.log.build import NOW_MS, TP, batch, contents

SMALL = LogConfig(segment_bytes=600)
FLUSHED, UNFLUSHED = 4, 9
"""Batches; so many that the unflushed ones span segments."""
SEEDS = range(12)


class Disk:
    """A log in real files, with an unflushed volume."""

    def __init__(self, root: Path, config: LogConfig = SMALL) -> None:
        self.root = root
        self.data = root / "data"
        self.unflushed = root / "unflushed"
        self.config = config
        self.data.mkdir(parents=True)
        self.unflushed.mkdir()

    def open(self, *, clean: bool = False, recovery_point: int = 0) -> Log:
        directory = str(self.data / str(TP))
        return Log.open(
            directory,
            TP,
            self.config,
            RealFileSystem(),
            clean=clean,
            recovery_point=recovery_point,
            now_ms=NOW_MS,
            checkpoints=None,
            unflushed_dir=str(self.unflushed),
        )

    def written(self) -> tuple[list[bytes], list[bytes]]:
        """Write, flush, write more, and die; the batches that were flushed, and all."""
        log = self.open(clean=True)
        for n in range(FLUSHED):
            log.append_as_leader(batch(3, timestamp=NOW_MS + n), 0, NOW_MS)
        log.flush()
        flushed = contents(log)
        for n in range(UNFLUSHED):
            log.append_as_leader(batch(3, timestamp=NOW_MS + 100 + n), 0, NOW_MS)
        return flushed, contents(log)

    def lose_power(self, mode: PowerLossMode, seed: int = 0) -> list[Cut]:
        cuts = plan([self.data], self.unflushed, mode, seed)
        carry_out(cuts)
        empty(self.unflushed)
        return cuts

    def copy(self, name: str) -> Disk:
        shutil.copytree(self.root, self.root.with_name(name))
        made = Disk.__new__(Disk)
        made.root, made.config = self.root.with_name(name), self.config
        made.data, made.unflushed = made.root / "data", made.root / "unflushed"
        return made

    def files(self) -> dict[str, bytes]:
        found = self.data.rglob("*")
        return {str(path.relative_to(self.data)): path.read_bytes() for path in found if path.is_file()}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "disk")


def test_all_that_was_not_flushed_and_nothing_else(disk: Disk) -> None:
    flushed, everything = disk.written()
    assert flushed and len(everything) == len(flushed) + UNFLUSHED
    cuts = disk.lose_power(PowerLossMode.ALL)
    assert lost_bytes(cuts) == sum(map(len, everything)) - sum(map(len, flushed))
    log = disk.open(recovery_point=3 * FLUSHED)
    assert contents(log) == flushed
    assert log.recovery.unflushed_lost and not log.recovery.lost


@pytest.mark.slow
@pytest.mark.parametrize("mode", [PowerLossMode.TORN, PowerLossMode.GARBAGE])
def test_a_part_of_it(disk: Disk, mode: PowerLossMode) -> None:
    """Whatever survives is a beginning of the log, with all that was flushed; some seeds keep more than that."""
    flushed, everything = disk.written()
    ends = set()
    for seed in SEEDS:
        lost = disk.copy(f"{mode}-{seed}")
        cuts = lost.lose_power(mode, seed)
        assert lost_bytes(cuts) > 0
        log = lost.open(recovery_point=3 * FLUSHED)
        found = contents(log)
        assert found == everything[: len(found)]
        assert len(flushed) <= len(found) < len(everything)
        assert log.recovery.unflushed_lost
        ends.add(len(found))
    assert len(ends) > 3, "the cuts are spread"


def test_garbage_stays_within_what_was_not_flushed(disk: Disk) -> None:
    disk.written()
    sizes = {cut.data: cut.start + cut.unflushed for cut in plan([disk.data], disk.unflushed, PowerLossMode.GARBAGE, 1)}
    beginnings = {
        cut.data: Path(cut.data).read_bytes()[: cut.start]
        for cut in plan([disk.data], disk.unflushed, PowerLossMode.ALL, 1)
    }
    cuts = disk.lose_power(PowerLossMode.GARBAGE, 1)
    assert sum(cut.garbage for cut in cuts) > 0
    for cut in cuts:
        content = Path(cut.data).read_bytes()
        assert content.startswith(beginnings[cut.data])
        assert len(content) == cut.start + cut.kept + cut.garbage <= sizes[cut.data]


@pytest.mark.parametrize("mode", list(PowerLossMode))
def test_the_same_seed_does_the_same(disk: Disk, mode: PowerLossMode) -> None:
    disk.written()
    one, two, other = disk.copy("one"), disk.copy("two"), disk.copy("other")
    for each, seed in ((one, 7), (two, 7), (other, 8)):
        each.lose_power(mode, seed)
    assert one.files() == two.files()
    assert (one.files() == other.files()) is (mode is PowerLossMode.ALL)


@pytest.mark.parametrize("mode", list(PowerLossMode))
def test_a_plan_that_is_carried_out_again_does_no_more(disk: Disk, mode: PowerLossMode) -> None:
    """An agent that died in the middle: its plan is in faults.json, and who repeats the verb goes on with it."""
    disk.written()
    other = disk.copy("other")
    expected = disk.lose_power(mode, 3)
    planned = json.dumps([cut.as_json() for cut in plan([other.data], other.unflushed, mode, 3)])
    assert [cut["kept"] for cut in json.loads(planned)] == [cut.kept for cut in expected]
    for cut in (Cut(**each) for each in json.loads(planned)):
        carry_out([cut])
        with open(cut.data, "r+b") as data:  # in the middle of the work: something was written, and not all
            data.truncate(cut.start)
            data.seek(cut.start)
            data.write(b"?" * (cut.unflushed + 5))
    carry_out([Cut(**cut) for cut in json.loads(planned)])
    assert other.files() == disk.files()


@pytest.mark.parametrize("copied", [1, 50, 10_000])
def test_half_a_copy_to_the_data_file_is_not_flushed(disk: Disk, copied: int) -> None:
    """The process died while it copied a tail to its data file: no flush has ended, so a power loss may take the copy."""
    log = disk.open(clean=True)
    log.append_as_leader(batch(3), 0, NOW_MS)
    log.flush()
    flushed = contents(log)
    log.append_as_leader(batch(3), 0, NOW_MS)
    (tail,) = (disk.unflushed / str(TP)).iterdir()
    (data,) = (disk.data / str(TP)).glob("*.log")
    with data.open("ab") as file:
        file.write(tail.read_bytes()[:copied])
    disk.lose_power(PowerLossMode.ALL)
    assert data.stat().st_size == sum(map(len, flushed))
    assert contents(disk.open(recovery_point=3)) == flushed


def test_what_no_log_goes_on_with_is_left_to_the_broker(disk: Disk) -> None:
    """Tails of a topic that was deleted, tails that continue nothing, and files of no meaning: emptied, data untouched."""
    disk.written()
    before = disk.files()
    shutil.rmtree(disk.unflushed)
    (disk.unflushed / "gone-0").mkdir(parents=True)
    (disk.unflushed / "gone-0" / f"{0:020d}.log.0").write_bytes(b"x")
    (disk.unflushed / str(TP)).mkdir()
    (disk.unflushed / str(TP) / f"{0:020d}.log.999999").write_bytes(b"x")
    (disk.unflushed / str(TP) / f"{777:020d}.log.0").write_bytes(b"x")
    (disk.unflushed / "note").write_text("x")
    assert disk.lose_power(PowerLossMode.TORN) == []
    assert disk.files() == before
    assert list(disk.unflushed.iterdir()) == []


def test_a_volume_that_is_not_there(tmp_path: Path) -> None:
    assert plan([tmp_path], tmp_path / "none", PowerLossMode.ALL, 0) == []
    empty(tmp_path / "none")
