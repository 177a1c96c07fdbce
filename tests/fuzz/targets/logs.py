"""The files of a data directory: what brokers recover, what they trust after a clean shutdown, and dump-log."""

from __future__ import annotations

import argparse
import contextlib
import io
import struct
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from crc32c import crc32c
from minikafka.cli import dump_log
from minikafka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    decode_uuid,
    encode_uuid,
    format_checkpoint,
    format_clean_shutdown,
    format_meta_properties,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    read_offsets,
    write_offsets,
)
from minikafka.log.config import LogConfig
from minikafka.log.data_directory import DataDirectory
from minikafka.log.epochs import CHECKPOINT_NAME, LeaderEpochCache
from minikafka.log.errors import LogError
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import Log
from minikafka.log.producer_state import CorruptSnapshot, decode_snapshot, encode_snapshot
from minikafka.log.truncation import RESTART, interrupted_restart
from minikafka.protocol.compression import Codec
from minikafka.protocol.records import HEADER_BYTES, MAGIC, MAGIC_POSITION, build_control_batch, set_crc

from tests.fuzz.choices import Choices, pieces
from tests.fuzz.target import Refuted, Target
from tests.unit.log.build import DIR, NOW_MS, TAILS, batch, open_log

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=0)
SNAPSHOT_HEAD_BYTES = 6
SECOND = 9
"""The offset at which a second segment may begin."""
SEGMENTS = ("00000000000000000000", f"{SECOND:020d}", "09223372036854775800", "99999999999999999999")
NAMES = (
    *(f"{base}.{kind}" for base in SEGMENTS for kind in ("log", "index", "timeindex", "snapshot")),
    CHECKPOINT_NAME,
    PARTITION_METADATA,
    RESTART,
    "00000000000000000009.txnindex",
    "00000000000000000000.log.deleted",
)
UNFLUSHED = ("00000000000000000000.log.0", "00000000000000000009.log.5", "0.log.\N{SUPERSCRIPT TWO}")
RIGHT_CRC, CLEAN, HAS_TAILS = 1, 2, 4


class Directory:
    """The files of a partition, as an input has them: flags, recovery point, log start, and then name and content of each."""

    def __init__(self, data: bytes) -> None:
        choices = Choices(data)
        self.flags = choices.number()
        self.recovery_point = choices.number()
        self.log_start = choices.number()
        self.files: dict[str, bytes] = {}
        self.tails: dict[str, bytes] = {}
        while choices.left:
            number = choices.number()
            if self.flags & HAS_TAILS and number >= 128:
                self.tails[UNFLUSHED[number % len(UNFLUSHED)]] = self._sound(".log", choices.piece())
            else:
                name = NAMES[number % len(NAMES)]
                self.files[name] = self._sound(name, choices.piece())

    def _sound(self, name: str, content: bytes) -> bytes:
        """Make checksums right where the flags say so: a search would not get past them."""
        if not self.flags & RIGHT_CRC:
            return content
        if name.endswith(".log"):
            return _with_right_crcs(content)
        return _with_right_crc(content) if name.endswith(".snapshot") else content


def _with_right_crcs(content: bytes) -> bytes:
    segment = bytearray(content)
    position = 0
    while len(segment) - position >= HEADER_BYTES and segment[position + MAGIC_POSITION] == MAGIC:
        size = 12 + int(struct.unpack_from(">i", segment, position + 8)[0])
        if not HEADER_BYTES <= size <= len(segment) - position:
            break
        set_crc(memoryview(segment)[position : position + size])
        position += size
    return bytes(segment)


def _with_right_crc(content: bytes) -> bytes:
    body = content[SNAPSHOT_HEAD_BYTES:]
    return content[:2] + crc32c(body).to_bytes(4, "big") + body if len(content) >= SNAPSHOT_HEAD_BYTES else content


