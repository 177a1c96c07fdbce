"""Kafka's own DumpLogSegments reads what our log writes, and finds nothing to complain about.

Needs Java and Kafka's jars: see kafka_jars.py.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from minikafka.cli.main import main
from minikafka.log.filesystem import RealFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.protocol.compression import Codec
from minikafka.protocol.records import Record, build_batch, build_control_batch, set_crc
from minikafka.protocol.types import TopicPartition

from tests.interop.kafka_jars import run_tool

pytestmark = [pytest.mark.usefixtures("kafka_tools")]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = ("Mismatches", "Exception", "isvalid: false", "not found", "Error", "corrupt", "Found ")
GAP = re.compile(r"^\s*(?!-1 )\d+ is followed by \d+")
"""The tool also says that -1 is followed by the first offset of each segment but the first: true, and no fault."""
NOW_MS = 1_700_000_000_000


def dump(files: list[Path], *options: str) -> str:
    """Run the tool; fail on anything that it says when a file is wrong."""
    out = run_tool(DUMP, "--files", ",".join(map(str, files)), *options)
    complaints = [line for line in out.splitlines() if any(word in line for word in COMPLAINTS) or GAP.match(line)]
    assert not complaints, out[-3000:]
    return out


def client_batch(rng: random.Random, codec: Codec, first_timestamp: int, sequence: int, raw_snappy: bool) -> bytearray:
    records = [
        Record(
            n,
            first_timestamp + rng.randint(0, 5000),
            None if rng.random() < 0.2 else f"key-{n}".encode(),
            None if rng.random() < 0.1 else rng.randbytes(rng.randint(0, 400)) + b"x" * 200,
            [("trace", b"abc"), ("empty", None)] if rng.random() < 0.3 else [],
        )
        for n in range(rng.randint(1, 20))
    ]
    batch = build_batch(records, codec=codec, producer_id=4711, producer_epoch=1, base_sequence=sequence)
    if codec is Codec.SNAPPY and raw_snappy:  # librdkafka sends one raw block without snappy-java's frame
        import cramjam

        plain = build_batch(records, producer_id=4711, producer_epoch=1, base_sequence=sequence)
        body = bytes(cramjam.snappy.compress_raw(bytes(plain[61:])))
        batch = bytearray(batch[:61] + body)
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        set_crc(batch)
    return batch


def made_log(root: Path, unflushed: str | None) -> Path:
    """A log with several segments, epochs, codecs, a transaction, and a truncation, closed cleanly."""
    rng = random.Random(7)
    directory = root / "orders-0"
    config = LogConfig(segment_bytes=60_000, index_interval_bytes=1000)
    log = Log.open(
        str(directory), TopicPartition("orders", 0), config, RealFileSystem(),
        clean=True, recovery_point=0, now_ms=NOW_MS, checkpoints=None, unflushed_dir=unflushed,
    )  # fmt: skip
    sequence = 0
    for n in range(120):
        codec = Codec(n % 5)
        batch = client_batch(rng, codec, NOW_MS - 900_000 + n * 1000, sequence, raw_snappy=n % 10 == 2)
        sequence += int.from_bytes(batch[57:61], "big")
        log.append_as_leader(batch, leader_epoch=n // 40, now_ms=NOW_MS)
        if n in (30, 70):
            log.flush()
        if n == 60:
            state = log.producers.get(4711)
            assert state is not None
            log.truncate_to(state.batches[-2].first_offset)
            state = log.producers.get(4711)
            assert state is not None
            sequence = state.last_sequence + 1
    transaction = build_batch(
        [Record(0, NOW_MS, b"k", b"v")], producer_id=99, producer_epoch=0, base_sequence=0, transactional=True
    )
    log.append_as_leader(transaction, 3, NOW_MS)
    marker = build_control_batch(
        commit=True, producer_id=99, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=5
    )
    log.append_as_leader(marker, 3, NOW_MS, internal=True)
    assert len(log.segments) >= 3
    log.close()
    return directory


@pytest.fixture(scope="module")
def partition_dirs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same log without an unflushed volume and with one. Kafka's tool, a JVM for each run, reads both in one."""
    plain, volume = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("volume")
    return [made_log(plain, None), made_log(volume, str(volume / "unflushed"))]


def files_of(folder: Path, *kinds: str) -> list[Path]:
    return [path for kind in kinds for path in sorted(folder.glob(f"*.{kind}"))]


def indexes_of(folder: Path) -> list[Path]:
    found = files_of(folder, "index", "timeindex")
    assert len(found) >= 6
    assert sum(file.stat().st_size for file in found) > 500
    return found


def test_segments_indexes_and_snapshots_are_read(partition_dirs: list[Path]) -> None:
    """Segments hold valid consecutive batches, and indexes agree with them."""
    asked = [file for folder in partition_dirs for file in files_of(folder, "log", "index", "timeindex", "snapshot")]
    parts = re.split(r"^Dumping (.+)\n", dump(asked, "--deep-iteration"), flags=re.MULTILINE)
    told = dict(zip(map(Path, parts[1::2]), parts[2::2], strict=True))
    assert set(told) == set(asked)
    for folder in partition_dirs:
        segments = "".join(told[path] for path in files_of(folder, "log"))
        for codec in Codec:
            assert f"compresscodec: {codec.name.lower()}" in segments
        assert segments.count("isvalid: true") == segments.count("baseOffset:") > 100
        for epoch in range(4):
            assert f"partitionLeaderEpoch: {epoch} " in segments
        assert "endTxnMarker: COMMIT coordinatorEpoch: 5" in segments
        assert "producerId: 4711 producerEpoch: 1" in segments
        indexes = "".join(told[path] for path in indexes_of(folder))
        for word in ("offset: ", "position: ", "timestamp: "):
            assert word in indexes
        snapshots = files_of(folder, "snapshot")
        assert len(snapshots) >= 2
        states = "".join(told[path] for path in snapshots)
        client = "producerId: 4711 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty"
        assert client in states
        assert "producerId: 99 producerEpoch: 0 coordinatorEpoch: 5" in states


def test_indexes_are_sane(partition_dirs: list[Path]) -> None:
    indexes = [file for folder in partition_dirs for file in indexes_of(folder)]
    out = dump(indexes, "--index-sanity-check")
    assert out.count("passed sanity check") + out.count("is empty") == len(indexes)


@pytest.mark.full
def test_indexes_are_verified(partition_dirs: list[Path]) -> None:
    """By the same code that prints them, which says less."""
    dump([file for folder in partition_dirs for file in indexes_of(folder)], "--verify-index-only")


def test_our_own_dump_log_agrees(partition_dirs: list[Path], capfd: pytest.CaptureFixture[str]) -> None:
    for folder in partition_dirs:
        assert main(["dump-log", str(folder)]) == 0
        assert "ok: every CRC matches" in capfd.readouterr().out
