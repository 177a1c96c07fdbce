"""`minikafka dump-log`: verdicts and exit codes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from minikafka.cli import dump_log
from minikafka.log.filesystem import RealFileSystem
from minikafka.log.inspection import inspect_segment
from minikafka.log.log import Log, LogConfig
from minikafka.protocol.compression import Codec
from minikafka.protocol.records import build_control_batch, set_crc

from tests.unit.log.build import NOW_MS, TP, batch, replicated


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three segments, two epochs, one producer, closed cleanly."""
    config = LogConfig(segment_bytes=600, index_interval_bytes=0)
    log = Log.open(
        str(tmp_path / "t-0"), TP, config, RealFileSystem(), clean=True, recovery_point=0, now_ms=NOW_MS
    , checkpoints=None)  # fmt: skip
    for n in range(10):
        codec = Codec.GZIP if n == 3 else Codec.NONE
        log.append_as_leader(batch(3, timestamp=NOW_MS + n, producer=5, sequence=3 * n, codec=codec), n // 5, NOW_MS)
    marker = build_control_batch(commit=True, producer_id=5, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=1)
    log.append_as_leader(marker, 1, NOW_MS, internal=True)
    log.close()
    return tmp_path / "t-0"


def run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    dump_log.add_arguments(parser)
    return dump_log.run(parser.parse_args([str(argument) for argument in arguments]))


def segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def test_a_sound_directory(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(partition) == 0
    out = capsys.readouterr().out
    assert "leader epochs: 0 from 0, 1 from 15" in out
    assert out.count("CRC ok") == 11
    assert "producer 5/0 sequence 27" in out
    assert "gzip" in out
    assert "transactional control" in out
    assert out.endswith("ok: every CRC matches\n")


def test_records_and_json(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{partition}/", "--json", "--records") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["epochs"] == [{"epoch": 0, "start_offset": 0}, {"epoch": 1, "start_offset": 15}]
    batches = [each for segment in document["segments"] for each in segment["batches"]]
    assert [each["base_offset"] for each in batches] == [*range(0, 30, 3), 30]
    records = [record for each in batches for record in each["records"]]
    assert [record["offset"] for record in records] == list(range(31))
    assert records[0] == {"offset": 0, "timestamp": NOW_MS, "key": "k", "value": "v" * 20, "headers": []}
    assert run(partition, "--records") == 0
    assert "key='k' value='vvvvvvvvvvvvvvvvvvvv'" in capsys.readouterr().out


def test_a_summary_leaves_the_batches_out(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(partition, "--summary") == 0
    assert "CRC ok" not in capsys.readouterr().out
    assert run(partition, "--summary", "--json") == 0
    assert "batches" not in json.loads(capsys.readouterr().out)["segments"][0]


def test_one_segment(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(segments(partition)[1]) == 0
    assert "leader epochs" not in capsys.readouterr().out


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("position", "problem"),
    [(100, "CRC mismatch"), (16, "magic"), (8, "of the batch's"), (15, "leader epoch")],
)
def test_damage_is_named_and_counted(
    partition: Path, capsys: pytest.CaptureFixture[str], position: int, problem: str
) -> None:
    second = segments(partition)[1]
    data = second.read_bytes()
    start = int.from_bytes(data[8:12], "big") + 12 if position == 15 else 0
    flip(second, start + position)
    assert run(partition) == 1
    out = capsys.readouterr().out
    assert f"DAMAGED: byte {start}: " in out or "DAMAGED: offset" in out
    assert problem in out
    assert "recovery would keep" in out
    assert run(partition, "--json") == 1
    assert json.loads(capsys.readouterr().out)["damaged"] is True


def test_a_gap_is_told(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = segments(partition)[1]
    size = int.from_bytes(second.read_bytes()[8:12], "big") + 12
    flip(second, size + 6)  # the base offset of its second batch: 4096 more
    assert run(second) == 1  # the indexes disagree
    assert f"gap: byte {size}: 41" in capsys.readouterr().out


@pytest.mark.parametrize("left", [30, 80])
def test_a_torn_end(partition: Path, capsys: pytest.CaptureFixture[str], left: int) -> None:
    last = segments(partition)[-1]
    report = inspect_segment(RealFileSystem(), str(last))
    last.write_bytes(last.read_bytes() + segments(partition)[0].read_bytes()[:left])
    assert run(last) == 1
    assert f"keep {report.size} of {report.size + left} bytes" in capsys.readouterr().out


def test_an_impossible_length(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = segments(partition)[0]
    data = bytearray(first.read_bytes())
    data[8:12] = (5).to_bytes(4, "big")
    first.write_bytes(data)
    assert run(first) == 1
    assert "impossible" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("leader-epoch-checkpoint", b"0\n9\n", "entries announced"),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n1 99\n", "beyond the log end offset"),
        ("leader-epoch-checkpoint", b"0\n1\n7 0\n", "the checkpoint says 7"),
        ("partition.metadata", b"?", "topic_id"),
        (f"{31:020d}.snapshot", b"\0\1xx", "too short"),
        ("holiday.jpg", b"", "not a file of a log"),
        (f"{0:020d}.index", b"\0\0\0\1\0\0\0\1", "entry 0"),
        (f"{0:020d}.index", b"\0\0\0", "whole entries"),
        (f"{0:020d}.timeindex", b"\0" * 8 + b"\0\0\0\2", "entry 0"),
        (f"{0:020d}.timeindex", b"\0\0\0", "whole entries"),
    ],
)
def test_damage_beside_the_segments(
    partition: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, problem: str
) -> None:
    (partition / name).write_bytes(content)
    assert run(partition) == 1
    assert problem in capsys.readouterr().out


def test_topic_id_and_kafkas_preallocated_indexes(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for kind in ("index", "timeindex"):
        path = partition / f"{0:020d}.{kind}"
        path.write_bytes(path.read_bytes() + bytes(240))
    assert run(partition, "--json", "--summary") == 0
    assert json.loads(capsys.readouterr().out)["topic_id"] == "00000000-0000-0000-0000-000000000001"


def test_overlapping_segments(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (partition / f"{2:020d}.log").write_bytes(replicated(1, 2, 0))
    assert run(partition) == 1
    assert "overlaps" in capsys.readouterr().out


def test_a_tail_file_of_the_unflushed_volume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tail = tmp_path / f"{0:020d}.log.4096"
    tail.write_bytes(replicated(2, 17, 0))
    assert run(tail) == 0
    assert "17..18" in capsys.readouterr().out


def test_records_that_cannot_be_read_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = replicated(2, 0, 0, timestamp=2**60)
    data[22] = 1  # says gzip, is not
    set_crc(data)
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    assert run(tmp_path, "--records") == 0
    assert "records cannot be read: gzip" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["none", "empty", "text.txt"])
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("x")
    assert run(tmp_path / name) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