def recover(data: bytes) -> None:
    """Open a log whose files are the input's, read it, write to it, and open it again.

    After a recovery all of it can be read, and the next recovery finds the same.
    """
    directory = Directory(data)
    fs = MemoryFileSystem()
    fs.makedirs(DIR)
    for name, content in directory.files.items():
        fs.write_atomic(f"{DIR}/{name}", content)
    unflushed = bool(directory.flags & HAS_TAILS)
    if unflushed:
        fs.makedirs(TAILS)
        for name, content in directory.tails.items():
            fs.write_atomic(f"{TAILS}/{name}", content)
    clean = bool(directory.flags & CLEAN)

    def opened(recovery_point: int, start: int) -> Log:
        return open_log(
            fs, CONFIG, clean=clean, recovery_point=recovery_point, unflushed=unflushed, log_start_offset=start
        )

    log = opened(directory.recovery_point, directory.log_start)
    if clean:
        with contextlib.suppress(LogError):
            list(log.read_batches(log.log_start_offset, log.log_end_offset))
        return
    list(log.read_batches(log.log_start_offset, log.log_end_offset))
    log.offset_for_timestamp(NOW_MS, log.log_end_offset)
    with contextlib.suppress(LogError):
        log.append_as_leader(batch(2), max(log.epochs.latest, 0), NOW_MS)
    end = log.log_end_offset
    log.flush()
    fs.kill()
    again = opened(log.recovery_point, log.log_start_offset)
    if again.log_end_offset != end or again.recovery.truncated_bytes:
        raise Refuted(f"recovered to {again.log_end_offset}, which was {end} before: {again.recovery}")


@cache
def _written() -> dict[str, bytes]:
    """A log of three segments, two epochs and a producer, closed."""
    fs = MemoryFileSystem()
    log = open_log(fs, CONFIG)
    for n in range(6):
        codec = Codec.GZIP if n == 3 else Codec.NONE
        log.append_as_leader(batch(3, timestamp=NOW_MS + n, producer=5, sequence=3 * n, codec=codec), n // 3, NOW_MS)
    marker = build_control_batch(commit=True, producer_id=5, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=1)
    log.append_as_leader(marker, 1, NOW_MS, internal=True)
    log.producers.take_snapshot(0, durable=True)
    log.producers.take_snapshot(SECOND, durable=True)
    log.close()
    return {name: fs.read_bytes(f"{DIR}/{name}") for name in fs.listdir(DIR)}


def directories() -> Iterator[bytes]:
    """Make the directory of a log that was closed, opened as clean or not, and with tails."""
    files = {name: content for name, content in _written().items() if name in NAMES}
    content = b"".join(bytes((NAMES.index(name),)) + pieces([text]) for name, text in files.items())
    for flags in (0, RIGHT_CRC, CLEAN, RIGHT_CRC | CLEAN):
        yield bytes((flags, SECOND, 0)) + content
    first = next(text for name, text in files.items() if name.endswith(".log"))
    yield bytes((RIGHT_CRC | HAS_TAILS, 0, 0, 129)) + pieces([first])
    for base in (2, 3):
        number = NAMES.index(f"{SEGMENTS[base]}.log")
        one = bytearray(first[: 12 + int(struct.unpack_from(">i", first, 8)[0])])
        struct.pack_into(">q", one, 0, min(int(SEGMENTS[base]), 2**63 - 1))
        yield bytes((RIGHT_CRC, 0, 0, number)) + pieces([bytes(one)])
    yield bytes((RIGHT_CRC, 0, 0, NAMES.index(RESTART))) + pieces([b"5\n"])


def _checkpoint(text: bytes) -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    fs.write_atomic("/data/checkpoint", text)
    write_offsets(fs, "/data/checkpoint", read_offsets(fs, "/data/checkpoint"))


def _epochs(text: bytes) -> None:
    fs = MemoryFileSystem()
    fs.makedirs(DIR)
    fs.write_atomic(f"{DIR}/{CHECKPOINT_NAME}", text)
    cache = LeaderEpochCache.load(fs, DIR)
    cache.truncate_from_start(3)
    cache.truncate_from_end(5)
    cache.assign(max(cache.latest, 0) + 1, 9)


def _snapshot(text: bytes) -> None:
    for content in (text, _with_right_crc(text)):
        try:
            producers = decode_snapshot(content, "snapshot")
        except CorruptSnapshot:
            continue
        encode_snapshot(producers)


def _restart(text: bytes) -> None:
    fs = MemoryFileSystem()
    fs.makedirs(DIR)
    fs.write_atomic(f"{DIR}/{RESTART}", text)
    interrupted_restart(fs, DIR)


def _partition_metadata(text: bytes) -> None:
    decode_uuid(encode_uuid(parse_partition_metadata(text, PARTITION_METADATA)))


def _data_directory(text: bytes) -> None:
    """A file of that name in a data directory, beside those that are always there."""
    fs = MemoryFileSystem()
    name, _, content = text.partition(b"\n")
    owner = MetaProperties("id", 1)
    fs.makedirs("/data")
    fs.write_atomic(f"/data/{META_PROPERTIES}", format_meta_properties(owner))
    clean = "".join(each for each in name.decode(errors="replace") if each.isprintable() and each != "/")
    if clean not in ("", ".", ".."):
        fs.write_atomic(f"/data/{clean}", content)
    found = DataDirectory.open(fs, "/data", owner)
    found.partitions()
    found.remove_deleted()
    found.take_clean_marker()


_READERS: tuple[Callable[[bytes], object], ...] = (
    _checkpoint,
    _epochs,
    _snapshot,
    _restart,
    _partition_metadata,
    lambda text: parse_meta_properties(text, META_PROPERTIES),
    parse_clean_shutdown,
    _data_directory,
)


def read_small_file(data: bytes) -> None:
    """Read a small file: the first byte says which."""
    _READERS[data[0] % len(_READERS) if data else 0](data[1:])


def small_files() -> Iterator[bytes]:
    """Make each small file as brokers write it."""
    offsets = format_checkpoint([("t", 0, 5), ("t-1", 2, 0)])
    snapshot = next(content for name, content in sorted(_written().items(), reverse=True) if name.endswith(".snapshot"))
    topic_id = decode_uuid("AAAAAAAAAAAAAAAAAAAABQ")
    for number, content in enumerate(
        (
            offsets,
            format_checkpoint([(0, 0), (3, 5)]),
            snapshot,
            b"5\n",
            format_partition_metadata(topic_id),
            format_meta_properties(MetaProperties("id", 1)),
            format_clean_shutdown(7),
            CLEAN_SHUTDOWN.encode() + b"\n" + format_clean_shutdown(7),
        )
    ):
        yield bytes((number,)) + content
    yield b"\7replication-offset-checkpoint\n" + offsets


@cache
def _scratch() -> Path:
    """A folder in memory that goes with the process."""
    place = tempfile.TemporaryDirectory(prefix="minikafka-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    _KEPT.append(place)
    return Path(place.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def dump(data: bytes) -> None:
    """Print a partition's directory, as text and as JSON."""
    directory = Directory(data)
    with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
        for name, content in directory.files.items():
            (Path(folder) / name).write_bytes(content)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            for as_json in (False, True):
                options = argparse.Namespace(path=folder, records=True, summary=False, json=as_json)
                dump_log.run(options)
            first = next((name for name in directory.files if name.endswith(".log")), "none")
            dump_log.run(argparse.Namespace(path=f"{folder}/{first}", records=True, summary=False, json=False))


TARGETS = (
    Target("log-recovery", recover, directories, (LogError,)),
    Target("small-files", read_small_file, small_files, (LogError, CorruptSnapshot)),
    Target("dump-log", dump, directories, ()),
)
